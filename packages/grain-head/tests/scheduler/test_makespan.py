"""The makespan of mixed workloads under the default policy: docs/fairness.md has the table."""

from __future__ import annotations

import random

import pytest

from grain.head.testing import SimulatedTask, simulate
from grain.resource import Cores


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("workers", "most"), [(1, 1.03), (4, 1.04)])
def test_a_mixed_workload_takes_at_most_3_or_4_percent_more_than_it_has_to(
    workers: int, most: float, seed: int
) -> None:
    rng = random.Random(seed)
    sizes = [1, 2, 4, 8] * 50 * workers
    rng.shuffle(sizes)
    jobs = [SimulatedTask(Cores(n), rng.uniform(0.05, 0.5)) for n in sizes]
    area = sum(n * job.duration for n, job in zip(sizes, jobs, strict=True))
    least = max(area / 8 / workers, *(job.duration for job in jobs))

    assert simulate([Cores(8)] * workers, jobs).makespan <= most * least
