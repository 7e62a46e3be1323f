"""What `grain scale --auto` does over hours: turnaround at steady load, submissions for pulses."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from grain.cli.scaling import plan
from grain.cli.scaling.model import WorkerShape
from grain.cli.scaling.scaler import Scaler
from grain.resource import Cores
from grain_testkit.virtual_cluster import STEP, VirtualCluster

NODE = WorkerShape("node", Cores(16), seconds=4 * 3600.0)
HOURS = 6


def cluster(queue: float, most: int = 40) -> VirtualCluster:
    """Return a cluster whose jobs wait so many seconds."""
    return VirtualCluster(Scaler([NODE], most=most), [NODE], lambda: queue)


def steady(queue: float) -> float:
    """Return the mean turnaround of tasks of 15 minutes that come in batches of all sizes."""
    world = cluster(queue)
    dice = random.Random(7)
    later = 0.0
    while world.now < HOURS * 3600:
        if world.now >= later:
            for _ in range(min(int(dice.paretovariate(1.1) * 8), 400)):
                world.submit(dice.choice((1, 2, 4)), dice.expovariate(1 / 900))
            later = world.now + dice.expovariate(1 / 600)
        world.step()
    return fmean(task.ended - task.submitted for task in world.ended if task.ended is not None)


@pytest.mark.parametrize("queue", [300.0, 2400.0])
def test_steady_load_takes_at_most_15_percent_longer_than_by_need_alone(
    monkeypatch: pytest.MonkeyPatch, queue: float
) -> None:
    by_both = steady(queue)
    # With work for a second, every worker is worth it.
    monkeypatch.setattr(plan, "horizon", lambda _: 1.0)
    by_need = steady(queue)

    assert by_both <= 1.15 * by_need


@pytest.mark.parametrize("minutes", [5, 10, 30, 90])
def test_pulses_cost_no_more_submissions_than_the_bound(minutes: int) -> None:
    world = cluster(60.0)
    while world.now < HOURS * 3600:
        if world.now % (minutes * 60) < STEP:
            for _ in range(64):
                world.submit(1, 60.0)
        world.step()

    own = len(world.submissions) - world.walltimes
    assert 0 < own <= 40 * (6 + 3.5 * HOURS)
    # Far below it: pulses that come often keep their workers.
    assert own <= 40
    assert world.longest_idle <= 1800 + 2 * STEP
