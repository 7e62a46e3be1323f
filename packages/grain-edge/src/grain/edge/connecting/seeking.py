"""`DirectWaySeeker`: the search for a direct way, for peers that files or a relay connect."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SEEK_FIRST, SEEK_LAST = 30.0, 900.0
"""Seconds between two looks for a direct way to a head that was reached by another one: from one to
the other, twice as long each time."""

_CARRIED = frozenset({"files", "relay"})  # which need a third party for all that passes


class DirectWaySeeker:
    """The search of one peer for a direct way to its head.

    Files cost the shared filesystem something, and a relay the server of a bridge. The peer ends
    such a connection when there is a direct way, and dials again. All others see a connection that
    is lost and made again, without losing a message.

    Args:
        find: returns True if there is a direct way to the head, which the peer's next dial takes.
        first: as `SEEK_FIRST`.
    """

    def __init__(self, find: Callable[[], Awaitable[bool]], first: float = SEEK_FIRST) -> None:
        self._find = find
        self._first = self._pause = first

    async def until_direct(self, transport: str) -> None:
        """Wait, on a new connection, until there is a direct way; without end where it is one.

        The pauses begin again after a connection that was direct. Else they grow from one
        connection to the next, too: a way that is found, and fails, is not tried all the time.

        Args:
            transport: of the connection, as in `Peer`.
        """
        if transport not in _CARRIED:
            self._pause = self._first
            await trio.sleep_forever()
        while True:
            pause, self._pause = self._pause, min(2 * self._pause, SEEK_LAST)
            await trio.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
            if await self._find():
                return
