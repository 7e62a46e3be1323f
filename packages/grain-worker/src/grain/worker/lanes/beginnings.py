"""The calls that lanes have begun last, in memory that outlives the runner."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.worker.messages import Attempt

_ENTRY = struct.Struct("QQQ")  # the attempt of a lane, and the number of its call
_WORDS = 3  # in an entry
_LANES = 1024  # entries: a mission has so many lanes at most
_SIZE = _LANES * _ENTRY.size


class Beginnings:
    """The calls that the lanes of a runner have begun last.

    A runner that is killed cannot say which call it had, and ends of earlier calls may not be sent
    yet. So it notes each beginning in memory that it shares with its agent. The agent reads this
    memory when the runner is dead.

    Args:
        fd: as of `open_beginnings`; by default no other process sees them.
    """

    def __init__(self, fd: int = -1) -> None:
        try:
            memory = mmap.mmap(fd, _SIZE)
        except OSError:
            memory = mmap.mmap(-1, _SIZE)
        self._words = memoryview(memory).cast("Q")
        self._free = list(range(0, len(self._words), _WORDS))
        self._places: dict[Attempt, int] = {}

    def enter(self, lane: Attempt) -> memoryview:
        """Return the place of one item for the numbers of a lane's calls."""
        if not self._free:
            return no_place()
        at = self._places[lane] = self._free.pop()
        self._words[at], self._words[at + 1] = lane
        self._words[at + 2] = 0
        return self._words[at + 2 : at + 3]

    def leave(self, lane: Attempt) -> None:
        """Give back the place of a lane, if it had one.

        What it has noted stays until another lane comes: the agent may not know yet that it is
        over.
        """
        if lane in self._places:
            self._free.append(self._places.pop(lane))

    def read(self) -> Mapping[Attempt, int]:
        """Return the last call that each lane began; lanes that began none are left out."""
        entries = _ENTRY.iter_unpack(self._words)
        return {(epoch, number): call for epoch, number, call in entries if call}


def no_place() -> memoryview:
    """Return a place for the numbers of a lane's calls that no other process sees."""
    return memoryview(bytearray(8)).cast("Q")


def open_beginnings() -> int:
    """Return a descriptor by which two processes have `Beginnings` in common; close it.

    Where the system has no such memory, nothing is shared through it. Then the first call without
    an outcome is blamed for the death of a runner.
    """
    # A Python for an old C library lacks the call.
    with suppress(AttributeError, OSError):
        fd = os.memfd_create("grain-lanes", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, _SIZE)
        # Code of a user that made it shorter would kill the agent, which reads it.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return fd
    return os.open(os.devnull, os.O_RDONLY)
