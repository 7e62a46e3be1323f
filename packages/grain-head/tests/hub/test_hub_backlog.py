"""Missions that do not take their outcomes: nothing more of them starts, and others go on.

And workers that have too many of them: nothing more starts there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.messages import AckTasks, Depart, Retract, Retracted, Synced, Unschedulable
from grain.worker.messages import Backlog, Draining, Lease
from grain_testkit.scheduler_harness import check_hub

if TYPE_CHECKING:
    from grain_testkit.hub_harness import HubHarness


def run(harness: HubHarness, worker: str, *, payload: bytes = b"value") -> list[int]:
    """End all that runs on a worker; return the tasks."""
    leases = harness.sent(worker, Lease)
    for lease in leases:
        harness.send(worker, harness.ended(lease), payload=payload)
    check_hub(harness.hub, harness.now)
    return [lease.task for lease in leases]


def test_a_mission_that_confirms_nothing_is_paused_until_half_is_confirmed(
    harness: HubHarness,
) -> None:
    harness.hub.outcomes.max_unconfirmed = 3
    worker, mission = harness.worker("w", cores=1), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, *range(1, 21))
    done: list[int] = []
    while now := run(harness, worker):
        done += now
    assert 4 <= len(done) < 20
    record = harness.hub.registry.missions["m"]
    assert record.paused
    assert harness.hub.counts().waiting == 20 - len(done)

    harness.submit(mission, 21)
    harness.send(mission, AckTasks(tuple(done[:2])))
    assert [] == run(harness, worker)
    harness.send(mission, AckTasks(tuple(done)))
    assert not record.paused
    while now := run(harness, worker):
        done += now
        harness.send(mission, AckTasks(tuple(now)))
    assert [*range(1, 22)] == done
    assert (0, 0) == (record.unconfirmed, record.unconfirmed_bytes)


def test_bytes_count_as_well_and_other_missions_go_on(harness: HubHarness) -> None:
    harness.hub.outcomes.max_unconfirmed_bytes = 1000
    worker = harness.worker("w", cores=1)
    asleep = harness.mission("asleep")
    harness.submit(asleep, *range(1, 200))
    for _ in range(200):
        run(harness, worker, payload=bytes(400))
    record = harness.hub.registry.missions["asleep"]
    assert 1000 < record.unconfirmed_bytes < 400 * 70  # what had begun, or was sent ahead
    awake = harness.mission("awake")
    harness.submit(awake, 1)
    assert [1] == run(harness, worker)


def test_why_and_the_snapshot_show_a_mission_that_is_paused(harness: HubHarness) -> None:
    harness.hub.outcomes.max_unconfirmed = 0
    worker, mission = harness.worker("w", cores=1), harness.mission()
    harness.submit(mission, *range(1, 200))
    while run(harness, worker):
        pass
    why = harness.hub.why("m", 199, harness.now)
    assert "waiting" == why.state
    assert "its mission has not taken" in why.reasons[0]
    [shown] = harness.hub.snapshot(harness.now).missions
    assert shown.paused
    assert shown.unconfirmed == harness.hub.registry.missions["m"].unconfirmed > 0
    assert shown.waiting == 199 - shown.unconfirmed


def test_a_task_that_is_parked_can_be_retracted_and_its_mission_can_leave(
    harness: HubHarness,
) -> None:
    harness.hub.outcomes.max_unconfirmed = 0
    worker, mission = harness.worker("w", cores=1), harness.mission()
    harness.submit(mission, *range(1, 200))
    while run(harness, worker):
        pass
    harness.send(mission, Retract((199,)))
    assert [Retracted(199)] == harness.sent(mission, Retracted)
    check_hub(harness.hub, harness.now)
    harness.lose(mission)
    check_hub(harness.hub, harness.now)
    harness.mission(link="again", connection=2)
    harness.submit("again", *range(1, 199))
    check_hub(harness.hub, harness.now)
    harness.send("again", Depart())
    assert harness.hub.idle
    check_hub(harness.hub, harness.now)


def test_a_worker_with_too_many_outcomes_gets_no_runs_until_it_takes_some_again(
    harness: HubHarness,
) -> None:
    """Another worker gets the tasks."""
    first, mission = harness.worker("w", cores=1), harness.mission()
    harness.send(mission, Synced())
    harness.send(first, Backlog(7, 3_000_000))
    harness.submit(mission, 1, 2)
    assert [] == harness.sent(first, Lease)
    assert [] == harness.sent(mission, Unschedulable)
    harness.wait(2)
    assert [] == harness.sent(mission, Unschedulable)
    why = harness.hub.why("m", 1, harness.now)
    shown = "w takes tasks again when missions have taken half of its 7 outcomes of 3.0 MB"
    assert shown in why.reasons
    [worker] = harness.hub.snapshot(harness.now).workers
    assert ("paused", (7, 3_000_000)) == (worker.state, worker.backlog)

    second = harness.worker("v", cores=1)
    assert [1] == [lease.task for lease in harness.sent(second, Lease)]
    harness.send(first, Backlog())
    assert [2] == [lease.task for lease in harness.sent(first, Lease)]
    check_hub(harness.hub, harness.now)


def test_a_worker_that_drains_stays_so_when_its_outcomes_are_taken(harness: HubHarness) -> None:
    worker, mission = harness.worker("w", cores=1), harness.mission()
    harness.send(mission, Synced())
    harness.send(worker, Backlog(7, 3), Draining(), Backlog())
    harness.submit(mission, 1)

    assert [] == harness.sent(worker, Lease)
    check_hub(harness.hub, harness.now)


def test_a_suspect_of_a_paused_mission_does_not_start(harness: HubHarness) -> None:
    harness.hub.outcomes.max_unconfirmed = 0
    worker, mission = harness.worker("w", cores=2), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    (lease,) = harness.sent(worker, Lease)
    harness.send(worker, harness.ended(lease, "crashed", detail="SIGSEGV"))
    harness.submit(mission, 2)
    crashing, other = harness.sent(worker, Lease)
    harness.send(worker, harness.ended(crashing, "crashed", detail="SIGSEGV"))
    harness.send(worker, harness.ended(other), payload=b"value")

    assert [] == harness.sent(worker, Lease)
    check_hub(harness.hub, harness.now)
    harness.send(mission, AckTasks((2,)))
    assert [1] == [lease.task for lease in harness.sent(worker, Lease)]
