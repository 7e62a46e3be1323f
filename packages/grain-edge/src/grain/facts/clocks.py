"""By how much the clocks of workers differ from that of the log's writer. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from grain.eventlog.schema import ClockChanged, RunEnded, TaskStarted, WorkerJoined
from grain.facts.rows import VALUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.schema import AnyLine

_ESTIMATES = 1000  # estimates of one worker


class _Estimate:
    """Bounds of the correction of one clock."""

    __slots__ = ("largest", "least")

    def __init__(self) -> None:
        self.least = -math.inf
        self.largest = math.inf

    def bind(self, least: float, largest: float) -> bool:
        """Narrow the bounds; return False, and do nothing, if nothing would be left."""
        if max(self.least, least) > min(self.largest, largest):
            return False
        self.least, self.largest = max(self.least, least), min(self.largest, largest)
        return True

    @property
    def correction(self) -> float:
        if self.least <= 0 <= self.largest:
            return 0.0
        if math.isinf(self.least) or math.isinf(self.largest):
            return self.least if math.isinf(self.largest) else self.largest
        return (self.least + self.largest) / 2


class WorkerClocks:
    """By how much the clocks of workers differ from the writer's of a log.

    A run cannot have begun before the writer gave it away, nor ended after the writer learned of
    its end. So each run bounds the *correction*, the seconds that its worker's clock has to be put
    forward:

        given - begun  <=  correction  <=  learned - ended

    where ``begun`` and ``ended`` are by the worker's clock. All runs of a worker together leave a
    narrow span: as wide as the fastest start and the fastest report were slow. If 0 is within it,
    the clocks are taken to agree, as those of one cluster do, and nothing is moved; otherwise the
    middle of the span is taken, whose error is half of its width at most.

    Where a run contradicts those before it, the worker's clock was set, or drifts: then a new
    estimate begins, which holds from this run on. It also begins where the writer's clock was set,
    and where the worker joins, which may be another one of the same name.

    A run costs two comparisons, and memory grows with estimates, a thousand per worker at most;
    runs beyond these do not count.
    """

    def __init__(self) -> None:
        self._since: dict[str, list[float]] = {}
        self._estimates: dict[str, list[_Estimate]] = {}
        self._closed: set[str] = set()

    def learn(self, worker: str, now: float, least: float, largest: float) -> None:
        """Record the bounds that a run sets.

        Args:
            now: when the writer learned of its end; these times do not go back.
            least: the least correction, with which the run begins when it was given away.
            largest: the largest one, with which it ends when the writer learned of it.
        """
        if least > largest:
            return  # it is longer than its frame: a clock was set meanwhile
        estimates = self._estimates.setdefault(worker, [])
        if estimates and worker not in self._closed and estimates[-1].bind(least, largest):
            return
        if len(estimates) >= _ESTIMATES:
            return
        self._closed.discard(worker)
        estimates.append(_Estimate())
        estimates[-1].bind(least, largest)
        self._since.setdefault(worker, []).append(now)

    def reset(self, worker: str) -> None:
        """Begin a new estimate with the next run of a worker."""
        self._closed.add(worker)

    def reset_all(self) -> None:
        """Begin a new estimate with the next run of each worker."""
        self._closed.update(self._estimates)

    def correction(self, worker: str, now: float) -> float:
        """Return the seconds to be added to times of a worker's clock.

        Args:
            now: when the writer learned of the run.
        """
        since = self._since.get(worker)
        if not since:
            return 0.0
        at = max(0, bisect_right(since, now) - 1)
        return self._estimates[worker][at].correction


def is_only_length(line: RunEnded) -> bool:
    """Return True if the log has the length of a run, and its end is when the writer learned of it.

    As for brief runs with a value that started no program (`grain.eventlog.usage.Report`).
    """
    return (
        line.outcome == VALUE
        and line.ended == line.time
        and not line.cpus
        and line.usage is not None
        and not line.usage.programs
    )


def clocks_of(lines: Iterable[AnyLine]) -> WorkerClocks:
    """Return by how much the clocks of workers differ, over the whole of a log.

    It looks at nothing else, and so takes less time than a `grain.facts.fold.Fold`.
    """
    clocks = WorkerClocks()
    given: dict[int, float] = {}
    now, change = 0.0, 0.0
    for line in lines:
        if isinstance(line, ClockChanged):
            change += line.by
            clocks.reset_all()
        time = line.time - change
        now = max(now, time)
        if isinstance(line, TaskStarted):
            given[line.task] = time
        elif isinstance(line, RunEnded):
            begin = given.pop(line.task, None)
            if begin is None or line.started is None or line.ended is None:
                continue
            if line.usage is not None and not is_only_length(line):
                least = begin - (line.started - change)
                clocks.learn(line.worker, now, least, now - (line.ended - change))
        elif isinstance(line, WorkerJoined):
            clocks.reset(line.worker)
    return clocks
