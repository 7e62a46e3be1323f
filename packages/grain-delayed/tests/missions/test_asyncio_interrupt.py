"""Ctrl-C in asyncio programs, whichever library receives it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import trio

from grain.delayed.missions.asyncio_guest import hosted
from grain_testkit.asyncio_programs import failing, here
from grain_testkit.local_processes import processes_with, wait_until_idle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("steps", range(8))
def test_an_interrupt_that_trio_receives(steps: int) -> None:
    """It ends all missions of the loop, also one that just begins, and is what is raised."""

    async def late(steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        async with here():
            await asyncio.sleep(60)

    async def main() -> None:
        fails = trio.Event()
        async with here(), hosted(lambda: failing(KeyboardInterrupt(), fails)):
            fails.set()
            other = asyncio.create_task(late(steps))
            other.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.wait([other])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main(), debug=True)


@pytest.mark.parametrize("steps", [0, 1, 5, 20])
def test_an_interrupt_that_trio_receives_when_its_last_mission_ends_well(steps: int) -> None:
    """The loop's own run of a program does not receive it: trio has the handler."""

    def interrupt_after(steps: int) -> None:
        if steps:
            asyncio.get_running_loop().call_soon(interrupt_after, steps - 1)
        else:
            sent.set_result(None)
            signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        async with here():
            asyncio.get_running_loop().call_soon(interrupt_after, steps)
        await sent

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = asyncio.new_event_loop()
    sent = loop.create_future()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(main())
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()


PROGRAM = """
import asyncio, signal, trio
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
from grain.delayed import delayed, mission
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def external():
    print("begins", flush=True)
    await run_external(["sleep", "1000.5"])

async def main():
    async with mission(Cores(2), config_file=False):
        r_ = (external @ Cores(1))()
        {wait}

asyncio.run(main())
"""


def processes_of(folder: Path) -> dict[int, str]:
    """The processes of the program and of its tasks, by their environment; and their names."""
    return processes_with(f"GRAIN_TESTED_IN={folder}")


@pytest.mark.parametrize("wait", ["await r_", "await asyncio.sleep(1000)", "pass"])
def test_ctrl_c_in_an_asyncio_program_leaves_no_process_and_shows_no_trio(
    wait: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(wait=wait))
    child = subprocess.Popen(
        [sys.executable, "-W", "error", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GRAIN_TESTED_IN": str(tmp_path)},
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        assert "begins\n" == child.stdout.readline()
        deadline = time.monotonic() + 300
        while "sleep" not in processes_of(tmp_path).values() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "sleep" in processes_of(tmp_path).values()
        wait_until_idle(child.pid)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    finally:
        child.kill()

    assert "" == out
    assert -signal.SIGINT == child.returncode
    assert err.endswith(("KeyboardInterrupt\n", "KeyboardInterrupt: \n"))
    assert "worker" in err
    assert "\n1 stopped" in err
    assert "ExceptionGroup" not in err
    assert "grain/" not in err
    assert {} == processes_of(tmp_path)
