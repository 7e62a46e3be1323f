"""The bars of the timeline: runs, in lanes of their workers, at most so many.

Rules:

1. Runs of one worker that overlap are in different lanes. Runs come in the order of their ends:
   each takes the lane that was free for the shortest time when it began, which needs as few lanes
   as can be.
2. Where there are too many bars, neighbours in a lane become one, as long as it is shorter than
   the *grain* of the timeline; which doubles until there is room again. So whatever is longer than
   the grain has a bar of its own, and nothing moves by more than the grain.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FINEST = 2.0**-10  # seconds


class Bar(NamedTuple):
    """One run, or several short ones that follow each other in a lane.

    Attributes:
        start: when the first began, in seconds.
        end: when the last ended.
        function: the number of the function, of the longest one.
        state: 0: all brought a value, 1: some did not, 2: it is still running.
        task: the number of the task, of the first one.
        runs: the number of runs.
        longest: the length of the longest one.
    """

    start: float
    end: float
    function: int
    state: int
    task: int
    runs: int
    longest: float


VALUE, VAIN, RUNNING = 0, 1, 2


def _joined(one: Bar, two: Bar) -> Bar:
    longer = one if one.longest >= two.longest else two
    return Bar(
        one.start,
        max(one.end, two.end),
        longer.function,
        max(one.state, two.state),
        one.task,
        one.runs + two.runs,
        longer.longest,
    )


class Lanes:
    """The lanes of one worker."""

    __slots__ = ("_free", "bars")

    def __init__(self) -> None:
        self.bars: list[list[Bar]] = []
        self._free: list[tuple[float, int]] = []  # since when, and which lane; sorted

    def add(self, bar: Bar) -> None:
        """Add a run to the lane that was free for the shortest time when it began."""
        at = bisect_right(self._free, (bar.start, len(self.bars))) - 1
        if at < 0:
            lane = len(self.bars)
            self.bars.append([bar])
        else:
            _, lane = self._free.pop(at)
            self.bars[lane].append(bar)
        insort(self._free, (bar.end, lane))

    def rows(self) -> list[list[Bar]]:
        """Return the bars of each lane, the busiest lane first."""
        return sorted(self.bars, key=lambda row: sum(bar.start - bar.end for bar in row))


class Timeline:
    """The bars of all workers.

    Args:
        most: the number of bars that are kept.

    Attributes:
        grain: the length in seconds up to which neighbours may be one bar.
        lanes: the lanes of each worker, by its name.
    """

    def __init__(self, most: int) -> None:
        self.grain = _FINEST
        self.lanes: dict[str, Lanes] = {}
        self._most = most
        self._count = 0

    @property
    def count(self) -> int:
        """The number of bars."""
        return self._count

    @property
    def joined(self) -> bool:
        """True if runs were joined."""
        return self.grain > _FINEST

    def add(self, worker: str, bar: Bar) -> None:
        """Add a run."""
        lanes = self.lanes.get(worker)
        if lanes is None:
            lanes = self.lanes[worker] = Lanes()
        lanes.add(bar)
        self._count += 1
        if self._count > self._most:
            self._coarsen(self._most * 3 // 4)

    def sort(self, workers: Iterable[str]) -> None:
        """Put workers in an order; any others come last."""
        lanes = {name: self.lanes[name] for name in workers if name in self.lanes}
        self.lanes = {**lanes, **self.lanes}

    def _coarsen(self, most: int) -> None:
        rows = [row for lanes in self.lanes.values() for row in lanes.bars]
        coarse, self.grain = coarser(rows, most, self.grain)
        for row, fewer in zip(rows, coarse, strict=True):
            row[:] = fewer
        self._count = sum(map(len, rows))


def coarser(
    rows: Sequence[list[Bar]], most: int, grain: float = _FINEST
) -> tuple[list[list[Bar]], float]:
    """Return at most so many bars, or one in each row, and the grain of the timeline then."""
    coarse = list(rows)
    count = sum(map(len, coarse))
    while count > most and any(len(row) > 1 for row in coarse):
        grain *= 2
        coarse = [_joined_up_to(grain, row) for row in coarse]
        count = sum(map(len, coarse))
    return coarse, grain


def _joined_up_to(grain: float, row: list[Bar]) -> list[Bar]:
    joined: list[Bar] = []
    for bar in row:
        if joined and bar.end - joined[-1].start <= grain:
            joined[-1] = _joined(joined[-1], bar)
        else:
            joined.append(bar)
    return joined
