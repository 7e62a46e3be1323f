"""The state of a mission towards its head, whatever happens to the connection. No I/O.

1.  A mission keeps each task with all that is needed to run it until it is resolved.
2.  A connection begins with all unresolved tasks, ascending, so that an empty head can take over.
    A task that was retracted is not submitted again, only retracted again.
3.  The first resolution of a task counts; each that arrives is confirmed, so that its worker need
    not keep it, and those after the first are dropped.
4.  A task that was retracted is resolved as cancelled, whatever its outcome.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from grain.edge.errors import RemoteProtocolError
from grain.edge.mission_ids import lasts
from grain.edge.questions import LoadAnswer, WhyAnswer, unpack
from grain.edge.version import Versions
from grain.head.base import CallKind, SubmittedTask
from grain.head.messages import (
    AVOIDED,
    JOB_ENDED,
    AckTasks,
    Answer,
    Ask,
    Blocked,
    CancelMission,
    CancelTask,
    Crash,
    Crashed,
    Depart,
    Describe,
    Described,
    FailedOn,
    HeldCalls,
    LaneCall,
    LaneFailure,
    LaneReport,
    LastAway,
    MissionRegistered,
    OtherVersions,
    Outlook,
    Printed,
    RegisterMission,
    Request,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
    Trouble,
    Unschedulable,
    WorkerEnded,
    WorkerFacts,
)
from grain.head.scheduler.numbered import Numbered
from grain.remote_exer.ahead import SentAhead
from grain.remote_exer.lane_tally import SETTLED, LaneTally
from grain.resource import ZERO
from grain.worker.messages import LANE, DefineFunction, Disconnect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.edge.messages import Message, Payload, WireBytes
    from grain.eventlog.usage import Report
    from grain.worker.messages import PastAttempts
    from grain.worker.payload import Function

_NAME = 200  # characters of a function's name that travel
_CONNECTIONS = 2**32  # more than one process ever makes
_AT_ONCE = 65536  # tasks in one `Retract` or `AckTasks`; at nine bytes each they fit a message
_READY = 1000  # submissions that wait as messages: more of them wait as the numbers of their tasks
_NO_LOAD = LoadAnswer(0, 0, None)

T = TypeVar("T")
Ending: TypeAlias = Literal["value", "error", "crashed", "cancelled"]


def taken(arrived: list[T]) -> list[T]:
    """Return what has arrived, and empty the list."""
    items = arrived.copy()
    arrived.clear()
    return items


def _definition(function: Function) -> DefineFunction:
    return DefineFunction(function.digest, function.name[:_NAME])


# Of so many resolved tasks the arguments are kept, if they have no more bytes: 4 MB at most.
_REMEMBERED = 1000
_SMALL = 4096


class Resolution(NamedTuple):
    """The outcome of a task.

    Attributes:
        ending: as in `Resolved`, or ``"cancelled"``.
        payload: what it returned or raised.
        crashes: those for which it was given up.
        by: who has cancelled it from outside, for display; empty if it was not cancelled so.
        report: of its worker on the run; empty if there is none.
        began: when the mission learned that it had started; 0 if it never did.
        failed_on: where its run has failed; None if it has not, or did not run.
    """

    task: int
    ending: Ending
    payload: Payload
    crashes: tuple[Crash, ...]
    by: str = ""
    report: Report = b""
    began: float = 0.0
    failed_on: FailedOn | None = None


class LostWorker(NamedTuple):
    """A worker that is lost.

    Attributes:
        silent: the seconds since there was the last sign of it.
        tasks: the tasks that were on it.
        why: how its job has ended, as its batch system says; empty if that is not known.
    """

    name: str
    silent: float
    tasks: list[int]
    why: str = ""


class LastingMission(NamedTuple):
    """A mission that outlives its processes: their runs go on while none of them lives.

    Its runs end by themselves, by `grain cancel`, when
    a process of it cancels them, or with their worker; no process waits for them when it leaves.

    Attributes:
        id: one for all of its processes, as `grain.worker.messages.lasting_id` returns it.
        generation: the number of this process among those of the mission, from 1. If two live at a
            time, a scheduler serves the one with the larger number; the other ends with
            `grain.head.errors.MissionReplaced`. No two may have the same.
        first: the number from which its new tasks count: larger than all that other processes of
            the mission have used or will use. A task of one of these, whose run may be under way,
            is submitted again with its own number, before all new ones.
    """

    id: str
    generation: int
    first: int = 1


class StoppedWorker(NamedTuple):
    """A worker that has left in good order, and has handed back runs that it had begun.

    Attributes:
        tasks: how many of this mission.
        why: why it was to leave, as text.
    """

    name: str
    tasks: int
    why: str


class RemoteTask(SubmittedTask, eq=False, kw_only=True, gc=False):
    """A task of a mission, with all that is needed to submit it again.

    The garbage collector does not look at it, which saves it time and 16 bytes of each task: the
    session refers to it until it is resolved, and its executor leaves none unresolved.

    Attributes:
        function: the digest of its function.
        arguments: None once it is retracted.
        asked: the number of its request.
        worker: the id of the worker that it runs on, as the head last reported; empty while it
            waits.
        crashes: those of its runs so far.
    """

    # A million of these may wait. Python allocates 16 bytes at a time, of which these fields and
    # those of all tasks leave none: one more takes 16 MB.
    arguments: Payload
    asked: int
    worker: str = ""
    crashes: tuple[Crash, ...] = ()

    @property
    def retracted(self) -> bool:
        """True from the call of `MissionSession.cancel` on."""
        return self.arguments is None


class LaneOver(NamedTuple):
    """The end of a lane, as its scheduler reports it.

    Attributes:
        lane: its number.
        ending, payload, crashes: as in `Resolution`.
        report: of its worker on the run that crashed; empty if there is none.
    """

    lane: int
    ending: Ending
    payload: Payload
    crashes: tuple[Crash, ...]
    report: Report = b""


class MissionSession:
    """A mission, from its start to its end.

    Args:
        id: random, no other mission has it.
        pid: its process there.
        settings: its `grain.worker.messages.MissionSettings` as bytes.
        number: that of its label.
        generation: of a lasting mission, the number of this process of it: see `LastingMission`.
        first: the least number of its tasks, but for those that are submitted with a number.

    Attributes:
        to_head: messages for the head, until `take_mail`, which may leave more. There are none
            while there is no connection: the next one begins with everything.
        resolved: outcomes of tasks; this list and those that follow are emptied by `taken`.
        lanes_started, lanes_over: the numbers of lanes that have a worker, or have none any more;
            and lanes that are over.
        calls_cancelled: calls in lanes that a user has cancelled from outside.
        notifications: requests that cannot start, by number, with the reason, workers of other
            versions, and troubles of the head.
        blocked: reports of tasks that block their worker.
        crashed: tasks of which a run has crashed, or outlived its worker, each with that run.
        reports: messages on starts, crashes and workers; None if they are not wanted.
        printed: lines that tasks have printed.
        lost: workers that are lost.
        stopped: workers that have left with runs unfinished.
        questions: those of the head.
        explanations: the answers to the last question about a task.
        cancelled_by: the user who has cancelled the mission from outside; empty if it is not
            cancelled.
        disconnect: why the head has ended the connection; None again once the link has read it.
        registered: the head's last answer to the registration; None again once it was reported.
        load: the cores of the workers, as the head last answered; 0 where it did not.
        others: True if tasks had cores then, and none of them was this mission's.
        now: the time at which messages arrive, by any clock, which the shell around sets.
        pending: the unresolved tasks, by number.
        running: those of them that run, with the time at which the mission learned of that.
        ahead: those of them that wait on their worker for the end of another one.
        aboard: those of them that a lane has, each with the number of the lane, or that are held
            for one, with 0. The scheduler knows lanes, and not them.
        functions: the functions that tasks may call, by digest: the only store of their bytes.
        stuck: the last message about each request that no worker can meet, by its number.
        label: the mission's name in commands, as its head has it.
        lasts: True if the mission is a lasting one, by its id.
        epoch: the head's number; 0 before the first head has registered the mission.
        connected: whether there is a connection.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - its name
        name: str,
        host: str = "",
        pid: int = 0,
        versions: Versions = Versions(),  # noqa: B008 - it cannot change
        settings: bytes = b"",
        number: int = 0,
        generation: int = 0,
        first: int = 1,
    ) -> None:
        self.id = id
        self.lasts = lasts(id)
        self.name = name
        self._registration = RegisterMission(
            id, name, host, pid, versions=versions, settings=settings, number=number
        )
        self.to_head: list[tuple[Message, Payload]] = []
        # The tasks that are to be submitted behind all that is in `to_head`, which has at least
        # `_READY` messages as long as there are any.
        self._unsent: deque[int] = deque()
        self.resolved: list[Resolution] = []
        self.lanes_started: list[int] = []
        self.lanes_over: list[LaneOver] = []
        self.calls_cancelled: list[int] = []
        self.notifications: list[Unschedulable | OtherVersions | Trouble | LastAway] = []
        # The troubles of this head, by where they are, and the troubles that the head before it
        # had.
        self._troubles: set[str] = set()
        self._troubles_before: set[str] = set()
        self._other_versions: set[Versions] = set()
        self.blocked: list[Blocked] = []
        self.crashed: list[tuple[int, Crash]] = []
        self.printed: list[Printed] = []
        self.lost: list[LostWorker] = []
        self.stopped: list[StoppedWorker] = []
        # The names of the workers that this connection has reported, by id.
        self._workers: dict[str, str] = {}
        # The tasks on each worker, as they were when the first of `lost` was.
        self._held: dict[str, list[int]] = {}
        self.reports: list[Message] | None = None
        self.explanations: list[WhyAnswer] = []
        self.stuck: dict[int, Unschedulable] = {}
        # Those of the connection before, which the head may not repeat.
        self._stuck_before: dict[int, Unschedulable] = {}
        # How many tasks wait, by the number of their request; and one of the stuck tasks.
        self._queued: list[int] = []
        self._stuck_task = 0
        self.label = name
        self.cancelled_by = ""
        self.registered: MissionRegistered | None = None
        self.disconnect: Disconnect | None = None
        self.questions: list[Describe] = []
        self.load = _NO_LOAD
        self.others = False
        self.now = 0.0
        self.pending: Numbered[RemoteTask] = Numbered()
        self.running: dict[int, float] = {}
        self.ahead = SentAhead()
        self.aboard: dict[int, int] = {}
        self._lane_tally = LaneTally()
        self._lanes = 0  # how many are there or asked for
        # Those of them that wait for room; and how many tasks were submitted late.
        self._waiting_lanes: set[int] = set()
        self._late = 0
        self._outlook: Outlook | None = None
        self.functions: dict[bytes, Function] = {}
        self.epoch = 0
        self.connected = False
        # A head takes a connection with a larger number for the later one: those of the next
        # process of a lasting mission are later than all of this.
        self._connections = generation * _CONNECTIONS
        self._requests: list[Request] = []
        self._last_task = 0
        self._first = first
        self._recent: deque[tuple[int, bytes, WireBytes]] = deque(maxlen=_REMEMBERED)
        # Who has cancelled a task from outside, by its number.
        self._cancelled: dict[int, str] = {}
        # Where earlier attempts at a task have failed, by its number.
        self._avoid: dict[int, tuple[FailedOn, ...]] = {}
        # The attempts at a task by tasks of other numbers, likewise.
        self._past: dict[int, PastAttempts] = {}
        # Tasks whose outcomes have arrived on this connection, and are not confirmed yet.
        self._unconfirmed: list[int] = []
        # Those of them that have failed and are tried again.
        self._retried: set[int] = set()

    @property
    def unconfirmed(self) -> int:
        """The number of outcomes that have arrived and are not confirmed."""
        return len(self._unconfirmed)

    # ---- what the shell around takes away

    def take_mail(self) -> list[tuple[Message, Payload]]:
        """Return messages for the head, once; the next ones are in `to_head` then."""
        mail, self.to_head = self.to_head, []
        unsent, pending = self._unsent, self.pending
        while unsent and len(self.to_head) < _READY:
            task = unsent.popleft()
            record = pending.get(task)
            if record is not None and record.arguments is not None:  # else the head knows already
                self._send_task(task, record)
        return mail

    def _send_task(self, task: int, record: RemoteTask) -> None:
        asked, digest = record.asked, record.function
        avoid = self._avoid.get(task, ()) if self._avoid else ()
        past = self._past.get(task) if self._past else None
        message = Submit(
            task, asked, digest, record.worker, urgency=record.urgency, avoid=avoid, past=past,
            waits=task in self._waiting_lanes,
        )  # fmt: skip
        self.to_head.append((message, record.arguments))

    # ---- tasks

    def describe(self, question: Describe, call: str) -> None:
        """Answer a question of the head."""
        self._send(Described(question.question, call))

    def ask_why(self, task: int) -> None:
        """Ask why a task waits or runs, and forget the answers to the last such question."""
        self.explanations.clear()
        self._send(Ask("why", task=task))

    def ask_load(self) -> None:
        """Ask for the load, which takes the place of the last one."""
        self._send(Ask("load"))

    def request(self, resources: dict[str, Any], priority: int = 0, interpreter: str = "") -> int:
        """Define what tasks may ask for, and the interpreter that they need; return its number."""
        message = Request(len(self._requests), resources, priority, interpreter)
        self._requests.append(message)
        self._queued.append(0)
        self._send(message)
        return message.number

    def request_of(self, number: int) -> Request:
        """Return the request of a number."""
        return self._requests[number]

    def define(self, function: Function) -> Function:
        """Define a function that tasks may call; return it, or the one of equal bytes."""
        defined = self.functions.get(function.digest)
        if defined is not None:
            return defined
        # Sent before it is stored: an interrupt in between has it sent twice, and never leaves a
        # function that is stored here and was not sent.
        self._send(_definition(function), function.payload)
        self.functions[function.digest] = function
        return function

    def submit(
        self,
        record: RemoteTask,
        number: int = 0,
        avoid: tuple[FailedOn, ...] = (),
        past: PastAttempts | None = None,
    ) -> int:
        """Submit a task; return its number.

        Args:
            record: the task.
            number: its own, larger than all before; 0 for the next one.
            avoid: where earlier attempts at it have failed.
            past: these attempts; None if there were none.

        Raises:
            ValueError: the number is not larger than that of an earlier task.
        """
        last = self._last_task
        if not number:
            number = last + 1 if last >= self._first else self._first
        elif number <= last:
            raise ValueError(f"task {number} after task {last}: the numbers of tasks ascend")
        self._last_task = task = number
        self.pending[task] = record
        if avoid:
            self._avoid[task] = avoid[-AVOIDED:]
        if past is not None:
            self._past[task] = past
        if not record.worker:
            self._queued[record.asked] += 1
        if self.connected:
            if len(self.to_head) >= _READY:
                # A loop that submits is faster than the scheduler, or leaves it no turn.
                self._unsent.append(task)
            else:
                self._send_task(task, record)
        return task

    # ---- lanes, see `grain.remote_exer.lanes`

    def open_lane(self, request: int, invitation: bytes, *, waits: bool = False) -> int:
        """Ask for a lane for calls of a request; return its number.

        Args:
            waits: True for one that waits for room, as a task does.
        """
        self._lanes += 1
        if waits:
            self._waiting_lanes.add(max(self._last_task + 1, self._first))
        return self.submit(
            RemoteTask(LANE, ZERO, CallKind("", 0.0), arguments=invitation, asked=request)
        )

    def worker_name(self, worker: str) -> str:
        """Return the name of a worker by its id; "" if it is not known."""
        return self._workers.get(worker, "")

    def hold(self, record: RemoteTask) -> int:
        """Keep a task for a lane; return its number."""
        self._last_task = task = max(self._last_task + 1, self._first)
        self._queued[record.asked] += 1
        self.pending[task] = record
        self.aboard[task] = 0
        return task

    def board(self, task: int, lane: int, behind: int, now: float) -> None:
        """Record that a task goes into a lane.

        Args:
            behind: the task for whose end it waits there; 0 for none.
        """
        record = self.pending[task]
        record.worker = self.pending[lane].worker
        self._queued[record.asked] -= 1
        self.aboard[task] = lane
        if not behind or not self.ahead.add(task, behind):
            self.running[task] = now

    def on_begun(self, task: int) -> None:
        """Report that a task has begun in a lane, which no message of the head says."""
        self._report(Started(self.pending[task].worker, (task,)))

    def leave(self, task: int) -> None:
        """Hold a task again that has not begun in its lane."""
        record = self.pending[task]
        self._leave_lane(task, record)
        self.aboard[task] = 0

    def release(self, task: int) -> None:
        """Submit a task that was held."""
        del self.aboard[task]
        self._submit_late(task, self.pending[task])

    def end_held(self, task: int) -> None:
        """Resolve a task as cancelled that no runner has begun."""
        del self.aboard[task]
        self.pending[task].arguments = None
        self._resolve(task, "cancelled", None, ())

    def on_lane_ended(
        self,
        task: int,
        ending: Literal["value", "error", "cancelled"],
        payload: Payload,
        report: Report,
        why: str = "",
    ) -> None:
        """Resolve a task that a lane had.

        Args:
            why: the error in a line, if it has failed.
        """
        del self.aboard[task]
        record = self.pending[task]
        if ending != "cancelled" and not record.retracted:
            seconds = report
            if type(seconds) is not float:
                seconds = max(self.now - self.running.get(task, self.now), 0.0)
            if ending == "value":
                self._lane_tally.on_value(record.function, seconds)
            else:
                worker = self.worker_name(record.worker)
                failure = LaneFailure(task, record.function, worker, seconds, 0.0, why)
                self._lane_tally.on_error(failure, self.now)
        self._resolve(task, ending, payload, (), report)

    def leave_lane(self, task: int, crashes: tuple[Crash, ...] = (), report: Report = b"") -> None:
        """Submit a task whose lane is over without an outcome of it.

        Args:
            crashes: if it may have crashed with its lane.
            report: as of `Crashed`.
        """
        del self.aboard[task]
        record = self.pending[task]
        if record.retracted:
            self._resolve(task, "cancelled", None, crashes, report)
            return
        self._leave_lane(task, record)
        record.crashes = (*record.crashes, *crashes)
        for crash in crashes:
            self._report(Crashed(task, crash, report))
        self._report(Started("", (task,)))
        self._submit_late(task, record)

    def _leave_lane(self, task: int, record: RemoteTask) -> None:
        """Note that a task waits that was in a lane."""
        self.running.pop(task, None)
        if after := self.ahead.on_over(task):
            self.running[after] = self.now
        self._queued[record.asked] += bool(record.worker)
        record.worker = ""

    def _submit_late(self, task: int, record: RemoteTask) -> None:
        """Submit a task whose number need not ascend."""
        self._late += 1
        message = Submit(
            task, record.asked, record.function, "", record.crashes, record.urgency, self._late
        )
        self._send(message, record.arguments)

    def report_lanes(
        self,
        now: float,
        lasting: Iterable[int] = (),
        held: tuple[HeldCalls, ...] = (),
        *,
        leaving: bool = False,
    ) -> None:
        """Report to the head what has happened in lanes, if there is news and a connection.

        Args:
            lasting: the tasks in lanes that are to be shown.
            held: those that are held.
            leaving: True for the last report.
        """
        self._lane_tally.settle(now if leaving else now - SETTLED)
        if not self.connected:
            return
        calls = [
            LaneCall(
                self.aboard[task],
                task,
                self.pending[task].function,
                max(now - self.running.get(task, now), 0.0),
            )
            for task in lasting
        ]
        for report in self._lane_tally.take(calls, self._last_task, now, held):
            self._send(report)

    def waiting_of(self, request: int) -> int:
        """Return how many tasks of a request wait."""
        return self._queued[request]

    def cancel(self, task: int) -> None:
        """Retract a task; it is resolved as cancelled when nothing of it is left.

        Of a lasting mission a task may go on that has an outcome here, or is another process's: it
        is retracted, too, if there is a connection.
        """
        record = self.pending.get(task)
        if record is None:
            if self.lasts:
                self._send(Retract((task,)))
        elif not record.retracted:
            record.arguments = None
            if task not in self.aboard:
                self._send(Retract((task,)))

    def retry(self, task: int) -> None:
        """Note that a task which has failed is tried again: the head counts it as no failure."""
        if not self._lane_tally.retry(task):
            self._retried.add(task)

    def note_outlook(self, outlook: Outlook) -> None:
        """Tell the head how far the mission is, unless that has not changed."""
        if outlook != self._outlook:
            self._outlook = outlook
            self._send(outlook)

    def depart(self) -> None:
        """End the mission: no task that is still unresolved is wanted any more.

        Of a lasting one this process ends: what waits is forgotten, and what runs goes on.
        """
        self._unsent.clear()
        self.report_lanes(self.now, leaving=True)
        self._send(Depart())

    # ---- the connection

    def rename(self, id: str) -> None:  # noqa: A002 - its name
        """Take another id, without a connection: another process has registered under this one.

        For the head it is another mission, which has run nothing so far. Runs of the tasks so far
        belong to the other process, which does not want them.
        """
        self.id = id
        self._registration = msgspec.structs.replace(self._registration, mission=id)
        for task in [task for task, lane in self.aboard.items() if lane]:
            self.leave_lane(task)
        for task, record in list(self.pending.items()):
            if record.function is LANE:
                self._resolve(task, "crashed", None, ())
            elif record.worker:
                record.worker = ""
                self._queued[record.asked] += 1
        self.running.clear()
        self.ahead.clear()

    def on_connected(self) -> None:
        """Begin a connection: register, and submit all that is unresolved."""
        # Before: a lane has one run, so another one is asked for.
        self._end_lanes([t for t, r in self.pending.items() if r.function is LANE and not r.worker])
        self.connected = True
        self._late = 0
        self._lane_tally.on_connection()
        self.to_head.clear()
        self._connections += 1
        self._send(msgspec.structs.replace(self._registration, connection=self._connections))
        for request in self._requests:
            self._send(request)
        for function in self.functions.values():
            self._send(_definition(function), function.payload)
        for task, p in self.pending.items():  # ascending
            if not p.retracted and task not in self.aboard:
                message = Submit(
                    task, p.asked, p.function, p.worker, p.crashes, p.urgency,
                    avoid=self._avoid.get(task, ()), past=self._past.get(task),
                    waits=task in self._waiting_lanes,
                )  # fmt: skip
                self._send(message, p.arguments)
        retracted = [
            task for task, p in self.pending.items() if p.retracted and task not in self.aboard
        ]
        self._send_in_parts(Retract, retracted)
        self._send(Synced())
        if self._outlook is not None:
            self._send(self._outlook)

    def _end_lanes(self, lanes: list[int]) -> None:
        """End lanes that have no worker, without a connection.

        One may have begun all the same, as another scheduler knows, but a lane has one run.
        """
        for lane in lanes:
            # None has refused those that waited.
            ending: Ending = "cancelled" if lane in self._waiting_lanes else "crashed"
            self._resolve(lane, ending, None, ())

    def on_disconnected(self) -> None:
        """End a connection; what was under way to the head may be lost."""
        self.connected = False
        self.load, self.others = _NO_LOAD, False
        for message, _ in self.to_head:
            if isinstance(message, LaneReport):
                self._lane_tally.put_back(message, self.now)
        self.to_head.clear()
        self._unsent.clear()
        self.questions.clear()
        self._unconfirmed.clear()  # they arrive again
        self._workers.clear()
        self._stuck_before.update(self.stuck)
        self.stuck = {}
        self._troubles_before |= self._troubles
        self._troubles = set()

    def on_message(self, message: Message, payload: Payload) -> None:
        """Handle one message from the head.

        Raises:
            RemoteProtocolError: it makes no sense; the connection is to be ended, not the mission.
        """
        match message:
            case Resolved():
                self._unconfirmed.append(message.task)
                self._resolve(
                    *(message.task, message.ending, payload, message.crashes, message.report),
                    message.gpus,
                )
            case Retracted():
                self._resolve(message.task, "cancelled", None, (), message.report)
            case Started():
                self._started(message)
                self._report(message)
            case Crashed():
                record = self.pending.get(message.task)
                lane = record is not None and record.function is LANE
                if record is not None and message.task in self.running:
                    # Of a run that followed another one, no message has said that it began.
                    self._report(Started(record.worker, (message.task,), record.alternative))
                if not lane:  # else its call has crashed, as its end says, maybe by the next head
                    self._report(message)
                if record is not None and message.crash not in record.crashes:
                    record.crashes = (*record.crashes, message.crash)
                    self.crashed.append((message.task, message.crash))
            case Answer() if message.about == "load":
                self.load = unpack(payload, LoadAnswer)
                self.others = self.load.given > 0 and not (self.running or self._lanes)
            case Answer() if message.about == "why":
                self.explanations.append(unpack(payload, WhyAnswer))
            case MissionRegistered():
                self._on_registered(message)
            case _:
                self._on_report(message)

    def _on_report(self, message: Message) -> None:
        """Handle a message on which no task depends."""
        match message:
            case CancelTask():
                self._on_cancelled(message.task, message.by)
            case CancelMission():
                self.cancelled_by = message.by
            case Unschedulable():
                self._on_unschedulable(message)
            case OtherVersions():
                if message.versions not in self._other_versions:  # or another head has said so
                    self._other_versions.add(message.versions)
                    self.notifications.append(message)
            case Trouble() | LastAway():
                self._on_trouble(message)
            case Blocked():
                self.blocked.append(message)
            case Printed():
                self.printed.append(message)
            case Describe():
                self.questions.append(message)
            case Disconnect():
                self.disconnect = message
            case _:
                self._on_worker(message)

    def _on_cancelled(self, task: int, by: str) -> None:
        """Cancel a task that a user has cancelled from outside, also one yet to be submitted."""
        record = self.pending.get(task)
        if record is not None and not record.retracted:
            self._cancelled[task] = by
            if task in self.aboard:
                self.calls_cancelled.append(task)
            else:
                self.cancel(task)
        elif record is None and self.lasts and task > self._last_task:
            self._cancelled[task] = by

    def _on_worker(self, message: Message) -> None:
        """Handle a message on a worker that has tasks of the mission, or of an unknown kind."""
        if isinstance(message, WorkerFacts):
            self._workers[message.worker] = message.name
        elif isinstance(message, WorkerEnded):
            self._on_worker_ended(message)
        self._report(message)

    def _on_worker_ended(self, message: WorkerEnded) -> None:
        """Note a lost worker, with its tasks, or a worker that left with runs unfinished."""
        name = self._workers.pop(message.worker, "")
        if name and message.handed_back:
            self.stopped.append(StoppedWorker(name, message.handed_back, message.told))
        if not (name and message.why):
            return
        if not self.lost:
            # One look at all tasks, however many workers are lost at once.
            self._held = {}
            for task, record in self.pending.items():
                if record.worker and record.function is not LANE:
                    self._held.setdefault(record.worker, []).append(task)
        tasks = self._held.get(message.worker, [])
        why = message.why if message.why.startswith(f"{JOB_ENDED}: ") else ""
        self.lost.append(LostWorker(name, message.silent or 0.0, tasks, why))

    def _report(self, message: Message) -> None:
        if self.reports is not None:
            self.reports.append(message)

    def _on_registered(self, message: MissionRegistered) -> None:
        self.epoch = message.epoch
        self.label = message.label or self.name
        self.registered = message
        # What this head has not repeated up to now does not hold any more.
        for request in self._stuck_before.keys() - self.stuck.keys():
            self.notifications.append(Unschedulable(request, ""))
        self._stuck_before = {}
        for what in self._troubles_before - self._troubles:
            self.notifications.append(Trouble(what, ""))
        self._troubles_before = set()

    def _on_trouble(self, trouble: Trouble | LastAway) -> None:
        if isinstance(trouble, LastAway):
            self.notifications.append(trouble)
            return
        if trouble.why:
            self._troubles.add(trouble.what)
        else:
            self._troubles.discard(trouble.what)
        if not trouble.why or trouble.what not in self._troubles_before:  # else it is reported
            self.notifications.append(trouble)

    def _on_unschedulable(self, message: Unschedulable) -> None:
        if not 0 <= message.request < len(self._requests):
            raise RemoteProtocolError(f"a message on request {message.request}, which never was")
        if message.why:
            self.stuck[message.request] = message
        else:
            self.stuck.pop(message.request, None)
        self.notifications.append(message)

    def count_stuck(self) -> tuple[int, int]:
        """Return how many waiting tasks no worker here can run, and the number of one of them."""
        count = sum(self._queued[request] for request in self.stuck)
        if not count:
            return 0, 0
        one = self.pending.get(self._stuck_task)
        if one is None or one.worker or one.asked not in self.stuck:
            # A look at many tasks, and not again before this one has changed.
            self._stuck_task = next(self.stuck_tasks(), 0)
        return count, self._stuck_task

    def stuck_tasks(self) -> Iterator[int]:
        """Yield the tasks that wait and that no worker here can run: a look at all tasks."""
        if any(self._queued[request] for request in self.stuck):
            for task, record in self.pending.items():
                if record.asked in self.stuck and not record.worker:
                    yield task

    def unmet(self) -> dict[int, Unschedulable]:
        """Return a waiting task for each request that no worker here can meet, with the message."""
        left = {request for request in self.stuck if self._queued[request]}
        found: dict[int, Unschedulable] = {}
        for task in self.stuck_tasks():
            asked = self.pending[task].asked
            if asked in left:
                left.discard(asked)
                found[task] = self.stuck[asked]
                if not left:
                    break
        return found

    def confirm(self) -> None:
        """Confirm the outcomes that have arrived: soon, and best together with other messages."""
        if self._unconfirmed:
            tasks, self._unconfirmed = self._unconfirmed, []
            if self._retried:
                tasks = self._confirm_retried(tasks)
            self._send_in_parts(AckTasks, tasks)

    def _confirm_retried(self, tasks: list[int]) -> list[int]:
        """Confirm those of some tasks that are tried again; return the others."""
        again = [task for task in tasks if task in self._retried]
        others = [task for task in tasks if task not in self._retried]
        self._retried.difference_update(again)
        for at in range(0, len(again), _AT_ONCE):
            self._send(AckTasks((), tuple(again[at : at + _AT_ONCE])))
        return others

    def _started(self, message: Started) -> None:
        if message.behind and message.worker:
            self._sent_ahead(message)
            return
        for task in message.tasks:
            record = self.pending.get(task)
            if record is not None:
                self._queued[record.asked] -= bool(message.worker) - bool(record.worker)
                if record.function is LANE:
                    self.lanes_started.append(task)
                elif message.worker != record.worker and not (
                    # It has begun when it did; without a worker that makes no sense.
                    message.over and message.worker and task in self.running
                ):
                    self._leave_worker(task, record)
                    if message.worker:
                        self.running[task] = self.now
                record.worker = message.worker
                if message.worker and not message.over:
                    record.alternative = message.alternative

    def _sent_ahead(self, message: Started) -> None:
        """Note tasks that wait on a worker, each for the end of another one."""
        pending, running, queued, ahead = self.pending, self.running, self._queued, self.ahead
        worker, last = message.worker, 0
        for task, before in zip(message.tasks, message.behind, strict=False):
            record = pending.get(task)
            if record is None:
                continue
            if record.worker:
                self._leave_worker(task, record)
            else:
                queued[record.asked] -= 1
            record.worker = worker
            # In a chain, that is the task before; a look at all tasks costs more.
            known = before == last or before in pending
            if not known or not ahead.add(task, before):
                running[task] = self.now
            last = task

    def _leave_worker(self, task: int, record: RemoteTask) -> None:
        """Note that a task has no run on its worker any more, if it had one."""
        if not record.worker:
            return
        began = self.running.pop(task, None)
        if began is not None and began < self.now:
            # Of a run that followed another one, there was no message. If the end of that one has
            # just arrived, its worker had handed this one back before.
            self._report(Started(record.worker, (task,), record.alternative))
        if after := self.ahead.on_over(task):
            self.running[after] = self.now

    def _resolve(
        self,
        task: int,
        ending: Ending,
        payload: Payload,
        crashes: tuple[Crash, ...],
        report: Report = b"",
        gpus: tuple[int, ...] = (),
    ) -> None:
        record = self.pending.pop(task, None)
        if record is None:
            return  # it comes again, as its confirmation was lost
        if record.function is LANE:
            self._queued[record.asked] -= not record.worker
            self._lanes -= 1
            self._waiting_lanes.discard(task)
            self.lanes_over.append(LaneOver(task, ending, payload, crashes, report))
            return
        began = self.running.pop(task, 0.0)
        if not record.worker:
            self._queued[record.asked] -= 1
        by, ahead = "", self.ahead
        if record.retracted or ending == "cancelled":
            ending, payload = "cancelled", None
            if task in ahead.behind:
                record.worker = ""  # it never began there
            by = self._cancelled.pop(task, self.cancelled_by)
        if ahead.following and (after := ahead.on_over(task)):
            self.running[after] = self.now
        arguments = record.arguments
        if arguments is not None and len(arguments) <= _SMALL:
            self._recent.append((task, record.function, arguments))
        if self._avoid:
            self._avoid.pop(task, None)
        if self._past:
            self._past.pop(task, None)
        failed_on = None
        if ending == "error" and record.worker:
            failed_on = FailedOn(record.worker, gpus)
        self.resolved.append(
            Resolution(task, ending, payload, crashes, by, report, began, failed_on)
        )

    def call_of(self, task: int) -> tuple[Function, WireBytes] | None:
        """Return function and arguments of a task, as text; None if they are not known any more.

        They are known while it is not resolved, and for the last small tasks that were.
        """
        record = self.pending.get(task)
        if record is not None:
            call = None if record.arguments is None else (record.function, record.arguments)
        else:
            call = next(((f, a) for number, f, a in self._recent if number == task), None)
        # The number of a lane is one that a user may ask about by mistake.
        return None if call is None or call[0] is LANE else (self.functions[call[0]], call[1])

    def _send_in_parts(self, kind: type[Retract | AckTasks], tasks: list[int]) -> None:
        for at in range(0, len(tasks), _AT_ONCE):
            self._send(kind(tuple(tasks[at : at + _AT_ONCE])))

    def _send(self, message: Message, payload: Payload = None) -> None:
        if self.connected:
            self.to_head.append((message, payload))
