"""Who may be overtaken, how often, and when a promise is made, kept to, or broken.

`grain.head.scheduler.reservation` says what a promise is; here is when there is one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.head.scheduler.reservation import best_promise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grain.head.scheduler.index import Worker
    from grain.head.scheduler.queues import QueueTable
    from grain.head.scheduler.reservation import Promise
    from grain.head.scheduler.state import TaskQueue

# So many workers are looked at to find the best promise: it is a bound on cost, not on fairness.
_SAMPLE = 64


class Fairness:
    """Sees to it that tasks which are passed over start in the end.

    Args:
        workers: the scheduler's workers.
        queues: the scheduler's queues.
        unsettled: the workers whose room has changed: one whose promise is broken joins them.
        max_overtakes: how often, for each worker, the oldest task of a queue may be overtaken
            before room is kept for it, where run times are not known.
    """

    def __init__(
        self,
        workers: Mapping[int, Worker],
        queues: QueueTable,
        unsettled: dict[int, Worker],
        max_overtakes: int,
    ) -> None:
        self._workers = workers
        self._queues = queues
        self._unsettled = unsettled
        self._max_overtakes = max_overtakes

    def permits(self, queue: TaskQueue, worker: Worker, now: float) -> bool:
        """Whether the head of a queue may start on a worker, as far as promises go."""
        promise = worker.promise
        if promise is None or promise.queue is queue:
            return True
        if promise.lapsed(now):
            self.release(promise)
            return True
        assert queue.rank is not None
        assert promise.queue.rank is not None
        return queue.rank < promise.queue.rank or promise.allows(queue, now)

    def protect(self, queue: TaskQueue, now: float) -> None:
        """Before the head of a queue is passed over: promise it a start where that is known."""
        if queue.promise is None and not queue.protected:
            queue.protected = True
            self._promise(queue, now, known_only=True)

    def overtakes(self, taker: TaskQueue, worker: Worker, now: float) -> None:
        """A task is started on a worker that could have served the older ones of other queues."""
        assert worker.shape is not None
        mask = worker.shape.mask
        for _, _, queue in self._queues.order:
            if queue is taker:
                return
            if not mask & queue.bit:
                continue
            if queue.promise is not None and queue.promise.lapsed(now):
                self.release(queue.promise)
            if queue.promise is None:
                queue.overtaken += 1
                if queue.overtaken >= self._max_overtakes * len(self._workers):
                    self._promise(queue, now)

    def release(self, promise: Promise | None) -> None:
        """The promised task started, is gone, or its worker is: the worker is everybody's again."""
        if promise is None:
            return
        promise.queue.promise = promise.worker.promise = None
        promise.queue.protected = False
        if promise.worker.id in self._workers and not promise.worker.draining:
            promise.worker.stale = True
            self._unsettled[promise.worker.id] = promise.worker

    def _promise(self, queue: TaskQueue, now: float, *, known_only: bool = False) -> None:
        promise = best_promise(queue, self._eligible(queue), now)
        if promise is not None and not (known_only and promise.start == math.inf):
            queue.promise = promise.worker.promise = promise

    def _eligible(self, queue: TaskQueue) -> Iterable[Worker]:
        found = 0
        for worker in self._workers.values():
            assert worker.shape is not None
            free = worker.promise is None and not worker.draining
            if free and worker.shape.mask & queue.bit:
                yield worker
                found += 1
                if found == _SAMPLE:
                    return
