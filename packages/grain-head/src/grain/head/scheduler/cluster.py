"""`ClusterPool`: the resources of the whole cluster, which tasks on any worker use.

A request is divided when its queue is made: the kinds that the scheduler owns are its *shared*
part, all else is what a worker has to have. The rules:

1.  An alternative whose shared part is not free is *closed*, like one that is to wait for the first
    one (`grain.head.scheduler.queues`): its queue has no bit for it anywhere. So no worker is kept
    for it, it is not overtaken, and it holds back no one.
2.  The queues are looked at in their order of service. One that has no open alternative gets what
    becomes free: younger ones take none of it, until it is enough. So does one that has a worker
    reserved. One that only waits for a worker keeps nothing.
3.  A run holds its shared part until it ends, or its worker is lost, as it holds its cores.
4.  A new head hands out nothing until the workers of its predecessor had time to report what their
    runs hold. What they hold counts, also if it is more than there is.
5.  Where a command tells how many are in use, others use what tasks here do not account for. A task
    holds its part from its start, but takes it out of the server's count later, or not at all. So
    what others use falls only with what is in use (`OthersUse`).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from grain.head.scheduler.state import divided
from grain.resource import ZERO, Licences, Supply

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from grain.head.scheduler.state import Alternative, TaskQueue
    from grain.resource import Resource

_OF_WORKERS = frozenset({"Cores", "GPUs", "Memory", "WTime", "Token", "Capacity", "Host"})


class ClusterPool:
    """The account of what the whole cluster has of some kinds, and of which tasks hold it.

    Args:
        total: how many there are, by kind; none of a kind whose number is not known yet.
        most: how many there can ever be, by kind, where that is more.

    Attributes:
        kinds: the kinds that the scheduler owns.
        held: what running tasks hold of it, by task.
        changed: True if what is free, or the order of those who wait for it, may have changed.
        opens: nothing is handed out before that time; -inf if it may be.
        notes: what is to be known of the numbers, by kind and sort: clauses for display.
    """

    def __init__(
        self,
        total: Mapping[str, Resource] | None = None,
        most: Mapping[str, Resource] | None = None,
    ) -> None:
        self._supplies = {kind: Supply(one) for kind, one in (total or {}).items()}
        self._totals = {kind: Supply(one) for kind, one in (total or {}).items()}
        self._most = {kind: Supply(one) for kind, one in (most or total or {}).items()}
        self.kinds = frozenset(self._supplies)
        self.held: dict[int, Resource] = {}
        self.changed = False
        self.opens = -math.inf
        self.notes: dict[str, Mapping[str, str]] = {}
        # The tasks whose part cannot be told from that of others, as there is not so much, by kind.
        self._in_excess: dict[str, set[int]] = {}
        # What is kept for tasks that are to have a worker to themselves.
        self._kept: dict[Hashable, Alternative] = {}

    # ---- what there is

    def set_total(self, kind: str, total: Resource) -> None:
        """Set how many there are of a kind; what is held stays held, even if it is more."""
        if total == self._supplies[kind].total:
            return
        self._supplies[kind] = Supply(total)
        self._totals[kind] = Supply(total)
        self._in_excess.pop(kind, None)
        for task, held in self.held.items():
            part = held.parts().get(kind)
            if part is not None:
                self._hold(task, kind, part)
        self.changed = True

    def shut(self, until: float) -> None:
        """Hand out nothing until `open`, most likely at that time: workers may have to report."""
        if self.kinds:
            self.opens = until
            self.changed = True

    def open(self) -> None:
        """Hand out what is free from now on: all workers had time to report."""
        if self.opens != -math.inf:
            self.opens = -math.inf
            self.changed = True

    def split(self, request: Resource) -> tuple[Resource, Resource | None]:
        """Return the part of a request that a worker gives, and the shared one, if any."""
        return divided(request, self.kinds)

    def split_held(self, held: Resource, total: Resource) -> tuple[Resource, Resource | None]:
        """Return what a run holds of its worker's resources, and of the cluster's.

        A kind that the worker does not have was of the cluster once: this head may have been
        started with less.
        """
        gone = held.parts().keys() - total.parts().keys() - _OF_WORKERS
        return divided(held, self.kinds | gone)

    def holding(self, kind: str, name: str = "") -> dict[int, int]:
        """Return how many of one sort of a kind each task holds, by task."""
        parts = ((task, held.parts().get(kind)) for task, held in self.held.items())
        counts = ((task, _usage(part, part).get(name)) for task, part in parts if part is not None)
        return {task: count[1] for task, count in counts if count is not None and count[1]}

    def usage(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Return how many of each sort are in use, and how many there are, by kind and name."""
        return {kind: _usage(one.total, one.free) for kind, one in self._supplies.items()}

    def note(self, kind: str, part: Resource | None = None) -> str:
        """Return what is to be known of the numbers of a kind; empty if there is nothing.

        Args:
            part: of a request, for that of the sorts which it names.
        """
        sorts = part.counts if isinstance(part, Licences) else None
        notes = self.notes.get(kind, {}).items()
        return ", ".join(text for name, text in notes if text and (sorts is None or name in sorts))

    # ---- what tasks hold

    def take(self, task: int, shared: Resource) -> Resource:
        """Give a task its shared part, which is free."""
        got = ZERO
        for kind, part in shared.parts().items():
            got = got & self._supplies[kind].alloc(part)
        self.held[task] = got
        self.changed = True
        return got

    def reclaim(self, task: int, held: Resource) -> None:
        """Note what a task holds that another scheduler has started."""
        self.held[task] = held
        for kind, part in held.parts().items():
            if kind in self._supplies:
                self._hold(task, kind, part)
        self.changed = True

    def give_back(self, task: int) -> None:
        """Make free what a task holds; no effect if it holds nothing."""
        held = self.held.pop(task, None)
        if held is None:
            return
        self.changed = True
        for kind, part in held.parts().items():
            excess = self._in_excess.get(kind, set())
            if task in excess:
                excess.remove(task)
            elif kind in self._supplies:
                self._supplies[kind].dealloc(part)
            for other in sorted(excess):
                excess.remove(other)
                self._hold(other, kind, self.held[other].parts()[kind])

    def _hold(self, task: int, kind: str, part: Resource) -> None:
        supply = self._supplies[kind]
        if isinstance(supply.free, Licences) and isinstance(part, Licences):
            supply.free.owe(part)
            return
        try:
            supply.reclaim(part)
        except ValueError:
            self._in_excess.setdefault(kind, set()).add(task)

    # ---- decisions

    def gives(self, by: Alternative, key: Hashable = None) -> bool:
        """Return True if the shared part of an alternative is free, but for what others keep.

        Args:
            key: by which it may be kept.
        """
        if by.shared is None:
            return True
        left = self._left()
        for other, kept in self._kept.items():
            if other is not key:
                _keep(left, kept)
        return self.opens == -math.inf and _gives(left, by)

    def keep(self, key: Hashable, by: Alternative | None) -> None:
        """Keep the shared part of an alternative, which is free, until `release`."""
        if by is not None and by.shared is not None and self._kept.get(key) is not by:
            self._kept[key] = by
            self.changed = True

    def release(self, key: Hashable) -> None:
        """Keep nothing any more by a key."""
        if self._kept.pop(key, None) is not None:
            self.changed = True

    def never(self, by: Alternative) -> bool:
        """Return True if there will never be as much as an alternative asks for."""
        return by.shared is not None and not _gives(self._most, by)

    def share_out(self, order: Iterable[tuple[int, int, TaskQueue]]) -> list[tuple[TaskQueue, int]]:
        """Return the queues that ask for something of it, with the bits that are to be closed.

        Args:
            order: the queues in the order of service.
        """
        left = self._left()
        for kept in self._kept.values():
            _keep(left, kept)
        decided: list[tuple[TaskQueue, int]] = []
        for _, _, queue in order:
            if not queue.shared:
                continue
            closed = 0
            for by in queue.alternatives:
                if by.shared is not None and (self.opens != -math.inf or not _gives(left, by)):
                    closed |= by.bit
            decided.append((queue, closed))
            reserved = [r.by for r in queue.reservations if r.by.bit & queue.shared & ~closed]
            if reserved:
                _keep(left, reserved[0])
            elif not queue.bits & ~closed:
                # Not for one for which others leave too few at present: that may last for days.
                possible = (by for by in queue.alternatives if _gives(self._totals, by))
                first = next(possible, None)
                if first is not None:
                    _keep(left, first)
        return decided

    def _left(self) -> dict[str, Supply]:
        return {
            kind: supply for kind, supply in self._supplies.items() if not self._in_excess.get(kind)
        }

    # ---- questions

    def why_closed(self, by: Alternative, now: float) -> str:
        """Return what a closed alternative waits for, and why."""
        assert by.shared is not None
        asked = by.shared.ask() if by.count == 1 else f"{by.count} times {by.shared.ask()}"
        if self.opens != -math.inf:
            seconds = max(math.ceil(self.opens - now), 1)
            return (
                f"{asked}: this scheduler has just started, and hands out none for another "
                f"{seconds} s, in which workers report what their tasks use already"
            )
        parts = by.shared.parts()
        notes = filter(None, (self.note(kind, part) for kind, part in parts.items()))
        usage = self.usage()
        used = [f"{_used(usage[kind], part)} in use" for kind, part in parts.items()]
        kept = ["an older task goes first"] if _gives(self._left(), by) else []
        return f"{asked}: {', '.join([*used, *notes, *kept])}"

    def room(self, by: Alternative, most: int) -> int:
        """Return how many tasks, up to ``most``, the cluster has enough free for."""
        if by.shared is None:
            return most
        if by.bit & by.queue.closed:
            return 0
        trial = {kind: Supply(self._supplies[kind].free) for kind in by.shared.parts()}
        for count in range(most):
            if not _gives(trial, by):
                return count
            for kind, part in by.shared.parts().items():
                for _ in range(by.count):
                    trial[kind].alloc(part)
        return most

    def why_never(self, by: Alternative) -> str | None:
        """Return why there will never be as much as an alternative asks for; None if there may."""
        if not self.never(by):
            return None
        assert by.shared is not None
        has = " & ".join(
            _told(self._most[kind].total, self._totals[kind].total) for kind in by.shared.parts()
        )
        asked = by.shared.ask() if by.count == 1 else f"{by.count} times {by.shared.ask()}"
        return f"the whole cluster has {has}, asked for {asked}"


CONFIRMED = 60.0
"""Seconds in which a task may have given back what it holds without having ended."""

SETTLED = 3600.0
"""Seconds within which all that tasks hold was in use at once, at some time."""


class _Answer(NamedTuple):
    """One answer of a command.

    Attributes:
        taken: how many of those in use tasks had.
        held: how many each task held.
    """

    at: float
    used: int
    taken: int
    held: Mapping[int, int]


class OthersUse:
    """An estimate of how many others use, of one sort of which a command tells how many are in use.

    In use are those of others, and those that tasks have taken by now: no more than they hold. If
    more are in use, tasks may have taken theirs. If fewer are, tasks that have ended gave theirs
    back, as well as those that were about to end, or that were between two programs. So the
    estimate falls only

    - at once, to the number in use;
    - to what is in use besides what tasks have that were there `CONFIRMED` ago and go on;
    - to the most that was in use besides all that tasks held, of the last `SETTLED`. Without that,
      what others give back while one task ends and another begins would be lost for good.

    In all it falls by no more than the number in use has fallen. So tasks that have held theirs for
    longer than `SETTLED` may take them yet, unless others have given back meanwhile, or tasks have.

    Attributes:
        number: how many others use; 0 before the first answer.
    """

    def __init__(self) -> None:
        self.number = 0
        self._fallen = 0  # how far the number in use has fallen, and this one has not
        self._answers: deque[_Answer] = deque()
        self._besides: deque[tuple[float, int]] = deque()

    def on_answer(self, used: int, held: Mapping[int, int], now: float) -> None:
        """Record how many are in use.

        Args:
            used: by tasks and by others.
            held: by each task that held some at any time while the command ran.
            now: the time, in seconds of a clock that does not go back.
        """
        ours = sum(held.values())
        if self._answers:
            last = self._answers[-1]
            self._fallen += max(last.used - used, 0)
            taken = max(_taken_still(last, held), min(used - self.number, ours))
        else:  # what tasks hold by now, they held under an earlier scheduler
            taken = min(used, ours)
        _append(self._answers, _Answer(now, used, taken, dict(held)), now - CONFIRMED)
        _append(self._besides, (now, used - ours), now - SETTLED)
        besides_taken = max(one.used - _taken_still(one, held) for one in self._answers)
        besides_held = max(number for _, number in self._besides)
        most = max(self.number, used - taken)
        least = self.number - self._fallen
        before = self.number
        self.number = max(min(most, used, max(min(besides_taken, besides_held), least)), 0)
        self._fallen -= max(before - self.number, 0)


def _taken_still(answer: _Answer, held: Mapping[int, int]) -> int:
    """Return how many of those that tasks had at an answer they have still, if none gave back."""
    ended = sum(count for task, count in answer.held.items() if task not in held)
    return max(answer.taken - ended, 0)


_Timed = TypeVar("_Timed", bound=tuple[Any, ...])


def _append(history: deque[_Timed], last: _Timed, since: float) -> None:
    """Append to a history, and forget what no longer held at a time: each holds until the next."""
    history.append(last)
    while len(history) > 1 and history[1][0] <= since:
        history.popleft()


def unowned(request: Resource, pool: ClusterPool, workers: Iterable[Resource]) -> list[str]:
    """Return a sentence for each kind of a request that neither a worker nor the scheduler has."""
    kinds = {kind for one in request.alternatives() for kind in one.parts()}
    kinds = kinds.difference(pool.kinds, _OF_WORKERS, *(total.parts() for total in workers))
    return [
        f"neither a worker here nor the scheduler has {kind}, see [head.res] in grain.toml"
        for kind in sorted(kinds)
    ]


def _told(most: Resource, total: Resource) -> str:
    """Return what there is of a kind; without a number where a command tells that."""
    if most == total or not isinstance(most, Licences) or not isinstance(total, Licences):
        return most.ask()
    if "" in most.counts:
        return most._kind
    sorts = (
        f"{name}={n}" if n == total.counts.get(name) else name for name, n in most.counts.items()
    )
    return f"{most._kind}({', '.join(sorts)})"


def _usage(total: Resource, free: Resource) -> dict[str, tuple[int, int]]:
    if isinstance(total, Licences) and isinstance(free, Licences):
        names = total.counts.keys() | free.counts.keys()
        owned = {name: total.counts.get(name, 0) for name in sorted(names)}
        return {name: (n - free.counts.get(name, 0), n) for name, n in owned.items()}
    [(left, there)] = free.stat().values()
    return {"": (there - left, there)}


def _used(counts: Mapping[str, tuple[int, int]], part: Resource) -> str:
    """Return how many are in use of the sorts that a part of a request names."""
    names = counts.keys() & part.counts.keys() if isinstance(part, Licences) else counts.keys()
    shown = (
        f"{used} of {n}{f' {name}' if name else ''}"
        for name, (used, n) in counts.items()
        if name in names
    )
    return ", ".join(shown) or "0 of 0"


def _gives(left: Mapping[str, Supply], by: Alternative) -> bool:
    """Return True if the supplies that are left have the shared part of each member."""
    assert by.shared is not None
    parts = by.shared.parts()
    if not all(kind in left and left[kind].free.request(part) for kind, part in parts.items()):
        return False
    if by.count == 1:
        return True
    for kind, part in parts.items():
        trial = Supply(left[kind].free)
        for _ in range(by.count):
            if not trial.free.request(part):
                return False
            trial.alloc(part)
    return True


def _keep(left: dict[str, Supply], by: Alternative) -> None:
    """Take the shared part of an alternative out of what is left, as far as it is there."""
    assert by.shared is not None
    for kind, part in by.shared.parts().items():
        if kind not in left:
            continue
        trial = left[kind] = Supply(left[kind].free)
        if isinstance(trial.free, Licences) and isinstance(part, Licences):
            trial.free.owe(part, by.count)
        else:
            # Such a kind cannot be kept in part, so it is kept as a whole.
            del left[kind]
