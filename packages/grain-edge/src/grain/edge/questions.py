"""Questions to a head, asked by missions and by the `grain` command, and their answers.

    async with dial(address, role="cli", codec=CODEC) as peer:
        await peer.channel.send([(Ask("state"), None)])
        [(answer, payload)] = await peer.channel.receive()
        state = unpack(payload, StateAnswer)

Each question has a struct for its answer, which the docstring of `Ask` names. It travels as a
payload: the state of a thousand workers is larger than a message may be. A field that is unknown,
missing or of another type is refused: `unpack` says if another version of Grain has answered.

Where nothing else is said, points in time are seconds since Unix' epoch, and durations are seconds.
Resources are plain data; `grain.resource.from_data` makes resources from them.

The state of a head has three views, which are not made of each other. ``state`` and ``demand`` look
at every worker and at what runs there: with 1,000 workers, 64,000 tasks that run and a million that
wait, they take the head some 50 and 200 ms. ``overview`` is asked once a second by all who watch,
and takes 0.4 ms: its rows are those of the last looks, and its lists have an end.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from grain.edge.errors import RemoteProtocolError
from grain.edge.messages import Codec, Message, Payload, Pieces
from grain.edge.version import Versions, package_version
from grain.eventlog.schema import encodable
from grain.eventlog.usage import ProgramState as ProgramState
from grain.facts.rows import AlternativeDemand as AlternativeDemand
from grain.facts.rows import Mission, Queue, Run, Worker
from grain.facts.rows import MissionOutlook as MissionOutlook

_Form = TypeVar("_Form")


class Ask(Message, frozen=True):
    """A question, which `Answer` answers.

    Attributes:
        about: ``"state"``: workers, missions and tasks, for ``grain ls`` (`StateAnswer`).
            ``"overview"``: the same in short, for ``grain top`` (`OverviewAnswer`); it may be asked
            as often as you like. ``"runs"``: runs of the worker whose id is the pattern
            (`RunsAnswer`). ``"demand"``: what tasks ask for and what workers have, for
            ``grain scale`` (`DemandAnswer`). ``"why"``: why a task waits or runs (`WhyAnswer`).
            ``"arguments"``: the call of a task, which its mission knows (`CallAnswer`); the answer
            may not come while that is busy. ``"programs"``: the external programs that a task
            runs, which its worker knows (`ProgramsAnswer`). ``"load"``: how many cores of all
            workers are in use, and how many there are (`LoadAnswer`). ``"drain"``: workers whose
            names match a pattern are to leave (a list of `Worker`). ``"ended"``: the job of
            the worker of that name has ended, says its batch system (`JobEndedAnswer`).
            ``"find"``: the mission that a word means (`FoundAnswer`). ``"cancel"``: a mission, or a
            task of it, is to end (`FoundAnswer`). ``"needs"``: the groups that learn how much
            memory to ask for; those whose names match the pattern, if there is one, are forgotten
            (a list of `NeedRow`).
        mission: the task's mission, for questions about one: its name, label or id; empty for
            the asking mission.
        task: the task's number, for questions about one; 0 cancels the whole mission.
        pattern: names of workers, as in a shell, for ``"drain"``; a worker's id, for
            ``"runs"``; a name, for ``"ended"``; names of groups, for ``"needs"``.
        at_once: hand runs back instead of waiting for their end, for ``"drain"``.
        by: the user who asks, as text, for ``"cancel"``.
        why: how the job has ended, in the words of its batch system, for ``"ended"``; or empty.
        scales: True for a process that keeps workers alive, as `grain scale`: it submits another
            one for each that has gone.
        number: comes back with the answer: answers of workers and missions may overtake each other.
    """

    about: Literal[
        "state",
        "overview",
        "runs",
        "demand",
        "why",
        "arguments",
        "programs",
        "load",
        "drain",
        "ended",
        "find",
        "cancel",
        "needs",
    ]
    mission: str = ""
    task: int = 0
    pattern: str = ""
    at_once: bool = False
    by: str = ""
    why: str = ""
    scales: bool = False
    number: int = 0


class Answer(Message, frozen=True):
    """The answer to an `Ask`; the payload is a struct of this module, see `pack`."""

    max_payload: ClassVar[int] = 256 * 1024**2

    about: str
    number: int = 0


CODEC = Codec(Ask, Answer)
"""The codec of a channel that carries questions only."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all answers and their parts."""


class PeerVersions(Versions, frozen=True, array_like=False):
    """The versions of a process, as `Versions` has them; the fields of this one have names."""


def versions_of(row: Worker | Mission) -> PeerVersions:
    """Return the versions of a worker or a mission."""
    return PeerVersions(**row.versions)


# ---- state


class TaskCounts(Part, frozen=True):
    """The number of tasks in each state.

    Attributes:
        awaiting_report: that wait for the report of the worker that they ran on.
        failed: that failed for good.
        retried: that failed, and were tried again.
        suspect: that crashed, and wait for a worker of their own.
    """

    waiting: int
    awaiting_report: int = msgspec.field(name="awaiting report")
    running: int
    done: int
    failed: int
    retried: int
    suspect: int


class ClusterState(Part, frozen=True):
    """A kind of resource that the head owns for the whole cluster.

    Attributes:
        counts: how many of each sort tasks were given, and how many there are for them, by name;
            ``""`` for a kind without sorts.
        note: a clause on the numbers, such as how many others use; empty for none.
    """

    kind: str
    counts: dict[str, tuple[int, int]]
    note: str = ""

    def __str__(self) -> str:
        shown = (
            f"{used} of {total}{f' {name}' if name else ''}"
            for name, (used, total) in self.counts.items()
        )
        return f"{self.kind} {', '.join(shown)} in use{f' ({self.note})' if self.note else ''}"


class StateAnswer(Part, frozen=True):
    """Everything at one moment, for ``grain ls``.

    Attributes:
        queues: those with the most waiting tasks.
        ended: the last missions that left, the latest first.
        troubles: sentences on what keeps the head from working as it should.
        cluster: what the head owns for the whole cluster.
    """

    epoch: int
    tasks: TaskCounts
    workers: list[Worker]
    missions: list[Mission]
    queues: list[Queue]
    more_queues: int
    ended: list[Mission]
    versions: PeerVersions
    troubles: list[str]
    cluster: list[ClusterState] = []


# ---- overview and runs


class OverviewAnswer(Part, frozen=True):
    """The state in short, for ``grain top``.

    Attributes:
        cores: how many cores tasks were given, and how many there are, by the last looks.
        computing: on how many of the given ones something is computed; None where that is not
            known of a twentieth of them.
        workers: those that had a turn.
        more_workers: how many still wait for their first turn.
        queues: those with the most waiting tasks.
        failures: the last ones, the latest last.
        lost: the last workers that were lost, the latest last.
        troubles: sentences on what keeps the head from working as it should.
        cluster: what the head owns for the whole cluster.
    """

    at: float
    epoch: int
    tasks: TaskCounts
    cores: tuple[float, float]
    computing: float | None
    worker_states: dict[str, int]
    workers: list[Worker]
    more_workers: int
    missions: list[Mission]
    more_missions: int
    queues: list[Queue]
    more_queues: int
    failures: list[Run]
    lost: list[Worker]
    troubles: list[str]
    cluster: list[ClusterState] = []


class RunsAnswer(Part, frozen=True):
    """Runs of one worker.

    Attributes:
        runs: the oldest first; none of a worker that is not here.
    """

    runs: list[Run]
    more: int
    at: float


# ---- demand


class DemandAnswer(Part, frozen=True):
    """The resources that tasks ask for and that workers have, for ``grain scale --auto``.

    Attributes:
        classes: those with the most tasks.
    """

    epoch: int
    classes: list[Queue]
    more_classes: int
    workers: list[Worker]


class LoadAnswer(Part, frozen=True):
    """The cores of all workers.

    Attributes:
        given: how many tasks were given.
        computing: on how many something is computed; None where that is not known of a twentieth
            of the given ones.
    """

    given: float
    cores: float
    computing: float | None


class NeedRow(Part, frozen=True):
    """A group that learns how much memory its tasks need.

    Attributes:
        group: its name.
        runs: how many runs had enough memory, ever.
        exceeded: how many attempts had too little.
        median: the median of the peaks of the last 64 runs, in GB; None without a run.
        largest: the largest of these peaks.
        asks: what a first attempt asks for, in GB; None if no task of the group waits or runs.
        text: what it asks for, and why, in a line.
        maxima: the last maxima that its requests have stated here, in GB, if they differ; infinite
            for a request without one, which has that of the largest worker.
    """

    group: str
    runs: int
    exceeded: int
    median: float | None
    largest: float | None
    asks: float | None
    text: str
    maxima: tuple[float, ...] = ()


# ---- a task


class WhyAnswer(Part, frozen=True, omit_defaults=True):
    """The state of a task and the reasons for it; None for what does not apply or is not known.

    Attributes:
        state: ``"running"``, ``"waiting"``, ``"ended"`` or ``"unknown"``.
        function: the name of its function; empty if that has none here.
        ended: how it has ended: ``"value"``, ``"error"``, ``"crashed"`` or ``"cancelled"``.
        why: of a failure, the reason in a line.
        mission_id: the id of its mission, as several may have one name.
        call: as of `CallAnswer`, which its mission knows.
        programs: as of `ProgramsAnswer`, which its worker knows.
        runs: the runs that have ended, as an event log has them.
    """

    task: int
    state: str
    reasons: list[str]
    function: str | None = None
    worker: str | None = None
    host: str | None = None
    began: float | None = None
    seconds: float | None = None
    ended: str | None = None
    why: str | None = None
    mission_id: str | None = None
    call: str | None = None
    programs: list[ProgramState] | None = None
    runs: list[dict[str, Any]] | None = None


class CallAnswer(Part, frozen=True):
    """The call of a task, which its mission knows.

    Attributes:
        call: shortened, as a user would write it; empty if it is not known.
    """

    call: str


class ProgramsAnswer(Part, frozen=True):
    """The external programs that a task runs, which its worker knows.

    Attributes:
        programs: none of a task that does not run.
    """

    programs: list[ProgramState]


# ---- what changes something


class JobEndedAnswer(Part, frozen=True):
    """The number of workers that are given up, as their job has ended.

    Attributes:
        workers: 0 or 1.
    """

    workers: int


class FoundAnswer(Part, frozen=True):
    """The mission that a word means, for ``find`` and ``cancel``.

    Attributes:
        mission: the mission; None if there is none, or none that can do what was asked.
        error: why, as a sentence; empty if there is one.
        state: of a task that is cancelled: ``"running"`` or ``"waiting"``, before.
    """

    mission: Mission | None
    error: str = ""
    state: str = ""


# ---- as bytes


def pack(answer: Any) -> bytes:
    """Return an answer as its payload; objects that have no such form become their `repr`."""
    try:
        return msgspec.msgpack.encode(answer, enc_hook=repr)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(encodable(answer), enc_hook=repr)


def unpack(payload: Payload, form: type[_Form], package: str = "") -> _Form:
    """Return an answer.

    Args:
        form: the answer's, which the docstring of `Ask` names.
        package: the version of Grain of the head, as it has introduced itself, for the error.

    Raises:
        RemoteProtocolError: the payload has another form. The text names both versions of Grain if
            they differ.
    """
    if isinstance(payload, Pieces):  # it has not travelled
        payload = b"".join(payload.parts)
    try:
        return msgspec.msgpack.decode(payload or b"", type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        own = package_version()
        if package and package != own:
            raise RemoteProtocolError(
                f"it answers as Grain {package[:32]!r} does, and this side is Grain {own!r}: "
                "install the same version on both"
            ) from error
        raise RemoteProtocolError(
            f"the head's answer is not valid: {error}. It may be of another commit than this Grain "
            f"{own!r}: install the same version on both, and start again what is older"
        ) from error
