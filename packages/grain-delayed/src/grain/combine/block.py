"""`open_waitgroup`: the block in which a group takes tasks; `exec1`: a single one."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import trio

from grain.combine.waitgroup import WaitGroup
from grain.delayed import NotInMission
from grain.delayed.missions.current import current_mission
from grain.head import collapsing

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from grain.resource import Resource

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def open_waitgroup() -> AsyncGenerator[WaitGroup]:
    """Open a block whose end waits for the tasks and branches that were started in it.

    The group then has their results, in order of submission::

        async with open_waitgroup() as wg:
            wg.submit(Cores(2), tasklet, 1)
            wg.start_subtask(branch, 2)
        first, second = wg.results

    Groups can be open inside of one another, and several at once. They work where delayed
    functions can be called: in a mission, outside of its leaves.

    The first task or branch that fails cancels the others and the block, and the block raises its
    exception, in no group. If more failed before they could be cancelled, a note on the exception
    names them. A block that is left by an exception or cancelled from outside cancels all of them,
    and ends when nothing of them is left. Calls of delayed functions are not part of a group.

    Raises:
        Exception: the exception of the block, or of the first task that failed.
        grain.delayed.NotInMission: no mission runs here; or this is asyncio code around one.
    """
    mission = current_mission(open_waitgroup)
    if not trio.lowlevel.in_trio_task():
        raise NotInMission(
            "a waitgroup was opened in asyncio code. Open it in a branch, a delayed function "
            "without resources, and await that here; or use delayed objects"
        )
    with collapsing():
        try:
            async with trio.open_nursery() as nursery:
                group = WaitGroup(mission, nursery)
                try:
                    yield group
                    await group._join()
                except BaseException as error:
                    await group._leave()
                    if not group._stands_for(error):
                        raise
                group._finish()
            group._finish()  # raised here: a nursery that was cancelled by a failure raises nothing
        except BaseExceptionGroup as errors:
            # A cancellation from outside came in between: the failures matter more.
            failed = errors.split(trio.Cancelled)[1]
            if failed is None:
                raise
            raise failed from None


async def exec1(
    res: Resource, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run a single task and wait for its result: a waitgroup for one.

    Args:
        res: the resources it needs.
        fn: an async function, called with the other arguments on a worker.

    Returns:
        Its result.

    Raises:
        Exception: its exception. If the wait is cancelled, the task is cancelled, and nothing of it
            is left afterwards.
        grain.delayed.NotInMission, grain.resource.Infeasible, TypeError: as in `open_waitgroup`
            and `WaitGroup.submit`.
    """
    async with open_waitgroup() as group:
        group.submit(res, fn, *args, **kwargs)
    result: T = group.results[0]
    return result
