"""Functions that block: as tasklets in threads, and several calls in one.

The functions of this module travel to workers by their names.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

T = TypeVar("T")


async def in_thread(
    fn: Callable[..., T], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> T:
    """Call a function that blocks in a thread, so that the worker's other tasks go on.

    The function sees ``GVAR`` as the task does, and may call back with `trio.from_thread`. Python
    code that computes takes turns with all other tasks of the worker: they share the interpreter.

    A thread cannot be stopped: a cancelled task ends when the function has returned.

    Raises:
        BaseException: what the function raised.
    """
    # No limit of threads: the resources of tasks limit how many of them run at a time.
    limiter = trio.CapacityLimiter(math.inf)
    call = fn if kwargs is None else lambda *args: fn(*args, **kwargs)
    return await trio.to_thread.run_sync(call, *args, limiter=limiter)


def call_each(fn: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> list[T]:
    """Call a function with one tuple of arguments after another; return its results in order.

    Raises:
        BaseException: what a call raised; the calls after it do not take place.
    """
    return [fn(*arguments) for arguments in calls]
