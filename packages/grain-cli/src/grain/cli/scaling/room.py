"""The tasks that fit into a worker, present or planned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.cli.scaling.model import OF_EACH, TaskClass, WorkerShape, without
from grain.resource import Capacity, Cores, GPUs, Memory, Supply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.resource import Resource

MOST = 1024
"""Tasks that are counted in one worker: for more of them, there is always room."""

_MEASURED = (Cores, GPUs, Memory, Capacity)


class Room:
    """The free part of one worker.

    Of a kind whose amount is not known, or that has no class here, it is taken to have enough for
    one task; and for all tasks, if nothing of the kind is used up.

    Args:
        free: what is free, without time.
        unknown: the kinds of which it has an unknown amount.
        interpreter: its interpreter; None if that is not known.
    """

    def __init__(
        self,
        free: Resource,
        seconds: float = math.inf,
        unknown: frozenset[str] = frozenset(),
        interpreter: str | None = None,
    ) -> None:
        self._free = free
        self._supply: Supply | None = None
        self._kinds = frozenset(free.parts())
        self._seconds = seconds
        self._unknown = unknown
        self._interpreter = interpreter
        self._blind = True
        self.taken = 0

    def copy(self) -> Room:
        """Return a room like this one, with what is still free."""
        free = self._free if self._supply is None else self._supply.free
        new = Room(free, self._seconds, self._unknown, self._interpreter)
        new._blind = self._blind
        new.taken = self.taken
        return new

    def take(self, one: TaskClass, most: int) -> int:
        """Put up to ``most`` tasks of a class here; return how many fit."""
        if one.need > self._seconds:
            return 0
        if one.interpreter and self._interpreter not in (None, one.interpreter):
            return 0
        if not one.opaque <= self._kinds | self._unknown:
            return 0
        blind = one.opaque | (self._unknown & frozenset(one.space.parts()))
        space = without(one.space, blind) if blind else one.space
        counted = blind - OF_EACH
        if self._supply is None:  # most rooms are never asked
            self._supply = Supply(self._free)
        count = 0
        while count < min(most, MOST) and (self._blind or not counted):
            if not self._supply.free.request(space):
                break
            self._supply.alloc(space)
            self._blind = self._blind and not counted
            count += 1
        self.taken += count
        return count


def empty(shape: WorkerShape) -> Room:
    """Return the room of a new worker."""
    return Room(shape.total, shape.seconds, shape.unknown, shape.interpreter)


def fill(rooms: Sequence[Room], one: TaskClass, left: int) -> int:
    """Put parts of tasks into the workers of a job; return how many fit.

    A task has a part for each of its members, and these are on different workers. Only whole tasks
    fit where all members must be of one job.

    Args:
        left: the parts that have no place yet.
    """
    each, most = one.waiting, left  # no worker has two parts of a task
    if one.one_job:
        sizes = [room.copy().take(one, each) for room in rooms] if left else []
        tasks = range(min(left, sum(sizes)) // one.members, 0, -1)
        each = next((n for n in tasks if sum(min(s, n) for s in sizes) >= n * one.members), 0)
        most = each * one.members
    taken = 0
    for room in rooms:
        if taken < most:
            taken += room.take(one, min(most - taken, each))
    return taken


def share(one: TaskClass, shape: WorkerShape, fit: int) -> float:
    """Return the largest part of a worker that a task takes of any kind."""
    if (one.opaque | shape.unknown) & frozenset(one.space.parts()) - OF_EACH:
        return 1.0
    parts = []
    for kind in _MEASURED:
        want, own = one.space.get(kind), shape.total.get(kind)
        if want is not None and own is not None and _size(own):
            parts.append(_size(want) / _size(own))
    return max([part for part in parts if part > 0] or [1 / fit])


def _size(part: Resource) -> float:
    return part.amount if isinstance(part, Cores | GPUs) else part._stat()[0]


def why_never(one: TaskClass, shape: WorkerShape) -> str:
    """Return the reason why a task never fits on such a worker."""
    if one.interpreter and shape.interpreter not in (None, one.interpreter):
        return f"it has {shape.interpreter}, and such tasks need {one.interpreter}"
    missing = sorted(one.opaque - frozenset(shape.total.parts()) - shape.unknown)
    if missing:
        return f"it has no {missing[0]} at all"
    space = without(one.space, one.opaque | shape.unknown)
    if not shape.total.request(space):
        return Supply(shape.total).why_never(space)
    if one.one_job and one.members > shape.nodes:
        workers = "1 worker" if shape.nodes == 1 else f"{shape.nodes} workers"
        return f"its job has {workers} (script.nodes), and such tasks need {one.members} in one job"
    return f"it has {shape.seconds:.0f} s for tasks, and such tasks need {one.need:.0f} s"
