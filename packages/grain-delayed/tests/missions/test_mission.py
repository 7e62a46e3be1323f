"""The place where calls run, and the trio task that owns a call."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
import trio

from grain import GVAR
from grain.delayed import Delayed, NotInMission, delayed, each, mission, run
from grain.head import TaskCancelled
from grain.resource import Cores, Infeasible, Memory, WTime


@delayed
async def look() -> tuple[str, str, int]:
    await trio.lowlevel.checkpoint()
    return repr(GVAR.res), GVAR.instance, os.getpid()


@delayed
async def never() -> None:
    await trio.sleep_forever()


async def test_branches_and_leaves() -> None:
    """A branch runs in the mission with no resources, a leaf on the local worker with its own."""
    async with mission(Cores([3, 5]), config_file=False, name="mine"):
        branch, leaf = await each(look(), (look @ Cores(2))())

    assert ("Ø", "", os.getpid()) == branch
    assert ("CPU_Cores([3,5])", "mine(local)", os.getpid()) == leaf


async def test_branches_call_branches_and_leaves() -> None:
    """A branch may call delayed functions, at any depth."""

    @delayed
    async def tree(depth: int) -> int:
        if depth == 0:
            return len((await (look @ Cores(1))())[1])
        return await (tree(depth - 1) + tree(depth - 1))  # type: ignore[no-any-return]

    async with mission(Cores(2), config_file=False, name="x"):
        assert 8 * len("x(local)") == await tree(3)


async def test_no_more_leaves_run_than_fit(autojump_clock: trio.testing.MockClock) -> None:
    """Leaves wait for their resources; branches do not."""

    @delayed
    async def sleep() -> None:
        await trio.sleep(1)

    async with mission(Cores(2), config_file=False):
        start = trio.current_time()
        await each((sleep @ Cores(1))() for _ in range(6))
        assert 3 == trio.current_time() - start
        await each(sleep() for _ in range(6))
        assert 4 == trio.current_time() - start


def test_a_call_outside_of_a_mission() -> None:
    """It says where delayed functions are called."""
    with pytest.raises(NotInMission, match="look was called outside of a mission: .*run"):
        look()
    with pytest.raises(NotInMission, match="look was called outside of a mission"):
        (look @ Cores(1))()


async def test_a_call_in_a_leaf() -> None:
    """A leaf cannot call delayed functions; the message says that a branch can."""

    @delayed
    async def leaf() -> Any:
        return await look()

    async with mission(Cores(1), config_file=False):
        with pytest.raises(NotInMission, match="look was called in a leaf: .*in a branch"):
            await (leaf @ Cores(1))()


async def test_a_call_in_a_thread() -> None:
    """A thread started from a mission cannot call delayed functions in its stead."""
    async with mission(Cores(1), config_file=False) as here:
        for fn in (look, look @ Cores(1)):
            with pytest.raises(NotInMission, match="look was called in another thread"):
                await trio.to_thread.run_sync(fn)
        assert 0 == here.executor.statistics().queued


async def test_a_call_after_the_mission() -> None:
    """A task that outlives the mission it was started in cannot call for it any more."""
    errors = []

    async def late() -> None:
        await trio.testing.wait_all_tasks_blocked()
        for fn in (look, look @ Cores(1)):
            with pytest.raises(NotInMission, match="called after its mission had ended") as caught:
                fn()
            errors.append(caught.value)

    async with trio.open_nursery() as nursery, mission(Cores(1), config_file=False):
        nursery.start_soon(late)
    assert 2 == len(errors)


async def test_a_request_that_can_never_be_met() -> None:
    """It is an error at once, naming what is missing; the mission goes on."""
    async with mission(Cores(2), config_file=False):
        with pytest.raises(Infeasible, match=r"asks for Cores\(3\) can never run here .*local="):
            (look @ Cores(3))()
        with pytest.raises(Infeasible, match="no other worker can join"):
            (look @ Memory(1))()
        assert "CPU_Cores([0-1])" == (await (look @ Cores(2))())[0]


async def test_a_leaf_without_any_worker_is_an_error_at_once() -> None:
    async with mission(config_file=False):
        with pytest.raises(
            Infeasible,
            match=r"give the local worker what it needs: run\(\.\.\., local=Cores\(1\)\)",
        ):
            (look @ Cores(1))()


@pytest.mark.parametrize("local", [2, 0, "Cores(2)", [1]])
async def test_a_local_worker_of_nonsense(local: Any) -> None:
    """local= is a resource, also where it is false."""
    with pytest.raises(TypeError, match="give the resources of the local worker"):
        async with mission(local, config_file=False):
            pytest.fail("entered")


async def test_the_time_limit(autojump_clock: trio.testing.MockClock) -> None:
    """A leaf that exceeds its hard limit is ended; its awaiter gets TooSlowError."""
    async with mission(Cores(1), config_file=False):
        start = trio.current_time()
        with pytest.raises(trio.TooSlowError, match="never exceeded its hard time limit of 60 s"):
            await (never @ (Cores(1) & WTime(T="0:01:00")))()
        assert 60 == trio.current_time() - start


async def test_what_cannot_be_pickled_is_fine_locally() -> None:
    """Locks, lambdas, generators and open files go to the local worker and back as they are."""
    lock = threading.Lock()

    @delayed
    async def same(*things: Any) -> Any:
        return things

    with open(os.devnull) as file:  # noqa: ASYNC230, PTH123
        things = (lock, lambda: 1, file, (i for i in range(3)))
        async with mission(Cores(1), config_file=False):
            returned = await (same @ Cores(1))(*things)

    assert all(a is b for a, b in zip(things, returned, strict=True))


async def test_one_mission_inside_another() -> None:
    """A call belongs to the innermost mission around it, and the outer one goes on afterwards."""
    async with mission(Cores(1), config_file=False, name="outer"):
        outer = (look @ Cores(1))()
        async with mission(Cores([7]), config_file=False, name="inner"):
            inner = (look @ Cores(1))()
            assert "outer(local)" == (await outer)[1]
        assert "outer(local)" == (await (look @ Cores(1))())[1]

    assert ("CPU_Cores([7])", "inner(local)") == (await inner)[:2]


async def test_a_call_in_a_leaf_of_an_inner_mission() -> None:
    """A leaf of an inner mission can call for neither mission."""

    @delayed
    async def leaf() -> Any:
        return await look()

    async with mission(config_file=False), mission(Cores(1), config_file=False):
        with pytest.raises(NotInMission, match="look was called in a leaf"):
            await (leaf @ Cores(1))()


async def test_a_mission_inside_a_leaf() -> None:
    """A leaf may be a mission of its own; its branches are not leaves of the outer one."""

    @delayed
    async def leaf() -> Any:
        async with mission(Cores([9]), config_file=False, name="inner"):
            return await each(look(), (look @ Cores(1))())

    async with mission(Cores(1), config_file=False):
        branch, inner = await (leaf @ Cores(1))()

    assert ("Ø", "") == branch[:2]
    assert ("CPU_Cores([9])", "inner(local)") == inner[:2]


async def test_two_missions_side_by_side() -> None:
    """Two missions in one trio program keep to themselves."""
    seen: dict[str, set[str]] = {}

    async def one(name: str) -> None:
        async with mission(Cores(1), config_file=False, name=name):
            results = await each((look @ Cores(1))() for _ in range(10))
        seen[name] = {instance for _, instance, _ in results}

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, "a")
        nursery.start_soon(one, "b")

    assert {"a": {"a(local)"}, "b": {"b(local)"}} == seen


def test_two_missions_in_two_threads() -> None:
    """Two threads run missions at the same time."""
    barrier = threading.Barrier(2, timeout=120)
    seen: dict[str, set[str]] = {}

    async def main() -> set[str]:
        await trio.to_thread.run_sync(barrier.wait)  # both run
        results = await each((look @ Cores(1))() for _ in range(50))
        await trio.to_thread.run_sync(barrier.wait)
        return {instance for _, instance, _ in results}

    def thread(name: str) -> None:
        seen[name] = run(main, Cores(1), config_file=False, name=name)

    threads = [threading.Thread(target=thread, args=(name,)) for name in "ab"]
    for each_one in threads:
        each_one.start()
    for each_one in threads:
        each_one.join()

    assert {"a": {"a(local)"}, "b": {"b(local)"}} == seen


def test_one_mission_after_another() -> None:
    """A process runs any number of missions; each numbers its cores again."""

    async def main() -> Any:
        return (await (look @ Cores(1))())[0]

    for core in (0, 1, 0):
        assert f"CPU_Cores([{core}])" == run(main, Cores([core]), config_file=False)


def test_awaiting_after_the_mission() -> None:
    """A value can be awaited anywhere once it is there; operations on it too."""
    kept: list[Delayed[Any]] = []

    async def main() -> None:
        kept.append((look @ Cores(1))())
        await kept[0]

    run(main, Cores(1), config_file=False)

    async def later() -> Any:
        return await kept[0], await kept[0][0]

    value, res = trio.run(later)
    assert "CPU_Cores([0])" == value[0] == res


def test_awaiting_what_was_cancelled_with_its_mission() -> None:
    """A value that its mission left undone is a clear error afterwards, never a hang."""
    kept: list[Delayed[Any]] = []

    async def main() -> None:
        kept.extend([(never @ Cores(1))(), (never @ Cores(1))(), never()])
        await trio.testing.wait_all_tasks_blocked()
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        run(main, Cores(1), config_file=False)

    async def later(value: Delayed[Any]) -> Any:
        return await value

    for value in kept:
        with pytest.raises(TaskCancelled, match="never was cancelled"):
            trio.run(later, value)


async def test_another_thread_awaits_finished_values_only() -> None:
    """An unfinished value can only be awaited where its mission runs; a finished one, anywhere."""

    async def wait(value: Delayed[Any]) -> Any:
        return await value

    release = trio.Event()

    @delayed
    async def released() -> int:
        await release.wait()
        return 3

    async with mission(config_file=False):
        value = released()
        with pytest.raises(NotInMission, match="belongs to a mission of another thread"):
            await trio.to_thread.run_sync(trio.run, wait, value)
        release.set()
        assert 3 == await value
        assert 3 == await trio.to_thread.run_sync(trio.run, wait, value)


async def test_leaving_waits_for_everything(autojump_clock: trio.testing.MockClock) -> None:
    """Leaving the block normally waits for all tasks, also those that other tasks start."""
    ended = []

    @delayed
    async def leaf(i: int) -> None:
        await trio.sleep(1)
        ended.append(i)

    @delayed
    async def branch() -> None:
        await trio.sleep(1)
        (leaf @ Cores(1))(2)

    async with mission(Cores(1), config_file=False):
        (leaf @ Cores(1))(1)
        branch()

    assert [1, 2] == ended
