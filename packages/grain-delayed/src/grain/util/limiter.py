"""`QueueLimiter`: submitting waits while as many calls as allowed have not ended."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from grain.delayed import Delayed
from grain.delayed.host import checkpoint, event_here
from grain.delayed.watch import Watch
from grain.util.capacity import Room, check_capacity
from grain.worker.job import name_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    import trio
    from typing_extensions import Self

P = ParamSpec("P")
D = TypeVar("D", bound=Delayed[Any])


class QueueLimiter:
    """Limits how many calls of delayed functions are submitted and have not ended.

    For example::

        async with QueueLimiter(10) as ql:
            for i in range(1000):
                r_ = await ql(dfn @ Cores(1))(i)  # waits for room, not for the result

    ``ql(fn)(...)`` waits until fewer than n of the calls made through ``ql`` have not ended, calls
    fn, and returns what it returns: a delayed object. fn is a delayed function, the ``submit`` or
    ``start_subtask`` of a waitgroup, or any function that returns a delayed object, which counts
    as one until all tasks behind it have ended. Each such call is a checkpoint, so what was
    submitted gets started meanwhile.

    The block ends when all of them have ended. It does not raise their failures: that is for who
    awaits the delayed objects, and for the mission's end if nobody does. Left by an exception, it
    does not wait; the tasks belong to the mission, and go on until that ends. A limiter may be
    shared by several tasks, also by asyncio's around a mission (docs/asyncio.md). It is used once.

    Args:
        n: how many at once.

    Raises:
        TypeError, ValueError: n is no positive int.
    """

    def __init__(self, n: int) -> None:
        check_capacity(n, "QueueLimiter")
        self._room = Room(n)
        self._n = n
        self._idle: trio.Event | asyncio.Event | None = None  # what the block's end waits for
        self._state = "new"

    def __call__(self, fn: Callable[P, D]) -> Callable[P, Awaitable[D]]:
        """An async function that waits for room, then calls fn and returns what it returns.

        Raises:
            TypeError: fn cannot be called, or, in the async function, returned no delayed object.
            RuntimeError: in the async function: the limiter's block is not entered, or was left.
        """
        if not callable(fn) or isinstance(fn, Delayed):
            raise TypeError(
                f"{fn!r} was given to a QueueLimiter: give a delayed function, and its arguments "
                "afterwards, as in `await ql(fn)(1)` instead of `await ql(fn(1))`"
            )

        async def limited(*args: P.args, **kwargs: P.kwargs) -> D:
            self._check_open(fn)
            await self._room.acquire()
            try:
                self._check_open(fn)
                made = fn(*args, **kwargs)
                _check_delayed(made, fn)
            except BaseException:
                self._release()
                raise
            Watch(made._node, self._release)
            return made

        return limited

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise RuntimeError("a QueueLimiter is used once; make another one")
        self._state = "open"
        await checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await checkpoint()
            while error is None and self._room.free < self._n:
                self._idle = event_here()
                await self._idle.wait()
        finally:
            self._state = "left"

    def __repr__(self) -> str:
        return f"<QueueLimiter({self._n}): {self._n - self._room.free} have not ended>"

    def _release(self) -> None:
        self._room.release()
        if self._room.free == self._n and self._idle is not None:
            self._idle.set()

    def _check_open(self, fn: object) -> None:
        if self._state != "open":
            raise RuntimeError(
                f"{_name_of(fn)} was called through a QueueLimiter outside of its block: use "
                "`async with QueueLimiter(...) as ql:`, and call ql(fn)(...) in it"
            )


def _check_delayed(made: object, fn: object) -> None:
    if isinstance(made, Delayed):
        return
    if inspect.iscoroutine(made):
        made.close()  # or Python warns that it was never awaited
    raise TypeError(
        f"{_name_of(fn)} was called through a QueueLimiter and returned {made!r}: it limits "
        "functions that return a delayed object, see @delayed; for plain async functions there is "
        "open_nursery_with_capacity"
    )


def _name_of(fn: object) -> str:
    return name_of(getattr(fn, "__wrapped__", fn))  # of a delayed function, its function
