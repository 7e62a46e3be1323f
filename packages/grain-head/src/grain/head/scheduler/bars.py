"""`Bars`: which queues keep off which places."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from grain.head.scheduler.places import WHOLE, RunPlace, bar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.head.scheduler.guard.starvation_guard import StarvationGuard
    from grain.head.scheduler.places import FailingPlaces
    from grain.head.scheduler.queues import QueueTable
    from grain.head.scheduler.state import TaskQueue, WorkerAccount

# The queues whose tasks avoid places: each costs what another request costs.
_AVOIDING = 64


class Bars:
    """The places from which tasks are kept: set aside, or where they have failed themselves.

    Never more than others can serve without: a bar that left a task no place would have it wait
    without end. What others can serve changes with each worker that comes or goes, and with the
    time that workers have left, so all bars are made again then.

    Args:
        places: those that are set aside.

    Attributes:
        some: True if a place is set aside, or may be barred for a queue.
    """

    def __init__(
        self,
        workers: Mapping[int, WorkerAccount],
        queues: QueueTable,
        guard: StarvationGuard,
        places: FailingPlaces,
    ) -> None:
        self._workers = workers
        self._queues = queues
        self._guard = guard
        self._places = places
        self.some = False
        # The last time that is known, and the one from which workers may have too little time left
        # to serve a queue in place of those that are barred.
        self._now = -math.inf
        self._lapse = math.inf

    @property
    def due(self) -> float:
        """The next time at which `on_time` may change something."""
        # A second later, so that no rounding leaves the workers the time.
        lapse = self._lapse + 1.0 if self.some else math.inf
        return min(self._places.due, lapse)

    def on_time(self, now: float) -> None:
        """Make the bars again for which the time has come."""
        self._now = now
        if self.some and (self._places.try_again(now) or now > self._lapse):
            self.renew()

    def lapse(self) -> None:
        """Have all bars made again at the next time: tasks may need other times now."""
        self._lapse = -math.inf

    def renew(self, now: float | None = None) -> None:
        """Keep tasks from the places that are set aside, or that they avoid, and from no others."""
        if now is not None:
            self._now = now
        if self.some or self._places.some_aside or self._queues.avoiding:
            self.some = self._places.some_aside
            self._lapse = math.inf
            for queue in self._queues.by_request.values():
                self._renew(queue)

    def queue_for(self, queue: TaskQueue, avoid: tuple[RunPlace, ...]) -> TaskQueue:
        """Return the queue for tasks of a queue that avoid some places, or none.

        It is the same if they avoid none, and there are none (`some`).
        """
        if queue.rank is None:
            self._renew(queue)
        # What is set aside now will be tried again, so that makes no difference.
        if avoid and self._queues.avoiding < _AVOIDING and self.barred(queue, avoid, {}):
            queue = self._queues.avoiding_queue(queue, avoid)
            self._renew(queue)
        return queue

    def _renew(self, queue: TaskQueue) -> None:
        aside = self._places.barred(queue.share) if self._places.some_aside else {}
        barred = self.barred(queue, queue.avoid, aside)
        self.some |= barred is not None
        if barred != queue.barred:
            before, queue.barred = queue.barred, barred
            self._queues.untried |= queue.open & self._queues.nonempty
            self._guard.on_barred(queue, before)

    def barred(
        self, queue: TaskQueue, avoid: Sequence[RunPlace], aside: Mapping[int, int]
    ) -> Mapping[int, int] | None:
        """Return what is barred for the tasks of a queue: as much as others can serve without.

        A task that has failed on two GPUs of a worker avoids all of it, if other workers are here.
        """
        choices = [aside]
        if avoid:
            devices, workers = dict(aside), dict(aside)
            times = Counter(place.worker for place in avoid)
            for place in avoid:
                if place.worker in self._workers:
                    bar(workers, place if times[place.worker] == 1 else RunPlace(place.worker))
                    if place.gpu != WHOLE:
                        bar(devices, place)
            choices = [workers, devices, aside]
        for barred in choices:
            if not barred or self._some_serve(queue, barred):
                return barred or None
        return None

    def _some_serve(self, queue: TaskQueue, barred: Mapping[int, int]) -> bool:
        """Return True if workers can serve the tasks of a queue without what is barred.

        They have time for them now; when that of one of them is too short, it is asked again.
        """
        for by in queue.alternatives:
            able = (
                worker
                for worker in self._workers.values()
                if not worker.draining
                and worker.has_time(by, self._now)
                and worker.could_serve(by, barred)
            )
            some = islice(by.together(able, lambda one: one), by.count)
            ends = [worker.end - by.need for worker in some]
            if len(ends) == by.count:
                self._lapse = min(self._lapse, *ends)
                return True
        return False
