"""Which of the tasks that wait start now, and where: the scheduler's decisions.

`_scheduler` tells the policy, and is told what happens; here is what follows from it. The state is
set up here, since deciding is what it is for. Rooms of their own have the order of the queues
(`_queues`), who fits where (`_levels`), and who may pass whom (`_fairness`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.head.scheduler.queues import QueueTable
from grain.head.scheduler.starvation_guard import Fairness
from grain.head.scheduler.state import Start
from grain.resource import RunTimes

if TYPE_CHECKING:
    from grain.head.scheduler.index import Worker
    from grain.head.scheduler.state import Task, TaskQueue
    from grain.resource import Resource


class Dispatch:
    """The deciding part of the scheduler.

    Args:
        max_overtakes: see `Scheduler`.
    """

    def __init__(self, *, max_overtakes: int = 128) -> None:
        self.run_times = RunTimes()
        self.tasks: dict[int, Task] = {}
        self.workers: dict[int, Worker] = {}
        self._queues = QueueTable(self.run_times)
        # Workers whose level is out of date.
        self._unsettled: dict[int, Worker] = {}
        self._fairness = Fairness(self.workers, self._queues, self._unsettled, max_overtakes)
        self._seq = 0
        self._attempts = 0
        # Leases with a known end: while there are none, no promise can have a start time.
        self._bounded = 0
        self._waiting = 0

    def dispatch(self, now: float) -> list[Start]:
        """Start every task that can start, the oldest first."""
        starts: list[Start] = []
        while True:
            if len(self._unsettled) == 1 and not self._queues.open:
                # The usual case in a long queue: one run ended, and whoever waits found no room
                # elsewhere. What starts is decided without a look at the other workers.
                self._refill(self._unsettled.popitem()[1], starts, now)
            else:
                for worker in self._unsettled.values():
                    self._settle(worker)
                self._unsettled.clear()
            if self._queues.open:
                self._serve_first(starts, now)
            elif not self._unsettled:
                return starts

    def _refill(self, worker: Worker, starts: list[Start], now: float) -> None:
        """Start on one worker what fits there, the oldest first."""
        if not worker.stale and worker.promise is None and self._hand_over(worker, starts, now):
            return  # where it stands in the index has not changed
        worker.give_back()
        worker.stale = False
        queues = self._queues.by_bit.values()
        while True:
            level = self._queues.levels.of(worker, queues)
            room = level.mask & self._queues.active
            chosen = self._first(room, worker, now) if room else None
            if chosen is None:
                self._queues.levels.place(worker, level, queues)
                return
            starts.append(self._start(chosen, worker, now))
            if self._unsettled:
                # A promise was kept or broken: more than this worker is concerned.
                worker.stale = True
                self._unsettled[worker.id] = worker
                return

    def _hand_over(self, worker: Worker, starts: list[Start], now: float) -> bool:
        """Let the oldest tasks take over what ended runs of their own queue held.

        Nothing is then given back and allocated anew, and nobody else finds room.

        Returns:
            Whether all that was returned was taken over.
        """
        while worker.returned and self._queues.order:
            queue, held = worker.returned[-1]
            if self._queues.order[0][2] is not queue or not worker.has_time(queue, now):
                return False
            worker.returned.pop()
            starts.append(self._start(queue, worker, now, held))
            if self._unsettled:  # a promise was kept elsewhere
                self._unsettled[worker.id] = worker
                return True
        return not worker.returned

    def _first(self, room: int, worker: Worker, now: float) -> TaskQueue | None:
        """The first of the queues in the mask ``room`` that may start its oldest task here."""
        for _, _, queue in self._queues.order:
            if (
                room & queue.bit
                and worker.has_time(queue, now)
                and (worker.promise is None or self._fairness.permits(queue, worker, now))
            ):
                return queue
            if self._bounded:
                self._fairness.protect(queue, now)
        return None

    def _serve_first(self, starts: list[Start], now: float) -> None:
        """Start the oldest task of the first queue that may find room, on the tightest fit."""
        for _, _, queue in self._queues.order:
            if self._queues.open & queue.bit:
                break
            if self._bounded:
                self._fairness.protect(queue, now)
        worker = self._find(queue, now)
        if worker is None:
            self._queues.open &= ~queue.bit
            return
        starts.append(self._start(queue, worker, now))
        self._queues.place(worker)

    # ---- room

    def _settle(self, worker: Worker) -> None:
        """Look up what a worker has free now; queues that this is room for may be served."""
        worker.give_back()
        worker.stale = False
        self._queues.place(worker)

    def _find(self, queue: TaskQueue, now: float) -> Worker | None:
        """The worker on which the head of a queue starts now, if there is one."""
        best: Worker | None = None
        tightest = 0.0
        for level in self._queues.levels.fitting(queue):
            slack = level.slack[queue.bit]
            if best is not None and slack > tightest:
                break
            for worker in level.candidates(queue, now):
                if self._fairness.permits(queue, worker, now):
                    # Of equally tight fits at several levels: as `Level.candidates` orders them.
                    if best is None or (worker.end < best.end) == (queue.need > 0):
                        best, tightest = worker, slack
                    break
            if best is not None and not queue.has_equal_levels():
                break
        return best

    def _start(
        self, queue: TaskQueue, worker: Worker, now: float, held: Resource | None = None
    ) -> Start:
        task = queue.tasks.popleft()
        self._attempts += 1
        limit = queue.limits.hard
        task.worker = worker
        task.attempt = self._attempts
        task.held = worker.supply.alloc(queue.space) if held is None else held
        task.started = now
        if limit != math.inf:
            task.until = now + limit
            self._bounded += 1
        worker.tasks[task.id] = task
        queue.running += 1
        self._waiting -= 1
        promise = worker.promise
        if promise is not None and promise.queue is not queue:
            if promise.allows(queue, now):
                promise.started(task.id, queue, now)
            else:
                # An older task took the room, or one of higher priority.
                self._fairness.release(promise)
        if self._queues.order[0][2] is not queue:
            # Only now: a promise on this worker has to reckon with the task that it begins.
            self._fairness.overtakes(queue, worker, now)
        self._rerank(queue)
        wtime = queue.wtime
        allocation = task.held if wtime is None else task.held & wtime.resolved(self.run_times)
        return Start(worker.id, task.id, task.attempt, allocation, limit)

    def _rerank(self, queue: TaskQueue) -> None:
        """The oldest task of a queue is another now: nothing was promised to that one yet."""
        if queue.promise is not None:
            self._fairness.release(queue.promise)
        queue.overtaken = 0
        queue.protected = False
        self._queues.rerank(queue)
