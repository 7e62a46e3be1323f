"""`open_waitgroup`: a block that waits for its jobs, and has their results in order."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import Any

import pytest
import trio

from grain import GVAR
from grain.combine import ResultsNotReady, WaitGroup, WaitGroupClosed, exec1, open_waitgroup, run
from grain.delayed import NotInMission, delayed, each, mission
from grain.resource import ZERO, Cores, Infeasible, Memory


async def double(x: int, seconds: float = 0) -> int:
    await trio.sleep(seconds)
    return 2 * x


async def where() -> str:
    return f"{GVAR.res} {GVAR.instance}"


async def test_results_in_order(autojump_clock: trio.testing.MockClock) -> None:
    """The block ends with the last job; results are in the order of submission, of both kinds."""
    async with mission(Cores(3), config_file=False):
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), double, 1, seconds=3)
            wg.start_subtask(double, 2, 2)
            wg.submit(Cores(1), double, x=3)
            wg.submit(Cores(2), double, 4, 1)
        assert 3 == trio.current_time()
        assert [2, 4, 6, 8] == wg.results
        assert "<WaitGroup: done, 4 of 4 ended>" == repr(wg)


async def test_of_the_resource_page() -> None:
    """As the page on resources shows it, a job gets what it asks for."""
    local = Memory(8) & Cores(2)
    async with mission(local, config_file=False, name="me"), open_waitgroup() as wg:
        wg.submit(Memory(8), where)
        wg.submit(Cores(2), where)
        wg.submit(ZERO, where)
        wg.start_subtask(where)
    assert ["Memory(8GB) me(local)", "CPU_Cores([0-1]) me(local)", "Ø ", "Ø "] == wg.results


async def test_an_empty_group_is_a_checkpoint() -> None:
    """A block without jobs lets others run, and has no results."""
    async with mission(config_file=False):
        async with open_waitgroup() as wg:
            pass
        assert [] == wg.results
        with trio.CancelScope() as scope:
            scope.cancel()
            async with open_waitgroup():
                pass
        assert scope.cancelled_caught


async def test_what_submit_returns(autojump_clock: trio.testing.MockClock) -> None:
    """It is a delayed object that may be ignored."""
    async with mission(Cores(2), config_file=False):
        async with open_waitgroup() as wg:
            a_ = wg.submit(Cores(1), double, 1, 1)
            b_ = wg.start_subtask(double, 2, 2)
            assert 6 == await (a_ + b_)
            assert 2 == trio.current_time()
            assert 4 == await wg.submit(Cores(1), double, 2)
        assert [2, 4, 4] == wg.results
        assert 2 == await a_


async def test_nested_and_several_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Branches open groups of their own, and one block may hold two groups."""

    async def frame(i: int) -> list[Any]:
        async with open_waitgroup() as wg:
            for j in range(2):
                wg.submit(Cores(1), double, 10 * i + j, 1)
        return wg.results

    async with mission(Cores(8), config_file=False):
        async with open_waitgroup() as outer, open_waitgroup() as other:
            for i in range(3):
                outer.start_subtask(frame, i)
            other.submit(Cores(1), exec_double, 5)
            async with open_waitgroup() as inner:
                inner.submit(Cores(1), double, 7)
            assert [14] == inner.results
        assert [[0, 2], [20, 22], [40, 42]] == outer.results
        assert [10] == other.results
        assert 1 == trio.current_time()


async def exec_double(x: int) -> int:
    return await double(x)


async def test_submission_from_branches(autojump_clock: trio.testing.MockClock) -> None:
    """A branch may add jobs to the group that it is in, also while the block's end waits."""

    async def more(wg: WaitGroup, left: int) -> int:
        await trio.sleep(1)
        if left:
            wg.start_subtask(more, wg, left - 1)
            wg.submit(Cores(1), double, left, 5)
        return -left

    async with mission(Cores(2), config_file=False), open_waitgroup() as wg:
        wg.start_subtask(more, wg, 2)
    assert [-2, -1, 4, 0, 2] == wg.results


async def test_idle_in_between(autojump_clock: trio.testing.MockClock) -> None:
    """A group that had nothing to do for a while waits for what came later."""
    async with mission(Cores(1), config_file=False), open_waitgroup() as wg:
        await wg.submit(Cores(1), double, 1)
        wg.submit(Cores(1), double, 2, 5)
    assert [2, 4] == wg.results
    assert 5 == trio.current_time()


async def test_beside_delayed_functions(autojump_clock: trio.testing.MockClock) -> None:
    """Both frontends work in one mission, in the branches of each other."""
    twice = delayed(double)

    @delayed
    async def grouped(x: int) -> int:
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), double, x)
        return int(wg.results[0])

    async def delaying(x: int) -> int:
        return sum(await each((twice @ Cores(1))(x), twice(x), grouped(x)))

    async with mission(Cores(1), config_file=False):
        async with open_waitgroup() as wg:
            wg.start_subtask(delaying, 1)
            wg.submit(Cores(1), double, 2)
        assert [6, 4] == wg.results
        assert 6 == await grouped(3)


def test_root_functions_of_run_can_open_groups() -> None:
    async def root(i: int) -> list[Any]:
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), double, i)
            wg.submit(Cores(1), double, i + 1)
        return wg.results

    assert [[0, 2], [2, 4]] == run(
        [partial(root, i) for i in range(2)], local=Cores(1), config_file=False, progress=False
    )


async def test_exec1_gives_one_result_or_exception_or_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail() -> None:
        raise ValueError("text")

    async with mission(Cores(1), config_file=False) as active:
        assert 10 == await exec1(Cores(1), double, 5)
        assert 10 == await exec1(ZERO, double, x=5)
        with pytest.raises(ValueError, match="text"):
            await exec1(Cores(1), fail)
        with trio.move_on_after(1) as scope:
            await exec1(Cores(1), double, 1, 100)
        assert scope.cancelled_caught
        assert 1 == trio.current_time()
        now = active.executor.statistics()
        assert (0, 0, 1) == (now.queued, now.running, now.cancelled)


async def test_results_before_the_end() -> None:
    """There are no results inside of the block, and the error says what to do instead."""
    async with mission(Cores(1), config_file=False):
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), double, 1)
            with pytest.raises(ResultsNotReady, match="await what submit"):
                _ = wg.results
        with pytest.raises(ValueError, match="stop"):
            async with open_waitgroup() as wg:
                raise ValueError("stop")
        with pytest.raises(ResultsNotReady, match="left by an exception"):
            _ = wg.results


async def test_submission_after_the_end() -> None:
    """A group takes nothing after its block."""
    async with mission(Cores(1), config_file=False):
        async with open_waitgroup() as wg:
            pass
        with pytest.raises(WaitGroupClosed, match="double was submitted to a waitgroup whose"):
            wg.submit(Cores(1), double, 1)
        with pytest.raises(WaitGroupClosed):
            wg.start_subtask(double, 1)


async def test_outside_of_a_mission() -> None:
    """Without a mission, and in a leaf, there is no group."""
    with pytest.raises(NotInMission, match="open_waitgroup was called outside of a mission"):
        async with open_waitgroup():
            pass
    with pytest.raises(NotInMission):
        await exec1(Cores(1), double, 1)

    async def leaf() -> None:
        await exec1(Cores(1), double, 1)

    async with mission(Cores(1), config_file=False):
        with pytest.raises(NotInMission, match="in a leaf"):
            await exec1(Cores(1), leaf)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((double, 1), TypeError, "first come the resources"),
        ((4, double, 1), TypeError, "first come the resources"),
        ((Cores(1), 3), TypeError, "give an async function and its arguments"),
        ((Cores(1), delayed(double), 1), TypeError, "double is a delayed function"),
        ((ZERO, delayed(double), 1), TypeError, "double is a delayed function"),
        ((Cores(2), double, 1), Infeasible, "can never run here"),
    ],
)
async def test_a_bad_submission_is_an_error_at_once_and_no_job_of_the_group(
    arguments: Any, error: type[Exception], message: str
) -> None:
    async with mission(Cores(1), config_file=False):
        async with open_waitgroup() as wg:
            with pytest.raises(error, match=message):
                wg.submit(*arguments)
            wg.submit(Cores(1), double, 1)
        assert [2] == wg.results


async def test_calls_instead_of_functions_and_delayed_arguments_are_refused() -> None:
    async with mission(Cores(1), config_file=False), open_waitgroup() as wg:
        with pytest.raises(TypeError, match="not its call"):
            wg.submit(Cores(1), double(1))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a delayed object was passed to double"):
            wg.submit(Cores(1), double, [wg.start_subtask(double, 1)])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not an async function"):
            async with open_waitgroup() as inner:
                inner.submit(Cores(1), abs, 1)  # type: ignore[arg-type]


async def test_keeping_one_result_keeps_no_other_results_and_no_arguments() -> None:
    class Thing:
        pass

    async def make(_: Thing) -> Thing:
        return Thing()

    async with mission(Cores(1), config_file=False):
        async with open_waitgroup() as wg:
            argument = Thing()
            kept_ = wg.submit(Cores(1), make, argument)
            wg.submit(Cores(1), make, argument)
        watched = [weakref.ref(argument), weakref.ref(wg.results[1])]
        del argument, wg
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert [None, None] == [ref() for ref in watched]
        assert isinstance(await kept_, Thing)
