"""Lanes at a hub: when one starts, and when it ends."""

from __future__ import annotations

import math

import pytest

from grain.head.hub.answers.demand import demand
from grain.head.messages import (
    SLICE,
    AckTasks,
    CancelTask,
    Crashed,
    HeldCalls,
    LaneReport,
    RegisterMission,
    Request,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Synced,
)
from grain.resource import Cores, to_data
from grain.worker.messages import (
    LANE,
    AckRuns,
    ArrivedCount,
    DefineFunction,
    Draining,
    Inventory,
    InventoryEnd,
    Lease,
    Recall,
    RegisterWorker,
    Status,
)
from grain_testkit.hub_harness import F, HubHarness, held


def ask(harness: HubHarness, lane: int, mission: str = "m", worker: str = "") -> None:
    harness.send(mission, Submit(lane, 0, LANE, worker), payload=b"invitation")


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
    harness.synced("m", 1, cores=2)
    [two] = harness.sent("w", Lease)
    harness.send("w", harness.ended(two), payload=b"")
    other = harness.synced("other", cores=1)

    lanes = [Submit(number, 0, LANE) for number in (1, 2, 3)]
    harness.send(other, *lanes, payload=b"invitation")

    assert [1, 2] == [lease.task for lease in harness.sent("w", Lease)]
    assert [3] == [one.task for one in harness.sent(other, Resolved)]
    assert 0 == harness.hub.scheduler.waiting
    assert [] == harness.sent("w", Recall)


def test_a_lane_starts_though_many_requests_come_with_it(harness: HubHarness) -> None:
    """Queues without tasks are forgotten when there are many, and that of the lane has none yet."""
    harness.worker("w", 1)
    mission = harness.synced()
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
    mission = harness.synced()

    harness.send(mission, Submit(1, 0, LANE), Retract((1,)), payload=b"")

    assert [Retracted(1)] == harness.sent(mission, Retracted)
    assert [] == harness.sent("w", Lease)


@pytest.mark.parametrize("status", ["value", "cancelled"])
def test_what_a_lane_has_kept_of_its_calls_reaches_a_mission_that_has_retracted_it(
    harness: HubHarness, status: Status
) -> None:
    harness.worker("w", 1)
    mission = harness.synced()
    ask(harness, 1)
    [lane] = harness.sent("w", Lease)
    harness.send(mission, Retract((1,)))

    harness.send("w", harness.ended(lane, status), payload=b"kept" if status == "value" else None)

    resolved = [one.task for one in harness.sent(mission, Resolved)]
    retracted = [one.task for one in harness.sent(mission, Retracted)]
    assert (([1], []) if status == "value" else ([], [1])) == (resolved, retracted)
    if status == "value":
        assert [] == harness.sent("w", AckRuns)  # it keeps that until the mission has it
        harness.send(mission, AckTasks((1,)))
    assert [AckRuns((lane.attempt,))] == harness.sent("w", AckRuns)


def test_a_lane_that_its_worker_reports_to_another_head_is_recalled_when_tasks_wait(
    harness: HubHarness,
) -> None:
    harness.worker("w", 1)
    harness.synced()
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


def test_a_mission_is_told_which_call_its_lane_had_begun_last(harness: HubHarness) -> None:
    harness.worker("w", 1)
    harness.send(harness.mission(), Synced())
    ask(harness, 1)
    [lane] = harness.sent("w", Lease)

    harness.send("w", harness.ended(lane, "crashed", detail="SIGKILL", call=30))

    [over] = harness.sent("m", Resolved)
    assert [30] == [crash.call for crash in over.crashes]


def test_a_task_whose_number_need_not_ascend_comes_once(harness: HubHarness) -> None:
    harness.worker("w", 3)
    mission = harness.synced("m", 9)
    for late, number in ((1, 3), (2, 12), (3, 7)):
        harness.send(mission, *[Submit(number, 0, F, late=late)] * 2, payload=b"")
        harness.send(mission, Submit(3, 0, F, late=1), payload=b"")
    leases = harness.sent("w", Lease)
    assert [9, 3, 12] == [lease.task for lease in leases]

    harness.send("w", harness.ended(leases[1]), payload=b"")
    harness.send(mission, AckTasks((3,)))
    harness.send(mission, Submit(3, 0, F, late=1), payload=b"")

    assert [7] == [lease.task for lease in harness.sent("w", Lease)]


def test_a_task_whose_number_need_not_ascend_leaves_smaller_numbers_to_come(
    harness: HubHarness,
) -> None:
    """A loop that submits faster than they leave has some that are yet to leave."""
    harness.worker("w", 4)
    mission = harness.synced("m", 9)
    harness.send(mission, Submit(12, 0, F, late=1), payload=b"")
    harness.submit(mission, 10, 11)

    assert [9, 12, 10, 11] == [lease.task for lease in harness.sent("w", Lease)]


def test_a_lane_whose_worker_runs_out_of_its_time_does_not_outlive_it(
    harness: HubHarness,
) -> None:
    harness.worker("w", 1, seconds=115.0)
    mission = harness.synced()
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


# ---- lanes that wait


def wait_for(harness: HubHarness, mission: str, *lanes: int) -> None:
    harness.send(mission, *[Submit(one, 0, LANE, waits=True) for one in lanes], payload=b"way")


def two_missions(harness: HubHarness, cores: int = 1) -> tuple[str, str]:
    harness.worker("w", cores)
    for name in ("m", "other"):
        harness.mission(name)
        harness.send(name, Synced())
    return "m", "other"


def test_a_lane_waits_and_has_a_slice_when_others_wait(harness: HubHarness) -> None:
    mission, other = two_missions(harness)
    wait_for(harness, mission, 1, 2)
    [lane] = harness.sent("w", Lease)
    assert (1, LANE) == (lane.task, lane.function)
    harness.wait(10 * SLICE)
    assert ([], math.inf) == (harness.sent("w", Recall), harness.hub.lanes.due)

    wait_for(harness, other, 1)
    assert [Recall(lane.attempt)] == harness.sent("w", Recall)
    harness.send("w", harness.ended(lane), payload=b"")
    [second] = harness.sent("w", Lease)
    assert ("other", 1) == (second.mission, second.task)

    harness.wait(SLICE / 2)
    assert [] == harness.sent("w", Recall)
    assert harness.now + SLICE / 2 == pytest.approx(harness.hub.lanes.due)
    harness.wait(SLICE / 2 + 0.001)
    assert [Recall(second.attempt)] == harness.sent("w", Recall)


def test_one_lane_ends_for_each_task_that_waits_the_longest_served_first(
    harness: HubHarness,
) -> None:
    mission, other = two_missions(harness, 3)
    wait_for(harness, mission, 1, 2, 3)
    lanes = harness.sent("w", Lease)
    harness.wait(2 * SLICE)
    harness.submit(other, 1, 2)
    assert [Recall(lane.attempt) for lane in lanes[:2]] == harness.sent("w", Recall)
    harness.wait(2 * SLICE)
    assert [] == harness.sent("w", Recall)


def test_nothing_is_due_when_the_last_lane_has_ended_within_its_slice(
    harness: HubHarness,
) -> None:
    """Who decides again when it is due would do so without end."""
    mission, other = two_missions(harness)
    wait_for(harness, mission, 1)
    [lane] = harness.sent("w", Lease)
    harness.submit(other, 1)
    assert harness.now + SLICE == pytest.approx(harness.hub.lanes.due)

    harness.send("w", harness.ended(lane), payload=b"")

    assert [1] == [lease.task for lease in harness.sent("w", Lease)]
    assert math.inf == harness.hub.lanes.due


def test_a_task_of_the_same_request_ends_a_lane_and_another_lane_of_it_does_not(
    harness: HubHarness,
) -> None:
    mission, _ = two_missions(harness)
    wait_for(harness, mission, 1, 2)
    [lane] = harness.sent("w", Lease)
    harness.wait(2 * SLICE)
    assert [] == harness.sent("w", Recall)
    harness.submit(mission, 3)
    assert [Recall(lane.attempt)] == harness.sent("w", Recall)


def test_a_lane_beside_what_is_reserved_has_its_slice() -> None:
    """Else it would end before it has had a call, and the next one would take its place."""
    harness = HubHarness(max_overtakes=2)
    mission, other = two_missions(harness, 4)
    harness.send(mission, Request(1, {"Cores": 2}, 0))
    harness.send(other, Request(1, {"Cores": 3}, 0))
    harness.send(mission, Submit(1, 1, F), payload=b"")
    harness.send(other, Submit(1, 1, F), payload=b"")
    harness.submit(mission, 2, 3)
    [_, *brief] = harness.sent("w", Lease)
    [worker] = harness.hub.scheduler.workers.values()
    assert worker.reservation is not None
    for lease in brief:
        harness.send("w", harness.ended(lease), payload=b"")

    wait_for(harness, mission, 4, 5)
    [lane] = harness.sent("w", Lease)
    harness.wait(SLICE / 2)
    assert (lane.task, []) == (4, harness.sent("w", Recall))
    assert harness.now + SLICE / 2 == pytest.approx(harness.hub.lanes.due)


def test_a_lane_beside_a_gang_of_higher_priority_that_lacks_a_member_has_its_slice(
    harness: HubHarness,
) -> None:
    """Else lanes would be recalled before they have had a call, a hundred times a second."""
    mission, other = two_missions(harness, 2)
    harness.worker("leaves", 2)
    harness.send("leaves", Draining())
    harness.send(other, Request(1, to_data(2 * Cores(1)), 5))
    harness.send(other, Submit(1, 1, F), payload=b"")
    wait_for(harness, mission, 1)
    [lane] = harness.sent("w", Lease)
    harness.wait(SLICE / 2)
    assert [] == harness.sent("w", Recall)
    harness.wait(SLICE / 2 + 0.001)
    assert [Recall(lane.attempt)] == harness.sent("w", Recall)


def test_what_no_worker_of_a_lane_could_serve_ends_none(harness: HubHarness) -> None:
    mission, other = two_missions(harness)
    wait_for(harness, mission, 1)
    harness.wait(2 * SLICE)
    harness.send(other, Request(1, {"Cores": 7}))
    harness.send(other, Submit(1, 1, F), payload=b"")
    assert [] == harness.sent("w", Recall)


def test_lanes_that_are_retracted_cost_their_mission_no_turn(harness: HubHarness) -> None:
    mission, other = two_missions(harness)
    harness.submit(mission, 1)
    [first] = harness.sent("w", Lease)
    wait_for(harness, mission, *range(2, 40))
    harness.send(mission, Retract(tuple(range(39, 1, -1))))
    harness.submit(mission, 40)
    harness.submit(other, 1, 2, 3)
    harness.send("w", harness.ended(first), payload=b"")
    order = []
    for _ in range(3):
        [lease] = harness.sent("w", Lease)
        order.append(lease.mission)
        harness.send("w", harness.ended(lease), payload=b"")
    assert mission in order[:2]


def test_the_next_head_knows_of_a_slice_from_the_mission(harness: HubHarness) -> None:
    mission, _ = two_missions(harness)
    wait_for(harness, mission, 1)
    [lane] = harness.sent("w", Lease)
    other = HubHarness(epoch=2)
    other.worker("w", 1, (held(lane),))
    other.mission("m")
    other.send("m", Submit(1, 0, LANE, "w", waits=True), payload=b"way")
    other.send("m", Synced())
    other.wait(2 * SLICE)
    wait_for(other, "m", 2)
    assert [] == other.sent("w", Recall)
    other.submit("m", 3)
    assert [Recall(lane.attempt)] == other.sent("w", Recall)


def test_a_call_that_a_mission_holds_waits_can_be_explained_and_cancelled(
    harness: HubHarness,
) -> None:
    mission, _ = two_missions(harness)
    wait_for(harness, mission, 1, 2)
    harness.send(mission, LaneReport(last=9, held=(HeldCalls(0, 5, 3, 9),)))

    state, overview = harness.hub.snapshot(harness.now), harness.hub.overview.state(harness.now)
    assert 5 == harness.hub.counts().waiting == sum(one.waiting for one in state.queues)
    assert [5, 0] == [one.waiting for one in state.missions]
    assert ([5, 0], 5) == ([one.left for one in overview.missions], overview.queues[0].waiting)
    [demanded] = demand(harness.hub.registry, harness.hub.waiting, harness.now).classes
    assert (5, 0) == (demanded.waiting, demanded.running)
    why = harness.hub.why("m", 4, harness.now)
    assert ("waiting", True) == (why.state, "holds it" in why.reasons[0])
    assert "it asks for Cores(1)" == why.reasons[1]
    assert len(why.reasons) > 2
    assert "unknown" == harness.hub.why("m", 10, harness.now).state
    assert "waiting" == harness.hub.cancel("m", 4, "eve").state
    harness.dispatch()
    assert [CancelTask(4, "eve")] == harness.sent(mission, CancelTask)

    harness.send(mission, LaneReport(last=9))
    assert 0 == harness.hub.counts().waiting


def test_held_calls_are_shown_in_their_queue_also_where_no_lane_waits(harness: HubHarness) -> None:
    mission, _ = two_missions(harness)
    harness.send(mission, LaneReport(last=9, held=(HeldCalls(0, 5, 3, 9),)))

    state, overview = harness.hub.snapshot(harness.now), harness.hub.overview.state(harness.now)
    assert [5] == [one.waiting for one in state.queues] == [one.waiting for one in overview.queues]


def test_a_lane_without_a_call_is_not_shown_as_a_task_that_runs(harness: HubHarness) -> None:
    mission, _ = two_missions(harness)
    wait_for(harness, mission, 1)
    harness.dispatch()
    harness.send(mission, LaneReport(last=9, held=(HeldCalls(0, 5, 3, 9),)))

    overview = harness.hub.overview.state(harness.now)
    assert [(5, 0)] == [(one.waiting, one.running) for one in overview.queues]
    assert [(5, 0)] == [(one.left, one.running) for one in overview.missions][:1]
