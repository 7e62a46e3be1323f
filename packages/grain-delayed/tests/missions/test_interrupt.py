"""Ctrl-C during a mission, with real processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grain_testkit.local_processes import wait_until_idle

PROGRAM = """
import os, signal, sys, trio
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
from grain.combine import open_waitgroup
from grain.delayed import delayed, each, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def external(i):
    {call}

@delayed
async def branch():
    await each((external @ Cores(1))(i) for i in range(4))

async def group():
    async with open_waitgroup() as wg:
        for i in range(4):
            wg.submit(Cores(1), external.__wrapped__, i)

async def main():
    {main}

run(main, Cores(2), config_file=False, name="me")
"""
CALLS = {
    "trio": 'await trio.run_process(["sleep", "1000.5"])',
    "grain": 'await run_external(["sleep", "1000.5"], grace=1000)',
}
MAINS = {
    "awaited": "await branch()",
    "beside": "branch(); await trio.sleep_forever()",
    "waitgroup": "await group()",
}


def sleeps_below(parent: int) -> list[int]:
    """The processes called sleep that descend from a process."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    pids, family = [], {parent}
    for _ in range(5):
        family |= {int(pid) for pid, ppid, _ in rows if int(ppid) in family}
    pids = [int(pid) for pid, _, name in rows if int(pid) in family and name == "sleep"]
    return sorted(pids)


def wait_for_sleeps(parent: int, count: int) -> list[int]:
    deadline = time.monotonic() + 120
    while len(pids := sleeps_below(parent)) < count:
        assert time.monotonic() < deadline, "the external programs did not start"
        time.sleep(0.05)
    return pids


def alive(pid: int) -> bool:
    """Return True if that sleep is alive: the same process, not another with its number."""
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    except OSError:
        return False


@pytest.mark.parametrize("main", MAINS)
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_cancels_everything_and_leaves_no_process(
    call: str, main: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(call=CALLS[call], main=MAINS[main]))
    # A group of its own, as a terminal sends Ctrl-C to; the test's own process is not meant.
    mission = subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        children = wait_for_sleeps(mission.pid, 2)
        # Amid the lines that start them, an interrupt may drop a coroutine, of which Python warns.
        wait_until_idle(mission.pid)
        mission.send_signal(signal.SIGINT)
        # Less than the programs would be given if they did not obey.
        out, err = mission.communicate(timeout=300)
    finally:
        mission.kill()

    assert -signal.SIGINT == mission.returncode
    assert [] == [pid for pid in children if alive(pid)]
    assert "" == out
    # On a busy machine there is a line of progress, one on programs that take a moment to end, and
    # one on the report.
    slow = r"\d+ done, \d+ running|stopping \d programs? \(|Where the time went"
    lines = [line for line in err.splitlines() if not re.match(slow, line)]
    assert [
        "Config file is disabled, using default settings.",
        "worker me(local) starts cleaning up",
        "worker me(local) clear",
    ] == lines[:3]
    assert "interrupted: 0 tasks ended, 2 stopped, 2 not begun; nothing is left running" == lines[3]
    assert re.fullmatch(r"Time elapsed for all jobs: \d+\.\d{3}s", lines[4])
    assert [] == lines[5:]
