"""Tasks that take one of several requests: which one, when, and what is said of it."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import pytest

from grain.head.scheduler.explain import needs_larger, why_never
from grain.head.scheduler.scheduler import Scheduler
from grain.resource import Capacity, Cores, Either, GPUs, Memory, Resource, WTime
from grain_testkit.scheduler_harness import Cluster, check_scheduler

if TYPE_CHECKING:
    from types import FrameType

GPU = GPUs(1)
EITHER = GPU | Cores(4)
PREFERS = Either(GPU, Cores(4), prefer=60)


def taken(cluster: Cluster, task: int) -> str:
    """Return the alternative by which a task runs."""
    return cluster.scheduler.taken[task].request.ask()


def test_a_task_takes_the_first_alternative_for_which_there_is_room() -> None:
    cluster = Cluster(Cores(8), GPUs(1) & Cores(1))
    first, second, third = cluster.submit_many(EITHER, EITHER, EITHER)

    assert [1, 0, 0] == [cluster.where(task) for task in (first, second, third)]
    assert ["GPUs(1)", "Cores(4)", "Cores(4)"] == [taken(cluster, t) for t in cluster.running]
    assert GPUs([0]) == cluster.starts[first].allocation
    assert Cores([0, 1, 2, 3]) == cluster.starts[second].allocation


def test_a_freed_worker_goes_to_the_oldest_task_by_whichever_alternative_fits_there() -> None:
    cluster = Cluster(Cores(4), GPUs(1))
    running = cluster.submit_many(Cores(4), GPUs(1))
    waits = cluster.submit_many(EITHER, EITHER)

    cluster.finish(running[0])
    assert (0, "Cores(4)") == (cluster.where(waits[0]), taken(cluster, waits[0]))
    cluster.finish(running[1])
    assert (1, "GPUs(1)") == (cluster.where(waits[1]), taken(cluster, waits[1]))


def test_of_two_runs_that_end_at_once_the_next_task_takes_the_place_of_its_first_choice() -> None:
    cluster = Cluster(Cores(4) & GPUs(1))
    running = cluster.submit_many(EITHER, EITHER)
    waits = cluster.submit_many(EITHER, EITHER)

    cluster.finish(*running)

    assert ["GPUs(1)", "Cores(4)"] == [taken(cluster, task) for task in waits]


def test_the_time_limit_is_that_of_the_alternative() -> None:
    request = GPU & WTime(T=10) | Cores(4) & WTime(T=100)
    cluster = Cluster(Cores(4), GPUs(1))
    slow = cluster.submit_many(request, request)

    assert [10, 100] == [cluster.starts[task].limit for task in slow]
    assert WTime(T=100) == cluster.starts[slow[1]].allocation.get(WTime)


def test_an_alternative_without_enough_time_is_passed_over() -> None:
    cluster = Cluster(GPUs(1) & WTime(T=50), Cores(4))
    task = cluster.submit(GPU & WTime(T=60) | Cores(4) & WTime(T=600))

    assert 'Cores(4) & WTime(T="00:10:00")' == taken(cluster, task)


# ---- preferred alternatives


def test_a_task_waits_so_long_for_its_first_alternative() -> None:
    cluster = Cluster(Cores(8), GPUs(1))
    first = cluster.submit(PREFERS)
    cluster.wait(10)
    second, third = cluster.submit_many(PREFERS, PREFERS)
    assert "GPUs(1)" == taken(cluster, first)
    assert 70 == cluster.scheduler.next_time

    cluster.wait(59)
    assert [second, third] == cluster.waiting
    cluster.wait(1)
    assert ["Cores(4)", "Cores(4)"] == [taken(cluster, task) for task in (second, third)]
    assert math.inf == cluster.scheduler.next_time


def test_a_task_that_waits_for_its_first_alternative_takes_it_as_soon_as_it_is_free() -> None:
    cluster = Cluster(Cores(8), GPUs(1))
    first, second = cluster.submit_many(PREFERS, PREFERS)

    cluster.finish_after(first, 30)

    assert "GPUs(1)" == taken(cluster, second)


def test_each_task_waits_for_itself() -> None:
    cluster = Cluster(Cores(8), GPUs(1))
    cluster.submit(GPU)
    early = cluster.submit(PREFERS)
    cluster.wait(30)
    late = cluster.submit(PREFERS)

    cluster.wait(30)
    assert (early in cluster.running, late in cluster.running) == (True, False)
    assert 90 == cluster.scheduler.next_time
    cluster.wait(30)
    assert late in cluster.running


def test_no_task_waits_for_an_alternative_that_is_impossible_here() -> None:
    cluster = Cluster(Cores(8))
    tasks = cluster.submit_many(PREFERS, PREFERS, PREFERS, PREFERS)
    assert ["Cores(4)", "Cores(4)"] == [taken(cluster, task) for task in cluster.running]

    gpus = cluster.join(GPUs(1))
    assert "GPUs(1)" == taken(cluster, tasks[2])
    cluster.finish(tasks[0])
    assert [tasks[3]] == cluster.waiting  # there is a GPU to wait for
    cluster.leave(gpus)
    assert "Cores(4)" == taken(cluster, tasks[2])
    cluster.finish(tasks[1])
    assert "Cores(4)" == taken(cluster, tasks[3])


def test_a_run_that_is_lost_waits_again() -> None:
    cluster = Cluster(Cores(8), GPUs(1))
    task = cluster.submit(PREFERS)
    cluster.wait(100)
    cluster.join(GPUs(1))
    other = cluster.submit(GPU)
    cluster.submit(Cores(8))
    behind = cluster.submit(PREFERS)
    cluster.wait(100)
    cluster.leave(1)

    assert [task, behind] == cluster.waiting
    cluster.finish(2)
    assert other in cluster.running
    cluster.wait(59)
    assert [task, behind] == cluster.waiting
    cluster.wait(1)
    assert ["Cores(4)", "Cores(4)"] == [taken(cluster, one) for one in (task, behind)]


def test_tasks_of_others_use_what_a_task_does_not_take_yet() -> None:
    cluster = Cluster(Cores(4), GPUs(1))
    cluster.submit_many(GPU, PREFERS)
    assert cluster.submit(Cores(4)) in cluster.running


def test_an_opened_alternative_of_an_overtaken_task_is_reserved() -> None:
    cluster = Cluster(Cores(4), GPUs(2), max_overtakes=1)
    cluster.submit_many(GPU, GPU, Cores(1))
    waits = cluster.submit(Either(GPUs(2), Cores(4), prefer=60))
    cluster.submit(Cores(1))
    assert cluster.reservation(waits) is None  # it would not take the cores yet

    cluster.wait(60)
    cluster.finish(2)
    last = cluster.submit(Cores(1))
    assert (0, math.inf) == cluster.reservation(waits)

    cluster.finish(4, last)
    assert (0, "Cores(4)") == (cluster.where(waits), taken(cluster, waits))


def test_a_task_that_waits_again_and_is_cancelled_before_the_next_decision_is_forgotten() -> None:
    scheduler = Scheduler()
    queue = scheduler.queue(PREFERS)
    scheduler.on_submitted(1, queue, 10)
    scheduler.on_submitted(2, queue, 5)  # the older, as it has run before
    scheduler.on_cancelled(1)
    scheduler.on_cancelled(2)

    assert [] == scheduler.dispatch(0.0)
    check_scheduler(scheduler, dispatched=0.0)


def test_a_due_task_has_an_alternative_reserved_that_opens_as_it_becomes_the_oldest() -> None:
    """The one before it waited anew for the first alternative, as its run was lost."""
    cluster = Cluster(Cores(2) & GPUs(1), GPUs(1), max_overtakes=1)
    cluster.drain(1)
    request = Either(GPU, Cores(2), prefer=10)
    small, lost, waits, overtakes = cluster.submit_many(Cores(1), request, request, Cores(1))
    assert [small, lost, overtakes] == cluster.running
    cluster.wait(20)
    cluster.leave(0)
    cores = cluster.join(Cores(2))
    assert [small, overtakes] == cluster.running
    assert cluster.reservation(waits) is None

    cluster.cancel(lost)

    assert (cores, math.inf) == cluster.reservation(waits)


# ---- reservations


def test_the_start_of_the_alternative_that_comes_first_is_reserved() -> None:
    cluster = Cluster(Cores(4), GPUs(1))
    cluster.submit_many(Cores(3) & WTime(T=50), GPU & WTime(T=100))
    waits, _ = cluster.submit_many(EITHER, Cores(1) & WTime(T=10))

    assert (0, 50) == cluster.reservation(waits)


def test_a_task_with_a_reserved_worker_starts_by_another_alternative_that_fits_before() -> None:
    cluster = Cluster(Cores(4), GPUs(1), max_overtakes=1)
    narrow = cluster.submit_many(Cores(1), Cores(1), GPU)
    waits = cluster.submit(EITHER)
    cluster.submit(Cores(1))
    assert cluster.reservation(waits) is not None

    cluster.finish(narrow[2])

    assert "GPUs(1)" == taken(cluster, waits)
    assert cluster.submit(Cores(1)) in cluster.running


# ---- cost


def lines_of_a_cycle(waiting: int, later: float) -> int:
    """Return the lines of Python for a submission, an end and a start beside so many others."""
    scheduler = Scheduler()
    for worker in range(20):
        scheduler.on_worker_joined(worker, f"w{worker}", Cores(8) & GPUs(1), 0.0)
    requests = [Either(GPU, Cores(cores), prefer=60) for cores in range(1, 9)]
    queues = [scheduler.queue(request) for request in requests]
    for task in range(waiting):
        scheduler.on_submitted(task, queues[task % 8])
    running = [start.task for start in scheduler.dispatch(0.0)]
    running += [start.task for start in scheduler.dispatch(later)]
    before, lines = sys.gettrace(), 0

    def count(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        for task in range(waiting, waiting + 16):
            scheduler.on_submitted(task, queues[task % 8])
            scheduler.on_finished(running.pop(0), later)
            running += [start.task for start in scheduler.dispatch(later)]
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("later", [10.0, 100.0], ids=["they wait for the first", "any will do"])
def test_a_decision_costs_by_distinct_requests_and_not_by_tasks(later: float) -> None:
    # Garbage of other tests that is collected meanwhile may run some lines, too.
    assert lines_of_a_cycle(400, later) == pytest.approx(lines_of_a_cycle(8000, later), rel=0.02)


# ---- questions


def test_every_alternative_is_explained_on_each_worker() -> None:
    cluster = Cluster(Cores(2), GPUs(1))
    cluster.submit(GPU)
    waits = cluster.submit(PREFERS)
    first, *reasons = cluster.why(waits).reasons

    assert "it asks for Either(GPUs(1), Cores(4), prefer=60)" == first
    assert "it waits only for GPUs(1), for another 60 s; then any will do" == reasons[0]
    assert reasons[1:] == [
        (
            "w0: for GPUs(1) never, it has no GPUs at all; for Cores(4) never, it has "
            "CPU_Cores([0-1]), asked for Cores(4)"
        ),
        (
            "w1: for GPUs(1) not now, free is GPUs([]) of GPUs([0]); for Cores(4) never, it has "
            "no Cores at all"
        ),
    ]
    assert "on w1 with GPUs([0]), by its alternative" not in str(cluster.why(0))
    cluster.finish(0)
    assert "with GPUs([0]), by its alternative GPUs(1), for 0 s" in str(cluster.why(waits))


def test_a_request_is_impossible_only_if_all_alternatives_are() -> None:
    scheduler = Cluster(Cores(2), Cores(3)).scheduler

    assert why_never(scheduler, GPU | Cores(2), 0.0) is None
    assert not needs_larger(scheduler, GPU | Cores(2))
    assert needs_larger(scheduler, EITHER)
    assert (
        "w0: for GPUs(1) it has no GPUs at all, and for Cores(4) it has CPU_Cores([0-1]), asked "
        "for Cores(4); w1: for GPUs(1) it has no GPUs at all, and for Cores(4) it has "
        "CPU_Cores([0-2]), asked for Cores(4)"
    ) == why_never(scheduler, EITHER, 0.0)


@pytest.mark.parametrize(
    ("held", "index"),
    [
        (GPUs([1]), 0),
        (Cores([3, 4, 5, 6]), 1),
        (Cores([3, 4, 5, 6]) & Capacity(1), 1),
        (Cores([1, 2, 3]) & Memory(8), 2),
        (Cores([3]), 0),  # none of them: what it was given cannot be told
    ],
)
def test_an_adopted_run_has_the_alternative_that_its_resources_tell(
    held: Resource, index: int
) -> None:
    scheduler = Scheduler()
    scheduler.on_worker_joined(0, "w", Cores(8) & GPUs(2) & Memory(8) & Capacity(9), 0.0)
    queue = scheduler.queue(GPU | Cores(4) | Cores(3) & Memory(8))
    scheduler.on_adopted(1, queue, 0, held, 1, 0.0)

    assert index == scheduler.taken[1].index
    scheduler.on_reclassified(1, scheduler.queue(Cores(1)), 1)
    assert {} == scheduler.taken
    scheduler.on_finished(1, 1.0)
    assert [] == scheduler.dispatch(1.0)
    check_scheduler(scheduler, dispatched=1.0)


def test_the_longest_life_counts_that_any_alternative_has() -> None:
    scheduler = Scheduler()
    scheduler.on_worker_joined(0, "gpus", GPUs(1) & WTime(T=90), 0.0)
    scheduler.on_worker_joined(1, "cores", Cores(4) & WTime(T=200), 0.0)

    assert 100 == scheduler.queue(EITHER, seen=100.0).least


def test_queues_with_alternatives_come_and_go_with_their_bits() -> None:
    scheduler = Scheduler()
    scheduler.on_worker_joined(0, "w", Cores(8), 0.0)
    for k in range(600):
        scheduler.on_submitted(k, scheduler.queue(Cores(1 + k % 8) | Memory(1 + k) | GPUs(1 + k)))
        scheduler.dispatch(0.0)
        scheduler.on_finished(k, 0.0)
    scheduler.dispatch(0.0)
    check_scheduler(scheduler, dispatched=0.0)

    assert len(scheduler.queues) < 300
    assert len(scheduler._queues.by_bit) == 3 * len(scheduler.queues)
