"""`Progress`: how a mission goes: rate, estimate, cores; from looks at its statistics."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from grain.delayed.display.estimate import estimate
from grain.head import Statistics
from grain.head.events import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.delayed.display.estimate import Estimate
    from grain.delayed.display.total import Total
    from grain.head.base import CallKindNow
    from grain.head.messages import Outlook

_ENOUGH = 10  # looks from which a mean of cores says something
_ESTIMATED = 1.0  # seconds between two estimates, at least
_FEW = 5000  # running tasks with which an estimate takes a millisecond or so
_ROOM = 5.0  # seconds for which cores that tasks had count as theirs: one ends, the next begins

NOTHING = Statistics(0, 0, 0, 0, 0, 0)


class Progress:
    """The progress of one mission. Times are in seconds, by any one clock.

    Attributes:
        elapsed: the time between the first look and the last.
        left: the time until what was submitted so far has ended, and all calls if the program has
            said how many there are of each function; None if nothing is known of it.
    """

    def __init__(self, total: Total | None = None) -> None:
        self.now = NOTHING
        self.elapsed = 0.0
        self._left: Estimate | None = None
        self._total = total
        self._source: Callable[[], Statistics] = lambda: NOTHING
        self._kinds: Callable[[], Sequence[CallKindNow]] = lambda: ()
        self._estimate_due = 0.0
        # The cores that this mission's tasks had lately, and when.
        self._rooms: deque[tuple[float, float]] = deque()
        self._began: float | None = None
        self._looks = 0
        # The integrals over time of given cores and of all cores; and of the computing cores, with
        # the cores given meanwhile.
        self._given = self._cores = 0.0
        self._computing = self._measured = 0.0
        self._pace = Pace()

    def on_opened(
        self,
        source: Callable[[], Statistics],
        kinds: Callable[[], Sequence[CallKindNow]] = lambda: (),
    ) -> None:
        """Look at these statistics from now on; until then there are no tasks."""
        self._source = source
        self._kinds = kinds

    def expect(self, total: Total) -> None:
        """Record the calls that there will be."""
        self._total = total

    def outlook(self) -> Outlook:
        """Return how far the mission is, for the scheduler."""
        from grain.head.messages import Outlook  # few missions with a local worker need it

        left = self.left
        return Outlook(
            self.ended,
            self.calls or 0,
            None if left is None else left.seconds,
            left is not None and left.least,
            self.is_whole,
        )

    def look(self, at: float) -> None:
        """Look at the statistics at a point in time."""
        if self._began is None:
            self._began = at
        passed = at - self._began - self.elapsed
        self.elapsed += passed
        before, self.now = self.now, self._source()
        begun = bool(before.running or self.ended or before.queued)
        if begun and (self.now.running or before.running):
            # Most often, what was given at either end was given in between.
            self._looks += 1
            given = passed * (before.given + self.now.given) / 2
            self._given += given
            self._cores += passed * (before.cores + self.now.cores) / 2
            if self.now.computing is not None:
                self._computing += passed * self.now.computing
                self._measured += given
        self._pace.look(self.elapsed, self.ended, idle=not begun)
        if self.elapsed >= self._estimate_due:
            self._look_ahead()

    def _look_ahead(self) -> None:
        """Estimate the time that is left."""
        kinds, now = self._kinds(), self.now
        self._estimate_due = self.elapsed + _ESTIMATED * max(1.0, now.running / _FEW)
        had = sum(kind.cores * len(kind.elapsed) for kind in kinds)
        # Tasks count as running that were sent ahead to a worker, behind others.
        had = min(had, now.given) if now.cores else had
        self._rooms.append((self.elapsed, had))
        while self._rooms[0][0] < self.elapsed - _ROOM:
            self._rooms.popleft()
        room = max(cores for _, cores in self._rooms)
        self._left = None
        if now.running:
            coming = {} if self._total is None else self._total.coming()
            self._left = estimate(kinds, room, coming)

    @property
    def left(self) -> Estimate | None:
        """The time that is left; None if it is not known, or if nothing runs by now."""
        return self._left if self.now.running else None

    @property
    def calls(self) -> int | None:
        """The number of all calls that there will be; None if the program has not said so."""
        if self._total is None:
            return None
        return max(self._total.calls, self.ended + self.unfinished + self.now.cancelled)

    @property
    def is_whole(self) -> bool:
        """True if the estimate is about all calls, and not only about those submitted so far."""
        calls = self.calls
        if calls is None or self._total is None:
            return False
        submitted = self.ended + self.unfinished + self.now.cancelled
        return submitted >= calls or self._total.by_function

    def on_ended(self, at: float) -> None:
        """Look for the last time; what still counts as running has been stopped."""
        self.look(at)
        self.now = replace(self.now, running=0, queued=0, given=0, computing=None)

    def count(self) -> None:
        """Look at the statistics between two looks, only for the counts."""
        self.now = self._source()

    @property
    def ended(self) -> int:
        """The number of tasks that have ended."""
        return self.now.done + self.now.failed

    @property
    def unfinished(self) -> int:
        """The number of tasks that run or wait."""
        return self.now.running + self.now.queued

    @property
    def share(self) -> float | None:
        """The part of all calls that have ended, from 0 to 1; None if these are not known."""
        calls = self.calls
        return self.ended / calls if calls else None

    @property
    def rate(self) -> float:
        """The number of tasks that end in a second; see `Pace.rate`."""
        return self._pace.rate

    @property
    def given(self) -> float | None:
        """The part of the cores that were given, from 0 to 1; None if there were too few looks."""
        return self._given / self._cores if self._cores and self._looks >= _ENOUGH else None

    @property
    def computing(self) -> float | None:
        """The computing cores as a part of the given ones; more than 1 if programs take more.

        None if there were too few looks, or if that is not known of most of the time.
        """
        known = self._looks >= _ENOUGH and self._measured > self._given / 2
        return self._computing / self._measured if known else None
