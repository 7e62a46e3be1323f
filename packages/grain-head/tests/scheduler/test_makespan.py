"""The makespan of mixed workloads under the default policy; tools/bench/fairness.py has tables."""

from __future__ import annotations

import random

import pytest

from grain.resource import Cores, GPUs
from grain_testkit.scheduler_harness import SimulatedTask, simulate


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


@pytest.mark.parametrize("seed", range(6))
def test_tasks_that_share_devices_take_little_more_than_they_have_to(seed: int) -> None:
    """A third of them needs a whole device, for which others have to wait now and then."""
    rng = random.Random(seed)
    parts = [rng.choice([0.1, 0.25, 0.3, 0.5, 1, 1]) for _ in range(200)]
    durations = [rng.uniform(5, 50) for _ in parts]

    def makespan(asked: list[float]) -> float:
        jobs = [SimulatedTask(GPUs(n), span) for n, span in zip(asked, durations, strict=True)]
        return simulate([GPUs(2)] * 3, jobs).makespan

    least = sum(n * span for n, span in zip(parts, durations, strict=True)) / 6
    assert makespan(parts) <= 1.15 * least
    assert makespan(parts) <= 0.65 * makespan([1] * len(parts))
