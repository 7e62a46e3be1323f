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
from grain.facts.rows import Run

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
            names match a pattern are to leave (a list of `DrainingWorker`). ``"ended"``: the job of
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


class WorkerState(Part, frozen=True):
    """A worker.

    Attributes:
        name: its name, which others may have, too.
        label: the name that commands take: ``name@2`` is the second of that name.
        cluster: as it states that; empty if it does not.
        state: ``"joining"``, ``"serving"``, ``"paused"``, ``"draining"`` or ``"away"``.
        backlog: how many outcomes missions have not taken, and how many bytes these have; None if
            that keeps it from nothing.
        free: the resources that tasks were not given.
        used: the part of each kind that tasks were given, from 0 to 1; None where it has no class
            in the head.
        left: seconds that remain to it; None without an end.
        computing: on how many cores something is computed; None where that is not known.
        tasks: a few of the tasks that run, as ``mission:number`` with the mission's label.
    """

    id: str
    name: str
    label: str
    host: str
    cluster: str
    state: str
    backlog: tuple[int, int] | None
    total: dict[str, Any]
    free: dict[str, Any]
    used: dict[str, float | None]
    left: float | None
    running: int
    computing: float | None
    tasks: list[str]
    versions: PeerVersions


class MissionState(Part, frozen=True):
    """A mission.

    Attributes:
        failed: how many of its tasks failed for good.
        label: the name that commands take, without the number while no other here has the name.
        connected: False while it is away.
        unconfirmed_bytes: the bytes of the outcomes that it has not taken.
        paused: True if nothing more of it starts until it has taken some.
        number: that of its label, as 2 of ``opt@2``; 0 if it has none.
    """

    done: int
    failed: int
    retried: int
    id: str
    name: str
    label: str
    host: str
    connected: bool
    unconfirmed: int
    unconfirmed_bytes: int
    paused: bool
    running: int
    waiting: int
    versions: PeerVersions
    number: int = 0

    def goes_by(self, word: str) -> bool:
        """Return True if a word is its name, its label or its id."""
        return word in (self.name, self.label, self.id, f"{self.name}@{self.number}")


class QueueState(Part, frozen=True):
    """The tasks of a mission that ask for the same.

    Attributes:
        interpreter: that they need; empty if any will do.
        mission: its label.
        oldest: the one that has waited longest, as ``mission:number``; empty if none waits.
        never: why no worker here could run them; empty if one could.
    """

    request: dict[str, Any]
    interpreter: str
    mission: str
    priority: int
    waiting: int
    running: int
    oldest: str
    never: str
    why: str


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


class EndedMission(Part, frozen=True):
    """A mission that has left.

    Attributes:
        done, failed, retried: as of `MissionState`.
    """

    name: str
    host: str
    at: float
    done: int
    failed: int
    retried: int


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
    workers: list[WorkerState]
    missions: list[MissionState]
    queues: list[QueueState]
    more_queues: int
    ended: list[EndedMission]
    versions: PeerVersions
    troubles: list[str]
    cluster: list[ClusterState] = []


# ---- overview and runs


class WorkerRow(Part, frozen=True):
    """A worker as it was at its last turn.

    Attributes:
        id, name, label, host, cluster, state: as in `WorkerState`.
        ends: when its time is over; None without an end.
        total, used, running, computing: as in `WorkerState`.
        runs: the oldest of the tasks that run there.
        at: when that was.
    """

    id: str
    name: str
    label: str
    host: str
    cluster: str
    state: str
    ends: float | None
    total: dict[str, Any]
    used: dict[str, float | None]
    running: int
    computing: float | None
    runs: list[Run]
    at: float


class FunctionRow(Part, frozen=True, array_like=True):
    """The tasks of one function of a mission, as that counts them.

    Attributes:
        failed: how many failed for good, further attempts left aside.
        waiting: how many wait, with those that fit no worker.
        seconds: the median time of its last runs; None if none has ended.
        memory: the largest peak of memory of a run's programs, in GB; None if none was measured.
        memory_asked: the most memory that a task asked for, in GB; 0 if none asked for any.
        request: the amounts for which all of them asked, by kind; empty if these differ.
        measured: how many runs had programs whose CPU time is known.
        busy: the cores that programs kept busy, in the median of the last of these runs.
        busiest: those of the busiest.
        core_seconds: the cores that its runs asked for, times their length.
        peaks: how many runs had programs whose peak of memory is known.
    """

    function: str
    done: int
    failed: int
    running: int
    waiting: int
    seconds: float | None
    memory: float | None
    memory_asked: float
    request: dict[str, float]
    measured: int
    busy: float
    busiest: float
    core_seconds: float
    peaks: int = 0


class MissionOutlook(Part, frozen=True):
    """The progress of a mission, as it estimates itself.

    Attributes:
        ended, total, left, least, whole: as in `grain.head.messages.Outlook`; `left` in seconds.
        functions: those that have the most tasks, in the order of their first calls.
        more_functions: how many others there are.
    """

    ended: int
    total: int
    left: float | None
    least: bool
    whole: bool
    functions: tuple[FunctionRow, ...]
    more_functions: int


class MissionRow(Part, frozen=True):
    """A mission.

    Attributes:
        number: the head's for it, by which runs name it.
        id, name, label, host, connected, paused: as of `MissionState`.
        done, failed, retried: as of `MissionState`.
        left: how many of its tasks have no outcome.
        running: how many of these run; None where there are too many different requests to count.
        outlook: None if it does not state any.
        rate: how many of its tasks end in a second.
    """

    number: int
    id: str
    name: str
    label: str
    host: str
    connected: bool
    paused: bool
    since: float
    done: int
    failed: int
    retried: int
    left: int
    running: int | None
    outlook: MissionOutlook | None
    rate: float = 0.0


class QueueRow(Part, frozen=True):
    """The waiting tasks of a mission that ask for the same.

    Attributes:
        mission: its label.
        mission_id: its id; empty if no waiting task is known.
        request: what each asks for, as a user writes it.
        oldest: the number of the one that has waited longest; 0 if that is not known.
    """

    mission: str
    mission_id: str
    request: str
    priority: int
    waiting: int
    running: int
    oldest: int
    why: str


class LossRow(Part, frozen=True):
    """A worker that was lost.

    Attributes:
        heard: when there was the last sign of it.
        tasks: how many tasks had a run there, and run again.
    """

    name: str
    host: str
    heard: float
    at: float
    tasks: int


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
    workers: list[WorkerRow]
    more_workers: int
    missions: list[MissionRow]
    more_missions: int
    queues: list[QueueRow]
    more_queues: int
    failures: list[Run]
    lost: list[LossRow]
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


class AlternativeDemand(Part, frozen=True):
    """One of several alternatives that tasks ask for.

    Attributes:
        need: seconds that a worker must have left.
        members: how many workers each task takes at once; `request` is of one of them.
        same: as of `grain.resource.Gang`.
    """

    request: dict[str, Any]
    need: float
    members: int = 1
    same: str = "group"


class ClassDemand(Part, frozen=True):
    """The tasks of all missions that ask for the same and need as much time.

    Attributes:
        request: what each asks for, without its time; of alternatives the first one, and of several
            workers that on each.
        ask: what each asks for, as a user writes it.
        interpreter: that they need; empty if any will do.
        waiting: how many wait; one on several workers counts once.
        elapsed: seconds that the running ones have run, together.
        need: seconds that a worker must have left.
        ended: of how many runs, at most 100 of each mission, `mean` is.
        mean: their mean duration in seconds.
        others: the further alternatives.
        members, same: as of `AlternativeDemand`.
    """

    request: dict[str, Any]
    ask: str
    interpreter: str
    waiting: int
    running: int
    elapsed: float
    need: float
    ended: int
    mean: float
    others: list[AlternativeDemand] = []
    members: int = 1
    same: str = "group"


class WorkerSupply(Part, frozen=True):
    """A worker, for who decides how many there are to be.

    Attributes:
        free: the resources that tasks were not given.
        left: seconds that remain to it; None without an end.
        idle: seconds since the last one ended; 0 while one runs.
        job: its batch job, as the batch system calls it; empty if it has none.
    """

    id: str
    name: str
    host: str
    interpreter: str
    total: dict[str, Any]
    free: dict[str, Any]
    left: float | None
    running: int
    idle: float
    draining: bool
    job: str = ""


class DemandAnswer(Part, frozen=True):
    """The resources that tasks ask for and that workers have, for ``grain scale --auto``.

    Attributes:
        classes: those with the most tasks.
    """

    epoch: int
    classes: list[ClassDemand]
    more_classes: int
    workers: list[WorkerSupply]


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
    """

    group: str
    runs: int
    exceeded: int
    median: float | None
    largest: float | None
    asks: float | None
    text: str


# ---- a task


class WhyAnswer(Part, frozen=True, omit_defaults=True):
    """The state of a task and the reasons for it; None for what does not apply or is not known.

    Attributes:
        state: ``"running"``, ``"waiting"``, ``"ended"`` or ``"unknown"``.
        function: the name of its function; empty if that has none here.
        ended: how it has ended: ``"value"``, ``"error"``, ``"crashed"`` or ``"cancelled"``.
        why: of a failure, the reason in a line.
        mission_id: the id of its mission, as several may have one name.
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


class DrainingWorker(Part, frozen=True):
    """A worker that is asked to leave; the answer has a list of all.

    Attributes:
        label: the name that commands take.
        state: as of `WorkerState`, before.
    """

    name: str
    label: str
    host: str
    state: str
    running: int


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

    mission: MissionState | None
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
