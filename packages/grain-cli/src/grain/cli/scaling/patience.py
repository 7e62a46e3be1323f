"""The time for which a worker may be idle, and a job unneeded, before it goes: rule 6."""

from __future__ import annotations

import math

LONGEST = 1800.0
"""Seconds: no patience is longer."""

FORGIVEN = 7200.0
"""Seconds without a mistake after which a patience is shorter again."""

_GRACE = 600.0


class Patience:
    """A span of time that grows with every mistake.

    A mistake is a submission that follows too soon on what ended for want of patience: within twice
    the patience and ten minutes.

    Args:
        seconds: the patience at first, which is the least.
        fixed: True if it stays as it is.
    """

    def __init__(self, seconds: float, *, fixed: bool = False) -> None:
        self.seconds = seconds
        self._least = seconds
        self._fixed = fixed
        self._ended_at = -math.inf
        self._quiet_since: float | None = None

    def on_ended(self, now: float) -> None:
        """Note that something ended for want of patience."""
        if self._quiet_since is None:
            self._quiet_since = now
        if not self._fixed and now - self._quiet_since >= FORGIVEN:
            self.seconds = max(self.seconds / 2, self._least)
            self._quiet_since = now
        self._ended_at = now

    def on_submitted(self, now: float) -> bool:
        """Note a submission; return True if it shows a mistake."""
        if now - self._ended_at > 2 * self.seconds + _GRACE:
            return False
        # Once: what ended together was one mistake, as what is submitted for it comes bit by bit.
        self._ended_at = -math.inf
        self._quiet_since = now
        if not self._fixed:
            self.seconds = max(self.seconds, min(2 * self.seconds, LONGEST))
        return True
