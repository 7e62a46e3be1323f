"""The books: what started, what ended and what was resolved, kept outside of Grain.

Programs and missions append a line each to a file that all of them share: with ``O_APPEND`` and one
`write`, lines of several processes do not mix, and a line that is there stays, whatever process is
killed next. Times are those of the monotonic clock, which all processes of a machine share.

Locks show what lines cannot. A run holds a lock of its task and one of each of its cores until the
last process that it has left behind is gone, since all of them inherit the lock. So a run that
begins can see whether another one of the same task still lives, and whether a core is in use that
Grain takes for free. The programs of a gang share the lock of their task, which its function on the
first worker had for itself for a moment.

This module is imported by every program of a task, so it needs little of the standard library.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib

BEGINS, ENDS = "mission begins", "mission ends"
"""The lines by which a mission enters its own beginning and end."""

QUEUE = "queue"
"""The name in the place of a mission's for jobs of the queue; the task is the number of the job."""

MEMBER = "member"
"""The line by which the program of a member of a gang enters its start."""

LINES = "lines"
"""The name of the file of lines, in the directory of the books."""


class Book:
    """The books in a directory, for writers.

    Args:
        folder: the directory; there must be a directory ``locks`` in it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def append(self, what: str, mission: str, task: int = -1, **more: object) -> None:
        """Append a line."""
        line = {"what": what, "mission": mission, "task": task, "at": time.monotonic(), **more}
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(f"{self._folder}/{LINES}", flags, 0o600)
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
        finally:
            os.close(fd)

    def hold(self, name: str, *, shared: bool = False) -> tuple[int, bool]:
        """Take a lock that lasts as long as any process has the descriptor.

        Args:
            name: of the lock.
            shared: others may share it.

        Returns:
            The descriptor, which child processes inherit, and True if the lock was free.
        """
        fd = os.open(f"{self._folder}/locks/{name}", os.O_RDWR | os.O_CREAT, 0o600)
        os.set_inheritable(fd, True)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return fd, False
        return fd, True

    def begin(
        self,
        mission: str,
        task: int,
        worker: str,
        cores: list[int],
        *,
        attempt: int = 0,
        gang: str = "",
        member: bool = False,
    ) -> tuple[str, list[int]]:
        """Enter the start of a run.

        Args:
            mission, task: whose run it is.
            worker: the name of the worker.
            cores: those of the run.
            attempt: of a job of the queue, from 1.
            gang: the workers of a run on several, separated by commas.
            member: this is the program of a member; the run has its own line.

        Returns:
            Its name, and the descriptors of its locks, which last as long as the process and its
            descendants, or until `release`.
        """
        run = f"{worker}.{os.getpid()}.{time.monotonic_ns()}"
        own, alone = self.hold(f"task-{mission}-{task}", shared=member)
        locks, taken = [own], []
        for core in cores:
            fd, free = self.hold(f"core-{worker}-{core}")
            locks.append(fd)
            if not free:
                taken.append(core)
        more: dict[str, object] = {"attempt": attempt} if attempt else {}
        if gang:
            more["gang"] = gang.split(",")
        what = MEMBER if member else "start"
        self.append(what, mission, task, run=run, worker=worker, alone=alone, taken=taken, **more)
        return run, locks

    @staticmethod
    def release(locks: list[int]) -> None:
        """Give back locks, also where another process has inherited them just now.

        Between fork and exec a process that is to become something else has all descriptors.
        """
        for fd in locks:
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


def expected(mission: str, task: int) -> int:
    """Return the result that a task ought to have."""
    return zlib.crc32(f"{mission} {task}".encode())


def read_lines(folder: str) -> list[dict[str, object]]:
    """Return the lines so far, without a half-written one."""
    try:
        with open(f"{folder}/{LINES}", "rb") as file:  # noqa: PTH123 - pathlib takes 10 ms
            data = file.read()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
