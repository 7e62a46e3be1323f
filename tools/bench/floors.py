"""The present speed of this machine: the cost of the parts that everything here is made of.

The budgets of the other benchmarks were set on a machine where these took what `reference` says.
A machine that takes longer for these takes longer for the others, too.
"""

from __future__ import annotations

import pickle
import statistics
import time
from typing import TYPE_CHECKING

import trio

from tools.bench import say
from tools.bench._chain import floor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TIMES = 2000
ROUNDS = 15


async def empty() -> None:
    """Do nothing."""


async def start_soon() -> None:
    """Start tasks that do nothing."""
    async with trio.open_nursery() as nursery:
        for _ in range(TIMES):
            nursery.start_soon(empty)


async def checkpoint() -> None:
    """Pass through the scheduler many times."""
    for _ in range(TIMES):
        await trio.lowlevel.checkpoint()


async def memory_channel() -> None:
    """Send items through a channel."""
    put, take = trio.open_memory_channel[int](TIMES)
    for number in range(TIMES):
        put.send_nowait(number)
    for _ in range(TIMES):
        await take.receive()


async def dumps() -> None:
    """Turn arguments into bytes."""
    for number in range(TIMES):
        pickle.dumps((b"function", (number,)))


async def each(work: Callable[[], Awaitable[None]]) -> float:
    """Return the median microseconds of one of many."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        times.append((time.perf_counter() - began) / TIMES)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print what is measured."""
    references = ((start_soon, 7.5), (checkpoint, 2.9), (memory_channel, 3.3), (dumps, 0.25))
    for work, reference in references:
        say(f"floors.{work.__name__}", trio.run(each, work), "us", reference=reference)
    say("floors.round_trip.two_processes", floor(1), "us")


if __name__ == "__main__":
    main()
