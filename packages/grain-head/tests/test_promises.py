"""No task starves: bounded overtakes, reservations, and what may pass beside them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.head.testing import Cluster
from grain.resource import Cores, Resource, WTime


def limited(cores: int, seconds: float) -> Resource:
    return Cores(cores) & WTime(T=seconds)


def test_bounded_overtakes_then_drain() -> None:
    """Without limits, a task is overtaken so many times, and then its worker drains for it."""
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


def test_promise_leaves_what_it_does_not_need() -> None:
    """A draining worker goes on serving younger tasks from what the promised one leaves over."""
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


def test_backfilling() -> None:
    """A younger task passes if it ends before the promised start, and not if it pushes it back."""
    cluster = Cluster(Cores(4))
    cluster.submit(limited(3, 100))
    wide = cluster.submit(limited(4, 10))
    too_long = cluster.submit(limited(1, 101))
    short = cluster.submit(limited(1, 100))

    assert cluster.reservation(wide) == (0, 100)
    assert short in cluster.running
    assert cluster.waiting == [wide, too_long]


def test_backfilling_beside() -> None:
    """A younger task that fits beside the promised one passes, however long it takes."""
    cluster = Cluster(Cores(4))
    cluster.submit(limited(2, 100))
    wide = cluster.submit(limited(3, 10))
    unlimited = cluster.submit(Cores(1))
    another = cluster.submit(Cores(1))

    assert cluster.reservation(wide) == (0, 100)
    assert unlimited in cluster.running
    assert cluster.waiting == [wide, another]


def test_room_of_those_that_stay_is_used_again() -> None:
    """When a run ends that was to stay beside the promised task, its room is free for others."""
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


def test_older_task_takes_promised_room() -> None:
    """A task of higher priority may take promised room; the promise is then made anew."""
    cluster = Cluster(Cores(4), max_overtakes=1)
    cluster.submit(Cores(3))
    wide = cluster.submit(Cores(4))
    passed = cluster.submit(Cores(1))
    assert cluster.reservation(wide) is not None
    cluster.finish(passed)

    urgent = cluster.submit(Cores(1), priority=1)

    assert urgent in cluster.running
    assert cluster.waiting == [wide]


def test_promise_that_time_has_made_worthless() -> None:
    """A worker whose time became too short for the promised task is everybody's again."""
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
def test_end_of_a_promise(event: str) -> None:
    """When the worker drains or leaves, or the task is cancelled, nothing is kept any more."""
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


jobs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 30), st.sampled_from([0, 0, 1, 5])),
    min_size=2,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(jobs)
def test_promised_starts_are_kept(work: list[tuple[int, int, int]]) -> None:
    """With all limits known, only an older task ever pushes back a promised start."""
    cluster = Cluster(Cores(4))
    promised: dict[int, float] = {}
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
        promised = {t: at for t, at in promised.items() if not any(o < t for o in begun)}
        for task in cluster.waiting:
            made = cluster.reservation(task)
            head = cluster.scheduler.tasks[task].queue.head()
            if made is not None and head is not None and head.id == task:
                assert made[1] <= promised.get(task, math.inf)
                assert made[1] >= cluster.now
                promised[task] = made[1]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=60, max_size=100), st.integers(0, 4), st.data())
def test_no_starvation(stream: list[int], bound: int, data: st.DataObject) -> None:
    """Whatever comes after it, a task is overtaken at most so often without its room being kept."""
    cluster = Cluster(Cores(4), max_overtakes=bound)
    cluster.submit(Cores(1))
    wide = cluster.submit(Cores(4))
    overtaken = 0
    room_kept_since: set[int] | None = None
    for cores in stream:
        before = len(cluster.order)
        cluster.submit(Cores(cores))
        if cluster.where(wide) is not None:
            return
        if room_kept_since is None:
            overtaken += len(cluster.order) - before
            if cluster.reservation(wide):
                room_kept_since = set(cluster.running)
        assert overtaken <= max(bound, 1)
        if cluster.running and (not cluster.waiting or data.draw(st.booleans())):
            before = len(cluster.order)
            cluster.finish(data.draw(st.sampled_from(cluster.running)))
            if cluster.where(wide) is None and room_kept_since is None:
                overtaken += len(cluster.order) - before
                if cluster.reservation(wide):
                    room_kept_since = set(cluster.running)
    while cluster.running and cluster.where(wide) is None:
        cluster.finish(cluster.running[0])
    assert cluster.order.count(wide) == 1
