"""The messages between a mission and a head; docs/protocol.md has the rules of delivery.

A task is known by its number in its mission. Numbers only ever grow: a head that has no task of a
number can see whether it is over or yet to come.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from grain.edge.messages import Codec, Message
from grain.edge.questions import Answer as Answer
from grain.edge.questions import Ask as Ask
from grain.edge.version import Versions
from grain.eventlog.causes import NO_FAILURE, RunFailure
from grain.eventlog.soft_stops import Interruption
from grain.eventlog.usage import Report
from grain.facts.rows import MissionOutlook
from grain.head.events import LastTasksAway, SchedulerTrouble, TasksPrinted
from grain.worker.messages import (
    Attempt,
    BlockingCode,
    DefineFunction,
    Disconnect,
    Outlived,
    PastAttempts,
    one_more,
)

_GIB = 1024**3

Ending = Literal["value", "error", "crashed"]
"""The way in which a task was resolved: see `Resolved`."""


class Crash(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A run of a task that ended with its process or its worker.

    Attributes:
        attempt: which run.
        worker: the name of the worker.
        how: how the process or worker ended, such as the signal.
        at: seconds since the epoch of Unix, by the head's clock, only for display.
        outlived: for how long it had run when the time of its worker was over, as it cannot be
            blamed for that; None for a crash in the proper sense.
        known: True if its worker has reported it, which it does when nothing is left of the run, or
            if its batch system says that the job of the worker is over; False if the worker is
            lost to the scheduler, and the run may go on.
        absent: the name of the worker of the member that did not join a gang, or died before all
            had joined, so that its function has not begun; empty for all others.
        interruption: for what its worker has ended it.
        call: for the run of a lane, the call that it had begun last; 0 if that is not known, and
            for all others.
    """

    attempt: Attempt
    worker: str
    how: str
    at: float
    outlived: Outlived | None = None
    known: bool = False
    absent: str = ""
    interruption: Interruption = ""
    call: int = 0

    @property
    def blamed(self) -> bool:
        """True for a crash in the proper sense: one that may be the task's fault."""
        return self.outlived is None and not self.absent and not self.stopped_softly

    @property
    def stopped_softly(self) -> bool:
        """True for the last of too many runs in a row whose programs have stopped softly."""
        return self.interruption == "stopped"


def after_crash(past: PastAttempts | None, crash: Crash) -> PastAttempts | None:
    """Return the attempts before the next run, after a crash; a gang that never began is none."""
    if crash.absent:
        return past
    return one_more(past, "crashed" if crash.outlived is None else "returned", crash.how)


# ---- mission to head


class RegisterMission(Message, frozen=True):
    """The first message on every connection; unresolved tasks follow, ascending, and `Synced`.

    Attributes:
        mission: random name of this mission.
        name: its display name.
        pid: its process there.
        connection: counts its connections: of two, the one with the larger number is in use,
            whichever arrives first.
        versions: of its Python, and of what else matters to workers.
        settings: its `grain.worker.messages.MissionSettings` as bytes, for its leases.
        number: that of its label, which no other mission of the name has; 0 if it has none.
    """

    mission: str
    name: str
    host: str = ""
    pid: int = 0
    connection: int = 1
    versions: Versions = Versions()
    settings: bytes = b""
    number: int = 0


class Request(Message, frozen=True):
    """A resource request that tasks of this connection refer to.

    Attributes:
        number: by which `Submit` refers to it.
        resources: as plain data; alternatives as ``{"Either": [...]}``, see `grain.resource.kinds`.
        priority: larger goes first.
        interpreter: the interpreter that workers for these tasks must have, as
            `grain.edge.version.INTERPRETER`, because the function or an argument of each has
            bytecode; empty if any will do.
        overtaken: how often the oldest task that waits with it was overtaken, by the last
            `Overtaken`: neither a new head nor a new connection begins to count again.
    """

    number: int
    resources: dict[str, Any]
    priority: int = 0
    interpreter: str = ""
    overtaken: int = 0


AVOIDED = 16
"""The most places that a task avoids."""


class FailedOn(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The place where a run has failed.

    Attributes:
        worker: the id of the worker.
        gpus: the GPUs that it had there.
    """

    worker: str
    gpus: tuple[int, ...] = ()


class Submit(Message, frozen=True):
    """A task to be run. The payload is its arguments.

    Attributes:
        task: its number, larger than all before on this connection.
        request: the number of its `Request`.
        function: the digest of its function, which was sent before; `grain.worker.messages.LANE`
            for a lane, whose payload is the mission's invitation.
        worker: the id of the worker on which it ran by the last report, empty if it did not run.
        crashes: its crashes so far.
        urgency: of tasks of one request those of larger urgency start first.
        late: if its number does not ascend, as its mission held it for a lane or a lane had it, its
            place among such tasks of this connection, from 1; 0 for others.
        avoid: where earlier attempts at it have failed: it goes elsewhere first.
        past: the attempts at it by tasks of other numbers; None if there were none.
        waits: True for a lane that waits for room, and has a slice.
    """

    max_payload = 256 * 1024**2

    task: int
    request: int
    function: bytes
    worker: str = ""
    crashes: tuple[Crash, ...] = ()
    urgency: float = 0.0
    late: int = 0
    avoid: tuple[FailedOn, ...] = ()
    past: PastAttempts | None = None
    waits: bool = False


class Synced(Message, frozen=True):
    """All unresolved tasks of the mission were submitted: no other task of it is wanted."""


class Retract(Message, frozen=True):
    """Tasks that are not wanted any more; `Retracted` follows when nothing of them is left."""

    tasks: tuple[int, ...]


class AckTasks(Message, frozen=True):
    """Tasks whose outcomes have arrived: forget them.

    Attributes:
        tasks: the numbers of most of them.
        retried: those of the others, which have failed and which the mission tries again, by tasks
            of other numbers.
    """

    tasks: tuple[int, ...]
    retried: tuple[int, ...] = ()


class Described(Message, frozen=True):
    """The answer to a `Describe`.

    Attributes:
        question: its number.
        call: the call of the task, shortened; empty if the mission has no such task.
    """

    question: int
    call: str


FUNCTIONS = 20
"""The most functions in an `Outlook`: the scheduler keeps it for each mission."""

KINDS = 16
"""The most kinds of resources in the request of one of them."""


class Outlook(MissionOutlook, Message, frozen=True, array_like=True, tag=True):
    """The progress of the mission; only for display, every five seconds."""


LANES = 256
"""The most lanes of a mission, and functions in one `LaneReport`."""

SLICE = 0.02
"""Seconds that a lane which has waited keeps what it has, whatever else waits. The mission fills it
by the same figure."""

FAILURES = 20
"""The most failures in a `LaneReport`."""


class LaneCall(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A call that a lane has.

    Attributes:
        lane: the number of the lane.
        task: that of the call.
        function: its digest.
        seconds: for which the lane has had it.
    """

    lane: int
    task: int
    function: bytes
    seconds: float


class LaneCount(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The calls of a function that ended in lanes.

    Attributes:
        function: its digest.
        done: how many have ended with a value.
        failed: how many have failed for good.
        retried: how many have failed, and are tried again.
        seconds: for which all of them ran, added up.
    """

    function: bytes
    done: int
    failed: int
    retried: int
    seconds: float


class LaneFailure(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A call that has failed in a lane.

    Attributes:
        task: its number.
        function: its digest.
        worker: the name of the worker.
        seconds: for which it ran.
        ago: the seconds since then.
        failure: the exception.
        retried: True if the mission tries it again.
    """

    task: int
    function: bytes
    worker: str
    seconds: float
    ago: float
    failure: RunFailure = NO_FAILURE
    retried: bool = False


class HeldCalls(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The calls that a mission holds for lanes.

    Attributes:
        request: the number of their `Request`.
        calls: how many they are.
        first, last: their least and largest number; not all in between are held.
    """

    request: int
    calls: int
    first: int
    last: int


class LaneReport(Message, frozen=True):
    """The calls in lanes since the last report, which the head does not see; only for display.

    It is sent every half second, if there is news, and before `Depart`. Each call is counted once
    at most: what was lost with a connection is not sent again.

    Attributes:
        calls: the calls that have been in a lane for 50 ms. They replace those of the last
            report.
        counts: the calls that ended, by function.
        failures: the last ones that failed, `FAILURES` at most; `counts` has them, too.
        last: the largest number of a task of the mission.
        held: the calls that are held, by request; they replace those of the last report.
    """

    calls: tuple[LaneCall, ...] = ()
    counts: tuple[LaneCount, ...] = ()
    failures: tuple[LaneFailure, ...] = ()
    last: int = 0
    held: tuple[HeldCalls, ...] = ()


class Depart(Message, frozen=True):
    """The end of the mission: nothing of it is wanted any more.

    Of a mission that outlives its processes, it is the end of this process only.
    """


# ---- head to mission


class MissionRegistered(Message, frozen=True):
    """The head has all tasks of the mission: the answer to `Synced`.

    Attributes:
        epoch: the head's.
        ended: how many runs this head has ended because the mission was away for too long.
        away: for how many seconds the mission was away then.
        label: the mission's name in commands, as long as no other comes that has the same name.
    """

    epoch: int
    ended: int = 0
    away: float = 0.0
    label: str = ""


class Started(Message, frozen=True):
    """Tasks that run on a worker, or wait again if its id is empty.

    Attributes:
        alternative: by which of the alternatives of their request, counted from 0.
        over: True if their run is over, and they wait there until nothing is left of their gang.
        interruption: of those that wait again, for what their worker has ended the run.
    """

    worker: str
    tasks: tuple[int, ...]
    alternative: int = 0
    over: bool = False
    interruption: Interruption = ""


class Seated(Message, frozen=True):
    """The workers that a gang has; after the `Started` of its task, and only for displays.

    It comes again with each connection, and from each head, once all seats are known there.

    Attributes:
        workers: the ids of the members beside the root, in their order.
    """

    task: int
    workers: tuple[str, ...]


class Crashed(Message, frozen=True):
    """A crash of a run of a task, or a gang that did not begin; the task goes on.

    Attributes:
        crash: the run, and how it crashed.
        report: of its worker on the run, see `grain.worker.messages.RunEnded`; empty if the worker
            has sent none, or this head has it not any more.
    """

    task: int
    crash: Crash
    report: Report = b""


class Resolved(Message, frozen=True):
    """The outcome of a task, repeated on every connection until `AckTasks`.

    Attributes:
        ending: ``"value"`` or ``"error"``: the payload is what it returned or raised.
            ``"crashed"``: it was given up after too many crashes, or as it has outlived too many
            workers; see `grain.head.scheduler.outlived.given_up`.
        crashes: all of them, in the last case.
        report: of its worker on the run, see `grain.worker.messages.RunEnded`; in the last case on
            the last run, if its worker has sent one.
        gpus: those that the run had, if it has failed.
    """

    max_payload = _GIB

    task: int
    ending: Ending
    crashes: tuple[Crash, ...] = ()
    report: Report = b""
    gpus: tuple[int, ...] = ()


class Retracted(Message, frozen=True):
    """A task that was retracted and has left nothing behind.

    Attributes:
        report: of its worker on the run that was ended, see `grain.worker.messages.RunEnded`;
            empty if there was none.
    """

    task: int
    report: Report = b""


class CancelTask(Message, frozen=True):
    """A task that a user has cancelled from outside of its mission; `Retracted` follows.

    Attributes:
        by: the user, as text.
    """

    task: int
    by: str


class CancelMission(Message, frozen=True):
    """The mission is to end, as by Ctrl-C: a user outside has cancelled it.

    Attributes:
        by: the user, as text.
    """

    by: str


class Describe(Message, frozen=True):
    """A question to a mission: how it calls a task, which only it may read; `Described` follows.

    Attributes:
        question: a number that no other question of this head has.
    """

    question: int
    task: int


class Unschedulable(Message, frozen=True):
    """A request that no worker here can ever meet; tasks with it wait for another worker.

    It is taken back by another one with an empty reason.

    Attributes:
        request: the number of the request.
        why: a sentence; empty if a worker that is here can meet the request by now.
        workers: whether there is any worker at all.
        larger: whether each worker has too little in all, and not only too little time.
        cluster: whether the whole cluster has too little, whatever workers come.
    """

    request: int
    why: str
    workers: bool = True
    larger: bool = False
    cluster: bool = False


class Overtaken(Message, frozen=True):
    """The number of times that the oldest waiting task of a request was overtaken, if that grows.

    Attributes:
        request: the number of the request.
    """

    request: int
    times: int


class Trouble(SchedulerTrouble, Message, frozen=True, array_like=True, tag=True):
    """Something keeps the head from working as it should, though it serves.

    All missions get it, and each that registers, before `MissionRegistered`. It is taken back by
    another one with an empty reason. Of a place that is set aside only the mission hears whose
    tasks fail there.
    """


class LastAway(LastTasksAway, Message, frozen=True, array_like=True, tag=True):
    """All tasks of this mission without an end are on workers that are away; once for these."""


class OtherVersions(Message, frozen=True):
    """A worker that cannot exchange everything with this mission, the first of its versions."""

    worker: str
    host: str
    versions: Versions


class SeveralMaxima(Message, frozen=True):
    """Missions have stated other maxima for a group than this one; once on each connection.

    Attributes:
        group: its name.
        maxima: in GB, ascending; infinite for that of the largest worker.
    """

    group: str
    maxima: tuple[float, ...]


class WorkerFacts(Message, frozen=True):
    """A worker that has a task of this mission; it comes before the first `Started` that names it.

    Once on each connection, and of 1,000 workers at most.

    Attributes:
        name: its display name, which no other worker has at the same time.
        total: its resources, as plain data.
        ends: when it runs out of its time, in seconds since the epoch of Unix, by the head's clock;
            None if it has no limit.
        job: its job, as the batch system calls it; empty if it has none.
    """

    worker: str
    name: str
    host: str
    total: dict[str, Any]
    ends: float | None = None
    job: str = ""


class WorkerEnded(Message, frozen=True):
    """A worker that the mission was informed of has left, or is lost; its runs end after that.

    Attributes:
        why: the reason why it is lost, as text; empty if it was to leave.
        silent: for a lost worker, the seconds since its last sign.
        handed_back: for a worker that was to leave, how many runs of the mission it has ended
            before their time; they begin again elsewhere.
        told: why such a worker was to leave, in its own words.
        by_batch: True if ``why`` has the words of a batch system on the end of its job.
    """

    worker: str
    why: str = ""
    silent: float | None = None
    handed_back: int = 0
    told: str = ""
    by_batch: bool = False


class Blocked(Message, frozen=True):
    """A task blocks the event loop of its worker, and with it the other tasks there.

    Attributes:
        worker: the name of the worker.
        code: where, and for how long.
    """

    task: int
    worker: str
    code: BlockingCode


class Printed(TasksPrinted, Message, frozen=True, array_like=True, tag=True):
    """Lines that tasks of the mission have printed on a worker; nothing depends on them.

    At most 32,768 characters a second, and none while the mission does not read.
    """


MISSION = (
    RegisterMission,
    DefineFunction,
    Request,
    Submit,
    Synced,
    Retract,
    AckTasks,
    Described,
    Outlook,
    LaneReport,
    Depart,
    Ask,
)
"""The messages of a mission; `DefineFunction` is of grain.worker.messages, `Ask` of
grain.edge.questions."""

HEAD = (
    MissionRegistered,
    Started,
    Seated,
    Crashed,
    Resolved,
    Retracted,
    CancelTask,
    CancelMission,
    Unschedulable,
    Overtaken,
    Trouble,
    LastAway,
    OtherVersions,
    SeveralMaxima,
    WorkerFacts,
    WorkerEnded,
    Blocked,
    Printed,
    Describe,
    Answer,
    Disconnect,
)
"""The messages of a head to a mission; `Disconnect` is of grain.worker.messages."""

CODEC = Codec(*MISSION, *HEAD)
"""The codec between a mission and a head."""
