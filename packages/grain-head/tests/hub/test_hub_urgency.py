"""The urgency of tasks in the hub: within a mission, across heads and beside other missions."""

from __future__ import annotations

import pytest

from grain.head.errors import BadMessage
from grain.head.messages import Retract, Submit, Synced
from grain.head.validation import check_message
from grain.worker.messages import InventoryRun, Lease
from grain_testkit.hub_harness import F, HubHarness


def started(harness: HubHarness, worker: str) -> list[tuple[str, int]]:
    """End one run after another; return the tasks of the runs in the order of their starts."""
    tasks = []
    while leases := harness.sent(worker, Lease):
        for lease in leases:
            tasks.append((lease.mission, lease.task))
            harness.send(worker, harness.ended(lease))
    return tasks


def test_the_most_urgent_task_of_a_mission_goes_first(harness: HubHarness) -> None:
    mission = harness.synced("m", 1, 2)
    harness.submit(mission, 3, urgency=2.0)
    harness.submit(mission, 4, urgency=1.0)
    harness.worker("w", 1)

    assert [3, 4, 1, 2] == [task for _, task in started(harness, "w")]


def test_missions_take_turns_whatever_the_urgency_of_their_tasks(harness: HubHarness) -> None:
    for name in "a", "b":
        harness.send(harness.mission(name), Synced())
    harness.submit("a", *range(1, 5), urgency=1000.0)
    harness.submit("b", *range(1, 3))
    harness.submit("b", *range(3, 5), urgency=-5.0)
    harness.worker("w", 1)

    order = started(harness, "w")
    assert 8 == len(order)
    for k in range(0, 8, 2):
        assert {"a", "b"} == {mission for mission, _ in order[k : k + 2]}


def test_tasks_keep_their_urgency_while_their_mission_is_paused_or_one_is_retracted(
    harness: HubHarness,
) -> None:
    mission = harness.synced("m", 1, 2)
    harness.submit(mission, 3, 4, urgency=2.0)
    for task in list(harness.hub.registry.missions[mission].tasks.values()):
        harness.hub.waiting.withdraw(task)
        harness.hub.waiting.enqueue(task, harness.now)
    harness.send(mission, Retract((3,)))
    harness.worker("w", 1)

    assert [4, 1, 2] == [task for _, task in started(harness, "w")]


@pytest.mark.parametrize("urgency", [float("nan"), float("inf")])
def test_an_urgency_that_is_no_number_is_refused(urgency: float) -> None:
    with pytest.raises(BadMessage, match="finite"):
        check_message(Submit(1, 0, F, urgency=urgency))


def test_what_waits_behind_a_task_whose_earlier_run_is_reported_keeps_its_turn(
    harness: HubHarness,
) -> None:
    """The mission has had an outcome for the turn; it starts no later than without that."""
    harness.send(harness.mission("a"), Synced())
    harness.submit("a", 1, 2, 3)
    harness.send(harness.mission("b"), Synced())
    harness.submit("b", 1, 2, 3)

    earlier = InventoryRun("a", 1, (9, 1), {"Cores": [0]}, 1.0, ended=True)
    harness.worker("w", 1, (earlier,))

    order = [("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)]
    assert order == started(harness, "w")
