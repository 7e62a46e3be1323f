"""`Rates`: how many tasks end in a second, from answer to answer. Pure."""

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
