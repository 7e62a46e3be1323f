"""No task starves: bounded overtakes, reservations, and the tasks that may pass beside them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.resource import Cores, Memory, Resource, WTime
from grain_testkit.scheduler_harness import Cluster

if TYPE_CHECKING:
    import random


def limited(cores: int, seconds: float) -> Resource:
    return Cores(cores) & WTime(T=seconds)


def test_after_so_many_overtakes_a_worker_empties_for_the_task() -> None:
    """Without limits, a task is overtaken so many times, and then a worker empties for it."""
    cluster = Cluster(Cores(4), max_overtakes=3)
    first = cluster.submit(Cores(1))
    wide = cluster.submit(Cores(4))
    young = [cluster.submit(Cores(1)) for _ in range(3)]
    assert cluster.reservation(wide) == (0, math.inf)

    late = cluster.submit(Cores(1))
    cluster.finish(first, *young[:2])
    assert cluster.waiting == [wide, late]

    cluster.finish(young[2])
    assert cluster.running == [wide]


def test_a_reserved_worker_serves_younger_tasks_from_what_is_left_over() -> None:
    cluster = Cluster(Cores(4), max_overtakes=1)
    first = cluster.submit(Cores(2))
    wide = cluster.submit(Cores(3))
    passed = cluster.submit(Cores(1))
    beside = cluster.submit(Cores(1))

    assert cluster.reservation(wide) == (0, math.inf)
    assert cluster.running == [first, passed, beside]
    assert cluster.submit(Cores(1)) in cluster.waiting
    cluster.finish(first)
    cluster.finish(passed)
    assert wide in cluster.running


def test_a_younger_task_passes_if_it_ends_before_the_reserved_start() -> None:
    cluster = Cluster(Cores(4))
    cluster.submit(limited(3, 100))
    wide = cluster.submit(limited(4, 10))
    too_long = cluster.submit(limited(1, 101))
    short = cluster.submit(limited(1, 100))

    assert cluster.reservation(wide) == (0, 100)
    assert short in cluster.running
    assert cluster.waiting == [wide, too_long]


def test_a_younger_task_that_fits_beside_the_reservation_passes() -> None:
    """However long it takes."""
    cluster = Cluster(Cores(4))
    cluster.submit(limited(2, 100))
    wide = cluster.submit(limited(3, 10))
    unlimited = cluster.submit(Cores(1))
    another = cluster.submit(Cores(1))

    assert cluster.reservation(wide) == (0, 100)
    assert unlimited in cluster.running
    assert cluster.waiting == [wide, another]


def test_what_a_run_beside_the_reservation_held_is_used_again() -> None:
    """The resources of a run that was to stay beside the reservation are free after its end."""
    cluster = Cluster(Cores(4))
    stays = cluster.submit(limited(1, 1000))
    cluster.submit(limited(2, 100))
    wide = cluster.submit(limited(3, 10))
    waits = cluster.submit(Cores(1))
    assert cluster.reservation(wide) == (0, 100)
    assert waits in cluster.waiting

    cluster.finish(stays)

    assert waits in cluster.running
    assert wide in cluster.waiting


def test_a_task_of_higher_priority_takes_what_is_reserved() -> None:
    """A task of higher priority may take what is reserved; another reservation follows."""
    cluster = Cluster(Cores(4), max_overtakes=1)
    cluster.submit(Cores(3))
    wide = cluster.submit(Cores(4))
    passed = cluster.submit(Cores(1))
    assert cluster.reservation(wide) is not None
    cluster.finish(passed)

    urgent = cluster.submit(Cores(1), priority=1)

    assert urgent in cluster.running
    assert cluster.waiting == [wide]


def test_a_reservation_ends_when_the_time_of_its_worker_is_too_short() -> None:
    """A worker whose time became too short for the task is open to all again."""
    cluster = Cluster(Cores(2) & WTime(T=100), max_overtakes=1)
    cluster.submit(Cores(1))
    wide = cluster.submit(Cores(2) & WTime(T=60))
    passed = cluster.submit(Cores(1))
    assert cluster.reservation(wide) == (0, math.inf)
    waits = cluster.submit(Cores(1))

    cluster.wait(50)
    cluster.finish(passed)

    assert waits in cluster.running


@pytest.mark.parametrize("event", ["drain", "leave", "cancel"])
def test_a_reservation_ends_with_its_worker_or_its_task(event: str) -> None:
    """The worker drains or leaves, or the task is cancelled: the reservation ends."""
    cluster = Cluster(Cores(4), max_overtakes=1)
    cluster.submit(Cores(2))
    wide = cluster.submit(Cores(4))
    cluster.submit(Cores(1))
    waits = cluster.submit(Cores(1))
    assert waits in cluster.waiting

    if event == "cancel":
        cluster.cancel(wide)
        assert waits in cluster.running
    else:
        getattr(cluster, event)(0)
        cluster.join(Cores(1))
        assert len(cluster.running) >= 1


def test_a_task_whose_worker_drains_has_another_reserved_at_once() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=1)
    first, second = cluster.submit_many(Cores(3), Cores(3))
    wide = cluster.submit(Cores(4))
    cluster.submit(Cores(1))
    reserved = cluster.reservation(wide)
    assert reserved is not None
    worker, other = reserved[0], 1 - reserved[0]

    cluster.drain(worker)

    assert (other, math.inf) == cluster.reservation(wide)
    assert {first, second} < set(cluster.running)


def test_a_task_that_is_cancelled_behind_others_keeps_no_worker_reserved() -> None:
    cluster = Cluster(Cores(2), Cores(2), max_overtakes=1)
    narrow = [cluster.submit(Cores(1)) for _ in range(4)]
    first, second = cluster.submit(Cores(2)), cluster.submit(Cores(2))
    late = [cluster.submit(Cores(1)) for _ in range(2)]
    cluster.finish(narrow[0])
    queue = cluster.scheduler.tasks[first].queue
    assert 2 == len(queue.reservations)
    assert late[:1] == [task for task in cluster.running if task in late]

    cluster.cancel(second)
    [reservation] = queue.reservations
    free = 1 - reservation.worker.id
    cluster.finish(next(task for task in cluster.running if cluster.where(task) == free))

    assert set(late) <= set(cluster.running)


jobs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 30), st.sampled_from([0, 0, 1, 5])),
    min_size=2,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(jobs)
def test_only_an_older_task_ever_pushes_back_a_reserved_start(
    work: list[tuple[int, int, int]],
) -> None:
    cluster = Cluster(Cores(4))
    reserved: dict[int, float] = {}
    ends: dict[int, float] = {}
    seen = 0
    pending = list(reversed(work))
    while pending or cluster.scheduler.tasks:
        if pending and (pending[-1][2] == 0 or not cluster.running):
            cores, seconds, _ = pending.pop()
            cluster.submit(limited(cores, seconds))
        else:
            if pending:
                pending[-1] = (*pending[-1][:2], pending[-1][2] - 1)
            ends = {t.id: t.until for t in cluster.scheduler.tasks.values() if t.worker}
            first = min(ends, key=lambda task: (ends[task], task))
            cluster.now = ends[first]
            cluster.finish(first)
        begun, seen = cluster.order[seen:], len(cluster.order)
        reserved = {t: at for t, at in reserved.items() if not any(o < t for o in begun)}
        for task in cluster.waiting:
            reservation = cluster.reservation(task)
            head = cluster.scheduler.tasks[task].queue.head()
            if reservation is not None and head is not None and head.id == task:
                assert reservation[1] <= reserved.get(task, math.inf)
                assert reservation[1] >= cluster.now
                reserved[task] = reservation[1]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=60, max_size=100), st.integers(0, 4), st.data())
def test_a_task_is_overtaken_a_bounded_number_of_times_without_a_reservation(
    stream: list[int], bound: int, data: st.DataObject
) -> None:
    cluster = Cluster(Cores(4), max_overtakes=bound)
    cluster.submit(Cores(1))
    wide = cluster.submit(Cores(4))
    overtaken = 0
    reserved_since: set[int] | None = None
    for cores in stream:
        before = len(cluster.order)
        cluster.submit(Cores(cores))
        if cluster.where(wide) is not None:
            return
        if reserved_since is None:
            overtaken += len(cluster.order) - before
            if cluster.reservation(wide):
                reserved_since = set(cluster.running)
        assert overtaken <= max(bound, 1)
        if cluster.running and (not cluster.waiting or data.draw(st.booleans())):
            before = len(cluster.order)
            cluster.finish(data.draw(st.sampled_from(cluster.running)))
            if cluster.where(wide) is None and reserved_since is None:
                overtaken += len(cluster.order) - before
                if cluster.reservation(wide):
                    reserved_since = set(cluster.running)
    while cluster.running and cluster.where(wide) is None:
        cluster.finish(cluster.running[0])
    assert cluster.order.count(wide) == 1


class Overtakes:
    """A count, for each waiting task, of the younger tasks that started where it could have run."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.counts: dict[int, int] = {}
        self._seen = 0

    def update(self) -> set[int]:
        """Count the starts since the last call; return the tasks that they overtook."""
        scheduler = self.cluster.scheduler
        begun, self._seen = self.cluster.order[self._seen :], len(self.cluster.order)
        overtaken = set()
        for young in begun:
            worker = scheduler.workers[self.cluster.starts[young].worker]
            for task in self.cluster.waiting:
                waits = scheduler.tasks[task]
                if task < young and waits.queue.fits("", worker.supply.total):
                    self.counts[task] = self.counts.get(task, 0) + 1
                    overtaken.add(task)
        return overtaken

    def has_reservation(self, task: int) -> bool:
        queue = self.cluster.scheduler.tasks[task].queue
        return [t.id for t in queue.tasks].index(task) < len(queue.reservations)

    def could_be_reserved(self, task: int) -> bool:
        queue = self.cluster.scheduler.tasks[task].queue
        return any(
            worker.reservation is None and queue.fits("", worker.supply.total)
            for worker in self.cluster.scheduler.workers.values()
        )


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 1, 1, 2, 4, 8]), min_size=40, max_size=90),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_no_task_is_overtaken_more_often_than_the_limit_before_a_worker_is_reserved_for_it(
    sizes: list[int], stream: list[int], limit: int, rng: random.Random
) -> None:
    """It holds for every task of a queue, on any number of workers."""
    cluster = Cluster(*map(Cores, sizes), max_overtakes=limit)
    overtakes = Overtakes(cluster)
    pending = [cores for cores in stream if cores <= max(sizes)]
    while pending or cluster.running:
        if pending and (not cluster.running or rng.random() < 0.6):
            cluster.submit(Cores(pending.pop()))
        else:
            cluster.finish(rng.choice(cluster.running))
        for task in overtakes.update():
            if overtakes.counts[task] > limit and not overtakes.has_reservation(task):
                assert not overtakes.could_be_reserved(task)
    assert not cluster.waiting


def test_by_default_the_limit_grows_with_many_workers() -> None:
    cluster = Cluster(*[Cores(2)] * 4)
    assert 64 == cluster.scheduler.max_overtakes
    cluster.join(Cores(2))
    assert 96 == cluster.scheduler.max_overtakes
    cluster.leave(0)
    assert 64 == cluster.scheduler.max_overtakes


def test_what_has_overtaken_a_task_under_another_scheduler_counts_for_no_younger_one() -> None:
    cluster = Cluster(Cores(2), max_overtakes=2)
    first = cluster.submit(Cores(1))
    scheduler = cluster.scheduler
    wide, narrow = scheduler.queue(Cores(2)), scheduler.queue(Cores(1))
    for task, queue, overtaken in ((1, wide, 9), (2, wide, 9), (3, narrow, 0), (4, narrow, 0)):
        scheduler.on_submitted(task, queue, overtaken=overtaken)

    cluster.settle()
    assert [first] == cluster.running  # the worker empties for the first wide one
    cluster.finish(first)
    assert [1] == cluster.running
    assert [] == wide.overtakers


@pytest.mark.parametrize("overtaken", [0, 2])
def test_a_worker_that_comes_is_reserved_at_once_for_what_was_due_under_another_scheduler(
    overtaken: int,
) -> None:
    """Younger tasks would fill it again after each start of a scheduler."""
    cluster = Cluster(max_overtakes=2)
    scheduler = cluster.scheduler
    wide, narrow = scheduler.queue(Cores(2)), scheduler.queue(Cores(1))
    scheduler.on_submitted(0, wide, overtaken=overtaken)
    scheduler.on_submitted(1, narrow)
    scheduler.on_worker_joined(0, "w0", Cores(2), 0.0)
    scheduler.on_adopted(9, scheduler.queue(Cores(1)), 0, Cores([0]), 5, 0.0)

    cluster.settle()

    assert ([9] if overtaken else [1, 9]) == cluster.running


def test_a_task_that_is_due_stays_due_when_workers_leave_and_others_join() -> None:
    cluster = Cluster(*[Cores(2)] * 5)
    narrow = [cluster.submit(Cores(1)) for _ in range(10)]
    wide = cluster.submit(Cores(2))
    for _ in range(70):
        cluster.submit(Cores(1))
        cluster.finish(narrow.pop(0))
        narrow.append(cluster.running[-1])
    assert cluster.reservation(wide) is None

    cluster.leave(4)
    cluster.submit(Cores(1))
    cluster.finish(cluster.running[0])

    assert cluster.reservation(wide) is not None or wide in cluster.running


def test_a_new_request_starts_beside_what_is_reserved() -> None:
    cluster = Cluster(Cores(4) & Memory(8), max_overtakes=1)
    cluster.submit(Cores(3))
    wide = cluster.submit(Cores(4))
    cluster.submit(Cores(1))
    assert cluster.reservation(wide) is not None

    beside = cluster.submit(Memory(3))

    assert beside in cluster.running
    assert cluster.submit(Cores(1) & Memory(1)) in cluster.waiting


def test_a_new_request_starts_beside_what_is_reserved_though_an_older_one_fits_nowhere() -> None:
    cluster = Cluster(Cores(4) & Memory(8), max_overtakes=1)
    cluster.submit(Cores(3))
    wide = cluster.submit(Cores(4))
    cluster.submit(Cores(1))
    assert cluster.reservation(wide) is not None

    _, beside = cluster.submit_many(Cores(2), Memory(3))

    assert beside in cluster.running


def test_a_task_before_others_that_fit_nowhere_either_has_a_known_start() -> None:
    cluster = Cluster(Cores(4))
    cluster.submit(limited(4, 100))

    first, _, _ = cluster.submit_many(limited(3, 10), limited(2, 10), limited(1, 10))

    assert cluster.reservation(first) == (0, 100)


def test_the_limit_counts_for_the_whole_cluster() -> None:
    cluster = Cluster(*[Cores(2)] * 10, max_overtakes=3)
    for _ in range(20):
        cluster.submit(Cores(1))
    wide = cluster.submit(Cores(2))
    for _ in range(3):
        assert cluster.reservation(wide) is None
        young = cluster.submit(Cores(1))
        cluster.finish(cluster.running[0])
        assert young in cluster.running

    assert cluster.reservation(wide) is not None


def test_each_overtaken_task_of_a_queue_gets_a_worker_of_its_own() -> None:
    cluster = Cluster(*[Cores(2)] * 3, max_overtakes=2)
    narrow = [cluster.submit(Cores(1)) for _ in range(6)]
    first, second = cluster.submit(Cores(2)), cluster.submit(Cores(2))
    for task in narrow[:3]:
        cluster.submit(Cores(1))
        cluster.finish(task)

    reserved = cluster.scheduler.tasks[first].queue.reservations
    assert 2 == len({reservation.worker.id for reservation in reserved})
    while cluster.waiting:
        cluster.finish(min(set(cluster.running) - {first, second}))
    assert {first, second} <= set(cluster.running)


def test_a_worker_that_was_emptied_for_a_task_serves_the_next_that_asks_for_the_same() -> None:
    """Emptying costs what the worker could have done meanwhile, so it is done once for several."""
    cluster = Cluster(Cores(4), max_overtakes=2)
    narrow = [cluster.submit(Cores(1)) for _ in range(4)]
    wide = [cluster.submit(Cores(4)) for _ in range(2)]
    young = [cluster.submit(Cores(1)) for _ in range(4)]
    cluster.finish(*narrow[:2])
    assert young[:2] == [task for task in cluster.running if task in young]
    older = cluster.submit(Cores(2))
    cluster.submit(Cores(4))
    cluster.finish(*narrow[2:], *young[:2])
    assert [wide[0]] == cluster.running

    cluster.finish(wide[0])

    assert [wide[1]] == cluster.running
    assert older in cluster.waiting


def test_an_older_task_that_is_due_ends_the_service_of_an_emptied_worker() -> None:
    cluster = Cluster(Cores(4), max_overtakes=2)
    first = cluster.submit(Cores(1))
    wide = [cluster.submit(Cores(4))]
    narrow = [cluster.submit(Cores(1)) for _ in range(2)]
    older = cluster.submit(Cores(2))
    wide += [cluster.submit(Cores(4)) for _ in range(5)]
    cluster.finish(first, *narrow)
    began = []
    while cluster.running:
        began += cluster.running
        cluster.finish(*cluster.running)

    assert [*wide[:3], older] == began[:4]


def test_a_run_that_comes_back_leaves_the_next_task_that_is_due_a_worker() -> None:
    """The first of a queue has the worker that is reserved; there is another one for the next."""
    cluster = Cluster(max_overtakes=1)
    for _ in range(3):
        cluster.join(Cores(2))
        small = cluster.submit_many(Cores(1), Cores(1))
    first, second = cluster.submit_many(Cores(2), Cores(2))
    young = cluster.submit(Cores(1))
    cluster.finish(small[0])
    scheduler = cluster.scheduler
    queue, age = scheduler.tasks[first].queue, scheduler.tasks[first].age
    assert young in cluster.running
    assert 2 == len(queue.reservations)

    worker = queue.reservations[0].worker
    cluster.finish(*worker.tasks)
    assert [second] == cluster.waiting
    assert [first] == list(worker.tasks)
    cluster.drain(worker.id)
    scheduler.on_finished(first, cluster.now)
    scheduler.on_submitted(first, queue, age)
    cluster.settle()

    assert 2 == len(queue.reservations)


def test_a_worker_is_reserved_for_a_due_task_whose_runs_may_outlast_it() -> None:
    """By its limit the run would outlast the worker, but it may end before that."""
    cluster = Cluster(Cores(4) & WTime(T=30), max_overtakes=1)
    cluster.submit(Cores(2) & WTime(T=40, softT=20))
    wide = cluster.submit(Cores(3))
    cluster.submit(Cores(1))

    assert (0, math.inf) == cluster.reservation(wide)


def test_no_start_is_reserved_where_the_time_is_too_short_once_a_run_is_past_its_limit() -> None:
    """A run past its limit, whose end was not reported yet, does not make the start any earlier."""
    cluster = Cluster(Cores(4) & WTime(T=32))
    cluster.submit(limited(3, 10))
    cluster.now = 13.0
    waits, _ = cluster.submit_many(Cores(2) & WTime(T=40, softT=20), Cores(1))

    assert cluster.reservation(waits) is None
