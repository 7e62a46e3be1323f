"""Lanes: runs that take brief calls straight from their mission. Plain state, no I/O, no clock.

`grain.worker.lanes` has what a lane is, `grain.remote_exer.lanes` what missions do with it.
Here a lane is a task like any other, but for these rules:

1.  One that is *lent* starts at once or not at all, after all that waits has found no more room:
    what it asks for is only lent, while nothing waits that a worker here could take. So it costs
    its mission no turn. One that *waits* does so in the queue of its request, and costs a turn.
    There are none for calls with a time limit, with alternatives, on several workers, or with what
    the whole cluster has.
2.  It has one run. When that is over, however it ends, the lane is over: its mission has the calls
    that it held run elsewhere, and each of them may have crashed with it. It outlives no worker: a
    call is brief, however long its lane was there.
3.  While anything waits, all that are lent are recalled: each ends when the call that it has is
    over. One that has waited has a *slice*. When that is over, it is recalled as soon as something
    waits that its worker could serve, but for lanes of its own queue: the longest served first, and
    one lane for each that waits; or for a task for which the worker is reserved. What has a higher
    priority waits for that, too. For the scheduler lets lanes start beside what cannot start yet,
    as a gang that lacks a member: without slices, these would end before they have had a call, and
    the next ones would take their places, without end.
4.  It is not a task of the user: it does not count as done or failed. Nothing is learned of its
    time. Its mission reports the calls that have ended in it, and a call that lasts. Displays show
    a lane as the call that lasts in it. Without one, they show
    only that its resources are in use.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from grain.head.hub.state import CallInLane, FailedTask, TaskCourse, TaskRecord
from grain.head.hub.tasks.claims import Claims
from grain.head.messages import SLICE
from grain.worker.messages import Recall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.hub.registry import Registry
    from grain.head.hub.state import LeaseRecord, MissionRecord
    from grain.head.hub.tasks.outcomes import Outcomes
    from grain.head.hub.tasks.quarantine import Quarantine
    from grain.head.hub.tasks.waiting import Waiting
    from grain.head.messages import LaneFailure, LaneReport
    from grain.head.scheduler.state import Start, TaskQueue


class LaneTable:
    """The lanes of all missions.

    Attributes:
        leases: as `Registry.lanes`, the longest served first.
        idle: how many of them have no call that is known.
        waiting: how many wait in each queue of the scheduler.
        due: when `recall` is to be called next, if nothing else happens before; inf if never.
    """

    def __init__(
        self, registry: Registry, waiting: Waiting, outcomes: Outcomes, quarantine: Quarantine
    ) -> None:
        self._registry = registry
        self._outgoing = registry.outgoing
        self._scheduler = registry.scheduler
        self._waiting = waiting
        self._outcomes = outcomes
        self._quarantine = quarantine
        # Those that were asked for since the last decision.
        self._asked: dict[TaskRecord, None] = {}
        self.leases = registry.lanes
        self.idle = 0
        self.waiting: Counter[TaskQueue] = Counter()
        self.due = math.inf
        waiting.lanes = self

    def ask(self, task: TaskRecord, *, has_run: bool) -> bool:
        """Let a lane start at the next decision, or end it if it has had its run.

        Returns:
            True if it is to wait as a task does.
        """
        queue = task.queue
        assert queue is not None
        only = queue.only
        plain = (
            only is not None
            and only.wtime is None
            and not (queue.shared or queue.gangs or queue.learns)
        )
        # A process may have begun it, and then only its mission knows which calls it had: a second
        # run of the lane could run these twice.
        if has_run or not plain:
            self._outcomes.resolve(task, "crashed")
            return False
        if not task.course.slices:
            self._asked[task] = None
        return task.course.slices

    def withdraw(self, task: TaskRecord) -> None:
        """Forget a lane that was asked for; no effect if it was not."""
        self._asked.pop(task, None)

    def start_asked(self, now: float) -> list[Start]:
        """Start the lanes that were asked for and have room, after all else that could; end others.

        None of them ever waits in the scheduler: it would keep workers for a lane.
        """
        starts: list[Start] = []
        # Taken out first, as resolving one withdraws it.
        asked, self._asked = self._asked, {}
        lent = not self._anything_waits()
        for task in asked:
            assert task.queue is not None
            queue = task.queue = self._scheduler.current(task.queue)
            room = lent and not task.mission.paused
            if room and self._scheduler.has_room(queue, now):
                self._waiting.queue_up(task, queue)
                # One by one: the next may have only what this one leaves.
                starts += self._scheduler.dispatch(now)
            else:
                self._outcomes.resolve(task, "crashed")
        return starts

    def on_run(self, lease: LeaseRecord) -> None:
        """Handle the run of a lane that starts, or that a worker has reported."""
        lease.lane = True
        task = lease.task
        # It may come twice: when its worker reports the run, and when its mission submits the lane.
        holds = lease.scheduler_id is not None
        if holds and task is not None and lease not in self.leases:
            self.leases[lease] = task.mission
            lease.call = task.mission.lane_calls.get(task.number)
            if lease.call is None:
                self._count_idle(lease, 1)

    def on_over(self, lease: LeaseRecord) -> None:
        """Record that a run holds nothing any more, if it is one of a lane."""
        if lease in self.leases:
            if lease.call is None:
                self._count_idle(lease, -1)
            del self.leases[lease]

    def _count_idle(self, lease: LeaseRecord, count: int) -> None:
        self.idle += count
        self.leases[lease].idle_lanes += count
        lease.worker.idle_lanes += count

    def _anything_waits(self) -> bool:
        """Return True if a task waits for what lanes may hold."""
        return self._scheduler.wants_room or bool(self._quarantine.waiting)

    def recall(self, now: float) -> None:
        """Recall lanes, as far as what waits could have what they hold."""
        # Also without lanes: one that has ended in its slice has left its end as `due`.
        self.due = math.inf
        # Each decision comes here, and most schedulers have no lanes.
        if not self.leases:
            return
        if not self._anything_waits():
            return
        claims = Claims(self._scheduler.in_order_of_service)
        # Those that end anyway first: what they leave is not to be taken from another lane as well.
        for lease in self.leases:
            if lease.recalled or lease.revoked:
                self._settle(lease, claims, math.inf)
        for lease in self.leases:
            if lease.recalled or lease.revoked:
                continue
            if self._is_to_end(lease, claims, now):
                # Once on a connection: `Runs.confirm` forgets that when the worker is back, as the
                # message may be lost.
                lease.recalled = True
                self._outgoing.post(lease.worker.link, Recall(lease.attempt))

    def _is_to_end(self, lease: LeaseRecord, claims: Claims, now: float) -> bool:
        """Return True if a lane is to be recalled that has not been."""
        task = lease.task
        if task is None or not task.course.slices or lease.worker.reserved:
            return True
        reservation = self._scheduler.workers[lease.worker.number].reservation
        assert lease.scheduler_id is not None
        if reservation is not None and lease.scheduler_id not in reservation.beside:
            return self._slice_is_over(lease, now)
        return self._settle(lease, claims, now)

    def _slice_is_over(self, lease: LeaseRecord, now: float) -> bool:
        """Return True if a lane has had its slice; else have the lanes looked at again then."""
        over = lease.began + SLICE
        if now >= over:
            return True
        self.due = min(self.due, over)
        return False

    def _settle(self, lease: LeaseRecord, claims: Claims, now: float) -> bool:
        """Return True if a lane is to end for something that waits, which is settled with that."""
        assert lease.scheduler_id is not None
        own = self._scheduler.tasks[lease.scheduler_id].queue
        for claim in claims.of(self._scheduler.workers[lease.worker.number].shape.mask):
            queue = claim.queue
            # Lanes that wait in its own queue would do what this one does: to end for them gains
            # nothing. For a task that waits there it ends like any other.
            if queue is own and claim.count <= self.waiting[queue]:
                continue
            if not self._slice_is_over(lease, now):
                return False
            claim.count -= 1
            return True
        return False

    # ---- the calls in lanes, for display

    def forget_calls(self, mission: MissionRecord) -> None:
        """Forget the calls that lanes have, as the mission reports them again."""
        before, mission.lane_calls, mission.held = mission.lane_calls, {}, ()
        self._show_calls(mission, before)

    def on_report(self, mission: MissionRecord, report: LaneReport, now: float) -> None:
        """Record what a mission reports of its lanes."""
        before = mission.lane_calls
        mission.lane_calls = {
            call.lane: CallInLane(call.task, call.function, now - call.seconds)
            for call in report.calls
        }
        mission.held = report.held
        mission.last_task = max(mission.last_task, report.last)
        self._show_calls(mission, before.keys() | mission.lane_calls.keys())
        for count in report.counts:
            self._outcomes.on_lane_calls(mission, count)
        for failure in report.failures:
            self._remember(mission, failure, now)

    def _show_calls(self, mission: MissionRecord, lanes: Iterable[int]) -> None:
        for lane in lanes:
            task = mission.tasks.get(lane)
            lease = None if task is None else task.lease
            if lease is not None and lease in self.leases:
                call = mission.lane_calls.get(lane)
                self._count_idle(lease, (call is None) - (lease.call is None))
                lease.call = call

    def _remember(self, mission: MissionRecord, failure: LaneFailure, now: float) -> None:
        """Remember a call that has failed as other tasks are."""
        course = TaskCourse(ending="error")
        task = TaskRecord(mission, failure.task, function=failure.function, course=course)
        at = now - failure.ago
        seen = (task, failure.worker, at - failure.seconds, at, failure.failure)
        self._registry.ended_tasks.append(seen)
        self._registry.failed_tasks.append(FailedTask(seen, failure.retried))

    def run_of(self, mission: MissionRecord, number: int) -> LeaseRecord | None:
        """Return the run of the lane that has a call, by the number of that; None if none has."""
        for lane, call in mission.lane_calls.items():
            task = mission.tasks.get(lane)
            lease = None if task is None else task.lease
            if call.task == number and lease is not None and lease in self.leases:
                return lease
        return None
