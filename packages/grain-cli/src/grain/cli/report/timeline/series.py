"""Amounts over time in a fixed number of bins, for a span that is not known in advance.

The bins begin narrow, and become twice as wide whenever a time lies behind the last of them: so
memory is bounded, and two series can always be brought to the same bins.
"""

from __future__ import annotations

from array import array

_NARROWEST = 2.0**-10  # seconds of a bin in the beginning


class Series:
    """An amount over time: the area below it in each bin."""

    __slots__ = ("_areas", "width")

    def __init__(self, bins: int) -> None:
        self._areas = array("d", bytes(8 * bins))
        self.width = _NARROWEST

    def add(self, start: float, end: float, amount: float) -> None:
        """Add an amount that holds from one time to another, in seconds from 0 on."""
        if end <= start:
            return
        if end > self.width * len(self._areas):
            self.widen(end / len(self._areas))
        areas, width = self._areas, self.width
        first, last = int(start / width), min(int(end / width), len(areas) - 1)
        if first == last:
            areas[first] += amount * (end - start)
            return
        areas[first] += amount * ((first + 1) * width - start)
        areas[last] += amount * (end - last * width)
        whole = amount * width
        for at in range(first + 1, last):
            areas[at] += whole

    def widen(self, least: float) -> None:
        """Double the width of the bins until it is at least so many seconds."""
        if self.width >= least:
            return
        factor = 1
        while self.width * factor < least:
            factor *= 2
        self.width *= factor
        areas = self._areas
        joined = [sum(areas[at : at + factor]) for at in range(0, len(areas), factor)]
        self._areas = array("d", joined + [0.0] * (len(areas) - len(joined)))

    def means(self, span: float) -> list[float]:
        """Return the mean amount in each bin from 0 to the end of a span.

        The last bin may reach beyond the span: its mean is over its part within.
        """
        count = self.count(span)
        means = [area / self.width for area in self._areas[:count]]
        if means:
            within = span - (count - 1) * self.width
            means[-1] *= self.width / within
        return means

    def count(self, span: float) -> int:
        """Return the number of bins up to the end of a span."""
        whole = int(span / self.width)
        return min(len(self._areas), whole + (whole * self.width < span))

    @property
    def area(self) -> float:
        """The area below the amount, from the beginning to the end."""
        return sum(self._areas)


class Staircase:
    """A number that changes now and then, such as the length of a queue.

    Attributes:
        most: the largest number so far.
    """

    __slots__ = ("_since", "most", "now", "series")

    def __init__(self, bins: int) -> None:
        self.series = Series(bins)
        self.now = 0
        self.most = 0
        self._since = 0.0

    def set(self, time: float, number: int) -> None:
        """Change the number, or bring the series up to a time with the same number."""
        if time > self._since:
            self.series.add(self._since, time, self.now)
            self._since = time
        self.now = number
        self.most = max(self.most, number)


class QueueSeries:
    """The numbers of tasks that wait and run over time, of each function.

    Attributes:
        waiting: by function.
        running: those that were given to a worker, by function.
        others: the same two of the functions beyond `APART`.
        most: how many waited at most.
    """

    APART = 40

    def __init__(self, bins: int) -> None:
        self._bins = bins
        self.waiting: dict[str, Staircase] = {}
        self.running: dict[str, Staircase] = {}
        self.others = Staircase(bins), Staircase(bins)
        self.most = 0
        self._now = 0, 0

    def set(
        self, time: float, function: str, counts: tuple[int, int], all_: tuple[int, int]
    ) -> None:
        """Change the numbers of a function.

        Args:
            time: when, in seconds from 0 on.
            counts: how many of its tasks wait and run now.
            all_: how many of all functions do.
        """
        self.most = max(self.most, all_[0])
        self._now = all_
        if function not in self.waiting and len(self.waiting) < self.APART:
            self.waiting[function] = Staircase(self._bins)
            self.running[function] = Staircase(self._bins)
        if function in self.waiting:
            # Most lines change one of both; the other holds until it changes.
            if counts[0] != (waiting := self.waiting[function]).now:
                waiting.set(time, counts[0])
            if counts[1] != (running := self.running[function]).now:
                running.set(time, counts[1])
            return
        for stairs, apart, count in zip(
            self.others, (self.waiting, self.running), all_, strict=True
        ):
            stairs.set(time, count - sum(one.now for one in apart.values()))

    @property
    def now(self) -> tuple[int, int]:
        """The numbers of tasks that wait and run, of all functions."""
        return self._now

    def end(self, time: float) -> None:
        """Bring all up to a time with the same numbers."""
        for one in (*self.waiting.values(), *self.running.values(), *self.others):
            one.set(time, one.now)
