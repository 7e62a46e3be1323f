"""The answer to ``Ask("overview")``, and how little of the hub it looks at."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from grain.edge.questions import (
    Answer,
    Ask,
    LoadAnswer,
    MissionOutlook,
    OverviewAnswer,
    RunsAnswer,
    unpack,
)
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import RunMember, Usage
from grain.facts.rows import Function, Queue, Run
from grain.head.hub.answers import overview
from grain.head.messages import Crash, Depart, Outlook, Request, Retract, Submit, Synced
from grain.resource import Cores, WTime, to_data
from grain.worker.messages import CoresComputed, DefineFunction, Lease, Leaving
from grain_testkit.hub_harness import F, HubHarness, Unwalked, held

if TYPE_CHECKING:
    from grain.resource import Resource


def state(harness: HubHarness) -> OverviewAnswer:
    """Return a new answer, as it arrives."""
    harness.now += overview.FRESH
    harness.send("cli", Ask("overview"))
    [*_, (answer, payload)] = harness.mail.pop("cli")
    assert Answer("overview") == answer
    return unpack(payload, OverviewAnswer)


def submitted(harness: HubHarness, *tasks: int) -> str:
    """Return the link of a mission that has submitted tasks of one core."""
    mission = harness.mission("opt")
    harness.send(mission, DefineFunction(F, "optimise"), Synced())
    harness.submit(mission, *tasks)
    return mission


def test_an_overview_has_workers_missions_and_queues(harness: HubHarness) -> None:
    harness.worker("w", 2)
    submitted(harness, 1, 2, 3, 4, 5)
    answer = state(harness)

    [worker] = answer.workers
    assert ("w", "host", "serving", 2) == (
        *(worker.label, worker.host, worker.state, worker.running),
    )
    assert {"Cores": 2} == worker.total
    assert {"Cores": 1.0} == worker.used
    run = Run(
        mission="opt", task=1, function="optimise", state="running", final=False, asked="Cores(1)",
        started=0.0,
    )  # fmt: skip
    assert [run, replace(run, task=2)] == worker.runs
    [mission] = answer.missions
    assert ("opt", True, 5, 2, 0.0) == (
        *(mission.label, mission.connected),
        *(mission.left, mission.running, mission.since),
    )
    [queue] = answer.queues
    why = "not enough Cores free on the only worker"
    assert queue == Queue(
        mission="opt", mission_id="opt", asked="Cores(1)", waiting=3, running=2, oldest="opt:3",
        task=3, why=why,
    )  # fmt: skip
    assert (2, 2) == answer.cores
    assert {"serving": 1} == answer.worker_states
    assert 3 == answer.tasks.waiting


def test_a_mission_has_the_rate_at_which_its_tasks_end_and_none_while_nothing_ends(
    harness: HubHarness,
) -> None:
    worker = harness.worker("w", 1)
    submitted(harness, *range(1, 62))
    ended = 0
    while ended < 60:
        for lease in harness.sent(worker, Lease)[: 60 - ended]:
            harness.send(worker, harness.ended(lease))
            ended += 1
    harness.wait(10.0)
    [mission] = state(harness).missions
    assert 6.0 == mission.rate

    harness.wait(100.0)
    [mission] = state(harness).missions
    assert 0.0 == mission.rate


def test_who_asks_within_half_a_second_gets_the_same_bytes(harness: HubHarness) -> None:
    harness.worker("w", 2)
    first = harness.hub.overview.packed(1.0)
    harness.worker("v", 2)

    assert first is harness.hub.overview.packed(1.4)
    assert first != harness.hub.overview.packed(1.6)


def test_an_answer_is_made_anew_by_a_clock_that_went_back(harness: HubHarness) -> None:
    first = harness.hub.overview.packed(100.0)
    harness.worker("w", 2)

    assert first != harness.hub.overview.packed(1.0)


class BarelyWalked(deque):  # type: ignore[type-arg]
    """Waiting tasks of which the first alone may be looked at."""

    def __iter__(self) -> Any:
        yield from islice(super().__iter__(), 1)
        raise AssertionError("walked")


def test_an_overview_does_not_go_through_the_waiting_tasks(harness: HubHarness) -> None:
    harness.worker("w", 2)
    submitted(harness, *range(1, 9))
    record = harness.hub.registry.missions["opt"]
    [queue] = harness.hub.scheduler.queues.values()
    record.tasks, queue.tasks = Unwalked(record.tasks), BarelyWalked(queue.tasks)
    answer = harness.hub.overview.state(1.0)

    assert (8, 2) == (answer.missions[0].left, answer.missions[0].running)
    assert (6, 3) == (answer.queues[0].waiting, answer.queues[0].task)


def test_an_answer_looks_at_some_workers_and_the_next_ones_at_the_others(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_LOOKS", 4)
    for number in range(5):
        harness.worker(f"w{number}", 1)
    left_out = [state(harness).more_workers for _ in range(3)]
    full = state(harness)
    submitted(harness, 1, 2, 3, 4, 5)
    running = [[worker.running for worker in state(harness).workers].count(1) for _ in range(2)]

    assert [3, 1, 0] == left_out
    assert [f"w{number}" for number in range(5)] == [one.label for one in full.workers]
    assert (0, 5) == full.cores
    assert [4, 5] == running


def test_an_answer_looks_at_fewer_workers_where_their_names_must_be_counted(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_LOOKS", 8)
    monkeypatch.setattr(overview, "_NAMES", 1)
    for number in range(10):
        harness.worker(f"w{number}", 1)
    looks = harness.hub.overview.looks_for_all
    left_out = [state(harness).more_workers for _ in range(looks)]

    assert [8, 4, 0] == left_out[:3]
    assert 0 == left_out[-1]
    harness.worker("late", 1)
    assert 0 == state(harness).more_workers


def test_a_worker_that_leaves_is_in_no_row_and_no_sum(harness: HubHarness) -> None:
    harness.worker("v", 1)
    harness.worker("w", 2)
    state(harness)
    harness.send("v", Leaving())
    answer = state(harness)

    assert ["w"] == [worker.label for worker in answer.workers]
    assert ((0, 2), {"serving": 1}) == (answer.cores, answer.worker_states)


def test_a_worker_that_is_away_is_counted_as_such(harness: HubHarness) -> None:
    harness.worker("w", 2)
    state(harness)
    harness.lose("w")

    assert {"away": 1} == state(harness).worker_states


def test_workers_of_one_name_have_the_labels_that_commands_take(harness: HubHarness) -> None:
    harness.worker("w", 1)
    state(harness)
    harness.send("other", *_registered("second", "w"))
    labels = [worker.label for worker in state(harness).workers]

    assert ["w@1", "w@2"] == labels


def _registered(identity: str, name: str) -> tuple[Any, ...]:
    from grain.worker.messages import InventoryEnd, RegisterWorker

    return RegisterWorker(identity, name, "host", {"Cores": 1}, connection=1), InventoryEnd()


def test_a_task_that_failed_is_shown_with_its_worker(harness: HubHarness) -> None:
    harness.worker("w", 1)
    submitted(harness, 1)
    (lease,) = harness.sent("w", Lease)
    harness.now, odd = 7.0, RunFailure("ValueError", "odd")
    harness.send("w", harness.ended(lease, "error", failure=odd), payload=b"")
    [failure] = state(harness).failures

    assert failure == Run(
        mission="opt", name="opt:1", task=1, function="optimise", state="error",
        members=(RunMember(worker="w"),), started=0.0, ended=7.0, seconds=7.0, failure=odd,
    )  # fmt: skip


def test_a_task_that_was_given_up_after_crashes_is_shown_with_the_last_one(
    harness: HubHarness,
) -> None:
    harness.worker("w", 1)
    mission = harness.synced("opt")
    crashes = tuple(Crash((9, number), "v", "SIGBUS", 0.0) for number in range(4))
    harness.submit(mission, 1, crashes=crashes)
    (lease,) = harness.sent("w", Lease)
    harness.send("w", harness.ended(lease, "crashed", detail="SIGKILL"))
    [failure] = state(harness).failures

    assert ("crashed", "SIGKILL") == (failure.state, failure.failure.message)


def test_a_success_is_no_failure(harness: HubHarness) -> None:
    harness.worker("w", 1)
    submitted(harness, 1)
    (lease,) = harness.sent("w", Lease)
    harness.send("w", harness.ended(lease, "value"), payload=b"")

    assert [] == state(harness).failures


def function_row(name: str) -> Function:
    row = Function(name=name, done=5, failed=1, running=2, waiting=3, core_seconds=45.0)
    row.ask("", {"Cores": 2.0})
    row.use(Usage(user=8.0, peak_memory=1.5, measured_by="cgroup", programs=1), 10.0)
    return row


def test_the_functions_of_a_mission_are_shown_as_it_counts_them(harness: HubHarness) -> None:
    mission = submitted(harness, 1)
    rows = tuple(function_row(name) for name in ("prepare", "optimise"))
    harness.send(mission, Outlook(3, functions=rows, more_functions=4))

    [outlook] = [one.outlook for one in state(harness).missions]
    assert outlook is not None
    assert (rows, 4) == (outlook.functions, outlook.more_functions)


def test_the_next_answer_has_what_a_mission_has_told_since(harness: HubHarness) -> None:
    mission = submitted(harness, 1)
    for name in ("prepare", "optimise"):
        harness.send(mission, Outlook(3, functions=(function_row(name),)))
        [outlook] = [one.outlook for one in state(harness).missions]
        assert outlook is not None
        assert [name] == [row.name for row in outlook.functions]
        assert outlook == state(harness).missions[0].outlook


def test_an_answer_has_fewer_functions_of_each_mission_where_there_are_many(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_FUNCTIONS", 4)
    rows = tuple(function_row(f"f{number}") for number in range(5))
    for name in ("a", "b"):
        harness.send(harness.mission(name), Synced(), Outlook(3, functions=rows))

    seen = [one.outlook for one in state(harness).missions]
    assert [(rows[:2], 3)] * 2 == [(o.functions, o.more_functions) for o in seen if o is not None]


def test_the_failures_of_a_mission_that_left_long_ago_are_not_shown(harness: HubHarness) -> None:
    harness.worker("w", 1)
    mission = submitted(harness, 1)
    (lease,) = harness.sent("w", Lease)
    harness.send("w", harness.ended(lease, "error"), payload=b"")
    harness.now += 2 * overview.OLD
    assert 1 == len(state(harness).failures)  # it is still here
    harness.send(mission, Depart())
    assert 1 == len(state(harness).failures)
    harness.now += overview.OLD

    assert [] == state(harness).failures


def test_a_failure_outlives_its_mission(harness: HubHarness) -> None:
    harness.worker("w", 1)
    mission = submitted(harness, 1)
    (lease,) = harness.sent("w", Lease)
    harness.send("w", harness.ended(lease, "error"), payload=b"")
    harness.send(mission, Depart())

    assert ["opt:1"] == [failure.name for failure in state(harness).failures]


@pytest.mark.parametrize("request_", [Cores(9), 3 * (Cores(9) & WTime(T=60)) | Cores(20)])
def test_of_a_request_that_fits_no_worker_it_says_so_without_a_look_at_each(
    harness: HubHarness, request_: Resource
) -> None:
    """With what each member of a gang asks for, and by the first alternative."""
    harness.worker("w", 2)
    mission = submitted(harness)
    harness.send(mission, Request(1, to_data(request_)), Submit(1, 1, F), payload=b"")

    [queue, *_] = state(harness).queues
    assert ("room", "no worker here has enough for it") == (queue.lack, queue.why)
    assert {"Cores": 9} == queue.request


def test_of_a_gang_it_says_how_many_workers_it_needs_at_once(harness: HubHarness) -> None:
    harness.worker("w", 2)
    mission = submitted(harness, 1)
    gang = Request(1, to_data(3 * Cores(2)))
    harness.send(mission, gang, Submit(2, 1, F), payload=b"")
    harness.worker("v", 1)
    [queue, *_] = state(harness).queues
    why = "3 workers are needed at once, and 1 here would do"
    assert ("members", why) == (queue.lack, queue.why)

    harness.worker("u", 2)
    harness.worker("t", 2)

    assert "not enough Cores free on 3 of the 4 workers at once" == state(harness).queues[0].why


def test_a_gang_is_one_running_task_and_is_listed_where_its_root_is(harness: HubHarness) -> None:
    for name in ("w", "v"):
        harness.worker(name, 2)
    mission = submitted(harness)
    harness.send(mission, Request(1, to_data(2 * Cores(2))), Submit(1, 1, F), payload=b"")
    answer = state(harness)

    assert 1 == answer.tasks.running
    assert [1] == [mission.running for mission in answer.missions]
    assert [1, 1] == [worker.running for worker in answer.workers]
    assert [1] == [run.task for worker in answer.workers for run in worker.runs]
    for name in ("w", "v"):
        harness.send("cli", Ask("runs", pattern=name))
        [(_, payload)] = harness.mail.pop("cli")
        runs = unpack(payload, RunsAnswer)
        assert ([(1, "2 * Cores(2)")], 0) == (
            [(run.task, run.asked) for run in runs.runs],
            runs.more,
        )


def test_cancelled_tasks_do_not_wait_and_are_not_the_oldest(harness: HubHarness) -> None:
    harness.worker("w", 1)
    mission = submitted(harness, 1, 2, 3, 4)
    harness.send(mission, Retract((3,)))
    [queue] = state(harness).queues

    assert (2, 2) == (queue.waiting, queue.task)


def test_the_runs_of_one_worker_are_listed_on_request(harness: HubHarness) -> None:
    harness.worker("w", 3)
    submitted(harness, 1, 2, 3, 4)
    harness.send("cli", Ask("runs", pattern="w"))
    [(_, payload)] = harness.mail["cli"]
    answer = unpack(payload, RunsAnswer)

    assert ([1, 2, 3], 0) == ([run.task for run in answer.runs], answer.more)


def test_workers_that_were_lost_are_listed_and_those_that_left_are_not() -> None:
    harness = HubHarness(wall=1000.0)
    harness.worker("w", 2)
    harness.worker("v", 2)
    submitted(harness, 1, 2, 3)
    harness.send("v", Leaving())
    harness.now += 100
    harness.lose("w", silent=7.0)
    harness.wait(60)

    [lost] = state(harness).lost
    assert ("w", "host", 2) == (lost.name, lost.host, lost.lost_runs)
    assert (1093.0, 1160.0) == (lost.heard, lost.at)


def test_a_worker_that_is_not_here_has_no_runs(harness: HubHarness) -> None:
    assert [] == harness.hub.overview.runs("w", 0.0).runs


def test_an_answer_names_fewer_runs_of_each_worker_where_there_are_many(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_RUNS", 4)
    for number in range(3):
        harness.worker(f"w{number}", 3)
    submitted(harness, *range(1, 10))

    assert [1, 1, 1] == [len(worker.runs) for worker in state(harness).workers]


def test_with_too_many_requests_the_running_tasks_of_missions_are_not_counted(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_QUEUES", 0)
    harness.worker("w", 1)
    submitted(harness, 1, 2)
    [mission] = state(harness).missions

    assert (None, 2) == (mission.running, mission.left)


def test_cores_are_given_and_some_of_them_compute(harness: HubHarness) -> None:
    """Of a worker on which nothing runs that is known without a word from it."""
    harness.worker("w", 2)
    submitted(harness, 1, 2)
    harness.worker("idle", 2)
    assert ((2, 4), None) == cores(harness)
    harness.send("w", CoresComputed(0.9))
    answer = state(harness)

    assert ((2, 4), 0.9) == (answer.cores, answer.computing)
    assert [0.9, 0.0] == [worker.computing for worker in answer.workers]
    assert LoadAnswer(2, 4, 0.9) == harness.hub.load()
    [shown, _] = harness.hub.snapshot(harness.now).workers
    assert 0.9 == shown.computing


def cores(harness: HubHarness) -> tuple[tuple[float, float], float | None]:
    answer = state(harness)
    return answer.cores, answer.computing


def test_a_worker_that_is_away_computes_on_an_unknown_number_of_cores(harness: HubHarness) -> None:
    harness.worker("w", 2)
    submitted(harness, 1, 2)
    harness.send("w", CoresComputed(2.0))
    assert ((2, 2), 2.0) == cores(harness)
    harness.lose("w")

    assert ((2, 2), None) == cores(harness)
    assert LoadAnswer(2, 2, None) == harness.hub.load()


def test_a_worker_that_comes_back_by_another_connection_has_not_said_on_how_many_cores_it_computes(
    harness: HubHarness,
) -> None:
    """Before the loss of the old connection was seen."""
    harness.worker("w", 2)
    submitted(harness, 1, 2)
    harness.send("w", CoresComputed(2.0))
    runs = tuple(held(lease) for lease in harness.sent("w", Lease))
    harness.worker("w", 2, runs, link="again")

    assert ((2, 2), None) == cores(harness)


def test_the_cores_that_compute_are_known_but_for_a_twentieth(harness: HubHarness) -> None:
    harness.worker("large", 19)
    harness.worker("small", 1)
    submitted(harness, *range(1, 21))
    harness.send("large", CoresComputed(7.0))

    assert ((20, 20), 7.0) == cores(harness)
    assert LoadAnswer(20, 20, 7.0) == harness.hub.load()
    harness.worker("other", 1)
    harness.submit("opt", 21)
    assert ((21, 21), None) == cores(harness)
    assert LoadAnswer(21, 21, None) == harness.hub.load()


def test_a_mission_says_how_far_it_is_while_it_is_here(harness: HubHarness) -> None:
    mission = submitted(harness, 1)
    assert [None] == [one.outlook for one in state(harness).missions]
    harness.send(mission, Outlook(3, 9, 42.0, least=True))

    [outlook] = [one.outlook for one in state(harness).missions]
    assert MissionOutlook(3, 9, 42.0, True, False, (), 0) == outlook
    harness.lose(mission)
    assert [None] == [one.outlook for one in state(harness).missions]
