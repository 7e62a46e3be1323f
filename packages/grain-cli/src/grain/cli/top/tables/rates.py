"""Rates of tasks, and cores given and computing lately: from answer to answer. Pure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.edge.questions import MissionRow, OverviewAnswer

_WINDOW = 60.0  # seconds that count
_ENOUGH = 5.0  # seconds between two answers from which a rate follows


class Rates:
    """The rates of all missions, by their id."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}
        self._rates: dict[str, float] = {}

    def look(self, answer: OverviewAnswer) -> None:
        """Take an answer of the scheduler into account."""
        present = {mission.id for mission in answer.missions}
        for left in [one for one in self._seen if one not in present]:
            del self._seen[left]
        self._rates = {one.id: self._look_at(one, answer.at) for one in answer.missions}

    def rate(self, mission: str) -> float:
        """Return how many tasks of a mission end in a second, lately or since it began."""
        return self._rates.get(mission, 0.0)

    def _look_at(self, mission: MissionRow, at: float) -> float:
        ended = mission.done + mission.failed
        seen = self._seen.setdefault(mission.id, deque())
        if seen and (ended < seen[-1][1] or at < seen[-1][0]):
            seen.clear()  # another scheduler, or a clock that was set back
        if not seen or at > seen[-1][0]:
            seen.append((at, ended))
        while at - seen[0][0] > _WINDOW and at - seen[1][0] >= _ENOUGH:
            seen.popleft()
        since, before = seen[0]
        if at - since >= _ENOUGH and ended > before:
            return (ended - before) / (at - since)
        lasted = at - mission.since
        return ended / lasted if lasted > 0 else 0.0


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
