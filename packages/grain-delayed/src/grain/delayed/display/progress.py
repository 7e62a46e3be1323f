"""`Progress`: how a mission goes: rate, estimate, busy cores; from looks at its statistics."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grain.head import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

_ENOUGH = 10  # looks from which a mean of busy cores says something, and ends from which a rate
_SPANS = 32  # points in time that are kept at most, and half as many at least
_LATELY = 60.0  # seconds that are lately, at least

NOTHING = Statistics(0, 0, 0, 0, 0, 0)


class Progress:
    """The progress of one mission. Times are in seconds, by any one clock.

    Attributes:
        now: the statistics at the last look.
        elapsed: the time between the first look and the last.
    """

    def __init__(self) -> None:
        self.now = NOTHING
        self.elapsed = 0.0
        self._source: Callable[[], Statistics] = lambda: NOTHING
        self._began: float | None = None
        self._tasks_began = 0.0
        self._looks = 0
        # The integrals over time of busy cores and of all cores.
        self._busy = self._cores = 0.0
        # How many tasks had ended at points in time that are evenly spread, and when the next one
        # is due.
        self._points: deque[tuple[float, int]] = deque()
        self._spread = _LATELY / _SPANS * 2
        self._due = 0.0

    def on_opened(self, source: Callable[[], Statistics]) -> None:
        """Look at these statistics from now on; until then there are no tasks."""
        self._source = source

    def look(self, at: float) -> None:
        """Look at the statistics at a point in time."""
        if self._began is None:
            self._began = at
        passed = at - self._began - self.elapsed
        self.elapsed += passed
        before, self.now = self.now, self._source()
        if not (before.running or self.ended or before.queued):
            self._tasks_began = self.elapsed
        elif self.now.running or before.running:
            # Most often, what was busy at either end was busy in between.
            self._looks += 1
            self._busy += passed * (before.busy + self.now.busy) / 2
            self._cores += passed * (before.cores + self.now.cores) / 2
        self._keep_point()

    def _keep_point(self) -> None:
        """Keep this point in time if one is due; of too many, every second one stays."""
        if self.elapsed < self._due:
            return
        self._points.append((self.elapsed, self.ended))
        if len(self._points) > _SPANS:
            self._points = deque(list(self._points)[::2])
            self._spread *= 2
        self._due = self.elapsed + self._spread

    def count(self) -> None:
        """Look at the statistics between two looks, for the counts alone."""
        self.now = self._source()

    @property
    def ended(self) -> int:
        """The number of tasks that have ended."""
        return self.now.done + self.now.failed

    @property
    def left(self) -> int:
        """The number of tasks that run or wait."""
        return self.now.running + self.now.queued

    @property
    def share(self) -> float:
        """The part of the tasks that have ended, from 0 to 1; 0 without tasks."""
        tasks = self.ended + self.left + self.now.cancelled
        return self.ended / tasks if tasks else 0.0

    @property
    def rate(self) -> float:
        """The number of tasks that end in a second.

        On average since the first one came; or over the last quarter of that time, which is a
        minute at least, where enough have ended in it: workers come and go, and what began slowly
        need not go on so.
        """
        since = self.elapsed - self._tasks_began
        lately = self.elapsed - max(since / 4, _LATELY)
        before = [point for point in self._points if self._tasks_began <= point[0] <= lately]
        if before:
            at, ended = before[-1]
            if self.ended - ended >= _ENOUGH:
                return (self.ended - ended) / (self.elapsed - at)
        return self.ended / since if since > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The time until all tasks have ended; None if it cannot be estimated.

        It cannot while none has ended, and while nothing runs or what waits fits no worker.
        """
        if not (self.rate and self.now.running) or self.now.stuck:
            return None
        return self.left / self.rate

    @property
    def busy(self) -> float | None:
        """The part of the cores that were busy, from 0 to 1; None if there were too few looks."""
        return self._busy / self._cores if self._cores and self._looks >= _ENOUGH else None
