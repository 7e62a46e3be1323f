"""The search for a reservation: where and when a task that is passed over can start.

A task that no worker has room for may be overtaken by younger tasks that use what it cannot. So
that it does not wait without end, it gets a reservation of one worker:

- Where the hard time limits of the runs on a worker say when enough of them will have ended, the
  reservation has that start time. Younger tasks may go on using the worker as long as they end
  before it, or use what the task will leave over (backfilling, as in the EASY scheduler: D. Lifka,
  "The ANL/IBM SP scheduling system", JSSPP 1995).
- Of several alternatives it is for the one with the earliest start.
- Where the ends are not known, the task is overtaken a bounded number of times; after that it gets
  the worker on which the fewest runs have to end first, at a time not known: other tasks may use
  only what it will leave over, so the worker empties until the task fits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.head.scheduler.state import Reservation
from grain.resource import Supply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.scheduler.state import Alternative, TaskQueue, WorkerAccount
    from grain.resource import Resource


def best_reservation(
    queue: TaskQueue, workers: Iterable[WorkerAccount], now: float
) -> Reservation | None:
    """Return the reservation of one worker with the earliest start, or None if none has the time.

    Among unknown starts, it is the one for which the fewest runs have to end.
    """
    best: Reservation | None = None
    best_key = (math.inf, math.inf)
    for worker in workers:
        for by in queue.alternatives:
            if by.count > 1 or not by.bit & queue.open:
                continue
            if not worker.could_serve(by, queue.barred):
                continue
            reservation, missing = reservation_on(by, worker, now)
            key = (reservation.start, missing)
            # A run may be past its limit, if only by the time until its worker reports its end.
            start = now if reservation.start == math.inf else max(reservation.start, now)
            if worker.end >= start + by.need and (best is None or key < best_key):
                best, best_key = reservation, key
    return best


def reservation_on(by: Alternative, worker: WorkerAccount, now: float) -> tuple[Reservation, int]:
    """Return the reservation of a worker, and how many runs have to end before it.

    The runs that end last may go on beside the task as long as there is room for both; the first
    for which there is none has to end, and with it all that end earlier.
    """
    future = beside_task(by, worker)
    beside: dict[int, Resource] = {}
    running = sorted(worker.tasks.values(), key=lambda task: task.until, reverse=True)
    for k, task in enumerate(running):
        if future.free.request(task.held):
            beside[task.id] = future.alloc_whole(task.held)
            continue
        if task.until == math.inf:
            # Any of the runs may be the next to end, so none is counted on to stay.
            future, beside = beside_task(by, worker), {}
        return Reservation(by, worker, task.until, future, beside), len(running) - k
    return Reservation(by, worker, now, future, beside), 0


def beside_task(by: Alternative, worker: WorkerAccount) -> Supply:
    """Return an account of what the worker has beside the task, all else being free.

    What is barred for the task counts as used: others may as well be where it can go.
    """
    future = Supply(worker.supply.total)
    barred = by.queue.barred
    if barred is not None:
        future.take_out(barred.get(worker.id, 0))
    future.alloc_whole(by.space)
    return future
