"""Tasks that crash: the hub runs them alone after two crashes, and fails them after five."""

from __future__ import annotations

from grain.head.hub.harness import Scene
from grain.head.messages import Crash, Resolved, Synced
from grain.worker.messages import Lease


def crash(scene: Scene, worker: str, times: int) -> list[Lease]:
    """The same task crashes; returns its leases."""
    leases = []
    for _ in range(times):
        (lease,) = scene.sent(worker, Lease)
        leases.append(lease)
        scene.say(worker, scene.settled(lease, "crashed", detail="SIGSEGV"))
    return leases


def test_a_task_that_crashes_twice_runs_alone(scene: Scene) -> None:
    """On a worker that is emptied for it, and then is everybody's again."""
    worker, mission = scene.worker("w", 3), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    first, second = crash(scene, worker, 1)[0], None
    scene.submit(mission, 2)
    second, beside = scene.sent(worker, Lease)
    assert (1, 2) == (second.task, beside.task)
    scene.say(worker, scene.settled(second, "crashed", detail="SIGSEGV"))
    scene.submit(mission, 3)
    assert [] == scene.sent(worker, Lease)

    scene.say(worker, scene.settled(beside), payload=b"")
    (alone,) = scene.sent(worker, Lease)
    assert (1, True, False) == (alone.task, alone.alone, first.alone)

    scene.say(worker, scene.settled(alone), payload=b"")
    assert [3] == [lease.task for lease in scene.sent(worker, Lease)]


def test_five_crashes_fail_a_task_and_tell_all_of_them(scene: Scene) -> None:
    """With the worker and the reason of each."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    leases = crash(scene, worker, 5)

    (resolved,) = scene.sent(mission, Resolved)
    assert "crashed" == resolved.ending
    assert [lease.attempt for lease in leases] == [c.attempt for c in resolved.crashes]
    assert {("w", "SIGSEGV")} == {(c.worker, c.how) for c in resolved.crashes}
    assert [] == scene.sent(worker, Lease)


def test_crashes_are_remembered_by_the_mission() -> None:
    """A new head goes on counting where the old one stopped."""
    scene = Scene(epoch=2)
    worker, mission = scene.worker("w"), scene.mission()
    known = tuple(Crash((1, n), "w", "SIGSEGV", 0.0) for n in range(4))
    scene.submit(mission, 1, crashes=known)
    scene.say(mission, Synced())
    crash(scene, worker, 1)

    assert 5 == len(scene.sent(mission, Resolved)[0].crashes)
