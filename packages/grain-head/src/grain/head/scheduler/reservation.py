"""Promises to tasks that were overtaken: room is kept for them on one worker.

A task that waits for room may be overtaken by younger ones that use what it cannot. So that it
does not wait for ever, it is promised a worker and a time:

- Where the hard time limits of the runs on a worker tell when enough of them will have ended, the
  promise has that start time. Younger tasks may go on using the worker as long as they end before
  it, or use what the promised task will leave over (backfilling with a reservation, as in the
  EASY scheduler: D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995).
- Where the ends are not known, the task is overtaken a bounded number of times; after that it is
  promised the worker on which least is missing, at a time not known, and the worker drains for
  it: younger tasks may use only what it will leave over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.resource import Supply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.scheduler.index import Worker
    from grain.head.scheduler.state import Task, TaskQueue
    from grain.resource import Resource


class Promise:
    """Room kept on a worker for the head of a queue."""

    __slots__ = ("_beside", "future", "queue", "start", "worker")

    def __init__(self, queue: TaskQueue, worker: Worker, start: float) -> None:
        self.queue = queue
        self.worker = worker
        # The scheduler's time at which the task can start at the latest; inf if not known.
        self.start = start
        # What the worker will have free beside the promised task once that has started, and the
        # runs that hold part of what remains beside it.
        self.future = Supply(worker.supply.total)
        self.future.alloc(queue.space)
        self._beside: dict[int, Resource] = {}

    def stays(self, task: Task) -> bool:
        """Whether there is room for a running task beside the promised one; if so, it is kept."""
        if not self.future.free.request(task.held):
            return False
        self._beside[task.id] = self.future.alloc(task.held)
        return True

    def allows(self, queue: TaskQueue, now: float) -> bool:
        """Whether a younger task may start on the worker without pushing back the promise."""
        return self._ends_before(queue, now) or self.future.free.request(queue.space)

    def started(self, task: int, queue: TaskQueue, now: float) -> None:
        """A younger task was started that `allows` let pass."""
        if not self._ends_before(queue, now):
            self._beside[task] = self.future.alloc(queue.space)

    def finished(self, task: int) -> None:
        """A task ended on the worker."""
        held = self._beside.pop(task, None)
        if held is not None:
            self.future.dealloc(held)

    def lapsed(self, now: float) -> bool:
        """Whether the worker's time has become too short for the task it is kept for."""
        return self.worker.end < now + self.queue.need

    def _ends_before(self, queue: TaskQueue, now: float) -> bool:
        return self.start != math.inf and now + queue.limits.hard <= self.start


def best_promise(queue: TaskQueue, workers: Iterable[Worker], now: float) -> Promise | None:
    """The promise with the earliest start; among unknown starts, the one that misses least."""
    best: Promise | None = None
    best_key = (math.inf, math.inf)
    for worker in workers:
        promise, missing = promise_on(queue, worker, now)
        key = (promise.start, missing)
        start = now if promise.start == math.inf else promise.start
        if worker.end >= start + queue.need and (best is None or key < best_key):
            best, best_key = promise, key
    return best


def promise_on(queue: TaskQueue, worker: Worker, now: float) -> tuple[Promise, float]:
    """When the head of a queue could start on a worker, and how many runs have to end first.

    The latest to end are let go on beside the task as long as there is room for both; the first
    that there is no room for has to end, and with it all that end earlier.
    """
    promise = Promise(queue, worker, now)
    running = sorted(worker.tasks.values(), key=lambda task: task.until, reverse=True)
    for k, task in enumerate(running):
        if promise.stays(task):
            continue
        if task.until == math.inf:
            # Which of the runs will end is not known, so none is counted on to stay.
            promise = Promise(queue, worker, math.inf)
        promise.start = task.until
        return promise, len(running) - k
    return promise, 0
