"""The order of tasks, and the choice of a worker."""

from __future__ import annotations

import pytest

from grain.head.scheduler.explain import needs_larger, why_never
from grain.resource import Capacity, Cores, GPUs, Node, Resource, Token, WTime
from grain_testkit.scheduler_harness import Cluster


def test_tasks_that_ask_for_the_same_start_in_the_order_of_submission() -> None:
    cluster = Cluster(Cores(1))
    ids = [cluster.submit(Cores(1)) for _ in range(4)]
    for task in ids:
        cluster.finish(task)

    assert cluster.order == ids


def test_age_counts_across_requests() -> None:
    """Between different requests, the older task goes first."""
    cluster = Cluster(Cores(2))
    running = cluster.submit(Cores(2))
    waiting = cluster.submit_many(Cores(2), Cores(1), Cores(2))
    cluster.finish(running)
    cluster.finish(waiting[0])
    cluster.finish(waiting[1])

    assert cluster.order == [running, *waiting]


def test_a_task_of_higher_priority_goes_before_older_ones() -> None:
    cluster = Cluster(Cores(1))
    running = cluster.submit(Cores(1))
    low = cluster.submit(Cores(1))
    high = cluster.submit_many(Cores(1), Cores(1), priority=1)
    cluster.finish(running)
    cluster.finish(high[0])
    cluster.finish(high[1])

    assert cluster.order == [running, *high, low]


def test_while_the_oldest_task_waits_a_younger_one_uses_what_it_cannot() -> None:
    cluster = Cluster(Cores(4))
    first = cluster.submit(Cores(3))
    wide = cluster.submit(Cores(4))
    narrow = cluster.submit(Cores(1))

    assert cluster.running == [first, narrow]
    assert cluster.waiting == [wide]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_worker_on_which_least_remains_is_taken(order: tuple[int, int]) -> None:
    """The worker on which least remains is taken, so that large holes stay for large tasks."""
    totals = [Cores(8), Cores(3)]
    cluster = Cluster(*(totals[k] for k in order))
    task = cluster.submit(Cores(2))

    assert cluster.where(task) == order.index(1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_gpus_are_left_to_those_who_ask(order: tuple[int, int]) -> None:
    """A task without GPUs prefers a worker without."""
    totals = [Cores(4) & GPUs(2), Cores(4)]
    cluster = Cluster(*(totals[k] for k in order))
    task = cluster.submit(Cores(1))

    assert cluster.where(task) == order.index(1)


def test_capacity_counts_every_task() -> None:
    """A worker of capacity 2 runs two tasks, whatever they ask for."""
    cluster = Cluster(Cores(8) & Capacity(2))
    ids = cluster.submit_many(Cores(1), Cores(2), Cores(1))

    assert cluster.running == ids[:2]


def test_a_task_starts_only_where_its_soft_limit_fits_the_time_left() -> None:
    cluster = Cluster(Cores(2) & WTime(T=100))
    fits, too_long = cluster.submit_many(
        Cores(1) & WTime(T=500, softT=100), Cores(1) & WTime(T=500, softT=101)
    )

    assert cluster.running == [fits]
    assert cluster.waiting == [too_long]
    assert cluster.starts[fits].limit == 500


def test_least_time_that_suffices() -> None:
    """A task with a limit goes where the least time remains; one without, where the most does."""
    cluster = Cluster(*(Cores(2) & WTime(T=left) for left in (1000, 50, 200)))
    limited = cluster.submit(Cores(1) & WTime(T=100))
    cluster.finish(limited)
    unlimited = cluster.submit(Cores(1))

    assert cluster.starts[limited].worker == 2
    assert cluster.where(unlimited) == 0


def test_nothing_starts_on_a_worker_whose_time_is_over() -> None:
    cluster = Cluster(Cores(1) & WTime(T=10))
    cluster.wait(11)
    task = cluster.submit(Cores(1))

    assert cluster.waiting == [task]


def test_a_task_with_a_token_runs_only_where_exactly_that_token_is() -> None:
    cluster = Cluster(Cores(1) & Token("a"), Cores(1) & Token("b"))
    task = cluster.submit(Cores(1) & Token("b"))
    stuck = cluster.submit(Cores(1) & Token("c"))

    assert cluster.where(task) == 1
    assert cluster.waiting == [stuck]


@pytest.mark.parametrize(
    ("request_", "reason", "larger"),
    [
        (Cores(9), "w0: it has CPU_Cores([0-3]), asked for Cores(9)", True),
        (GPUs(1), "w0: it has no GPUs at all", True),
        (Cores(1) & WTime(T=60), "w0: 50 s are left, 60 s needed", False),
    ],
)
def test_an_impossible_request_is_explained_worker_by_worker(
    request_: Resource, reason: str, larger: bool
) -> None:
    """The reason names what is missing on each worker."""
    cluster = Cluster(Cores(4) & WTime(T=50))

    assert why_never(cluster.scheduler, request_, 0.0) == reason
    assert larger == needs_larger(cluster.scheduler, request_)


def test_why_never_of_workers_that_are_not_there() -> None:
    """Without workers that take tasks, that is the reason."""
    cluster = Cluster()
    assert why_never(cluster.scheduler, Cores(1), 0.0) == "no worker is here"
    assert not needs_larger(cluster.scheduler, Cores(1))

    cluster.drain(cluster.join(Cores(1)))
    assert why_never(cluster.scheduler, Cores(1), 0.0) == "w0: it takes no more tasks"

    cluster.join(Node(1, 1))
    assert why_never(cluster.scheduler, Cores(1), 0.0) is None


@pytest.mark.parametrize(
    ("older", "limit", "expected"),
    [
        (GPUs(1), None, [1, 2]),
        (2 * GPUs(1), None, [1, 2]),
        # It might have fitted there, so what was returned is allocated anew.
        (Cores(4), None, [0, 1]),
        # A start of it on the other worker is known, and is reserved first.
        (GPUs(1), WTime(T=50), [0, 1]),
    ],
)
def test_a_task_takes_over_what_another_returns_while_an_older_one_waits_for_other_workers(
    older: Resource, limit: WTime | None, expected: list[int]
) -> None:
    cluster = Cluster(Cores(4), GPUs(1))
    cluster.submit(GPUs(1) if limit is None else GPUs(1) & limit)
    first, second, _ = cluster.submit_many(Cores(1), Cores(2), Cores(1))
    cluster.submit(older)
    cluster.finish(first)
    third = cluster.submit(Cores(2))
    cluster.finish(second)

    assert Cores(expected) == cluster.starts[third].allocation


@pytest.mark.parametrize("waits", [Cores(1), Cores(1) & Capacity(1)])
def test_nothing_starts_when_the_time_of_a_worker_is_over(waits: Resource) -> None:
    """Neither what finds room, nor what could take over the room of one that asked for the same."""
    cluster = Cluster(Cores(1) & Capacity(1) & WTime(T=3))
    first, second = cluster.submit_many(Cores(1), waits)
    cluster.finish_after(first, 4)

    assert [second] == cluster.waiting
    assert str(cluster.why(second)).endswith("w0: never, its time is over")
    assert "w0: its time is over" == why_never(cluster.scheduler, waits, 4)


def test_there_is_room_where_a_task_would_start_at_once() -> None:
    cluster = Cluster(Cores(2), Cores(1) & WTime(T=60))
    scheduler = cluster.scheduler

    def has_room(cores: int) -> bool:
        return scheduler.has_room(scheduler.queue(Cores(cores)), cluster.now)

    assert (True, True, False) == (has_room(1), has_room(2), has_room(3))
    cluster.submit(Cores(2))
    assert (True, False) == (has_room(1), has_room(2))
    cluster.wait(60.0)
    assert not has_room(1)
