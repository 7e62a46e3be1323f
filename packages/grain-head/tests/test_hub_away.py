"""Peers that the hub loses: what waits for their return, and who is to blame."""

from __future__ import annotations

import pytest

from grain.head.hub.harness import F, Scene, held
from grain.head.messages import Crashed, RegisterMission, Request, Synced
from grain.worker.messages import (
    BegunCount,
    DefineFunction,
    Draining,
    Lease,
    Leaving,
    Retire,
    Revoke,
)


def test_a_worker_that_returns_in_time_keeps_its_runs(scene: Scene) -> None:
    """Meanwhile they are not started anywhere else."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    (lease,) = scene.sent(worker, Lease)
    other = scene.worker("other")
    scene.lose(worker)
    scene.wait(50.0)
    scene.worker("w", 2, (held(lease),), link="again")
    scene.wait(100.0)

    assert [] == scene.sent(other, Lease)
    assert [] == scene.sent("again", Lease)


def test_a_lease_that_never_arrived_is_no_crash(scene: Scene) -> None:
    """The worker reports without it: the task waits again, without blame."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    scene.sent(worker, Lease)
    scene.lose(worker)
    scene.worker("w", link="again")

    assert [1] == [lease.task for lease in scene.sent("again", Lease)]
    assert [] == scene.sent(mission, Crashed)


@pytest.mark.parametrize("begun", [True, False])
def test_a_lost_worker_blames_what_it_had_begun(scene: Scene, begun: bool) -> None:
    """What was still on its way to it is not to blame."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    if begun:
        scene.say(worker, BegunCount(1))
    scene.lose(worker)
    scene.wait(65.0)

    assert begun == bool(scene.sent(mission, Crashed))


def test_a_worker_that_leaves_blames_nobody(scene: Scene) -> None:
    """Nor does one that was draining when it was lost."""
    one, two, mission = scene.worker("one", 1), scene.worker("two", 1), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    scene.say(one, BegunCount(1), Draining(), Leaving())
    scene.say(two, BegunCount(1), Draining())
    scene.lose(two)
    scene.wait(65.0)
    third = scene.worker("third")

    assert [1, 2] == sorted(lease.task for lease in scene.sent(third, Lease))
    assert [] == scene.sent(mission, Crashed)


def test_a_mission_that_stays_away_is_cleaned_up(scene: Scene) -> None:
    """What waits is forgotten at once, what runs is revoked after the grace period."""
    worker, mission = scene.worker("w", 1), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1, 2)
    (lease,) = scene.sent(worker, Lease)
    scene.lose(mission)
    assert 0 == scene.hub.scheduler.waiting
    scene.wait(50.0)
    assert [] == scene.sent(worker, Revoke)

    scene.wait(15.0)
    assert [Revoke(lease.attempt)] == scene.sent(worker, Revoke)
    assert scene.hub.idle


def test_time_in_which_the_head_did_not_run_does_not_count(scene: Scene) -> None:
    """A head that was stopped gives its peers the grace period once it runs again."""
    worker, mission = scene.worker("w"), scene.mission()
    scene.say(mission, Synced())
    scene.submit(mission, 1)
    scene.lose(worker)
    scene.now += 3600.0
    scene.hub.on_tick(scene.now)
    assert "w" in scene.hub.ledger.workers

    scene.wait(65.0)
    assert "w" not in scene.hub.ledger.workers


def test_a_connection_that_is_heard_of_late_is_not_taken_for_the_newer(scene: Scene) -> None:
    """The greeting of the lost one arrives after that of the one that took its place."""
    scene.say(
        "new",
        RegisterMission("m", "m", connection=2),
        Request(0, {"Cores": 1}),
        DefineFunction(F),
        Synced(),
    )
    scene.say("old", RegisterMission("m", "m", connection=1))
    scene.lose("old")
    scene.wait(100.0)
    worker = scene.worker("w")
    scene.submit("new", 1)

    assert [1] == [lease.task for lease in scene.sent(worker, Lease)]


def test_a_worker_that_is_away_is_told_to_leave_when_it_is_back(scene: Scene) -> None:
    """At once, if that was asked for at any time."""
    scene.worker("w")
    scene.lose("w")
    assert ["away"] == [one["state"] for one in scene.hub.retire("w", at_once=True)]
    scene.hub.retire("w")
    scene.worker("w", link="w again")

    assert [Retire(at_once=True)] == scene.sent("w again", Retire)
