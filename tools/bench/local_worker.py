"""The cost of a leaf on the local worker, and the cost of waiting for it."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from pathlib import Path

import trio

from grain.combine import open_waitgroup
from grain.delayed import delayed, each, mission
from grain.resource import Cores
from tools.bench import say

LEAVES = 20_000
PENDING = 100_000
ROUNDS = 5


@delayed
async def nothing() -> None:
    """Do nothing."""


@delayed
async def held(gate: trio.Event) -> None:
    """Keep the core until the gate opens."""
    await gate.wait()


async def through() -> float:
    """Return the microseconds a leaf, from the first submission to the last result."""
    leaf = nothing @ Cores(1)
    async with mission(Cores(2), config_file=False, progress=False):
        began = time.perf_counter()
        await each([leaf() for _ in range(LEAVES)])
        return (time.perf_counter() - began) / LEAVES * 1e6


async def grouped() -> float:
    """Return the microseconds a job of a waitgroup, from first submission to last result."""
    async with mission(Cores(2), config_file=False, progress=False):
        began = time.perf_counter()
        async with open_waitgroup() as wg:
            for _ in range(LEAVES):
                wg.submit(Cores(1), nothing.fn)
        return (time.perf_counter() - began) / LEAVES * 1e6


async def serial() -> float:
    """Return the microseconds from the submission of a leaf to its result, one at a time."""
    leaf = nothing @ Cores(1)
    async with mission(Cores(2), config_file=False, progress=False):
        times = []
        for _ in range(3000):
            began = time.perf_counter()
            await leaf()
            times.append(time.perf_counter() - began)
        return statistics.median(times) * 1e6


async def pending() -> tuple[float, float]:
    """Return the microseconds and bytes for each of many leaves that wait."""
    leaf = nothing @ Cores(1)
    gate = trio.Event()
    async with mission(Cores(1), config_file=False, progress=False):
        (held @ Cores(1))(gate)
        await trio.lowlevel.checkpoint()
        gc.collect()
        before = resident()
        began = time.perf_counter()
        waiting = [leaf() for _ in range(PENDING)]
        seconds = time.perf_counter() - began
        each_bytes = (resident() - before) / PENDING
        gate.set()
        await each(waiting)
        return seconds / PENDING * 1e6, each_bytes


def resident() -> int:
    """Return the bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    """Print what is measured."""
    say(
        "local_no_op_leaf",
        statistics.median(trio.run(through) for _ in range(ROUNDS)),
        "us",
        budget=40,
    )
    say("local_waitgroup_job", statistics.median(trio.run(grouped) for _ in range(ROUNDS)), "us")
    say("local_serial_round_trip", trio.run(serial), "us")
    rounds = [trio.run(pending) for _ in range(3)]
    say("pending_leaf_submission", statistics.median(t for t, _ in rounds), "us", budget=12)
    say("pending_leaf_memory", rounds[0][1], "bytes", budget=900)


if __name__ == "__main__":
    main()
