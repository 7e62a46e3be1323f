"""Items for an async function that takes several at a time, a few times concurrently."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import trio

T = TypeVar("T")


class Batches(Generic[T]):
    """Hands items to a function in batches, as long as there are any.

    Args:
        nursery: where it runs; each run ends when there are no more.
        function: the function.
        size: how many items it takes at most.
        most: how many times it runs at once.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        function: Callable[[list[T]], Awaitable[None]],
        size: int,
        most: int = 8,
    ) -> None:
        self._nursery = nursery
        self._function = function
        self._size = size
        self._most = most
        self._items: deque[T] = deque()
        self._running = 0

    def put(self, item: T) -> None:
        """Hand over an item."""
        self._items.append(item)
        if self._running < self._most:
            self._running += 1
            self._nursery.start_soon(self._run)

    async def _run(self) -> None:
        try:
            while self._items:
                count = min(self._size, len(self._items))
                await self._function([self._items.popleft() for _ in range(count)])
        finally:
            self._running -= 1
