"""The CPUs of one machine that workers have taken, so that no two take the same.

No process hands out the CPUs of a machine, and workers come and go, also by SIGKILL. So a CPU is
taken by a lock on one byte of a file, the byte of its number: the kernel keeps such locks, and
drops them with the process. The file is empty, is never written to, and serves all users.

Locks are of the open file, not of the process (F_OFD_SETLK, see fcntl(2)): two missions of one
process see each other's, and to close another descriptor of the file drops none.

Where there is no such file, or a lock is refused for another reason, every CPU counts as free:
programs then share CPUs, as they would without Grain.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARIABLE = "GRAIN_CPU_LOCKS"
"""The environment variable with another path of the file; empty for none."""

_FILE = "/dev/shm/grain-cpus"  # noqa: S108 - see `_opened`
_LOCK = struct.Struct("hhqqi0q")  # struct flock: type, whence, start, length, pid


class CpuLocks:
    """The CPUs that this object has taken, until `close`."""

    def __init__(self) -> None:
        self._fd = _opened(os.environ.get(VARIABLE, _FILE))

    def take(self, cpu: int) -> bool:
        """Take a CPU; return False if another worker has it."""
        if self._fd < 0:
            return True
        lock = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, cpu, 1, 0)
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, lock)
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: another has it
            return False
        except OSError:
            pass  # no locks here
        return True

    def is_taken(self, cpu: int) -> bool:
        """Return True if another worker has a CPU."""
        if self._fd < 0:
            return False
        lock = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, cpu, 1, 0)
        try:
            answer: bytes = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, lock)
        except OSError:
            return False
        return bool(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)

    def close(self) -> None:
        """Give back what was taken."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def taken_cpus(cpus: Iterable[int]) -> set[int]:
    """Return those of some CPUs that workers of this machine have taken."""
    locks = CpuLocks()
    try:
        return {cpu for cpu in cpus if locks.is_taken(cpu)}
    finally:
        locks.close()


@contextmanager
def taking_cpus(cpus: Iterable[int]) -> Iterator[None]:
    """Take CPUs during the block, those of them that are free, so that others choose others."""
    locks = CpuLocks()
    try:
        for cpu in cpus:
            locks.take(cpu)
        yield
    finally:
        locks.close()


def _opened(path: str) -> int:
    """Open the file of locks, and make it if it is missing; return -1 if there can be none.

    It stands in a directory where every user may make files. So it is opened by no link, is a plain
    file, and is neither read nor written: its maker can do no more with it than lock CPUs.
    """
    if not path:
        return -1
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        try:
            fd = os.open(path, flags)
        except FileNotFoundError:
            with suppress(FileExistsError):  # by another process, just now
                fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
                os.fchmod(fd, 0o666)  # for all users, whatever the umask
                return fd
            fd = os.open(path, flags)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
    return -1
