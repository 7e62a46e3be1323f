"""`as_completed`: delayed objects in the order in which they can be awaited without waiting."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from grain.delayed.graph import check_here, tasks_behind, waited_for
from grain.delayed.host import checkpoint, event_here
from grain.delayed.value import flat
from grain.delayed.watch import Watch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    import trio

    from grain.delayed import Delayed

T = TypeVar("T")


class AsCompleted(Generic[T]):
    """The async iterator that `as_completed` returns; it can be iterated once.

    Several tasks may iterate it together: each object comes to one of them.
    """

    def __init__(self, dos: list[Delayed[T]]) -> None:
        self._left = len(dos)
        self._ready = ready = _Ready[T]()
        self._watches = [Watch(do._node, partial(ready.add, do), first_failure=True) for do in dos]
        self._checked = False

    def __aiter__(self) -> AsCompleted[T]:
        return self

    async def __anext__(self) -> Delayed[T]:
        """Return the next delayed object that is ready.

        Raises:
            grain.delayed.NotInMission: a pending one belongs to a mission that the caller cannot
                wait for.
        """
        if not self._left:
            raise StopAsyncIteration
        if self._ready.items:
            await checkpoint()
        elif not self._checked:
            for watch in self._watches:
                for source in watch.pending:
                    check_here(source)
            self._checked = True
        waits = not self._ready.items
        while not self._ready.items:
            if not self._left:  # another task has had the last one meanwhile
                raise StopAsyncIteration
            await self._ready.wait()
        self._left -= 1
        if not self._left:
            self._ready.wake()
        do = self._ready.items.popleft()
        if waits and (tasks := tasks_behind([do._node])):
            waited_for(max(tasks, key=lambda task: task.number))
        return do

    def __del__(self) -> None:
        # Without this, a program that takes the first of many again and again would leave a
        # reference in all others each time. An async generator would not do instead: a loop that
        # leaves one early has to close it.
        for watch in getattr(self, "_watches", ()):
            watch.stop()


class _Ready(Generic[T]):
    """The delayed objects that are ready; tasks refer to this, and not to the iterator."""

    def __init__(self) -> None:
        self.items: deque[Delayed[T]] = deque()
        self._waiters: list[trio.Event | asyncio.Event] = []

    def add(self, do: Delayed[T]) -> None:
        self.items.append(do)
        self.wake()

    async def wait(self) -> None:
        """Wait until one more is ready, or none is left; it may be another task's by then."""
        event = event_here()
        self._waiters.append(event)
        try:
            await event.wait()
        finally:
            self._waiters.remove(event)

    def wake(self) -> None:
        """Wake all that wait."""
        for event in self._waiters:
            event.set()


@overload
def as_completed(*dos: Delayed[T]) -> AsCompleted[T]: ...


@overload
def as_completed(*dos: Delayed[T] | Iterable[Delayed[T]]) -> AsCompleted[T]: ...


def as_completed(*dos: Delayed[T] | Iterable[Delayed[T]]) -> AsCompleted[T]:
    """Iterate over delayed objects as they finish.

    For example::

        async for r_ in as_completed(*rs_):
            r = await r_  # does not wait

    It yields the delayed objects that were given, each once, including failed ones: awaiting one
    gives its value or raises its exception. An object made by operations, as ``a_ + b_``, is ready
    when all tasks behind it have ended, or one of them has failed. Objects that are ready at the
    same time come in the order in which they were given. The loop may be left early; the other
    tasks go on.

    Args:
        *dos: delayed objects, one by one or as iterables of them.

    Raises:
        TypeError: an argument is not a delayed object.
        grain.delayed.NotInMission: at the first step that has to wait, one is still pending that
            belongs to a mission of another thread, trio program or asyncio loop.
    """
    return AsCompleted(flat(dos, "as_completed"))
