"""Helpers of tests: processes of this machine, and the files that they write."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator


def process_folders() -> Iterator[Path]:
    """Yield the folder of each process in /proc; what reads there raises OSError if it has ended.

    A pattern with a file of the process in it, such as ``[0-9]*/cmdline``, is not safe: pathlib
    looks whether that file is there, and of a process that ends at that moment it lets
    ProcessLookupError through.
    """
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            yield folder


def children_of(pid: int) -> list[int]:
    """Return the children of a process, of all of its threads; of one that ends, not all."""
    pids: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                pids += map(int, (thread / "children").read_text().split())
    return pids


def alive(pid: int) -> bool:
    """Return True if the process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def stop(pid: int) -> None:
    """Stop a process, and wait until it is stopped.

    SIGSTOP is not delivered yet when `os.kill` returns: the process may run on for a moment. Of two
    signals that are pending the kernel delivers the lower number first, so that a SIGTERM that
    follows at once ends the process instead.
    """
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 120
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < end, f"process {pid} does not stop"
        time.sleep(0.001)


def wait_until_idle(pid: int) -> None:
    """Wait until the main thread of a process has been waiting for a while, amid nothing."""
    end, looks = time.monotonic() + 120, 0
    while looks < 5:
        assert time.monotonic() < end, f"process {pid} is busy"
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        looks = looks + 1 if state == "S" else 0
        time.sleep(0.01)


def descendants_of(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    pids = [pid]
    for one in pids:
        pids += children_of(one)
    return pids


def descendants() -> list[int]:
    """Return all descendants of this process."""
    return descendants_of(os.getpid())[1:]


async def wait_for_file(path: Path) -> None:
    """Wait until a file exists, by the real clock: trio's may be a test's own."""
    with trio.fail_after(120):
        while not path.exists():
            await trio.to_thread.run_sync(time.sleep, 0.01)


async def read_pid(path: Path) -> int:
    """Wait for a program to write its pid, by the real clock, and return the pid."""
    with trio.fail_after(120):
        while not (path.exists() and path.read_text().strip()):
            await trio.to_thread.run_sync(time.sleep, 0.01)
    return int(path.read_text())


def processes_with(variable: str) -> dict[int, str]:
    """Return the processes whose environment has ``NAME=VALUE``, with their names.

    Those that start and end other programs are in sessions of their own, or children of nobody.
    """
    names = {}
    for process in process_folders():
        with suppress(OSError):  # it has ended, or is somebody else's
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                names[int(process.name)] = (process / "comm").read_text().strip()
    return names
