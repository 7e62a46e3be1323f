"""Waitgroups and limiters on a scheduler that missions share, where messages travel."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from grain.combine import exec1, open_waitgroup
from grain.delayed import Mission, delayed, mission
from grain.remote_exer import HostingExecutor
from grain.resource import Cores
from grain.util import QueueLimiter, as_completed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


async def double(x: int) -> int:
    return 2 * x


async def hang() -> None:
    import trio

    await trio.sleep_forever()


async def fail() -> None:
    raise ValueError("failed")


@asynccontextmanager
async def shared(tmp_path: Path) -> AsyncGenerator[Mission]:
    """A mission without a worker of its own."""
    tmp_path.chmod(0o700)
    address = f"edge://{tmp_path}/meeting"
    file = tmp_path / "grain.toml"
    file.write_text(f'address = "{address}"\n')
    async with (
        HostingExecutor(Cores(2), address=address, name="cluster"),
        mission(config_file=str(file), progress=False) as active,
    ):
        yield active


def nothing_left(active: Mission) -> bool:
    now = active.executor.statistics()
    return (0, 0) == (now.queued, now.running)


async def until_running(active: Mission, jobs: int) -> None:
    with trio.fail_after(120):
        while active.executor.statistics().running < jobs:
            await trio.sleep(0.01)


async def test_jobs_on_a_shared_scheduler_have_results_as_local_ones(tmp_path: Path) -> None:
    async with shared(tmp_path):
        async with open_waitgroup() as wg, QueueLimiter(5) as ql:
            for i in range(20):
                await ql(wg.submit)(Cores(1), double, i)
        assert [2 * i for i in range(20)] == wg.results
        assert 14 == await exec1(Cores(2), double, 7)
        leaf = delayed(double) @ Cores(1)
        rs = [leaf(i) for i in range(10)]
        assert list(range(0, 20, 2)) == sorted([await r_ async for r_ in as_completed(rs)])


async def test_the_first_failure_cancels_jobs_elsewhere_and_is_raised_when_they_have_ended(
    tmp_path: Path,
) -> None:
    async with shared(tmp_path) as active:
        with pytest.raises(ValueError, match="failed"):
            async with open_waitgroup() as wg:
                for _ in range(5):
                    wg.submit(Cores(1), hang)
                await until_running(active, 2)
                wg.start_subtask(fail)
        assert nothing_left(active)
        assert 2 == await exec1(Cores(2), double, 1)


async def test_the_mission_is_cancelled(tmp_path: Path) -> None:
    """A group does not keep a cancelled mission from ending."""
    async with shared(tmp_path):
        with trio.CancelScope() as scope:
            async with shared_again(tmp_path) as active, open_waitgroup() as wg:
                for _ in range(3):
                    wg.submit(Cores(1), hang)
                await until_running(active, 2)
                scope.cancel()
        assert scope.cancelled_caught
        assert 2 == await exec1(Cores(2), double, 1)


@asynccontextmanager
async def shared_again(tmp_path: Path) -> AsyncGenerator[Mission]:
    """Another mission on the same scheduler."""
    async with mission(config_file=str(tmp_path / "grain.toml"), progress=False) as active:
        yield active
