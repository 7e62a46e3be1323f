"""The hub of a head that takes over: it adopts what workers and missions report."""

from __future__ import annotations

from grain.head.messages import Resolved, Synced
from grain.worker.messages import InventoryRun, Lease, Revoke, RunEnded
from grain_testkit.hub_harness import HubHarness


def test_a_successor_adopts_runs_with_their_resources() -> None:
    """The task is not started again, and no other task gets what its run uses."""
    harness = HubHarness(epoch=2)
    running = InventoryRun("m", 1, (1, 7), {"Cores": [1]}, 100.0)
    mission = harness.mission()
    harness.submit(mission, 1, worker="w")
    harness.submit(mission, 2)
    harness.send(mission, Synced())
    worker = harness.worker("w", 2, (running,))

    (lease,) = harness.sent(worker, Lease)
    assert 2 == lease.task
    assert {"Cores": 1} == lease.res  # the core with id 0
    harness.send(worker, RunEnded("m", 1, (1, 7), "value"), payload=b"old")
    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)


def test_a_task_that_ran_on_a_worker_waits_until_that_worker_reports_or_the_grace_period_ends(
    harness: HubHarness,
) -> None:
    """No other worker gets it meanwhile."""
    mission, other = harness.mission(), harness.worker("other")
    harness.submit(mission, 1, worker="gone")
    harness.submit(mission, 2)
    harness.send(mission, Synced())
    assert [2] == [lease.task for lease in harness.sent(other, Lease)]

    harness.wait(65.0)
    assert [1] == [lease.task for lease in harness.sent(other, Lease)]


def test_an_outcome_that_is_reported_before_its_mission_registers_is_kept_for_it(
    harness: HubHarness,
) -> None:
    ended = InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    worker = harness.worker("w", 2, (ended,))
    harness.send(worker, RunEnded("m", 1, (9, 1), "value"), payload=b"early")
    mission = harness.mission()
    harness.submit(mission, 1)
    harness.send(mission, Synced())

    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    assert [] == harness.sent(worker, Lease)


def test_a_run_of_a_task_that_its_mission_does_not_submit_is_revoked(harness: HubHarness) -> None:
    """The task was cancelled, or resolved through another head."""
    worker = harness.worker("w", 2, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    mission = harness.mission()
    harness.send(mission, Synced())

    assert [Revoke((9, 1))] == harness.sent(worker, Revoke)
