"""The hub of a head that takes over: what workers and missions report is put together again."""

from __future__ import annotations

from grain.head.hub.harness import Scene
from grain.head.messages import Resolved, Synced
from grain.worker.messages import HeldRun, Lease, Revoke, RunEnded


def test_a_successor_adopts_what_runs() -> None:
    """Neither is it started again, nor does anybody else get what it uses."""
    scene = Scene(epoch=2)
    running = HeldRun("m", 1, (1, 7), {"Cores": [1]}, 100.0)
    mission = scene.mission()
    scene.submit(mission, 1, worker="w")
    scene.submit(mission, 2)
    scene.say(mission, Synced())
    worker = scene.worker("w", 2, (running,))

    (lease,) = scene.sent(worker, Lease)
    assert 2 == lease.task
    assert {"Cores": 1} == lease.res  # the core with id 0
    scene.say(worker, RunEnded("m", 1, (1, 7), "value"), payload=b"old")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)


def test_what_ran_elsewhere_waits_for_that_worker_only(scene: Scene) -> None:
    """Another worker is not given it, until the grace period of the head's start is over."""
    mission, other = scene.mission(), scene.worker("other")
    scene.submit(mission, 1, worker="gone")
    scene.submit(mission, 2)
    scene.say(mission, Synced())
    assert [2] == [lease.task for lease in scene.sent(other, Lease)]

    scene.wait(65.0)
    assert [1] == [lease.task for lease in scene.sent(other, Lease)]


def test_a_report_comes_before_the_mission(scene: Scene) -> None:
    """An outcome that a worker hands in early is kept for the mission that is yet to come."""
    ended = HeldRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    worker = scene.worker("w", 2, (ended,))
    scene.say(worker, RunEnded("m", 1, (9, 1), "value"), payload=b"early")
    mission = scene.mission()
    scene.submit(mission, 1)
    scene.say(mission, Synced())

    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)
    assert [] == scene.sent(worker, Lease)


def test_what_a_mission_does_not_mention_is_revoked(scene: Scene) -> None:
    """It was cancelled, or resolved through another head."""
    worker = scene.worker("w", 2, (HeldRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    mission = scene.mission()
    scene.say(mission, Synced())

    assert [Revoke((9, 1))] == scene.sent(worker, Revoke)
