"""What a campaign's log says, against its replay, and against the mission's estimates. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from grain.eventlog.schema import RunEnded, TaskSubmitted
from grain.whatif.replay import replay
from grain.whatif.scenario import Scenario
from grain.whatif.workload import workload_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.eventlog.schema import AnyLine
    from tools.campaign.live import Look

PARTS = (0.25, 0.5, 0.75)
"""The parts of a campaign's time at which its estimate is looked at."""


class Replayed(NamedTuple):
    """A campaign and the replay of it, by the same workers.

    Attributes:
        tasks: how many there were, each attempt at one.
        makespan: seconds that they took.
        replayed: seconds that they take in the replay.
        never_ran: the tasks that never ran, by reason.
    """

    tasks: int
    makespan: float
    replayed: float
    never_ran: dict[str, int]

    @property
    def error(self) -> float:
        """The part by which the replay takes longer."""
        return self.replayed / self.makespan - 1


class Estimated(NamedTuple):
    """What a mission said about the time left, and what came.

    Attributes:
        part: of the time of the campaign that had passed.
        whole: True if it spoke of all calls, and not only of those submitted so far.
        least: True if it said that it may take longer.
        said: seconds.
        came: seconds.
    """

    part: float
    whole: bool
    least: bool
    said: float
    came: float

    @property
    def error(self) -> float:
        """The part by which it said too much."""
        return self.said / self.came - 1 if self.came else math.inf


def replayed(lines: Sequence[AnyLine]) -> Replayed:
    """Replay the log of a campaign."""
    workload = workload_of(lines)
    seconds = replay(workload, Scenario()).makespan
    return Replayed(len(workload.tasks), workload.makespan, seconds, workload.never_ran)


def estimated(lines: Sequence[AnyLine], looks: Sequence[Look]) -> list[Estimated]:
    """Compare estimates with what the log says came, at each of `PARTS` of the time.

    The time is that from the first start of a task to the last end of one.
    """
    submitted = {line.task: line.time for line in lines if isinstance(line, TaskSubmitted)}
    ends = [
        (line.time, submitted[line.task], line.started)
        for line in lines
        if isinstance(line, RunEnded) and line.final and line.attempt and line.task in submitted
    ]
    began = min(started for _, _, started in ends if started is not None)
    last = max(end for end, _, _ in ends)
    found = []
    for part in PARTS:
        now = began + part * (last - began)
        at = bisect_right(looks, now, key=lambda look: look.time) - 1
        look = looks[at] if at >= 0 else None
        if look is None or look.left is None:
            continue
        # Between two looks, what was left has become less.
        said = max(0.0, look.left - (now - look.time))
        over = last if look.whole else max(end for end, came, _ in ends if came <= look.time)
        found.append(Estimated(part, look.whole, look.least, said, max(0.0, over - now)))
    return found
