"""The price of fairness: makespan against waiting, for limits on overtaking, in virtual time.

The values do not depend on the machine. *Passed* is the number of younger tasks that started before
one, the largest of a run; it can exceed the limit, as some start beside what is reserved, or while
the worker empties. Runs take 0.05 to 0.5 s.

Batches, shuffled and submitted at once. The makespan, and the start of the last of the widest
tasks, are over the bound max(area / cores, longest): medians, and the largest makespan.

=====================================  =====  =============  =====  ======
workers and tasks                      limit  makespan       start  passed
=====================================  =====  =============  =====  ======
1 of 8 cores; 200 tasks of 1, 2, 4, 8  8      1.084 (1.148)  1.05   41
..                                     16     1.049 (1.088)  1.02   45
..                                     32     1.023 (1.062)  0.99   57
..                                     64     1.016 (1.028)  0.99   78
..                                     128    1.009 (1.017)  0.89   128
..                                     none   1.006 (1.012)  0.99   149
4 of 8; 800 tasks of 1, 2, 4, 8        16     1.057 (1.068)  1.04   46
..                                     32     1.041 (1.062)  1.02   99
..                                     64     1.026 (1.038)  1.01   118
..                                     128    1.017 (1.033)  0.99   179
..                                     none   1.009 (1.015)  1.00   590
20 of 16; 4000 tasks of 1, 2 ... 16    144    1.024 (1.027)  1.01   216
..                                     576    1.020 (1.021)  1.00   654
..                                     1152   1.015 (1.018)  1.00   1209
..                                     none   1.013 (1.015)  1.00   1862
20 of 16; 4000 tasks of 1 to 8         144    1.062 (1.076)  1.04   1043
..                                     576    1.046 (1.062)  1.01   991
..                                     none   1.048 (1.049)  1.02   1627
=====================================  =====  =============  =====  ======

The default is 64 for up to four workers, and 576 for 20. Strict first come, first served takes 1.21
to 1.36 on the first of these batches, 1.28 in the median.

Streams at 90 % load, in which 5 % of the tasks take a whole worker and the others 1 or 2 cores:
waits in seconds.

============  =====  ======================  =================  ===========
workers       limit  wide: med., 95 %, max   narrow: mean, 95%  mean of all
============  =====  ======================  =================  ===========
1 of 8 cores  8      1.3, 3.5, 6.3           1.26, 3.5          1.27
..            16     1.5, 3.1, 4.9           1.00, 3.2          1.03
..            32     2.1, 3.7, 5.8           0.93, 3.0          0.99
..            64     3.0, 5.6, 6.9           0.88, 3.0          0.99
..            128    4.3, 9.4, 11.2          0.88, 3.2          1.07
..            none   6.7, 20.3, 43.9         0.85, 3.4          1.23
4 of 16       16     0.52, 1.2, 1.7          0.34, 1.1          0.35
..            32     0.52, 1.0, 1.5          0.20, 0.7          0.21
..            64     0.56, 1.1, 1.4          0.14, 0.7          0.16
..            128    0.69, 1.6, 2.0          0.10, 0.6          0.13
..            none   0.78, 2.6, 4.1          0.06, 0.3          0.10
20 of 16      any    0.05, 0.3, 0.5          0.01, 0.0          0.01
============  =====  ======================  =================  ===========

A constant limit makes everything due in a long queue, and then all workers empty: with 100 workers
of 16 cores and 20,000 tasks of 1 to 8 cores, 64 costs a makespan of 1.067, the default, 3136, one
of 1.036, and no limit 1.04, where one task is passed by all others. A decision costs some 13 us
instead of 8 while most workers are reserved, and 17 to 21 with half that limit. Run times learned
for each function, as starts of reservations, changed the makespan by less than 0.1 %, so
reservations do without. The workflows of urgent calls are 1000genome, cycles, epigenomics, montage,
seismology, soykb and srasearch.
"""

from __future__ import annotations

import random
import statistics
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from grain.head.scheduler.guard.starvation_guard import FEW_WORKERS, MAX_OVERTAKES, MORE_OVERTAKES
from grain.resource import Cores
from grain_testkit.scheduler_harness import SimulatedTask, simulate
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
