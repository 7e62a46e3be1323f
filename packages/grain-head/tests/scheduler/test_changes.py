"""Workers and tasks that leave, groups with estimates, requests by the hundred, and reasons."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from grain.head.scheduler.explain import reserved_text
from grain.head.scheduler.scheduler import Scheduler
from grain.resource import Cores, Memory, Node, Token, WTime
from grain_testkit.scheduler_harness import Cluster, check_scheduler

if TYPE_CHECKING:
    from grain.resource import Resource


def test_the_tasks_of_a_lost_worker_wait_again_at_the_front() -> None:
    cluster = Cluster(Cores(3))
    ids = [cluster.submit(Cores(1)) for _ in range(6)]
    first = dict(cluster.starts)

    assert cluster.leave(0) == ids[:3]
    cluster.join(Cores(2))

    assert cluster.running == ids[:2]
    assert all(cluster.starts[task] is not first[task] for task in ids[:2])


def test_however_workers_are_lost_the_older_task_goes_first_again() -> None:
    cluster = Cluster(Cores(2), Cores(2))
    ids = [cluster.submit(Cores(1)) for _ in range(6)]
    first = cluster.starts[ids[0]].worker
    cluster.leave(first)
    cluster.leave(1 - first)
    cluster.join(Cores(6))

    assert cluster.order[-6:] == ids


def test_a_run_whose_request_becomes_known_waits_at_its_place_when_its_worker_is_lost() -> None:
    cluster = Cluster(Cores(2))
    scheduler = cluster.scheduler
    held, known = scheduler.queue(Cores([0])), scheduler.queue(Cores(1), 0)
    scheduler.on_adopted(7, held, 0, Cores([0]), 20, 0.0)
    scheduler.on_submitted(8, known, 10)
    cluster.settle()
    scheduler.on_reclassified(7, known, 5)
    cluster.leave(0)
    cluster.join(Cores(1))

    assert [7] == cluster.running


def test_what_a_worker_had_free_may_return_after_requests_that_are_forgotten() -> None:
    """Those came while no worker had so much free, and are more than the scheduler remembers."""
    scheduler = Scheduler()
    scheduler.on_worker_joined(0, "w", Cores(2) & Memory(1000), 0.0)

    def start(task: int, request: Resource) -> list[int]:
        scheduler.on_submitted(task, scheduler.queue(request))
        return [start.task for start in scheduler.dispatch(0.0)]

    small = Cores(1) & Memory(10)
    assert [0] == start(0, small)
    scheduler.on_finished(0, 0.0)
    for number in range(1, 600):
        assert [number] == start(number, Cores(2) & Memory(100 + number))
        scheduler.on_finished(number, 0.0)

    assert [[600], [601], []] == [start(task, small) for task in (600, 601, 602)]
    check_scheduler(scheduler)


def test_a_draining_worker_starts_nothing_and_its_runs_end_as_they_would() -> None:
    cluster = Cluster(Cores(2))
    running = cluster.submit(Cores(1))
    cluster.drain(0)
    waiting = cluster.submit(Cores(1))
    assert cluster.running == [running]
    cluster.finish(running)

    assert cluster.waiting == [waiting]


def test_a_cancelled_task_that_runs_holds_its_resources_until_it_has_ended() -> None:
    cluster = Cluster(Cores(1))
    running, waiting, last = cluster.submit_many(Cores(1), Cores(1), Cores(1))
    cluster.cancel(waiting, running, 99)
    assert cluster.running == [running]
    assert cluster.waiting == [last]
    cluster.finish(running)

    assert cluster.running == [last]


@pytest.mark.parametrize("step", [1, -1])
def test_nothing_stays_of_thousands_of_cancelled_tasks(step: int) -> None:
    """Thousands of waiting tasks are cancelled from either end, and nothing of them stays."""
    cluster = Cluster(Cores(1))
    ids = cluster.submit_many(*[Cores(1)] * 3000)
    cluster.cancel(*ids[1:][::step])

    assert list(cluster.scheduler.tasks) == ids[:1]


def test_after_8_runs_waiting_tasks_have_the_limits_of_their_group() -> None:
    cluster = Cluster(Cores(1))
    request = Cores(1) & WTime(group="g")
    for _ in range(8):
        task = cluster.submit(request)
        cluster.wait(100)
        cluster.finish(task)
    task = cluster.submit(request)

    assert cluster.starts[task].limit == 100
    assert cluster.starts[0].limit == float("inf")


def test_estimate_opens_other_workers() -> None:
    """A task that waited because of its stated limit starts when the estimate is shorter."""
    cluster = Cluster(Cores(1) & Token("a") & WTime(T=2000))
    request = Cores(1) & WTime(T=1000, group="g")
    for _ in range(7):
        cluster.finish_after(cluster.submit(request), 100)
    last = cluster.submit(request)
    short = cluster.join(Cores(1) & WTime(T=300))
    waiting = cluster.submit(request)
    first = cluster.submit(Cores(1) & Token("a"), priority=1)
    assert [first, waiting] == sorted(cluster.waiting, reverse=True)

    # The worker that is free again goes to the other one: nothing but the estimate helps.
    cluster.finish_after(last, 100)

    assert {first, waiting} == set(cluster.running)
    assert short == cluster.starts[waiting].worker


def test_a_worker_is_reserved_no_longer_for_a_task_that_needs_more_time_than_it_has() -> None:
    """The group of the task turned out to take longer, which no event on the worker says."""
    cluster = Cluster(Cores(2) & Memory(8) & WTime(T=850), max_overtakes=1)
    cluster.join(Cores(1) & Token("a"))
    measured = Cores(1) & Token("a") & WTime(group="g")
    for _ in range(7):
        cluster.finish_after(cluster.submit(measured), 100)
    last = cluster.submit(measured)
    beside = cluster.submit(Cores(1) & Memory(1))
    wide = cluster.submit(Cores(2) & Memory(1) & WTime(group="g"))
    cluster.submit(Cores(1) & Memory(1))
    late = cluster.submit(Cores(1) & Memory(1))
    cluster.finish_after(beside, 100)
    assert cluster.reservation(wide) == (0, math.inf)
    assert cluster.waiting == [wide, late]

    # 50 s are left on the first worker.
    cluster.finish(last)

    assert cluster.reservation(wide) is None
    assert cluster.waiting == [wide]


def test_a_worker_is_reserved_no_longer_for_a_task_that_waits_for_a_longer_life_now() -> None:
    """It has outlived a worker; where no longer one was here, most of its time was enough."""
    cluster = Cluster(Cores(2) & WTime(T=90), max_overtakes=1)
    scheduler = cluster.scheduler
    first = cluster.submit(Cores(1))
    scheduler.on_submitted(7, scheduler.queue(Cores(2), seen=100.0))
    cluster.settle()
    late = cluster.submit(Cores(1))
    assert cluster.running == [first, late]
    assert cluster.reservation(7) == (0, math.inf)

    scheduler.on_worker_joined(1, "w1", Cores(2) & WTime(T=200), cluster.now)
    scheduler.on_worker_draining(1)
    cluster.settle()

    assert cluster.reservation(7) is None


def test_stopped_runs_are_not_measured() -> None:
    """A run that was stopped does not count for how long the runs of its group take."""
    cluster = Cluster(Cores(1))
    request = Cores(1) & WTime(group="g")
    for _ in range(8):
        task = cluster.submit(request)
        cluster.wait(11)
        cluster.scheduler.on_finished(task, cluster.now, measured=False)
        cluster.settle()

    assert cluster.scheduler.run_times.limits("g") is None


def test_the_memory_of_requests_that_come_once_is_used_again() -> None:
    cluster = Cluster(Node(4, 1000))
    scheduler = cluster.scheduler
    for k in range(700):
        scheduler.on_submitted(k, scheduler.queue(Node(1, 1 + k / 8)))
        scheduler.dispatch(0.0)
        scheduler.on_finished(k, 0.0)
    scheduler.dispatch(0.0)
    check_scheduler(scheduler, dispatched=0.0)

    assert len(cluster.scheduler.queues) <= 258
    assert max(cluster.scheduler._queues.by_bit).bit_length() <= 258


def test_nothing_stays_of_amounts_of_memory_that_were_free_once() -> None:
    cluster = Cluster(Node(3, 5000))
    scheduler = cluster.scheduler
    # A queue with a task that runs is kept, and is not searched while no other waits in it.
    quiet = scheduler.queue(Cores(1))
    scheduler.on_submitted(5000, quiet)
    for k in range(1200):
        scheduler.on_submitted(k, scheduler.queue(Memory(1 + k) & Cores(1)))
        scheduler.dispatch(0.0)
        scheduler.on_finished(k, 0.0)
    scheduler.dispatch(0.0)
    check_scheduler(scheduler, dispatched=0.0)

    assert len(scheduler._queues.levels.of("")) <= 1024
    assert len(quiet.alternatives[0].heap) <= 1024


def test_a_new_request_is_compared_with_levels_without_workers_when_they_are_asked_for() -> None:
    cluster = Cluster(Node(3, 500))
    scheduler = cluster.scheduler
    for k in range(100):
        scheduler.on_submitted(k, scheduler.queue(Memory(1 + k) & Cores(1)))
        scheduler.dispatch(0.0)
        scheduler.on_finished(k, 0.0)
    scheduler.dispatch(0.0)
    empty = [level for level in scheduler._queues.levels.of("").values() if not level.workers]
    assert len(empty) >= 100
    known = [level.known for level in empty]
    new = scheduler.queue(Memory(7) & Cores(1)).bits
    assert known == [level.known for level in empty]
    check_scheduler(scheduler, dispatched=0.0)

    for k in range(100):  # the same levels again
        scheduler.on_submitted(100 + k, scheduler.queue(Memory(1 + k) & Cores(1)))
        scheduler.dispatch(0.0)
        scheduler.on_finished(100 + k, 0.0)
    assert all(level.mask & new for level in empty if level.known != known[-1])
    check_scheduler(scheduler)


def test_workers_with_the_same_reason_have_one_line() -> None:
    cluster = Cluster(*[Cores(4)] * 26, Cores(8))
    never = cluster.submit(Cores(9))

    asks, *lines = cluster.why(never).reasons
    assert "it asks for Cores(9)" == asks
    assert ["w0, w1, w2 and 23 more: never, ", "w26: never, "] == [
        line[: line.index("never, ") + 7] for line in lines
    ]


def test_every_reason_why_a_task_does_not_run_is_stated() -> None:
    cluster = Cluster(Cores(4), max_overtakes=1)
    first = cluster.submit(Cores(2))
    wide = cluster.submit(Cores(4))
    assert "w0: not now, free is CPU_Cores([2-3]) of CPU_Cores([0-3])" in cluster.why(wide).reasons
    cluster.submit(Cores(1))
    assert "w0 is reserved for it, and takes it once it is free enough" in cluster.why(wide).reasons
    late, later, never = cluster.submit_many(Cores(1), Cores(1), Cores(9))
    kept = "w0: it is reserved for a task that asks for Cores(4)"
    assert kept in cluster.why(late).reasons
    assert "1 older task that asks for the same goes first" in cluster.why(later).reasons
    assert any(reason.startswith("w0: never, it has") for reason in cluster.why(never).reasons)
    assert cluster.why(first).state == "running"
    assert cluster.why(99).state == "unknown"
    cluster.wait(5)
    assert cluster.why(first).reasons == ("on w0 with CPU_Cores([0-1]), for 5 s",)
    cluster.drain(0)
    assert "w0: it takes no more tasks" in cluster.why(wide).reasons
    cluster.leave(0)
    assert "no worker is here" in cluster.why(wide).reasons


def test_how_often_a_task_was_overtaken_is_stated_and_when_a_worker_will_be_reserved() -> None:
    cluster = Cluster(Cores(4), max_overtakes=2)
    narrow = [cluster.submit(Cores(1)) for _ in range(4)]
    wide = cluster.submit(Cores(4))
    cluster.submit_many(Cores(1), Cores(1))
    cluster.finish(narrow[0])
    counted = "younger tasks used what it could not, once; after 2 times a worker is reserved"
    assert any(reason.startswith(counted) for reason in cluster.why(wide).reasons)


@pytest.mark.parametrize("start", [40.0, 39.0, 40.5, math.inf])
def test_a_reserved_start_that_is_due_or_unknown_has_no_time(start: float) -> None:
    cluster = Cluster(Cores(4), max_overtakes=1)
    cluster.submit(Cores(2))
    wide = cluster.submit(Cores(4))
    cluster.submit(Cores(1))
    [reservation] = cluster.scheduler.tasks[wide].queue.reservations
    reservation.start = start

    text = "w0 is reserved for it, and takes it once it is free enough"
    assert text == reserved_text(reservation, 40.0)


def test_a_reserved_start_and_a_lack_of_time_are_stated_in_seconds() -> None:
    cluster = Cluster(Cores(4) & WTime(T=500))
    cluster.submit(Cores(3) & WTime(T=100))
    wide = cluster.submit(Cores(4))
    cluster.submit(Cores(1) & WTime(T=50))
    long = cluster.submit(Cores(1) & WTime(T=501))
    cluster.wait(40)

    assert "w0 is reserved for it, and takes it within 60 s" in cluster.why(wide).reasons
    assert "w0: never, 460 s are left and it needs 501 s" in cluster.why(long).reasons
