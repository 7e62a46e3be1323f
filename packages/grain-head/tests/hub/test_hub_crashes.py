"""Tasks that crash: the hub runs them alone after two crashes, and fails them after five."""

from __future__ import annotations

import pytest

from grain.head.messages import Crash, Crashed, Resolved, Started, Synced
from grain.worker.messages import InventoryRun, Lease, RunEnded
from grain_testkit.hub_harness import HubHarness
from grain_testkit.scheduler_harness import check_hub


def crash(
    harness: HubHarness, worker: str, times: int, how: str = "SIGSEGV", **more: object
) -> list[Lease]:
    """The same task crashes; returns its leases."""
    leases = []
    for _ in range(times):
        (lease,) = harness.sent(worker, Lease)
        leases.append(lease)
        harness.send(worker, harness.ended(lease, "crashed", detail=how, **more))
    return leases


def test_a_task_that_crashes_twice_gets_a_worker_to_itself(harness: HubHarness) -> None:
    """On a worker that is emptied for it, and then takes all tasks again."""
    worker, mission = harness.worker("w", 3), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    first, second = crash(harness, worker, 1)[0], None
    harness.submit(mission, 2)
    second, beside = harness.sent(worker, Lease)
    assert (1, 2) == (second.task, beside.task)
    harness.send(worker, harness.ended(second, "crashed", detail="SIGSEGV"))
    harness.submit(mission, 3)
    assert [] == harness.sent(worker, Lease)

    harness.send(worker, harness.ended(beside), payload=b"")
    (alone,) = harness.sent(worker, Lease)
    assert (1, True, False) == (alone.task, alone.alone, first.alone)

    harness.send(worker, harness.ended(alone), payload=b"")
    assert [3] == [lease.task for lease in harness.sent(worker, Lease)]


def test_a_task_that_was_ended_for_its_nodes_memory_gets_a_worker_to_itself(
    harness: HubHarness,
) -> None:
    worker, mission = harness.worker("w", 3), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    crash(harness, worker, 1, "it had 9 GB", interruption="short")
    (alone,) = harness.sent(worker, Lease)
    assert (1, True) == (alone.task, alone.alone)


def test_five_crashes_fail_a_task_and_are_all_reported(harness: HubHarness) -> None:
    """With the worker and the reason of each."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    leases = crash(harness, worker, 5)

    (resolved,) = harness.sent(mission, Resolved)
    assert "crashed" == resolved.ending
    assert all(crash.known for crash in resolved.crashes)
    assert [lease.attempt for lease in leases] == [c.attempt for c in resolved.crashes]
    assert {("w", "SIGSEGV")} == {(c.worker, c.how) for c in resolved.crashes}
    assert [] == harness.sent(worker, Lease)


def test_a_new_head_goes_on_counting_the_crashes_that_the_mission_reports() -> None:
    harness = HubHarness(epoch=2)
    worker, mission = harness.worker("w"), harness.mission()
    crashes = tuple(Crash((1, n), "w", "SIGSEGV", 0.0) for n in range(4))
    harness.submit(mission, 1, crashes=crashes)
    harness.send(mission, Synced())
    crash(harness, worker, 1)

    assert 5 == len(harness.sent(mission, Resolved)[0].crashes)


@pytest.mark.parametrize(("workers", "expected"), [(1, 1), (3, 1), (4, 1), (8, 2), (11, 2)])
def test_suspects_hold_up_one_worker_in_four_at_most_and_one_in_any_case(
    harness: HubHarness, workers: int, expected: int
) -> None:
    """The others go on with the tasks that have not crashed."""
    mission = harness.mission()
    for number in range(workers):
        harness.worker(f"w{number}", 1)
    harness.submit(mission, *range(1, workers + 1))  # they keep all workers from being empty
    twice = tuple(Crash((9, n), "w", "SIGSEGV", 0.0) for n in range(2))
    suspects = range(workers + 1, 2 * workers + 2)
    harness.submit(mission, *suspects, crashes=twice)

    reserved = [one.name for one in harness.hub.registry.workers.values() if one.reserved]
    assert expected == len(reserved)


def test_why_says_that_a_suspect_waits_for_a_worker_of_its_own(harness: HubHarness) -> None:
    worker, mission = harness.worker("w", 2), harness.mission()
    harness.submit(mission, 1)
    crash(harness, worker, 1)
    harness.submit(mission, 2)  # runs beside the suspect, so the worker is not emptied yet
    harness.send(worker, harness.ended(harness.sent(worker, Lease)[0], "crashed", detail="SIGSEGV"))
    why = harness.hub.why("m", 1, 0.0)

    assert "waiting" == why.state
    assert "it crashed before, and waits for a worker of its own" == why.reasons[0]
    assert ("crashed on w: SIGSEGV",) * 2 == why.reasons[1:]


def test_a_mission_learns_of_a_crash_that_happened_while_it_was_away(harness: HubHarness) -> None:
    """Or the next head would count from the beginning."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    harness.lose(mission)
    (lease,) = crash(harness, worker, 1)
    again = harness.mission(link="again", connection=2)
    harness.submit(again, 1, worker="w")

    (crashed,) = harness.sent(again, Crashed)
    assert (1, lease.attempt) == (crashed.task, crashed.crash.attempt)


def test_a_mission_that_comes_back_learns_that_a_task_has_another_run_on_its_worker(
    harness: HubHarness,
) -> None:
    """What the last connection said of the crash was lost: its log has the first run go on."""
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    crash(harness, worker, 1)
    again = harness.mission(link="again", connection=2)
    harness.submit(again, 1, worker="w")

    assert [Started("", (1,)), Started("w", (1,))] == harness.sent(again, Started)


def test_the_crash_of_a_run_that_was_given_up_makes_a_waiting_task_a_suspect(
    harness: HubHarness,
) -> None:
    mission = harness.mission(cores=2)
    crashes = (Crash((9, 1), "w", "SIGSEGV", 0.0),)
    harness.submit(mission, 1, worker="later", crashes=crashes)
    held = InventoryRun("m", 1, (9, 2), {"Cores": 1}, 0.0, ended=True)
    narrow = harness.worker("narrow", 1, (held,))
    harness.wait(65.0)  # it awaits no report any more, and waits for two cores
    harness.send(narrow, RunEnded("m", 1, (9, 2), "crashed", "SIGSEGV"))
    check_hub(harness.hub, harness.now)

    (lease,) = harness.sent(harness.worker("wide", 3), Lease)
    assert lease.alone
    task = harness.hub.registry.missions["m"].tasks[1]
    assert [(9, 1), (9, 2)] == [one.attempt for one in task.crashes]
