"""Functions that block: as tasklets in threads, and several calls in one.

The functions of this module travel to workers by their names.
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import trio

from grain import GVAR
from grain.edge.machine.copies import Origin
from grain.worker.call import name_of
from grain.worker.node.library_threads import library_threads
from grain.worker.processes.environment import allocated

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from grain.worker.node.library_threads import LibraryThreads

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(fn: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make an async function of a blocking one, which runs in a thread.

    As a decorator, or as a call: ``delayed(in_thread(fetch)) @ Cores(1)``. The result has the
    signature of ``fn``, and is a tasklet like any other. Meanwhile the other tasks of the worker
    go on, if ``fn`` waits, as for a file, a network or a lock, or computes in a library that
    releases the interpreter, as NumPy does. For Python code that computes there is
    `grain.subproc.subprocify`: threads share the interpreter.

    The function sees ``GVAR`` as the task does, and may call back with `trio.from_thread`. Only the
    resources of tasks limit how many threads there are. OpenBLAS, MKL and OpenMP use no more
    threads in it than its task has cores.

    A thread cannot be stopped: a task that is cancelled, or exceeds a time limit, ends when the
    function has returned.

    Args:
        fn: a function that awaits nothing.

    Returns:
        The async function. It raises what ``fn`` raises.

    Raises:
        TypeError: ``fn`` is not callable, or is itself an async function.
    """
    if not callable(fn):
        raise TypeError(f"in_thread takes a function, not {fn!r:.100}")
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(
            f"{name_of(fn)} is an async function, in_thread is for blocking functions: leave "
            "in_thread out"
        )

    @functools.wraps(fn)
    async def threaded(*args: P.args, **kwargs: P.kwargs) -> T:
        return await call_in_thread(fn, args, kwargs)

    return threaded


class InThread:
    """A blocking function as a tasklet, which travels as the function itself does.

    That of `in_thread` is a function of its own, which always travels by value.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.__qualname__ = name_of(fn)
        self._fn = fn

    async def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Call the function in a thread, as `call_in_thread` does."""
        return await call_in_thread(self._fn, args, kwargs)


async def call_in_thread(
    fn: Callable[..., T], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> T:
    """Call a function in a thread, as `in_thread` has it.

    Raises:
        BaseException: what the function raised.
    """
    # No limit of threads: the resources of tasks limit how many of them run at a time.
    limiter = trio.CapacityLimiter(math.inf)
    call = functools.partial(_call, Origin(), fn, kwargs or {})
    if cores := len(allocated(GVAR.res)):
        call = functools.partial(_call_on_cores, library_threads(), cores, call)
    return await trio.to_thread.run_sync(call, *args, limiter=limiter)


def _call(origin: Origin, fn: Callable[..., T], kwargs: Mapping[str, Any], *args: object) -> T:
    __tracebackhide__ = True
    try:
        value = fn(*args, **kwargs)
    except BaseException as error:
        origin.check(error)
        raise
    origin.check()
    return value


def _call_on_cores(threads: LibraryThreads, cores: int, call: Callable[..., T], *args: object) -> T:
    __tracebackhide__ = True
    with threads.of_function(cores):
        return call(*args)


def call_each(fn: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> list[T]:
    """Call a function with one tuple of arguments after another; return its results in order.

    Raises:
        BaseException: what a call raised; the calls after it do not take place.
    """
    return [fn(*arguments) for arguments in calls]
