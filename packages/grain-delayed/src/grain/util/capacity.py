"""Room for so many at once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from grain.delayed.host import checkpoint, event_here

if TYPE_CHECKING:
    import asyncio

    import trio


def check_capacity(n: int, what: str) -> None:
    """Whether so many can be allowed.

    Raises:
        TypeError, ValueError: n is no positive int.
    """
    wrong = f"{what}({n!r}): give how many may be there at once, as in {what}(10)"
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(wrong)
    if n < 1:
        raise ValueError(wrong)


class Room:
    """So many places; who waits for one gets it in turn, in trio and asyncio alike.

    Args:
        places: how many there are.

    Attributes:
        free: how many nobody has.
    """

    def __init__(self, places: int) -> None:
        self.free = places
        self._waiting: deque[trio.Event | asyncio.Event] = deque()

    async def acquire(self) -> None:
        """Take a place when there is one; a checkpoint."""
        await checkpoint()
        if self.free:
            self.free -= 1
            return
        mine = event_here()
        self._waiting.append(mine)
        try:
            await mine.wait()
        except BaseException:
            if mine.is_set():  # asyncio may cancel who was given a place already
                self.release()
            else:
                self._waiting.remove(mine)
            raise

    def release(self) -> None:
        """Give a place back, to the one who has waited longest."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self.free += 1
