"""Peers that the hub loses: tasks that wait for their return, and crashes."""

from __future__ import annotations

import pytest

from grain.edge.mission_ids import lasting_id
from grain.edge.questions import Ask
from grain.head.messages import (
    Crashed,
    LastAway,
    RegisterMission,
    Request,
    Synced,
    WorkerEnded,
)
from grain.worker.messages import (
    ArrivedCount,
    DefineFunction,
    Drain,
    Draining,
    InventoryEnd,
    Lease,
    Leaving,
    RegisterWorker,
    Revoke,
)
from grain_testkit.hub_harness import F, HubHarness, held


def test_a_worker_that_returns_in_time_keeps_its_runs(harness: HubHarness) -> None:
    """Nor are they started anywhere else meanwhile."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    (lease,) = harness.sent(worker, Lease)
    other = harness.worker("other")
    harness.lose(worker)
    harness.wait(50.0)
    harness.worker("w", 2, (held(lease),), link="again")
    harness.wait(100.0)

    assert [] == harness.sent(other, Lease)
    assert [] == harness.sent("again", Lease)


def test_a_lease_that_never_arrived_is_sent_again_and_is_no_crash(harness: HubHarness) -> None:
    """The worker reports without it."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    harness.sent(worker, Lease)
    harness.lose(worker)
    harness.worker("w", link="again")

    assert [1] == [lease.task for lease in harness.sent("again", Lease)]
    assert [] == harness.sent(mission, Crashed)


@pytest.mark.parametrize("begun", [True, False])
def test_a_lost_worker_is_a_crash_of_the_runs_that_it_had_begun(
    harness: HubHarness, begun: bool
) -> None:
    """Leases still on their way to it are not to blame."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    if begun:
        harness.send(worker, ArrivedCount(1))
    harness.lose(worker)
    harness.wait(65.0)

    crashes = [message.crash for message in harness.sent(mission, Crashed)]
    assert begun == bool(crashes)
    # It may go on there.
    assert not any(crash.known for crash in crashes)


def test_a_worker_that_leaves_or_is_lost_while_it_drains_is_no_crash(harness: HubHarness) -> None:
    one, two, mission = harness.worker("one", 1), harness.worker("two", 1), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    harness.send(one, ArrivedCount(1), Draining(), Leaving())
    harness.send(two, ArrivedCount(1), Draining())
    harness.lose(two)
    harness.wait(65.0)
    third = harness.worker("third")

    assert [1, 2] == sorted(lease.task for lease in harness.sent(third, Lease))
    assert [] == harness.sent(mission, Crashed)


def test_a_mission_that_stays_away_is_removed_with_its_tasks(harness: HubHarness) -> None:
    """Waiting tasks are forgotten at once, runs are revoked after the grace period."""
    worker, mission = harness.worker("w", 1), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1, 2)
    (lease,) = harness.sent(worker, Lease)
    harness.lose(mission)
    assert 0 == harness.hub.scheduler.waiting
    harness.wait(50.0)
    assert [] == harness.sent(worker, Revoke)

    harness.wait(15.0)
    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)
    assert harness.hub.idle


def test_time_in_which_the_head_did_not_run_does_not_count_against_its_peers(
    harness: HubHarness,
) -> None:
    """A head that was stopped gives its peers the grace period once it runs again."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    harness.lose(worker)
    harness.now += 3600.0
    harness.hub.on_tick(harness.now)
    assert "w" in harness.hub.registry.workers

    harness.wait(65.0)
    assert "w" not in harness.hub.registry.workers


def test_a_registration_that_arrives_late_does_not_replace_a_newer_connection(
    harness: HubHarness,
) -> None:
    """That of the lost connection arrives after that of the connection that took its place."""
    harness.send(
        "new",
        RegisterMission("m", "m", connection=2),
        Request(0, {"Cores": 1}),
        DefineFunction(F),
        Synced(),
    )
    harness.send("old", RegisterMission("m", "m", connection=1))
    harness.lose("old")
    harness.wait(100.0)
    worker = harness.worker("w")
    harness.submit("new", 1)

    assert [1] == [lease.task for lease in harness.sent(worker, Lease)]


def test_a_worker_that_is_away_is_asked_to_leave_when_it_is_back(harness: HubHarness) -> None:
    """At once, if that was asked for at any time."""
    harness.worker("w")
    harness.lose("w")
    assert ["away"] == [one.state for one in harness.hub.drain("w", at_once=True)]
    harness.hub.drain("w")
    harness.worker("w", link="w again")

    assert [Drain(at_once=True)] == harness.sent("w again", Drain)


def run_on(harness: HubHarness, *workers: str, tasks: int = 1) -> tuple[str, list[str]]:
    """Have workers with a run each of one mission."""
    links = [harness.worker(one, cores=1) for one in workers]
    mission = harness.synced("m", *range(1, tasks + 1))
    for link in links:
        harness.send(link, ArrivedCount(1))
    return mission, links


@pytest.mark.parametrize(("ended", "seconds"), [(True, 30), (False, 60)])
def test_a_worker_whose_connection_was_closed_at_its_side_is_waited_for_half_as_long(
    harness: HubHarness, ended: bool, seconds: float
) -> None:
    """Its process has ended, or comes again at once."""
    mission, [worker] = run_on(harness, "w")
    harness.lose(worker, ended=ended)

    harness.wait(seconds - 5)
    assert [] == harness.sent(mission, Crashed)
    harness.wait(5)
    assert 1 == len(harness.sent(mission, Crashed))


def test_a_short_grace_is_no_shorter_for_a_connection_that_was_closed() -> None:
    harness = HubHarness(grace=20.0)
    mission, [worker] = run_on(harness, "w")
    harness.lose(worker, ended=True)

    harness.wait(15)
    assert [] == harness.sent(mission, Crashed)
    harness.wait(5)
    assert 1 == len(harness.sent(mission, Crashed))


def test_a_worker_whose_process_has_ended_is_not_waited_for(harness: HubHarness) -> None:
    mission, [worker] = run_on(harness, "w")
    harness.hub.on_worker_ended("w", harness.now)
    assert [] == harness.sent(mission, WorkerEnded)  # it is here

    harness.lose(worker)
    harness.hub.on_worker_ended("w", harness.now)
    harness.wait(9)
    assert [] == harness.sent(mission, WorkerEnded)  # its guards end what it ran
    harness.wait(1)

    [ended] = harness.sent(mission, WorkerEnded)
    assert "its process has ended" == ended.why
    assert 1 == len(harness.sent(mission, Crashed))


@pytest.mark.parametrize("lost_first", [True, False])
def test_a_worker_whose_job_has_ended_is_not_waited_for(
    harness: HubHarness, lost_first: bool
) -> None:
    """The batch system may know it before the connection is lost."""
    mission, [worker] = run_on(harness, "w")
    if lost_first:
        harness.lose(worker)
        harness.send("cli", Ask("ended", pattern="w"))
    else:
        harness.send("cli", Ask("ended", pattern="w"))
        assert [] == harness.sent(mission, WorkerEnded)
        harness.lose(worker)
        harness.wait(1)

    [ended] = harness.sent(mission, WorkerEnded)
    assert ("its job has ended", False) == (ended.why, ended.by_batch)


def test_the_words_of_the_batch_system_for_the_end_of_a_job_reach_the_mission(
    harness: HubHarness,
) -> None:
    mission, [worker] = run_on(harness, "w")
    harness.lose(worker)
    harness.send("cli", Ask("ended", pattern="w", why="OUT_OF_MEMORY"))

    [ended] = harness.sent(mission, WorkerEnded)
    assert ("its job has ended: OUT_OF_MEMORY", True) == (ended.why, ended.by_batch)


def test_a_job_that_goes_on_is_waited_for_whatever_was_said_of_it(harness: HubHarness) -> None:
    """A worker that comes again has a job."""
    mission, [worker] = run_on(harness, "w", tasks=0)
    harness.send("cli", Ask("ended", pattern="w"))
    harness.lose(worker)
    harness.worker("w", link="again")
    harness.lose("again")
    harness.wait(50)

    assert "w" in harness.hub.registry.workers
    assert [] == harness.sent(mission, WorkerEnded)


def test_the_batch_system_of_a_worker_that_is_away_is_asked_now_and_then(
    harness: HubHarness,
) -> None:
    """Not of one that is in no job, or in one that is not listed when it has ended."""
    harness.worker("w", system="slurm", listed="7_1")
    harness.worker("other", system="sge")
    harness.worker("by hand")
    for name in ("other", "by hand"):
        harness.lose(name)
    harness.wait(50)
    asked: list[tuple[float, str, str]] = []

    harness.lose("w")
    for _ in range(20):
        asked += [(harness.now, one.system, one.listed) for one in harness.doubts()]
        harness.wait(1)
    harness.worker("w", link="again", system="slurm", listed="7_1")
    harness.wait(20)

    assert [] == harness.doubts()
    assert [(53.0, "slurm", "7_1"), (63.0, "slurm", "7_1")] == asked


def test_a_worker_whose_batch_system_says_that_its_job_is_over_is_not_waited_for(
    harness: HubHarness,
) -> None:
    mission, [worker] = run_on(harness, "w")
    harness.hub.on_job_over("w", "CANCELLED", harness.now)  # it has come again meanwhile
    harness.hub.on_job_over("gone", "CANCELLED", harness.now)
    harness.lose(worker)
    harness.wait(1)
    assert [] == harness.sent(mission, WorkerEnded)

    harness.hub.on_job_over("w", "OUT_OF_MEMORY", harness.now)
    harness.dispatch()
    [ended] = harness.sent(mission, WorkerEnded)
    assert "its job has ended: OUT_OF_MEMORY" == ended.why
    [crashed] = harness.sent(mission, Crashed)
    assert crashed.crash.known
    assert "its worker was lost (its job has ended: OUT_OF_MEMORY)" == crashed.crash.how


@pytest.mark.parametrize("lasting", [True, False])
def test_a_job_of_a_queue_is_known_to_be_lost_whose_worker_was_killed_while_it_drained(
    harness: HubHarness, lasting: bool
) -> None:
    """The run is not the reason, so only a mission that follows its attempts is told of it."""
    mission = harness.mission(lasting_id("queue", "1a2b") if lasting else "m")
    worker = harness.worker("w")
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    harness.send(worker, ArrivedCount(1), Draining())
    harness.lose(worker)
    harness.hub.on_job_over("w", "TIMEOUT", harness.now)
    harness.dispatch()

    told = [(one.crash.known, one.crash.how) for one in harness.sent(mission, Crashed)]
    assert told == [(True, "its worker was lost (its job has ended: TIMEOUT)")] * lasting


def test_what_is_only_said_of_a_job_proves_no_end_of_its_runs(harness: HubHarness) -> None:
    """As by `grain scale`, for which a job is over that is not listed."""
    mission, [worker] = run_on(harness, "w")
    harness.lose(worker)
    harness.send("cli", Ask("ended", pattern="w"))

    [crashed] = harness.sent(mission, Crashed)
    assert not crashed.crash.known


def test_where_two_workers_have_one_name_no_word_on_a_job_counts(harness: HubHarness) -> None:
    for one in ("a", "b"):
        register = RegisterWorker(one, "w", "host", {"Cores": 1}, connection=1)
        harness.send(one, register, InventoryEnd())
        harness.lose(one)

    harness.send("cli", Ask("ended", pattern="w"))

    assert {"a", "b"} == set(harness.hub.registry.workers)


def test_a_mission_learns_for_whom_it_waits_when_nothing_else_is_left(harness: HubHarness) -> None:
    mission, [one, other] = run_on(harness, "one", "other", tasks=2)
    leases = {link: harness.sent(link, Lease)[0] for link in (one, other)}
    harness.lose(one)
    harness.wait(10)
    assert [] == harness.sent(mission, LastAway)

    harness.send(other, harness.ended(leases[other]))
    harness.wait(10)

    [said] = harness.sent(mission, LastAway)
    assert (1, "one", "host", 1) == (said.tasks, said.worker, said.host, said.workers)
    assert 40 <= said.seconds <= 50
    harness.wait(10)
    assert [] == harness.sent(mission, LastAway)


def test_a_mission_that_waits_for_several_workers_learns_it_once(harness: HubHarness) -> None:
    """Also when one of them is back, and again when it is away again."""
    mission, links = run_on(harness, "one", "other", tasks=2)
    [lease] = harness.sent("one", Lease)
    for link in links:
        harness.lose(link)
    harness.wait(5)
    assert [(2, 2)] == [(one.tasks, one.workers) for one in harness.sent(mission, LastAway)]

    harness.worker("one", 1, (held(lease),), link="again")
    harness.wait(5)
    assert [] == harness.sent(mission, LastAway)
    harness.lose("again")
    harness.wait(5)
    assert [2] == [one.workers for one in harness.sent(mission, LastAway)]
