"""Asyncio programs for tests: they run missions, and call plain functions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from grain.delayed import delayed, mission

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from grain.delayed import Mission
    from grain.resource import Cores


def here(local: Cores | None = None, **options: Any) -> Any:
    return mission(local, config_file=False, progress=False, **options)


def asyncio_run(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run a program with asyncio's own checks, and see that nothing of trio is left."""

    async def checked() -> Any:
        try:
            return await main()
        finally:
            assert not trio.lowlevel.in_trio_run()

    return asyncio.run(checked(), debug=True)


@delayed
async def add(x: int, y: int) -> int:
    await trio.lowlevel.checkpoint()
    return x + y


@delayed
async def fail(error: Exception) -> None:
    raise error


@delayed
async def wait_for(event: trio.Event) -> str:
    await event.wait()
    return "waited"


@delayed
async def record_end(log: list[str]) -> None:
    log.append("begins")
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()  # its end takes a while
        log.append("ends")


async def until(log: list[str], length: int) -> None:
    while len(log) < length:
        await asyncio.sleep(0.001)


@asynccontextmanager
async def failing(error: BaseException, fails: trio.Event) -> AsyncGenerator[Mission]:
    """Open a mission that breaks."""
    async with trio.open_nursery() as nursery, here() as active:

        @nursery.start_soon
        async def _() -> None:
            await fails.wait()
            raise error

        try:
            yield active
        finally:
            nursery.cancel_scope.cancel()
