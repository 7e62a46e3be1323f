"""Memory of large payloads: `allocate` and huge pages to receive them, `Pieces` to send them.

Huge pages are here for their gain: to fetch memory from the system in pages of 4 KiB takes longer
than to copy what goes in. Medians on two cores, of runs that took turns, with and without them:
100 MB one way over a Unix socket, 2680 and 1010 MB/s; the same over TLS, CPU time of the receiver,
65 and 115 ms; `bytes` of 100 MB that are loaded from it, 29 and 151 ms.

Reads of a size that adapts, and reads into two buffers at once, gained less than 15 % of the time
of both processes and were removed. Shared memory (memfd_create(2)), of which only a descriptor
travels, was tried for payloads of 1 MiB and more, and rejected: for 100 MB through the scheduler,
all processes together took 0.63 of the CPU time, but the call took 1.3 to 1.7 times as long, as
such memory has no huge pages and is filled before the next process can begin to read.
"""

from __future__ import annotations

import functools
import mmap
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Iterable

Buffer = bytes | bytearray | memoryview
"""Bytes in memory."""

LARGE = 4 * 1024 * 1024
"""Bytes from which on a payload gets memory of its own. Huge pages come in units of 2 MiB."""

FOREIGN = 32 * 1024 * 1024
"""Bytes from which on memory of another allocator can be in huge pages: from this size on malloc of
glibc always has it from the system, and gives it back at once (M_MMAP_THRESHOLD in mallopt(3)), so
the advice holds for nothing else."""

KEPT = 16 * 1024 * 1024
"""Bytes that a process keeps of what it has freed: enough for payloads of less than `LARGE`."""


def allocate(size: int) -> memoryview:
    """Return that many zeros in writable memory, in huge pages where the system has them.

    The memory is given back when nothing refers to it any more. Its pages come when they are first
    touched, so a size that a peer merely announces takes addresses and no memory.

    Raises:
        OSError: there are no addresses left, or the process may not have so much.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Linux only; and without huge pages in the kernel it is refused.
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:
        try:
            memory.madvise(advice)
        except OSError:
            pass
    return memoryview(memory)


def advise_huge_pages(fresh: memoryview) -> None:
    """Ask for huge pages in memory of another allocator, before it is first written to.

    An example is the memory of a `bytes` object which is being made. Does nothing with less than
    `FOREIGN` bytes, and where the system has no huge pages.
    """
    if len(fresh) < FOREIGN or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    ctypes, madvise = _madvise()
    start = ctypes.addressof(ctypes.c_char.from_buffer(fresh))
    end, start = start + len(fresh), start + -start % mmap.PAGESIZE
    # An error means that there are none; errno is not looked at.
    madvise(start, (end - start) // mmap.PAGESIZE * mmap.PAGESIZE, mmap.MADV_HUGEPAGE)


@functools.cache
def keep_freed_memory() -> None:
    """Have malloc of glibc keep up to `KEPT` bytes of what is freed, from now on.

    By default malloc gives free memory at the end of its heap back to the system, once there is
    more of it than twice the largest block that was ever freed (M_MMAP_THRESHOLD in mallopt(3)). A
    payload of a megabyte and the object made of it are more than that. Getting the memory again for
    the next payload takes longer than everything else that a process does with it.
    """
    # Nothing is written to, so this takes addresses and no memory.
    bytes(KEPT // 2)


@functools.cache
def _madvise() -> tuple[Any, Any]:
    import ctypes  # most processes need it never

    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return ctypes, madvise


@final
class Pieces:
    """Bytes that follow one another and travel as one payload, without being put together.

    To put a hundred megabytes together takes as long as to send them; and a sender needs no copy of
    `bytes`, which cannot change. The receiver gets one piece.

    Args:
        parts: `bytes` only: what could still be changed while it waits to be sent is refused.

    Attributes:
        parts: the parts that are not empty.

    Raises:
        TypeError: a part is of another type.
    """

    __slots__ = ("_size", "parts")

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = tuple(part for part in parts if type(part) is not bytes or part)
        for part in self.parts:
            if type(part) is not bytes:
                raise TypeError(f"a piece must be bytes, not {type(part).__name__}")
        self._size = sum(map(len, self.parts))

    def __len__(self) -> int:
        """Return the number of bytes of all parts."""
        return self._size

    def __repr__(self) -> str:
        return f"<Pieces, {len(self.parts)} of {self._size} bytes>"
