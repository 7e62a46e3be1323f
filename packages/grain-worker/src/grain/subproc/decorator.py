"""The decorator that makes an async function of a synchronous one."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from grain.subproc.scope import call_in_process
from grain.subproc.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")
T = TypeVar("T")


def subprocify(fn: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make an async function of a synchronous one, which runs in another process.

    As a decorator, or as a call: ``slow = subprocify(numpy.linalg.eigvalsh)``. The result has the
    signature of ``fn``, and is a tasklet: ``delayed(subprocify(fn)) @ Cores(2)``. A leaf finds the
    pool of its worker; awaiting it elsewhere needs a pool around it, see `subprocess_pool_scope`.

    The process is bound to the CPUs of ``GVAR.res``, and was started with ``OMP_NUM_THREADS`` and
    its siblings as their number; without CPUs it is not bound, and inherits these variables. In the
    function, `grain.GVAR` is as at the call. Its prints go where prints of the caller go.

    A function that can be imported travels by its name, any other by value, once to each process
    and as it is at its first call. Arguments and results are pickled; large arrays are copied once
    in each direction, and can be written to. The caller does not see what the function changes in
    its arguments or in globals; the next call may or may not.

    Args:
        fn: a function that awaits nothing.

    Returns:
        The async function. It raises what ``fn`` raises, with its traceback there as a note.
        It also raises

        - `BrokenSubprocessError` if the process dies, as by a segmentation fault;
        - `SubprocessMemoryError` if that was for want of memory, or if it had more than its task
          asked for, where that is enforced;
        - `grain.worker.errors.PayloadError` if the function, an argument, the result or the
          exception cannot travel; the process lives on;
        - `grain.worker.errors.TaskletAborted` if ``fn`` calls `sys.exit`;
        - `RuntimeError` if it is awaited where there is no pool;
        - `OSError` if no process can be started.

        Cancellation ends the process with everything that it has started, by SIGTERM, and after
        the pool's grace by SIGKILL; the exception goes on when nothing of it is left.

    Raises:
        TypeError: ``fn`` is not callable, or is itself an async function.
    """
    if not callable(fn):
        raise TypeError(f"subprocify takes a function, not {fn!r:.100}")
    # As it is, not what it wraps: a function may well run an async one by a loop of its own.
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(
            f"{Target(fn)!r} is an async function, subprocify is for synchronous ones: "
            "what awaits something else need not leave the event loop"
        )
    target = Target(fn)

    @functools.wraps(fn)
    async def in_process(*args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await call_in_process(target, args, kwargs)
        return result

    return in_process
