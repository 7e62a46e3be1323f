"""Workers as the scheduler sees them, indexed by what they have free.

Workers with the same free resources are interchangeable, so room is looked for once per *level*
(`grain.resource.Supply.level`) and not once per worker. Each level knows as a bit mask which
queues' requests fit it, each queue keeps a heap of the levels that fit, tightest first. Both are
worked out once, when a level or a queue is first seen: from then on a start or an end moves one
worker between two levels.

Within a level, workers are ordered by the time they have left.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from grain.head.scheduler.state import split_time
from grain.resource import Supply

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from grain.head.scheduler.reservation import Promise
    from grain.head.scheduler.state import Task, TaskQueue
    from grain.resource import Resource


class Worker:
    """One worker: its account, what runs on it, and its place in the index."""

    __slots__ = (
        "draining",
        "end",
        "id",
        "level",
        "name",
        "order",
        "promise",
        "returned",
        "shape",
        "stale",
        "supply",
        "tasks",
    )

    def __init__(self, id: int, name: str, total: Resource, now: float) -> None:  # noqa: A002
        wtime, space = split_time(total)
        self.id = id
        self.name = name
        self.supply = Supply(space)
        left = None if wtime is None else wtime.T
        # When the worker runs out of time, in the scheduler's time.
        self.end = math.inf if left is None else now + left
        self.order = (self.end, id)
        # Whether it may have room for other reasons than what was returned: it is new, or a
        # promise was kept or broken.
        self.stale = True
        # What ended runs held and nobody has taken over yet, with the queues that they came from.
        self.returned: list[tuple[TaskQueue, Resource]] = []
        # What runs on it, by id.
        self.tasks: dict[int, Task] = {}
        self.level: Level | None = None
        self.shape: Shape | None = None
        self.draining = False
        # The waiting task, if any, for which room on this worker is kept.
        self.promise: Promise | None = None

    def has_time(self, queue: TaskQueue, now: float) -> bool:
        """Whether it has enough time left for a queue's tasks, and any at all."""
        return self.end > now and self.end >= now + queue.need

    def give_back(self) -> None:
        """Make what ended runs held free."""
        while self.returned:
            self.supply.dealloc(self.returned.pop()[1])
            self.stale = True


class Shape:
    """All workers that are alike when nothing runs on them, and the queues they could serve."""

    __slots__ = ("key", "mask", "sample", "workers")

    def __init__(self, key: Hashable, sample: Supply) -> None:
        self.key = key
        self.sample = sample
        self.mask = 0
        self.workers = 0


class Level:
    """All workers that have the same resources free."""

    __slots__ = ("key", "mask", "number", "order", "pushed", "sample", "slack", "workers")

    def __init__(self, key: Hashable, number: int, sample: Supply) -> None:
        self.key = key
        self.number = number
        # A supply of this level which answers for all of them, and which nobody changes.
        self.sample = sample
        # The queues whose requests fit, and those that have this level in their heap.
        self.mask = 0
        self.pushed = 0
        # How loosely they fit, by their bit.
        self.slack: dict[int, float] = {}
        # Ascending by time left; `order` holds the sort keys of `workers`.
        self.order: list[tuple[float, int]] = []
        self.workers: list[Worker] = []

    def add(self, worker: Worker) -> None:
        at = bisect_left(self.order, worker.order)
        self.order.insert(at, worker.order)
        self.workers.insert(at, worker)

    def remove(self, worker: Worker) -> None:
        at = bisect_left(self.order, worker.order)
        del self.order[at], self.workers[at]

    def candidates(self, queue: TaskQueue, now: float) -> Iterable[Worker]:
        """The workers with enough time left, in order of preference.

        A task with a known limit goes where the least time remains that still suffices, and
        leaves the long ones to others. Of a task without one it is not known how long it takes:
        it goes where it is least likely to be cut off.
        """
        need = queue.need
        least = (now + need, -1) if need else (now, math.inf)
        enough = range(bisect_left(self.order, least), len(self.workers))
        return map(self.workers.__getitem__, enough if need else reversed(enough))


class LevelIndex:
    """Which levels there are, which workers are at each, and which queues fit where."""

    def __init__(self) -> None:
        self._levels: dict[Hashable, Level] = {}
        self._count = 0
        self._prune_at = 1024

    def of(self, worker: Worker, queues: Iterable[TaskQueue]) -> Level:
        """The level of what a worker has free now, which is not yet where it is placed."""
        key = worker.supply.level()
        return self._levels.get(key) or self._new(key, worker.supply, queues)

    def place(self, worker: Worker, level: Level, queues: Iterable[TaskQueue]) -> None:
        """Move a worker to a level."""
        old = worker.level
        if old is level:
            return
        if old is not None:
            old.remove(worker)
        level.add(worker)
        worker.level = level
        missing = level.mask & ~level.pushed
        if missing:
            for queue in queues:
                if missing & queue.bit:
                    self._push(queue, level)

    def drop(self, worker: Worker) -> None:
        """Take a worker out: it left, or takes no more tasks."""
        if worker.level is not None:
            worker.level.remove(worker)
            worker.level = None

    def admit(self, queue: TaskQueue) -> None:
        """Work out at which levels a new queue's request fits."""
        for level in self._levels.values():
            self._try(queue, level)

    def fitting(self, queue: TaskQueue) -> Iterator[Level]:
        """The levels at which a queue's request fits, the tightest first."""
        heap = queue.heap
        passed = []
        try:
            while heap:
                level = heap[0][2]
                if level.workers:
                    yield level
                    if heap and heap[0][2] is level:
                        passed.append(heappop(heap))
                else:
                    heappop(heap)
                    level.pushed &= ~queue.bit
        finally:
            for entry in passed:
                heappush(heap, entry)

    def retire(self, queue: TaskQueue) -> None:
        """Forget a queue, so that its bit can be given to another."""
        for level in self._levels.values():
            level.mask &= ~queue.bit
            level.pushed &= ~queue.bit
            level.slack.pop(queue.bit, None)

    def _new(self, key: Hashable, supply: Supply, queues: Iterable[TaskQueue]) -> Level:
        if len(self._levels) >= self._prune_at:
            self._prune(queues)
        self._count += 1
        level = self._levels[key] = Level(key, self._count, Supply(supply.free))
        for queue in queues:
            self._try(queue, level)
        return level

    def _prune(self, queues: Iterable[TaskQueue]) -> None:
        """Drop the levels that nobody is at: amounts of memory that come and go leave many."""
        self._levels = {k: v for k, v in self._levels.items() if v.workers}
        self._prune_at = max(1024, 2 * len(self._levels))
        for queue in queues:
            # In place: a search may be under way in it.
            queue.heap[:] = [entry for entry in queue.heap if entry[2].workers]
            heapify(queue.heap)

    def _try(self, queue: TaskQueue, level: Level) -> None:
        if level.sample.free.request(queue.space):
            level.mask |= queue.bit
            level.slack[queue.bit] = level.sample.slack(queue.space)
            if level.workers:
                self._push(queue, level)

    def _push(self, queue: TaskQueue, level: Level) -> None:
        level.pushed |= queue.bit
        heappush(queue.heap, (level.slack[queue.bit], level.number, level))
