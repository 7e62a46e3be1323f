"""Peers that the hub loses: tasks that wait for their return, and crashes."""

from __future__ import annotations

import pytest

from grain.head.messages import Crashed, RegisterMission, Request, Synced
from grain.worker.messages import (
    ArrivedCount,
    DefineFunction,
    Draining,
    Lease,
    Leaving,
    Retire,
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

    assert begun == bool(harness.sent(mission, Crashed))


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
    assert ["away"] == [one["state"] for one in harness.hub.retire("w", at_once=True)]
    harness.hub.retire("w")
    harness.worker("w", link="w again")

    assert [Retire(at_once=True)] == harness.sent("w again", Retire)
