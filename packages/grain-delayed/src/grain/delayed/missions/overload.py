"""Whether so many tasks wait that the user should know; said once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WARN_QUEUED = 100_000  # some 0.1 GB of a mission's memory


class Overload:
    """Watches how many tasks of a mission wait, at the cost of one comparison for each of them.

    Jobs are numbered from 1 as they are submitted, so the number of the next one bounds how many
    can wait: only one numbered `look_at` or more is a reason to look.

    Args:
        limit: how many may wait before it is said; None for any number.
        say: what is given the line to say.

    Raises:
        TypeError, ValueError: the limit is no positive int.
    """

    __slots__ = ("_limit", "_say", "look_at")

    def __init__(self, limit: int | None, say: Callable[[str], object] = print) -> None:
        wrong = f"warn_queued={limit!r}: give the number of waiting tasks to warn of, or None"
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise TypeError(wrong)
        if limit is not None and limit < 1:
            raise ValueError(wrong)
        self._limit = limit or 0
        self._say = say
        self.look_at = math.inf if limit is None else limit + 1

    def look(self, job: int, queued: int) -> None:
        """Job number so-and-so was just submitted, and so many wait now."""
        room = self._limit - queued
        if room >= 0:
            # A queue that stays about as long as it may is not looked at for every job.
            self.look_at = job + max(room, self._limit // 16) + 1
            return
        self._tell(queued)

    def held(self, count: int) -> None:
        """So many tasks wait that were not submitted yet, as their results are looked for."""
        if count > self._limit and self.look_at != math.inf:
            self._tell(count)

    def _tell(self, queued: int) -> None:
        self.look_at = math.inf
        self._say(
            f"warning: {queued} tasks wait to be started (more than warn_queued={self._limit}). "
            "Each takes memory, and nothing is started while a loop submits without an await. "
            "Limit it with grain.util.QueueLimiter, as in `async with QueueLimiter(1000) as ql: "
            "... await ql(fn)(x)`, or let others run with `await trio.sleep(0)` now and then"
        )
