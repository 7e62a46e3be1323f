"""`MissionLanes`: the calls that a mission holds for lanes, and those that lanes have. No I/O."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from heapq import heappop
from itertools import islice
from typing import TYPE_CHECKING, Literal

import msgspec

from grain.eventlog.causes import NO_FAILURE
from grain.eventlog.usage import report_of
from grain.head.messages import LANES, SLICE, Crash, HeldCalls
from grain.remote_exer.lanes.traffic import CallCrash, CallTraffic, Lane, Way
from grain.remote_exer.session import taken
from grain.worker.messages import UNBEGUN, Cancel, Ended, LaneOutcome, Recall
from grain.worker.payload import whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.channel import WireBatch
    from grain.edge.messages import Message, Payload
    from grain.remote_exer.lanes.traffic import Connection
    from grain.remote_exer.session import LaneOver, MissionSession, RemoteTask

_STALL = 2.0
"""Seconds between two looks in which this process may have answered no runner."""

LINGER = 1.0
"""Seconds for which a lane waits for its next call."""

PATIENCE = 0.5
"""Seconds that a call may take while others wait behind it in its lane."""

MOST_WAITING = 64
"""Lanes of a request that wait at a time; and its calls that do so at the scheduler, while it is
not known whether they are brief."""

LASTING = 0.05
"""Seconds for which a lane has had a call that the scheduler is to show. It shows the calls of some
moment for half a second: of the briefest ones that would be another one by then."""

_LARGE = 65536  # bytes of an outcome that its runner is not to keep until the next call
_AT_ONCE = 256  # calls that are held between two looks at what they need
_WIDEST = 1024  # calls in a window
_WIDE = 1024**2  # bytes of arguments in a window, or one call
_PART = 1 / 4  # of a slice in a window: what a lane hands back was sent for nothing

_OUTCOME = msgspec.msgpack.Decoder(LaneOutcome)


class MissionLanes:
    """The lanes of a mission, without their connections. No I/O.

    Args:
        session: takes the outcomes of calls; its messages are to be sent after each event.

    Attributes:
        traffic: that of each request, by number.
        way: the one by which runners come, as far as the ones before did not work.
        last_way: the last one that there is.
        closing: lanes whose channel is to be closed; to be emptied by `taken`.
        cut_off: the name of the first worker whose runner could not connect by the network, for
            the user; to be emptied by `taken`.
        invitation: returns the way for runners, or None if there is none yet. It is set by what
            has that.
        slice: as `grain.head.messages.SLICE`.
    """

    def __init__(self, session: MissionSession) -> None:
        self._session = session
        self._lanes: dict[int, Lane] = {}
        self.traffic: list[CallTraffic] = []
        self.way, self.last_way = Way.KERNEL, Way.NETWORK
        self.closing: list[Lane] = []
        self.cut_off: list[str] = []
        self._any_cut_off = False
        # When it was last looked, and when that was late: the process had no time for runners.
        self._looked, self._stalled = math.inf, -math.inf
        self.invitation: Callable[[], bytes | None] = lambda: None
        self.slice = SLICE

    # ---- calls

    def add_request(self, *, plain: bool = True) -> None:
        """Record that the mission has stated another request; `plain` as of `CallTraffic`."""
        self.traffic.append(CallTraffic(plain=plain))

    def board(self, traffic: CallTraffic, record: RemoteTask, now: float) -> int:
        """Send a call into an idle lane; return the number of the task."""
        lane = traffic.idle.pop()
        task = self._session.hold(record)
        lane.post(self._send(lane, task, now))
        return task

    def hold(self, traffic: CallTraffic, record: RemoteTask, now: float) -> int:
        """Keep a call for a lane; return the number of the task."""
        task = self._session.hold(record)
        traffic.hold(task, record.urgency)
        # To see what many calls need takes as long as to hold some. So not at each: a mission that
        # maps a function over a million values submits them in one go.
        if traffic.idle or len(traffic.held) <= 1 or not len(traffic.held) % _AT_ONCE:
            self.tend(traffic, now)
        return task

    def _send(self, lane: Lane, task: int, now: float) -> list[tuple[Message, Payload]]:
        """Put a call that is held behind those of a lane; return the messages for its runner."""
        session = self._session
        record = session.pending[task]
        if not lane.calls:
            lane.since = now
        session.board(task, lane.number, lane.last, now)
        return lane.call(task, record, session.functions[record.function].payload)

    def wants_lane(self, request: int, now: float) -> bool:
        """Record that a call is about to go to the scheduler by itself.

        Returns:
            True if a lane is to be asked for that is lent.
        """
        traffic, session = self.traffic[request], self._session
        traffic.on_submitted(session.waiting_of(request) + 1, len(session.running))
        return traffic.wants_lane(now) and session.connected and len(self._lanes) < LANES

    def ask(self, request: int, invitation: bytes, now: float, *, waits: bool = False) -> int:
        """Ask the scheduler for a lane; return its number.

        Args:
            waits: True for one that waits for room.
        """
        traffic = self.traffic[request]
        traffic.on_asked()
        number = self._session.open_lane(request, invitation, waits=waits)
        lane = Lane(number, traffic, now, waits=waits, way=self.way)
        self._lanes[number] = traffic.lanes[number] = lane
        return number

    def ask_for(self, record: RemoteTask, invitation: bytes, now: float) -> int:
        """Ask the scheduler for a lane that has a call from the beginning.

        Returns:
            The number of the call's task, which waits until the lane is open.
        """
        lane = self._lanes[self.ask(record.asked, invitation, now)]
        task = self._session.hold(record)
        # Its bytes count when it is sent, by `_begin`.
        lane.calls[task] = 0
        self._session.aboard[task] = lane.number
        return task

    def cancel(self, task: int) -> bool:
        """Cancel a call that a lane has, or that is held; return False if neither is so."""
        number = self._session.aboard.get(task)
        if number is None:
            return False
        if not number:
            self._session.end_held(task)
            return True
        self._session.cancel(task)
        lane = self._lanes.get(number)
        if lane is not None and lane.open and lane.connection is not None:
            lane.post([(Cancel((number, task)), None)])
        else:
            self._session.cancel(number)  # it cannot be reached in another way
        return True

    # ---- calls that are held

    def _next_held(self, traffic: CallTraffic) -> int:
        """Return the next call that is held; 0 if none is."""
        aboard, held = self._session.aboard, traffic.held
        while held:
            task = held[0][1]
            if aboard.get(task) == 0:
                return task
            heappop(held)  # it was cancelled
        return 0

    def tend(self, traffic: CallTraffic, now: float) -> None:
        """See that calls which are held have lanes, and that no lane waits without such calls."""
        if not traffic.holding:
            return
        session = self._session
        if not self._next_held(traffic):
            # Lanes may hand back what they have, which is then held again. Until they have none,
            # new calls are held too, or they would overtake those by the scheduler.
            traffic.holding = bool(any(lane.calls for lane in traffic.lanes.values()))
            for lane in reversed(traffic.lanes.values()):  # so each gives its turn back
                if not lane.waits or lane.open or lane.over:
                    continue
                if not session.pending[lane.number].worker:
                    session.cancel(lane.number)
                    # It may start all the same, and its call would be ended and run again.
                    self._close(lane)
            return
        if not (traffic.known and traffic.may_hold(now)):
            self._release(traffic, now)
            return
        for lane in list(traffic.idle):
            self.fill(lane, now)
        if not session.connected or not self._next_held(traffic):
            return
        invitation = self.invitation()
        if invitation is None:
            return
        held = len(traffic.held)
        # As many as end with their slices. More would cost turns that they do not use up, and fewer
        # would have calls wait for a second turn of theirs.
        wanted = min(math.ceil(held * traffic.mean / self.slice), held)
        waiting = sum(not lane.open and not lane.over for lane in traffic.lanes.values())
        request = session.pending[self._next_held(traffic)].asked
        more = min(wanted - len(traffic.lanes), MOST_WAITING - waiting, LANES - len(self._lanes))
        for _ in range(more):
            self.ask(request, invitation, now, waits=True)

    def _release(self, traffic: CallTraffic, now: float) -> None:
        """Send calls that are held to the scheduler, as they may not be brief."""
        session = self._session
        while task := self._next_held(traffic):
            waiting = session.waiting_of(session.pending[task].asked) - len(traffic.held)
            # While nothing is known, some wait there for any worker that it finds. If they are not
            # brief after all, or no lane can be had, it is to have all.
            if waiting >= MOST_WAITING and traffic.may_hold(now):
                return
            heappop(traffic.held)
            session.release(task)

    def fill(self, lane: Lane, now: float) -> None:
        """Fill the window of a lane, if half of it is empty."""
        traffic = lane.traffic
        if lane.over or lane.paused or not lane.open or not traffic.held:
            return
        sharing = sum(one.open and not one.over for one in traffic.lanes.values())
        # A wide window hides the way, but what is in it cannot go to another lane that is idle: so
        # it is a part of a slice, and towards the end no more than the part of one among equals.
        part = self.slice if lane.way is Way.BESIDE else self.slice * _PART
        room = min(int(part / traffic.mean), _WIDEST)
        room = max(min(room, math.ceil((len(traffic.held) + len(lane.calls)) / sharing)), 1)
        # Half is left when the next ones are sent, so the runner does not wait for them, and many
        # go in one message.
        if 2 * len(lane.calls) > room:
            return
        messages: list[tuple[Message, Payload]] = []
        while len(lane.calls) < room and (task := self._next_held(traffic)):
            arguments = self._session.pending[task].arguments
            size = 0 if arguments is None else len(arguments)
            if lane.calls and lane.bytes + size > _WIDE:
                break
            heappop(traffic.held)
            first = not lane.calls
            messages += self._send(lane, task, now)
            if first:
                self._session.on_begun(task)
        if messages:
            if lane in traffic.idle:
                traffic.idle.remove(lane)
            lane.post(messages)

    def _hold_again(self, lane: Lane, task: int) -> None:
        """Hold a call again that has not begun in its lane, or send it to the scheduler."""
        record = self._session.pending[task]
        if record.retracted:
            self._session.end_held(task)
            return
        self._session.leave(task)
        lane.traffic.hold(task, record.urgency)

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
        """Record that a connection has ended: the call under way may go on."""
        self._close(lane)
        lane.connection = None
        if any(self._session.pending[task].retracted for task in self._of(lane)):
            self._session.cancel(lane.number)

    def on_batch(self, lane: Lane, batch: WireBatch, now: float) -> None:
        """Take messages of a runner that have come together."""
        since, before = lane.since, len(lane.calls)
        for message, payload in batch:
            self.on_message(lane, message, payload, now)
        ended = before - len(lane.calls)
        # The pace is that of ends one behind the other. A single end says nothing of it, as the
        # lane may have been idle before; but where windows are narrow, ends always come singly.
        narrow = ended > 0 and 2 * lane.traffic.pace > self.slice * _PART
        # By the last way a window takes the time of that, there and back, whatever it has.
        slow = lane.way is Way.BESIDE
        if (ended > 1 or narrow) and not (lane.paused or slow):  # one slow call has windows of one
            lane.traffic.on_pace((now - since) / ended)
        if lane.traffic.holding:
            self.fill(lane, now)
            self.tend(lane.traffic, now)

    def on_message(self, lane: Lane, message: Message, payload: Payload, now: float) -> None:
        """Take a message of a runner."""
        self._session.now = now
        if isinstance(message, Ended):
            self._on_ended(lane, message, payload, now)
        elif isinstance(message, Recall):
            # It comes from the runner, behind the outcomes that it has sent. What the lane still
            # has is under way, or is handed back when the lane is over.
            self._close(lane)

    def _on_ended(self, lane: Lane, ended: Ended, payload: Payload, now: float) -> None:
        session, task = self._session, ended.attempt[1]
        if session.aboard.get(task) != lane.number or ended.attempt[0] != lane.number:
            return  # it has come before
        if ended.status == UNBEGUN:
            # No more until a call has ended: the long one would have them handed back again.
            lane.paused = True
            lane.remove(task, lane.since)
            self._hold_again(lane, task)
            return
        report = report_of(ended.report)
        if ended.status == "returned" or (ended.crash and not session.pending[task].retracted):
            if ended.crash:
                lane.crashes[task] = CallCrash(self._crash(lane, task, ended), report)
            self._close(lane)  # what has crashed is the scheduler's
            return
        lane.unconfirmed.append(task)
        lane.remove(task, now)
        lane.idle_since, lane.paused = now, False
        ending: Literal["value", "error", "cancelled"] = "cancelled"
        if ended.status == "done":
            ending = "error" if ended.failed else "value"
        if payload is not None and len(payload) > _LARGE:
            lane.confirm()  # the next call may be long in coming
        session.on_lane_ended(task, ending, payload, report, ended.failure or NO_FAILURE)
        if not lane.over and not lane.calls:
            lane.traffic.idle.append(lane)

    def _of(self, lane: Lane) -> list[int]:
        """Return the calls of a lane, unless another id of the mission has taken them from it."""
        aboard = self._session.aboard
        return [task for task in lane.calls if aboard.get(task) == lane.number]

    def _crash(self, lane: Lane, task: int, ended: Ended) -> Crash:
        worker = self._session.news.worker_name(self._session.pending[task].worker)
        attempt, why = (lane.number, task), ended.interruption
        return Crash(attempt, worker, ended.crash, time.time(), interruption=why)

    # ---- what the scheduler says

    def on_news(self, now: float) -> None:
        """Record which calls are cancelled, and which lanes have started or are over."""
        session = self._session
        # First: a call whose lane is over by the same news would be submitted again.
        for task in taken(session.calls_cancelled):
            if not self.cancel(task):
                session.cancel(task)  # it has left its lane since
        for number in taken(session.lanes_started):
            if number in self._lanes:
                self._open_if_ready(self._lanes[number], now)
        for over in taken(session.lanes_over):
            lane = self._lanes.pop(over.lane, None)
            if lane is not None:
                self._on_over(lane, over, now)
        for traffic in self.traffic:
            self.tend(traffic, now)

    def on_no_way(self, now: float) -> None:
        """Record that no runner can connect to this process."""
        for traffic in self.traffic:
            traffic.on_unreachable(now)
            self.tend(traffic, now)

    def report(self, now: float) -> None:
        """Report to the scheduler what has happened in lanes, and the calls that last."""
        running = self._session.running
        aboard = self._session.aboard
        calls = (one.task for one in self._lanes.values() if aboard.get(one.task) == one.number)
        lasting = [task for task in calls if running.get(task, now) + LASTING <= now]
        held = (
            HeldCalls(number, self._count_held(number), traffic.first_held, traffic.last_held)
            for number, traffic in enumerate(self.traffic)
            if self._next_held(traffic)
        )
        self._session.report_lanes(now, lasting, tuple(islice(held, LANES)))

    def _count_held(self, request: int) -> int:
        """Return how many calls of a request are held."""
        lanes, pending = self.traffic[request].lanes.values(), self._session.pending
        waiting = sum(not pending[lane.number].worker for lane in lanes)
        return max(self._session.waiting_of(request) - waiting, 0)

    def _on_over(self, lane: Lane, over: LaneOver, now: float) -> None:
        self._close(lane)
        del lane.traffic.lanes[lane.number]
        outcome = LaneOutcome()
        if over.ending == "value":
            with suppress(msgspec.MsgspecError):
                outcome = _OUTCOME.decode(whole(over.payload or b""))
        # The outcomes that it could not send, or that were not confirmed. What has come is known by
        # its task, which is in no lane any more.
        for ended, payload in outcome.ends:
            self._on_ended(lane, ended, payload, now)
        if not lane.open:
            if outcome.unreachable:
                self._on_unreachable(lane, over, now)
            elif over.ending == "crashed" and not (lane.waits and over.crashes):
                lane.traffic.on_refused(now)
        # A lane that was never open was sent nothing that could have crashed it. If the runner's
        # last beginning is not known, as when its worker is lost, the first call is blamed: it is
        # the likeliest, as only ends of the last 10 ms are on their way. If the end of the call
        # that began last has come, none is to blame.
        blamed = next((crash.call for crash in over.crashes), 0)
        crashed = lane.open
        for task in self._of(lane):
            crash = lane.crashes.get(task)
            if crash is not None:
                self._session.leave_lane(task, (crash.crash,), crash.report)
                continue
            if over.ending == "cancelled" and self._session.cancelled_by:
                # A user has cancelled the mission.
                self._session.pending[task].arguments = None
            if crashed and over.crashes and blamed in (0, task):
                # Else the call was not sent, or not begun.
                self._session.leave_lane(task, over.crashes, over.report)
                crashed = False
            elif lane.waits:
                self._hold_again(lane, task)
            else:
                self._session.leave_lane(task)
        lane.calls.clear()

    def _on_unreachable(self, lane: Lane, over: LaneOver, now: float) -> None:
        """Have runners come by the next way, if there is one; tell of the first that cannot."""
        # Since when it was asked for, as it was never open.
        busy = now > self._looked + _STALL or lane.idle_since <= self._stalled
        if lane.way >= Way.NETWORK and not (busy or self._any_cut_off):
            self._any_cut_off = True
            self.cut_off.append(self._session.news.worker_name(over.worker))
        # Calls stay held for the next lanes, which have another invitation. Many may have had the
        # first.
        if lane.way >= self.last_way:
            lane.traffic.on_unreachable(now)
        else:
            self.way = max(self.way, Way(lane.way + 1))

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
            if self._of(lane):
                self._begin(lane, now)
            else:
                lane.traffic.idle.append(lane)
                self.fill(lane, now)

    def _begin(self, lane: Lane, now: float) -> None:
        """Begin the call that a lane has had since it was asked for."""
        task, session = lane.task, self._session
        record = session.pending[task]
        if record.retracted:
            self._close(lane)  # the lane is retracted, too
            return
        # As if it were held, so that it goes the way of any other call.
        session.aboard[task] = 0
        lane.calls.clear()
        lane.post(self._send(lane, task, now))
        session.on_begun(task)

    # ---- the end

    def look(self, now: float) -> None:
        """Let time pass: give back what is idle, take back what waits for long, and report."""
        if now > self._looked + _STALL:
            self._stalled = now
        self._looked = now
        self.close_idle(now)
        for traffic in self.traffic:
            traffic.on_look()
        self.take_back(now)
        self.report(now)

    def take_back(self, now: float) -> None:
        """Have calls handed back that wait behind one that takes long; see to those held."""
        for lane in self._lanes.values():
            if len(lane.calls) > 1 and lane.since + PATIENCE <= now and not lane.paused:
                number = lane.number
                behind = list(lane.calls)[1:]
                lane.post([(Cancel((number, task), waiting=True), None) for task in behind])
        for traffic in self.traffic:
            self.tend(traffic, now)

    def close_idle(self, now: float) -> None:
        """Give back the lanes that have waited for long for a call."""
        for lane in list(self._lanes.values()):
            if lane.open and not lane.calls and lane.idle_since + LINGER <= now:
                self._close(lane)

    def _close(self, lane: Lane) -> None:
        """Have a lane take no more calls, and confirm the outcomes that have come."""
        if lane.over:
            return
        lane.over = True
        if lane in lane.traffic.idle:
            lane.traffic.idle.remove(lane)
        if lane.connection is not None:
            lane.confirm()
            self.closing.append(lane)
