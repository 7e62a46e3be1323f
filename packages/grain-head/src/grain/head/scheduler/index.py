"""The workers, indexed by what they have free.

Workers with the same free resources are interchangeable, so room is looked for once per *level*
(`grain.resource.Supply.level`) and not once per worker. Each level has a bit mask of the queues
whose requests fit there, each queue has a heap of the levels that fit, the tightest first. Both are
worked out once, when a level or a queue is first seen: from then on a start or an end moves one
worker from one level to another. A level without workers is not compared with a new queue until it
is asked for: requests that all differ leave hundreds of levels behind, and most never return.

A worker with a sticky reservation is at no level: what may start there depends on the reservation,
too. `ReservedWorkers` has these, grouped by the queues whose tasks may.

Workers of one level also have the same interpreter: each interpreter has levels of its own, which
its workers refer to (`WorkerAccount.peers`). So to look up a level costs the same as if there were
one interpreter.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

from grain.head.scheduler.state import Level
from grain.resource import Supply

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from grain.head.scheduler.state import TaskQueue, WorkerAccount

# Levels without workers are dropped when there are this many levels, or twice as many as had
# workers the last time.
_FEW = 1024


class LevelIndex:
    """The levels, the workers at each, and the queues that fit there.

    Args:
        queues: the queues by their bit; the owner of the mapping adds to it and removes from it.
    """

    def __init__(self, queues: Mapping[int, TaskQueue]) -> None:
        self._queues = queues
        self._levels: dict[str, dict[Hashable, Level]] = {}
        self._count = 0
        self._prune_at = _FEW

    def of(self, interpreter: str) -> dict[Hashable, Level]:
        """Return the levels of the workers with an interpreter (their `WorkerAccount.peers`)."""
        return self._levels.setdefault(interpreter, {})

    def level_of(self, worker: WorkerAccount, account: Supply) -> Level:
        """Return the level of what is free in an account of a worker's resources.

        With the worker's supply it is the level at which the worker is, or where to place it.
        """
        key = account.level()
        level = worker.peers.get(key)
        if level is None:
            return self._new(key, worker, account)
        if level.untried:
            self._catch_up(level)
        return level

    def place(self, worker: WorkerAccount, level: Level) -> None:
        """Move a worker to a level."""
        old = worker.level
        if old is level:
            return
        if old is not None:
            old.remove(worker)
        level.add(worker)
        worker.level = level
        missing = level.mask & ~level.in_heap
        if missing:
            for bit, queue in self._queues.items():
                if missing & bit:
                    self._push(queue, level)

    def remove(self, worker: WorkerAccount) -> None:
        """Take a worker out: it left, or takes no more tasks."""
        if worker.level is not None:
            worker.level.remove(worker)
            worker.level = None

    def add_queue(self, queue: TaskQueue) -> None:
        """Work out at which levels with workers a new queue's request fits."""
        for level in self._all():
            if level.workers:
                self._try(queue, level)
            else:
                level.untried |= queue.bit

    def remove_queue(self, queue: TaskQueue) -> None:
        """Forget a queue, so that another can have its bit."""
        for level in self._all():
            level.mask &= ~queue.bit
            level.in_heap &= ~queue.bit
            level.untried &= ~queue.bit
            level.slack.pop(queue.bit, None)

    def fitting(self, queue: TaskQueue) -> Iterator[Level]:
        """Yield the levels that have workers and at which a queue's request fits, tightest first.

        The queue's heap lacks the levels that were passed until the iterator is closed, so no
        worker may be placed meanwhile.
        """
        heap = queue.heap
        passed = []
        try:
            while heap:
                level = heap[0][2]
                if level.workers:
                    yield level
                    passed.append(heappop(heap))
                else:
                    heappop(heap)
                    level.in_heap &= ~queue.bit
        finally:
            for entry in passed:
                heappush(heap, entry)

    def _all(self) -> Iterator[Level]:
        return chain.from_iterable(levels.values() for levels in self._levels.values())

    def _new(self, key: Hashable, worker: WorkerAccount, account: Supply) -> Level:
        if sum(map(len, self._levels.values())) >= self._prune_at:
            self._prune()
        self._count += 1
        interpreter, sample = worker.shape.interpreter, Supply(account.free)
        level = worker.peers[key] = Level(key, self._count, interpreter, sample)
        for queue in self._queues.values():
            self._try(queue, level)
        return level

    def _catch_up(self, level: Level) -> None:
        """Work out which of the queues that came while a level was empty fit there."""
        untried, level.untried = level.untried, 0
        while untried:
            bit = untried & -untried
            untried ^= bit
            self._try(self._queues[bit], level)

    def _prune(self) -> None:
        """Drop the levels without workers: amounts of memory that come and go leave many."""
        for level in [level for level in self._all() if not level.workers]:
            del self._levels[level.interpreter][level.key]
        self._prune_at = max(_FEW, 2 * sum(map(len, self._levels.values())))
        for queue in self._queues.values():
            queue.heap = [entry for entry in queue.heap if entry[2].workers]
            heapify(queue.heap)

    def _try(self, queue: TaskQueue, level: Level) -> None:
        if queue.fits(level.interpreter, level.sample.free):
            level.mask |= queue.bit
            level.slack[queue.bit] = level.sample.slack(queue.space)
            if level.workers:
                self._push(queue, level)

    def _push(self, queue: TaskQueue, level: Level) -> None:
        level.in_heap |= queue.bit
        heappush(queue.heap, (level.slack[queue.bit], level.number, level))


class ReservedWorkers:
    """The workers with sticky reservations, grouped by the queues whose tasks may start there."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[int, WorkerAccount]] = {}  # by bits of queues, by id
        self._masks: dict[int, int] = {}  # by id

    def __iter__(self) -> Iterator[WorkerAccount]:
        return chain.from_iterable(group.values() for group in self._groups.values())

    def place(self, worker: WorkerAccount, mask: int) -> None:
        """Put a worker where tasks of the queues of a bit mask may start, and no others."""
        if self._masks.get(worker.id) != mask:
            self.remove(worker)
            self._masks[worker.id] = mask
            self._groups.setdefault(mask, {})[worker.id] = worker

    def remove(self, worker: WorkerAccount) -> None:
        """Take a worker out, if it is here."""
        mask = self._masks.pop(worker.id, None)
        if mask is not None:
            group = self._groups[mask]
            del group[worker.id]
            if not group:
                del self._groups[mask]

    def find(self, queue: TaskQueue, now: float) -> WorkerAccount | None:
        """Return a worker on which a task of a queue may start now, or None."""
        for mask, group in self._groups.items():
            if mask & queue.bit:
                for worker in group.values():
                    if worker.has_time(queue, now):
                        return worker
        return None
