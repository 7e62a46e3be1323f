"""The places where an asyncio program can call and await, and the errors elsewhere."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio

from grain.combine import exec1, open_waitgroup
from grain.delayed import NotInMission, delayed, each, run
from grain.resource import Cores
from grain.util import open_nursery_with_capacity
from grain_testkit.asyncio_programs import add, asyncio_run, here, wait_for


def test_a_call_elsewhere() -> None:
    """In another thread, in another loop, after the mission: an error that says so."""

    async def main() -> None:
        with pytest.raises(NotInMission, match="outside of a mission"):
            add(1, 2)
        async with here():
            r_ = wait_for(event := trio.Event())
            with pytest.raises(NotInMission, match="outside of a mission"):
                await asyncio.to_thread(contextvars.Context().run, add, 1, 2)
            with pytest.raises(NotInMission, match="in another thread"):
                await asyncio.to_thread(add, 1, 2)
            with pytest.raises(NotInMission, match="of another thread"):
                await asyncio.to_thread(asyncio.run, each(r_))
            event.set()
            later = contextvars.copy_context()
        with pytest.raises(NotInMission, match="outside of a mission"):
            add(1, 2)
        with pytest.raises(NotInMission, match="after its mission had ended"):
            later.run(add, 1, 2)

    asyncio_run(main)


def test_waiting_from_another_loop_of_the_thread_is_refused() -> None:
    """A value whose loop does not run here is an error, never a wait without end."""
    ours, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    stack = AsyncExitStack()

    async def begin() -> Any:
        await stack.enter_async_context(here())
        return wait_for(event)

    event = trio.Event()
    try:
        r_ = ours.run_until_complete(begin())
        with pytest.raises(NotInMission, match="of another asyncio loop"):
            other.run_until_complete(each(r_))
        with pytest.raises(RuntimeError, match="has a trio run already"):
            other.run_until_complete(here().__aenter__())
        event.set()
        assert ["waited"] == ours.run_until_complete(each(r_))
        ours.run_until_complete(stack.aclose())
    finally:
        ours.close()
        other.close()


def test_run_inside_of_an_asyncio_mission() -> None:
    """A trio program has begun already."""

    async def nothing() -> None: ...

    async def main() -> None:
        async with here():
            with pytest.raises(RuntimeError, match="use `async with"):
                run(nothing, config_file=False)

    asyncio_run(main)


def test_without_any_loop() -> None:
    """Neither trio nor asyncio: an error that says what to use."""
    with pytest.raises(RuntimeError, match=r"there is neither: use grain\.delayed\.run"):
        here().__aenter__().send(None)


def test_blocks_that_open_a_trio_nursery_are_refused_outside_of_branches() -> None:
    """The message says that such a block belongs into a branch, where it works."""

    @delayed
    async def branch() -> int:
        async with open_waitgroup() as wg, open_nursery_with_capacity(1) as nursery:
            wg.submit(Cores(1), add.__wrapped__, 1, 2)
            await nursery.start_once_acquired(trio.sleep, 0)
        value: int = wg.results[0]
        return value

    async def main() -> None:
        async with here(Cores(1)):
            with pytest.raises(NotInMission, match="in asyncio code. Open it in a branch"):
                async with open_waitgroup():
                    pass
            with pytest.raises(NotInMission, match="in asyncio code. Open it in a branch"):
                await exec1(Cores(1), add.__wrapped__, 1, 2)
            with pytest.raises(RuntimeError, match="not a trio task.*open it in a branch"):
                async with open_nursery_with_capacity(1):
                    pass
            assert 3 == await branch()

    asyncio_run(main)
