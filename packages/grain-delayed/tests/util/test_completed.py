"""`as_completed`: delayed objects as they finish."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.delayed import Delayed, NotInMission, delayed, delayedval, mission
from grain.resource import Cores
from grain.util import as_completed


@delayed
async def sleep(seconds: float) -> float:
    await trio.sleep(seconds)
    return seconds


@delayed
async def fail(seconds: float) -> Any:
    await trio.sleep(seconds)
    raise ValueError(seconds)


async def test_objects_come_when_they_can_be_awaited_without_waiting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mission(Cores(9), config_file=False):
        slow_, quick_ = (sleep @ Cores(1))(3), (sleep @ Cores(1))(1)
        sum_ = sleep(1) + sleep(2)
        value_ = delayedval(0)
        results = []
        async for r_ in as_completed(slow_, [quick_, sum_], value_):
            results.append((trio.current_time(), r_))
            await r_
            assert trio.current_time() == results[-1][0]
        assert [0, 1, 2, 3] == [when for when, _ in results]
        for (_, given), expected in zip(results, (value_, quick_, sum_, slow_), strict=True):
            assert given is expected


async def test_tasks_that_share_an_iterator_have_each_object_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mission(Cores(9), config_file=False):
        completed = as_completed((sleep @ Cores(1))(seconds) for seconds in range(1, 6))
        seen: list[float] = []

        async def consume() -> None:
            async for r_ in completed:
                seen.append(await r_)

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(consume)
        assert [1, 2, 3, 4, 5] == seen


async def test_a_failed_object_is_yielded_and_raises_when_awaited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mission(Cores(9), config_file=False):
        sum_ = fail(2) + sleep(9)
        failed_ = fail(1)
        ended = []
        async for r_ in as_completed(sum_, failed_, sleep(3)):
            try:
                ended.append(await r_)
            except ValueError as error:
                ended.append(str(error))
        assert ["1", "2", 3] == ended
        assert 3 == trio.current_time()
        late = [r_ async for r_ in as_completed(sum_, failed_)]
        assert late == [sum_, failed_] or [sum_._node, failed_._node] == [x._node for x in late]


async def test_a_failure_that_is_not_awaited(autojump_clock: trio.testing.MockClock) -> None:
    """Being yielded is not being awaited: it is raised at the mission's end."""
    with pytest.raises(ValueError):
        async with mission(Cores(1), config_file=False):
            async for _ in as_completed(fail(1)):
                pass


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=12))
def test_each_once_and_in_order(kinds: list[tuple[int, int, bool]]) -> None:
    """Each comes once, no sooner and no later than an await of it would end."""

    async def main() -> None:
        async with mission(config_file=False, progress=False):
            given = {}
            for a, b, failing in kinds:
                do = (fail if failing else sleep)(a) + sleep(b)
                given[id(do)] = (do, a if failing else max(a, b))
            results = {}
            async for r_ in as_completed(do for do, _ in given.values()):
                assert id(r_) not in results
                results[id(r_)] = trio.current_time()
                try:
                    await r_
                except ValueError:
                    pass
            assert {key: when for key, (_, when) in given.items()} == results

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_loop_left_early_leaves_no_reference_in_pending_tasks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mission(Cores(9), config_file=False):
        tasks = [sleep(i) for i in range(20)]
        last = tasks[-1]
        while tasks:
            async for r_ in as_completed(tasks):
                tasks = [t for t in tasks if t is not r_]
                break
        assert trio.current_time() == 19
        other_ = sleep(5)
        for _ in range(3):
            with trio.move_on_after(1):
                async for _r in as_completed(other_):
                    raise AssertionError
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()  # what a cancellation leaves behind
        node: Any = other_._node
        assert not node.dependents
        assert 19 == await last
        assert 5 == await other_


async def test_an_iterator_is_used_up_after_one_pass() -> None:
    done = as_completed(delayedval(1))
    assert 1 == len([r_ async for r_ in done])
    assert [] == [r_ async for r_ in done]
    none: list[Delayed[int]] = []
    assert [] == [r_ async for r_ in as_completed(*none)]
    assert [] == [r_ async for r_ in as_completed(none)]
    same_ = delayedval(1)
    assert 2 == len([r_ async for r_ in as_completed(same_, same_)])


@pytest.mark.parametrize("wrong", [3, [3], "ab", None])
def test_arguments_that_are_no_delayed_objects_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"as_completed\(\) takes delayed objects"):
        as_completed(wrong)


def test_in_another_program() -> None:
    """A pending delayed object cannot be waited for in another trio program."""
    pending: list[Delayed[None]] = []

    async def first() -> None:
        gate = trio.Event()

        @delayed
        async def wait() -> None:
            await gate.wait()

        async def other() -> None:
            async for _ in as_completed(pending):
                pass

        async with mission(config_file=False, progress=False):
            pending.append(wait())
            with pytest.raises(NotInMission):
                await trio.to_thread.run_sync(trio.run, other)
            gate.set()

    trio.run(first)
