"""Tasks that still run when the time of their worker is over: they wait for more, and then fail."""

from __future__ import annotations

import pytest

from grain.eventlog.soft_stops import MANY, SOFT_STOPS, STOPPED_SOFTLY
from grain.head.errors import BadMessage
from grain.head.hub.answers.demand import demand
from grain.head.messages import Crash, Crashed, Resolved, Started, Synced
from grain.head.scheduler.outlived import RUNS, RUNS_IN_ALL
from grain.head.scheduler.scheduler import Scheduler
from grain.resource import Cores, WTime
from grain.worker.messages import (
    TIME_OVER,
    ArrivedCount,
    Lease,
    Leaving,
    Outlived,
    PastAttempts,
)
from grain_testkit.hub_harness import HubHarness
from grain_testkit.scheduler_harness import Cluster

OVER = Outlived(110.0, 115.0)


def hand_back(harness: HubHarness, worker: str, outlived: Outlived | None = OVER) -> Lease:
    """Let the run of a worker be handed back, as its time is over, and the worker leave."""
    (lease,) = harness.sent(worker, Lease)
    harness.now += 1.0 if outlived is None else outlived.ran
    ended = harness.ended(lease, "returned", detail=TIME_OVER, outlived=outlived)
    harness.send(worker, ended, Leaving())
    return lease


def submitted(harness: HubHarness) -> str:
    return harness.synced("m", 1)


def test_a_task_that_outlives_three_workers_fails_without_quarantine(harness: HubHarness) -> None:
    mission = submitted(harness)
    leases = [
        hand_back(harness, harness.worker(f"w{number}", seconds=115.0)) for number in range(RUNS)
    ]

    crashed = harness.sent(mission, Crashed)
    assert [lease.attempt for lease in leases] == [one.crash.attempt for one in crashed]
    assert {(TIME_OVER, OVER)} == {(one.crash.how, one.crash.outlived) for one in crashed}
    (resolved,) = harness.sent(mission, Resolved)
    assert ("crashed", 3) == (resolved.ending, len(resolved.crashes))
    assert not any(lease.alone for lease in leases)
    facts = harness.hub.answer_why("m", 1, harness.now)
    why = "TaskOutlivesWorkers: no worker lasts as long as it takes"
    assert ("error", why) == (facts.ended, facts.why)
    assert [] == harness.sent(harness.worker("next", seconds=115.0), Lease)


def test_a_run_that_is_handed_back_for_another_reason_does_not_count(harness: HubHarness) -> None:
    mission = submitted(harness)
    for number in range(RUNS_IN_ALL + 1):
        hand_back(harness, harness.worker(f"w{number}", seconds=115.0), None)

    assert [] == harness.sent(mission, Crashed)
    assert [] == harness.sent(mission, Resolved)


def test_runs_that_began_late_count_only_when_there_are_many_of_them(harness: HubHarness) -> None:
    mission = submitted(harness)
    for number in range(RUNS_IN_ALL):
        assert [] == harness.sent(mission, Resolved)
        hand_back(harness, harness.worker(f"w{number}", seconds=3600.0), Outlived(300.0, 3600.0))

    assert "crashed" == harness.sent(mission, Resolved)[0].ending


def test_why_lists_the_runs_that_have_outlived_their_workers(harness: HubHarness) -> None:
    submitted(harness)
    hand_back(harness, harness.worker("w", seconds=115.0))
    before = f"ran 110 s on w, then {TIME_OVER}"
    waiting = harness.hub.why("m", 1, harness.now)
    harness.worker("v", seconds=1000.0)
    running = harness.hub.why("m", 1, harness.now)

    assert ("waiting", "running") == (waiting.state, running.state)
    assert before in waiting.reasons
    assert "it has outlived a worker, and waits for one with 114 s left" in waiting.reasons
    assert before in running.reasons


def test_a_task_waits_for_a_worker_with_more_time_left_than_it_was_seen_to_run(
    harness: HubHarness,
) -> None:
    """A worker without an end always has it."""
    harness.worker("first", seconds=600.0)
    harness.worker("second", 1, seconds=700.0)
    submitted(harness)
    assert [] == harness.sent("first", Lease)
    hand_back(harness, "second", Outlived(400.0, 700.0))  # now 200 s of the first are left
    assert [] == harness.sent("first", Lease)
    assert "first: never, 200 s are left and it needs 404 s" in (
        harness.hub.why("m", 1, harness.now).reasons
    )

    harness.worker("short", seconds=115.0)
    assert [] == harness.sent("short", Lease)
    assert [1] == [lease.task for lease in harness.sent(harness.worker("endless"), Lease)]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_task_takes_most_of_a_life_where_none_here_is_longer(
    harness: HubHarness, leaves: bool
) -> None:
    """Longer ones may never come: it fails after some of these."""
    submitted(harness)
    hand_back(harness, harness.worker("w", seconds=115.0))
    if leaves:  # a longer life was here, with too little of it left
        harness.worker("long", seconds=600.0, draining=True)
        assert [] == harness.sent(harness.worker("v", seconds=110.0), Lease)
        harness.send("long", Leaving())
    else:
        harness.worker("v", seconds=110.0)

    assert [1] == [lease.task for lease in harness.sent("v", Lease)]


def test_such_a_task_does_not_take_what_is_left_of_a_life_that_is_too_short(
    harness: HubHarness,
) -> None:
    harness.worker("v", 1, seconds=110.0)
    mission = submitted(harness)
    (first,) = harness.sent("v", Lease)
    harness.wait(40.0)
    harness.submit(mission, 2, crashes=(Crash((9, 1), "w", TIME_OVER, 0.0, OVER),))
    harness.send("v", harness.ended(first), payload=b"")

    assert [] == harness.sent("v", Lease)
    assert [2] == [lease.task for lease in harness.sent(harness.worker("w", seconds=115.0), Lease)]


def test_other_tasks_that_ask_for_the_same_start_where_such_a_task_does_not(
    harness: HubHarness,
) -> None:
    mission = submitted(harness)
    harness.worker("old", seconds=600.0)
    harness.send("old", harness.ended(harness.sent("old", Lease)[0]), payload=b"")
    harness.submit(mission, 2)
    harness.send("old", harness.ended(harness.sent("old", Lease)[0]), payload=b"")
    harness.now = 400.0
    harness.submit(
        mission, 3, crashes=(Crash((9, 1), "w", TIME_OVER, 0.0, Outlived(400.0, 450.0)),)
    )
    harness.submit(mission, 4)

    assert [4] == [lease.task for lease in harness.sent("old", Lease)]


def test_a_new_head_goes_on_counting_the_runs_that_the_mission_reports() -> None:
    harness = HubHarness(epoch=2)
    mission = harness.mission()
    runs = tuple(Crash((1, n), "w", TIME_OVER, 0.0, OVER) for n in range(RUNS - 1))
    harness.submit(mission, 1, crashes=runs)
    harness.send(mission, Synced())
    lease = hand_back(harness, harness.worker("w", seconds=115.0))

    assert not lease.alone
    assert RUNS == len(harness.sent(mission, Resolved)[0].crashes)


def test_a_worker_that_is_lost_in_a_short_life_was_ended_and_not_outlived(
    harness: HubHarness,
) -> None:
    """A minute before its end its batch system may have ended it; at half of its time, not."""
    mission = submitted(harness)
    harness.send(harness.worker("w", seconds=115.0), ArrivedCount(1))
    harness.wait(60.0)
    harness.lose("w")
    harness.wait(60.0)

    assert [] == harness.sent(mission, Crashed)
    assert "" == harness.sent(mission, Started)[-1].worker


@pytest.mark.parametrize(("seconds", "counts"), [(115.0, True), (3600.0, False)])
def test_a_run_whose_worker_is_lost_at_the_end_of_its_time_has_outlived_it(
    harness: HubHarness, seconds: float, counts: bool
) -> None:
    """A batch system may kill a worker before that has handed back what runs."""
    mission = submitted(harness)
    harness.send(harness.worker("w", seconds=seconds), ArrivedCount(1))
    harness.wait(110.0)
    harness.lose("w")
    harness.wait(60.0)

    (crashed,) = harness.sent(mission, Crashed)
    outlived = crashed.crash.outlived
    assert counts == (outlived is not None)
    assert outlived in (None, Outlived(110.0, 115.0))
    assert "" == harness.sent(mission, Started)[-1].worker


def test_what_such_a_task_needs_is_in_the_answer_for_grain_scale(harness: HubHarness) -> None:
    """No worker of the same walltime is submitted for it alone, though one that is here will do."""
    mission = submitted(harness)
    hand_back(harness, harness.worker("w", seconds=115.0))
    harness.submit(mission, 2)
    harness.worker("v", seconds=110.0, draining=True)
    harness.worker("short", seconds=20.0)  # for one of the two
    classes = demand(harness.hub.registry, harness.hub.waiting, harness.now).classes

    assert "it has outlived a worker, and waits for one with 88 s left" in (
        harness.hub.why("m", 1, harness.now).reasons
    )
    assert [(0, 1, 0.0), (1, 0, 113.6)] == sorted(
        (one.waiting, one.running, round(one.need, 1)) for one in classes
    )


def test_such_a_task_goes_where_the_most_time_is_left(harness: HubHarness) -> None:
    for name, seconds in (("brief", 500.0), ("long", 900.0), ("middle", 700.0)):
        harness.worker(name, seconds=seconds)
    mission = harness.mission()
    harness.submit(mission, 1, crashes=(Crash((9, 1), "w", TIME_OVER, 0.0, OVER),))

    assert [1] == [lease.task for lease in harness.sent("long", Lease)]


def test_a_task_needs_the_longest_time_that_it_was_seen_to_run_for(harness: HubHarness) -> None:
    """The last run may have begun late in the life of its worker."""
    runs = tuple(
        Crash((9, number), "w", TIME_OVER, 0.0, Outlived(ran, 450.0))
        for number, ran in enumerate((400.0, 100.0))
    )
    harness.submit(harness.mission(), 1, crashes=runs)

    assert [] == harness.sent(harness.worker("short", seconds=300.0), Lease)
    assert [1] == [lease.task for lease in harness.sent(harness.worker("w", seconds=450.0), Lease)]


def test_a_stated_time_counts_where_it_is_longer_than_the_time_seen() -> None:
    scheduler = Scheduler()
    request = Cores(1) & WTime(T=200)
    needs = {
        seen: scheduler.queue(request, seen=seen).alternatives[0].need
        for seen in (0.0, 100.0, 300.0)
    }

    assert {0.0: 200.0, 100.0: 200.0, 300.0: 300.0} == needs


def test_such_a_task_goes_where_the_most_time_is_left_also_with_a_time_limit() -> None:
    """Its limit is above its time as much as the user was careful."""
    cluster = Cluster(*(Cores(1) & WTime(T=seconds) for seconds in (500, 900, 700)))
    queue = cluster.scheduler.queue(Cores(1) & WTime(T=200), seen=100.0)
    cluster.scheduler.on_submitted(7, queue)
    cluster.settle()

    assert 1 == cluster.starts[7].worker


def handed_back(harness: HubHarness, status: str = "returned", **more: object) -> Lease:
    """Let a run end without an outcome on a new worker; return its lease."""
    worker = harness.worker(f"w{harness.connections}", seconds=1000.0)
    (lease,) = harness.sent(worker, Lease)
    harness.send(worker, harness.ended(lease, status, **more), Leaving())
    return lease


def test_a_run_sees_how_those_before_it_ended(harness: HubHarness) -> None:
    submitted(harness)
    leases = [
        handed_back(harness, report=b"ran", detail=STOPPED_SOFTLY, interruption="stopped"),
        handed_back(harness),  # it never began
        handed_back(harness, report=b"ran"),
        handed_back(harness, "crashed", detail="SIGSEGV"),
        handed_back(harness, report=b"ran", detail=TIME_OVER, outlived=OVER),
        handed_back(harness),
    ]
    stopped = PastAttempts(1, "stopped", STOPPED_SOFTLY)
    assert [
        None,
        stopped,
        stopped,
        PastAttempts(2, "returned"),
        PastAttempts(3, "crashed", "SIGSEGV"),
        PastAttempts(4, "returned", TIME_OVER),
    ] == [lease.past for lease in leases]
    assert leases[1].past is not None
    assert leases[1].past.stopped_softly
    again = [one.interruption for one in harness.sent("m", Started) if not one.worker]
    assert ["stopped", "", "", "", "", ""] == again


def test_a_run_that_stopped_softly_does_not_count_as_one_that_outlived_its_worker(
    harness: HubHarness,
) -> None:
    mission = submitted(harness)
    for _ in range(RUNS_IN_ALL + 1):
        handed_back(harness, report=b"ran", detail=STOPPED_SOFTLY, interruption="stopped")
    assert [] == harness.sent(mission, Resolved)
    assert [] == harness.sent(mission, Crashed)


@pytest.mark.parametrize("other", ["returned", "crashed"])
def test_a_task_fails_after_very_many_soft_stops_in_a_row(harness: HubHarness, other: str) -> None:
    mission = submitted(harness)
    for number in range(2 * SOFT_STOPS - 1):
        if number == SOFT_STOPS - 1:  # any other end has the count begin again
            handed_back(harness, other, report=b"ran")
        assert [] == harness.sent(mission, Resolved)
        handed_back(harness, report=b"ran", detail=STOPPED_SOFTLY, interruption="stopped")

    (resolved,) = harness.sent(mission, Resolved)
    *_, last = resolved.crashes
    assert ("crashed", STOPPED_SOFTLY, False) == (resolved.ending, last.how, last.blamed)
    facts = harness.hub.answer_why("m", 1, harness.now)
    why = f"TaskOutlivesWorkers: {SOFT_STOPS} times in a row, {STOPPED_SOFTLY}"
    assert ("error", why) == (facts.ended, facts.why)


def test_why_tells_of_soft_stops_and_doubts_when_they_are_many(harness: HubHarness) -> None:
    submitted(harness)
    handed_back(harness, report=b"ran", detail=STOPPED_SOFTLY, interruption="stopped")

    def said() -> str:
        return harness.hub.why("m", 1, harness.now).reasons[-1]

    assert f"attempt 1 is over: {STOPPED_SOFTLY}" == said()
    for _ in range(MANY - 1):
        handed_back(harness, report=b"ran", detail=STOPPED_SOFTLY, interruption="stopped")
    assert said().startswith(f"attempt {MANY} is over: {STOPPED_SOFTLY}; if it does not go on")
    handed_back(harness, report=b"ran")
    assert STOPPED_SOFTLY not in said()


def test_the_attempts_that_a_mission_knows_of_count(harness: HubHarness) -> None:
    mission = harness.synced()
    before = PastAttempts(2, "memory", "8 GB were too little")
    harness.submit(mission, 1, past=before)
    crash = Crash((0, 1), "v", "SIGSEGV", 1.0)
    harness.submit(mission, 2, past=before, crashes=(crash,))
    worker = harness.worker("w", 2)
    assert {1: before, 2: PastAttempts(3, "crashed", "SIGSEGV")} == {
        lease.task: lease.past for lease in harness.sent(worker, Lease)
    }
    with pytest.raises(BadMessage):
        harness.submit(mission, 3, past=PastAttempts(0, "failed"))
