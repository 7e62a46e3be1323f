"""Missions that are silent, killed, or back after they were given up."""

from __future__ import annotations

import pytest

from grain.edge.questions import Ask, FoundAnswer, unpack
from grain.head.messages import (
    CancelMission,
    CancelTask,
    Depart,
    MissionRegistered,
    RegisterMission,
    Request,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
)
from grain.worker.messages import DefineFunction, InventoryRun, Lease, Revoke, RunEnded
from grain_testkit.hub_harness import F, HubHarness, held
from grain_testkit.scheduler_harness import check_hub


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


def test_runs_that_a_worker_reports_of_a_mission_that_has_left_are_not_waited_for(
    harness: HubHarness,
) -> None:
    """The worker was stopped, and given up, when the mission left with results from elsewhere."""
    worker, mission, lease = running(harness)
    harness.lose(worker)
    harness.wait(70)
    harness.send(mission, Depart())
    harness.wait(5)
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
        assert [MissionRegistered(1, ended, away, "m")] == harness.sent(link, MissionRegistered)


def cancel(harness: HubHarness, task: int = 0) -> FoundAnswer:
    harness.send("cli", Ask("cancel", mission="m", task=task, by="me@host"))
    [(_, answer)] = harness.mail.pop("cli")
    return unpack(answer, FoundAnswer)


def test_a_task_that_is_cancelled_from_outside_ends_and_its_mission_is_informed(
    harness: HubHarness,
) -> None:
    worker, mission, lease = running(harness)
    harness.submit(mission, 2)

    assert "running" == cancel(harness, 1).state
    assert "waiting" == cancel(harness, 2).state
    assert [CancelTask(1, "me@host"), CancelTask(2, "me@host")] == harness.sent(mission, CancelTask)
    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)
    harness.send(worker, harness.ended(lease, "cancelled"))
    assert [Retracted(2), Retracted(1)] == harness.sent(mission, Retracted)
    assert [] == harness.sent(worker, Lease)


def test_a_task_that_has_ended_cannot_be_cancelled(harness: HubHarness) -> None:
    worker, _, lease = running(harness)
    harness.send(worker, harness.ended(lease), payload=b"")

    why = "task {} of m has ended, or was never submitted"
    assert FoundAnswer(None, why.format(1)) == cancel(harness, 1)
    assert FoundAnswer(None, why.format(7)) == cancel(harness, 7)


def test_a_mission_that_is_cancelled_from_outside_loses_its_runs_at_once(
    harness: HubHarness,
) -> None:
    """Also if it stands still, and reads the message only later."""
    worker, mission, lease = running(harness)
    harness.submit(mission, 2)

    found = cancel(harness).mission
    assert found is not None
    assert ("m", 1, 1) == (found.label, found.running, found.waiting)
    assert [CancelMission("me@host")] == harness.sent(mission, CancelMission)
    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)
    harness.submit(mission, 3)
    harness.send(worker, harness.ended(lease, "cancelled"))

    assert [] == harness.sent(worker, Lease)
    assert [Retracted(n) for n in (2, 3, 1)] == harness.sent(mission, Retracted)


def test_a_cancellation_from_outside_is_repeated_on_the_next_connection(
    harness: HubHarness,
) -> None:
    """The mission was away, or did not get the message: it has its tasks submitted again."""
    worker, mission, lease = running(harness)
    harness.submit(mission, 2)
    harness.lose(mission)
    cancel(harness)
    harness.send(
        "again",
        RegisterMission("m", "m", connection=2),
        Request(0, {"Cores": 1}),
        DefineFunction(F),
    )
    harness.submit("again", 1, 2)
    harness.send("again", Synced())
    harness.send(worker, harness.ended(lease, "cancelled"))

    assert [CancelMission("me@host")] == harness.sent("again", CancelMission)
    assert [Retracted(2), Retracted(1)] == harness.sent("again", Retracted)
    assert [] == harness.sent(worker, Lease)


@pytest.mark.parametrize("task", [0, 1])
def test_a_mission_that_comes_back_learns_where_what_was_cancelled_still_runs(
    harness: HubHarness, task: int
) -> None:
    """What the last connection said of the run may be lost, and the run may take long to end."""
    _, mission, _ = running(harness)
    cancel(harness, task)
    harness.lose(mission)
    back = harness.mission(link="back", connection=2)
    harness.submit(back, 1)
    harness.send(back, Synced(), Retract((1,)))

    assert [Started("w", (1,))] == harness.sent(back, Started)
    assert [] == harness.sent(back, Retracted)


def test_the_cancellation_of_a_task_is_repeated_on_the_next_connection(
    harness: HubHarness,
) -> None:
    worker, mission, _ = running(harness)
    harness.submit(mission, 2)
    cancel(harness, 2)
    harness.lose(mission)
    harness.send(
        "again",
        RegisterMission("m", "m", connection=2),
        Request(0, {"Cores": 1}),
        DefineFunction(F),
    )
    harness.submit("again", 1, 2)
    harness.send("again", Synced())

    assert [CancelTask(2, "me@host")] == harness.sent("again", CancelTask)
    assert [Retracted(2)] == harness.sent("again", Retracted)
    assert [] == harness.sent(worker, Revoke)


def test_a_cancelled_mission_that_was_given_up_is_informed_when_it_comes_back(
    harness: HubHarness,
) -> None:
    _, mission, _ = running(harness)
    harness.lose(mission)
    cancel(harness)
    harness.wait(100)
    assert harness.hub.idle
    harness.send("again", RegisterMission("m", "m", connection=2), Synced())

    assert [CancelMission("me@host")] == harness.sent("again", CancelMission)


def test_a_cancelled_task_is_refused_until_its_mission_has_the_answer(harness: HubHarness) -> None:
    """The connection on which it was refused may break before the answer arrives."""
    worker, mission, lease = running(harness)
    harness.lose(mission)
    assert not cancel(harness, 1).error
    harness.send(worker, harness.ended(lease, "cancelled"))
    for connection in (2, 3, 4):
        link = harness.mission(link=f"link {connection}", connection=connection)
        harness.submit(link, 1)
        harness.send(link, Synced())
        assert [Retracted(1)] == harness.sent(link, Retracted)
        harness.lose(link)
    assert [] == harness.sent(worker, Lease)

    for connection in (5, 6):
        link = harness.mission(link=f"link {connection}", connection=connection)
        harness.send(link, Synced())
    assert {} == harness.hub.registry.missions["m"].cancelled


def test_a_task_that_is_cancelled_before_its_mission_comes_is_not_kept_if_that_does_not_want_it(
    harness: HubHarness,
) -> None:
    """Its run ended under another head, and the worker that reported it is away."""
    ended = InventoryRun("m", 1, (9, 1), {"Cores": 1}, 0.0, ended=True)
    harness.lose(harness.worker("w", 1, (ended,)))
    cancel(harness)
    mission = harness.synced()

    assert {} == harness.hub.registry.missions["m"].tasks
    assert [] == harness.sent(mission, Retracted)
    check_hub(harness.hub, harness.now)


def test_a_task_that_is_cancelled_before_its_mission_comes_is_retracted_when_its_run_has_ended(
    harness: HubHarness,
) -> None:
    worker = harness.worker("w", 1, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    cancel(harness)
    assert [Revoke((9, 1))] == harness.sent(worker, Revoke)
    mission = harness.mission()
    harness.submit(mission, 1)
    harness.send(mission, Synced())
    assert [] == harness.sent(mission, Retracted)

    harness.send(worker, RunEnded("m", 1, (9, 1), "cancelled"))
    assert [Retracted(1)] == harness.sent(mission, Retracted)
    check_hub(harness.hub, harness.now)


def test_a_task_that_its_mission_retracts_as_it_comes_is_kept_until_its_run_has_ended(
    harness: HubHarness,
) -> None:
    worker = harness.worker("w", 1, (InventoryRun("m", 1, (9, 1), {"Cores": 1}, 5.0),))
    mission = harness.mission()
    harness.send(mission, Retract((1,)), Synced())
    assert [] == harness.sent(mission, Retracted)

    harness.send(worker, RunEnded("m", 1, (9, 1), "cancelled"))
    assert [Retracted(1)] == harness.sent(mission, Retracted)


def test_the_tasks_of_a_function_share_one_digest(harness: HubHarness) -> None:
    """Each message brings an object of its own, of which a million tasks would keep a million."""
    mission, digest = harness.mission(), bytes(range(16))
    harness.send(mission, DefineFunction(digest), payload=b"")
    harness.send(mission, *(Submit(task, 0, bytes(bytearray(digest))) for task in (1, 2)))

    one, two = harness.hub.registry.missions["m"].tasks.values()
    assert digest == one.function
    assert one.function is two.function
