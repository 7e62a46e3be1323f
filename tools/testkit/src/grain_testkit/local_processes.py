"""Find processes of this machine, and read the files that they write."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import trio


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def descendants_of(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):  # gone meanwhile
                found += map(int, path.read_text().split())
    return found


def descendants() -> list[int]:
    """All processes below this one."""
    return descendants_of(os.getpid())[1:]


async def there(path: Path) -> None:
    """Until there is such a file. Trio's clock may be a test's own."""
    with trio.fail_after(120):
        while not path.exists():
            await trio.to_thread.run_sync(time.sleep, 0.01)


async def written(path: Path) -> int:
    """The pid that a program has written. Trio's clock may be a test's own."""
    with trio.fail_after(120):
        while not (path.exists() and path.read_text().strip()):
            await trio.to_thread.run_sync(time.sleep, 0.01)
    return int(path.read_text())
