"""Points and spans of time as people read them."""

from __future__ import annotations

import time


def when(at: float) -> str:
    """Return a time, given in seconds since 1970, by the local clock.

    Raises:
        OverflowError, OSError, ValueError: there is no such time.
    """
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def span(seconds: float) -> str:
    """Return a span of time in its two largest units, as ``2 h 5 min``."""
    minutes, s = divmod(round(seconds), 60)
    if not minutes:
        return f"{s} s"
    hours, m = divmod(minutes, 60)
    return f"{hours} h {m} min" if hours else f"{m} min {s} s"
