"""Workers that could not reach each other, and the gangs that avoid them."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grain.head.scheduler.apart import FIRST, LEFT_OUT, ApartWorkers
from grain.resource import Cores, WTime
from grain_testkit.scheduler_harness import Cluster


def chosen(apart: ApartWorkers, count: int, *workers: int) -> list[int]:
    return apart.choose(workers, count, lambda one: one)


def members(cluster: Cluster, task: int) -> set[int]:
    start = cluster.starts[task]
    return {start.worker, *(worker for worker, _, _ in start.seats)}


def test_two_that_have_failed_are_not_together_and_others_go_first() -> None:
    apart = ApartWorkers()
    apart.on_failed(1, 2, "", 0.0)

    assert [3, 4] == chosen(apart, 2, 1, 2, 3, 4)
    assert [3, 1] == chosen(apart, 2, 1, 2, 3)
    assert [1] == chosen(apart, 2, 1, 2)


def test_each_failure_keeps_a_pair_apart_for_twice_as_long_but_not_above_ten_minutes() -> None:
    apart = ApartWorkers()
    now = 0.0
    for times in range(9):
        apart.on_failed(1, 2, "", now)
        assert now + min(FIRST * 2**times, 600.0) == apart.next_end
        now = apart.next_end
        assert not apart.on_time(now - 0.1)
        assert [1] == chosen(apart, 2, 1, 2)
        assert apart.on_time(now)
        assert [1, 2] == chosen(apart, 2, 1, 2)


def test_a_worker_that_has_failed_with_two_others_is_in_no_gang_for_longer() -> None:
    apart = ApartWorkers()
    apart.on_failed(1, 9, "9 did not join 1", 0.0)
    apart.on_failed(2, 9, "9 did not join 2", 50.0)

    assert [1, 2] == chosen(apart, 3, 9, 1, 2)
    assert [8] == chosen(apart, 2, 9, 8)
    assert [
        "9 did not join 1: tasks take others for another 500 s",
        "9 did not join 2: tasks take others for another 500 s",
    ] == apart.reasons(150.0)
    assert [9] == chosen(apart, 1, 9, 1)
    while apart.next_end < 50.0 + LEFT_OUT:
        assert apart.on_time(apart.next_end)
        assert [8] == chosen(apart, 2, 9, 8)
    assert apart.on_time(50.0 + LEFT_OUT)
    assert [8, 9] == chosen(apart, 2, 9, 8)


def test_workers_that_are_left_out_are_chosen_where_too_few_others_could_serve() -> None:
    apart = ApartWorkers()
    for one, other in ((1, 2), (1, 3), (2, 3)):
        apart.on_failed(one, other, "", 0.0)

    assert [4] == chosen(apart, 2, 1, 2, 4)
    assert [4, 1] == apart.choose([1, 2, 4], 2, int, [1, 2, 3, 4])
    assert [4] == apart.choose([1, 2, 4], 2, int, [1, 2, 3, 4, 5])
    assert [1] == apart.choose([1, 2], 2, int, [1, 2])


@pytest.mark.parametrize("due", [False, True])
def test_a_gang_starts_where_most_of_the_workers_have_failed_with_two_others(due: bool) -> None:
    cluster = Cluster(*(Cores(1),) * 4, max_overtakes=1)
    for pair in ((0, 1), (0, 2), (1, 2)):
        cluster.scheduler.on_apart(*pair, "", cluster.now)
    runs = cluster.submit_many(*(Cores(1),) * 4) if due else []
    gang = cluster.submit(2 * Cores(1))
    runs += cluster.submit_many(*(Cores(1),) * 12) if due else []
    for run in runs[:8]:
        if gang not in cluster.starts:
            cluster.finish(run)

    assert 3 in members(cluster, gang)
    assert 2 == len(members(cluster, gang))


def test_a_gang_looks_again_when_a_worker_drains_without_which_too_few_are_left() -> None:
    cluster = Cluster(*(Cores(1),) * 4)
    for pair in ((0, 1), (1, 2)):
        cluster.scheduler.on_apart(*pair, "", cluster.now)
    cluster.wait(FIRST)
    runs = cluster.submit_many(*(Cores(1),) * 4)
    for run in runs:
        if cluster.starts[run].worker != 3:
            cluster.finish(run)
    gang = cluster.submit(3 * Cores(1))
    assert gang not in cluster.starts

    cluster.drain(3)

    assert {0, 1, 2} == members(cluster, gang)


_PAIRS = st.sets(st.sampled_from([*combinations(range(7), 2)]))


@given(before=_PAIRS, failed=_PAIRS, order=st.permutations(range(7)), count=st.integers(2, 6))
@example(
    before={(1, 2), (0, 3)},
    failed={(0, 1), (1, 3), (4, 5), (4, 6), (5, 6)},
    order=[1, 0, 2, 3, 4, 5, 6],
    count=4,
)
def test_as_many_are_chosen_as_can_be_together_whatever_their_order(
    before: set[tuple[int, int]], failed: set[tuple[int, int]], order: list[int], count: int
) -> None:
    """Those that failed before go last, and may be together again."""
    apart = ApartWorkers()
    for one, other in before:
        apart.on_failed(one, other, "", 0.0)
    for one, other in failed:
        apart.on_failed(one, other, "", FIRST / 2)
    apart.on_time(FIRST)
    most = max(
        size
        for size in range(count + 1)
        for some in combinations(range(7), size)
        if failed.isdisjoint(combinations(some, 2))
    )

    members = apart.choose(order, count, lambda one: one, order)

    assert most == len(members)
    assert failed.isdisjoint(combinations(sorted(members), 2))


def test_workers_of_two_networks_are_together_with_those_of_their_own() -> None:
    apart = ApartWorkers()
    for one, other in product(range(0, 24, 2), range(1, 24, 2)):
        apart.on_failed(one, other, "", 0.0)

    members = apart.choose(range(24), 12, lambda one: one, range(24))

    assert members in ([*range(0, 24, 2)], [*range(1, 24, 2)])


def test_a_worker_is_not_alone_any_more_when_one_of_the_others_has_left() -> None:
    apart = ApartWorkers()
    apart.on_failed(1, 9, "", 0.0)
    apart.on_failed(2, 9, "", 0.0)

    apart.on_left(1)

    assert [8, 9] == chosen(apart, 2, 9, 8)


def test_what_failed_is_forgotten_when_both_have_been_in_a_gang() -> None:
    apart = ApartWorkers()
    apart.on_failed(1, 2, "", 0.0)
    apart.on_begun([1, 3])
    assert apart.known

    apart.on_begun([1, 2, 3])

    assert not apart.known
    assert [1, 2] == chosen(apart, 2, 1, 2)


def test_a_gang_starts_on_another_pair_at_once_and_on_that_pair_later() -> None:
    cluster = Cluster(Cores(4), Cores(4))
    cluster.scheduler.on_apart(0, 1, "w1 did not join w0: silence", cluster.now)

    first = cluster.submit(2 * Cores(3))
    why = "w1 did not join w0: silence: no task has both for another 10 s"
    assert why in cluster.why(first).reasons
    cluster.join(Cores(4))
    assert 2 in members(cluster, first)
    cluster.drain(2)
    second = cluster.submit(2 * Cores(1))
    assert second not in cluster.starts

    cluster.wait(FIRST)

    assert {0, 1} == members(cluster, second)


@pytest.mark.parametrize("limits", [False, True])
def test_a_gang_that_is_due_gets_workers_that_may_be_together(limits: bool) -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(4), max_overtakes=1)
    asked = Cores(3) & WTime(T=50) if limits else Cores(3)
    runs = cluster.submit_many(asked, asked, asked)
    wide = cluster.submit(2 * Cores(4))
    passed = cluster.submit(Cores(1) & WTime(T=50) if limits else Cores(1))
    first = {w.id for w in cluster.scheduler.workers.values() if w.reservation is not None}
    assert 2 == len(first)

    one, other = first
    cluster.scheduler.on_apart(one, other, "", cluster.now)
    cluster.settle()

    second = {w.id for w in cluster.scheduler.workers.values() if w.reservation is not None}
    assert 2 == len(second)
    assert first != second
    cluster.finish(*runs, passed)
    assert first != members(cluster, wide)
