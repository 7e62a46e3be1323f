"""The records of a hub: missions, tasks, leases and workers.

They hold state and no rules, apart from properties that read only one record. The rules stand
with those who change the records: `grain.head.hub.tasks.waiting`, `runs`, `outcomes`,
`missions` and `workers`. `grain.head.hub.registry` has all records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from grain.edge.mission_ids import lasting_name, lasts
from grain.edge.version import Versions
from grain.head.events import Pace
from grain.head.hub.fair_share import Share
from grain.head.scheduler.numbered import Numbered
from grain.head.scheduler.outlived import lasts_too_long
from grain.worker.logs import Allowance
from grain.worker.messages import GangPart, PastAttempts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from grain.edge.messages import Payload
    from grain.eventlog.causes import RunFailure
    from grain.eventlog.usage import Report
    from grain.head.messages import Crash, Ending, HeldCalls, Outlook, Unschedulable
    from grain.head.scheduler.places import RunPlace
    from grain.head.scheduler.state import TaskQueue
    from grain.worker.messages import Attempt, RunEnded, TasksPrinted

    Link = Hashable


PRINTS, PRINTS_SAVED = 32_768, 131_072
"""Characters a second of what its tasks print that a mission gets, and how many at once."""


class CallInLane(NamedTuple):
    """A call that a lane has, as its mission has reported.

    Attributes:
        task: its number.
        function: its digest.
        began: by the clock of the hub.
    """

    task: int
    function: bytes
    began: float


class EndedMission(NamedTuple):
    """A mission that has left.

    Attributes:
        record: its record, without its functions.
        at: when it left, by the clock of the hub.
    """

    record: MissionRecord
    at: float


EndedTask = tuple["TaskRecord", str, float, float, "RunFailure | str"]
"""A task that was resolved: its record, the name of the worker, when the run began and ended, and
why it failed, or how its process ended. A plain tuple, as one is made for every task."""


@dataclass(slots=True, eq=False, repr=False)
class FailedTask:
    """A task that has failed.

    Attributes:
        retried: True if its mission tries it again, by a task of another number.
    """

    ended: EndedTask
    retried: bool = False


@dataclass(slots=True, eq=False, repr=False)
class PeerRecord:
    """A peer that connects, is away, and comes back: the common part of missions and workers.

    Attributes:
        id: random, no other process has it.
        number: this hub's, in the order of their coming. The scheduler knows peers by it: a worker
            by its number, the owner of a queue by that of the mission.
        name: what people call it.
        ordinal: its number among those of its name, see `grain.head.hub.names`; 0 without one.
        link: its connection; None while it is away.
        connection: the peer's own count of its connections: a registration with a smaller one
            comes late.
        deadline: when it is given up, if it is away.
        versions: of its Python, and others.
    """

    id: str
    number: int
    name: str = ""
    ordinal: int = 0
    host: str = ""
    link: Link | None = None
    connection: int = 0
    deadline: float = math.inf
    versions: Versions = field(default_factory=Versions)

    @property
    def unique_name(self) -> str:
        """Its name in logs, which no other peer has at the same time."""
        return self.name if self.ordinal < 2 else f"{self.name}@{self.ordinal}"


@dataclass(slots=True, eq=False, repr=False)
class MissionOnLink:
    """The part of a mission that belongs to one connection.

    On the next one it numbers its requests again and gets each message again. So that begins with
    another object, of which no field can be forgotten.

    Attributes:
        requests: the queues for its requests, by number; `Scheduler.current` has what follows one.
        last_submitted: the largest number of a task that has come, of those whose numbers ascend.
        last_late: how many tasks have come whose numbers need not ascend.
        outlook: how far the mission is, as it estimates itself; None if it has not said so.
        unschedulable: the requests that were looked at, each with the last message about it.
        overtaken: by request, how often the oldest task was overtaken, as the mission knows it.
        carried: those of these for which it has yet to submit that task.
        reported: the versions of workers that were reported.
        maxima: by group that learns its memory the first two maxima in GB that its requests state.
        told: the groups of which it was told that other missions state different ones.
        workers: the ids of the workers that the mission was informed of.
        last_away: those that it was last said to wait for, and for nothing else.
        unfetched: what tasks of a lasting mission have left that were over, and not submitted
            again, when that was last looked at, by number. The run of another process may have left
            more since.
        answered: the cancelled tasks that it was told of on this link, and had not submitted when
            it was synced. It may still submit one: a call that left its lane before it was told.
    """

    requests: dict[int, TaskQueue] = field(default_factory=dict)
    last_submitted: int = -1
    last_late: int = 0
    outlook: Outlook | None = None
    unschedulable: dict[int, Unschedulable | None] = field(default_factory=dict)
    overtaken: dict[int, int] = field(default_factory=dict)
    carried: dict[int, int] = field(default_factory=dict)
    reported: set[Versions] = field(default_factory=set)
    maxima: dict[str, frozenset[float]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)
    last_away: frozenset[str] = frozenset()
    unfetched: dict[int, tuple[TaskCourse, tuple[Crash, ...]]] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False, repr=False)
class ShownMission:
    """The part of a mission that displays show, and on which nothing depends.

    Attributes:
        since: when this head first met it.
        function_names: by digest.
        done, failed, retried: how many tasks have resolved with a value, have failed for good, and
            have failed and were tried again.
        pace: the rate at which its tasks end; looked at with each tick.
    """

    since: float = 0.0
    function_names: dict[bytes, str] = field(default_factory=dict)
    done: int = 0
    failed: int = 0
    retried: int = 0
    pace: Pace = field(default_factory=Pace)


class PrintedAllowance:
    """The lines that tasks of a mission print, of which it gets only so many."""

    def __init__(self) -> None:
        self._characters = Allowance(PRINTS, PRINTS_SAVED)
        self._lost = 0

    def admit(self, message: TasksPrinted, now: float) -> int | None:
        """Return how many lines were lost before a message that may go on; None if it may not."""
        if self._characters.take(len(message.text), now):
            lost, self._lost = self._lost + message.lost, 0
            return lost
        self._lost += message.lost + message.text.count("\n")
        return None


@dataclass(slots=True, eq=False, repr=False)
class MissionRecord(PeerRecord):
    """A mission.

    It is *attached* while it has a link, and *synced* once it has submitted all its unresolved
    tasks on that link. It is *lasting* if its runs go on when no process of it is left, as its id
    says (`grain.edge.mission_ids.lasts`).
    """

    lasts: bool = field(init=False)
    # Of a lasting mission, by the number of their task: runs under way beside the one for which
    # the task waits, or of a task that has an outcome. No other mission has such runs.
    beside: dict[int, dict[LeaseRecord, None]] = field(default_factory=dict)
    synced: bool = False
    # The outcomes that the mission has not confirmed, and their bytes. While there are too many
    # it is paused, and what would wait in the scheduler is parked here.
    unconfirmed: int = 0
    unconfirmed_bytes: int = 0
    paused: bool = False
    parked: dict[TaskRecord, None] = field(default_factory=dict)
    tasks: Numbered[TaskRecord] = field(default_factory=Numbered)
    # By digest, each with the digest itself: so that all tasks of a function have one object.
    functions: dict[bytes, tuple[bytes, Payload]] = field(default_factory=dict)
    # The places that were set aside for it, by name, each with the sentence that says why.
    set_aside: dict[str, tuple[RunPlace, str]] = field(default_factory=dict)
    on_link: MissionOnLink = field(default_factory=MissionOnLink)
    shown: ShownMission = field(default_factory=ShownMission)
    # As its runs take them along: opaque.
    settings: bytes = b""
    prints: PrintedAllowance = field(default_factory=PrintedAllowance)
    share: Share = field(default_factory=Share)
    # The person who has cancelled the mission from outside, or single tasks of it. A mission
    # that was away, or whose connection was lost meanwhile, is informed when it is back.
    cancelled_by: str = ""
    cancelled: dict[int, str] = field(default_factory=dict)
    # By the number of the lane, calls that have lasted for some time; and how many lanes have no
    # such call.
    lane_calls: dict[int, CallInLane] = field(default_factory=dict)
    idle_lanes: int = 0
    # The largest number of a task that the mission has reported, as the hub does not see those of
    # calls in lanes.
    last_task: int = 0
    # The calls that the mission holds, as it has last reported.
    held: tuple[HeldCalls, ...] = ()
    # The tasks in `cancelled` that the mission submitted on this link all the same.
    refused: set[int] = field(default_factory=set)
    # Of a lasting mission, the tasks that it has retracted: a worker that was away may still
    # report a run of one, which is to end.
    retracted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.lasts = lasts(self.id)
        if self.lasts:  # until one of its processes says it again, which may be hours later
            self.name = lasting_name(self.id)

    def held_with(self, task: int) -> HeldCalls | None:
        """Return the calls that it holds among which one of a number may be; None if none is."""
        return next((held for held in self.held if held.first <= task <= held.last), None)

    def may_submit(self, task: int) -> bool:
        """Return True if the mission has yet to submit a task, or to be synced without it.

        A lasting one may do so at any time, but for what was cancelled.
        """
        if self.lasts:
            return not self.cancelled_by and task not in self.retracted
        return not self.synced


ITS_MISSION = "\0"
"""The id of what a parked task awaits: no worker has it."""

ITS_SEATS = "\1"
"""The id of what a task awaits whose gang has ended, as another head began it, and workers that
have yet to report may have seats of it: no worker has it."""


class TaskState(Enum):
    """The states of a task, each with the field of `TaskRecord` that makes it so."""

    WAITING = "waiting"
    """In a queue of the scheduler, by its ``scheduler_id``."""
    SUSPECT = "suspect"
    """``suspect``: it crashed before, and waits for a worker of its own."""
    AWAITING_REPORT = "awaiting report"
    """``awaits``: it ran on that worker under another head, and the worker has yet to report; or
    `ITS_MISSION`, which is to confirm outcomes first; or `ITS_SEATS`."""
    LEASED = "leased"
    """``lease``: its current run."""
    RESOLVED = "resolved"
    """``ending``: it has an outcome, kept until its mission confirms that."""
    DORMANT = "dormant"
    """None of them: its mission is away and will submit it again; only its crashes are kept."""


class TaskCourse(msgspec.Struct, eq=False, gc=False):
    """The course of a task so far: one that waits for its first run has nothing of it.

    The collector need not look at it: nothing here refers to a record.

    Attributes:
        crashes: the runs that have crashed.
        suspect: True if it is to run by itself, as it may have crashed its workers.
        awaits: the worker, by id, of which it awaits a report; empty if of none.
        retracted: True if the mission does not want it any more, and waits for `Retracted`. It is
            no state of its own: such a task stays leased until its worker has ended the run.
        report: of the worker on the run whose outcome it is: opaque.
        kept_by: the worker that keeps the outcome, by id, and the run that it is of.
        gpus: those that its run had, if it has failed.
        past: the attempts at it so far, which its next run sees. Those that its worker has handed
            back are forgotten with this head, and only crashes are not.
        soft_stops: how many of the last ones have stopped softly, one after the other.
        slices: True of a lane that waits as a task does, and has slices.
    """

    crashes: tuple[Crash, ...] = ()
    suspect: bool = False
    awaits: str = ""
    retracted: bool = False
    ending: Ending | None = None
    outcome: Payload = None
    report: Report = b""
    kept_by: tuple[str, Attempt] | None = None
    gpus: tuple[int, ...] = ()
    past: PastAttempts | None = None
    soft_stops: int = 0
    slices: bool = False


NO_COURSE = TaskCourse()
"""That of all tasks that wait for their first run: it is never changed, see `TaskRecord.alter`."""


@dataclass(slots=True, eq=False, repr=False)
class TaskRecord:
    """A task, in exactly one `TaskState`.

    It is ``claimed`` while its mission is attached and has submitted it on that connection. One
    that is not is leased, resolved or dormant: it came from a worker's report, or its mission is
    away.
    """

    # A million of these may wait. Python allocates 16 bytes at a time, of which these fields leave
    # none: one more takes 16 MB. So what few of them have is apart.
    mission: MissionRecord
    number: int
    claimed: bool = False
    queue: TaskQueue | None = None
    request: int = 0
    age: int = 0
    urgency: float = 0.0
    function: bytes = b""
    arguments: Payload = None
    scheduler_id: int | None = None
    lease: LeaseRecord | None = None
    course: TaskCourse = NO_COURSE

    def alter(self) -> TaskCourse:
        """Return its course to be changed, which is its own from now on."""
        if self.course is NO_COURSE:
            self.course = TaskCourse()
        return self.course

    @property
    def crashes(self) -> tuple[Crash, ...]:
        """Those of its runs so far."""
        return self.course.crashes

    @property
    def suspect(self) -> bool:
        """True if it crashed before, and waits for workers of its own."""
        return self.course.suspect

    @property
    def awaits(self) -> str:
        """The id of the worker whose report it awaits, or `ITS_MISSION`, or `ITS_SEATS`."""
        return self.course.awaits

    @property
    def retracted(self) -> bool:
        """True if its mission does not want it any more."""
        return self.course.retracted

    @property
    def ending(self) -> Ending | None:
        """The way in which it was resolved; None if it has no outcome."""
        return self.course.ending

    @property
    def outcome(self) -> Payload:
        """The value or the exception."""
        return self.course.outcome

    @property
    def kept_by(self) -> tuple[str, Attempt] | None:
        """The worker that keeps the outcome, by id, and the run that it is of."""
        return self.course.kept_by

    @property
    def state(self) -> TaskState:
        """The state of the task.

        Derived from the fields, not stored beside them. Each state is the presence of what it
        needs anyway (an id, a worker, a lease, an ending), so a stored name could only agree with
        that or be wrong; and it would take four more writes on the way of each task. The simulation
        checks after every step that no two are set.
        """
        if self.lease is not None:
            return TaskState.LEASED
        if self.ending is not None:
            return TaskState.RESOLVED
        if self.scheduler_id is not None:
            return TaskState.WAITING
        if self.suspect:
            return TaskState.SUSPECT
        return TaskState.AWAITING_REPORT if self.awaits else TaskState.DORMANT

    @property
    def how(self) -> str:
        """The ending for display, where a task that outlived its workers is not a crash."""
        outlived = self.ending == "crashed" and lasts_too_long(self.crashes)
        return "error" if outlived else self.ending or ""

    def __repr__(self) -> str:
        return f"<TaskRecord {self.mission.id}:{self.number}, {self.state.value}>"


@dataclass(slots=True, eq=False, repr=False)
class LeaseRecord:
    """A run on a worker. It holds resources there as long as it has a scheduler id.

    It is the current run of its task; or a stale one, whose success would still be welcome; or,
    without a task, a run that no mission wants.
    """

    attempt: Attempt
    task: TaskRecord | None
    worker: WorkerRecord
    scheduler_id: int | None
    began: float = 0.0
    revoked: bool = False
    alone: bool = False
    # True if it is a lane's; and if that was recalled. The call that the lane has, if that is
    # known: a lane without one is shown as what it holds, and not as a run.
    lane: bool = False
    recalled: bool = False
    call: CallInLane | None = None
    # The session of the worker in which the lease was sent or last confirmed, and its place
    # among those sent in that session, from 1: a worker reports how many have arrived. 0 says
    # that it has arrived for certain: a later session counts from the beginning, and cannot
    # undo that.
    session: int = 0
    index: int = 0
    # The gang that it is a part of; 0 for its root. A seat that awaits the root has an invitation
    # for it, which goes with what the seat may use.
    gang: GangRecord | None = None
    member: int = 0
    invitation: bytes = b""
    resources: dict[str, Any] = field(default_factory=dict)
    # True if it uses its resources no more, though it has not ended.
    over: bool = False
    # The worker of the member whose loss has ended it, as its root says: that is to blame.
    lost: str = ""

    def __post_init__(self) -> None:
        self.session = self.worker.session

    @property
    def idle_lane(self) -> bool:
        """True if it is a lane of which no call is known."""
        return self.lane and self.call is None

    @property
    def current(self) -> bool:
        """True if its task waits for this run, and no other."""
        return self.task is not None and self.task.lease is self

    @property
    def begun(self) -> bool:
        """True if the worker is known to have begun it, so that it may be to blame for a crash.

        It has arrived there; else it may have been on its way when the worker died.
        """
        # One of an earlier session: the worker's count is of later leases.
        arrived = self.worker.arrived if self.session == self.worker.session else 0
        return self.index <= arrived

    def __repr__(self) -> str:
        return f"<LeaseRecord {self.attempt} of {self.task} on {self.worker.name}>"


@dataclass(slots=True, eq=False)
class GangRecord:
    """The leases of a gang.

    Attributes:
        root: the run of the root, by which all parts know the gang.
        size: the number of members.
        key: its task: the id of the mission, and the number.
        lease: the root's lease; None if it has ended, or was not reported to this head.
        seats: the leases of the seats that are not vacated, by index.
        seen: the indices of all seats that this head knows, or knew.
        ended: True if the root has ended, as far as this head has seen.
        origin: the lease of the root for which the task waits until all members are vacated.
        stand_in: what the task has as its lease meanwhile, on the worker of a member.
        again: what lets the task wait again then.
        crash: the lease of a seat that crashed, and its end.
        begun: True if its function is known to have begun.
        absent: True if a member has not joined, so that nothing of it has begun, or ever will.
    """

    root: Attempt
    size: int
    key: tuple[str, int]
    lease: LeaseRecord | None = None
    seats: dict[int, LeaseRecord] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    ended: bool = False
    origin: LeaseRecord | None = None
    stand_in: LeaseRecord | None = None
    again: Callable[[float], object] | None = None
    crash: tuple[LeaseRecord, RunEnded] | None = None
    begun: bool = False
    absent: bool = False

    @property
    def members(self) -> list[LeaseRecord]:
        """The leases of the members that are not vacated, that of the root first."""
        return [*(() if self.lease is None else (self.lease,)), *self.seats.values()]

    @property
    def unseen(self) -> int:
        """The number of seats that were not reported to this head."""
        return self.size - 1 - len(self.seen)

    @property
    def missing(self) -> int:
        """The number of seats that this head does not know, or that are vacated."""
        return self.size - 1 - len(self.seats)

    def part(self, index: int) -> GangPart:
        """Return the part of a member, for its lease."""
        return GangPart(self.root, index, self.size)


@dataclass(slots=True, eq=False, repr=False)
class WorkerRecord(PeerRecord):
    """A worker.

    It *serves* once it has reported its inventory on its present link. Without a link it is away:
    nothing new goes there, and nothing of what it has is started elsewhere.
    """

    serving: bool = False
    draining: bool = False
    # How many outcomes wait there to be confirmed by their missions, and their bytes, while
    # that keeps it from taking runs; None if it does not.
    backlog: tuple[int, int] | None = None
    # True while the worker is reserved for a task that is to have the worker to itself, or runs
    # it.
    reserved: bool = False
    # None until the worker is asked to leave; then True if it is to leave at once.
    told_to_drain: bool | None = None
    # This hub's count of its connections; in the present one, how many leases were sent, and
    # how many of those have arrived.
    session: int = 0
    sent: int = 0
    arrived: int = 0
    leases: dict[Attempt, LeaseRecord] = field(default_factory=dict)
    idle_lanes: int = 0  # those of them that are lanes without a call
    functions: set[bytes] = field(default_factory=set)
    # How many runs that had begun it has handed back as it leaves, by mission.
    handed_back: dict[str, int] = field(default_factory=dict)
    # Its job, as the batch system calls it.
    job: str = ""
    cluster: str = ""  # its display name
    # Its batch system, and the name by which that lists the ended job. The worker states both when
    # it registers.
    system: str = ""
    listed: str = ""
    # On how many cores something is computed there; None where that is not known.
    computing: float | None = None
    away_since: float = math.inf
    # While it is away, when there was the last sign of it.
    heard: float = math.inf
    # When its batch system was last asked for its job.
    asked: float = -math.inf
    # Why it does not come back, once its process or its job is known to have ended; and if that has
    # the words of its batch system.
    over: str = ""
    by_batch: bool = False

    def on_handed_back(self, lease: LeaseRecord) -> None:
        """Count a run that it hands back as it leaves, if it had begun and is still wanted."""
        task = lease.task
        wanted = task is not None and not task.retracted and not lease.idle_lane
        if self.draining and lease.begun and task is not None and wanted:
            mission = task.mission.id
            self.handed_back[mission] = self.handed_back.get(mission, 0) + 1

    @property
    def takes_runs(self) -> bool:
        """True if it is here and takes runs, if only one for which it is reserved."""
        return self.serving and not self.draining and self.backlog is None
