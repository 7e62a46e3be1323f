"""CPU time and memory of this process and all below it, as Linux counts them."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

TICK = os.sysconf("SC_CLK_TCK")
LOOK, QUIET = 0.02, 0.3
"""Seconds between two looks, and without work until a tree counts as quiet."""


def tree() -> Iterator[Path]:
    """Yield the directories in /proc of this process and all below it."""
    waiting = [os.getpid()]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        yield process
        with suppress(OSError):  # it has ended
            for thread in (process / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())


def cpu_seconds() -> float:
    """Return the CPU time of all, with processes that have ended and were waited for."""
    ticks = 0
    for process in tree():
        with suppress(OSError):
            ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / TICK


def resident_bytes() -> int:
    """Return the memory of all; pages that two have in common count twice."""
    pages = 0
    for process in tree():
        with suppress(OSError):
            pages += int((process / "statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def quiet(sleep: Callable[[float], Awaitable[None]]) -> float:
    """Wait until all have done what they had to do, and return when that was (perf_counter).

    A tenth of a core does not count, since some tools poll.
    """
    looks = [(time.perf_counter(), cpu_seconds())]
    while True:
        await sleep(LOOK)
        looks.append((time.perf_counter(), cpu_seconds()))
        while looks[-1][0] - looks[0][0] >= QUIET:
            if looks[-1][1] - looks[0][1] <= QUIET / 10:
                return looks[0][0]
            del looks[0]
