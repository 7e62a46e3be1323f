"""Amounts, counted: how long runs took, how much memory they used, what tasks asked for. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUESTS = 100
"""Requests of one function, and amounts of one kind, that are kept apart."""


_STEP = math.log(1.02)
_SMALLEST = 1e-9  # anything below is shown as 0
_FARTHEST = 709.0  # the logarithm of the largest number; a peer may state a bin beyond it


class Histogram(msgspec.Struct, omit_defaults=True):
    """Amounts counted in bins whose bounds differ by 2 %: so quantiles are exact to 1 %.

    Attributes:
        least, most: the smallest and the largest; 0 if there is none.
        counts: by the numbers of bins.
    """

    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    counts: dict[int, int] = {}

    def add(self, amount: float, times: int = 1) -> None:
        """Count an amount, which is 0 or larger, so many times."""
        # Comparisons take half as long as `min` and `max`: a log has millions of amounts.
        if amount < self.least or not self.count:
            self.least = amount
        if amount > self.most:
            self.most = amount
        self.count += times
        self.total += amount * times
        counts, at = self.counts, _bin(amount)
        counts[at] = counts.get(at, 0) + times

    def merge(self, other: Histogram) -> None:
        """Count all amounts of another one."""
        if other.count:
            self.least = min(self.least, other.least) if self.count else other.least
            self.most = max(self.most, other.most)
        self.count += other.count
        self.total += other.total
        for at, times in other.counts.items():
            self.counts[at] = self.counts.get(at, 0) + times

    def thinned(self, median: float | None = None) -> Histogram:
        """Return a copy that is small enough for a message: all of its quantiles are the median.

        Args:
            median: that of the copy; None for its own.
        """
        if not self.count:
            return Histogram()
        middle = self.quantile(0.5) if median is None else median
        return replace(self, counts={_bin(middle): self.count})

    @property
    def mean(self) -> float:
        """The mean; 0 if there are no amounts."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """Return the amount below which a share of them lies; 0 if there are none."""
        if not self.count:
            return 0.0
        rank, below = share * (self.count - 1), 0
        for amount, number in self.bins():
            below += number
            if below > rank:
                return amount
        return self.most

    def bins(self) -> Iterator[tuple[float, int]]:
        """Yield the middle of each bin that is not empty, and how many amounts are in it."""
        for at, number in sorted(self.counts.items()):
            middle = math.exp(min(at * _STEP, _FARTHEST))
            yield min(max(middle, self.least), self.most), number


def _bin(amount: float) -> int:
    return round(math.log(max(amount, _SMALLEST)) / _STEP)


class AskedAmounts(msgspec.Struct, omit_defaults=True):
    """The amounts of one kind that the tasks of a function ask for.

    Attributes:
        tasks: how many ask for some amount.
        counts: how many of them for which; of a hundred amounts at most.
    """

    tasks: int = 0
    least: float = 0.0
    most: float = 0.0
    counts: dict[float, int] = {}

    def add(self, amount: float, tasks: int = 1) -> None:
        """Count tasks that ask for an amount."""
        self.least = min(self.least, amount) if self.tasks else amount
        self.most = max(self.most, amount)
        self.tasks += tasks
        if amount in self.counts or len(self.counts) < REQUESTS:
            self.counts[amount] = self.counts.get(amount, 0) + tasks

    def merge(self, other: AskedAmounts) -> None:
        """Count all amounts of another one."""
        if other.tasks:
            self.least = min(self.least, other.least) if self.tasks else other.least
            self.most = max(self.most, other.most)
            self.tasks += other.tasks

    @property
    def usual(self) -> float:
        """The amount that most tasks asked for."""
        return max(self.counts, key=self.counts.__getitem__)
