"""Programs whose processes are hard to find or to end, and a search for what is left of them."""

# Other processes cannot set an event here: one has to look. Paths are on a local disk.

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import trio

from grain.worker.processes.fork_server_client import ForkServerClient
from grain_testkit.local_processes import alive, children_of, process_folders

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


def marked(marker: str) -> list[int]:
    """Return the processes with this argument (a zombie has no arguments)."""
    pids = []
    for process in process_folders():
        with suppress(OSError):  # it has ended
            if marker.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                pids.append(int(process.name))
    return pids


async def wait_for_count(count: int, marker: str) -> None:
    with trio.fail_after(60):
        while len(marked(marker)) != count:
            await trio.sleep(0.01)


async def wait_until_grown(trees: int, marker: str, others: int = 0) -> None:
    """Wait until these trees are complete, and as many other processes have the marker.

    Four processes are not a tree yet: a process that is to become a daemon has a parent for a
    moment.
    """
    with trio.fail_after(60):
        while (len(marked(marker)), len(asleep(marker))) != (4 * trees + others, 3 * trees):
            await trio.sleep(0.01)


def asleep(marker: str) -> list[int]:
    """Return the marked processes that have become `sleep`."""
    return [pid for pid in marked(marker) if words_of(pid)[:2] == [b"sleep", marker.encode()]]


def words_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def descendants_named(name: str, top: int | None = None) -> list[int]:
    """Return the descendants of a process, by default of this one, with this name; no zombies."""
    pids = []
    waiting = [top or os.getpid()]
    while waiting:
        pid = waiting.pop()
        waiting += children_of(pid)
        with suppress(OSError):  # gone meanwhile
            if Path(f"/proc/{pid}/comm").read_text().strip() == name and alive(pid):
                pids.append(pid)
    return pids


def own_fork_server() -> int:
    """Return the fork server of this trio run: one of an earlier run may not have ended yet."""
    pid = ForkServerClient.of_this_run().pid
    assert pid is not None
    return pid


def own_supervisors() -> list[int]:
    """Return the supervisors of this trio run."""
    return descendants_named("grain-supervise", own_fork_server())


async def wait_until_gone(pids: list[int]) -> None:
    with trio.fail_after(60):
        while any(alive(pid) for pid in pids):
            await trio.sleep(0.01)
