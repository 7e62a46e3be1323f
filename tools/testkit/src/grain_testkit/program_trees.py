"""Programs whose processes are hard to find or to end, and a search for what is left of them."""

# Other processes cannot set an event here: one has to look. Paths are on a local disk.

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import trio

from grain_testkit.local_processes import alive as running

PYTHON = sys.executable

# A main process and three descendants that are hard to find or to end, all deaf to SIGTERM where
# that is said, and recognisable by the marker in their arguments.
TREE = """
import os, signal, sys, time
marker = sys.argv[1]
def sleep():
    os.execve("/bin/sleep", ["sleep", marker], {})   # its environment is empty
if os.fork() == 0:                                   # another session
    os.setsid()
    sleep()
if os.fork() == 0:                                   # a daemon: another session, an orphan
    os.setsid()
    if os.fork() == 0:
        sleep()
    os._exit(0)
os.wait()
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)    # inherited through exec
if os.fork() == 0:
    sleep()
if "leave" in sys.argv:
    sys.exit(0)
while True:
    time.sleep(1000)
"""


def alive(marker: str) -> list[int]:
    """The processes with this argument (a zombie has no arguments)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(path.parent.name))
    return found


async def until(count: int, marker: str) -> None:
    with trio.fail_after(60):
        while len(alive(marker)) != count:
            await trio.sleep(0.01)


async def grown(trees: int, marker: str, others: int = 0) -> None:
    """Until these trees are complete, with as many others that have the marker.

    Four processes are no tree yet: one that is to become a daemon has a parent for a moment.
    """
    with trio.fail_after(60):
        while (len(alive(marker)), len(asleep(marker))) != (4 * trees + others, 3 * trees):
            await trio.sleep(0.01)


def asleep(marker: str) -> list[int]:
    """Those that have become what they were to become."""
    return [pid for pid in alive(marker) if words_of(pid)[:2] == [b"sleep", marker.encode()]]


def words_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def named(name: str, top: int | None = None) -> list[int]:
    """The descendants of a process, by default of this one, that bear a name."""
    found = []
    waiting = [top or os.getpid()]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):  # gone meanwhile
            for path in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += map(int, path.read_text().split())
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


async def gone(pids: list[int]) -> None:
    with trio.fail_after(60):
        while any(running(pid) for pid in pids):
            await trio.sleep(0.01)
