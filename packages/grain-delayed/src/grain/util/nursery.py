"""`open_nursery_with_capacity`: a nursery with a limit on its tasks."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ParamSpec

import trio

from grain.head import collapsing
from grain.util.capacity import Places, check_capacity

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

P = ParamSpec("P")


class LimitedNursery:
    """A trio nursery that starts a task when fewer than a number of its tasks run.

    Made by `open_nursery_with_capacity`.

    Attributes:
        cancel_scope: the scope of the nursery; cancelling it cancels the tasks and the block.
    """

    def __init__(self, nursery: trio.Nursery, places: Places) -> None:
        self.cancel_scope = nursery.cancel_scope
        self._nursery = nursery
        self._places = places

    async def start_once_acquired(
        self, fn: Callable[P, Awaitable[object]], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Wait until fewer tasks than allowed run, then start one; do not wait for its end.

        Args:
            fn: an async function, called with the other arguments.

        Raises:
            TypeError: fn cannot be called. If it is not async, its task fails.
            RuntimeError: the nursery's block has ended.
        """
        if not callable(fn):
            if inspect.iscoroutine(fn):
                fn.close()  # or Python warns that it was never awaited
            raise TypeError(f"{fn!r} cannot be started: give an async function and its arguments")
        await self._places.acquire()
        try:
            self._nursery.start_soon(self._run, fn, args, kwargs, name=fn)
        except BaseException:
            self._places.release()
            raise

    async def _run(
        self,
        fn: Callable[..., Awaitable[object]],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        try:
            await fn(*args, **kwargs)
        finally:
            self._places.release()


@asynccontextmanager
async def open_nursery_with_capacity(n: int) -> AsyncGenerator[LimitedNursery]:
    """Open a nursery in which at most n tasks run at once.

    For example::

        async with open_nursery_with_capacity(10) as nursery:
            for i in range(1000):
                await nursery.start_once_acquired(fn, i)  # waits while ten run

    It is a trio nursery in everything else: the block ends when all tasks have, the first that
    fails cancels the others, and so does leaving it by an exception. It needs no mission.

    Args:
        n: the largest number of tasks.

    Raises:
        Exception: the exception of the block or a task; an ExceptionGroup if there are several.
        TypeError, ValueError: n is not a positive int.
        RuntimeError: this is not a trio task, but asyncio code around a mission, for example.
    """
    check_capacity(n, "open_nursery_with_capacity")
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            "open_nursery_with_capacity opens a trio nursery, and this is not a trio task. In an "
            "asyncio program, open it in a branch: a delayed function without resources"
        )
    places = Places(n)
    with collapsing():
        async with trio.open_nursery() as nursery:
            yield LimitedNursery(nursery, places)
