"""The bars of the timeline: runs, in lanes of their workers, at most so many.

Rules:

1. A lane is a CPU of its worker. A run is in the lane of each CPU that it had; it is one `Bar`,
   which stands in several lanes.
2. Where the log has no CPUs of a run, it takes as many free lanes as it asked for cores. Where the
   log does not say when exactly the run was, it takes the first moment at which they are free. Such
   runs are *loose*: they get their places when all others have theirs, the earliest first. What
   finds no free lane gets further ones. Last come runs that no worker has reported, as it was lost
   or has them still: some of these may have waited at the worker beside its runs. They are shown
   as far as there are free lanes.
3. Where there are too many bars, neighbours in a lane become one, as long as it is shorter than
   the *grain* of the timeline; which doubles until there is room again. So whatever is longer than
   the grain has a bar of its own, and nothing moves by more than the grain.
   A bar that stands in several lanes counts once, until then; after that, lanes have bars of
   their own, but for neighbours that always had the same runs.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_FINEST = 2.0**-10  # seconds

_TOUCH = 0.05  # seconds by which runs on one CPU may overlap: clocks are not exact

_CLOSE = 0.01  # seconds that a loose run may lack in a gap, but not more than half of its length

_SHARED = 6  # lanes per bar in the mean, before bars are joined to save memory

_MOST_LANES = 4096  # of one worker, and of one run


class Bar(NamedTuple):
    """A run, or several short runs that follow each other in a lane.

    Attributes:
        start: when the first began, in seconds.
        end: when the last ended.
        function: the number of the function, of the longest one.
        state: 0: all brought a value, 1: some did not, 2: it is still running.
        task: the number of the task, of the first one.
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

_start = attrgetter("start")


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


class _Loose(NamedTuple):
    """A run that has no place yet.

    Attributes:
        earliest: when it may have begun.
        bar: the run, as late as it may have been.
        vague: True if it may not have begun.
    """

    earliest: float
    bar: Bar
    lanes: int
    vague: bool = False


class Lanes:
    """The lanes of one worker.

    Attributes:
        hidden: how many runs are not shown, as there was no lane where they might have been.
    """

    __slots__ = ("_cpus", "_loose", "_others", "hidden")

    def __init__(self) -> None:
        self.hidden = 0
        self._cpus: dict[int, list[Bar]] = {}
        self._others: list[list[Bar]] = []
        self._loose: list[_Loose] = []

    def add(
        self,
        bar: Bar,
        cpus: Sequence[int] = (),
        *,
        lanes: int = 1,
        slack: float = 0.0,
        vague: bool = False,
    ) -> None:
        """Add a run.

        Args:
            cpus: the CPUs that it had; none if that is not known.
            lanes: how many it takes, in that case.
            slack: seconds by which it may have been earlier, likewise.
            vague: True if it may not have begun there.
        """
        if not cpus:
            lanes = min(lanes, _MOST_LANES)
            self._loose.append(_Loose(bar.start - slack, bar, lanes, vague))
            return
        for cpu in cpus:
            row = self._cpus.get(cpu)
            if row is None:
                self._cpus[cpu] = [bar]
            elif (over := row[-1].end - bar.start) <= 0:
                row.append(bar)
            elif over <= _TOUCH and row[-1].start <= bar.start:
                row.append(bar._replace(start=min(bar.end, row[-1].end)))
            else:  # a loose run was there, or clocks are wrong
                self._loose.append(_Loose(bar.start, bar, 1))

    def rows(self, cores: int = 0) -> list[list[Bar]]:
        """Return the bars of each lane: of the CPUs in their order, and of further lanes.

        Args:
            cores: the cores of the worker: at least so many lanes, some perhaps empty.
        """
        self._settle(cores)
        rows = [self._cpus[cpu] for cpu in sorted(self._cpus)] + self._others
        return rows + [[] for _ in range(cores - len(rows))]

    def _settle(self, cores: int) -> None:
        """Give loose runs their places."""
        if not self._loose:
            return
        loose, self._loose = sorted(self._loose), []
        missing = cores - len(self._cpus) - len(self._others)
        self._others += [[] for _ in range(missing)]
        self._place([one for one in loose if not one.vague])
        self._place([one for one in loose if one.vague], limited=bool(cores))
        self._others = [row for row in self._others if row]

    def _place(self, loose: list[_Loose], *, limited: bool = False) -> None:
        """Put loose runs into lanes that are free, or into further ones unless that is limited."""
        if not loose:
            return
        rows = [self._cpus[cpu] for cpu in sorted(self._cpus)] + self._others
        gaps = [_Gaps(row, at, loose[0].earliest) for at, row in enumerate(rows)]
        heap = [(one.since, one.lane) for one in gaps]
        heapify(heap)
        for earliest, bar, lanes, _ in loose:
            places = list(_places(gaps, heap, earliest, bar, lanes))
            if limited and len(places) < lanes:
                for _, lane in places:
                    heappush(heap, (gaps[lane].since, lane))
                self.hidden += 1
                continue
            while len(places) < lanes:
                gaps.append(_Gaps([], len(gaps), earliest))
                self._others.append(gaps[-1].row)
                places.append((earliest, gaps[-1].lane))
            start = max(start for start, _ in places)
            length = bar.end - bar.start
            for own, lane in places:
                # Together, unless one of them is not free then.
                begin = start if gaps[lane].fits(start, length) else own
                placed = (
                    bar if begin == bar.start else bar._replace(start=begin, end=begin + length)
                )
                gaps[lane].put(placed)
                heappush(heap, (gaps[lane].since, lane))
        for one in gaps:
            one.close()

    def replace(self, rows: Mapping[int, list[Bar]]) -> None:
        """Put other bars into lanes, by the identity of their lists."""
        for row in (*self._cpus.values(), *self._others):
            row[:] = rows[id(row)]


class _Gaps:
    """A lane with its bars, and where it is free for further ones; these come in order.

    Attributes:
        since: when it is free next, as far as is known.
    """

    __slots__ = ("_next", "_placed", "lane", "row", "since")

    def __init__(self, row: list[Bar], lane: int, earliest: float) -> None:
        self.row = row
        self.lane = lane
        self._next = bisect_left(row, earliest, key=_start)
        self.since = row[self._next - 1].end if self._next else earliest
        self._placed: list[Bar] = []

    def first(self, earliest: float, length: float) -> float:
        """Return the first time from another one on at which it is free for so long."""
        while not self.fits(start := max(earliest, self.since), length):
            self.since = max(self.since, self.row[self._next].end)
            self._next += 1
        return start

    def fits(self, start: float, length: float) -> bool:
        """Return True if it is free for so long from a time on, or nearly."""
        end = start + length - min(_CLOSE, length / 2)
        free = self._next == len(self.row) or end <= self.row[self._next].start
        return free and start >= self.since

    def put(self, bar: Bar) -> None:
        if self._next < len(self.row) and bar.end > self.row[self._next].start:
            bar = bar._replace(end=max(bar.start, self.row[self._next].start))
        self._placed.append(bar)
        self.since = bar.end

    def close(self) -> None:
        if self._placed:
            self.row += self._placed
            self.row.sort(key=_start)


def _places(
    gaps: list[_Gaps], heap: list[tuple[float, int]], earliest: float, bar: Bar, lanes: int
) -> Iterator[tuple[float, int]]:
    """Take lanes for a loose run, at most so many; yield when each is free for it, and which."""
    kept = []
    latest = bar.start + _TOUCH
    while lanes and heap and heap[0][0] <= latest:
        lane = heappop(heap)[1]
        start = gaps[lane].first(earliest, bar.end - bar.start)
        if start <= latest:
            lanes -= 1
            yield start, lane
        else:
            kept.append((gaps[lane].since, lane))
    for one in kept:
        heappush(heap, one)


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
        self._cores: dict[str, int] = {}
        self._most = most
        self._count = 0
        self._shared = 0  # bars, each counted in every lane in which it stands
        self._limits = most, _SHARED * most

    @property
    def count(self) -> int:
        """The number of bars; a bar in several lanes counts once."""
        return sum(len({bar for row in rows for bar in row}) for rows in self.rows().values())

    @property
    def hidden(self) -> int:
        """The number of runs that are not shown, as it is not known whether they had begun."""
        return sum(one.hidden for one in self.lanes.values())

    @property
    def joined(self) -> bool:
        """True if runs were joined."""
        return self.grain > _FINEST

    def add(
        self,
        worker: str,
        bar: Bar,
        cpus: Sequence[int] = (),
        *,
        lanes: int = 1,
        slack: float = 0.0,
        vague: bool = False,
    ) -> None:
        """Add a run, as `Lanes.add` does."""
        own = self.lanes.get(worker)
        if own is None:
            own = self.lanes[worker] = Lanes()
        own.add(bar, cpus, lanes=lanes, slack=slack, vague=vague)
        self._count += 1
        self._shared += len(cpus) or lanes
        if self._count > self._limits[0] or self._shared > self._limits[1]:
            self._coarsen(min(self._most, self._count) * 3 // 4)
            # Lanes have a bar each at least: where these are too many, more does not help.
            self._limits = (
                max(self._most, 2 * self._count), max(_SHARED * self._most, 2 * self._shared)
            )  # fmt: skip

    def offer(self, worker: str, cores: float) -> None:
        """Record the cores of a worker: it has so many lanes at least."""
        self._cores[worker] = int(min(cores, _MOST_LANES))

    def order(self, workers: Iterable[str]) -> None:
        """Put workers in an order; any others come last."""
        lanes = {name: self.lanes[name] for name in workers if name in self.lanes}
        self.lanes = {**lanes, **self.lanes}

    def rows(self) -> dict[str, list[list[Bar]]]:
        """Return the bars of each lane, by the name of the worker."""
        return {name: one.rows(self._cores.get(name, 0)) for name, one in self.lanes.items()}

    def _coarsen(self, most: int) -> None:
        all_rows = self.rows()
        groups = [group for rows in all_rows.values() for group in alike(rows)]
        coarse, self.grain = coarser([group[0] for group in groups], most, self.grain)
        replaced = {
            id(row): fewer for group, fewer in zip(groups, coarse, strict=True) for row in group
        }
        for lanes in self.lanes.values():
            lanes.replace(replaced)
        self._count = sum(map(len, coarse))
        self._shared = sum(
            len(fewer) * len(group) for group, fewer in zip(groups, coarse, strict=True)
        )


def alike(rows: Iterable[list[Bar]]) -> list[list[list[Bar]]]:
    """Return lanes in groups of neighbours that have the same bars."""
    groups: list[list[list[Bar]]] = []
    for row in rows:
        if groups and row and groups[-1][0] == row:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def coarser(
    rows: Sequence[list[Bar]], most: int, grain: float = _FINEST
) -> tuple[list[list[Bar]], float]:
    """Return at most so many bars, or one in each row, and the grain of the timeline then."""
    coarse = list(rows)
    count = sum(map(len, coarse))
    if count > most:
        # Each bar less needs two neighbours that fit into the grain: no smaller one is tried.
        spans = sorted(two.end - one.start for row in coarse for one, two in pairwise(row))
        while spans and 2 * grain < spans[min(count - most, len(spans)) - 1]:
            grain *= 2
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
