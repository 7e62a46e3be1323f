"""`as_completed` and `QueueLimiter` of grain.util in asyncio programs."""

from __future__ import annotations

import asyncio

import pytest
import trio

from grain.delayed import delayed, delayedval, each
from grain.util import QueueLimiter, as_completed
from grain.util.capacity import Places
from grain_testkit.asyncio_programs import asyncio_run, fail, here, wait_for


def test_as_completed_yields_in_order_of_ends_under_asyncio() -> None:
    async def main() -> None:
        first, second = trio.Event(), trio.Event()
        async with here():
            names = {wait_for(second): "late", wait_for(first): "soon", delayedval(1): "there"}
            names[fail(ValueError("failed"))] = "failed"
            results = []
            async for r_ in as_completed(names):
                results.append(names[r_])
                if names[r_] == "soon":
                    second.set()
                if names[r_] == "failed":
                    asyncio.get_running_loop().call_later(0.01, first.set)
                    with pytest.raises(ValueError, match="failed"):
                        await r_
            assert ["there", "failed", "soon", "late"] == results

    asyncio_run(main)


def test_as_completed_given_up() -> None:
    """A loop that was cancelled leaves its tasks alone, and can be begun again."""

    async def main() -> str:
        event = trio.Event()

        async def look() -> None:
            async for _ in as_completed(r_):
                pass

        async with here():
            r_ = wait_for(event)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(look(), 0.01)
            event.set()
            await look()
            return await r_

    assert "waited" == asyncio_run(main)


def test_a_limiter_is_shared_by_tasks_of_asyncio_and_trio() -> None:
    running: list[int] = []
    most = [0]
    three_run = trio.Event()

    @delayed
    async def counted(i: int) -> int:
        running.append(i)
        most[0] = max(most[0], len(running))
        if len(running) == 3:
            three_run.set()
        with trio.fail_after(300):
            await three_run.wait()
        await trio.sleep(0.001)
        running.remove(i)
        return i

    @delayed
    async def branch(ql: QueueLimiter) -> list[int]:
        return await each([await ql(counted)(i) for i in range(100, 110)])

    async def main() -> None:
        async with here(), QueueLimiter(3) as ql:
            branch_ = branch(ql)
            mine = await asyncio.gather(*(ql(counted)(i) for i in range(10)))
            assert list(range(10)) == await each(mine)
            assert list(range(100, 110)) == await branch_
        assert 3 == most[0]
        assert "<QueueLimiter(3): 0 have not ended>" == repr(ql)

    asyncio_run(main)


def test_a_cancelled_waiter_takes_no_place() -> None:
    """Not even at the moment when it gets one."""

    async def main() -> None:
        async with here():
            room = Places(1)
            await room.acquire()
            waiting = [asyncio.create_task(room.acquire()) for _ in range(3)]
            await asyncio.sleep(0.01)
            waiting[0].cancel()
            room.release()  # to the first, who leaves without taking it
            waiting[1].cancel()
            assert [True, True, None] == [
                isinstance(error, asyncio.CancelledError) or error
                for error in await asyncio.gather(*waiting, return_exceptions=True)
            ]
            assert 0 == room.free
            room.release()
            assert 1 == room.free

    asyncio_run(main)
