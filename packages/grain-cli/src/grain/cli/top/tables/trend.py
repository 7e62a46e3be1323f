"""Cores given and computing lately: from answer to answer. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.edge.questions import OverviewAnswer

_SPAN = 15.0  # seconds of one bar
_SPANS = 20  # bars


class Trend:
    """The cores that were given, and that computed, in the last five minutes."""

    def __init__(self) -> None:
        # The sums of shares and the number of answers: of cores given, and of cores computing.
        self._spans: deque[tuple[int, list[float]]] = deque(maxlen=_SPANS)

    def look(self, answer: OverviewAnswer) -> None:
        """Take an answer of the scheduler into account."""
        given, cores = answer.cores
        if not cores:
            return
        number = int(answer.at // _SPAN)
        if self._spans and number < self._spans[-1][0]:
            self._spans.clear()  # a clock that was set back
        if not self._spans or number > self._spans[-1][0]:
            self._spans.append((number, [0.0, 0.0, 0.0, 0.0]))
        sums = self._spans[-1][1]
        sums[0] += given / cores
        sums[1] += 1
        if answer.computing is not None:
            sums[2] += min(answer.computing / cores, 1.0)
            sums[3] += 1

    def shares(self) -> tuple[list[float | None], list[float | None]]:
        """Return the shares of all cores that were given and that computed, the latest last.

        Each is the mean of 15 seconds; None where it is not known.
        """
        if not self._spans:
            return [], []
        known = dict(self._spans)
        last = self._spans[-1][0]
        first = max(self._spans[0][0], last - _SPANS + 1)
        given: list[float | None] = []
        computing: list[float | None] = []
        for number in range(first, last + 1):
            sums = known.get(number)
            given.append(None if sums is None else sums[0] / sums[1])
            computing.append(None if sums is None or not sums[3] else sums[2] / sums[3])
        return given, computing
