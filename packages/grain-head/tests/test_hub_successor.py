"""The hub of a head that takes over: what workers and missions report is put together again."""

from __future__ import annotations

from grain.head.messages import Resolved, Synced
from grain.worker.messages import HeldRun, Lease, Revoke, RunEnded
from grain_testkit.hub_harness import HubHarness


def test_a_successor_adopts_what_runs() -> None:
    """Neither is it started again, nor does anybody else get what it uses."""
    harness = HubHarness(epoch=2)
    running = HeldRun("m", 1, (1, 7), {"Cores": [1]}, 100.0)
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


def test_what_ran_elsewhere_waits_for_that_worker_only(harness: HubHarness) -> None:
    """Another worker is not given it, until the grace period of the head's start is over."""
    mission, other = harness.mission(), harness.worker("other")
    harness.submit(mission, 1, worker="gone")
    harness.submit(mission, 2)
    harness.send(mission, Synced())
    assert [2] == [lease.task for lease in harness.sent(other, Lease)]

    harness.wait(65.0)
    assert [1] == [lease.task for lease in harness.sent(other, Lease)]


def test_a_report_comes_before_the_mission(harness: HubHarness) -> None:
    """An outcome that a worker hands in early is kept for the mission that is yet to come."""
    ended = HeldRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    worker = harness.worker("w", 2, (ended,))
    harness.send(worker, RunEnded("m", 1, (9, 1), "value"), payload=b"early")
    mission = harness.mission()
    harness.submit(mission, 1)
    harness.send(mission, Synced())

    assert [Resolved(1, "value")] == harness.sent(mission, Resolved)
    assert [] == harness.sent(worker, Lease)


def test_what_a_mission_does_not_mention_is_revoked(harness: HubHarness) -> None:
    """It was cancelled, or resolved through another head."""
    worker = harness.worker("w", 2, (HeldRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    mission = harness.mission()
    harness.send(mission, Synced())

    assert [Revoke((9, 1))] == harness.sent(worker, Revoke)
