"""Lanes: calls that a mission sends straight to a runner, past the scheduler.

A call through the scheduler is six messages, one after the other. For calls that take milliseconds,
and that come one by one, this is most of their time. So the mission asks the scheduler for *lanes*.
These are runs that connect to the mission, and take its calls one after the other. The scheduler
lends what a lane holds while nothing waits for it, and recalls it otherwise. `grain.worker.lanes`
is the other end, `grain.head.hub.tasks.lanes` the scheduler's part.

1.  A lane is asked for when calls of a request have proved to be brief, and several in a row found
    next to nothing waiting. So a mission that submits many calls at once has none, and needs none:
    the scheduler sends brief calls ahead in chains.
    Where a lane was refused, the next one is asked for in place of a call, which it has from the
    beginning: by itself that call might take the room that the lane needs.
2.  A lane has one call at a time, of its own request. A call for which no lane is free goes to the
    scheduler, which recalls the lanes if that call has to wait.
3.  A call belongs to its lane until its outcome has come, or the lane is over. Then it is submitted
    as any other: the scheduler's word that the lane is over says that nothing of it runs.
4.  If a lane crashed, so may have the call that it had: the crash counts as one of that call.
5.  A lane without a call is given back after `LINGER` seconds.

Calls of a lasting mission outlive its process, so it has no lanes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
import trio

from grain.edge.errors import ChannelError
from grain.eventlog.usage import report_of
from grain.head.messages import LANES, Crash
from grain.remote_exer.session import taken
from grain.worker.messages import (
    AckRuns,
    Cancel,
    DefineFunction,
    Ended,
    LaneOutcome,
    Recall,
    StartRun,
)
from grain.worker.payload import whole

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload
    from grain.eventlog.usage import Report
    from grain.remote_exer.session import LaneOver, MissionSession, RemoteTask

BRIEF = 0.25
"""Seconds that calls of a request may take in the mean to have lanes. For others the way is next to
nothing, and the scheduler is to know where they are."""

ALONE = 4
"""Calls in a row that must have found next to nothing waiting."""

LINGER = 1.0
"""Seconds for which a lane waits for its next call."""

LASTING = 0.05
"""Seconds for which a lane has had a call that the scheduler is to show. It shows the calls of some
moment for half a second: of the briefest ones that would be another one by then."""

_UNREACHABLE = 600.0  # seconds until the next lane, if a runner could not connect
_WEIGHT = 1 / 4  # of the last run in the mean
_LARGE = 65536  # bytes of an outcome that its runner is not to keep until the next call
_LONG = 1.0  # seconds; how much longer a run took makes no difference
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds after which a lane is asked for that was refused


_OUTCOME = msgspec.msgpack.Decoder(LaneOutcome)


class CallTraffic:
    """The calls of one request: whether lanes would serve them. No I/O.

    Attributes:
        refused: True if a lane found no room, perhaps as a call had it.
        lanes: the lanes that are open or asked for.
        idle: the lanes that have no call; the last one used is at the end.
    """

    __slots__ = ("_alone", "_not_before", "_pause", "_span", "idle", "lanes", "refused")

    def __init__(self) -> None:
        self._span: float | None = None
        self._alone = 0
        self._not_before = 0.0
        self._pause = _PAUSE
        self.refused = False
        self.lanes: dict[int, Lane] = {}
        self.idle: list[Lane] = []

    def on_submitted(self, waiting: int, running: int) -> None:
        """Record that a call goes to the scheduler.

        Args:
            waiting: how many calls wait then.
            running: how many run.
        """
        if waiting <= 1 + running // 2:
            self._alone += 1
        else:
            self._alone = 0

    def on_ended(self, seconds: float) -> None:
        """Record for how long a call has run."""
        span, seconds = self._span, min(seconds, _LONG)
        self._span = seconds if span is None else span + (seconds - span) * _WEIGHT

    def wants_lane(self, now: float) -> bool:
        """Return True if a lane is to be asked for."""
        return (
            self._alone >= ALONE
            and self._span is not None
            and self._span <= BRIEF
            and now >= self._not_before
            and all(lane.open for lane in self.lanes.values())
        )

    def on_asked(self) -> None:
        """Count from the beginning: this lane may be enough."""
        self._alone = 0

    def on_refused(self, now: float) -> None:
        """Ask for no lane for some time, and longer each time."""
        self.refused = True
        self._not_before = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def on_unreachable(self, now: float, *, far: bool) -> None:
        """Ask for no lane, until runners have another way; for long if they have had all ways."""
        self._not_before = now + (_UNREACHABLE if far else self._pause)

    def on_open(self) -> None:
        """Ask again soon when a lane is refused: this one was not."""
        self._pause = _PAUSE


class Lane:
    """A lane.

    Attributes:
        task: the call that it has; 0 if none.
        open: True from the moment at which it can take calls.
        over: True from the moment at which it takes no more.
        idle_since: when its last call ended, or it became open.
        unconfirmed: the last call, if that has ended and its runner does not know that the outcome
            has come; 0 if there is none.
        call_crash: the crash of its call, if that did not end the lane, with the report on it.
        connection: to its runner; None before and after.
    """

    __slots__ = (
        "_functions", "call_crash", "connection", "idle_since", "number", "open", "over", "task",
        "traffic", "unconfirmed",
    )  # fmt: skip

    def __init__(self, number: int, traffic: CallTraffic, now: float) -> None:
        self.number = number
        self.traffic = traffic
        self.connection: Connection | None = None
        self._functions: set[bytes] = set()
        self.task = self.unconfirmed = 0
        self.open = self.over = False
        self.idle_since = now
        self.call_crash: tuple[tuple[Crash, ...], Report] = ((), b"")

    # Ctrl-C waits for the next checkpoint: here it would tear a frame.
    @trio.lowlevel.enable_ki_protection
    def post(self, batch: list[tuple[Message, Payload]]) -> None:
        """Send messages to the runner; what cannot be sent is noticed by who receives."""
        if self.connection is not None:
            with suppress(ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
                self.connection.post(batch)

    def confirm(self) -> None:
        """Let the runner forget the outcome of the last call."""
        if self.unconfirmed:
            self.post([(AckRuns(((self.number, self.unconfirmed),)), None)])
            self.unconfirmed = 0

    def call(
        self, task: int, record: RemoteTask, function: Payload
    ) -> list[tuple[Message, Payload]]:
        """Return the messages that begin a call."""
        self.task = task
        start = StartRun((self.number, task), None, function=record.function, task=task)
        if record.function in self._functions:
            return [(start, record.arguments)]
        self._functions.add(record.function)
        return [(DefineFunction(record.function), function), (start, record.arguments)]


class Connection(Protocol):
    """The part of a channel to a runner that `MissionLanes` uses."""

    def post(self, batch: list[tuple[Message, Payload]]) -> None:
        """As `grain.edge.channel.Channel.post`."""


class MissionLanes:
    """The lanes of a mission, without their connections. No I/O.

    Args:
        session: takes the outcomes of calls; its messages are to be sent after each event.

    Attributes:
        traffic: that of each request, by number.
        far: True once a worker could not connect within this kernel.
        closing: lanes whose channel is to be closed; to be emptied by `taken`.
    """

    def __init__(self, session: MissionSession) -> None:
        self._session = session
        self._lanes: dict[int, Lane] = {}
        self.traffic: list[CallTraffic] = []
        self.far = False
        self.closing: list[Lane] = []

    # ---- calls

    def add_request(self) -> None:
        """Record that the mission has stated another request."""
        self.traffic.append(CallTraffic())

    def board(self, traffic: CallTraffic, record: RemoteTask, now: float) -> int:
        """Send a call into an idle lane; return the number of the task."""
        lane = traffic.idle.pop()
        task = self._session.board(record, lane.number)
        self._session.running[task] = now
        lane.post(lane.call(task, record, self._session.functions[record.function].payload))
        return task

    def wants_lane(self, request: int, now: float) -> bool:
        """Record that a call is about to go to the scheduler by itself.

        Returns:
            True if a lane is to be asked for.
        """
        traffic, session = self.traffic[request], self._session
        traffic.on_submitted(session.waiting_of(request) + 1, len(session.running))
        return traffic.wants_lane(now) and session.connected and len(self._lanes) < LANES

    def ask(self, request: int, invitation: bytes, now: float) -> int:
        """Ask the scheduler for a lane; return its number."""
        traffic = self.traffic[request]
        traffic.on_asked()
        number = self._session.open_lane(request, invitation)
        self._lanes[number] = traffic.lanes[number] = Lane(number, traffic, now)
        return number

    def ask_for(self, record: RemoteTask, invitation: bytes, now: float) -> int:
        """Ask the scheduler for a lane that has a call from the beginning.

        Returns:
            The number of the call's task, which waits until the lane is open.
        """
        lane = self._lanes[self.ask(record.asked, invitation, now)]
        lane.task = self._session.board(record, lane.number)
        return lane.task

    def cancel(self, task: int) -> bool:
        """Cancel a call that a lane has; return False if none has it."""
        number = self._session.aboard.get(task)
        if number is None:
            return False
        self._session.cancel(task)
        lane = self._lanes.get(number)
        if lane is not None and lane.open and not lane.over:
            lane.post([(Cancel((number, task)), None)])
        else:
            self._session.cancel(number)  # it cannot be reached in another way
        return True

    # ---- connections

    def connect(self, number: int, connection: Connection, now: float) -> Lane | None:
        """Record that a runner has connected for a lane.

        Returns:
            None if there is no such lane, or not any more.
        """
        lane = self._lanes.get(number)
        if lane is None or lane.over or lane.connection is not None:
            return None
        lane.connection = connection
        self._open_if_ready(lane, now)
        return lane

    def on_disconnected(self, lane: Lane) -> None:
        """Record that a connection has ended: the call of the lane may go on."""
        self._close(lane)
        lane.connection = None
        if self._has(lane) and self._session.pending[lane.task].retracted:
            self._session.cancel(lane.number)

    def on_message(self, lane: Lane, message: Message, payload: Payload, now: float) -> None:
        """Take a message of a runner."""
        self._session.now = now
        if isinstance(message, Ended):
            self._on_ended(lane, message, payload, now)
        elif isinstance(message, Recall):
            self._close(lane)

    def _on_ended(self, lane: Lane, ended: Ended, payload: Payload, now: float) -> None:
        session, task = self._session, lane.task
        if not self._has(lane) or ended.attempt != (lane.number, task):
            return  # it has come before
        report = report_of(ended.report)
        if ended.status == "returned" or (ended.crash and not session.pending[task].retracted):
            if ended.crash:
                lane.call_crash = (self._crash(lane, ended.crash),), report
            self._close(lane)  # what has crashed is the scheduler's
            return
        lane.unconfirmed, lane.task, lane.idle_since = task, 0, now
        ending: Literal["value", "error", "cancelled"] = "cancelled"
        if ended.status == "done":
            ending = "error" if ended.failed else "value"
        if payload is not None and len(payload) > _LARGE:
            lane.confirm()  # the next call may be long in coming
        session.on_lane_ended(task, ending, payload, report, ended.error)
        if not lane.over:
            lane.traffic.idle.append(lane)

    def _has(self, lane: Lane) -> bool:
        """Return True if a lane has a call: another id of the mission has taken all from theirs."""
        return self._session.aboard.get(lane.task) == lane.number

    def _crash(self, lane: Lane, how: str) -> Crash:
        worker = self._session.news.worker_name(self._session.pending[lane.task].worker)
        return Crash((lane.number, lane.task), worker, how, time.time())

    # ---- what the scheduler says

    def on_news(self, now: float) -> None:
        """Record which lanes the scheduler has started, which are over, and cancelled calls."""
        session = self._session
        for number in taken(session.lanes_started):
            if number in self._lanes:
                self._open_if_ready(self._lanes[number], now)
        for over in taken(session.lanes_over):
            lane = self._lanes.pop(over.lane, None)
            if lane is not None:
                self._on_over(lane, over, now)
        for task in taken(session.calls_cancelled):
            if not self.cancel(task):
                session.cancel(task)  # it has left its lane since

    def report(self, now: float) -> None:
        """Report to the scheduler what has happened in lanes, and the calls that last."""
        running = self._session.running
        calls = (lane.task for lane in self._lanes.values() if self._has(lane))
        lasting = [task for task in calls if running.get(task, now) + LASTING <= now]
        self._session.report_lanes(now, lasting)

    def _on_over(self, lane: Lane, over: LaneOver, now: float) -> None:
        self._close(lane)
        del lane.traffic.lanes[lane.number]
        outcome = LaneOutcome()
        if over.ending == "value":
            with suppress(msgspec.MsgspecError):
                outcome = _OUTCOME.decode(whole(over.payload or b""))
        if outcome.ended is not None:
            self._on_ended(lane, outcome.ended, outcome.payload, now)
        if not lane.open:
            if outcome.unreachable:
                # If it cannot connect within this kernel, it may from elsewhere.
                lane.traffic.on_unreachable(now, far=self.far)
                self.far = True
            else:
                lane.traffic.on_refused(now)
        if self._has(lane):
            crashes, report = lane.call_crash
            if over.ending == "cancelled":
                # A user has cancelled the mission.
                self._session.pending[lane.task].arguments = None
            elif lane.open and not crashes:  # else the call was not sent
                crashes, report = over.crashes, over.report
            self._session.leave_lane(lane.task, crashes, report)
        lane.task = 0

    def _open_if_ready(self, lane: Lane, now: float) -> None:
        record = self._session.pending.get(lane.number)
        if record is None:
            return  # it is over already, which is among the news
        if not record.worker:
            if lane.open:
                self._close(lane)  # its worker is lost to the scheduler
        elif lane.connection is not None and not lane.over and not lane.open:
            lane.open, lane.idle_since = True, now
            lane.traffic.on_open()
            if self._has(lane):
                self._begin(lane, now)
            else:
                lane.traffic.idle.append(lane)

    def _begin(self, lane: Lane, now: float) -> None:
        """Begin the call that a lane has had since it was asked for."""
        task, session = lane.task, self._session
        record = session.pending[task]
        if record.retracted:
            self._close(lane)  # the lane is retracted, too
            return
        session.begin_aboard(task, now)
        lane.post(lane.call(task, record, session.functions[record.function].payload))

    # ---- the end

    def close_idle(self, now: float) -> None:
        """Give back the lanes that have waited for long for a call."""
        for lane in list(self._lanes.values()):
            if lane.open and not lane.task and lane.idle_since + LINGER <= now:
                self._close(lane)

    def _close(self, lane: Lane) -> None:
        """Have a lane take no more calls, and confirm the last outcome."""
        if lane.over:
            return
        lane.over = True
        if lane in lane.traffic.idle:
            lane.traffic.idle.remove(lane)
        if lane.connection is not None:
            lane.confirm()
            self.closing.append(lane)
