"""Runs that use their resources no more before they have ended."""

from __future__ import annotations

import pytest

from grain.edge.mission_ids import lasting_id
from grain.head.messages import Crashed, Resolved, Retract, Started, Synced
from grain.worker.messages import InventoryRun, Lease, Revoke, RunEnded, RunOver
from grain_testkit.hub_harness import HubHarness, held

M = lasting_id("queue", "1a2b")


def running(harness: HubHarness, *tasks: int) -> tuple[str, str, Lease]:
    """Let the first of some tasks run on a worker with one core."""
    worker, mission = harness.worker("w", 1), harness.mission(M)
    harness.send(mission, Synced())
    harness.submit(mission, *tasks)
    (lease,) = harness.sent(worker, Lease)
    return worker, mission, lease


def test_the_next_task_starts_before_a_run_that_is_over_has_ended(harness: HubHarness) -> None:
    worker, mission, lease = running(harness, 1, 2)

    harness.send(worker, RunOver(lease.attempt))

    assert [2] == [one.task for one in harness.sent(worker, Lease)]
    assert [] == harness.sent(mission, Resolved)
    harness.send(worker, harness.ended(lease), payload=b"outcome")
    assert [1] == [one.task for one in harness.sent(mission, Resolved)]


def test_a_run_is_over_once_however_often_its_worker_says_so(harness: HubHarness) -> None:
    worker, _, lease = running(harness, 1, 2, 3)

    harness.send(worker, RunOver(lease.attempt), RunOver(lease.attempt), RunOver((1, 99)))
    assert [2] == [one.task for one in harness.sent(worker, Lease)]
    harness.send(worker, harness.ended(lease), RunOver(lease.attempt), payload=b"outcome")

    assert [] == harness.sent(worker, Lease)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_a_run_that_is_over_crashes_with_its_worker_unless_it_has_ended(
    harness: HubHarness, ended: bool, told: bool
) -> None:
    """Its mission has to know that its receipt may never be made; an outcome has one."""
    worker, mission, lease = running(harness, 1, 2)
    if told:
        harness.send(worker, RunOver(lease.attempt))
    harness.lose(worker)
    harness.worker("w", 1, (held(lease, ended=ended, over=not ended),))
    assert {2} == {one.task for one in harness.sent(worker, Lease)}
    harness.lose(worker)
    harness.wait(70)

    crashes = [one.task for one in harness.sent(mission, Crashed) if one.task == 1]
    assert ([] if ended else [1]) == crashes


def test_a_new_head_gives_the_resources_of_a_run_that_is_over_to_the_next_task(
    harness: HubHarness,
) -> None:
    over = InventoryRun(M, 1, (9, 1), {"Cores": [0]}, 5.0, over=True)
    runs = InventoryRun(M, 2, (9, 2), {"Cores": [0]}, 1.0)
    worker, mission = harness.worker("w", 1, (over, runs)), harness.mission(M)
    harness.submit(mission, 1, 2, 3)
    harness.send(mission, Synced())

    assert {1, 2} == {task for one in harness.sent(mission, Started) for task in one.tasks}
    assert [] == harness.sent(worker, Lease) + harness.sent(worker, Revoke)
    harness.send(worker, RunEnded(M, 2, (9, 2), "value"), payload=b"outcome")
    assert [3] == [one.task for one in harness.sent(worker, Lease)]
    harness.lose(worker)
    harness.wait(70)
    assert 1 in [one.task for one in harness.sent(mission, Crashed)]


def test_a_run_that_is_over_and_that_nobody_wants_is_told_to_end(harness: HubHarness) -> None:
    """It may wait for a disk that is full."""
    mission = harness.mission(M)
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    harness.send(mission, Retract((1,)))
    worker = harness.worker("w", 1, (InventoryRun(M, 1, (9, 1), {"Cores": [0]}, 5.0, over=True),))

    assert [(9, 1)] == [one.attempt for one in harness.sent(worker, Revoke)]


def test_a_suspect_waits_for_a_run_that_is_over(harness: HubHarness) -> None:
    worker, mission, lease = running(harness, 1)
    harness.send(worker, RunOver(lease.attempt))
    harness.submit(mission, 2)
    for _ in range(2):
        (suspect,) = harness.sent(worker, Lease)
        harness.send(worker, harness.ended(suspect, "crashed"))

    assert [] == harness.sent(worker, Lease)
    harness.send(worker, harness.ended(lease), payload=b"outcome")
    assert [True] == [one.alone for one in harness.sent(worker, Lease)]


def test_the_place_of_a_run_is_judged_by_its_end_where_others_have_failed(
    harness: HubHarness,
) -> None:
    worker, mission, lease = running(harness, 1, 2, 3)
    harness.send(worker, harness.ended(lease, "error"), payload=b"outcome")
    assert harness.hub.scheduler.places.watches
    (second,) = harness.sent(worker, Lease)

    harness.send(worker, RunOver(second.attempt))

    assert [] == harness.sent(worker, Lease)
    harness.send(worker, harness.ended(second), payload=b"outcome")
    assert [3] == [one.task for one in harness.sent(worker, Lease)]
    assert [1, 2] == [one.task for one in harness.sent(mission, Resolved)]
