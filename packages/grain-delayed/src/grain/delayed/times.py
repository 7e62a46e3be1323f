"""Points of time as text."""

from __future__ import annotations

import time


def when(at: float) -> str:
    """Return a time, given in seconds since 1970, by the local clock.

    Raises:
        OverflowError, OSError, ValueError: there is no such time.
    """
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
