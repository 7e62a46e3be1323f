"""The workers, indexed by what they have free.

Workers with the same free resources are interchangeable, so room is looked for once per *level*
(`grain.resource.Supply.level`) and not once per worker. Each level has a bit mask of the requests
that fit there (of each `Alternative` of a queue), each of these has a heap of the levels that fit,
the tightest first. Both are worked out once, when a level or a request is first seen: from then on
a start or an end moves one worker from one level to another. A level without workers learns of
requests that came, went or changed when it is asked for: requests that all differ, and amounts of
memory that are learned, leave hundreds of levels behind, and most never return.

A worker with a sticky reservation is at no level: what may start there depends on the reservation,
too. `ReservedWorkers` has these, grouped by the alternatives by which tasks may.

Workers of one level also have the same interpreter: each interpreter has levels of its own, which
its workers refer to (`WorkerAccount.peers`). So to look up a level costs the same as if there were
one interpreter.
"""

from __future__ import annotations

from functools import reduce
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING

from grain.head.needs.families import LearningFamily
from grain.head.scheduler.state import Level
from grain.resource import Memory, Supply

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from grain.head.scheduler.state import Alternative, WorkerAccount
    from grain.resource import Resource

# Levels without workers are dropped when there are this many levels, or twice as many as had
# workers the last time.
_FEW = 1024

# A level without workers that has missed so many changes of requests, and as many as there are
# requests without a family, gives way to a new one, which costs less.
_MISSED = 48


class LevelIndex:
    """The levels, the workers at each, and the requests that fit there.

    Args:
        by_bit: the alternatives of all queues by their bit; the owner of the mapping adds to it and
            removes from it.
    """

    def __init__(self, by_bit: Mapping[int, Alternative]) -> None:
        self._by_bit = by_bit
        self._levels: dict[str, dict[Hashable, Level]] = {}
        # Those with workers, by their number, in the order in which they got the first of them.
        self._occupied: dict[int, Level] = {}
        self._count = self._placements = 0
        # The bits of the requests that came, went or changed, each with the number of the last such
        # change, ascending.
        self._changed: dict[int, int] = {}
        self._changes = 0
        self._prune_at = _FEW
        self._left = 0  # levels that gave way to new ones, and may still be in heaps
        self._alone: dict[int, Alternative] = {}  # those without a family, by their bit
        self._families: dict[tuple[str, Resource], LearningFamily] = {}

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
        if level.known != self._changes and not level.workers:
            if self._changes - level.known > _MISSED + len(self._alone):
                self._left += 1
                return self._new(key, worker, account)
            self._catch_up(level)
        return level

    def place(self, worker: WorkerAccount, level: Level) -> None:
        """Move a worker to a level."""
        old = worker.level
        if old is level:
            return
        if old is not None:
            self._leave(worker, old)
        if not level.workers:
            self._placements += 1
            level.since = self._placements
            self._occupied[level.number] = level
        level.add(worker)
        worker.level = level

    def remove(self, worker: WorkerAccount) -> None:
        """Take a worker out: it left, or takes no more tasks."""
        if worker.level is not None:
            self._leave(worker, worker.level)
            worker.level = None

    def add_alternative(self, new: Alternative) -> None:
        """Work out at which levels with workers a new request fits."""
        self._note(new.bit)
        if new.learned is None:
            self._alone[new.bit] = new
        else:
            if new.family is None:
                new.family = self._family_of(new)
            new.family.add(new.bit, new.learned.amount)
        for level in self._occupied.values():
            self._try(new, level)
            self._push(new, level)
        new.gathered = self._placements

    def remove_alternative(self, old: Alternative) -> None:
        """Forget a request, so that another can have its bit."""
        self._note(old.bit)
        self._alone.pop(old.bit, None)
        if old.family is not None:
            old.family.remove(old.bit)
        for level in self._occupied.values():
            level.forget(old.bit)

    @property
    def fit(self) -> int:
        """The bits of all requests that fit at any level with workers."""
        return reduce(or_, (level.mask for level in self._occupied.values()), 0)

    @property
    def occupied(self) -> int:
        """The number of levels with workers."""
        return len(self._occupied)

    def fitting(self, one: Alternative) -> Iterator[Level]:
        """Yield the levels that have workers and at which a request fits, tightest first.

        Its heap lacks the levels that were passed until the iterator is closed, so no worker may be
        placed meanwhile.
        """
        # Only now: most levels have lost their workers again before the request looks for one.
        if one.gathered != self._placements:
            for level in reversed(self._occupied.values()):
                if level.since <= one.gathered:
                    break
                self._push(one, level)
            one.gathered = self._placements
        heap = one.heap
        passed = []
        try:
            while heap:
                level = heap[0][2]
                if level.workers:
                    yield level
                    passed.append(heappop(heap))
                else:
                    heappop(heap)
                    level.in_heap &= ~one.bit
        finally:
            for entry in passed:
                heappush(heap, entry)

    def _all(self) -> Iterator[Level]:
        return chain.from_iterable(levels.values() for levels in self._levels.values())

    def _new(self, key: Hashable, worker: WorkerAccount, account: Supply) -> Level:
        if self._left + sum(map(len, self._levels.values())) >= self._prune_at:
            self._prune()
        self._count += 1
        interpreter, sample = worker.shape.interpreter, Supply(account.free)
        level = worker.peers[key] = Level(key, self._count, interpreter, sample, self._changes)
        for one in self._alone.values():
            self._try(one, level)
        for family in self._families.values():
            if family and self._slacks(family, level):
                level.mask |= family.within(level.memory)
        return level

    def _family_of(self, one: Alternative) -> LearningFamily:
        key = one.interpreter, one.rest
        family = self._families.get(key)
        if family is None:
            if len(self._families) >= _FEW:
                self._families = {at: known for at, known in self._families.items() if known}
            family = self._families[key] = LearningFamily(self._changes, *key)
        return family

    def _leave(self, worker: WorkerAccount, level: Level) -> None:
        level.remove(worker)
        if not level.workers:
            del self._occupied[level.number]
            level.known = self._changes

    def _note(self, bit: int) -> None:
        """Let the levels without workers learn, when they are asked for, that a request changed."""
        self._changes += 1
        self._changed.pop(bit, None)
        self._changed[bit] = self._changes

    def _catch_up(self, level: Level) -> None:
        """Work out which of the requests that changed while a level was empty fit there."""
        for bit, change in reversed(self._changed.items()):
            if change <= level.known:
                break
            level.forget(bit)
            one = self._by_bit.get(bit)
            if one is not None:
                self._try(one, level)
        level.known = self._changes

    def _prune(self) -> None:
        """Drop the levels without workers: amounts of memory that come and go leave many."""
        for level in [level for level in self._all() if not level.workers]:
            del self._levels[level.interpreter][level.key]
        self._left = 0
        self._prune_at = max(_FEW, 2 * sum(map(len, self._levels.values())))
        for one in self._by_bit.values():
            one.heap = [entry for entry in one.heap if entry[2].workers]
            heapify(one.heap)

    def _try(self, one: Alternative, level: Level) -> None:
        if one.family is not None:
            # Its rest is compared only once, as each new level is tried for all sizes of a problem.
            assert one.learned is not None
            fits = bool(self._slacks(one.family, level)) and one.learned.amount <= level.memory
        else:
            fits = one.fits(level.interpreter, level.sample.free)
        if fits:
            level.mask |= one.bit

    def _push(self, one: Alternative, level: Level) -> None:
        """Put a level into the heap of a request that fits there."""
        bit = one.bit
        if not level.mask & ~level.in_heap & bit:
            return
        slack = level.slack.get(bit)
        if slack is None:
            slack = level.slack[bit] = self._slack(one, level)
        level.in_heap |= bit
        heappush(one.heap, (slack, level.number, level))

    def _slack(self, one: Alternative, level: Level) -> float:
        if one.family is None:
            return level.sample.slack(one.space)
        assert one.learned is not None
        slacks = self._slacks(one.family, level)
        slacks[Memory._kind] = level.sample.slack_of(one.learned.memory)
        return sum(slacks.values())

    def _slacks(self, family: LearningFamily, level: Level) -> dict[str, float]:
        """Return how loosely the rest of the requests of a family fits, by kind."""
        slacks = level.families.get(family.number)
        if slacks is None:
            able = family.interpreter in ("", level.interpreter)
            able = able and level.sample.free.request(family.rest)
            slacks = level.sample.slacks(family.rest) if able else {}
            level.families[family.number] = slacks
        return slacks


class ReservedWorkers:
    """The workers with sticky reservations, grouped by what may start there."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[int, WorkerAccount]] = {}  # by bits of alternatives, by id
        self._masks: dict[int, int] = {}  # by id

    @property
    def fit(self) -> int:
        """The bits of all alternatives by which tasks may start on any of them."""
        return reduce(or_, self._groups, 0)

    def __iter__(self) -> Iterator[WorkerAccount]:
        return chain.from_iterable(group.values() for group in self._groups.values())

    def place(self, worker: WorkerAccount, mask: int) -> None:
        """Put a worker where tasks may start by the alternatives of a bit mask, and no others."""
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

    def find(self, by: Alternative, now: float) -> WorkerAccount | None:
        """Return a worker on which a task may start by an alternative now, or None."""
        return next(self.find_all(by, now), None) if self._groups else None

    def find_all(self, by: Alternative, now: float) -> Iterator[WorkerAccount]:
        """Yield the workers on which a task may start by an alternative now."""
        for mask, group in self._groups.items():
            if mask & by.bit:
                for worker in group.values():
                    if worker.has_time(by, now) and worker.lets(by):
                        yield worker
