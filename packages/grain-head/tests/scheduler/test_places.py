"""Places where tasks fail: what is set aside, and where tasks go that have failed."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.head.scheduler.places import (
    FIRST,
    LONGEST,
    WHOLE,
    FailingPlaces,
    RunPlace,
    SetAside,
    set_aside_texts,
)
from grain.resource import Cores, GPUs, Resource, WTime, gang
from grain_testkit.scheduler_harness import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

NODE, OTHER, THIRD = RunPlace(1), RunPlace(2), RunPlace(3)
ALL = {1: WHOLE}


def fail(
    places: FailingPlaces,
    *where: RunPlace,
    times: int = 1,
    function: str = "f",
    owner: int = 0,
    seconds: float = 0.1,
    now: float = 0.0,
) -> None:
    for _ in range(times):
        places.on_failed(owner, function, where, seconds, now)


def succeed(
    places: FailingPlaces,
    *where: RunPlace,
    times: int = 1,
    function: str = "f",
    owner: int = 0,
    seconds: float = 10.0,
) -> None:
    for _ in range(times):
        places.on_succeeded(owner, function, where, seconds)


def fail_beside(
    places: FailingPlaces,
    *where: RunPlace,
    times: int,
    successes: int = 1,
    elsewhere: tuple[RunPlace, ...] = (OTHER,),
    **more: Any,
) -> None:
    """Let runs fail at a place, of which the last one ends after some have succeeded elsewhere."""
    fail(places, *where, times=times - 1, **more)
    succeed(places, *elsewhere, times=successes, **more)
    fail(places, *where, **more)


# ---- what is set aside


def test_a_worker_is_set_aside_where_all_fails_before_and_after_a_success_elsewhere() -> None:
    places = FailingPlaces()
    fail(places, NODE, times=35)
    assert places.watches
    succeed(places, OTHER)
    assert {} == places.barred(0)
    fail(places, NODE)

    assert ALL == places.barred(0)
    assert [SetAside(NODE, 0, "f", 36, FIRST)] == places.news
    assert places.due == FIRST


@pytest.mark.parametrize(("failures", "successes"), [(3, 9), (4, 4), (5, 2), (7, 1)])
def test_the_less_is_known_of_others_the_more_failures_it_takes(
    failures: int, successes: int
) -> None:
    for times, barred in ((failures - 1, {}), (failures, ALL)):
        places = FailingPlaces()
        fail_beside(places, NODE, times=times, successes=successes)
        assert barred == places.barred(0)


def test_two_failures_are_not_enough_whatever_has_succeeded_elsewhere() -> None:
    places = FailingPlaces()
    fail_beside(places, NODE, times=2, successes=100_000)

    assert {} == places.barred(0)


def test_wrong_calls_in_a_row_that_met_one_place_first_set_nothing_aside() -> None:
    """Only this place was free for them, and the right ones ended elsewhere before and after."""
    places = FailingPlaces()
    succeed(places, OTHER, times=50)
    fail(places, NODE, times=20)
    succeed(places, OTHER, times=50)
    succeed(places, THIRD, times=50)

    assert {} == places.barred(0)
    succeed(places, NODE)
    assert not places.watches


def test_a_function_that_fails_everywhere_sets_nothing_aside() -> None:
    places = FailingPlaces()
    succeed(places, NODE, times=50)  # it has succeeded before
    for place in (NODE, OTHER, THIRD):
        fail(places, place, times=50)
    succeed(places, OTHER, function="another", times=50)
    succeed(places, OTHER, owner=7, times=50)
    fail(places, NODE)

    assert {} == places.barred(0)


def test_failures_elsewhere_speak_for_a_place() -> None:
    for times, barred in ((9, {}), (10, ALL)):
        places = FailingPlaces()
        fail(places, NODE, times=times - 1)
        for _ in range(20):
            fail(places, OTHER)
            succeed(places, OTHER)
        fail(places, NODE)
        assert barred == places.barred(0)


def test_a_function_that_fails_later_than_others_succeed_sets_nothing_aside() -> None:
    places = FailingPlaces()
    fail(places, NODE, times=20, seconds=11.0)
    succeed(places, OTHER, times=20, seconds=10.0)
    fail(places, NODE, seconds=11.0)

    assert {} == places.barred(0)


def test_a_run_that_succeeds_in_between_takes_the_suspicion_away() -> None:
    places = FailingPlaces()
    for _ in range(20):
        fail_beside(places, NODE, times=2, successes=10)
        succeed(places, NODE)

    assert {} == places.barred(0)
    assert not places.watches


events = st.tuples(
    st.sampled_from([0, 0, 1, 2]),  # owner
    st.sampled_from("fg"),
    st.integers(1, 4),  # worker
    st.sampled_from([True, True, False]),  # failed
    st.sampled_from([1, 1, 2, 8]),  # times
)


@given(st.lists(events, max_size=40))
def test_only_failures_in_a_row_beside_successes_set_a_place_aside(
    order: list[tuple[int, str, int, bool, int]],
) -> None:
    places = FailingPlaces()
    in_a_row: dict[tuple[int, str, int], int] = {}
    elsewhere: dict[tuple[int, str, int], int] = {}
    for owner, function, worker, failed, times in order:
        key = owner, function, worker
        (fail if failed else succeed)(
            places, RunPlace(worker), owner=owner, function=function, times=times
        )
        if failed:
            in_a_row[key] = in_a_row.get(key, 0) + times
            elsewhere.setdefault(key, 0)
        else:
            in_a_row.pop(key, None)
            elsewhere.pop(key, None)
            for other in elsewhere:
                if other[:2] == key[:2]:
                    elsewhere[other] += times
        own: dict[int, set[int]] = {one: set() for one in range(4)}
        for who, what, where in in_a_row:
            if in_a_row[who, what, where] >= 3 and elsewhere[who, what, where]:
                own[who].add(where)
        twice = {w for w in range(5) if sum(w in some for some in own.values()) > 1}
        for who in range(4):
            assert places.barred(who).keys() <= own[who] | twice
        if not failed:
            assert {} == {w: m for w, m in places.barred(owner).items() if w == worker} or (
                worker in twice
            )


def test_a_broken_device_is_set_aside_and_not_its_worker() -> None:
    places = FailingPlaces()
    fail_beside(places, NODE, RunPlace(1, 2), times=36, elsewhere=(NODE, RunPlace(1, 0)))
    assert {1: 0b100} == places.barred(0)

    fail_beside(places, NODE, RunPlace(1, 0), times=36, elsewhere=(NODE, RunPlace(1, 1)))
    assert {1: 0b101} == places.barred(0)


def test_a_worker_is_set_aside_whose_devices_all_fail() -> None:
    places = FailingPlaces()
    for gpu in (0, 1, 0, 1, 0, 1, 0, 1):
        fail(places, NODE, RunPlace(1, gpu))
    succeed(places, OTHER, RunPlace(2, 0), times=5)
    fail(places, NODE, RunPlace(1, 0))

    assert ALL == places.barred(0)


def test_several_broken_devices_do_not_excuse_each_other() -> None:
    places = FailingPlaces()
    for _ in range(20):
        for gpu in (0, 1, 2):
            fail(places, NODE, RunPlace(1, gpu))
    succeed(places, NODE, RunPlace(1, 3), times=12)
    for gpu in (0, 1, 2):
        fail(places, NODE, RunPlace(1, gpu))

    assert {1: 0b111} == places.barred(0)


def test_an_owner_sets_aside_for_itself_and_two_functions_of_two_for_all() -> None:
    """Two missions of one program have one fault, such as a file that only this place lacks."""
    places = FailingPlaces()
    for owner, function, others in ((5, "f", {}), (4, "f", {}), (5, "g", {}), (6, "g", ALL)):
        fail_beside(places, NODE, owner=owner, function=function, times=10)
        assert ALL == places.barred(owner)
        assert others == places.barred(7)

    assert places.forget_owner(6)
    assert {} == places.barred(7)
    assert ALL == places.barred(5)


def test_a_place_is_tried_again_ever_later_while_it_fails_and_at_once_after_a_success() -> None:
    places = FailingPlaces()
    fail_beside(places, NODE, times=10)
    now, waits = 0.0, []
    for _ in range(9):
        waits.append(places.due - now)
        assert not places.try_again(places.due - 0.1)
        now = places.due
        assert places.try_again(now)
        assert {} == places.barred(0)
        assert places.on_started(0, [NODE], now)  # only one run tries it
        assert ALL == places.barred(0)
        assert not places.on_started(0, [NODE], now)
        fail(places, NODE, now=now)
        assert ALL == places.barred(0)
    assert [min(FIRST * 2**k, LONGEST) for k in range(9)] == waits

    places.news.clear()
    succeed(places, NODE)  # a run that was under way
    assert {} == places.barred(0)
    assert [0.0] == [one.seconds for one in places.news]
    fail_beside(places, NODE, times=2, successes=20)
    assert {} == places.barred(0)


def test_another_run_tries_a_place_when_nothing_is_heard_of_the_first() -> None:
    places = FailingPlaces()
    fail_beside(places, NODE, times=10)
    for now in (FIRST, 2 * FIRST, 3 * FIRST):
        assert places.try_again(now)
        assert places.on_started(0, [NODE], now)
        assert now + FIRST == places.due
    succeed(places, NODE)

    assert ({}, False, {}) == (places.barred(0), places.some_aside, places.trials)


@pytest.mark.parametrize("works", [False, True])
def test_a_run_that_was_under_way_tells_before_another_one_tries_a_place(works: bool) -> None:
    places = FailingPlaces()
    fail_beside(places, NODE, times=5, successes=10)
    assert places.try_again(FIRST)
    if works:
        succeed(places, NODE)
    else:
        fail(places, NODE, now=FIRST)

    assert not places.on_started(0, [NODE], FIRST + 1.0)
    assert ({} if works else ALL) == places.barred(0)
    assert (float("inf") if works else FIRST + 2 * FIRST) == places.due


@pytest.mark.parametrize("tried", [False, True])
def test_a_worker_that_has_left_is_forgotten(tried: bool) -> None:
    places = FailingPlaces()
    fail_beside(places, NODE, times=10)
    if tried:
        assert places.try_again(FIRST)
    places.forget_worker(1)

    assert ({}, False, False) == (places.barred(0), places.watches, places.some_aside)
    assert not places.trials


def test_an_owner_that_has_left_tries_nothing() -> None:
    places = FailingPlaces()
    fail_beside(places, NODE, times=10)
    assert places.try_again(FIRST)
    places.forget_owner(0)

    assert (False, {}) == (places.watches, places.trials)


def test_only_the_functions_that_failed_last_are_remembered() -> None:
    places = FailingPlaces()
    for number in range(1200):
        fail(places, NODE, function=f"f{number}", times=10)
    succeed(places, OTHER, function="f0", times=10)
    fail(places, NODE, function="f0")
    assert {} == places.barred(0)
    succeed(places, OTHER, function="f1199")
    fail(places, NODE, function="f1199")
    assert ALL == places.barred(0)


def test_a_sentence_names_the_place_and_what_failed_there() -> None:
    aside = SetAside(RunPlace(1, 2), 0, b"", 7, 120.0)

    what, why = set_aside_texts(aside, "w1", "step")
    assert "GPU 2 of w1" == what
    assert (
        "set aside for 2 min: step failed there 7 times in a row, and succeeds elsewhere"
    ) == why
    assert ("w1", "") == set_aside_texts(aside._replace(place=NODE, seconds=0.0), "w1", "")
    assert "GPU 2" == set_aside_texts(aside, "", "step")[0]


# ---- where tasks go


def test_a_task_that_has_failed_waits_for_another_worker() -> None:
    of = Cluster(Cores(1), Cores(1))
    other = of.submit(Cores(1))
    free = 1 - (of.where(other) or 0)
    again = of.submit(Cores(1), avoid=(RunPlace(free),))
    younger = of.submit(Cores(1))

    assert (None, free) == (of.where(again), of.where(younger))
    assert any(
        "it has failed there, and goes elsewhere first" in one for one in of.why(again).reasons
    )
    of.finish(other)
    assert 1 - free == of.where(again)


def test_it_goes_before_those_that_wait_for_the_same_in_the_order_of_failing() -> None:
    of = Cluster(Cores(1), Cores(1))
    of.submit_many(*[Cores(1)] * 2)
    waiting = of.submit_many(*[Cores(1)] * 2)
    again = [of.submit(Cores(1), avoid=(RunPlace(0),)) for _ in range(2)]
    order = [task for task in of.running if of.where(task) == 1]
    for _ in range(4):
        [task] = [task for task in of.running if of.where(task) == 1]
        of.finish(task)
        order += [task for task in of.running if of.where(task) == 1]

    assert [*again, *waiting] == order[1:]


def test_it_goes_to_the_same_worker_when_no_other_is_here_any_more() -> None:
    of = Cluster(Cores(1), Cores(1))
    of.submit(Cores(1))
    busy = of.where(0)
    assert busy is not None
    again = of.submit(Cores(1), avoid=(RunPlace(1 - busy),))
    assert [again] == of.waiting
    of.drain(busy)

    assert 1 - busy == of.where(again)


def test_a_worker_that_joins_is_another_one() -> None:
    of = Cluster(Cores(2))
    of.submit(Cores(1))
    again = of.submit(Cores(2), avoid=(RunPlace(0),))
    of.join(Cores(2))

    assert 1 == of.where(again)


def test_a_task_that_has_failed_on_a_device_gets_another_one() -> None:
    of = Cluster(Cores(8) & GPUs(2))
    first = of.submit(GPUs(1))
    again = of.submit(GPUs(1), avoid=(RunPlace(0, 0),))
    assert GPUs([1]) == of.starts[again].allocation
    third = of.submit(GPUs(1), avoid=(RunPlace(0, 0),))
    of.finish(first)
    assert [third] == of.waiting
    assert any("it has failed on GPU 0" in one for one in of.why(third).reasons)
    both = of.submit(GPUs(1), avoid=(RunPlace(0, 0), RunPlace(0, 1)))
    assert GPUs([0]) == of.starts[both].allocation  # there is no other
    of.finish(again)
    assert GPUs([1]) == of.starts[third].allocation


def test_after_two_devices_of_the_only_worker_it_gets_a_third_one() -> None:
    of = Cluster(GPUs(4))
    again = of.submit(GPUs(1), avoid=(RunPlace(0, 0), RunPlace(0, 1)))

    assert GPUs([2]) == of.starts[again].allocation


def set_aside(of: Cluster, worker: int) -> None:
    """Let a worker be set aside."""
    fail_beside(of.scheduler.places, RunPlace(worker), times=10, elsewhere=(RunPlace(99),))
    of.drain(of.join(Cores(1)))  # when workers come and go, what is barred is looked at again


@pytest.mark.parametrize("gpu", [WHOLE, 0])
def test_what_is_set_aside_is_worse_than_what_one_task_avoids(gpu: int) -> None:
    of = Cluster(GPUs(1), GPUs(1))
    set_aside(of, 1)
    again, other = of.submit(GPUs(1), avoid=(RunPlace(0, gpu),)), of.submit(GPUs(1))

    assert (0, None) == (of.where(again), of.where(other))


def test_a_worker_that_is_set_aside_is_reserved_no_more() -> None:
    of = Cluster(Cores(2), Cores(2), max_overtakes=1)
    of.submit_many(Cores(1), Cores(1), Cores(1))
    wide = of.submit(Cores(2))
    of.submit(Cores(1))
    before = of.reservation(wide)
    assert before is not None
    set_aside(of, before[0])

    after = of.reservation(wide)
    assert after is not None
    assert 1 - before[0] == after[0]


def test_after_two_devices_of_a_worker_it_goes_to_another_worker() -> None:
    of = Cluster(GPUs(4), GPUs(4))
    one = of.submit(GPUs(1), avoid=(RunPlace(0, 0), RunPlace(0, 1)))
    other = of.submit(GPUs(1), avoid=(RunPlace(1, 0), RunPlace(1, 1)))

    assert (1, 0) == (of.where(one), of.where(other))


def test_parts_of_a_device_are_those_of_another_one() -> None:
    of = Cluster(Cores(4) & GPUs(2))
    half = of.submit(GPUs(0.5) & Cores(1))
    again = of.submit(GPUs(0.5) & Cores(1), avoid=(RunPlace(0, 0),))

    assert [0] == of.starts[half].allocation.parts()["GPUs"].ids
    assert [1] == of.starts[again].allocation.parts()["GPUs"].ids


def test_a_task_that_needs_all_devices_gets_the_one_that_is_set_aside_too() -> None:
    of = Cluster(Cores(4) & GPUs(2))
    again = of.submit(GPUs(2), avoid=(RunPlace(0, 0),))

    assert 0 == of.where(again)


def test_a_gang_goes_to_other_workers_if_there_are_enough() -> None:
    of = Cluster(Cores(2), Cores(2), Cores(2))
    again = of.submit(gang(2, Cores(2)), avoid=(RunPlace(0),))

    assert {1, 2} == {of.where(again), of.starts[again].seats[0][0]}


def test_a_task_that_avoids_a_worker_gets_another_one_reserved() -> None:
    of = Cluster(Cores(2), Cores(3), max_overtakes=1)
    runs = of.submit_many(Cores(1), Cores(2))
    assert [0, 1] == [of.where(task) for task in runs]
    again = of.submit(Cores(2), avoid=(RunPlace(0),))
    of.finish(of.submit(Cores(1), priority=1))
    while of.reservation(again) is None:
        of.submit(Cores(1))

    reserved = of.reservation(again)
    assert reserved is not None
    assert 1 == reserved[0]


def test_what_starts_where_a_task_cannot_does_not_overtake_it() -> None:
    of = Cluster(Cores(1), Cores(1), max_overtakes=1)
    of.submit(Cores(1))
    busy = of.where(0)
    assert busy is not None
    again = of.submit(Cores(1), avoid=(RunPlace(1 - busy),))
    of.finish(of.submit(Cores(1)))

    assert [] == of.scheduler.tasks[again].queue.overtakers


def test_an_urgent_task_does_not_take_a_reserved_worker_that_it_avoids() -> None:
    of = Cluster(Cores(2), Cores(1), max_overtakes=1)
    half, other = of.submit(Cores(1)), of.submit(Cores(1))
    third = of.submit(Cores(1))
    wide = of.submit(Cores(2))
    assert 1 in {of.where(task) for task in (half, other, third)}
    on_first = [task for task in (half, other, third) if of.where(task) == 0]
    of.finish(on_first[0])
    of.submit(Cores(1))  # overtakes the wide one, which gets the worker
    assert of.reservation(wide) is not None
    of.finish(on_first[1])
    again = of.submit(Cores(1), priority=1, avoid=(RunPlace(0),))

    assert of.where(again) is None


def test_very_many_tasks_that_avoid_different_places_do_not_make_as_many_queues() -> None:
    of = Cluster(*[Cores(1)] * 70)
    of.submit_many(*[Cores(1)] * 70)
    for worker in range(70):
        queue = of.scheduler.queue(Cores(1), avoid=(RunPlace(worker),))
        of.scheduler.on_submitted(1000 + worker, queue)
    of.settle()

    assert 65 == len(of.scheduler.queues)


def one_bad_worker() -> tuple[Cluster, int, int]:
    """Return a cluster, the worker on which all fails, and the task there that sets it aside."""
    of = Cluster(Cores(1), Cores(1))
    long = of.submit(Cores(1))
    bad = 1 - (of.where(long) or 0)
    for _ in range(10):
        of.end(of.submit(Cores(1)), failed=True)
    last = of.submit(Cores(1))
    of.wait(10.0)
    of.end(long)
    of.scheduler.tasks[last].started = of.now  # it began late
    return of, bad, last


def test_runs_that_fail_at_once_set_their_worker_aside_and_why_says_so() -> None:
    of, bad, last = one_bad_worker()
    waiting = of.submit_many(Cores(1), Cores(1), Cores(1))
    of.end(last, failed=True)

    assert [1 - bad, None, None] == [of.where(task) for task in waiting]
    assert any("set aside" in one for one in of.why(waiting[1]).reasons)
    assert 10.0 + FIRST == of.scheduler.next_time
    of.wait(FIRST)
    assert [bad, None] == [of.where(task) for task in waiting[1:]]
    assert "set aside" in " ".join(of.why(waiting[2]).reasons)
    of.finish(waiting[1])
    assert of.where(waiting[2]) is None  # it tells nothing, so another one tries it a minute later
    of.wait(FIRST)
    assert bad == of.where(waiting[2])


def test_a_task_that_failed_on_a_worker_which_is_set_aside_avoids_it_when_that_is_over() -> None:
    of, bad, last = one_bad_worker()
    of.submit(Cores(1))
    of.end(last, failed=True)
    again, first = of.submit(Cores(1), avoid=(RunPlace(bad),)), of.submit(Cores(1))
    of.wait(FIRST)

    assert (None, bad) == (of.where(again), of.where(first))


def test_a_task_waits_for_no_worker_that_has_too_little_time_left_for_it() -> None:
    of = Cluster(Cores(1), Cores(1) & WTime(T=100.0))
    busy = of.submit(Cores(1))
    other = of.submit(Cores(1))
    bad, good = (busy, other) if of.where(busy) == 0 else (other, busy)
    of.end(bad, failed=True)
    again = of.submit(Cores(1) & WTime(T=60.0), avoid=(RunPlace(0),))
    of.wait(39.0)
    assert of.where(again) is None
    of.wait(of.scheduler.next_time - of.now)

    assert (0, 1) == (of.where(again), of.where(good))


def test_a_task_that_avoids_devices_starts_in_the_end_beside_many_small_ones() -> None:
    """The small ones could otherwise always have one of the two devices that it can use."""
    of = Cluster(Cores(8) & GPUs(4), max_overtakes=2)
    blockers = of.submit_many(*[GPUs(1)] * 4)
    on = {of.starts[task].allocation.parts()["GPUs"].ids[0]: task for task in blockers}
    wide = of.submit(GPUs(2), avoid=(RunPlace(0, 2), RunPlace(0, 3)))
    for turn in range(20):
        of.submit(GPUs(1))
        running = {of.starts[task].allocation.parts()["GPUs"].ids[0]: task for task in of.running}
        if of.where(wide) is not None:
            break
        of.finish(running.get(turn % 2) or running[min(running)])

    assert on.keys() == {0, 1, 2, 3}
    assert GPUs([0, 1]) == of.starts[wide].allocation


def test_members_of_gangs_say_nothing_about_their_workers() -> None:
    of = Cluster(Cores(2), Cores(2))
    task = of.submit(gang(2, Cores(1)))
    of.scheduler.on_outcome(task, "f", of.now, failed=True)

    assert not of.scheduler.places.watches


# ---- campaigns


class End(NamedTuple):
    at: float
    number: int
    task: int
    failed: bool


class Campaign:
    """Tasks with retries, as a mission has them, in virtual time.

    Attributes:
        failed: how many have failed for good.
        attempts: how many runs there were.
    """

    def __init__(
        self,
        *workers: Resource,
        request: Resource,
        tasks: int,
        retries: int,
        broken: Callable[[RunPlace], bool],
        seconds: float = 10.0,
    ) -> None:
        self.of = Cluster(*workers)
        self.failed = self.attempts = 0
        counts: dict[int, int] = {}
        avoid: dict[int, tuple[RunPlace, ...]] = {}
        first: dict[int, int] = {}
        todo: list[tuple[float, int, int]] = []
        for task in self.of.submit_many(*[request] * tasks):
            first[task] = task
        running: list[End] = []
        seen: set[int] = set()
        while self.of.scheduler.tasks or todo:
            for task in self.of.running:
                if task not in seen:
                    seen.add(task)
                    self.attempts += 1
                    start = self.of.starts[task]
                    gpus = start.allocation.get(GPUs)
                    ids = gpus.ids if isinstance(gpus, GPUs) else [WHOLE]
                    bad = any(broken(RunPlace(start.worker, gpu)) for gpu in ids)
                    took = 0.1 if bad else seconds + 0.01 * (task % 7)
                    heappush(running, End(self.of.now + took, task, task, bad))
                    if bad:
                        where = tuple(RunPlace(start.worker, gpu) for gpu in ids)
                        avoid[first[task]] = (*avoid.get(first[task], ()), *where)
            until = [
                *(one.at for one in running[:1]),
                *(one[0] for one in todo[:1]),
                self.of.scheduler.next_time,
            ]
            self.of.wait(max(min(until) - self.of.now, 0.0))
            while running and running[0].at <= self.of.now:
                end = heappop(running)
                root = first[end.task]
                if end.failed:
                    counts[root] = counts.get(root, 0) + 1
                    if counts[root] > retries:
                        self.failed += 1
                    else:
                        heappush(todo, (self.of.now + 2.0 ** (counts[root] - 1), root, root))
                self.of.end(end.task, failed=end.failed)
            while todo and todo[0][0] <= self.of.now:
                _, _, root = heappop(todo)
                places = tuple(sorted(set(avoid[root])))
                first[self.of.submit(request, avoid=places)] = root


def test_a_campaign_survives_that_one_of_four_gpus_is_broken() -> None:
    campaign = Campaign(
        Cores(8) & GPUs(4),
        request=Cores(1) & GPUs(1),
        tasks=40,
        retries=3,
        broken=lambda place: place.gpu == 0,
    )

    assert 0 == campaign.failed
    assert campaign.attempts < 40 + 40 + 10  # each failed there once at most, but for trials


def test_a_campaign_survives_that_one_of_eight_nodes_is_broken() -> None:
    campaign = Campaign(
        *[Cores(4)] * 8,
        request=Cores(1),
        tasks=120,
        retries=1,
        broken=lambda place: place.worker == 3,
    )

    assert 0 == campaign.failed


def test_a_campaign_without_retries_loses_few_tasks_once_others_have_succeeded() -> None:
    """The node fails all that starts there, until the first task elsewhere has ended."""
    campaign = Campaign(
        *[Cores(1)] * 8,
        request=Cores(1),
        tasks=300,
        retries=0,
        broken=lambda place: place.worker == 3,
        seconds=1.0,
    )

    assert campaign.failed <= 12


def test_a_campaign_that_fails_everywhere_fails_as_soon_as_it_did() -> None:
    campaign = Campaign(
        *[Cores(1)] * 4, request=Cores(1), tasks=40, retries=3, broken=lambda _: True
    )

    assert (40, 160) == (campaign.failed, campaign.attempts)
    assert not campaign.of.scheduler.places.some_aside
