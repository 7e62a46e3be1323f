"""A semaphore for so many at once."""

from __future__ import annotations

import trio


def semaphore(n: int, what: str) -> trio.Semaphore:
    """A semaphore with n places.

    Raises:
        TypeError, ValueError: n is no positive int.
    """
    wrong = f"{what}({n!r}): give how many may be there at once, as in {what}(10)"
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(wrong)
    if n < 1:
        raise ValueError(wrong)
    return trio.Semaphore(n, max_value=n)
