"""The growth of memory with the size of the problem: the power ``b`` in memory ~ size ** b.

The power is the median of the slopes between pairs of runs (Theil, 1950; Sen, 1968), so that a few
odd runs do not bend it.
"""

from __future__ import annotations

import math
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST = 32
_APART = 1.1
_STEEPEST = 4.0
_SIZES = 4
_GAIN = 0.8


class Sized(NamedTuple):
    """The peak of a run in GB, and the size of its problem in any unit."""

    peak: float
    size: float


def power(runs: Sequence[Sized]) -> float:
    """Return the power by which memory grows with size, from 0 to 4.

    It is 0, so that sizes play no part, with fewer than 4 sizes, and if the peaks at one size
    scatter as much as they do without it: their spread has to fall by a fifth.
    """
    last = runs[-_LAST:]
    if len({run.size for run in last}) < _SIZES:
        return 0.0
    points = [(math.log(run.size), math.log(run.peak)) for run in last if run.peak > 0]
    apart = math.log(_APART)
    slopes = [
        (y2 - y1) / (x2 - x1)
        for (x1, y1), (x2, y2) in combinations(points, 2)
        if abs(x2 - x1) > apart
    ]
    if not slopes:
        return 0.0
    b = min(max(median(slopes), 0.0), _STEEPEST)
    spread = _deviation([y for _, y in points])
    rest = _deviation([y - b * x for x, y in points])
    return b if rest <= _GAIN * spread else 0.0


def _deviation(values: Sequence[float]) -> float:
    """Return what `statistics.pstdev` does, whose exact fractions take twenty times as long."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
