"""Memory for a large payload, which costs nothing before it is written to."""

from __future__ import annotations

import functools
import mmap
from typing import Any

LARGE = 4 * 1024 * 1024
"""Bytes from which on a payload gets memory of its own. Huge pages come in units of 2 MiB."""

FOREIGN = 32 * 1024 * 1024
"""Bytes from which on memory that somebody else has made can be in huge pages: from this size on
malloc of glibc always has it from the system, and gives it back at once (M_MMAP_THRESHOLD in
mallopt(3)); the advice is for nothing else then."""


def room(size: int) -> memoryview:
    """So many zeros, that can be written to, given back when nobody refers to them any more.

    The pages come when they are first touched, so a size that a peer merely announces takes
    addresses and no memory. Where the system has huge pages to give they are used: to fetch 4 KiB
    at a time takes longer than to copy what goes in.

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


def in_huge_pages(fresh: memoryview) -> None:
    """Ask for huge pages where memory that was not made by `room` is about to be written to.

    As that of a `bytes` object which is being made. Does nothing with less than `FOREIGN` bytes,
    and where the system has no such thing.
    """
    if len(fresh) < FOREIGN or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    ctypes, madvise = _madvise()
    start = ctypes.addressof(ctypes.c_char.from_buffer(fresh))
    end, start = start + len(fresh), start + -start % mmap.PAGESIZE
    # An error means that there are none; errno is not looked at.
    madvise(start, (end - start) // mmap.PAGESIZE * mmap.PAGESIZE, mmap.MADV_HUGEPAGE)


@functools.cache
def _madvise() -> tuple[Any, Any]:
    import ctypes  # most processes need it never

    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return ctypes, madvise
