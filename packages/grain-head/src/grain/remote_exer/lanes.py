"""Lanes: calls that a mission sends straight to a runner, past the scheduler.

A call through the scheduler wakes six processes in turn. For calls that take milliseconds, and
that come one by one, this is most of their time. So the mission asks the scheduler for *lanes*: runs
that connect to the mission, and take its calls one after the other. The scheduler lends what a lane
holds while nothing waits for it, and recalls it otherwise. `grain.worker.runner.lanes` is the other
end, `grain.head.hub.tasks.lanes` the scheduler's part.

1.  A lane is asked for when calls of a request have proved to be brief, and several in a row found
    next to nothing waiting. So a mission that submits many calls at once has none, and needs none:
    the scheduler sends brief calls ahead in chains.
2.  A lane has one call at a time, of its own request. A call for which no lane is free goes to the
    scheduler, which recalls the lanes if that call has to wait.
3.  A call belongs to its lane until its outcome has come, or the lane is over. Then it is submitted
    as any other: the scheduler's word that the lane is over says that nothing of it runs.
4.  If a lane crashed, so may have the call that it had: the crash counts as one of that call.
5.  A lane without a call is given back after `LINGER` seconds.

Calls of a lasting mission outlive its process, so it has no lanes. Nor have calls with a time limit,
with alternatives, on several workers, or with what the whole cluster has.
"""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec
import trio

from grain.edge.errors import ChannelError
from grain.edge.invitation import invite
from grain.head.messages import Crash
from grain.remote_exer.session import taken
from grain.worker.messages import (
    LANE_CODEC,
    AckRuns,
    Cancel,
    DefineFunction,
    Ended,
    LaneOpen,
    Recall,
    StartRun,
    kept_by_lane,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from grain.edge.channel import FramedChannel, WireBatch
    from grain.edge.invitation import Door
    from grain.edge.messages import Message, Payload
    from grain.eventlog.usage import Report
    from grain.remote_exer.session import LaneOver, MissionSession, RemoteTask

BRIEF = 0.02
"""Seconds that calls of a request may take in the mean to have lanes."""

ALONE = 8
"""Calls in a row that must have found next to nothing waiting."""

LINGER = 1.0
"""Seconds for which a lane waits for its next call."""

MOST = 256
"""Lanes of a mission."""

_WEIGHT = 1 / 8  # of the last run in the mean
_LONG = 1.0  # seconds; how much longer a run took makes no difference
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds after which a lane is asked for that was refused

_log = logging.getLogger("grain.remote_exer")


class CallTraffic:
    """The calls of one request: whether lanes would serve them. No I/O.

    Attributes:
        lanes: those that are open or asked for.
        idle: those of them that wait for a call, the one that was used last at the end.
    """

    __slots__ = ("_alone", "_asking", "_not_before", "_pause", "_span", "idle", "lanes")

    def __init__(self) -> None:
        self._span = _LONG
        self._alone = 0
        self._not_before = 0.0
        self._pause = _PAUSE
        self.lanes: dict[int, Lane] = {}
        self.idle: list[Lane] = []

    def on_submitted(self, waiting: int, running: int) -> None:
        """Take in that a call went to the scheduler.

        Args:
            waiting: how many calls wait by now.
            running: how many run.
        """
        if waiting <= 1 + running // 2:
            self._alone += 1
        else:
            self._alone = 0

    def on_ended(self, seconds: float) -> None:
        """Take in for how long a call has run."""
        self._span += (min(seconds, _LONG) - self._span) * _WEIGHT

    def wants_lane(self, now: float) -> bool:
        """Return True if a lane is to be asked for."""
        return (
            self._alone >= ALONE
            and self._span <= BRIEF
            and now >= self._not_before
            and all(lane.open for lane in self.lanes.values())
        )

    def on_asked(self) -> None:
        """Count anew: this lane may be enough."""
        self._alone = 0

    def on_refused(self, now: float) -> None:
        """Ask for no lane for some time, and longer each time."""
        self._not_before = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def on_open(self) -> None:
        """Ask again soon when a lane is refused: this one was not."""
        self._pause = _PAUSE


class Lane:
    """A lane.

    Attributes:
        task: the call that it has; 0 if none.
        open: True from the moment at which it can take calls.
        over: True from the moment at which it takes no more.
        since: when its last call ended.
        last: the last call that has ended.
        left: the crash of a call that did not end the lane, with the report on it.
        closing: set when the channel is to be closed.
    """

    __slots__ = (
        "_functions", "channel", "closing", "last", "left", "number", "open", "over", "since",
        "task", "traffic",
    )  # fmt: skip

    def __init__(self, number: int, traffic: CallTraffic) -> None:
        self.number = number
        self.traffic = traffic
        self.channel: FramedChannel | None = None
        self._functions: set[bytes] = set()
        self.task = self.last = 0
        self.open = self.over = False
        self.since = 0.0
        self.left: tuple[tuple[Crash, ...], Report] = ((), b"")
        self.closing = trio.Event()

    def call(self, task: int, record: RemoteTask, function: Payload) -> list[tuple[Message, Payload]]:
        """Return the messages that begin a call."""
        self.task = task
        start = StartRun((self.number, task), None, function=record.digest, task=task)
        if record.digest in self._functions:
            return [(start, record.arguments)]
        self._functions.add(record.digest)
        return [(DefineFunction(record.digest), function), (start, record.arguments)]


class Lanes:
    """The lanes of a mission.

    Args:
        deliver: hands over what the session has resolved.
        send: has the session's messages sent.
    """

    def __init__(
        self,
        session: MissionSession,
        deliver: Callable[[], object],
        send: Callable[[], object],
    ) -> None:
        self._session = session
        self._deliver = deliver
        self._send = send
        self._traffic: dict[int, CallTraffic] = {}
        self._lanes: dict[int, Lane] = {}
        self._nursery: trio.Nursery | None = None
        # The door by which runners come, and whether it is one for other hosts, too.
        self._door: Door | None = None
        self._far = False
        self._opening = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Have lanes during the block; at its end they are closed, with what they still have."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            failed: BaseException | None = None
            try:
                yield
            except BaseException as error:
                failed = error
            self._nursery = None
            # Shielded, as a cancellation must not replace what the block has raised.
            nursery.cancel_scope.shield = True
            nursery.cancel_scope.cancel()
        if failed is not None:
            raise failed

    # ---- calls

    def of(self, request: int) -> CallTraffic:
        """Return the traffic of a request."""
        traffic = self._traffic.get(request)
        if traffic is None:
            traffic = self._traffic[request] = CallTraffic()
        return traffic

    def board(self, traffic: CallTraffic, record: RemoteTask) -> int:
        """Send a call into an idle lane; return the number of the task."""
        lane = traffic.idle.pop()
        task = self._session.board(record, lane.number)
        self._post(lane, lane.call(task, record, self._session.functions[record.digest].payload))
        return task

    def on_submitted(self, request: int, running: int) -> None:
        """Take in that a call went to the scheduler by itself; ask for a lane if that would help.

        Args:
            running: how many tasks of the mission run.
        """
        traffic = self.of(request)
        traffic.on_submitted(self._session.waiting_of(request), running)
        now = trio.current_time()
        if not traffic.wants_lane(now) or len(self._lanes) >= MOST:
            return
        if self._door is None:
            self._open_door()
        elif self._session.connected:
            traffic.on_asked()
            number = self._session.open_lane(request, self._door.invitation)
            lane = self._lanes[number] = traffic.lanes[number] = Lane(number, traffic)
            lane.since = now
            self._send()

    def cancel(self, task: int) -> bool:
        """Cancel a call that a lane has; return False if none has it."""
        number = self._session.aboard.get(task)
        if number is None:
            return False
        self._session.cancel(task)
        lane = self._lanes.get(number)
        if lane is not None and not lane.over:
            self._post(lane, [(Cancel((number, task)), None)])
        else:
            self._session.cancel(number)  # it cannot be reached in another way
            self._send()
        return True

    # Ctrl-C waits for the next checkpoint: here it would tear a frame.
    @trio.lowlevel.enable_ki_protection
    def _post(self, lane: Lane, batch: list[tuple[Message, Payload]]) -> None:
        assert lane.channel is not None
        # What cannot be sent is noticed by `_serve`.
        with suppress(ChannelError, trio.BrokenResourceError, trio.ClosedResourceError):
            lane.channel.post(batch)

    # ---- what comes

    def _take(self, lane: Lane, batch: WireBatch) -> None:
        for message, payload in batch:
            if isinstance(message, Ended):
                self._on_ended(lane, message, payload)
            elif isinstance(message, Recall):
                self._close(lane)
        self._deliver()

    def _on_ended(self, lane: Lane, ended: Ended, payload: Payload) -> None:
        session, task = self._session, lane.task
        if not task or ended.attempt != (lane.number, task):
            return  # it has come before
        record = session.pending[task]
        lane.last, lane.task, lane.since = task, 0, trio.current_time()
        report = ended.report if type(ended.report) in (bytes, float) else b""
        if ended.status == "returned" or (ended.crash and not record.retracted):
            # Elsewhere, and as one that may crash again.
            crashes = (self._crash(lane, task, ended.crash),) if ended.crash else ()
            lane.task = task
            lane.left = crashes, report
            self._close(lane)
            return
        ending: Literal["value", "error", "cancelled"] = "cancelled"
        if ended.status == "done":
            ending = "error" if ended.failed else "value"
        session.on_lane_ended(task, ending, payload, report)
        if not lane.over:
            lane.traffic.idle.append(lane)

    def _crash(self, lane: Lane, task: int, how: str) -> Crash:
        worker = self._session.worker_name(self._session.pending[task].worker)
        return Crash((lane.number, task), worker, how, time.time())

    def on_started(self) -> None:
        """Take in that the scheduler has started lanes."""
        for number in taken(self._session.lanes_started):
            lane = self._lanes.get(number)
            if lane is not None:
                self._open_if_ready(lane)

    def on_over(self) -> None:
        """Take in that lanes are over."""
        for over in taken(self._session.lanes_over):
            lane = self._lanes.pop(over.lane, None)
            if lane is None:
                continue
            self._close(lane)
            traffic = lane.traffic
            del traffic.lanes[lane.number]
            if not lane.open:
                self._on_refused(lane, over)
            if over.ending == "value":
                with suppress(msgspec.MsgspecError):
                    for ended, payload in kept_by_lane(over.payload or b""):
                        self._on_ended(lane, ended, payload)
            if lane.task:
                self._leave(lane, over)
        self._deliver()

    def _on_refused(self, lane: Lane, over: LaneOver) -> None:
        lane.traffic.on_refused(trio.current_time())
        if over.ending == "value" and not self._far:
            # It had a worker, on which the runner could not connect within this kernel.
            self._far, self._door = True, None

    def _leave(self, lane: Lane, over: LaneOver) -> None:
        """Submit the call of a lane that is over; it may have crashed with it."""
        crashes, report = lane.left
        if over.ending == "cancelled":
            record = self._session.pending[lane.task]
            record.retracted = True  # a user has cancelled the lane, which stands for its call
        elif not crashes:
            crashes, report = over.crashes, over.report
        self._session.leave_lane(lane.task, crashes, report)
        lane.task = 0

    def _open_if_ready(self, lane: Lane) -> None:
        worker = self._session.pending[lane.number].worker
        if lane.channel is not None and worker and not lane.over and not lane.open:
            lane.open = True
            lane.since = trio.current_time()
            lane.traffic.on_open()
            lane.traffic.idle.append(lane)

    def _close(self, lane: Lane) -> None:
        """Have a lane take no more calls, and confirm the last outcome."""
        if lane.over:
            return
        lane.over = True
        if lane in lane.traffic.idle:
            lane.traffic.idle.remove(lane)
        if lane.channel is not None:
            if lane.last:
                self._post(lane, [(AckRuns(((lane.number, lane.last),)), None)])
            lane.closing.set()

    # ---- runners that connect

    def _open_door(self) -> None:
        if self._nursery is not None and not self._opening:
            self._opening = True
            self._nursery.start_soon(self._keep_door, self._far)

    async def _keep_door(self, far: bool) -> None:
        try:
            async with invite(LANE_CODEC, within=True, network=far) as door:
                self._door = door
                self._opening = False
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._close_idle)
                    while True:
                        await nursery.start(self._serve, door)
        except OSError as error:
            _log.info("no lanes: this host cannot listen: %s", error)

    async def _close_idle(self) -> None:
        while True:
            await trio.sleep(LINGER / 2)
            before = trio.current_time() - LINGER
            for lane in list(self._lanes.values()):
                if lane.open and not lane.task and lane.since < before:
                    self._close(lane)

    async def _serve(
        self, door: Door, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve one lane; its start is over when a runner has come."""
        async with door.guest() as channel:
            task_status.started()
            lane = None
            with suppress(ChannelError, trio.EndOfChannel, trio.ClosedResourceError):
                ((opened, _), *_) = await channel.receive()
                if isinstance(opened, LaneOpen):
                    lane = self._lanes.get(opened.task)
                if lane is None or lane.over or lane.channel is not None:
                    return
                lane.channel = channel
                self._open_if_ready(lane)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._until_closing, lane, nursery.cancel_scope)
                    try:
                        await channel.receive_into(partial(self._take, lane))
                    finally:
                        nursery.cancel_scope.cancel()
            if lane is not None:
                self._close(lane)

    async def _until_closing(self, lane: Lane, scope: trio.CancelScope) -> None:
        await lane.closing.wait()
        scope.cancel()
