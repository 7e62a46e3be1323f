"""Packing: how close the local worker comes to the shortest possible time for mixed tasks."""

from __future__ import annotations

import random
import time

import trio

from grain.delayed import delayed, each, mission
from grain.resource import Cores
from tools.bench import say

CORES = 8


@delayed
async def sleep(seconds: float) -> None:
    """Sleep for a time that is known in advance."""
    await trio.sleep(seconds)


async def makespan(tasks: list[tuple[int, float]]) -> float:
    """Return the seconds from the first submission to the last result."""
    async with mission(Cores(CORES), config_file=False, progress=False):
        began = time.perf_counter()
        await each([(sleep @ Cores(cores))(seconds) for cores, seconds in tasks])
        return time.perf_counter() - began


def main() -> None:
    """Pack 200 sleeps that ask for 1, 2, 4 or 8 of 8 cores, in a fixed shuffled order."""
    rng = random.Random(1)
    tasks = [(cores, rng.uniform(0.02, 0.2)) for cores in (1, 2, 4, 8) for _ in range(50)]
    rng.shuffle(tasks)
    area = sum(cores * seconds for cores, seconds in tasks) / CORES
    bound = max(area, *(seconds for _, seconds in tasks))
    say("packing_makespan_over_bound", trio.run(makespan, tasks) / bound, "ratio", budget=1.03)


if __name__ == "__main__":
    main()
