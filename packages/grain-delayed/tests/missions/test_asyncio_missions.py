"""Several missions in one asyncio loop, and one that several tasks use."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from grain.delayed import NotInMission, delayed
from grain.resource import Cores, Infeasible
from grain_testkit.asyncio_programs import add, asyncio_run, here, record_end, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def test_missions_share_the_loop() -> None:
    """One inside another, side by side in tasks, and one after another."""

    async def one(x: int) -> int:
        async with here(Cores(1)):
            return await (add @ Cores(1))(x, 0) + await add(x, 0)

    async def main() -> None:
        assert [2, 4, 6] == await asyncio.gather(*map(one, (1, 2, 3)))
        async with here(Cores(1)) as outer:
            async with here(Cores(3)) as inner:
                assert inner is not outer
                assert 3 == await (add @ Cores(3))(1, 2)
            with pytest.raises(Infeasible):
                (add @ Cores(3))(1, 2)
        for x in range(3):
            assert 2 * x == await one(x)

    asyncio_run(main)
    asyncio_run(main)  # in another loop


def test_a_mission_begins_while_the_last_one_ends() -> None:
    """The trio run of the loop is replaced: no mission enters one that is about to end."""

    async def one(delay: int) -> int:
        for _ in range(delay):
            await asyncio.sleep(0)
        async with here():
            return await add(delay, 0)

    async def main() -> None:
        assert list(range(60)) == await asyncio.gather(*map(one, range(60)))

    asyncio_run(main)


def test_a_mission_in_a_branch() -> None:
    """There, it is trio code like any other."""

    @delayed
    async def branch() -> int:
        async with here(Cores(1)):
            return await (add @ Cores(1))(1, 2)

    async def main() -> int:
        async with here():
            return await branch()

    assert 3 == asyncio_run(main)


def test_cells_of_a_notebook() -> None:
    """A mission that is opened in one task serves others, each with a context of its own."""

    async def main() -> None:
        stack = AsyncExitStack()

        async def cell(step: Callable[[], Awaitable[Any]]) -> Any:
            return await contextvars.Context().run(asyncio.create_task, step())  # type: ignore[arg-type]

        async def opens() -> None:
            await stack.enter_async_context(here(Cores(2)))

        async def uses() -> int:
            total: int = await (add(1, 2) + (add @ Cores(2))(3, 4))
            return total

        async def opens_another() -> None:
            async with here():
                with pytest.raises(NotInMission, match="outside of a mission"):
                    await cell(uses)
                assert 3 == await add(1, 2)

        async def leaves_one() -> None:
            record_end(log)

        log: list[str] = []
        await cell(opens)
        assert 10 == await cell(uses)
        await cell(opens_another)
        assert 10 == await cell(uses)
        await cell(leaves_one)
        closing = asyncio.create_task(cell(stack.aclose))
        await until(log, 1)
        for _ in range(10):  # it waits for the task that does not end
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        with pytest.raises(NotInMission, match="outside of a mission"):
            await cell(uses)

    asyncio.run(main())
