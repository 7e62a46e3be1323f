"""A limited number of places, in trio and asyncio alike."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grain.delayed.host import checkpoint, event_here

if TYPE_CHECKING:
    import asyncio

    import trio


def check_capacity(n: int, what: str) -> None:
    """Check a number of places.

    Raises:
        TypeError, ValueError: n is not a positive int.
    """
    wrong = f"{what}({n!r}): give how many may be there at once, as in {what}(10)"
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(wrong)
    if n < 1:
        raise ValueError(wrong)


class Places:
    """A number of places, handed out in the order in which they were asked for.

    `trio.Semaphore` would do where there is only trio.
    """

    def __init__(self, places: int) -> None:
        self.free = places
        self._waiting: deque[trio.Event | asyncio.Event] = deque()

    async def acquire(self) -> None:
        """Wait until a place is free, and take it; a checkpoint."""
        await checkpoint()
        if self.free:
            self.free -= 1
            return
        mine = event_here()
        self._waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():  # asyncio may cancel a task that was given a place already
                self.release()
            else:
                self._waiting.remove(mine)
            raise

    def release(self) -> None:
        """Give a place back; the task that has waited longest gets it."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self.free += 1
