"""The loop that user code runs in: trio's own, or an asyncio loop with a trio run as its guest.

Everything of a mission runs in trio. Only the code in an ``async with mission()`` block may be
asyncio's, and it waits for the mission's tasks with the functions of this module. It stands at the
bottom of the package, so that delayed objects and missions can both wait without importing one
another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from grain.delayed.errors import NotInMission

if TYPE_CHECKING:
    import asyncio

# The asyncio loop whose guest the trio run of this thread is. Trio keeps it with the run itself.
asyncio_host: trio.lowlevel.RunVar[asyncio.AbstractEventLoop | None] = trio.lowlevel.RunVar(
    "grain.delayed asyncio host", None
)


def event_here() -> trio.Event | asyncio.Event:
    """Return an event that the calling code can wait for and a mission's trio task can set.

    Raises:
        NotInMission: the caller runs in an asyncio loop that is host to no mission.
    """
    if trio.lowlevel.in_trio_task():
        return trio.Event()
    import asyncio  # loaded already: only an asyncio program comes here

    host = asyncio_host.get() if trio.lowlevel.in_trio_run() else None
    if host is None or host is not asyncio.get_running_loop():
        raise NotInMission(
            "this delayed object belongs to a mission of another asyncio loop; await it there"
        )
    return asyncio.Event()


async def checkpoint() -> None:
    """Let the other tasks of the calling loop, be it trio's or asyncio's, run."""
    if trio.lowlevel.in_trio_task():
        await trio.lowlevel.checkpoint()
        return
    import asyncio

    await asyncio.sleep(0)
