"""The calls in lanes, which a hub does not see: what their mission reports, and what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from grain.edge.questions import (
    Answer,
    Ask,
    DemandAnswer,
    FoundAnswer,
    OverviewAnswer,
    ProgramsAnswer,
    RunsAnswer,
    StateAnswer,
    WhyAnswer,
    unpack,
)
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import RunMember
from grain.facts.rows import Run
from grain.head.gnaw.metrics import Exposition
from grain.head.hub.answers import overview
from grain.head.messages import (
    AckTasks,
    CancelTask,
    Depart,
    LaneCall,
    LaneCount,
    LaneFailure,
    LaneReport,
    RegisterMission,
    Request,
    Retracted,
    Submit,
    Synced,
    WorkerEnded,
)
from grain.worker.messages import (
    LANE,
    ArrivedCount,
    DefineFunction,
    Draining,
    Inspect,
    Lease,
    Leaving,
)
from grain_testkit.hub_harness import F, HubHarness, held

LANE_TASK, CALL = 9, 12
G = b"another"


@pytest.fixture
def lane(harness: HubHarness) -> Lease:
    """A lane of the mission ``opt`` on a worker of two cores, from the second 0 on."""
    harness.worker("w", 2)
    mission = harness.mission("opt")
    harness.send(mission, DefineFunction(F, "optimise"), DefineFunction(G, "relax"), Synced())
    harness.send(mission, Submit(LANE_TASK, 0, LANE), payload=b"invitation")
    [lease] = harness.sent("w", Lease)
    return lease


def reported(harness: HubHarness, *calls: LaneCall, **more: Any) -> None:
    harness.send("opt", LaneReport(calls, last=CALL, **more))


def asked(harness: HubHarness, ask: Ask, form: Any) -> Any:
    harness.send("cli", ask)
    [*_, (answer, payload)] = harness.mail.pop("cli")
    assert Answer(ask.about) == answer
    return unpack(payload, form)


def state(harness: HubHarness) -> StateAnswer:
    answer: StateAnswer = asked(harness, Ask("state"), StateAnswer)
    return answer


def seen(harness: HubHarness) -> OverviewAnswer:
    harness.now += overview.FRESH
    answer: OverviewAnswer = asked(harness, Ask("overview"), OverviewAnswer)
    return answer


def test_a_lane_without_a_call_holds_cores_and_is_not_a_running_task(
    harness: HubHarness, lane: Lease
) -> None:
    answer, short = state(harness), seen(harness)

    assert 0 == answer.tasks.running == answer.tasks.waiting
    [worker], [mission] = answer.workers, answer.missions
    assert (0, [], {"Cores": 0.5}) == (worker.running, worker.tasks, worker.used)
    assert (0, 0) == (mission.running, mission.waiting)
    assert [] == answer.queues
    [row], [owner] = short.workers, short.missions
    assert (0, [], {"Cores": 0.5}) == (row.running, row.runs, row.used)
    assert (0, 0) == (owner.running, owner.left)
    assert (1, 2) == short.cores
    assert 0 == short.tasks.running
    runs = asked(harness, Ask("runs", pattern="w"), RunsAnswer)
    assert ([], 0) == (runs.runs, runs.more)
    demand = asked(harness, Ask("demand"), DemandAnswer)
    assert [] == demand.classes
    assert 1 == demand.workers[0].running  # so it is not taken for one that is free
    [drained] = harness.hub.drain("w")
    assert 0 == drained.running


def test_a_call_that_lasts_is_shown_in_the_place_of_its_lane(
    harness: HubHarness, lane: Lease
) -> None:
    harness.now = 100.0
    reported(harness, LaneCall(LANE_TASK, CALL, G, 1.5))
    answer, short = state(harness), seen(harness)

    assert 1 == answer.tasks.running == short.tasks.running
    [worker], [mission] = answer.workers, answer.missions
    assert (1, [f"opt:{CALL}"]) == (worker.running, worker.tasks)
    assert 1 == mission.running
    assert [1] == [queue.running for queue in answer.queues]
    [row], [owner] = short.workers, short.missions
    run = Run(
        mission="opt", task=CALL, function="relax", state="running", final=False, asked="Cores(1)",
        started=98.5,
    )  # fmt: skip
    assert (1, [run]) == (row.running, row.runs)
    assert (1, 1) == (owner.running, owner.left)
    [its_class] = asked(harness, Ask("demand"), DemandAnswer).classes
    assert (1, 2.0) == (its_class.running, its_class.elapsed)


def test_it_is_no_longer_shown_when_a_report_is_without_it(
    harness: HubHarness, lane: Lease
) -> None:
    reported(harness, LaneCall(LANE_TASK, CALL, F, 1.5))
    reported(harness)
    assert 0 == state(harness).tasks.running
    reported(harness, LaneCall(LANE_TASK, CALL + 1, F, 1.5))
    harness.send("w", harness.ended(lane), payload=b"")

    assert 0 == state(harness).tasks.running
    assert 0 == state(harness).missions[0].running


def test_reports_of_lanes_that_are_not_there_change_nothing(
    harness: HubHarness, lane: Lease
) -> None:
    harness.submit("opt", 10)
    reported(harness, LaneCall(10, CALL, F, 1.5), LaneCall(77, CALL, F, 1.5))

    assert 1 == state(harness).tasks.running
    assert "unknown" == harness.hub.why("opt", CALL, 1.0).state
    assert ["opt:10"] == state(harness).workers[0].tasks


def test_why_and_programs_find_a_call_in_a_lane(harness: HubHarness, lane: Lease) -> None:
    harness.now = 10.0
    reported(harness, LaneCall(LANE_TASK, CALL, G, 2.0))
    why = asked(harness, Ask("why", "opt", CALL), WhyAnswer)

    assert ("running", "relax", "w", "host", 2.0) == (
        *(why.state, why.function, why.worker, why.host, why.seconds),
    )
    harness.send("cli", Ask("programs", "opt", CALL))
    assert [lane.attempt] == [message.attempt for message in harness.sent("w", Inspect)]


def test_a_call_of_which_nothing_is_known_may_have_been_in_a_lane(
    harness: HubHarness, lane: Lease
) -> None:
    """The number of a lane itself is not one that a user has seen anywhere."""
    reported(harness)
    [brief] = harness.hub.why("opt", CALL, 1.0).reasons
    [later] = harness.hub.why("opt", CALL + 1, 1.0).reasons

    assert brief.startswith("it has ended or was cancelled")
    assert "it has not been submitted yet" == later
    assert "unknown" == harness.hub.why("opt", LANE_TASK, 1.0).state
    assert harness.hub.cancel("opt", LANE_TASK, "eve").mission is None
    reported(harness, LaneCall(LANE_TASK, CALL, F, 1.5))
    assert asked(harness, Ask("why", "opt", LANE_TASK), WhyAnswer).worker is None
    assert [] == asked(harness, Ask("programs", "opt", LANE_TASK), ProgramsAnswer).programs
    assert [] == harness.sent("w", Inspect)


def test_the_mission_cancels_a_call_in_a_lane_for_a_user(harness: HubHarness, lane: Lease) -> None:
    reported(harness, LaneCall(LANE_TASK, CALL, F, 1.5))
    found = asked(harness, Ask("cancel", "opt", CALL, by="eve"), FoundAnswer)

    assert "running" == found.state
    assert [CancelTask(CALL, "eve")] == harness.sent("opt", CancelTask)


def test_a_mission_that_was_away_is_told_of_a_cancelled_call_when_it_is_back(
    harness: HubHarness, lane: Lease
) -> None:
    reported(harness, LaneCall(LANE_TASK, CALL, F, 1.5))
    harness.lose("opt")
    assert 1 == state(harness).tasks.running  # as far as is known
    harness.hub.cancel("opt", CALL, "eve")
    harness.send("again", RegisterMission("opt", "opt", connection=2))

    assert [CancelTask(CALL, "eve")] == harness.sent("again", CancelTask)


def test_a_cancelled_call_that_leaves_its_lane_as_its_mission_connects_does_not_begin(
    harness: HubHarness, lane: Lease
) -> None:
    """The mission has sent it before it was told."""
    reported(harness, LaneCall(LANE_TASK, CALL, F, 1.5))
    harness.hub.cancel("opt", CALL, "eve")
    harness.lose("opt")
    harness.send(
        "again",
        RegisterMission("opt", "opt", connection=2),
        Request(0, {"Cores": 1}),
        DefineFunction(F),
        Submit(LANE_TASK, 0, LANE, "w"),
        Synced(),
        Submit(CALL, 0, F, late=1),
    )

    assert [Retracted(CALL)] == harness.sent("again", Retracted)
    assert [] == harness.sent("w", Lease)


def test_a_connection_begins_without_calls_in_lanes(harness: HubHarness, lane: Lease) -> None:
    reported(harness, LaneCall(LANE_TASK, CALL, F, 1.5))
    harness.lose("opt")
    harness.send(
        "again",
        RegisterMission("opt", "opt", connection=2),
        Request(0, {"Cores": 1}),
        Submit(LANE_TASK, 0, LANE, "w"),
        Synced(),
    )
    assert 0 == state(harness).tasks.running
    harness.send("again", LaneReport((LaneCall(LANE_TASK, CALL, F, 3.0),)))
    assert [f"opt:{CALL}"] == state(harness).workers[0].tasks


def test_a_lane_that_its_mission_does_not_want_any_more_hides_no_task(
    harness: HubHarness, lane: Lease
) -> None:
    harness.lose("opt")
    harness.send(
        "again",
        RegisterMission("opt", "opt", connection=2),
        Request(0, {"Cores": 2}),
        DefineFunction(F, "optimise"),
        Submit(10, 0, F),
        Synced(),
    )

    [mission] = state(harness).missions
    assert (0, 1) == (mission.running, mission.waiting)
    [owner] = seen(harness).missions
    assert (0, 1) == (owner.running, owner.left)


def test_a_call_is_shown_also_if_the_worker_reports_its_lane_later() -> None:
    old = HubHarness()
    old.worker("w", 2)
    mission = old.mission("opt")
    old.send(mission, Synced(), Submit(LANE_TASK, 0, LANE), payload=b"invitation")
    [lease] = old.sent("w", Lease)

    harness = HubHarness(epoch=2)
    mission = harness.mission("opt")
    harness.send(mission, Submit(LANE_TASK, 0, LANE, "w"), Synced())
    reported(harness, LaneCall(LANE_TASK, CALL, F, 5.0))
    harness.worker("w", 2, (held(lease),))

    assert [f"opt:{CALL}"] == state(harness).workers[0].tasks
    assert 1 == state(harness).tasks.running


def test_calls_in_lanes_count_as_others_do(harness: HubHarness, lane: Lease) -> None:
    exposition = Exposition(harness.hub, 1.0, by_function=True)
    reported(harness, counts=(LaneCount(F, 1000, 3, 2, 10.05), LaneCount(G, 7, 0, 0, 70.0)))
    reported(harness, counts=(LaneCount(F, 1, 0, 0, 0.01),))

    answer = state(harness)
    assert (1008, 3, 2) == (answer.tasks.done, answer.tasks.failed, answer.tasks.retried)
    [mission] = answer.missions
    assert (1008, 3, 2) == (mission.done, mission.failed, mission.retried)
    text = exposition.text().decode()
    assert 'grain_run_seconds_count{function="optimise"} 1006.0' in text
    assert 'grain_run_seconds_bucket{function="optimise",le="0.1"} 1006.0' in text
    assert 'grain_run_seconds_sum{function="optimise"} 10.06' in text
    assert 'grain_run_seconds_bucket{function="relax",le="1.0"} 0.0' in text
    assert 'grain_run_seconds_bucket{function="relax",le="10.0"} 7.0' in text


def test_the_end_of_a_lane_counts_as_nothing(harness: HubHarness, lane: Lease) -> None:
    for status in ("value", "error", "crashed"):
        harness.send("w", harness.ended(lane, status, detail="x"), payload=b"")
        harness.send("opt", AckTasks((lane.task,)))
        harness.send("opt", Submit(lane.task + 1, 0, LANE), payload=b"invitation")
        [lane] = harness.sent("w", Lease)

    tasks = state(harness).tasks
    assert (0, 0, 0) == (tasks.done, tasks.failed, tasks.retried)
    assert [] == seen(harness).failures
    assert not harness.hub.registry.ended_tasks


def test_failed_calls_are_remembered_with_their_reason(harness: HubHarness, lane: Lease) -> None:
    harness.now = 100.0
    failures = (
        LaneFailure(10, F, "w", 0.5, 2.0, RunFailure("ValueError", "no"), retried=True),
        LaneFailure(11, G, "w", 0.25, 0.25, RunFailure("KeyError", "'x'")),
    )
    reported(harness, counts=(LaneCount(F, 0, 0, 1, 0.5),), failures=failures)
    harness.send("opt", Depart())

    rows = [
        Run(
            mission="opt",
            name="opt:10",
            task=10,
            function="optimise",
            state="error",
            again=True,
            members=(RunMember(worker="w"),),
            started=97.5,
            ended=98.0,
            seconds=0.5,
            failure=RunFailure("ValueError", "no"),
        ),
        Run(
            mission="opt",
            name="opt:11",
            task=11,
            function="relax",
            state="error",
            members=(RunMember(worker="w"),),
            started=99.5,
            ended=99.75,
            seconds=0.25,
            failure=RunFailure("KeyError", "'x'"),
        ),
    ]
    assert rows == seen(harness).failures
    why = harness.hub.answer_why("opt", 11, harness.now)
    assert ("ended", "relax", "w", 0.25, "error", "KeyError: 'x'") == (
        *(why.state, why.function, why.worker, why.seconds, why.ended, why.why),
    )
    assert (0, 1) == (state(harness).ended[0].failed, state(harness).ended[0].retried)


@pytest.mark.parametrize("calls", [0, 1])
def test_a_worker_that_leaves_hands_back_calls_and_not_lanes(
    harness: HubHarness, lane: Lease, calls: int
) -> None:
    harness.send("w", ArrivedCount(1))
    reported(harness, *[LaneCall(LANE_TASK, CALL, F, 1.5)] * calls)
    harness.send("w", Draining(), harness.ended(lane, "returned"), Leaving("SIGTERM"))

    assert [calls] == [left.handed_back for left in harness.sent("opt", WorkerEnded)]


def test_a_lost_worker_has_lost_the_calls_of_lanes_and_not_lanes(
    harness: HubHarness, lane: Lease
) -> None:
    harness.send("opt", Submit(LANE_TASK + 1, 0, LANE), payload=b"invitation")
    reported(harness, LaneCall(LANE_TASK, CALL, F, 1.5))
    harness.lose("w")
    harness.hub.on_worker_ended("w", harness.now)
    harness.dispatch()
    harness.wait(60.0)

    assert [1] == [loss.lost_runs for loss in seen(harness).lost]
