"""The command line and the environment that /proc shows of this process, to ``ps`` and others.

Linux shows the memory into which it wrote both when the program was executed. A process that was
forked to do something else writes there what it does now, as servers of mail and databases do.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AREAS = slice(45, 49)  # of the fields behind the name, which is the second: proc(5), arg_start


def show(words: Sequence[bytes], environment: Mapping[bytes, bytes]) -> None:
    """Have /proc show this command line and this environment, from now on.

    What finds no room is missing: the end of the command line, and the longest variables. Nothing
    happens where the kernel does not tell where they are.
    """
    stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    words_at, words_end, variables_at, variables_end = map(int, stat[_AREAS])
    if not words_at or not variables_at:
        return
    # What C code has found by getenv(3) is in that memory. setenv(3) makes copies.
    for name, value in os.environb.items():
        os.environb[name] = value
    _write(words_at, words_end, b"\0".join(words)[: words_end - words_at - 1])
    variables, room = b"", variables_end - variables_at
    for variable in sorted((b"%s=%s\0" % pair for pair in environment.items()), key=len):
        if len(variables) + len(variable) <= room:
            variables += variable
    _write(variables_at, variables_end, variables)


def _write(start: int, end: int, text: bytes) -> None:
    """Write a text into memory, and zeros behind it."""
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
