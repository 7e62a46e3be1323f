"""Requests for several workers at once: all or none, in one decision, and none starves."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from grain.head.scheduler.explain import explain, why_never
from grain.head.scheduler.guard.starvation_guard import (
    EMPTYING,
    FEW_WORKERS,
    MAX_OVERTAKES,
    MORE_OVERTAKES,
)
from grain.resource import Cores, Host, Node, WTime, gang
from grain_testkit.scheduler_harness import Cluster, SimulatedTask, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.head.scheduler.state import Reservation
    from grain.resource import Resource


def _members(cluster: Cluster, task: int) -> list[int]:
    start = cluster.starts[task]
    return sorted([start.worker, *(worker for worker, _, _ in start.seats)])


def _finish_gang(cluster: Cluster, task: int) -> None:
    cluster.finish(task, *(seat for _, seat, _ in cluster.starts[task].seats))


def test_all_members_start_in_one_decision_or_none() -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(2))

    task = cluster.submit(3 * Cores(4))
    assert [] == cluster.running

    cluster.join(Cores(8))
    assert [0, 1, 3] == _members(cluster, task)
    assert all(allocation.N == 4 for _, _, allocation in cluster.starts[task].seats)


def test_each_member_gets_what_one_asks_for_and_the_time_limit_of_the_whole() -> None:
    cluster = Cluster(Node(4, 8), Node(4, 8))

    task = cluster.submit(2 * Node(2, 3) & WTime(T=60))

    start = cluster.starts[task]
    for allocation in (start.allocation, start.seats[0][2]):
        assert (2, 3, 60) == (allocation.N, allocation.M, allocation.T)


def test_a_member_is_free_when_its_own_part_has_ended() -> None:
    cluster = Cluster(Cores(4), Cores(4))
    task = cluster.submit(2 * Cores(4))
    seat = cluster.starts[task].seats[0]

    cluster.finish(task)
    second = cluster.submit(Cores(4))
    third = cluster.submit(Cores(4))

    assert second in cluster.running
    assert third not in cluster.running
    cluster.finish(seat[1])
    assert third in cluster.running


def test_the_next_gang_does_not_take_over_what_one_member_gives_back() -> None:
    cluster = Cluster(Cores(4), Cores(4))
    first = cluster.submit(2 * Cores(4))
    second = cluster.submit(2 * Cores(4))
    seat = cluster.starts[first].seats[0][1]

    cluster.finish(first)
    assert second not in cluster.starts
    cluster.finish(seat)
    assert [0, 1] == _members(cluster, second)


def test_younger_tasks_use_what_a_waiting_gang_cannot() -> None:
    cluster = Cluster(Cores(4), Cores(4))
    long = cluster.submit(Cores(4))

    wide = cluster.submit(2 * Cores(4))
    young = cluster.submit(Cores(4))

    assert sorted([long, young]) == cluster.running
    cluster.finish(long)
    assert wide not in cluster.running
    cluster.finish(young)
    assert wide in cluster.running


def test_an_older_gang_goes_before_what_would_take_the_place_of_a_run() -> None:
    cluster = Cluster(Cores(4), Cores(4))
    first = cluster.submit(Cores(4))
    wide = cluster.submit(2 * Cores(2))
    same = cluster.submit(Cores(4))
    waits = cluster.submit(Cores(4))
    assert sorted([first, same]) == cluster.running

    cluster.finish(same)  # it fits again, and so does half of the gang
    assert waits in cluster.running
    cluster.finish(waits, first)

    assert wide in cluster.running


def test_a_gang_that_is_overtaken_too_often_gets_all_of_its_workers() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=2)
    runs = [cluster.submit(Cores(4)), cluster.submit(Cores(4))]
    wide = cluster.submit(2 * Cores(4))
    waiting = [cluster.submit(Cores(4)) for _ in range(10)]

    while wide not in cluster.running:
        run = min(set(cluster.running) & {*runs, *waiting})
        cluster.finish(run)

    left = [task for task in waiting if task not in cluster.starts]
    assert 8 == len(left)
    assert [0, 1] == _members(cluster, wide)


def test_two_gangs_that_need_the_same_workers_start_one_after_the_other() -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(4), max_overtakes=1)
    runs = [cluster.submit(Cores(4)) for _ in range(3)]
    first = cluster.submit(2 * Cores(4))
    second = cluster.submit(2 * Cores(4))
    third = [cluster.submit(Cores(3)) for _ in range(20)]

    for run in runs:
        cluster.finish(run)
    while first not in cluster.running:
        cluster.finish(next(task for task in cluster.running if task in third))
    assert second not in cluster.starts
    _finish_gang(cluster, first)
    while second not in cluster.running:
        cluster.finish(next(task for task in cluster.running if task in third))


def test_a_reserved_worker_that_drains_is_replaced_and_the_others_stay_reserved() -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(4), max_overtakes=1)
    runs = [cluster.submit(Cores(4)) for _ in range(3)]
    wide = cluster.submit(2 * Cores(4))
    for _ in range(2):
        runs.append(cluster.submit(Cores(4)))
    cluster.finish(runs[0])  # the overtake, by which the gang becomes due
    reserved = [w for w in cluster.scheduler.workers.values() if w.reservation is not None]
    names = [one.worker.name for one in cluster.scheduler.tasks[wide].queue.reservations]
    assert {w.name for w in reserved} == set(names)
    assert 2 == len(names)
    text = f"{', '.join(names)} are reserved for it, and take it once all of them are free enough"
    assert text in cluster.why(wide).reasons

    cluster.drain(reserved[0].id)

    again = [w for w in cluster.scheduler.workers.values() if w.reservation is not None]
    assert 2 == len(again)
    assert reserved[0] not in again
    assert reserved[1] in again
    assert wide not in cluster.starts


def test_a_gang_whose_start_is_known_lets_pass_only_what_ends_before() -> None:
    cluster = Cluster(Cores(4), Cores(4))
    cluster.submit(Cores(4) & WTime(T=100))
    wide = cluster.submit(2 * Cores(4) & WTime(T=50))

    short = cluster.submit(Cores(4) & WTime(T=100))
    long = cluster.submit(Cores(4) & WTime(T=101))

    assert short in cluster.running
    cluster.finish(short)
    assert long not in cluster.running
    cluster.finish(0)
    assert wide in cluster.running


def test_members_are_of_one_group_and_on_demand_of_one_job() -> None:
    cluster = Cluster()
    for group, job in (("a", "1"), ("b", "2"), ("a", "3"), ("b", "2")):
        cluster.join(Cores(4), group=group, job=job)

    assert [1, 3] == _members(cluster, cluster.submit(gang(2, Cores(4), same="job")))
    assert [0, 2] == _members(cluster, cluster.submit(2 * Cores(4)))
    assert 0 == len(set(cluster.running) - {0, 1, -1, -2})


def test_workers_without_a_job_are_in_no_job_together() -> None:
    cluster = Cluster(Cores(4), Cores(4))

    assert cluster.submit(gang(2, Cores(1), same="job")) not in cluster.running


def test_a_gang_waits_again_if_its_root_is_lost_and_not_if_another_member_is() -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(1))
    task = cluster.submit(2 * Cores(4))
    root, seat = cluster.starts[task].worker, cluster.starts[task].seats[0]

    assert [] == cluster.leave(seat[0])
    assert [task] == cluster.running

    assert [task] == cluster.leave(root)
    assert [] == cluster.running


def test_a_gang_may_be_one_of_several_alternatives() -> None:
    cluster = Cluster(Cores(4))

    task = cluster.submit(2 * Cores(4) | Cores(3))
    assert () == cluster.starts[task].seats
    cluster.finish(task)

    cluster.join(Cores(4))
    assert [0, 1] == _members(cluster, cluster.submit(2 * Cores(4) | Cores(3)))


def test_too_few_workers_for_a_gang_are_counted() -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(1))

    why = why_never(cluster.scheduler, 3 * Cores(2), 0.0)

    assert why == (
        "3 * Cores(2) needs 3 workers at once, and only 2 that are here would do; "
        "w2: it has CPU_Cores([0]), asked for Cores(2)"
    )
    assert why_never(cluster.scheduler, 2 * Cores(2), 0.0) is None
    assert "of one job at once, and only 1 that is here" in str(
        why_never(cluster.scheduler, gang(2, Cores(2), same="job"), 0.0)
    )


def test_a_gang_that_is_overtaken_waits_for_several_workers_to_be_reserved() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=2)
    cluster.submit_many(Cores(3), Cores(3))
    wide = cluster.submit(2 * Cores(4))
    cluster.submit(Cores(1))

    reasons = "\n".join(cluster.why(wide).reasons)
    assert "once; after 2 times workers are reserved for it" in reasons


def test_a_waiting_gang_is_explained_by_how_many_workers_have_room() -> None:
    cluster = Cluster(Cores(4), Cores(4))
    cluster.submit(Cores(3))
    wide = cluster.submit(2 * Cores(2))

    reasons = "\n".join(explain(cluster.scheduler, wide, 0.0).reasons)

    assert "it asks for 2 * Cores(2)" in reasons
    assert "it needs room on 2 workers of one group at once, and 1 has it now" in reasons
    assert "w0: it has room for a member" in reasons


def test_a_gang_for_which_there_are_too_few_workers_says_so() -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(1))
    wide = cluster.submit(3 * Cores(2))

    reasons = "\n".join(explain(cluster.scheduler, wide, 0.0).reasons)

    assert "and 2 have it now; it waits for more workers, as only 2 could" in reasons


def test_a_gang_that_no_worker_could_be_a_member_of_says_so() -> None:
    cluster = Cluster(Cores(1))
    wide = cluster.submit(2 * Cores(2))

    reasons = "\n".join(explain(cluster.scheduler, wide, 0.0).reasons)

    assert "and 0 have it now; it waits for more workers, as none could" in reasons


def test_a_due_gang_takes_over_workers_that_are_reserved_for_younger_tasks() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=2)
    first = cluster.submit_many(Cores(3), Cores(3))
    wide = cluster.submit(2 * Cores(4))
    narrow = cluster.submit(Cores(4))
    passed = [cluster.submit(Cores(1)) for _ in range(2)]
    assert {one.queue.request for one in _reservations(cluster)} == {2 * Cores(4)}
    waits = [cluster.submit(Cores(1)) for _ in range(5)]

    cluster.finish(*first, *passed)

    assert [0, 1] == _members(cluster, wide)
    assert not set(cluster.starts) & {narrow, *waits}


def test_a_due_gang_collects_what_an_older_task_leaves_and_says_what_it_has() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=1)
    runs = cluster.submit_many(Cores(3), Cores(3))
    older = cluster.submit(Cores(4))
    first = cluster.submit(Cores(1))  # the overtake of the older task
    wide = cluster.submit(2 * Cores(4))
    second, third = cluster.submit_many(Cores(1), Cores(1))
    cluster.finish(first)
    assert second in cluster.running  # the overtake of the gang

    has = "1 of the 2 workers that it needs is reserved for it, w1; it gets the others when tasks"
    assert any(has in reason for reason in cluster.why(wide).reasons)

    cluster.finish(*runs, second)
    assert older in cluster.running
    reserved = "w1, w0 are reserved for it, and take it once all of them are free enough"
    assert reserved in cluster.why(wide).reasons
    cluster.finish(older)

    assert wide in cluster.running
    assert third not in cluster.starts


def test_an_emptied_member_stays_reserved_when_another_one_drains() -> None:
    cluster = Cluster(Cores(4), Cores(4), Cores(4), max_overtakes=1)
    runs = cluster.submit_many(Cores(3), Cores(3), Cores(3))
    wide = cluster.submit(2 * Cores(4))
    cluster.submit(Cores(1))
    first, second = (one.worker.id for one in _reservations(cluster))
    cluster.finish(*(run for run in runs if cluster.where(run) == first))
    young = cluster.submit(Cores(4))

    cluster.drain(second)

    assert young not in cluster.starts
    assert first in {one.worker.id for one in _reservations(cluster)}
    cluster.finish(*(run for run in cluster.running if cluster.where(run) != second))
    assert wide in cluster.running


def test_a_gang_that_starts_leaves_the_workers_of_the_next_one_reserved() -> None:
    cluster = Cluster(*[Cores(4)] * 4, max_overtakes=1)
    runs = cluster.submit_many(*[Cores(3)] * 4)
    first, second = cluster.submit_many(2 * Cores(4), 2 * Cores(4))
    cluster.submit(Cores(1))
    assert 4 == len(_reservations(cluster))
    young = cluster.submit(Cores(4))

    while first not in cluster.running:
        cluster.finish(next(run for run in cluster.running if run != runs[3]))

    assert 2 == len(_reservations(cluster))
    assert young not in cluster.starts
    cluster.finish(*(run for run in cluster.running if run >= 0 and run != first))
    assert second in cluster.running


def test_a_gang_that_starts_elsewhere_leaves_its_workers_to_all() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=1)
    first, _ = cluster.submit_many(Cores(3), Cores(3))
    wide = cluster.submit(2 * Cores(4))
    passed = cluster.submit(Cores(1))
    cluster.submit(2 * Cores(4))  # is not due
    assert 2 == len(_reservations(cluster))
    cluster.finish(first, passed)

    cluster.join(Cores(4))

    assert wide in cluster.running
    assert [] == _reservations(cluster)
    assert cluster.submit(Cores(1)) in cluster.running


def test_a_due_gang_gets_a_worker_when_the_older_task_is_cancelled() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=1)
    cluster.submit_many(Cores(3), Cores(3))
    older = cluster.submit(Cores(4))
    first = cluster.submit(Cores(1))  # the overtake of the older task
    wide = cluster.submit(2 * Cores(4))
    cluster.submit_many(Cores(1), Cores(4))
    cluster.finish(first)
    wanted = [one.queue.request for one in _reservations(cluster)]
    assert [Cores(4), 2 * Cores(4)] == wanted

    cluster.cancel(older)

    wanted = [one.queue.request for one in _reservations(cluster)]
    assert [2 * Cores(4), 2 * Cores(4)] == wanted
    assert wide not in cluster.starts


def test_a_gang_keeps_no_worker_while_too_few_could_serve_it_and_says_so() -> None:
    cluster = Cluster(Cores(4), Cores(4), max_overtakes=1)
    cluster.submit_many(Cores(3), Cores(3))
    wide = cluster.submit(2 * Cores(4))
    cluster.submit(Cores(1))
    assert 2 == len(_reservations(cluster))

    cluster.drain(0)

    assert [] == _reservations(cluster)
    none = "no worker is reserved for it, as too few could serve it now"
    assert any(none in reason for reason in cluster.why(wide).reasons)


@pytest.mark.parametrize(
    ("count", "hosts", "places"),
    [
        (2, Host(["n1", "n2"]), ["n1 n2"]),
        (2, Host(["n2", "n1"]), ["n1 n2"]),
        (3, Host(["n1", "n2"]), ["n1 n1 n2"]),  # one on each, and then another one there
        (2, Host(["n1", "n2", "n3"]), ["n1 n2", "n1 n3", "n2 n3"]),
        (2, Host("n3", others=True), ["n1 n3", "n2 n3"]),
        (3, Host(["n2", "n3"], others=True), ["n1 n2 n3"]),
        (3, Host(["n1", "n2"], "n3", others=True), ["n1 n1 n2"]),
        (2, Host(["n1", "n4"]), [""]),
        (2, Host("n4", others=True), [""]),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_gang_has_a_member_on_each_host_that_it_names(
    count: int, hosts: Host, places: list[str], apart: bool
) -> None:
    here = ["n1", "n1", "n2", "n3"]
    cluster = Cluster(*(Cores(4) & Host(name) for name in here), Cores(4))
    if apart:
        cluster.scheduler.on_apart(1, 4, "w1 did not reach w4", cluster.now)

    request = count * (Cores(4) & hosts)
    task = cluster.submit(request)

    members = _members(cluster, task) if task in cluster.starts else []
    assert " ".join(here[one] for one in members) in places
    assert (why_never(cluster.scheduler, request, 0.0) is None) == bool(members)


@pytest.mark.parametrize("known", [False, True])
def test_a_gang_that_names_hosts_gets_these_when_it_is_due(known: bool) -> None:
    offers = [Cores(4) & Host(name) for name in ("n1", "n1", "n1", "n2")]
    cluster = Cluster(*offers, max_overtakes=2)
    for _ in offers:
        cluster.submit(Cores(4) & WTime(T=100) if known else Cores(4))
    wide = cluster.submit(2 * (Cores(4) & Host(["n1", "n2"])))
    waiting = [cluster.submit(Cores(4) & WTime(T=150)) for _ in range(20)]
    why = "it needs room on 2 workers of one group, on n1 and n2 at once, and 0 have it now"
    assert why in cluster.why(wide).reasons

    while not _reservations(cluster):
        cluster.finish(min(one for one in cluster.running if cluster.where(one) != 3))
    while wide not in cluster.starts:
        # It keeps one worker on n1 and that on n2, whatever else becomes free.
        kept = {one.worker.id for one in _reservations(cluster)}
        assert len(kept & {0, 1, 2}) <= 1
        cluster.finish(min(cluster.running))

    first, second = _members(cluster, wide)
    assert first < 3 == second
    assert len([one for one in waiting if one in cluster.starts]) < 10


SIZES = ([1, 1, 2, 3, 4, 8], [1, 2, 3, 4], [2, 3, 8])


@pytest.mark.parametrize("limits", [False, True], ids=["no limits", "limits"])
@pytest.mark.parametrize("gangs", [(8,), (4,), (2, 8, 3, 8, 5)], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_backlog_of_single_tasks_overtakes_a_gang_as_often_as_is_promised(
    sizes: Sequence[int], gangs: Sequence[int], limits: bool
) -> None:
    """Ten times as many come as fit, and for two and a half times as long as can be served.

    It starts as soon as the older tasks have ended, and those that ran when it became due.
    """
    rng = random.Random(str((sizes, gangs)))

    def limited(request: Resource, seconds: float) -> Resource:
        return request & WTime(T=seconds) if limits else request

    workers, cores = 8, 8
    gap = 175 * sum(sizes) / len(sizes) / (workers * cores) / 2.5
    tasks = [
        SimulatedTask(limited(Cores(rng.choice(sizes)), 400), rng.uniform(50, 300), i * gap)
        for i in range(1500)
    ]
    first = len(tasks)
    tasks += [
        SimulatedTask(limited(n * Cores(8), 900), 600, 600.0 + 10 * k) for k, n in enumerate(gangs)
    ]

    started = simulate([Cores(cores)] * workers, tasks).started

    promised = MAX_OVERTAKES + MORE_OVERTAKES * (workers - FEW_WORKERS)
    for number in range(first, len(tasks)):
        at, began = tasks[number].at, started[number]
        younger = [
            start
            for task, start in zip(tasks, started, strict=True)
            if task.at > at and start < began
        ]
        assert promised >= len(younger)
        after = promised - promised // EMPTYING
        due = sorted(younger)[after - 1] if len(younger) >= after else began
        before = [
            start + task.duration
            for task, start in zip(tasks, started, strict=True)
            if (task.at < at or start <= due) and start < began
        ]
        assert max(before) + 300 >= began


def _reservations(cluster: Cluster) -> list[Reservation]:
    workers = cluster.scheduler.workers.values()
    return [one.reservation for one in workers if one.reservation is not None]
