"""Parts of a core or GPU, and whole workers: where such tasks start, and that none starves."""

from __future__ import annotations

import math
import random

import pytest

from grain.resource import Cores, GPUs, Memory, Node, WTime
from grain_testkit.scheduler_harness import Cluster


def gpus_of(cluster: Cluster, task: int) -> list[int]:
    held = cluster.scheduler.tasks[task].held.get(GPUs)
    assert isinstance(held, GPUs)
    return held.g


def test_parts_share_a_device_before_another_is_begun_on_any_worker() -> None:
    cluster = Cluster(GPUs(2), GPUs(1), GPUs(4))
    first = cluster.submit(GPUs(0.25))
    others = cluster.submit_many(*[GPUs(0.25)] * 3)

    assert {cluster.where(first)} == {cluster.where(task) for task in others}
    assert [[0]] * 4 == [gpus_of(cluster, task) for task in [first, *others]]
    assert cluster.where(cluster.submit(GPUs(0.25))) != cluster.where(first)


def test_a_part_starts_where_it_fits_though_no_device_is_whole() -> None:
    cluster = Cluster(GPUs(1))
    first = cluster.submit(GPUs(0.7))
    whole, small = cluster.submit_many(GPUs(1), GPUs(0.3))

    assert cluster.running == [first, small]
    assert "not now, free is GPUs([]) of GPUs([0])" in str(cluster.why(whole))
    cluster.finish(first)
    assert cluster.waiting == [whole]
    cluster.finish(small)
    assert cluster.running == [whole]


def test_the_next_task_takes_over_the_part_of_the_one_that_ended() -> None:
    cluster = Cluster(GPUs(1))
    first, second, third = cluster.submit_many(*[GPUs(0.5)] * 3)
    cluster.finish(second)

    assert cluster.running == [first, third]
    assert cluster.starts[second].allocation == cluster.starts[third].allocation


@pytest.mark.parametrize("whole", [GPUs(1), GPUs(2), GPUs(0.9)])
@pytest.mark.parametrize("seed", range(10))
def test_parts_that_come_without_end_do_not_starve_a_task_that_needs_a_device(
    whole: GPUs, seed: int
) -> None:
    """They do not move, so each of them could keep a device begun: few may pass."""
    rng = random.Random(seed)
    parts = [GPUs(part) for part in (0.3, 0.45, 0.2)]
    cluster = Cluster(GPUs(2) & Memory(8), max_overtakes=3)
    cluster.submit_many(*[rng.choice(parts) for _ in range(12)])
    wanted = cluster.submit(whole)
    for _ in range(60):
        cluster.submit(rng.choice(parts))
        cluster.finish(rng.choice(cluster.running))
        if wanted in cluster.running:
            return
    pytest.fail("it never started")


def test_a_task_with_a_part_passes_a_reserved_one_if_another_device_is_left() -> None:
    cluster = Cluster(GPUs(2), max_overtakes=1)
    first, second = cluster.submit(GPUs(1)), cluster.submit(GPUs(0.4))
    whole = cluster.submit(GPUs(1))
    passed = cluster.submit(GPUs(0.2))
    assert cluster.reservation(whole) == (0, math.inf)

    beside, late = cluster.submit(GPUs(0.2)), cluster.submit(GPUs(0.15))
    assert cluster.running == [first, second, passed, beside]
    cluster.finish(first)
    assert whole in cluster.running
    assert late in cluster.running


def test_a_reserved_start_holds_though_parts_do_not_move() -> None:
    """Both parts could be on one device, and are not: the first end is too early."""
    cluster = Cluster(GPUs(2))
    a, b = cluster.submit_many(GPUs(0.6) & WTime(T=100), GPUs(0.6) & WTime(T=200))
    c, d = cluster.submit_many(GPUs(0.3) & WTime(T=300), GPUs(0.3) & WTime(T=400))
    assert [[0], [1], [0], [1]] == [gpus_of(cluster, task) for task in (a, b, c, d)]
    cluster.finish(a, b)
    whole = cluster.submit(GPUs(1) & WTime(T=10))
    long = cluster.submit(GPUs(0.3) & WTime(T=1000))

    assert cluster.reservation(whole) == (0, 300)
    assert long in cluster.waiting or gpus_of(cluster, long) == [1]
    cluster.finish_after(c, 300)
    assert whole in cluster.running


def test_a_task_for_a_whole_worker_takes_one_that_is_unused_however_large() -> None:
    cluster = Cluster(Cores(8), Cores(4))
    small = cluster.submit(Cores(1))
    assert cluster.where(small) == 1
    first, second = cluster.submit_many(Node(), Cores("all"))

    assert cluster.where(first) == 0
    assert list(range(8)) == cluster.starts[first].allocation.c
    assert cluster.waiting == [second]
    cluster.finish(small)
    assert list(range(4)) == cluster.starts[second].allocation.c
    later = cluster.submit(Cores(1))
    assert cluster.waiting == [later]


def test_a_part_of_a_core_keeps_a_whole_worker_waiting() -> None:
    cluster = Cluster(Cores(2))
    part = cluster.submit(Cores(0.1))
    whole = cluster.submit(Node(M=None))
    assert cluster.waiting == [whole]

    assert "not now, free is CPU_Cores([1,0:0.9]) of CPU_Cores([0-1])" in str(cluster.why(whole))
    cluster.finish(part)
    assert cluster.running == [whole]


def test_a_worker_with_as_much_free_as_another_has_in_all_is_not_taken_for_that_one() -> None:
    cluster = Cluster(Cores(8), max_overtakes=1000)
    half = cluster.submit(Cores(4))
    whole = cluster.submit(Node())
    assert cluster.waiting == [whole]

    other = cluster.join(Cores(4))
    assert cluster.where(whole) == other
    assert cluster.where(half) == 0


def test_small_tasks_without_end_do_not_starve_a_task_for_a_whole_worker() -> None:
    cluster = Cluster(Cores(4), max_overtakes=2)
    cluster.submit_many(*[Cores(1)] * 4)
    whole = cluster.submit(Node())
    for _ in range(12):
        if whole in cluster.running:
            return
        cluster.submit(Cores(1))
        cluster.finish(cluster.running[0])
    pytest.fail("it never started")


def test_a_worker_without_cores_is_never_a_whole_worker_for_a_task() -> None:
    cluster = Cluster(Memory(4))
    whole = cluster.submit(Node())

    assert "never, it has no Cores at all" in str(cluster.why(whole))
