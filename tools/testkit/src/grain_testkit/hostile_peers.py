"""Members that talk nonsense, and what must hold for their hearers.

Each of `TARGETS` is a script of random steps, and a function that carries it out and raises when a
law is broken.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from grain.edge.errors import ChannelError
from grain.edge.messages import Message
from grain.head.errors import BadMessage
from grain.head.hub.hub import Hub
from grain.head.messages import (
    CancelTask,
    Ending,
    RegisterMission,
    Request,
    Resolved,
    Started,
    Submit,
    Synced,
)
from grain.head.service import CODEC
from grain.remote_exer.lanes import LINGER, MissionLanes
from grain.remote_exer.session import MissionSession, taken
from grain.resource import Cores
from grain.worker.agent.session import WorkerSession
from grain.worker.messages import CODEC as AGENT_CODEC
from grain.worker.messages import (
    LANE_CODEC,
    DefineFunction,
    Ended,
    Inventory,
    InventoryEnd,
    LaneOutcome,
    RegisterWorker,
    StartRun,
)
from grain.worker.payload import Function
from grain_testkit.hostile_messages import (
    ENDED,
    FROM_RUNNER,
    IN_LANE,
    TO_AGENT,
    TO_HUB,
    TO_MISSION,
    messages,
    payloads,
    travel,
)
from grain_testkit.scheduler_harness import check_hub
from grain_testkit.submitted_tasks import remote_task

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from grain.edge.messages import Payload
    from grain.remote_exer.lanes import Lane

    Script = list[Any]
    Carry = Callable[[Script, Counter[str]], None]

MESSAGES = 40
"""The steps of one script; most of them are messages."""

LIARS = ("one", "two", "three")
F = Function(b"f" * 16, b"function", "f")


class Honest:
    """A mission and a worker that tell the truth, at a hub that others lie to."""

    def __init__(self) -> None:
        self.hub = Hub(1, 0.0)
        self.hub.outcomes.max_unconfirmed = 2  # liars confirm little
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
        self.expected.add(self.mission.submit(remote_task(self.request, F.digest, b"arguments")))

    def exchange(self) -> None:
        """Let messages travel until there are none; every run ends at once."""
        while True:
            self.mission.confirm()
            mail: list[Any] = [("mission", *pair) for pair in self.mission.take_mail()]
            self.worker.on_tick(self.now)
            mail += [("worker", *pair) for pair in self.worker.take_mail()]
            for link, message, payload in mail:
                self.hub.on_message(link, message, payload, self.now)
            self.hub.dispatch(self.now)
            check_hub(self.hub, self.now)
            post = self.hub.take()
            for letters in post.values():
                for message, payload in letters:
                    CODEC.encode(message, 0 if payload is None else 1)  # it can travel
            for message, payload in post.get("mission", ()):
                self.mission.on_message(message, payload)
            for message, payload in post.get("worker", ()):
                self.worker.on_message(message, payload, self.now)
            for order, _ in self.worker.take_orders():
                if isinstance(order, StartRun):
                    self.worker.on_ended(Ended(order.attempt), b"value", self.now)
            if not mail and not self.mission.to_head and not self.worker.to_head:
                return


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
            honest.hub.on_message(link, *travel(CODEC, message, payload), honest.now)
        except BadMessage as error:
            honest.hub.disconnect(link, str(error), honest.now, refused=True)
            self.begin(link)


def _script(*steps: st.SearchStrategy[Any]) -> st.SearchStrategy[Script]:
    return st.lists(st.one_of(*steps), min_size=MESSAGES, max_size=MESSAGES)


HUB_SCRIPTS = _script(
    st.tuples(st.just("one"), TO_HUB["mission"], payloads),
    st.tuples(st.sampled_from(["two", "three"]), TO_HUB["worker"], payloads),
    st.tuples(st.just("three"), messages([RegisterWorker, Inventory, InventoryEnd]), payloads),
    st.tuples(st.sampled_from(LIARS), TO_HUB["question"], payloads),
    st.tuples(st.sampled_from(LIARS), TO_HUB["any"], payloads),
    st.sampled_from(["lose", "submit", "time", "grace"]),
)


def lie_to_a_hub(script: Script, counts: Counter[str]) -> None:
    """Serve honest peers and liars by one hub; all tasks of the honest mission resolve.

    Raises:
        AssertionError: an invariant of the hub is broken, or a task is lost.
    """
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
            counts[type(step[1]).__name__] += 1
            liars.send(*step)
        honest.exchange()
    honest.submit()
    for _ in range(60):  # liars have no more to say, and their grace period passes
        liars.lose()
        honest.now += 5.0
        hub.on_tick(honest.now)
        honest.exchange()
    resolved = {resolution.task: resolution for resolution in taken(honest.mission.resolved)}
    assert honest.mission.pending == {}
    assert honest.expected == resolved.keys()


MISSION_SCRIPTS = _script(
    st.tuples(TO_MISSION, payloads), st.sampled_from(["again", "cancel", "question"])
)


def lie_to_a_mission(script: Script, counts: Counter[str]) -> None:
    """Send a mission session whatever a head may; each of its tasks resolves once at most.

    Its shell ends a connection whose head makes no sense, and takes no other harm.

    Raises:
        AssertionError: the session has lost a task, or resolved one twice.
    """
    session = MissionSession("m", "m")
    session.on_connected()
    request = session.request({"Cores": 1})
    session.define(F)
    tasks = {session.submit(remote_task(request, F.digest)) for _ in range(3)}
    resolved = []
    for step in script:
        try:
            if step == "again":
                session.on_disconnected()
                session.on_connected()
            elif step == "cancel":
                session.cancel(max(tasks))
            elif step == "question":
                session.inquiries.ask_load()
            else:
                counts[type(step[0]).__name__] += 1
                session.on_message(*travel(CODEC, *step))
        except ChannelError:
            session.on_disconnected()
            session.on_connected()
        for question in taken(session.inquiries.questions):
            session.call_of(question.task)
            session.inquiries.describe(question, "call")
        session.confirm()
        session.requests.count_stuck()
        for message, _ in session.take_mail():
            CODEC.encode(message, None)
        resolved += [resolution.task for resolution in taken(session.resolved)]
        assert len(resolved) == len(set(resolved))
        assert tasks == {*resolved, *session.pending}
        there = {task for task, p in session.pending.items() if p.worker}
        assert there - session.ahead.behind.keys() == session.running.keys()


LANE_SCRIPTS = _script(
    st.tuples(IN_LANE, payloads),
    st.tuples(ENDED, payloads, st.just("of its call")),
    st.tuples(st.sampled_from(get_args(Ending)), payloads, st.none() | ENDED),
    st.sampled_from(["open", "submit", "cancel", "lose"]),
    st.sampled_from(["submit", "ask", "start", "cancel_lane", "again", "time", "rename"]),
)


class _Deaf:
    """A connection to a runner that takes whatever it gets."""

    def post(self, batch: list[tuple[Message, Payload]]) -> None:
        for message, _ in batch:
            LANE_CODEC.encode(message, None)


class LaneUser:
    """A mission with lanes, whose runners lie; the last lane is the one that things happen to."""

    def __init__(self) -> None:
        self.session = MissionSession("m", "m")
        self.session.on_connected()
        self.lanes = MissionLanes(self.session)
        self.now = 0.0
        self.tasks: set[int] = set()
        self.asked: list[int] = []
        self.resolved: list[int] = []
        self._request = self.session.request({"Cores": 1})
        self.lanes.add_request()
        self.session.define(F)
        self._lane: Lane | None = None
        self.open()
        self.submit()

    def ask(self) -> None:
        self._lane = None
        self.asked.append(self.lanes.ask(self._request, b"", self.now))

    def start(self) -> None:
        self.session.on_message(Started("w", (self.asked[-1],)), None)
        self.settle()
        self._lane = self.lanes.connect(self.asked[-1], _Deaf(), self.now) or self._lane

    def open(self) -> None:
        self.ask()
        self.start()

    def submit(self) -> None:
        record, traffic = remote_task(self._request, F.digest), self.lanes.traffic[self._request]
        if traffic.idle:
            self.tasks.add(self.lanes.board(traffic, record, self.now))
        else:
            self.tasks.add(self.session.submit(record))

    def lose(self) -> None:
        if self._lane is not None:
            self.lanes.on_disconnected(self._lane)
            self._lane = None

    def cancel(self) -> None:
        task = max(self.tasks)
        if not self.lanes.cancel(task):
            self.session.cancel(task)

    def cancel_lane(self) -> None:
        self.session.on_message(CancelTask(self.asked[-1], "user"), None)

    def again(self) -> None:
        self.session.on_disconnected()
        self.session.on_connected()

    def rename(self) -> None:
        self.session.on_disconnected()
        self.session.rename(f"{self.session.id}+")
        self.session.on_connected()

    def time(self) -> None:
        self.now += LINGER
        self.lanes.close_idle(self.now)

    def lie(self, message: Message, payload: bytes | None) -> None:
        """Send what may resolve the call of the lane only."""
        if self._lane is None:
            return
        call = self._lane.task
        self.lanes.on_message(self._lane, *travel(LANE_CODEC, message, payload), self.now)
        assert {resolution.task for resolution in self.session.resolved} <= {call}

    def lie_of_its_call(self, ended: Message, payload: bytes | None) -> None:
        attempt = (self.asked[-1], 0 if self._lane is None else self._lane.task)
        self.lie(replace(ended, attempt=attempt), payload)

    def end(self, ending: Any, payload: bytes | None, ended: Any) -> None:
        """End the lane by an outcome of its own that lies."""
        if ended is not None:
            payload = msgspec.msgpack.encode(LaneOutcome(False, ((ended, payload),)))
        self.session.on_message(Resolved(self.asked[-1], ending), payload)

    def settle(self) -> None:
        """Record what has arrived, and check that no task is lost, or resolved twice."""
        session = self.session
        self.lanes.on_news(self.now)
        taken(self.lanes.closing)
        session.confirm()
        for message, _ in session.take_mail():
            CODEC.encode(message, None)
        self.resolved += [resolution.task for resolution in taken(session.resolved)]
        assert len(self.resolved) == len(set(self.resolved))
        assert self.tasks == {*self.resolved, *session.pending.keys() - self.asked}
        assert session.aboard.keys() <= session.pending.keys()
        waiting = sum(not record.worker for record in session.pending.values())
        assert session.waiting_of(self._request) == waiting


def lie_in_lanes(script: Script, counts: Counter[str]) -> None:
    """Send a mission whatever the runners of its lanes may; each task resolves once at most.

    Raises:
        AssertionError: a task is lost, or resolved twice or by another lane than its own.
    """
    user = LaneUser()
    for step in script:
        match step:
            case (Message() as message, payload, _):
                user.lie_of_its_call(message, payload)
            case (Message() as message, payload):
                counts[type(message).__name__] += 1
                user.lie(message, payload)
            case (ending, payload, ended):
                user.end(ending, payload, ended)
            case name:
                getattr(user, name)()
        user.settle()


AGENT_SCRIPTS = _script(
    st.tuples(TO_AGENT, payloads),
    st.tuples(TO_AGENT, payloads),
    st.tuples(FROM_RUNNER, st.just("runner")),
    st.sampled_from(["again", "time", "end", "die"]),
)


def lie_to_a_worker(script: Script, counts: Counter[str]) -> None:
    """Send a worker session whatever a head and a runner may; it can always finish.

    Raises:
        AssertionError: it cannot.
    """
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
            assert session.runs == {}
        elif step == "end":
            for attempt in list(session.runs)[:1]:
                session.on_ended(Ended(attempt), b"value", now)
                assert attempt not in session.runs
        else:
            message, payload = step
            counts[type(message).__name__] += 1
            if payload != "runner":
                session.on_message(*travel(AGENT_CODEC, message, payload), now)
            elif isinstance(message, Ended):
                session.on_ended(message, b"value", now)
            else:
                session.on_inspected(message)
        session.on_tick(now)
        session.take_orders()
        for report, _ in session.take_mail():
            AGENT_CODEC.encode(report, None)
    for attempt in list(session.runs):
        session.on_ended(Ended(attempt), b"value", now)
    session.on_tick(now + 100.0)
    session.drain(now + 100.0)
    session.on_tick(now + 200.0)
    assert session.finished


class Target(NamedTuple):
    """A peer that hears nonsense.

    Attributes:
        scripts: what it hears.
        carry_out: sends one script to it, and counts the messages by kind.
    """

    scripts: st.SearchStrategy[Script]
    carry_out: Carry


TARGETS = {
    "hub": Target(HUB_SCRIPTS, lie_to_a_hub),
    "mission": Target(MISSION_SCRIPTS, lie_to_a_mission),
    "lanes": Target(LANE_SCRIPTS, lie_in_lanes),
    "worker": Target(AGENT_SCRIPTS, lie_to_a_worker),
}
