"""`QueueLimiter` and `open_nursery_with_capacity`: so many at once."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.combine import open_waitgroup
from grain.delayed import Delayed, delayed, delayedval, each, mission
from grain.resource import Cores
from grain.util import QueueLimiter, open_nursery_with_capacity


@delayed
async def sleep(seconds: float) -> float:
    await trio.sleep(seconds)
    return seconds


@delayed
async def fail(seconds: float) -> None:
    await trio.sleep(seconds)
    raise ValueError("failed")


async def test_waits_for_room(autojump_clock: trio.testing.MockClock) -> None:
    """The first n calls return at once, each further one when another has ended."""
    called = []
    async with mission(Cores(9), config_file=False):
        async with QueueLimiter(2) as ql:
            objects = []
            for seconds in (3, 5, 4, 1):
                objects.append(await ql(sleep @ Cores(1))(seconds))
                called.append(trio.current_time())
            assert all(isinstance(x, Delayed) for x in objects)
        assert [0, 0, 3, 5] == called
        assert 7 == trio.current_time()  # the end waits for all
        assert [3, 5, 4, 1] == await each(objects)
        assert "<QueueLimiter(2): 0 have not ended>" == repr(ql)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.lists(st.integers(0, 4), max_size=15), st.integers(1, 3))
def test_never_more_than_n(n: int, times: list[int], tasks: int) -> None:
    """At most n calls run, whatever their times and however many trio tasks share the limiter."""
    now: list[int] = []
    most = [0]

    @delayed
    async def counted(seconds: float) -> None:
        now.append(1)
        most[0] = max(most[0], len(now))
        await trio.sleep(seconds)
        now.pop()

    async def submit(ql: QueueLimiter, mine: list[int]) -> None:
        for seconds in mine:
            await ql(counted)(seconds)

    async def main() -> None:
        async with mission(config_file=False, progress=False):
            async with QueueLimiter(n) as ql, trio.open_nursery() as nursery:
                for i in range(tasks):
                    nursery.start_soon(submit, ql, times[i::tasks])
            assert [] == now

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert most[0] <= n


async def test_in_a_waitgroup(autojump_clock: trio.testing.MockClock) -> None:
    """It limits what a waitgroup takes, too."""

    async def double(x: int) -> int:
        await trio.sleep(1)
        return 2 * x

    async with mission(Cores(9), config_file=False):
        async with open_waitgroup() as wg, QueueLimiter(2) as ql:
            for i in range(4):
                await ql(wg.submit)(Cores(1), double, i)
            await ql(wg.start_subtask)(double, 4)
            assert 2 == trio.current_time()
        assert [0, 2, 4, 6, 8] == wg.results


async def test_a_sum_counts_as_one(autojump_clock: trio.testing.MockClock) -> None:
    """A function that returns an operation has room until all tasks behind it have ended."""

    def both(a: float, b: float) -> Delayed[Any]:
        return fail(a) + sleep(b)

    async with mission(Cores(9), config_file=False):
        async with QueueLimiter(1) as ql:
            sum_ = await ql(both)(1, 4)
            await ql(sleep)(0)
            assert 4 == trio.current_time()
            assert 8 == await (await ql(delayedval)(8))
            failed_ = fail(0)
            with pytest.raises(ValueError):
                await failed_
            await ql(lambda: failed_ + sleep(5))()
            await ql(sleep)(1)
            assert 9 == trio.current_time()
        assert 10 == trio.current_time()
        with pytest.raises(ValueError, match="failed"):
            await sum_


async def test_a_failed_task_frees_its_place_and_is_raised_where_awaited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(ValueError, match="failed"):
        async with mission(Cores(1), config_file=False):
            async with QueueLimiter(1) as ql:
                failed_ = await ql(fail @ Cores(1))(1)
                assert 2 == await (await ql(sleep @ Cores(1))(2))
            with pytest.raises(ValueError):
                await failed_
            async with QueueLimiter(1) as ql:
                await ql(fail @ Cores(1))(1)


async def test_left_by_an_exception(autojump_clock: trio.testing.MockClock) -> None:
    """It does not wait then; the tasks are the mission's."""
    async with mission(Cores(1), config_file=False):
        with pytest.raises(KeyError):
            async with QueueLimiter(2) as ql:
                slow_ = await ql(sleep)(9)
                raise KeyError
        assert 0 == trio.current_time()
        assert 9 == await slow_


async def test_a_cancelled_wait(autojump_clock: trio.testing.MockClock) -> None:
    """A wait for room that is given up takes none."""
    async with mission(Cores(1), config_file=False), QueueLimiter(1) as ql:
        await ql(sleep)(5)
        with trio.move_on_after(1) as scope:
            await ql(sleep)(5)
        assert scope.cancelled_caught
        await ql(sleep)(0)
        assert 5 == trio.current_time()


async def test_refused_calls_leave_room() -> None:
    """A call that is refused is an error at once, and takes no room."""

    async def plain() -> None: ...

    async with mission(Cores(1), config_file=False), QueueLimiter(1) as ql:
        for _ in range(3):
            with pytest.raises(TypeError, match="a delayed object was passed"):
                await ql(sleep)(delayedval(1))  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="plain was called through a QueueLimiter and ret"):
                await ql(plain)()  # type: ignore[type-var,unused-coroutine]
            with pytest.raises(TypeError, match=r"instead of `await ql\(fn\(1\)\)`"):
                ql(sleep(1))
        await ql(sleep)(0)


async def test_outside_of_its_block() -> None:
    """It works in its block only, once."""
    ql = QueueLimiter(1)
    async with mission(Cores(1), config_file=False):
        with pytest.raises(RuntimeError, match="sleep was called through a QueueLimiter outside"):
            await ql(sleep)(0)
        async with ql:
            await ql(sleep)(0)
        with pytest.raises(RuntimeError, match="outside"):
            await ql(sleep)(0)
        with pytest.raises(RuntimeError, match="used once"):
            async with ql:
                pass


async def test_a_task_that_waits_in_a_block_that_is_left_submits_nothing() -> None:
    gate = trio.Event()

    @delayed
    async def held() -> None:
        await gate.wait()

    async def late(ql: QueueLimiter) -> None:
        with pytest.raises(RuntimeError, match="outside of its block"):
            await ql(held)()

    async with mission(Cores(1), config_file=False), trio.open_nursery() as nursery:
        with pytest.raises(KeyError):
            async with QueueLimiter(1) as ql:
                await ql(held)()
                nursery.start_soon(late, ql)
                await trio.testing.wait_all_tasks_blocked()
                raise KeyError
        gate.set()


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError)]
)
async def test_the_capacity_must_be_a_positive_int(n: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"QueueLimiter\(.*give how many"):
        QueueLimiter(n)
    with pytest.raises(error, match="open_nursery_with_capacity"):
        async with open_nursery_with_capacity(n):
            pass


async def test_tasks_start_as_places_are_free_and_the_block_waits_for_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    started = []

    async def work(seconds: float, *, i: int) -> None:
        started.append((i, trio.current_time()))
        await trio.sleep(seconds)

    async with open_nursery_with_capacity(2) as nursery:
        for i, seconds in enumerate((3, 5, 4, 1)):
            await nursery.start_once_acquired(work, seconds, i=i)
        assert 5 == trio.current_time()
    assert 7 == trio.current_time()
    assert [(0, 0), (1, 0), (2, 3), (3, 5)] == sorted(started)


async def test_a_failing_task_ends_the_others_and_the_wait_for_a_place(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def broken() -> None:
        await trio.sleep(1)
        raise ValueError("text")

    with pytest.raises(ValueError, match="text"):
        async with open_nursery_with_capacity(2) as nursery:
            await nursery.start_once_acquired(trio.sleep, 100)
            await nursery.start_once_acquired(broken)
            await nursery.start_once_acquired(broken)
    assert 1 == trio.current_time()

    async with open_nursery_with_capacity(1) as nursery:
        await nursery.start_once_acquired(trio.sleep_forever)
        nursery.cancel_scope.cancel()
    with pytest.raises(RuntimeError, match="closed"):
        await nursery.start_once_acquired(broken)
    with pytest.raises(TypeError, match="give an async function"):
        await nursery.start_once_acquired(broken())  # type: ignore[arg-type]
