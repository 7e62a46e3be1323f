"""The cost of storing results in the cache, and of reading them."""

from __future__ import annotations

import statistics
import tempfile
import time

import numpy as np
import trio

from grain.delayed import delayed, each, mission
from grain.delayed.cache.digest import digest
from grain.resource import Cores
from tools.bench import say

LEAVES = 10_000
ROUNDS = 3


@delayed(cache_hfn="args")
async def number(x: int) -> int:
    """Return a result that is kept."""
    return x


@delayed(retries=2)
async def retried(x: int) -> int:
    """Succeed, though a retry is allowed."""
    return x


async def seconds(cache: str, leaf: object) -> tuple[float, float]:
    """Return the seconds, and seconds of processor time, for all leaves."""
    async with mission(Cores(2), config_file=False, progress=False, cache=cache):
        began, busy = time.perf_counter(), time.process_time()
        await each([leaf(i) for i in range(LEAVES)])  # type: ignore[operator]
        return time.perf_counter() - began, time.process_time() - busy


def main() -> None:
    """Print what is measured."""
    with tempfile.TemporaryDirectory() as folder:
        leaf = number @ Cores(1)
        kept, busy = trio.run(seconds, folder, leaf)
        say("cache_keep_leaf", kept / LEAVES * 1e6, "us", processor=busy / LEAVES * 1e6)
        times = [trio.run(seconds, folder, leaf) for _ in range(ROUNDS)]
        say(
            "cache_hit_leaf",
            statistics.median(wall for wall, _ in times) / LEAVES * 1e6,
            "us",
            budget=500,
            processor=statistics.median(busy for _, busy in times) / LEAVES * 1e6,
        )
        plain = [trio.run(seconds, folder, retried @ Cores(1))[0] for _ in range(ROUNDS)]
        say("retries_leaf", statistics.median(plain) / LEAVES * 1e6, "us")
    array = np.zeros(12_500_000)
    began = time.perf_counter()
    digest(array, "an array")
    say("digest_of_an_array", array.nbytes / (time.perf_counter() - began) / 1e6, "MB/s")


if __name__ == "__main__":
    main()
