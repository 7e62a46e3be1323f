"""The starvation guard: which task may overtake which, which get a reservation and lose it.

`grain.head.scheduler.reservation` finds where and when; this is the policy around it.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

from grain.head.scheduler.reservation import best_reservation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.head.scheduler.queues import QueueTable
    from grain.head.scheduler.state import Reservation, TaskQueue, Worker

MAX_OVERTAKES = 128
"""The number of times, for each worker, that a task may be overtaken where one mission has the
scheduler; docs/scheduling.md shows the cost of other values."""

SHARED_MAX_OVERTAKES = 64
"""The same where missions share the scheduler, and their tasks wait for one another."""

# So many workers are looked at to find the best reservation: a bound on cost, not on waiting.
_SAMPLE = 64


class StarvationGuard:
    """The guarantee that every task that is passed over starts in the end.

    Args:
        workers: the scheduler's workers.
        queues: the scheduler's queues.
        max_overtakes: how often, for each worker, the oldest task of a queue may be overtaken
            before it gets a reservation, where run times are not known.
    """

    def __init__(
        self, workers: Mapping[int, Worker], queues: QueueTable, max_overtakes: int
    ) -> None:
        self._workers = workers
        self._queues = queues
        self._max_overtakes = max_overtakes

    def permits(self, queue: TaskQueue, worker: Worker, now: float) -> bool:
        """Return True if no reservation forbids the oldest task of a queue to start on a worker.

        A reservation that the worker's time no longer suffices for is ended.
        """
        reservation = worker.reservation
        if reservation is None or reservation.queue is queue:
            return True
        if reservation.lapsed(now):
            self.end(reservation)
            return True
        assert queue.rank is not None
        assert reservation.queue.rank is not None
        return queue.rank < reservation.queue.rank or reservation.allows(queue, now)

    def on_passed_over(self, queue: TaskQueue, now: float) -> None:
        """Reserve a start for the oldest task of a queue, if a known one can be found.

        Called before a task behind it is started, so that this one cannot push the start back.
        """
        if queue.reservation is None and not queue.reservation_sought:
            queue.reservation_sought = True
            self._reserve(queue, now, known_start_only=True)

    def on_overtaken(self, taker: TaskQueue, worker: Worker, now: float) -> None:
        """Count a start on a worker that could have served the older tasks of other queues."""
        mask = worker.shape.mask
        for _, _, queue in self._queues.order:
            if queue is taker:
                return
            if not mask & queue.bit:
                continue
            if queue.reservation is not None and queue.reservation.lapsed(now):
                self.end(queue.reservation)
            if queue.reservation is None:
                queue.overtaken += 1
                if queue.overtaken >= self._max_overtakes * len(self._workers):
                    self._reserve(queue, now)

    def end(self, reservation: Reservation | None) -> None:
        """End a reservation: its task started or is gone, or its worker is or has no time left."""
        if reservation is None:
            return
        worker = reservation.worker
        reservation.queue.reservation = worker.reservation = None
        reservation.queue.reservation_sought = False
        if worker.id in self._workers and not worker.draining:
            self._queues.open_to_all(worker)

    def _reserve(self, queue: TaskQueue, now: float, *, known_start_only: bool = False) -> None:
        eligible = (
            worker
            for worker in self._workers.values()
            if worker.reservation is None and not worker.draining and worker.shape.mask & queue.bit
        )
        reservation = best_reservation(queue, islice(eligible, _SAMPLE), now)
        if reservation is not None and not (known_start_only and reservation.start == math.inf):
            queue.reservation = reservation.worker.reservation = reservation
