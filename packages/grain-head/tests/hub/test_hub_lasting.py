"""Missions whose runs go on when no process of them is left."""

from __future__ import annotations

import pytest

from grain.edge.mission_ids import lasting_id
from grain.edge.questions import Ask, FoundAnswer, unpack
from grain.head.messages import (
    AckTasks,
    CancelMission,
    CancelTask,
    Crashed,
    Depart,
    Resolved,
    Retract,
    Retracted,
    Started,
    Synced,
)
from grain.worker.messages import AckRuns, Disconnect, InventoryRun, Lease, Revoke, RunEnded
from grain_testkit.hub_harness import HubHarness, held

M = lasting_id("queue", "1a2b")
HOUR = 3600.0


def running(harness: HubHarness, *tasks: int, cores: int = 1) -> tuple[str, str, list[Lease]]:
    """Let tasks of a lasting mission run on a worker."""
    worker, mission = harness.worker("w", cores), harness.mission(M)
    harness.send(mission, Synced())
    harness.submit(mission, *(tasks or (1,)))
    return worker, mission, harness.sent(worker, Lease)


def successor(harness: HubHarness, *tasks: int, generation: int = 2, **more: str) -> str:
    """Register the next process of the mission, which submits some tasks; return its link."""
    link = f"process {generation}"
    harness.mission(M, link=link, connection=generation << 32)
    harness.submit(link, *tasks, **more)
    harness.send(link, Synced())
    return link


@pytest.mark.parametrize("how", ["lost", "ended", "departed"])
def test_runs_of_a_lasting_mission_go_on_whose_process_has_ended(
    harness: HubHarness, how: str
) -> None:
    worker, mission, (lease,) = running(harness)
    harness.submit(mission, 2)
    if how == "departed":
        harness.send(mission, Depart())
    else:
        harness.lose(mission)
    if how == "ended":
        harness.hub.on_mission_ended(M, harness.now)
        harness.dispatch()
    harness.wait(HOUR)

    assert [] == harness.sent(worker, Revoke)
    assert not harness.hub.idle
    again = successor(harness, 1, 2)
    assert [Started("w", (1,))] == harness.sent(again, Started)
    harness.send(worker, harness.ended(lease), payload=b"outcome")
    assert [1] == [one.task for one in harness.sent(again, Resolved)]
    assert [2] == [one.task for one in harness.sent(worker, Lease)]


def test_a_new_head_keeps_runs_of_a_lasting_mission_that_it_knows_only_from_workers(
    harness: HubHarness,
) -> None:
    """Its name is in its id, so that commands show and find it."""
    run = InventoryRun(M, 7, (9, 1), {"Cores": 1}, 100.0)
    worker = harness.worker("w", 1, (run,))
    harness.wait(HOUR)

    assert [] == harness.sent(worker, Revoke)
    found = harness.hub.find("queue").mission
    assert found is not None
    assert (M, 1) == (found.id, found.running)
    again = successor(harness, 7)
    assert [Started("w", (7,))] == harness.sent(again, Started)
    assert [] == harness.sent(worker, Lease)


def test_an_outcome_is_kept_for_a_while_and_then_dropped_and_nothing_is_left(
    harness: HubHarness,
) -> None:
    worker, mission, (lease,) = running(harness)
    harness.lose(mission)
    harness.wait(HOUR - 5)  # five seconds before the next look
    harness.send(worker, harness.ended(lease), payload=b"outcome")
    harness.wait(60)
    assert [] == harness.sent(worker, AckRuns)
    harness.wait(120)

    assert [AckRuns((lease.attempt,))] == harness.sent(worker, AckRuns)
    assert harness.hub.idle


def test_the_next_process_fetches_an_outcome_that_is_kept(harness: HubHarness) -> None:
    worker, mission, (lease,) = running(harness)
    harness.lose(mission)
    harness.wait(HOUR - 5)
    harness.send(worker, harness.ended(lease), payload=b"outcome")
    harness.wait(30)
    again = successor(harness)
    harness.wait(65)
    harness.submit(again, 1)

    assert [1] == [one.task for one in harness.sent(again, Resolved)]
    harness.wait(HOUR)
    assert [] == harness.sent(worker, AckRuns)  # it is to confirm it
    harness.send(again, AckTasks((1,)))
    assert [AckRuns((lease.attempt,))] == harness.sent(worker, AckRuns)


def test_a_process_may_submit_the_task_of_a_run_after_it_was_synced(harness: HubHarness) -> None:
    worker, mission, leases = running(harness, 1, 2, 3, cores=3)
    harness.lose(mission)
    again = successor(harness, 2)
    harness.wait(HOUR)
    assert [] == harness.sent(worker, Revoke)
    harness.submit(again, 3)

    assert [Started("w", (2,)), Started("w", (3,))] == harness.sent(again, Started)
    assert [] == harness.sent(worker, Lease)
    for lease in leases:
        harness.send(worker, harness.ended(lease), payload=b"")
    assert [2, 3] == [one.task for one in harness.sent(again, Resolved)]
    harness.wait(200)
    assert [AckRuns((leases[0].attempt,))] == harness.sent(worker, AckRuns)


def test_of_two_processes_that_of_the_larger_generation_is_served_whichever_comes_first(
    harness: HubHarness,
) -> None:
    worker, first, _ = running(harness)
    second = successor(harness, 1)
    assert ["replaced"] == [one.because for one in harness.sent(first, Disconnect)]
    again = harness.mission(M, link="first again", connection=2)
    assert ["replaced"] == [one.because for one in harness.sent(again, Disconnect)]

    assert [] == harness.sent(second, Disconnect)
    assert [] == harness.sent(worker, Revoke)


def test_a_user_ends_a_lasting_mission_of_which_no_process_lives(harness: HubHarness) -> None:
    worker, mission, (lease,) = running(harness)
    harness.lose(mission)
    harness.wait(HOUR)
    harness.send("cli", Ask("cancel", mission=M, by="me@host"))
    [(_, answer)] = harness.mail.pop("cli")
    assert not unpack(answer, FoundAnswer).error
    assert [Revoke(lease.attempt)] == harness.sent(worker, Revoke)
    harness.send(worker, harness.ended(lease, "cancelled"))
    harness.wait(70)
    assert harness.hub.idle

    again = successor(harness, 5)
    assert [CancelMission("me@host")] == harness.sent(again, CancelMission)
    harness.send(again, Depart())
    third = successor(harness, 6, generation=3)
    assert [] == harness.sent(third, CancelMission)
    assert [6] == [one.task for one in harness.sent(worker, Lease)]


def test_the_next_process_is_told_who_cancelled_a_run_that_has_yet_to_end(
    harness: HubHarness,
) -> None:
    worker, mission, (lease,) = running(harness)
    harness.send("cli", Ask("cancel", mission=M, by="me@host"))
    assert [CancelMission("me@host")] == harness.sent(mission, CancelMission)
    harness.send(mission, Depart())

    again = successor(harness, 1, 2)
    assert [CancelTask(1, "me@host")] == harness.sent(again, CancelTask)
    assert [] == harness.sent(again, CancelMission)
    harness.send(worker, harness.ended(lease, "cancelled"))
    assert [Retracted(1)] == harness.sent(again, Retracted)
    assert [2] == [one.task for one in harness.sent(worker, Lease)]


def silent_and_back(harness: HubHarness) -> tuple[str, str, Lease]:
    """Let a worker be lost with a run, which begins elsewhere and is refused, and come back."""
    worker, mission, (lease,) = running(harness)
    harness.lose(worker)
    harness.wait(70)
    other = harness.worker("v", 1)
    [second] = harness.sent(other, Lease)
    harness.send(other, harness.ended(second, "error"), payload=b"begun elsewhere")
    harness.worker("w", 1, (held(lease, 100.0),), link="back")
    return mission, other, lease


def test_two_runs_of_a_task_of_a_lasting_mission_go_on_and_a_retraction_ends_both(
    harness: HubHarness,
) -> None:
    worker, mission, (lease,) = running(harness)
    harness.lose(worker)
    harness.wait(70)
    other = harness.worker("v", 1)
    [second] = harness.sent(other, Lease)
    harness.worker("w", 1, (held(lease, 100.0),), link="back")
    assert [] == harness.sent(other, Revoke) + harness.sent("back", Revoke)

    harness.send(mission, Retract((1,)))
    assert [Revoke(lease.attempt)] == harness.sent("back", Revoke)
    assert [Revoke(second.attempt)] == harness.sent(other, Revoke)
    harness.send("back", harness.ended(lease, "cancelled"))
    harness.send(other, harness.ended(second, "cancelled"))
    assert [Retracted(1)] == harness.sent(mission, Retracted)
    harness.send(mission, Depart())
    assert harness.hub.idle


def test_a_run_goes_on_whose_task_has_the_outcome_of_another_and_can_be_retracted(
    harness: HubHarness,
) -> None:
    mission, _, lease = silent_and_back(harness)
    harness.send(mission, AckTasks((1,)))
    harness.wait(HOUR)
    assert [] == harness.sent("back", Revoke)

    harness.send(mission, Retract((1,)))
    assert [Revoke(lease.attempt)] == harness.sent("back", Revoke)
    harness.send("back", harness.ended(lease, "cancelled"))
    harness.send(mission, Depart())
    assert harness.hub.idle


def test_a_user_who_ends_a_lasting_mission_ends_runs_beside_outcomes_too(
    harness: HubHarness,
) -> None:
    _, _, lease = silent_and_back(harness)
    harness.send("cli", Ask("cancel", mission=M, by="me@host"))

    assert [Revoke(lease.attempt)] == harness.sent("back", Revoke)


@pytest.mark.parametrize("how", ["mission", "task"])
def test_a_run_ends_that_is_reported_after_a_user_has_ended_what_has_an_outcome_already(
    harness: HubHarness, how: str
) -> None:
    worker, mission, (lease,) = running(harness)
    harness.lose(worker)
    harness.wait(70)
    other = harness.worker("v", 1)
    [second] = harness.sent(other, Lease)
    harness.send(other, harness.ended(second, "error"), payload=b"begun elsewhere")
    if how == "mission":
        harness.send("cli", Ask("cancel", mission=M, by="me@host"))
    else:
        harness.send(mission, Retract((1,)))

    harness.worker("w", 1, (held(lease, 100.0),), link="back")

    assert [Revoke(lease.attempt)] == harness.sent("back", Revoke)


def test_a_run_beside_the_outcome_of_its_task_is_the_next_process_to_wait_for(
    harness: HubHarness,
) -> None:
    mission, other, lease = silent_and_back(harness)
    harness.send(mission, AckTasks((1,)))
    again = successor(harness, 1)

    assert [Started("w", (1,))] == harness.sent(again, Started)
    assert [] == harness.sent(other, Lease)
    harness.send("back", harness.ended(lease), payload=b"real")
    assert [1] == [one.task for one in harness.sent(again, Resolved)]
    harness.send(again, AckTasks((1,)), Depart())
    assert harness.hub.idle


def test_the_outcome_of_a_run_beside_is_kept_as_long_as_that_of_its_task_was(
    harness: HubHarness,
) -> None:
    mission, other, lease = silent_and_back(harness)
    harness.lose(mission)
    harness.wait(175)  # the first outcome is forgotten, five seconds before the next look
    assert 1 == len(harness.sent(other, AckRuns))
    harness.send("back", harness.ended(lease), payload=b"real")
    harness.wait(60)
    assert [] == harness.sent("back", AckRuns)
    again = successor(harness, 1)

    assert [1] == [one.task for one in harness.sent(again, Resolved)]


def test_a_crash_is_kept_as_long_that_came_after_an_earlier_one_was_looked_at(
    harness: HubHarness,
) -> None:
    worker, mission, (lease,) = running(harness)
    harness.lose(mission)
    harness.send(worker, harness.ended(lease, "crashed", detail="SIGSEGV"))
    harness.wait(115)  # five seconds before the second look
    second = InventoryRun(M, 1, (9, 1), {"Cores": 1}, 100.0)
    other = harness.worker("v", 1, (second,))
    harness.send(other, RunEnded(M, 1, (9, 1), "crashed", "SIGBUS"))
    harness.wait(30)
    again = successor(harness, 1)

    crashes = [one.crash.how for one in harness.sent(again, Crashed)]
    assert ["SIGSEGV", "SIGBUS"] == crashes


def test_a_task_with_the_worker_of_its_run_awaits_its_report_at_a_new_head(
    harness: HubHarness,
) -> None:
    harness.worker("v", 1)
    again = successor(harness, 7, worker="w")
    harness.wait(30)
    assert [] == harness.sent("v", Lease)
    harness.worker("w", 1, (InventoryRun(M, 7, (9, 1), {"Cores": 1}, 100.0),))

    assert [Started("w", (7,))] == harness.sent(again, Started)
    assert [] == harness.sent("v", Lease) + harness.sent("w", Lease)


def test_a_task_that_was_cancelled_does_not_start_when_the_next_process_submits_it_late(
    harness: HubHarness,
) -> None:
    """The process before it was killed before it had read that."""
    worker, mission, (lease,) = running(harness)
    harness.submit(mission, 2)
    harness.send("cli", Ask("cancel", mission=M, task=2, by="me@host"))
    harness.lose(mission)
    again = successor(harness, 1)
    assert [CancelTask(2, "me@host")] == harness.sent(again, CancelTask)
    harness.submit(again, 2)
    harness.send(worker, harness.ended(lease), payload=b"")

    assert [] == harness.sent(worker, Lease)
    assert [Retracted(2)] == harness.sent(again, Retracted)


def test_a_run_ends_that_is_reported_after_its_task_was_cancelled_while_its_worker_was_away(
    harness: HubHarness,
) -> None:
    """Also when all processes have gone, and the mission was forgotten; not one submitted again."""
    worker, mission, leases = running(harness, 1, 2, 3, cores=3)
    harness.lose(worker)
    harness.wait(70)
    harness.send(mission, Retract((1, 2)))
    harness.submit(mission, 4)
    harness.send(mission, Retract((3, 4)), Depart())
    harness.wait(HOUR)
    assert harness.hub.idle
    harness.lose(successor(harness, 2))

    harness.worker("w", 3, tuple(held(lease) for lease in leases), link="back")

    attempts = {lease.task: lease.attempt for lease in leases}
    assert {attempts[1], attempts[3]} == {one.attempt for one in harness.sent("back", Revoke)}
    again = successor(harness, 2, generation=3)
    assert [Started("w", (2,))] == harness.sent(again, Started)


def test_a_run_ends_that_is_reported_after_a_user_has_ended_its_mission(
    harness: HubHarness,
) -> None:
    _, _, (lease,) = running(harness)
    other = HubHarness(epoch=2)
    other.synced(M, connection=2)
    other.send("cli", Ask("cancel", mission=M, by="ada"))

    other.worker("w", 1, (held(lease),))

    assert [Revoke(lease.attempt)] == other.sent("w", Revoke)
