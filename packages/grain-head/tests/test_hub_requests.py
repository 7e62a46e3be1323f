"""What missions ask of the hub: turns, tasks taken back, and what nobody can meet."""

from __future__ import annotations

import pytest

from grain.head.errors import BadMessage
from grain.head.hub.harness import F, Scene
from grain.head.messages import Notice, Retract, Retracted, Submit, Synced
from grain.worker.messages import AckRuns, Lease, Revoke


def test_a_retracted_task_is_gone_when_its_run_is(scene: Scene) -> None:
    """At once if it waits; if it runs, when its worker says so: it holds its cores till then."""
    worker, mission = scene.worker("w", 1), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    (lease,) = scene.sent(worker, Lease)
    scene.say(mission, Retract((1, 2)))
    assert [Retracted(2)] == scene.sent(mission, Retracted)
    assert [Revoke(lease.attempt)] == scene.sent(worker, Revoke)

    scene.say(worker, scene.settled(lease, "cancelled"))
    assert [Retracted(1)] == scene.sent(mission, Retracted)
    assert [AckRuns((lease.attempt,))] == scene.sent(worker, AckRuns)


def test_a_mission_that_comes_late_takes_turns(scene: Scene) -> None:
    """Its ten tasks do not wait for the thousands of another."""
    worker, many = scene.worker("w", 1), scene.mission("many")
    scene.say(many, Synced())
    scene.submit(many, *range(1, 1001))
    few = scene.mission("few")
    scene.say(few, Synced())
    scene.submit(few, *range(1, 11))

    order = []
    for _ in range(30):
        (lease,) = scene.sent(worker, Lease)
        order.append(lease.mission)
        scene.say(worker, scene.settled(lease), payload=b"")
    assert 10 == order[:22].count("few")
    assert ["many"] * 8 == order[22:]


def test_a_request_that_nobody_can_meet_is_reported_once(scene: Scene) -> None:
    """To the mission, with what is missing; and it starts when somebody comes who can."""
    scene.worker("w", 2)
    mission = scene.mission(cores=4)
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    (notice,) = scene.sent(mission, Notice)
    assert "Cores(4)" in notice.why

    big = scene.worker("big", 4)
    assert [1] == [lease.task for lease in scene.sent(big, Lease)]


def test_nonsense_of_a_peer_is_told_from_a_bug(scene: Scene) -> None:
    """A task that names what never came is refused with the peer's blame."""
    mission = scene.mission()
    with pytest.raises(BadMessage, match="task 1 names a request"):
        scene.say(mission, Submit(1, 99, F))
