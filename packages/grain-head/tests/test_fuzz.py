"""Members that talk nonsense: random messages to a live hub, an agent's and a mission's session.

Honest peers work through the same hub all the while: after each message the invariants of the
scheduler and the laws that the records of a hub obey hold, and in the end all honest tasks have
resolved. GRAIN_FUZZ=1000 makes it last a thousand times as long (some million messages).
"""

from __future__ import annotations

import inspect
import itertools
import math
import os
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from grain.edge.errors import ChannelError
from grain.edge.questions import Ask, pack
from grain.edge.version import Versions
from grain.head.errors import BadMessage
from grain.head.hub.hub import Hub
from grain.head.messages import HEAD, MISSION, Crash, RegisterMission, Request, Submit, Synced
from grain.head.service import CODEC
from grain.head.testing import check_hub
from grain.remote_exer.session import MissionSession
from grain.resource import Cores
from grain.worker.agent.session import WorkerSession
from grain.worker.messages import (
    AGENT,
    BlockingCode,
    DefineFunction,
    Ended,
    Inventory,
    InventoryEnd,
    InventoryRun,
    RegisterWorker,
    Run,
)
from grain.worker.messages import HEAD as AGENT_HEAD
from grain.worker.payload import Function

if TYPE_CHECKING:
    from grain.edge.messages import Message

TIMES = float(os.environ.get("GRAIN_FUZZ", "1"))
MESSAGES = 40  # in one example

fuzz = settings(
    max_examples=int(60 * TIMES),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# Few values each, so that messages refer to each other: sensible ones in most messages, as one odd
# value is enough for a message to be refused.
attempts = st.tuples(st.sampled_from([1, 1, 2]), st.integers(0, 8))
SENSE: dict[str, st.SearchStrategy[Any]] = {
    "str": st.sampled_from(["liar", "other", "honest-mission"]),
    "int": st.integers(0, 6),
    "float": st.sampled_from([0.0, 1.5]),
    "float | None": st.sampled_from([None, 1.5, 100.0]),
    "bool": st.booleans(),
    "bytes": st.sampled_from([b"f" * 16, b"g" * 16]),
    "dict[str, Any]": st.sampled_from(
        [{}, {"Cores": 1}, {"Cores": [1]}, {"Cores": 2}, {"Unknown": 1}, {"WTime": {"T": 90.0}}]
    ),
    "Attempt": attempts,
}
odd_numbers = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63])
odd_floats = st.sampled_from([-math.inf, -1.0, 0.0, 1.5, 1e300, math.inf, math.nan])
odd_names = st.sampled_from(["liar", "", "x" * 300])
ODD: dict[str, st.SearchStrategy[Any]] = {
    "str": odd_names,
    "int": odd_numbers,
    "float": odd_floats,
    "float | None": odd_floats,
    "bool": st.booleans(),
    "bytes": st.sampled_from([b"", b"f" * 16, b"h" * 400]),
    "dict[str, Any]": st.dictionaries(
        st.sampled_from(["Cores", "Memory", "WTime", "GPUs", "Capacity", "Token", "Unknown"]),
        st.one_of(
            st.sampled_from(
                [1, 2, 0, -5, 2**40, math.nan, math.inf, 1e300, "", "tag", None, True, b""]
            ),
            st.lists(st.sampled_from([0, 1, 1, 2, -1, "x"]), max_size=3),
            st.fixed_dictionaries(
                {},
                optional={
                    "T": odd_floats,
                    "softT": odd_floats,
                    "group": odd_names,
                    "countdown": st.booleans(),
                    "N": odd_numbers,
                },
            ),
        ),
        max_size=3,
    ),
    "Attempt": st.tuples(st.sampled_from([1, 2, -1, 2**62]), odd_numbers),
}


def built(
    kind: type[Any], values: dict[str, st.SearchStrategy[Any]], **fixed: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    """Return messages of a kind, with values of the right types and no more sense than given."""
    types: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        types.update(inspect.get_annotations(cls))
    fields = {name: values[types[name]] for name in kind.__struct_fields__}
    return st.builds(kind, **{**fields, **fixed})


for values in (SENSE, ODD):
    text = values["str"]
    values["Versions"] = st.builds(Versions, text, text, text, text)
    values["Crash"] = built(Crash, values)
    values["BlockingCode"] = built(BlockingCode, values)
    run = built(InventoryRun, values)
    for name, one in (
        ("int", values["int"]),
        ("bytes", values["bytes"]),
        ("Attempt", values["Attempt"]),
        ("Crash", values["Crash"]),
        ("InventoryRun", run),
        ("tuple[str, float]", st.tuples(text, values["float"])),
    ):
        values[f"tuple[{name}, ...]"] = st.lists(one, max_size=3).map(tuple)
    values["Status"] = st.sampled_from(["value", "error", "cancelled", "crashed", "returned"])
    values["Ending"] = st.sampled_from(["value", "error", "crashed"])
    values["Literal['refused', 'failed', 'replaced']"] = st.sampled_from(
        ["refused", "failed", "replaced"]
    )


asks = st.builds(
    Ask,
    st.sampled_from(["state", "why", "arguments", "programs", "load", "retire", "find", "cancel"]),
    odd_names,
    odd_numbers,
    st.sampled_from(["liar", "[", "x" * 300]),
    st.booleans(),
    odd_names,
)


def kinds(*types: type[Message]) -> st.SearchStrategy[Message]:
    wanted = [kind for kind in dict.fromkeys(types) if kind is not Ask]
    # A liar may not come as the honest mission, which would lose its id to it.
    own: dict[Any, dict[str, st.SearchStrategy[Any]]] = {
        RegisterMission: {"mission": st.sampled_from(["liar", "other"])}
    }
    sense = st.one_of([built(kind, SENSE, **own.get(kind, {})) for kind in wanted])
    odd = st.one_of([built(kind, ODD) for kind in wanted])
    return st.one_of(sense, sense, sense, odd, *([asks] if Ask in types else []))


payloads = st.sampled_from([None, b"", b"payload", pack([1, 2]), pack("words")])
F = Function(b"f" * 16, b"function", "f")


class Honest:
    """A mission and a worker that tell the truth, at a hub that others lie to."""

    def __init__(self) -> None:
        self.hub = Hub(1, 0.0)
        self.hub.tasks.max_unconfirmed = 2  # liars confirm little
        self.now = 0.0
        self.mission = MissionSession("honest-mission", "m")
        self.worker = WorkerSession("honest-worker", "w", "host", Cores(2), 0.0)
        self.mission.on_connected()
        self.worker.on_connected(0.0)
        self.request = self.mission.request({"Cores": 1})
        self.mission.define(F)
        self.expected: set[int] = set()
        self.exchange()

    def submit(self) -> None:
        self.expected.add(self.mission.submit(self.request, F.digest, b"arguments"))

    def exchange(self) -> None:
        """Let messages travel until there are none; every run ends at once."""
        while True:
            self.mission.confirm()
            mail: list[tuple[str, Any, Any]]
            mail = [("mission", *pair) for pair in self.mission.take_mail()]
            self.worker.on_tick(self.now)
            mail += [("worker", *pair) for pair in self.worker.take_mail()]
            for link, message, payload in mail:
                self.hub.on_message(link, message, payload, self.now)
            self.hub.dispatch(self.now)
            check_hub(self.hub, self.now)
            post = self.hub.take()
            for messages in post.values():
                for message, payload in messages:
                    CODEC.encode(message, 0 if payload is None else 1)  # it can travel
            for message, payload in post.get("mission", ()):
                self.mission.on_message(message, payload)
            for message, payload in post.get("worker", ()):
                self.worker.on_message(message, payload, self.now)
            for order, _ in self.worker.take_orders():
                if isinstance(order, Run):
                    self.worker.on_ended(Ended(order.attempt), b"value", self.now)
            if not mail and not self.mission.to_head and not self.worker.to_head:
                return


LIARS = ("one", "two", "three")
# They begin as honest peers would, so that most of their messages get as far as they can.
BEGINNING: list[tuple[str, Message]] = [
    ("one", RegisterMission("liar", "liar")),
    ("one", Request(1, {"Cores": 1})),
    ("one", DefineFunction(b"f" * 16)),
    ("one", Submit(1, 1, b"f" * 16)),
    ("one", Synced()),
    ("two", RegisterWorker("other", "other", "host", {"Cores": 2})),
    ("two", InventoryEnd()),
    ("three", RegisterWorker("liar", "liar", "host", {"Cores": 2})),
]


class Liars:
    """Peers that say anything, and come again when they are dropped."""

    def __init__(self, honest: Honest) -> None:
        self._honest = honest
        self._connections = itertools.count(10)  # more than any that a liar states
        self.begin()
        honest.exchange()

    def begin(self, *links: str) -> None:
        for link, message in BEGINNING:
            if link in (links or LIARS):
                if isinstance(message, RegisterMission | RegisterWorker):
                    message = replace(message, connection=next(self._connections))
                self._honest.hub.on_message(link, message, b"", self._honest.now)

    def lose(self) -> None:
        for link in LIARS:
            self._honest.hub.on_link_lost(link, self._honest.now)

    def send(self, link: str, message: Message, payload: Any) -> None:
        honest = self._honest
        try:
            honest.hub.on_message(link, message, payload, honest.now)
        except BadMessage as error:
            honest.hub.dismiss(link, str(error), honest.now, refused=True)
            self.begin(link)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("one"), kinds(*MISSION), payloads),
        st.tuples(st.sampled_from(["two", "three"]), kinds(*AGENT), payloads),
        st.tuples(st.just("three"), kinds(RegisterWorker, Inventory, InventoryEnd), payloads),
        st.tuples(st.sampled_from(LIARS), kinds(*MISSION, *AGENT), payloads),
        st.sampled_from(["lose", "submit", "time", "grace"]),
    ),
    min_size=MESSAGES,
    max_size=MESSAGES,
)


@fuzz
@given(steps)
def test_a_hub_serves_honest_peers_whatever_others_say(script: list[Any]) -> None:
    honest = Honest()
    hub = honest.hub
    liars = Liars(honest)
    for step in script:
        if step == "submit":
            honest.submit()
        elif step == "lose":
            liars.lose()
            liars.begin()
        elif step in ("time", "grace"):
            for _ in range(15 if step == "grace" else 1):
                honest.now += 5.0
                hub.on_tick(honest.now)
        else:
            liars.send(*step)
        honest.exchange()
    honest.submit()
    for _ in range(60):  # liars have no more to say, and their grace period passes
        liars.lose()
        honest.now += 5.0
        hub.on_tick(honest.now)
        honest.exchange()
    resolved = {resolution.task: resolution for resolution in honest.mission.take_resolved()}
    assert {} == honest.mission.pending
    assert honest.expected == resolved.keys()


@fuzz
@given(
    st.lists(
        st.tuples(kinds(*HEAD), payloads) | st.just("again"), min_size=MESSAGES, max_size=MESSAGES
    )
)
def test_a_mission_session_survives_whatever_its_head_says(script: list[Any]) -> None:
    """Its shell ends a connection whose head makes no sense, and takes no other harm."""
    session = MissionSession("m", "m")
    session.on_connected()
    request = session.request({"Cores": 1})
    session.define(F)
    tasks = {session.submit(request, F.digest, b"") for _ in range(3)}
    resolved = []
    for step in script:
        try:
            if step == "again":
                session.on_disconnected()
                session.on_connected()
            else:
                session.on_message(*step)
        except ChannelError:
            session.on_disconnected()
            session.on_connected()
        session.confirm()
        session.count_stuck()
        session.take_mail()
        resolved += [resolution.task for resolution in session.take_resolved()]
        assert len(resolved) == len(set(resolved))
        assert tasks == {*resolved, *session.pending}
        assert session.running == sum(bool(p.worker) for p in session.pending.values())


@fuzz
@given(
    st.lists(
        st.tuples(kinds(*AGENT_HEAD), payloads) | st.sampled_from(["again", "time", "end", "die"]),
        min_size=MESSAGES,
        max_size=MESSAGES,
    )
)
def test_a_worker_session_survives_whatever_its_head_says(script: list[Any]) -> None:
    session = WorkerSession("w", "w", "host", Cores(2), 0.0)
    now = 0.0
    session.on_connected(now)
    for step in script:
        if step == "again":
            session.on_disconnected()
            session.on_connected(now)
        elif step == "time":
            now += 1.0
        elif step == "die":
            session.on_runner_crashed("it died", now)
            assert {} == session.runs
        elif step == "end":
            for attempt in list(session.runs)[:1]:
                session.on_ended(Ended(attempt), b"value", now)
                assert attempt not in session.runs
        else:
            message, payload = step
            session.on_message(message, payload, now)
        session.on_tick(now)
        session.take_orders()
        for report, _ in session.take_mail():
            CODEC.encode(report, None)
    for attempt in list(session.runs):
        session.on_ended(Ended(attempt), b"value", now)
    session.on_tick(now + 100.0)
    session.drain(now + 100.0)
    session.on_tick(now + 200.0)
    assert session.finished
