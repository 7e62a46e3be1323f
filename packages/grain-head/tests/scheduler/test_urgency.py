"""Urgency: the order of the tasks of one queue, which changes nothing for other queues."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from grain.resource import Cores, Memory
from grain_testkit.scheduler_harness import Cluster


def test_the_most_urgent_task_starts_first_and_equal_ones_in_the_order_of_submission() -> None:
    cluster = Cluster(Cores(1))
    cluster.submit(Cores(1))
    plain = cluster.submit(Cores(1))
    least = cluster.submit(Cores(1), urgency=-1)
    first, second = (cluster.submit(Cores(1), urgency=5) for _ in range(2))
    most = cluster.submit(Cores(1), urgency=7.5)
    while cluster.running:
        cluster.finish(*cluster.running)

    assert [0, most, first, second, plain, least] == cluster.order


def test_urgency_changes_nothing_for_tasks_that_ask_for_something_else() -> None:
    """The most urgent task takes the place of the oldest, and no other queue waits longer."""
    cluster = Cluster(Cores(1) & Memory(1))
    cluster.submit(Cores(1))
    old = cluster.submit(Cores(1))
    other = cluster.submit(Cores(1) & Memory(1))
    urgent = cluster.submit(Cores(1), urgency=10)
    while cluster.running:
        cluster.finish(*cluster.running)

    assert [0, urgent, other, old] == cluster.order


def test_a_task_whose_worker_left_keeps_its_urgency() -> None:
    cluster = Cluster(Cores(1))
    urgent = cluster.submit(Cores(1), urgency=3)
    cluster.submit(Cores(1), urgency=2)
    cluster.leave(0)
    cluster.join(Cores(1))

    assert [urgent] == cluster.running


def test_a_cancelled_task_leaves_the_order_of_the_others_as_it_is() -> None:
    cluster = Cluster(Cores(1))
    cluster.submit(Cores(1))
    tasks = [cluster.submit(Cores(1), urgency=k) for k in range(5)]
    cluster.cancel(tasks[4], tasks[0])
    while cluster.running:
        cluster.finish(*cluster.running)

    assert [0, *tasks[3:0:-1]] == cluster.order


def test_a_task_that_waits_for_more_urgent_ones_says_for_how_many() -> None:
    cluster = Cluster(Cores(1))
    cluster.submit(Cores(1))
    plain = cluster.submit(Cores(1))
    first = cluster.submit(Cores(1), urgency=1)
    one = "1 task that asks for the same, and is more urgent or older, goes first"
    assert one in cluster.why(plain).reasons

    cluster.submit(Cores(1), urgency=1)

    more = "2 tasks that ask for the same, and are more urgent or older, go first"
    assert more in cluster.why(plain).reasons
    assert not any("go first" in reason for reason in cluster.why(first).reasons)


@given(
    st.lists(st.sampled_from([1, 2]), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from([0.0, 1.0, 2.5])), max_size=30),
    st.integers(0, 1_000_000),
)
def test_no_task_starts_before_a_more_urgent_one_that_asks_for_the_same(
    sizes: list[int], coming: list[tuple[int, float]], seed: int
) -> None:
    rng = random.Random(seed)
    cluster = Cluster(*map(Cores, sizes), Cores(2))
    asked: dict[int, tuple[int, float]] = {}
    while coming or cluster.running:
        waited = set(cluster.waiting)
        seen = len(cluster.order)
        what = rng.random()
        if coming and what < 0.5:
            cores, urgency = coming.pop()
            task = cluster.submit(Cores(cores), urgency=urgency)
            asked[task] = (cores, urgency)
            waited.add(task)
        elif cluster.waiting and what < 0.6:
            cluster.cancel(rng.choice(cluster.waiting))
        elif what < 0.65:
            cluster.leave(rng.choice(list(cluster.scheduler.workers)))
            cluster.join(Cores(2))
            continue  # those that ran wait again, and the workers are not the same
        elif cluster.running:
            cluster.finish(rng.choice(cluster.running))
        for begun in cluster.order[seen:]:
            cores, urgency = asked[begun]
            for other in waited & set(cluster.waiting):
                assert asked[other][0] != cores or asked[other][1] <= urgency
