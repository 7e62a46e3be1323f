"""The scope that opens a pool, and the pool that serves a call of the same trio run.

A run on a worker needs no scope: its runner opens a pool when a run needs one, and has it until the
last run has ended.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from grain.subproc.pool import open_pool
from grain.worker.runner.services import services_here

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from contextlib import AbstractAsyncContextManager

    from grain.subproc.pool import Pool
    from grain.subproc.target import Target

IDLE_TIMEOUT, GRACE = 60.0, 1.0

# By trio run and not by context: runs on a mission's local worker are not started from the task
# that opens the scope, so they would not inherit a context variable of it.
_POOLS: trio.lowlevel.RunVar[tuple[Pool, ...]] = trio.lowlevel.RunVar("grain.subproc.scope", ())


@asynccontextmanager
async def subprocess_pool_scope(
    *, idle_timeout: float = IDLE_TIMEOUT, grace: float = GRACE, limit: int | None = None
) -> AsyncGenerator[None]:
    """Open a pool of processes, which serves the calls of `subprocify`'s functions.

    A leaf needs none: its worker opens a pool with the defaults when a leaf first needs it. Open
    one for other arguments, and for calls that are not leaves.

    It serves all tasks of this trio run, not only those within the block: in a mission's main
    function it serves the local worker, in a worker's context module (``grain_context``) the runs
    of that worker. If several scopes are open, the last one opened serves.

    Processes are started when calls want them, and each serves one call at a time. Leaving the
    scope ends all of them, and returns when nothing of them is left; calls that still run from
    elsewhere raise `BrokenSubprocessError`. Cancelling it does the same.

    Args:
        idle_timeout: seconds after which a process without a call leaves; inf for never.
        grace: seconds between SIGTERM and SIGKILL where a process and what it has started has to
            be ended; also what an idle one has for its exit handlers.
        limit: the number of calls that may run at a time, others wait; None leaves that to the
            allocations.

    Raises:
        RuntimeError: the caller is asyncio code, as in a notebook.
        ValueError: an argument is out of its range.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            "subprocess_pool_scope() is for trio code. In asyncio code and in notebooks, leave it "
            "out: the worker of a mission opens a pool when a leaf needs it, as in "
            "await (delayed(subprocify(f)) @ Cores(1))(x)"
        )
    if not idle_timeout > 0:
        raise ValueError(f"idle_timeout must be a positive number of seconds, not {idle_timeout}")
    if not 0 <= grace < math.inf:
        raise ValueError(f"grace must be a number of seconds, not {grace}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, or None, not {limit}")
    async with open_pool(idle_timeout, grace, limit) as pool:
        _POOLS.set((*_POOLS.get(), pool))
        try:
            yield
        finally:
            _POOLS.set(tuple(other for other in _POOLS.get() if other is not pool))


async def call_in_process(target: Target, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function in a process of the innermost open pool, or else of the worker's own.

    Raises:
        RuntimeError: no pool is open, and the caller is not a leaf.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            f"{target!r} runs in a process of a pool, and asyncio code has none. Call it as a leaf "
            f"of a mission: await (delayed({target!r}) @ Cores(1))(...)"
        )
    pools = _POOLS.get()
    if pools:
        return await pools[-1].call(target, args, kwargs)
    services = services_here()
    if services is None:
        raise RuntimeError(
            f"{target!r} runs in a process of a pool, and there is none here. Call it as a leaf, "
            f"whose worker has one: (delayed({target!r}) @ Cores(1))(...); or open a pool around "
            "it by `async with subprocess_pool_scope():`"
        )
    pool = await services.get(_default_pool)
    return await pool.call(target, args, kwargs)


def _default_pool() -> AbstractAsyncContextManager[Pool]:
    return open_pool(IDLE_TIMEOUT, GRACE, None)
