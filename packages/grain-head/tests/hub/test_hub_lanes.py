"""Lanes at a hub: when one starts, and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.head.messages import (
    AckTasks,
    Crashed,
    RegisterMission,
    Request,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
)
from grain.worker.messages import (
    LANE,
    ArrivedCount,
    DefineFunction,
    Inventory,
    InventoryEnd,
    Lease,
    Recall,
    RegisterWorker,
)
from grain_testkit.hub_harness import F, HubHarness, held

if TYPE_CHECKING:
    from grain.head.messages import Crash


def ask(harness: HubHarness, lane: int, mission: str = "m", worker: str = "") -> None:
    harness.send(mission, Submit(lane, 0, LANE, worker), payload=b"invitation")


def leave(
    harness: HubHarness, task: int, lane: int, crashes: tuple[Crash, ...] = ()
) -> list[Lease]:
    """Submit the call of a lane twice, as messages may come; return what starts."""
    harness.send("m", *[Submit(task, 0, F, "", crashes, lane=lane)] * 2, payload=b"")
    return [lease for worker in ("w", "w2") for lease in harness.sent(worker, Lease)]


def test_a_lane_does_not_start_while_a_task_waits(harness: HubHarness) -> None:
    harness.worker("w", 2)
    harness.mission("m", 2)
    harness.mission("one", 1)
    harness.send("m", Synced())
    harness.send("one", Synced())
    harness.submit("one", 1)
    harness.submit("m", 1)

    ask(harness, 2, "one")

    assert [2] == [one.task for one in harness.sent("one", Resolved)]
    assert [1] == [lease.task for lease in harness.sent("w", Lease)]


def test_of_several_lanes_those_start_that_have_room_and_nothing_is_kept_for_the_others(
    harness: HubHarness,
) -> None:
    harness.worker("w", 2)
    mission = harness.mission("m", 2)
    harness.send(mission, Synced())
    harness.submit(mission, 1)
    [two] = harness.sent("w", Lease)
    harness.send("w", harness.ended(two), payload=b"")
    other = harness.mission("other", 1)
    harness.send(other, Synced())

    lanes = [Submit(number, 0, LANE) for number in (1, 2, 3)]
    harness.send(other, *lanes, payload=b"invitation")

    assert [1, 2] == [lease.task for lease in harness.sent("w", Lease)]
    assert [3] == [one.task for one in harness.sent(other, Resolved)]
    assert 0 == harness.hub.scheduler.waiting
    assert [] == harness.sent("w", Recall)


def test_a_lane_starts_though_many_requests_come_with_it(harness: HubHarness) -> None:
    """Queues without tasks are forgotten when there are many, and that of the lane has none yet."""
    harness.worker("w", 1)
    mission = harness.mission()
    harness.send(mission, Synced())
    requests = [Request(number, {"Memory": number}) for number in range(1, 400)]

    harness.send(mission, Submit(1, 0, LANE), *requests, payload=b"")
    harness.submit(mission, 2)

    [lease] = harness.sent("w", Lease)
    assert (1, {"Cores": 1}) == (lease.task, lease.res)
    assert [Recall(lease.attempt)] == harness.sent("w", Recall)


def test_a_lane_that_is_retracted_before_it_could_start_does_not_start(
    harness: HubHarness,
) -> None:
    harness.worker("w", 2)
    mission = harness.mission()
    harness.send(mission, Synced())

    harness.send(mission, Submit(1, 0, LANE), Retract((1,)), payload=b"")

    assert [Retracted(1)] == harness.sent(mission, Retracted)
    assert [] == harness.sent("w", Lease)


def test_a_lane_that_its_worker_reports_to_another_head_is_recalled_when_tasks_wait(
    harness: HubHarness,
) -> None:
    harness.worker("w", 1)
    mission = harness.mission()
    harness.send(mission, Synced())
    ask(harness, 1)
    [lane] = harness.sent("w", Lease)
    other = HubHarness(epoch=2)
    other.send("m", RegisterMission("m", "m"), Request(0, {"Cores": 1}))
    other.send("m", DefineFunction(F, "f"))
    ask(other, 1, worker="w")
    other.send("m", Synced())
    other.send(
        "w",
        RegisterWorker("w", "w", "host", {"Cores": 1}),
        Inventory((held(lane),)),
        InventoryEnd(),
    )
    assert [] == other.sent("w", Recall)

    other.submit("m", 2)

    assert [Recall(lane.attempt)] == other.sent("w", Recall)


@pytest.mark.parametrize("says_so", [True, False])
def test_a_lane_that_another_head_began_is_recalled_also_before_its_mission_comes(
    harness: HubHarness, says_so: bool
) -> None:
    """A worker of an older version does not say that it is a lane: then its mission has to."""
    harness.worker("w", 1)
    harness.send(harness.mission(), Synced())
    ask(harness, 1)
    [lane] = harness.sent("w", Lease)
    other = HubHarness(epoch=2)
    other.worker("w", 1, (held(lane, lane=says_so),))
    other.mission("waits", 1)

    other.submit("waits", 1)

    recalled = [Recall(lane.attempt)]
    assert (recalled if says_so else []) == other.sent("w", Recall)

    other.mission()
    ask(other, 1, worker="w")

    assert ([] if says_so else recalled) == other.sent("w", Recall)


def test_a_lane_that_crashes_before_its_mission_comes_is_over(harness: HubHarness) -> None:
    harness.worker("w", 1)
    harness.send(harness.mission(), Synced())
    ask(harness, 1)
    [lane] = harness.sent("w", Lease)
    other = HubHarness(epoch=2)
    other.worker("w", 1, (held(lane),))
    other.send("w", other.ended(lane, "crashed", detail="exit code 1"))

    other.mission()
    ask(other, 1, worker="w")

    [over] = other.sent("m", Resolved)
    assert (1, "crashed", [lane.attempt]) == (
        over.task,
        over.ending,
        [crash.attempt for crash in over.crashes],
    )
    assert [] == other.sent("w", Lease)


def test_a_call_leaves_its_lane_once_whether_its_number_ascends_or_not(
    harness: HubHarness,
) -> None:
    harness.worker("w", 1)
    mission = harness.mission()
    harness.send(mission, Synced())
    for lane, call, last in ((1, 3, 2), (4, 5, 4)):
        ask(harness, lane)
        if last > lane:  # a task of another number has come meanwhile
            harness.send(mission, Retract((last,)))
        [lease] = harness.sent("w", Lease)
        harness.send("w", harness.ended(lease), payload=b"")

        [started] = leave(harness, call, lane)

        assert (call, F) == (started.task, started.function)
        harness.send(mission, AckTasks((lane,)))
        harness.send("w", harness.ended(started), payload=b"")
        harness.send(mission, AckTasks((call,)))


def test_a_lane_whose_worker_runs_out_of_its_time_does_not_outlive_it(
    harness: HubHarness,
) -> None:
    harness.worker("w", 1, seconds=115.0)
    mission = harness.mission()
    harness.send(mission, Synced())
    ask(harness, 1)
    [_] = harness.sent("w", Lease)
    harness.send("w", ArrivedCount(1))
    harness.wait(114.0)
    harness.lose("w")
    harness.wait(70.0)

    [over] = harness.sent(mission, Resolved)
    assert (1, "crashed") == (over.task, over.ending)
    assert [] == [crash for crash in over.crashes if crash.outlived is not None]
    assert [] == [one for one in harness.sent(mission, Crashed) if one.crash.outlived is not None]
    assert "w" in {one.worker for one in harness.sent(mission, Started)}
