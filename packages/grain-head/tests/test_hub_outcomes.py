"""The hub hands each task's outcome to its mission once, and settles which of two runs counts."""

from __future__ import annotations

from grain.head.hub.harness import Scene, held
from grain.head.messages import AckTasks, Resolved, Started, Synced
from grain.worker.messages import AckRuns, Lease, Revoke


def given_up(scene: Scene) -> tuple[str, str, Lease]:
    """A task's worker is lost, and another is there: the mission, that worker, and the lost run."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (old,) = scene.sent(worker, Lease)
    scene.lose(worker)
    other = scene.worker("other", 1)
    scene.wait(65.0)
    return mission, other, old


def test_an_outcome_goes_to_its_mission_and_is_released_when_that_has_it(scene: Scene) -> None:
    """The worker keeps it until the mission, not the head, has confirmed it."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (lease,) = scene.sent(worker, Lease)
    assert [Started("w", (1,))] == scene.sent(mission, Started)

    scene.say(worker, scene.settled(lease), payload=b"42")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)
    assert [] == scene.sent(worker, AckRuns)

    scene.say(mission, AckTasks((1,)))
    assert [AckRuns((lease.attempt,))] == scene.sent(worker, AckRuns)
    assert {} == scene.hub.ledger.clients["m"].entries


def test_the_first_success_wins_and_later_ones_are_dropped(scene: Scene) -> None:
    """Even that of a run which was given up."""
    mission, other, old = given_up(scene)
    (new,) = scene.sent(other, Lease)
    scene.worker("w", 2, (held(old, 0.0, ended=True),), link="back")
    scene.say("back", scene.settled(old), payload=b"old")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)
    assert [Revoke(new.attempt)] == scene.sent(other, Revoke)

    scene.say(other, scene.settled(new), payload=b"new")
    assert [AckRuns((new.attempt,))] == scene.sent(other, AckRuns)
    assert [] == scene.sent(mission, Resolved)


def test_a_stale_failure_is_ignored(scene: Scene) -> None:
    """The run that took its place goes on."""
    mission, other, old = given_up(scene)
    scene.worker("w", 2, (held(old, 0.0, ended=True),), link="back")
    scene.say("back", scene.settled(old, "error"), payload=b"old")

    assert [] == scene.sent(mission, Resolved)
    assert [] == scene.sent(other, Revoke)
    assert [AckRuns((old.attempt,))] == scene.sent("back", AckRuns)


def test_of_two_runs_the_older_goes_on(scene: Scene) -> None:
    """A worker that was given up returns with a run that has a long way behind it."""
    mission, other, old = given_up(scene)
    (new,) = scene.sent(other, Lease)
    scene.worker("w", 2, (held(old, 65.0),), link="back")
    assert [Revoke(new.attempt)] == scene.sent(other, Revoke)

    scene.say(other, scene.settled(new, "cancelled"))
    assert [] == scene.sent(other, Lease)
    scene.say("back", scene.settled(old), payload=b"")
    assert [Resolved(1, "value")] == scene.sent(mission, Resolved)
