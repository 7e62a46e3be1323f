"""`QueueLimiter`: a call waits while as many calls as allowed have not ended."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from grain.delayed import Delayed
from grain.delayed.host import checkpoint, event_here
from grain.delayed.watch import Watch
from grain.util.capacity import Places, check_capacity
from grain.worker.call import name_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    import trio
    from typing_extensions import Self

P = ParamSpec("P")
D = TypeVar("D", bound=Delayed[Any])


class QueueLimiter:
    """A limit on the calls of delayed functions that are submitted and have not ended.

    For example::

        async with QueueLimiter(10) as ql:
            for i in range(1000):
                r_ = await ql(dfn @ Cores(1))(i)  # waits for a place, not for the result

    ``ql(fn)(...)`` waits until fewer than n of the calls made through ``ql`` have not ended, calls
    fn, and returns its result: a delayed object. fn is a delayed function, the ``submit`` or
    ``start_subtask`` of a waitgroup, or any function that returns a delayed object, which counts
    as one call until all tasks behind it have ended. Each such call is a checkpoint, so tasks that
    were submitted start meanwhile.

    The block ends when all calls have ended. It does not raise their failures: an await of the
    delayed objects does, or the end of the mission if they are not awaited. A block that is left by
    an exception does not wait; the tasks belong to the mission, and go on until that ends. Several
    tasks may share a limiter, also tasks of asyncio around a mission
    (docs/python-functions.md). It is used once.

    Args:
        n: the largest number of calls that have not ended.

    Raises:
        TypeError, ValueError: n is not a positive int.
    """

    def __init__(self, n: int) -> None:
        check_capacity(n, "QueueLimiter")
        self._places = Places(n)
        self._n = n
        self._idle: trio.Event | asyncio.Event | None = None  # what the block's end waits for
        self._state: Literal["new", "open", "left"] = "new"

    def __call__(self, fn: Callable[P, D]) -> Callable[P, Awaitable[D]]:
        """Return an async function that waits for a place, then calls fn and returns its result.

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
            await self._places.acquire()
            try:
                self._check_open(fn)
                result = fn(*args, **kwargs)
                _check_delayed(result, fn)
            except BaseException:
                self._release()
                raise
            Watch(result._node, self._release)
            return result

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
            while error is None and self._places.free < self._n:
                self._idle = event_here()
                await self._idle.wait()
        finally:
            self._state = "left"

    def __repr__(self) -> str:
        return f"<QueueLimiter({self._n}): {self._n - self._places.free} have not ended>"

    def _release(self) -> None:
        self._places.release()
        if self._places.free == self._n and self._idle is not None:
            self._idle.set()

    def _check_open(self, fn: object) -> None:
        if self._state != "open":
            raise RuntimeError(
                f"{_name_of(fn)} was called through a QueueLimiter outside of its block: use "
                "`async with QueueLimiter(...) as ql:`, and call ql(fn)(...) in it"
            )


def _check_delayed(result: object, fn: object) -> None:
    if isinstance(result, Delayed):
        return
    if inspect.iscoroutine(result):
        result.close()  # or Python warns that it was never awaited
    raise TypeError(
        f"{_name_of(fn)} was called through a QueueLimiter and returned {result!r}: it limits "
        "functions that return a delayed object, see @delayed; for plain async functions there is "
        "open_nursery_with_capacity"
    )


def _name_of(fn: object) -> str:
    return name_of(getattr(fn, "__wrapped__", fn))  # of a delayed function, its function
