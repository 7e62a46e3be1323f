"""Brief tasks of a log: how long each had its resources, in each stretch of its time. Pure.

A brief run computes for microseconds, and yet has its core for milliseconds: messages travel, and
processes take turns. So how many tasks run at a time and how many end says how long each takes:

    seconds of a task = running tasks * length of the stretch / tasks that ended in it

A *stretch* is the time between two `schema.StandingTasks` lines. Tasks without lines of their own
are replayed in bundles: a bundle takes as long as its tasks do one after the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from grain.eventlog.usage import BRIEF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.eventlog.schema import BriefTasks, StandingTasks

BUNDLE = 0.1
"""Seconds of a bundle: short beside a stretch, so that all cores have some."""


class Bundle(NamedTuple):
    """Some brief tasks that run one after the other.

    Attributes:
        line: the line that counts them.
        tasks: how many they are.
        seconds: for which they have their resources.
        submitted: when.
    """

    line: BriefTasks
    tasks: int
    seconds: float
    submitted: float


class Stretch:
    """The brief runs that end between two `StandingTasks` lines; times are on the axis of the log.

    Args:
        since: when it begins.
        before: how many tasks ran then; None if that is not known.
    """

    def __init__(self, since: float, before: StandingTasks | None) -> None:
        self._since = since
        self._before = before
        self._counted: list[tuple[BriefTasks, float, float]] = []
        # By function: the indices of brief runs that have lines, and the seconds of all others.
        self._listed: dict[str, list[int]] = {}
        self._long: dict[str, float] = {}

    def count(self, line: BriefTasks, began: float, now: float) -> None:
        """Take runs without lines of their own, of which the first began, and the last ended."""
        self._counted.append((line, min(began, now), now))

    def take(self, function: str, seconds: float, run: int) -> None:
        """Take a run with lines, by its index."""
        if seconds <= BRIEF:
            self._listed.setdefault(function, []).append(run)
        else:
            self._long[function] = self._long.get(function, 0.0) + seconds

    def ends(
        self, until: float, after: StandingTasks
    ) -> tuple[list[tuple[int, float]], list[Bundle]]:
        """Return the runs that have lines, each with its seconds, and the bundles of all others.

        Args:
            until: when the stretch is over.
            after: how many tasks run then.
        """
        seconds = self._seconds(until, after)
        runs = [
            (run, seconds[function])
            for function, some in self._listed.items()
            if function in seconds
            for run in some
        ]
        return runs, list(self.bundles(seconds))

    def _seconds(self, until: float, after: StandingTasks) -> dict[str, float]:
        """Return for how long each brief task of a function had its resources, where known."""
        since = self._since
        if self._before is None:
            since = max(since, min((began for _, began, _ in self._counted), default=since))
        ended = {function: len(runs) for function, runs in self._listed.items()}
        for line, _, _ in self._counted:
            ended[line.function] = ended.get(line.function, 0) + line.tasks
        running: dict[str, list[int]] = {}
        for standing in filter(None, (self._before, after)):
            for one in standing.functions:
                running.setdefault(one.function, []).append(one.running)
        return {
            function: max(
                0.0, sum(some) / len(some) * (until - since) - self._long.get(function, 0.0)
            )
            / tasks
            for function, tasks in ended.items()
            if (some := running.get(function))
        }

    def bundles(self, seconds: dict[str, float]) -> Iterator[Bundle]:
        """Yield the tasks without lines in bundles.

        Args:
            seconds: for which each task of a function had its resources, where that is known.
        """
        for line, began, now in self._counted:
            each = max(line.seconds / line.tasks, seconds.get(line.function, 0.0))
            before = (line.seconds + line.waited) / line.tasks
            number = min(line.tasks, max(1, math.ceil(each * line.tasks / BUNDLE)))
            for at in range(number):
                tasks = (at + 1) * line.tasks // number - at * line.tasks // number
                ended = began + (now - began) * (at + 1) / number
                yield Bundle(line, tasks, each * tasks, max(0.0, ended - before))
