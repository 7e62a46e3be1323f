"""What `grain scale --auto` does over hours: turnaround at steady load, submissions for pulses."""

from __future__ import annotations

import math
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
def test_steady_load_takes_at_most_15_percent_longer_than_by_need_only(
    monkeypatch: pytest.MonkeyPatch, queue: float
) -> None:
    by_both = steady(queue)
    # With work for a second, every worker is worth it.
    monkeypatch.setattr(plan, "horizon", lambda _: 1.0)
    by_need = steady(queue)

    assert by_both <= 1.15 * by_need


@pytest.mark.parametrize(("minutes", "most"), [(5, 40), (10, 40), (30, 48), (90, 16)])
def test_pulses_cost_no_more_submissions_than_the_bound(minutes: int, most: int) -> None:
    """A pulse has work for four workers; those that come often keep them."""
    world = cluster(60.0)
    while world.now < HOURS * 3600:
        if world.now % (minutes * 60) < STEP:
            for _ in range(64):
                world.submit(1, 60.0)
        world.step()

    own = len(world.submissions) - world.walltimes
    assert 0 < own <= 40 * (6 + 3.5 * HOURS)
    assert own <= most  # far below it
    assert world.longest_idle <= 1800 + 2 * STEP


MOST = 20


def pulse(world: VirtualCluster, tasks: int, seconds: float) -> float:
    """Let all workers leave, submit tasks, and return how long these take."""
    until = world.now + 3 * 3600
    while world.now < until:
        world.step()
    began, done = world.now, len(world.ended)
    for _ in range(tasks):
        world.submit(1, seconds)
    while len(world.ended) < done + tasks:
        world.step()
    return max(task.ended or 0.0 for task in world.ended[done:]) - began


def at_once(queue: float, tasks: int, seconds: float) -> float:
    """Return how long these tasks take after `grain up -n`, if the site gives all in that time."""
    workers = min(math.ceil(tasks / 16), MOST)
    return queue + math.ceil(tasks / (16 * workers)) * seconds


@pytest.mark.parametrize(("tasks", "seconds"), [(64, 30.0), (320, 120.0), (640, 30.0)])
@pytest.mark.parametrize("queue", [1.0, 10.0, 60.0, 300.0])
def test_a_pulse_takes_at_most_twice_as_long_as_with_all_workers_submitted_at_once(
    queue: float, tasks: int, seconds: float
) -> None:
    """Besides the looks of the loop, one to submit and one to go on. The first pulse, too."""
    world = cluster(queue, MOST)
    for _ in range(2):
        took = pulse(world, tasks, seconds)
        assert took <= 2 * at_once(queue, tasks, seconds) + 2 * STEP


def test_a_pulse_is_as_fast_when_the_queue_has_become_short() -> None:
    """One worker that comes at once shows that others would, too, whatever was before."""
    queue = [600.0]
    world = VirtualCluster(Scaler([NODE], most=MOST), [NODE], lambda: queue[0])
    for _ in range(3):
        pulse(world, 320, 120.0)

    queue[0] = 1.0
    assert pulse(world, 320, 120.0) <= 2 * at_once(1.0, 320, 120.0) + 2 * STEP


def test_a_worker_is_worth_as_much_work_as_workers_take_to_come() -> None:
    world = cluster(100.0)
    before = world.scaler.describe(0.0)["shapes"][0]["worth"]
    for _ in range(64):
        world.submit(1, 600.0)
    while len(world.ended) < 64:
        world.step()

    assert 600.0 == before
    assert 100.0 <= world.scaler.describe(world.now)["shapes"][0]["worth"] <= 100.0 + 3 * STEP


@pytest.mark.parametrize("seconds", [5.0, 40.0])
def test_workers_with_short_walltimes_have_their_successors_in_time(seconds: float) -> None:
    """Work without end for 12 workers, each of which takes tasks for one minute of its two."""
    short = WorkerShape("short", Cores(1), seconds=120.0)
    world = VirtualCluster(Scaler([short], most=12), [short], lambda: 1.0, drain=60.0)
    serving = 0.0
    for _ in range(4000):
        world.submit(1, seconds)
    while world.now < 3600.0:
        world.step()
        if world.now > 600.0:
            serving += sum(not job.draining for job in world.running)
            assert sum(not job.draining for job in world.alive) <= 12

    # Each takes tasks for four steps, and its successor begins to do so two later: at the look
    # after its last, and a step for the start.
    assert serving / ((3600.0 - 600.0) / STEP) >= 12 * 4 / 6
