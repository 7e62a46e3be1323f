"""Waitgroups whose jobs run on Gnaw's workers, as real processes."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.combine import exec1, open_waitgroup
from grain.delayed import mission
from grain.resource import Cores
from grain.util import QueueLimiter
from grain.worker.external import run_external
from grain_testkit.local_processes import alive
from grain_testkit.programs import start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


async def double(x: int) -> int:
    return 2 * x


async def note_and_sleep(path: str) -> None:
    """A program that never ends, and notes its process."""
    await run_external(["sh", "-c", f"echo $$ >> '{path}'; exec sleep 1000.25"])


async def fail() -> None:
    raise ValueError("far away")


def noted(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


@pytest.fixture
def config(tmp_path: Path) -> Iterator[str]:
    """A configuration whose scheduler and worker, of two cores, are there."""
    (tmp_path / "edge").mkdir(mode=0o700)
    meeting = tmp_path / "edge" / "meeting"
    file = tmp_path / "grain.toml"
    file.write_text(f'address = "edge://{meeting}"\n')
    services = [
        ["grain.head", "--address", f"edge://{meeting}", "--grace", "20"],
        ["grain.worker", "--url", f"edge://{meeting}", "--res", '{"Cores": 2}', "--name", "far"],
    ]
    with ExitStack() as stack:
        for words in services:
            process = start("-m", *words, stderr=subprocess.DEVNULL)
            stack.callback(process.wait, 120)
            stack.callback(process.terminate)
        deadline = time.monotonic() + 180
        while not meeting.exists():  # else the mission starts a scheduler that stays
            assert time.monotonic() < deadline, "no scheduler is there"
            time.sleep(0.02)
        yield str(file)


async def test_jobs_on_a_worker_elsewhere(config: str, tmp_path: Path) -> None:
    """Results in order from nested groups; who leaves one leaves no program on the worker."""
    notes = tmp_path / "notes"

    async def branch(n: int) -> list[Any]:
        async with open_waitgroup() as wg:
            for i in range(n):
                wg.submit(Cores(1), double, i)
        return wg.results

    async def until_noted(count: int) -> None:
        while len(noted(notes)) < count:
            await trio.sleep(0.02)

    async def left_by_a_job() -> None:
        async with open_waitgroup() as wg:
            wg.submit(Cores(1), note_and_sleep, str(notes))
            await until_noted(1)
            wg.submit(Cores(1), fail)

    async def left_by_its_block() -> None:
        async with open_waitgroup() as wg:
            for _ in range(5):  # two run, three wait
                wg.submit(Cores(1), note_and_sleep, str(notes))
            await until_noted(3)
            raise KeyError

    with trio.fail_after(200):
        async with mission(config_file=config, progress=False):
            async with open_waitgroup() as wg:
                wg.start_subtask(branch, 3)
                wg.submit(Cores(2), double, 10)
                wg.start_subtask(branch, 1)
            assert [[0, 2, 4], 20, [0]] == wg.results

            with pytest.raises(ValueError, match="far away"):
                await left_by_a_job()
            assert [] == [pid for pid in noted(notes) if alive(pid)]

            with pytest.raises(KeyError):
                await left_by_its_block()
            assert 3 == len(noted(notes))
            assert [] == [pid for pid in noted(notes) if alive(pid)]

            with trio.CancelScope() as scope:
                async with open_waitgroup() as wg:
                    wg.submit(Cores(1), note_and_sleep, str(notes))
                    await until_noted(4)
                    scope.cancel()
            assert [] == [pid for pid in noted(notes) if alive(pid)]

            assert 14 == await exec1(Cores(2), double, 7)
            async with open_waitgroup() as wg, QueueLimiter(5) as ql:
                for i in range(100):
                    await ql(wg.submit)(Cores(1), double, i)
            assert [2 * i for i in range(100)] == wg.results
