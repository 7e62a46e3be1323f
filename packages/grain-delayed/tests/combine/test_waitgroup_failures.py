"""The effects of a failure, an exception and a cancellation on a waitgroup."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio

from grain.combine import exec1, open_waitgroup
from grain.delayed import Mission, delayed, mission
from grain.head import TaskCancelled
from grain.resource import Cores
from grain_testkit.hanging import Hanging

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup


async def fail(text: str, seconds: float = 0) -> None:
    await trio.sleep(seconds)
    raise ValueError(text)


def notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def nothing_left(active: Mission) -> bool:
    now = active.executor.statistics()
    return (0, 0) == (now.queued, now.running)


@pytest.mark.parametrize("branch", [False, True])
async def test_the_first_failure_cancels_the_others_and_is_raised_as_it_is(
    autojump_clock: trio.testing.MockClock, branch: bool
) -> None:
    log = Hanging()
    async with mission(Cores(3), config_file=False) as active:
        with pytest.raises(ValueError, match="^first$") as caught:
            async with open_waitgroup() as wg:
                for i in range(4):
                    wg.submit(Cores(1), log.hang, i)
                wg.start_subtask(log.hang, 9)
                if branch:
                    wg.start_subtask(fail, "first", 5)
                else:
                    wg.submit(Cores(0), fail, "first", 5)
                await trio.sleep_forever()
        assert 6 == trio.current_time()
        assert [0, 1, 2, 9] == sorted(log.began) == sorted(log.ended)
        assert nothing_left(active)
        assert [] == notes(caught.value)
        assert caught.value.__cause__ is None
        assert 2 == await exec1(Cores(3), two)


async def two() -> int:
    return 2


async def test_while_the_end_waits(autojump_clock: trio.testing.MockClock) -> None:
    """The end of the block is interrupted just as its inside."""
    log = Hanging()
    async with mission(Cores(2), config_file=False):
        with pytest.raises(ValueError, match="first"):
            async with open_waitgroup() as wg:
                wg.submit(Cores(1), log.hang, 1)
                wg.submit(Cores(1), fail, "first", 1)
        assert [1] == log.ended


async def test_one_failure_is_raised_with_a_note_that_names_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with mission(Cores(9), config_file=False):
        with pytest.raises(ValueError, match=r"^[0-7]\b") as caught:
            async with open_waitgroup() as wg:
                for i in range(8):
                    wg.submit(Cores(1), fail, str(i), 1)
        note = "".join(notes(caught.value))
        assert note.startswith("Besides, failed in the same waitgroup: ValueError('")
        assert 5 == note.count("ValueError")
        assert note.endswith("; and 2 more")


async def test_awaited_in_the_block(autojump_clock: trio.testing.MockClock) -> None:
    """A failure that the block's own await raised comes once."""
    async with mission(Cores(2), config_file=False):
        with pytest.raises(ValueError, match="text") as caught:
            async with open_waitgroup() as wg:
                await wg.submit(Cores(1), fail, "text", 1)
        assert [] == notes(caught.value)
        with pytest.raises(ValueError, match="text"):
            async with open_waitgroup() as wg, trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                await wg.submit(Cores(1), fail, "text", 1)


async def test_caught_in_the_block(autojump_clock: trio.testing.MockClock) -> None:
    """A failed group stays failed, also if the block caught what it awaited."""
    async with mission(Cores(2), config_file=False):
        with pytest.raises(ValueError, match="text"):
            async with open_waitgroup() as wg:
                try:
                    await wg.submit(Cores(1), fail, "text", 1)
                except ValueError:
                    pass


async def test_by_an_exception(autojump_clock: trio.testing.MockClock) -> None:
    """Leaving the block by an exception cancels what it started, and nothing else."""
    log = Hanging()
    async with mission(Cores(2), config_file=False):
        other_ = delayed(two)()
        async with open_waitgroup() as outer:
            outer.submit(Cores(1), trio.sleep, 7)
            with pytest.raises(KeyError, match="stop"):
                async with open_waitgroup() as wg:
                    wg.submit(Cores(1), log.hang, 1)
                    wg.submit(Cores(1), log.hang, 2)
                    wg.start_subtask(log.hang, 3)
                    await trio.sleep(1)
                    raise KeyError("stop")
            assert 2 == trio.current_time()
            assert [1, 3] == sorted(log.began) == sorted(log.ended)
        assert 7 == trio.current_time()
        assert 2 == await other_


async def test_an_exception_because_of_a_failure(autojump_clock: trio.testing.MockClock) -> None:
    """An exception of a block that a failure has cancelled is raised with that failure."""
    async with mission(Cores(2), config_file=False):
        with pytest.raises(ValueError, match="first") as caught:
            async with open_waitgroup() as wg:
                wg.submit(Cores(1), fail, "first", 1)
                try:
                    await trio.sleep_forever()
                finally:
                    raise KeyError("cleaning up")
        assert ["Besides, the block raised: KeyError('cleaning up')"] == notes(caught.value)


async def test_a_failure_because_of_an_exception(autojump_clock: trio.testing.MockClock) -> None:
    """A branch's failure while the block's exception cancels it does not replace that exception."""

    async def untidy() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cleaning up")

    async with mission(Cores(2), config_file=False):
        with pytest.raises(KeyError, match="stop") as caught:
            async with open_waitgroup() as wg:
                wg.start_subtask(untidy)
                await trio.testing.wait_all_tasks_blocked()
                raise KeyError("stop")
        assert 1 == len(notes(caught.value))
        assert "ValueError('cleaning up')" in notes(caught.value)[0]


async def test_an_interrupt_comes_first(autojump_clock: trio.testing.MockClock) -> None:
    """Ctrl-C is raised, whatever failed before."""
    async with mission(Cores(2), config_file=False):
        with pytest.raises(KeyboardInterrupt):
            async with open_waitgroup() as wg:
                wg.submit(Cores(1), fail, "text", 1)
                try:
                    await trio.sleep_forever()
                finally:
                    raise KeyboardInterrupt


async def test_a_cancelled_block_cancels_its_jobs_and_waits_for_their_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = Hanging()
    async with mission(Cores(2), config_file=False) as active:
        with trio.move_on_after(5) as scope:
            async with open_waitgroup() as wg:
                for i in range(3):
                    wg.submit(Cores(1), log.hang, i)
                wg.start_subtask(log.hang, 9)
        assert scope.cancelled_caught
        assert 6 == trio.current_time()
        assert [0, 1, 9] == sorted(log.began) == sorted(log.ended)
        assert nothing_left(active)


async def test_a_failure_and_a_cancellation(autojump_clock: trio.testing.MockClock) -> None:
    """A failure that meets a cancellation from outside is raised, by itself."""
    log = Hanging()
    async with mission(Cores(2), config_file=False):
        with pytest.raises(ValueError, match="text"), trio.CancelScope() as scope:
            async with open_waitgroup() as wg:
                wg.start_subtask(log.hang, 9)
                failing_ = wg.submit(Cores(1), fail, "text", 1)
                while not repr(failing_).startswith("<Delayed fail: raised"):
                    with trio.CancelScope(shield=True):
                        await trio.sleep(0.1)
                scope.cancel()


async def test_a_failure_because_of_a_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An exception of a branch that is cancelled from outside is not lost."""

    async def untidy() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            raise ValueError("cleaning up")

    async with mission(Cores(2), config_file=False):
        with pytest.raises(ValueError, match="cleaning up"), trio.move_on_after(1):
            async with open_waitgroup() as wg:
                wg.start_subtask(trio.sleep_forever)
                wg.start_subtask(untidy)


@pytest.mark.parametrize("seconds", [0, 1])
async def test_the_mission_is_cancelled(
    autojump_clock: trio.testing.MockClock, seconds: int
) -> None:
    """A group does not keep a mission from ending that is cancelled as a whole."""
    log = Hanging()
    with trio.move_on_after(seconds) as scope:
        async with mission(Cores(2), config_file=False), open_waitgroup() as wg:
            for i in range(3):
                wg.submit(Cores(1), log.hang, i)
            wg.start_subtask(log.hang, 9)
    assert scope.cancelled_caught
    assert sorted(log.began) == sorted(log.ended)


async def test_the_mission_is_cancelled_while_a_group_is_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Also if the group is waiting for its cancelled jobs at that time."""
    log = Hanging()
    with trio.move_on_after(1.5) as scope:
        async with mission(Cores(2), config_file=False):
            with pytest.raises(KeyError):
                async with open_waitgroup() as wg:
                    wg.submit(Cores(1), log.hang, 1)
                    await trio.sleep(1)
                    raise KeyError("stop")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert [1] == log.ended


async def test_a_group_that_outlives_its_mission(autojump_clock: trio.testing.MockClock) -> None:
    """Its jobs are cancelled with the mission, and the group says so."""

    async def group(task_status: trio.TaskStatus[None]) -> None:
        with pytest.raises(TaskCancelled):
            async with open_waitgroup() as wg:
                wg.submit(Cores(1), trio.sleep, 100)
                task_status.started()

    async with trio.open_nursery() as nursery:
        with pytest.raises(KeyError):
            async with mission(Cores(2), config_file=False):
                await nursery.start(group)
                raise KeyError("stop")
    assert 0 == trio.current_time()


async def test_a_failure_of_an_inner_group_reaches_the_top_by_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def level(n: int) -> Any:
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), trio.sleep, 100)
            if n:
                wg.start_subtask(level, n - 1)
            else:
                wg.submit(Cores(1), fail, "deep", 1)

    with pytest.raises(ValueError, match="^deep$"):
        async with mission(Cores(9), config_file=False):
            await level(4)
    assert 1 == trio.current_time()


async def test_a_real_group(autojump_clock: trio.testing.MockClock) -> None:
    """A job that raises a group of several raises that group."""

    async def several() -> None:
        raise ExceptionGroup("both", [ValueError("a"), KeyError("b")])

    async with mission(Cores(1), config_file=False):
        with pytest.raises(ExceptionGroup, match="both"):
            await exec1(Cores(1), several)
