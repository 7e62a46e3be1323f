"""A warning, once, when more tasks wait than the user expects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WARN_QUEUED = 100_000  # some 0.1 GB of a mission's memory


class Overload:
    """A watch over the number of waiting tasks, at the cost of one comparison for each task.

    Task ids count from 1 in the order of submission, so the next id bounds how many tasks can
    wait: only a task with the id `look_at` or a larger one is a reason to look.

    Args:
        limit: how many tasks may wait before the warning; None for no warning.

    Raises:
        TypeError, ValueError: the limit is not a positive int.
    """

    def __init__(self, limit: int | None, report: Callable[[str], object] = print) -> None:
        wrong = f"warn_queued={limit!r}: give the number of waiting tasks to warn of, or None"
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise TypeError(wrong)
        if limit is not None and limit < 1:
            raise ValueError(wrong)
        self._limit = limit or 0
        self._report = report
        self.look_at = math.inf if limit is None else limit + 1

    def on_submitted(self, task: int, queued: int) -> None:
        """Record the newest task's id, and the number of tasks that wait now."""
        room = self._limit - queued
        if room >= 0:
            # If the queue stays near the limit, not every task is a reason to look again.
            self.look_at = task + max(room, self._limit // 16) + 1
            return
        self._warn(queued)

    def on_backing_off(self, count: int) -> None:
        """Record tasks that were not submitted yet, as their results are looked for."""
        if count > self._limit and self.look_at != math.inf:
            self._warn(count)

    def _warn(self, queued: int) -> None:
        self.look_at = math.inf
        self._report(
            f"warning: {queued} tasks wait to be started (more than warn_queued={self._limit}). "
            "Each takes memory, and nothing is started while a loop submits without an await. "
            "Limit it with grain.util.QueueLimiter, as in `async with QueueLimiter(1000) as ql: "
            "... await ql(fn)(x)`, or let others run with `await trio.sleep(0)` now and then"
        )
