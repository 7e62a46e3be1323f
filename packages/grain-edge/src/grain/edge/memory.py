"""Memory for a large payload, which costs nothing before it is written to."""

from __future__ import annotations

import mmap

LARGE = 4 * 1024 * 1024
"""Bytes from which on a payload gets memory of its own. Huge pages come in units of 2 MiB."""


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
