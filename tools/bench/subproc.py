"""The cost of a call in a process of a pool, and the speed of arrays.

Prints one JSON line per quantity. Run it by ``python -m tools.bench subproc``.
"""

from __future__ import annotations

import statistics
import time
from typing import TypeVar

import numpy
import trio

from grain.subproc import subprocess_pool_scope, subprocify
from tools.bench import say

CALLS = 2000
STARTS = 5
ARRAYS = 15
BYTES = 100_000_000

T = TypeVar("T")


@subprocify
def same(x: T) -> T:
    """Return the argument."""
    return x


@subprocify
def total(x: numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]) -> float:
    """Return a number that depends on the whole array having arrived."""
    return float(x[0] + x[-1])


def main() -> None:
    """Measure, and print the results."""
    trio.run(measure)


async def measure() -> None:
    """Print the cost of starts, calls and arrays, one call after the other."""
    starts = [await start() for _ in range(STARTS)]
    say("subproc_start", statistics.median(starts) * 1e3, "ms")
    async with subprocess_pool_scope():
        await calls(100)
        cpu = time.process_time()
        took = await calls(CALLS)
        cpu = time.process_time() - cpu
        say("subproc_call", statistics.median(took) * 1e6, "us", budget=300)
        say("subproc_call_cpu_of_the_caller", cpu / CALLS * 1e6, "us")
        array = numpy.ones(BYTES // 8)
        copied = [copy(array) for _ in range(ARRAYS)]
        say("array_copy", BYTES / 1e6 / statistics.median(copied), "MB/s")
        there = [await one_array(array, back=False) for _ in range(ARRAYS)]
        both = [await one_array(array, back=True) for _ in range(ARRAYS)]
        say("subproc_array_there", BYTES / 1e6 / statistics.median(there), "MB/s", budget=500)
        say("subproc_array_to_and_fro", 2 * BYTES / 1e6 / statistics.median(both), "MB/s", 500)


async def start() -> float:
    """Return the seconds of the first call of a pool."""
    async with subprocess_pool_scope():
        began = time.perf_counter()
        await same(None)
        return time.perf_counter() - began


async def calls(count: int) -> list[float]:
    """Return the seconds of each of so many calls."""
    took = []
    for number in range(count):
        began = time.perf_counter()
        await same(number)
        took.append(time.perf_counter() - began)
    return took


def copy(array: numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]]) -> float:
    """Return the seconds of one copy in memory, to compare with: a call copies twice each way."""
    began = time.perf_counter()
    array.copy()
    return time.perf_counter() - began


async def one_array(
    array: numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]], *, back: bool
) -> float:
    """Return the seconds of one call with an array."""
    began = time.perf_counter()
    if back:
        await same(array)
    else:
        await total(array)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
