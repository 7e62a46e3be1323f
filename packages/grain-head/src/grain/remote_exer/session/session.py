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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from grain.edge.version import Versions
from grain.eventlog.causes import NO_FAILURE
from grain.head.base import CallKind
from grain.head.messages import (
    AVOIDED,
    Answer,
    CancelMission,
    CancelTask,
    Crash,
    Crashed,
    Depart,
    Describe,
    FailedOn,
    HeldCalls,
    LaneCall,
    LaneFailure,
    LaneReport,
    LastAway,
    MissionRegistered,
    OtherVersions,
    Overtaken,
    RegisterMission,
    Resolved,
    Retract,
    Retracted,
    SeveralMaxima,
    Started,
    Submit,
    Synced,
    Trouble,
    Unschedulable,
)
from grain.head.scheduler.numbered import Numbered
from grain.remote_exer.ahead import SentAhead
from grain.remote_exer.lane_tally import SETTLED, LaneTally
from grain.remote_exer.session.inquiries import Inquiries
from grain.remote_exer.session.news import RunNews
from grain.remote_exer.session.notices import Notices
from grain.remote_exer.session.receipts import AT_ONCE, Receipts
from grain.remote_exer.session.records import LaneOver, RemoteTask, Resolution
from grain.remote_exer.session.registration import Registration
from grain.remote_exer.session.requests import StatedRequests
from grain.resource import ZERO
from grain.worker.messages import LANE, DefineFunction, Disconnect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.edge.messages import Message, Payload, WireBytes
    from grain.eventlog.causes import RunFailure
    from grain.eventlog.usage import Report
    from grain.worker.messages import PastAttempts
    from grain.worker.payload import Function

_NAME = 200  # characters of a function's name that travel
_READY = 1000  # submissions that wait as messages: more of them wait as the numbers of their tasks


def _definition(function: Function) -> DefineFunction:
    return DefineFunction(function.digest, function.name[:_NAME])


# Of so many resolved tasks the arguments are kept, if they have no more bytes: 4 MB at most.
_REMEMBERED = 1000
_SMALL = 4096


class _Earlier(NamedTuple):
    """The attempts at a task by tasks of other numbers.

    Attributes:
        avoid: where they have failed.
        past: their times; None if there were none.
    """

    avoid: tuple[FailedOn, ...] = ()
    past: PastAttempts | None = None


_FIRST = _Earlier()
_INVITATION = CallKind("", 0.0)  # of the tasks that ask for a lane: nothing shows their counts


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
        connected: whether there is a connection.
        resolved: outcomes of tasks; this list and the next three are emptied by `taken`.
        lanes_started, lanes_over: the numbers of lanes that have a worker, or have none any more;
            and lanes that are over.
        calls_cancelled: calls in lanes that a user has cancelled from outside.
        reports: messages on starts, crashes and workers; None if they are not wanted.
        cancelled_by: the user who has cancelled the mission from outside; empty if it is not
            cancelled.
        now: the time at which messages arrive, by any clock, which the shell around sets.
        pending: the unresolved tasks, by number.
        running: those of them that run, with the time at which the mission learned of that.
        ahead: those of them that wait in a lane for the end of another one.
        aboard: those of them that a lane has, each with the number of the lane, or that are held
            for one, with 0. The scheduler knows lanes, and not them.
        functions: the functions that tasks may call, by digest: the only store of their bytes.
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
        self.registration = Registration(
            RegisterMission(
                id, name, host, pid, versions=versions, settings=settings, number=number
            ),
            generation,
        )
        self.to_head: list[tuple[Message, Payload]] = []
        self.connected = False
        # The tasks that are to be submitted behind all that is in `to_head`, which has at least
        # `_READY` messages as long as there are any.
        self._unsent: deque[int] = deque()
        self.resolved: list[Resolution] = []
        self.lanes_started: list[int] = []
        self.lanes_over: list[LaneOver] = []
        self.calls_cancelled: list[int] = []
        self.reports: list[Message] | None = None
        self.cancelled_by = ""
        self.now = 0.0
        self.pending: Numbered[RemoteTask] = Numbered()
        self.running: dict[int, float] = {}
        self.ahead = SentAhead()
        self.aboard: dict[int, int] = {}
        # The tasks that only seats of an ended gang keep from waiting: they run nowhere, and their
        # worker is one of the seats'.
        self._ended: set[int] = set()
        self._lane_tally = LaneTally()
        self._lanes = 0  # how many are there or asked for
        # Those of them that wait for room; and how many tasks were submitted late.
        self._waiting_lanes: set[int] = set()
        self._late = 0
        self.functions: dict[bytes, Function] = {}
        self.notices = Notices()
        self.news = RunNews(self.pending)
        self.requests = StatedRequests(self.pending, self.notices)
        self.inquiries = Inquiries(self._send)
        self._last_task = 0
        self._first = first
        self._recent: deque[tuple[int, bytes, WireBytes]] = deque(maxlen=_REMEMBERED)
        # The users who have cancelled single tasks from outside. A head may say so of a task of a
        # lasting mission before that is submitted here.
        self._cancelled: dict[int, str] = {}
        # Few tasks have any: a field of each would cost 16 MB for a million.
        self._earlier: dict[int, _Earlier] = {}
        self._receipts = Receipts()

    @property
    def id(self) -> str:
        """The mission's id, which changes if another process takes it."""
        return self.registration.message.mission

    @property
    def lasts(self) -> bool:
        """True if the mission is a lasting one."""
        return self.registration.lasts

    @property
    def unconfirmed(self) -> int:
        """The number of outcomes that have arrived and are not confirmed."""
        return len(self._receipts.arrived)

    # ---- what the shell around takes away

    def take_mail(self) -> list[tuple[Message, Payload]]:
        """Return messages for the head, once; the next ones are in `to_head` then."""
        # Another list: the link goes on with the old one.
        mail, self.to_head = self.to_head, []
        unsent, pending = self._unsent, self.pending
        while unsent and len(self.to_head) < _READY:
            task = unsent.popleft()
            record = pending.get(task)
            if record is not None and record.arguments is not None:  # else the head knows already
                self._send_task(task, record)
        return mail

    def _send_task(self, task: int, record: RemoteTask) -> None:
        avoid, past = self._earlier.get(task, _FIRST) if self._earlier else _FIRST
        message = Submit(
            task,
            record.asked,
            record.function,
            record.worker,
            record.crashes,
            record.urgency,
            avoid=avoid,
            past=past,
            waits=task in self._waiting_lanes,
        )
        self.to_head.append((message, record.arguments))

    # ---- tasks

    def request(self, resources: dict[str, Any], priority: int = 0, interpreter: str = "") -> int:
        """Define what tasks may ask for, and the interpreter that they need; return its number."""
        message = self.requests.state(resources, priority, interpreter)
        self._send(message)
        return message.number

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
        # Ascending: a head takes a smaller number for a task that has come before.
        self._last_task = task = number
        self.pending[task] = record
        if avoid or past is not None:
            self._earlier[task] = _Earlier(avoid[-AVOIDED:], past)
        if not record.worker:
            self.requests.waiting[record.asked] += 1
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
        return self.submit(RemoteTask(LANE, ZERO, _INVITATION, arguments=invitation, asked=request))

    def hold(self, record: RemoteTask) -> int:
        """Keep a task for a lane; return its number."""
        self._last_task = task = max(self._last_task + 1, self._first)
        self.requests.waiting[record.asked] += 1
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
        self.requests.waiting[record.asked] -= 1
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
        self._report(Started("", (task,)))  # as the first of its lane it was said to have begun
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
        why: RunFailure = NO_FAILURE,
    ) -> None:
        """Resolve a task that a lane had.

        Args:
            why: the exception, if it has failed.
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
                worker = self.news.worker_name(record.worker)
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
        self.requests.waiting[record.asked] += bool(record.worker)
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

    @property
    def lanes_reported(self) -> bool:
        """True if each call that has ended in a lane is in a report to the head."""
        return self._lane_tally.empty

    def waiting_of(self, request: int) -> int:
        """Return how many tasks of a request wait."""
        return self.requests.waiting[request]

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
            # From now on each connection retracts it, and its memory is free.
            record.arguments = None
            if task not in self.aboard:
                self._send(Retract((task,)))

    def retry(self, task: int) -> None:
        """Note that a task which has failed is tried again: the head counts it as no failure."""
        if not self._lane_tally.retry(task):
            self._receipts.retried.add(task)

    def depart(self) -> None:
        """End the mission: no task that is still unresolved is wanted any more.

        Of a lasting one this process ends: what waits is forgotten, and what runs goes on.
        """
        # A head would begin them only to end them.
        self._unsent.clear()
        self.report_lanes(self.now, leaving=True)
        self._send(Depart())

    # ---- the connection

    def rename(self, id: str) -> None:  # noqa: A002 - its name
        """Take another id, without a connection: another process has registered under this one.

        For the head it is another mission, which has run nothing so far. Runs of the tasks so far
        belong to the other process, which does not want them.
        """
        self.registration.rename(id)
        for task in [task for task, lane in self.aboard.items() if lane]:
            self.leave_lane(task)
        for task, record in list(self.pending.items()):
            if record.function is LANE:
                self._resolve(task, "crashed", None, ())
            elif record.worker:
                record.worker = ""
                self.requests.waiting[record.asked] += 1
        self.running.clear()
        self.ahead.clear()

    def on_connected(self) -> None:
        """Begin a connection: register, and submit all that is unresolved."""
        # Before: a lane has one run, so another one is asked for.
        self._end_lanes([t for t, r in self.pending.items() if r.function is LANE and not r.worker])
        self.connected = True
        self._late = 0
        self._lane_tally.on_connection()
        # It was for the connection before. All that still holds follows.
        self.to_head.clear()
        self._send(self.registration.next())
        # Before the tasks that refer to them.
        for request in self.requests.to_send():
            self._send(request)
        for function in self.functions.values():
            self._send(_definition(function), function.payload)
        retracted = []
        for task, record in self.pending.items():  # ascending
            if task in self.aboard:
                continue
            if record.retracted:
                retracted.append(task)
            else:
                self._send_task(task, record)
        for at in range(0, len(retracted), AT_ONCE):
            self._send(Retract(tuple(retracted[at : at + AT_ONCE])))
        # Last: from here on the head ends each run whose task it was not told of, unless the
        # mission lasts.
        self._send(Synced())
        self.inquiries.on_connected()

    def _end_lanes(self, lanes: list[int]) -> None:
        """End lanes that have no worker, without a connection.

        One may have begun all the same, as another scheduler knows, but a lane has one run.
        """
        for lane in lanes:
            # None has refused those that waited.
            ending: Literal["cancelled", "crashed"]
            ending = "cancelled" if lane in self._waiting_lanes else "crashed"
            self._resolve(lane, ending, None, ())

    def on_disconnected(self) -> None:
        """End a connection; what was under way to the head may be lost."""
        self.connected = False
        for message, _ in self.to_head:
            if isinstance(message, LaneReport):
                self._lane_tally.put_back(message, self.now)
        self.to_head.clear()
        self._unsent.clear()
        self._receipts.arrived.clear()  # they arrive again
        self.inquiries.on_disconnected()
        self.news.on_disconnected()
        self.notices.on_disconnected()

    def on_message(self, message: Message, payload: Payload) -> None:
        """Handle one message from the head.

        Raises:
            RemoteProtocolError: it makes no sense; the connection is to be ended, not the mission.
        """
        match message:
            case Resolved():
                # Also an outcome that comes again, as its worker keeps it until then.
                self._receipts.arrived.append(message.task)
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
                running = message.task in self.running and message.task not in self._ended
                if record is not None and running:
                    # Of a run that followed another one, no message has said that it began.
                    self._report(Started(record.worker, (message.task,), record.alternative))
                if not lane:  # else its call has crashed, as its end says, maybe by the next head
                    self._report(message)
                # Once: the next head may repeat it.
                if record is not None and message.crash not in record.crashes:
                    record.crashes = (*record.crashes, message.crash)
                    self.news.crashed.append((message.task, message.crash))
            case Answer():
                self.inquiries.on_answer(message, payload, busy=bool(self.running or self._lanes))
            case MissionRegistered():
                self.registration.on_registered(message)
                self.notices.on_registered()
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
                self.requests.check(message.request)
                self.notices.on_message(message)
            case Overtaken():
                self.requests.on_overtaken(message)
            case OtherVersions() | SeveralMaxima() | Trouble() | LastAway():
                self.notices.on_message(message)
            case Describe():
                self.inquiries.questions.append(message)
            case Disconnect():
                self.registration.disconnect = message
            case _:
                self.news.on_message(message)
                self._report(message)

    def _on_cancelled(self, task: int, by: str) -> None:
        """Cancel a task that a user has cancelled from outside, also one yet to be submitted."""
        record = self.pending.get(task)
        if record is not None and not record.retracted:
            self._cancelled[task] = by
            if task in self.aboard:
                self.calls_cancelled.append(task)
            else:
                self.cancel(task)
        # It is that of an earlier process, and this one has yet to submit it.
        elif record is None and self.lasts and task > self._last_task:
            self._cancelled[task] = by

    def _report(self, message: Message) -> None:
        if self.reports is not None:
            self.reports.append(message)

    def confirm(self) -> None:
        """Confirm the outcomes that have arrived: soon, and best together with other messages."""
        if self._receipts.arrived:
            for message in self._receipts.take():
                self._send(message)

    def _started(self, message: Started) -> None:
        for task in message.tasks:
            record = self.pending.get(task)
            if record is not None:
                self.requests.waiting[record.asked] -= bool(message.worker) - bool(record.worker)
                if record.function is LANE:
                    self.lanes_started.append(task)
                elif message.worker != record.worker and not (
                    # It has begun when it did; without a worker that makes no sense.
                    message.over and message.worker and task in self.running
                ):
                    self.running.pop(task, None)
                    if message.worker:
                        self.running[task] = self.now
                if message.over or self._ended:
                    (self._ended.add if message.over else self._ended.discard)(task)
                record.worker = message.worker
                if message.worker and not message.over:
                    record.alternative = message.alternative

    def _resolve(
        self,
        task: int,
        ending: Literal["value", "error", "crashed", "cancelled"],
        payload: Payload,
        crashes: tuple[Crash, ...],
        report: Report = b"",
        gpus: tuple[int, ...] = (),
    ) -> None:
        record = self.pending.pop(task, None)
        if record is None:
            return  # it comes again, as its confirmation was lost
        if record.function is LANE:
            self.requests.waiting[record.asked] -= not record.worker
            self._lanes -= 1
            self._waiting_lanes.discard(task)
            over = LaneOver(task, ending, payload, crashes, report, record.worker)
            self.lanes_over.append(over)
            return
        began = self.running.pop(task, 0.0)
        if not record.worker:
            self.requests.waiting[record.asked] -= 1
        by, ahead = "", self.ahead
        self._ended.discard(task)
        if record.retracted or ending == "cancelled":
            ending, payload = "cancelled", None
            if task in ahead.behind:
                record.worker = ""  # it never began there
            # Of a mission that was cancelled as a whole, that holds for each task.
            by = self._cancelled.pop(task, self.cancelled_by)
        if ahead.following and (after := ahead.on_over(task)):
            self.running[after] = self.now
        arguments = record.arguments
        if arguments is not None and len(arguments) <= _SMALL:
            self._recent.append((task, record.function, arguments))
        if self._earlier:
            self._earlier.pop(task, None)
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

    def _send(self, message: Message, payload: Payload = None) -> None:
        if self.connected:
            self.to_head.append((message, payload))
