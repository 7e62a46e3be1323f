"""Missions that are silent, killed, or back after they were given up."""

from __future__ import annotations

from grain.head.messages import MissionRegistered, RegisterMission, Request, Synced
from grain.worker.messages import (
    DefineFunction,
    Lease,
    Revoke,
)
from grain_testkit.hub_harness import F, HubHarness, held


def running(harness: HubHarness) -> tuple[str, str, Lease]:
    """Let one task of a mission run on a worker."""
    worker, mission = harness.worker("w", 1), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    (lease,) = harness.sent(worker, Lease)
    return worker, mission, lease


def test_the_runs_of_a_mission_whose_process_has_ended_are_revoked_at_once(
    harness: HubHarness,
) -> None:
    worker, mission, lease = running(harness)
    harness.lose(mission)
    assert [] == harness.sent(worker, Revoke)

    harness.hub.on_mission_ended("m", harness.now)
    harness.dispatch()

    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)
    assert harness.hub.idle


def test_runs_that_a_worker_reports_of_a_mission_that_has_ended_are_not_waited_for(
    harness: HubHarness,
) -> None:
    """The worker was away when the mission was killed."""
    worker, mission, lease = running(harness)
    harness.lose(worker)
    harness.lose(mission)
    harness.hub.on_mission_ended("m", harness.now)
    harness.wait(70)
    harness.worker("w", 1, (held(lease),), link="again")
    harness.wait(5)

    assert [Revoke(lease.attempt)] == harness.sent("again", Revoke)


def test_a_mission_that_is_connected_again_is_not_ended(harness: HubHarness) -> None:
    """A report about its process that comes late does it no harm."""
    worker, mission, _ = running(harness)
    harness.lose(mission)
    harness.send(
        "again",
        RegisterMission("m", "m", connection=2),
        Request(0, {"Cores": 1}),
        DefineFunction(F),
    )
    harness.submit("again", 1)
    harness.send("again", Synced())
    harness.hub.on_mission_ended("m", harness.now)
    harness.dispatch()

    assert [] == harness.sent(worker, Revoke)


def test_a_mission_that_is_connected_keeps_its_runs_however_long_it_is_silent(
    harness: HubHarness,
) -> None:
    worker, _, _ = running(harness)
    harness.wait(3600)

    assert [] == harness.sent(worker, Revoke)


def test_a_mission_that_comes_back_too_late_is_told_how_many_runs_were_ended(
    harness: HubHarness,
) -> None:
    """Once, and with the time for which it was away."""
    worker, mission, lease = running(harness)
    harness.lose(mission)
    harness.wait(65)
    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)
    harness.now = 130.0
    for connection, ended, away in ((2, 1, 130.0), (3, 0, 0.0)):
        link = f"m{connection}"
        harness.send(link, RegisterMission("m", "m", connection=connection), Synced())
        assert [MissionRegistered(1, ended, away)] == harness.sent(link, MissionRegistered)
