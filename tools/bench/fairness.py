"""The price of fairness: makespan against waiting, for limits on overtaking, in virtual time.

The values do not depend on the machine; docs/fairness.md has them as tables. *Passed* is the
number of younger tasks that started before one, the largest of a run.
"""

from __future__ import annotations

import random
import statistics
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from grain.head.scheduler.starvation_guard import FEW_WORKERS, MAX_OVERTAKES, MORE_OVERTAKES
from grain.head.testing import SimulatedTask, simulate
from grain.resource import Cores
from tools.bench import say

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORTEST, LONGEST = 0.05, 0.5  # seconds
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 1000)


def passed(started: Sequence[float]) -> list[int]:
    """Return for each task how many later submitted tasks started before it."""
    begun: list[int] = []
    counts = [0] * len(started)
    for k in sorted(range(len(started)), key=lambda k: started[k]):
        counts[k] = len(begun) - bisect_left(begun, k)
        insort(begun, k)
    return counts


def batch(
    seed: int, workers: int, cores: int, sizes: list[int], limit: int
) -> tuple[float, float, int, int]:
    """Run a shuffled batch that is submitted at once.

    Returns:
        The makespan, and the start of the last of the widest tasks, both over the least that the
        makespan can be; how many passed one of the widest, and any.
    """
    rng = random.Random(seed)
    sizes = sizes.copy()
    rng.shuffle(sizes)
    jobs = [SimulatedTask(Cores(n), rng.uniform(SHORTEST, LONGEST)) for n in sizes]
    area = sum(n * job.duration for n, job in zip(sizes, jobs, strict=True))
    least = max(area / (cores * workers), *(job.duration for job in jobs))
    result = simulate([Cores(cores)] * workers, jobs, max_overtakes=limit)
    counts = passed(result.started)
    widest = [k for k, n in enumerate(sizes) if n == max(sizes)]
    last = max(result.started[k] for k in widest)
    return (
        result.makespan / least, last / least, max(counts[k] for k in widest), max(counts),
    )  # fmt: skip


def stream(
    seed: int, workers: int, cores: int, tasks: int, limit: int
) -> tuple[list[float], list[float]]:
    """Run a stream at 90 % load in which 5 % of the tasks take a whole worker.

    Returns:
        The waits of these and of the others in seconds, ascending.
    """
    rng = random.Random(seed)
    mean = (SHORTEST + LONGEST) / 2 * (0.05 * cores + 0.95 * 1.5)
    at = 0.0
    jobs = []
    for _ in range(tasks):
        at += rng.expovariate(0.9 * workers * cores / mean)
        size = cores if rng.random() < 0.05 else rng.choice([1, 2])
        jobs.append(SimulatedTask(Cores(size), rng.uniform(SHORTEST, LONGEST), at))
    started = simulate([Cores(cores)] * workers, jobs, max_overtakes=limit).started
    wide: list[float] = []
    narrow: list[float] = []
    for job, start in zip(jobs, started, strict=True):
        (wide if job.request == Cores(cores) else narrow).append(start - job.at)
    return sorted(wide), sorted(narrow)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which a part of some sorted values lies."""
    return values[int(part * (len(values) - 1))]


def limits(workers: int) -> list[tuple[str, int]]:
    """Return the limits to compare, the default in the middle, and the largest for none."""
    default = MAX_OVERTAKES + MORE_OVERTAKES * max(workers - FEW_WORKERS, 0)
    named = [(str(int(factor * default)), int(factor * default)) for factor in FACTORS]
    return [*named[:-1], ("none", named[-1][1])]


def main() -> None:
    """Measure, and print JSON lines."""
    powers, digits = [1, 2, 4, 8], [1, 2, 3, 4, 5, 6, 7, 8]
    for workers, cores, kind, sizes, seeds in (
        (1, 8, "powers", powers * 50, 60),
        (4, 8, "powers", powers * 200, 20),
        (20, 16, "powers", [*powers, 16] * 800, 3),
        (20, 16, "digits", digits * 500, 3),
    ):
        for name, limit in limits(workers):
            rows = [batch(seed, workers, cores, sizes, limit) for seed in range(seeds)]
            makespans, lasts, widest, any_ = zip(*rows, strict=True)
            say(
                f"fairness.batch.{workers}x{cores}.{kind}.{name}.makespan",
                statistics.median(makespans),
                "of the bound",
                max=round(max(makespans), 3),
                last_wide=round(statistics.median(lasts), 3),
                passed_widest=max(widest),
                passed=max(any_),
            )
    for workers, cores, tasks, seeds in ((1, 8, 2000, 10), (4, 16, 2000, 10), (20, 16, 8000, 3)):
        for name, limit in limits(workers):
            waits = [stream(seed, workers, cores, tasks, limit) for seed in range(seeds)]
            wide = sorted(wait for waited, _ in waits for wait in waited)
            narrow = sorted(wait for _, waited in waits for wait in waited)
            say(
                f"fairness.stream.{workers}x{cores}.{name}.wide",
                quantile(wide, 0.5),
                "s",
                p95=round(quantile(wide, 0.95), 2),
                max=round(wide[-1], 2),
                narrow=round(statistics.mean(narrow), 2),
                narrow_p95=round(quantile(narrow, 0.95), 2),
                mean=round(statistics.mean(wide + narrow), 2),
            )


if __name__ == "__main__":
    main()
