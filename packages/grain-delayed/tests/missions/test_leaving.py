"""Leaving a mission by an exception: everything is cancelled, and gone before it is left."""

from __future__ import annotations

import pytest
import trio

from grain.delayed import delayed, each, mission, run
from grain.resource import Cores
from grain_testkit.hanging import Hanging


class Log(Hanging):
    """Its tasklet as a delayed method."""

    call = delayed(Hanging.hang)


async def test_by_an_exception(autojump_clock: trio.testing.MockClock) -> None:
    """Running tasks are cancelled and waited for; queued ones never begin."""
    log = Log()

    with pytest.raises(ValueError, match="stop"):
        async with mission(Cores(2), config_file=False):
            for i in range(5):
                (log.call @ Cores(1))(i)
            log.call(9)
            await trio.testing.wait_all_tasks_blocked()
            raise ValueError("stop")

    assert [0, 1, 9] == sorted(log.began) == sorted(log.ended)


async def test_a_cancelled_mission_cancels_its_tasks_and_waits_for_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = Log()

    with trio.move_on_after(5) as scope:
        async with mission(Cores(2), config_file=False):
            await each((log.call @ Cores(1))(i) for i in range(5))

    assert scope.cancelled_caught
    assert [0, 1] == sorted(log.began) == sorted(log.ended)


async def test_by_the_failure_of_an_awaited_task(autojump_clock: trio.testing.MockClock) -> None:
    """An exception that the body does not catch ends the rest."""
    log = Log()

    @delayed
    async def fail() -> None:
        await trio.sleep(3)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        async with mission(Cores(2), config_file=False):
            await each((log.call @ Cores(1))(1), fail())

    assert [1] == log.began == log.ended


async def test_the_failure_of_a_branch_does_not_end_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A branch that fails concerns who awaits it; its siblings go on."""

    @delayed
    async def fail() -> None:
        raise ValueError("broken")

    @delayed
    async def succeed() -> int:
        await trio.sleep(5)
        return 1

    async with mission(Cores(1), config_file=False):
        other, leaf = succeed(), (succeed @ Cores(1))()
        with pytest.raises(ValueError, match="broken"):
            await fail()

        assert [1, 1] == await each(other, leaf)


def test_one_root_ends_the_others() -> None:
    """If one of several roots fails, the others are cancelled."""
    ended = []

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)

    async def fail() -> None:
        await trio.testing.wait_all_tasks_blocked()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run([wait, fail, wait], config_file=False)
    assert [1, 1] == ended


async def test_the_worker_is_gone_in_time(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker counts as clear only when its last run has cleaned up."""
    log = Log()

    with trio.move_on_after(5):
        async with mission(Cores(2), config_file=False, name="me"):
            await (log.call @ Cores(1))(1)
    lines = capsys.readouterr().err.splitlines()

    assert 6 == trio.current_time()
    assert ["worker me(local) starts cleaning up", "worker me(local) clear"] == lines[1:3]
