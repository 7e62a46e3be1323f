"""`Looks`: when a command that waits for jobs looks at the files of the queue again."""

from __future__ import annotations

import time

SOONEST, LATEST = 0.03, 2.0
"""Seconds between two looks, at first and after a while: a look takes a millisecond or so."""

PART = 20
"""A command is at most so much of its wait late: a short job ends at once, a long one is cheap."""

REVIVE = 30.0
"""Seconds between two looks for a dispatcher that was killed."""


class Looks:
    """The looks of a command that waits for jobs: soon at first, then less and less often.

    No file system tells of the changes that another host makes.
    """

    def __init__(self) -> None:
        self._began = self._revive_at = time.monotonic()

    def wait(self) -> None:
        """Wait until the next look is due."""
        waited = time.monotonic() - self._began
        time.sleep(min(max(waited / PART, SOONEST), LATEST))

    def revival_is_due(self) -> bool:
        """Return True at the first look, and once every `REVIVE` seconds."""
        now = time.monotonic()
        if now < self._revive_at:
            return False
        self._revive_at = now + REVIVE
        return True
