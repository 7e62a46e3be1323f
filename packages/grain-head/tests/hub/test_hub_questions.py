"""Questions to the hub: where a task is and why, a snapshot of all, and workers to be drained."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from grain.edge.questions import (
    Answer,
    Ask,
    CallAnswer,
    LoadAnswer,
    OverviewAnswer,
    ProgramsAnswer,
    StateAnswer,
    WhyAnswer,
    unpack,
)
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import ProgramState
from grain.facts.rows import Mission, Worker
from grain.head.hub.state import MissionRecord, TaskRecord
from grain.head.messages import (
    AckTasks,
    Crash,
    Depart,
    Describe,
    Described,
    RegisterMission,
    Request,
    Retract,
    Submit,
    Synced,
)
from grain.head.scheduler import explain
from grain.worker.messages import (
    DefineFunction,
    Drain,
    Draining,
    Inspect,
    Inspected,
    InventoryEnd,
    Lease,
    RegisterWorker,
)
from grain_testkit.hub_harness import F, HubHarness, Unwalked

if TYPE_CHECKING:
    import pytest


def test_why_explains_where_a_task_is(harness: HubHarness) -> None:
    """It runs, waits with the reasons of each worker, or is unknown."""
    harness.worker("w", 1)
    harness.synced("m", 1, 2)

    assert "running" == harness.hub.why("m", 1, 0.0).state
    waiting = harness.hub.why("m", 2, 0.0)
    assert "waiting" == waiting.state
    assert any("w: not now" in reason for reason in waiting.reasons)
    assert "unknown" == harness.hub.why("m", 3, 0.0).state


def test_why_names_the_worker_for_whose_report_a_task_waits(harness: HubHarness) -> None:
    harness.submit(harness.mission(), 1, worker="elsewhere")
    why = harness.hub.why("m", 1, 0.0)

    assert "waiting" == why.state
    assert ("it ran on worker elsewhere, which has yet to find this scheduler",) == why.reasons


def test_why_says_that_an_outcome_is_on_its_way_to_the_mission(harness: HubHarness) -> None:
    worker, mission = harness.worker("w"), harness.mission()
    harness.submit(mission, 1)
    (lease,) = harness.sent(worker, Lease)
    harness.send(worker, harness.ended(lease), payload=b"")
    why = harness.hub.why("m", 1, 0.0)

    assert "ended" == why.state
    assert ("its outcome is on its way to the mission",) == why.reasons


def test_a_snapshot_has_workers_missions_and_queues_as_plain_data(harness: HubHarness) -> None:
    harness.worker("w", 2)
    harness.synced("m", 1, 2, 3)
    snapshot = harness.hub.snapshot(0.0)

    assert {"Cores": 2} == snapshot.workers[0].total
    assert snapshot.workers[0].free in ({"Cores": []}, {"Cores": 0})
    assert (2, 1) == (snapshot.missions[0].running, snapshot.missions[0].waiting)
    assert 1 == snapshot.queues[0].waiting


def test_a_snapshot_shows_the_oldest_task_of_each_queue_and_why_it_waits(
    harness: HubHarness,
) -> None:
    """By a name that `why` understands."""
    harness.worker("w", 2)
    mission = harness.mission("abc")
    harness.send(mission, Request(1, {"Cores": 9}), Synced())
    harness.submit(mission, 1, 2, 3, 4)
    harness.send(mission, Submit(5, 1, F), payload=b"args")
    snapshot = harness.hub.snapshot(0.0)
    queues = {queue.request["Cores"]: queue for queue in snapshot.queues}

    assert ("abc:3", "not enough Cores free on the only worker", "") == (
        *(queues[1].oldest, queues[1].why, queues[1].never),
    )
    assert "abc:5" == queues[9].oldest
    assert queues[9].why.startswith("w: it has CPU_Cores")
    assert ["abc:1", "abc:2"] == snapshot.workers[0].tasks
    assert {"Cores": 1.0} == snapshot.workers[0].used


class UnwalkedTasks(deque):  # type: ignore[type-arg]
    """The same for a queue."""

    def __iter__(self) -> Any:
        raise AssertionError("walked")


def test_questions_do_not_go_through_the_waiting_tasks(harness: HubHarness) -> None:
    """A million tasks may wait, and no peer is served meanwhile."""
    harness.worker("w", 2)
    mission = harness.synced("m", *range(1, 9))
    harness.send(mission, Retract((5,)))
    record = harness.hub.registry.missions["m"]
    [queue] = harness.hub.scheduler.queues.values()
    record.tasks, queue.tasks = Unwalked(record.tasks), UnwalkedTasks(queue.tasks)
    snapshot = harness.hub.snapshot(0.0)
    harness.hub.why("m", 3, 0.0)

    assert (2, 5) == (snapshot.missions[0].running, snapshot.missions[0].waiting)
    assert (2, 5) == (snapshot.queues[0].running, snapshot.queues[0].waiting)


def test_why_counts_the_older_tasks_without_the_cancelled_ones(
    harness: HubHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are very many, the answer is an upper bound."""
    harness.worker("w", 1)
    mission = harness.synced("m", *range(1, 9))
    before = [harness.hub.why("m", task, 0.0).reasons[1] for task in (3, 8)]
    harness.send(mission, Retract((5,)))
    after = harness.hub.why("m", 8, 0.0).reasons[1]
    monkeypatch.setattr(explain, "_COUNTED", 3)
    many = harness.hub.why("m", 8, 0.0).reasons[1]

    assert "1 older task that asks for the same goes first" == before[0]
    assert "6 older tasks that ask for the same go first" == before[1]
    assert "5 older tasks that ask for the same go first" == after
    assert "up to 6 older tasks that ask for the same go first" == many


def test_a_quarantined_task_counts_as_waiting(harness: HubHarness) -> None:
    """While no worker is free for it."""
    harness.synced("m", 1)
    [task] = harness.hub.registry.missions["m"].tasks.values()
    harness.hub.waiting.withdraw(task)
    task.alter().crashes = (Crash((1, 1), "w", "SIGKILL", 0.0), Crash((1, 2), "w", "SIGKILL", 0.0))
    harness.hub.waiting.enqueue(task, 0.0)
    snapshot = harness.hub.snapshot(0.0)

    assert (0, 1) == (snapshot.missions[0].running, snapshot.missions[0].waiting)


def test_a_snapshot_has_kinds_of_resources_without_a_class(harness: HubHarness) -> None:
    """They are passed on as they came; how much of them is used is unknown."""
    register = RegisterWorker("w", "w", "host", {"Cores": 2, "Streams": {"orca": 3}}, connection=1)
    harness.send("w", register, InventoryEnd())
    (worker,) = harness.hub.snapshot(0.0).workers

    assert {"orca": 3} == worker.total["Streams"] == worker.free["Streams"]
    assert {"Cores": 0.0, "Streams": None} == worker.used


def test_answers_have_the_cluster_of_each_worker(harness: HubHarness) -> None:
    harness.worker("here", cluster="one")
    harness.worker("there")

    overview = unpack(harness.hub.overview.packed(0.0), OverviewAnswer)
    clusters = [("here", "one"), ("there", "")]
    assert clusters == [(one.name, one.cluster) for one in harness.hub.snapshot(0.0).workers]
    assert clusters == [(one.name, one.cluster) for one in overview.workers]


def test_missions_go_by_their_names_where_these_are_unique(harness: HubHarness) -> None:
    """Else by name and number; by both, an id or the beginning of an id in any case."""
    harness.worker("w", 4)
    missions_here = (("aaaa1111bb", "one", 3), ("cccc2222dd", "same", 4), ("eeee3333ff", "same", 7))
    for id_, name, number in missions_here:
        register = RegisterMission(id_, name, number=number)
        harness.send(id_, register, Request(0, {"Cores": 1}), DefineFunction(F), Synced())
        harness.submit(id_, 1)
    missions = harness.hub.snapshot(0.0).missions

    assert ["one", "same@4", "same@7"] == [mission.label for mission in missions]
    assert [True] * 3 == [missions[0].goes_by(word) for word in ("one", "one@3", "aaaa1111bb")]
    assert not missions[0].goes_by("one@1")
    words = ["one", "same@4", "same@7", "one@3", "aaaa1111bb", "cccc2222", "eeee"]
    assert {"running"} == {harness.hub.why(word, 1, 0.0).state for word in words}
    found = harness.hub.find("same@7").mission
    assert found is not None
    assert "eeee3333ff" == found.id


def test_a_word_that_means_no_mission_or_several_is_answered_with_those_there_are(
    harness: HubHarness,
) -> None:
    for number, (id_, host) in enumerate((("aaaa1111bb", "n1"), ("aaaa2222dd", "n2")), 1):
        harness.send(id_, RegisterMission(id_, "same", host, number=number), Synced())
    same = "same@1 (id aaaa1111, on n1), same@2 (id aaaa2222, on n2)"

    assert f"2 missions are called 'same': {same}" == harness.hub.find("same").error
    assert f"2 missions are called 'aaaa': {same}" == harness.hub.find("aaaa").error
    none = "no mission goes by 'other'; here are: same@1, same@2"
    assert (none,) == harness.hub.why("other", 1, 0.0).reasons


def test_the_label_of_a_mission_has_its_own_number(harness: HubHarness) -> None:
    """Those of two home directories may have the same; one may have none. They go by their ids."""
    for name, number in (("a", 5), ("b", 9), ("c", 2), ("d", 2), ("e", 0), ("f", 0)):
        harness.send(name, RegisterMission(name, "same", number=number), Synced())
    harness.send("a", Depart())
    harness.send("again", RegisterMission("b", "same", connection=2, number=9), Synced())

    missions = harness.hub.snapshot(0.0).missions
    assert ["same@9", "c", "d", "e", "f"] == [mission.label for mission in missions]
    which = "same@2 (id c, on an unknown host), same@2 (id d, on an unknown host)"
    assert f"2 missions are called 'same@2': {which}" == harness.hub.find("same@2").error


def test_a_mission_that_has_left_goes_by_its_label(harness: HubHarness) -> None:
    harness.send("a", RegisterMission("a", "same", number=5), Synced(), Depart())

    assert ("it has ended or was cancelled; only the last tasks are remembered here",) == (
        harness.hub.why("same@5", 1, 0.0).reasons
    )
    assert "a" == harness.hub.answer_why("same@5", 1, 0.0).mission_id


def test_workers_of_one_name_are_told_apart(harness: HubHarness) -> None:
    for id_ in ("one", "two", "three"):
        register = RegisterWorker(id_, "w", "host", {"Cores": 1}, connection=1)
        harness.send(id_, register, InventoryEnd())
    assert ["w@1", "w@2", "w@3"] == [w.label for w in harness.hub.snapshot(0.0).workers]

    assert ["w@2"] == [worker.label for worker in harness.hub.drain("w@2")]
    assert ["w@3"] == [worker.label for worker in harness.hub.drain("three")]
    assert 3 == len(harness.hub.drain("w@*")) == len(harness.hub.drain("w"))


def test_questions_are_answered_on_any_link_without_registration(harness: HubHarness) -> None:
    harness.worker("w", 2)
    for ask in (Ask("state"), Ask("why", "m", 1), Ask("load"), Ask("drain", pattern="w*")):
        harness.send("somebody", ask)
    answers = {m.about: data for m, data in harness.mail["somebody"] if type(m) is Answer}

    state = unpack(answers["state"], StateAnswer)
    assert ["w"] == [worker.name for worker in state.workers]
    assert "unknown" == unpack(answers["why"], WhyAnswer).state
    assert LoadAnswer(0, 2, 0.0) == unpack(answers["load"], LoadAnswer)
    drained = unpack(answers["drain"], list[Worker])
    assert [Worker(name="w", label="w", host="host", state="serving")] == drained
    assert [Drain(at_once=False)] == harness.sent("w", Drain)
    assert "draining" == harness.hub.snapshot(0.0).workers[0].state


FORMS: dict[str, Any] = {"why": WhyAnswer, "arguments": CallAnswer, "programs": ProgramsAnswer}


def asked(harness: HubHarness, about: Any, task: int, mission: str = "m") -> Any:
    """Ask as a command does, and return the answer; None if there is none yet."""
    harness.send("cli", Ask(about, mission=mission, task=task))
    return answered(harness)


def answered(harness: HubHarness) -> Any:
    answers: list[Any] = [unpack(payload, FORMS[message.about])
               for message, payload in harness.mail.pop("cli", ())
               if isinstance(message, Answer)]  # fmt: skip
    return answers[0] if answers else None


def explained(harness: HubHarness, task: int) -> dict[str, Any]:
    """Ask why, and return what the answer has."""
    answer: dict[str, Any] = msgspec.to_builtins(asked(harness, "why", task))
    return answer


NUMBERED: tuple[tuple[Any, int], ...] = (("programs", 1), ("arguments", 2))


def running(harness: HubHarness) -> Lease:
    """Run task 1 of a mission, and let 90 s pass."""
    harness.worker("w", 1)
    mission = harness.mission()
    harness.send(mission, DefineFunction(F, "energy"), Synced(), payload=b"")
    harness.submit(mission, 1, 2)
    harness.wait(90)
    (lease,) = harness.sent("w", Lease)
    return lease


def test_why_of_a_run_has_its_function_worker_host_and_time(harness: HubHarness) -> None:
    running(harness)

    answer = explained(harness, 1)
    assert "running" == answer["state"]
    facts = {"function": "energy", "worker": "w", "host": "host", "began": 0.0, "seconds": 90.0}
    assert {**facts, "mission_id": "m"}.items() <= answer.items()
    waiting = explained(harness, 2)
    assert ("energy", False) == (waiting["function"], "worker" in waiting)


def test_why_remembers_how_a_task_has_ended(harness: HubHarness) -> None:
    """When its mission has the outcome, too, and when it has left."""
    harness.send("w", harness.ended(running(harness)), payload=b"large")
    ended = {"state": "ended", "function": "energy", "worker": "w", "seconds": 90.0}
    ended = {**ended, "ended": "value"}

    assert ended.items() <= explained(harness, 1).items()
    harness.send("m", AckTasks((1,)))
    assert ended.items() <= explained(harness, 1).items()
    [(record, *_)] = harness.hub.registry.ended_tasks
    assert record.outcome is None
    harness.send("m", Depart())
    assert ended.items() <= explained(harness, 1).items()
    gone = asked(harness, "why", 9)
    assert ("unknown", "m") == (gone.state, gone.mission_id)
    assert "only the last tasks are remembered" in gone.reasons[0]


def test_why_has_the_reason_of_a_failure(harness: HubHarness) -> None:
    failed = harness.ended(running(harness), "error", failure=RunFailure("ValueError", "odd"))
    harness.send("w", failed, payload=b"large")
    answer = asked(harness, "why", 1)

    assert ("error", "ValueError: odd") == (answer.ended, answer.why)


def test_why_tells_a_task_that_is_yet_to_come_from_one_that_has_ended(harness: HubHarness) -> None:
    running(harness)

    assert ["it has not been submitted yet"] == asked(harness, "why", 3).reasons


def test_a_bounded_number_of_tasks_is_remembered(harness: HubHarness) -> None:
    assert 1000 == harness.hub.registry.ended_tasks.maxlen
    remembered = harness.hub.registry.ended_tasks
    harness.send("w", harness.ended(running(harness)), payload=b"")
    harness.send("m", AckTasks((1,)))
    remembered.extend([remembered[0]] * 999)
    assert "ended" == asked(harness, "why", 1).state
    (lease,) = harness.sent("w", Lease)
    for _ in range(1000):  # one task of another mission after the other
        remembered.append((TaskRecord(MissionRecord("other", 9), 1), "w", 0.0, 1.0, ""))

    assert "unknown" == asked(harness, "why", 1).state
    assert 2 == lease.task


def test_a_snapshot_counts_what_is_done_and_failed_and_keeps_the_last_missions(
    harness: HubHarness,
) -> None:
    harness.worker("w", 4)
    for number in range(12):
        mission = harness.mission(f"m{number}")
        harness.submit(mission, 1, 2, 3)
        first, *others = harness.sent("w", Lease)
        harness.send("w", harness.ended(first, "error"), payload=b"")
        for lease in others:
            harness.send("w", harness.ended(lease), payload=b"")
        harness.send(mission, AckTasks((1, 2, 3)))
        [shown] = harness.hub.snapshot(harness.now).missions
        assert (2, 1) == (shown.done, shown.failed)
        harness.wait(1.0)
        harness.send(mission, Depart())

    ended = harness.hub.snapshot(harness.now).ended
    assert [f"m{number}" for number in range(11, 1, -1)] == [one.name for one in ended]
    assert Mission(name="m11", ended=12.0, done=2, failed=1) == ended[0]


def test_what_is_used_up_on_all_workers_is_named(harness: HubHarness) -> None:
    """In the same words by `grain ls` and `grain top`."""
    for name in ("a", "b"):
        harness.worker(name, 2)
    harness.synced("m", *range(1, 6))

    [listed] = harness.hub.snapshot(0.0).queues
    [seen] = harness.hub.overview.state(0.0).queues
    assert "not enough Cores free on any of the 2 workers" == listed.why == seen.why


def test_a_failure_that_is_tried_again_counts_as_retried_and_not_as_failed(
    harness: HubHarness,
) -> None:
    """Nobody knows which one it is before its mission confirms it."""
    mission = harness.mission()
    harness.worker("w", 4)
    harness.submit(mission, 1, 2)
    for lease in harness.sent("w", Lease):
        harness.send("w", harness.ended(lease, "error"), payload=b"")

    def counts() -> list[tuple[int, int]]:
        snapshot = harness.hub.snapshot(harness.now)
        overview = harness.hub.overview.state(harness.now)
        shown: list[Any] = [snapshot.tasks, *snapshot.missions, overview.tasks, *overview.missions]
        return [(one.failed, one.retried) for one in shown]

    assert [(0, 0)] * 4 == counts()
    harness.send(mission, AckTasks((), (1,)))
    harness.send(mission, AckTasks((2,)))
    assert [(1, 1)] * 4 == counts()
    failures = harness.hub.overview.state(harness.now).failures
    assert [(1, True), (2, False)] == [(one.task, one.again) for one in failures]


def test_a_failure_that_its_mission_never_confirmed_counts_when_that_is_over(
    harness: HubHarness,
) -> None:
    mission = harness.mission()
    harness.worker("w", 4)
    harness.submit(mission, 1)
    [lease] = harness.sent("w", Lease)
    harness.send("w", harness.ended(lease, "error"), payload=b"")
    harness.send(mission, Depart())

    [ended] = harness.hub.snapshot(harness.now).ended
    assert (1, 0) == (ended.failed, ended.retried)


def test_a_mission_that_has_left_keeps_no_functions(harness: HubHarness) -> None:
    """They may be large, and its record may be remembered for long."""
    harness.send(harness.mission(), Depart())

    [ended] = harness.hub.registry.ended_missions
    assert {} == ended.record.functions


def test_the_call_of_a_task_is_asked_of_its_mission(harness: HubHarness) -> None:
    running(harness)

    assert asked(harness, "arguments", 1) is None
    [question] = harness.sent("m", Describe)
    assert 1 == question.task
    harness.send("m", Described(question.question, "energy(1)"))
    assert CallAnswer("energy(1)") == answered(harness)
    harness.send("m", Described(question.question, "again"))
    assert answered(harness) is None


def test_an_absent_mission_is_not_asked_for_a_call(harness: HubHarness) -> None:
    running(harness)
    harness.lose("m")

    assert CallAnswer("") == asked(harness, "arguments", 1)
    assert CallAnswer("") == asked(harness, "arguments", 1, "nobody")


def test_questions_without_answers_are_bounded(harness: HubHarness) -> None:
    running(harness)
    harness.send("cli", *[Ask("arguments", mission="m", task=1)] * 1001)
    assert answered(harness) is None
    first, *_, last = harness.sent("m", Describe)

    harness.send("m", Described(first.question, "x"))
    assert answered(harness) is None
    harness.send("m", Described(last.question, "x"))
    assert CallAnswer("x") == answered(harness)


def test_the_programs_of_a_run_are_asked_of_its_worker(harness: HubHarness) -> None:
    lease = running(harness)

    assert asked(harness, "programs", 1) is None
    [question] = harness.sent("w", Inspect)
    assert lease.attempt == question.attempt
    harness.send("w", Inspected(question.question, (ProgramState("xtb", 2.0, 1.5, 0.25),)))
    assert ProgramsAnswer([ProgramState("xtb", 2.0, 1.5, 0.25)]) == answered(harness)


def test_an_answer_has_the_number_of_its_question(harness: HubHarness) -> None:
    """Others than the head answer when they can, and so in any order."""
    running(harness)
    one, two = (Ask(about, mission="m", task=1, number=number) for about, number in NUMBERED)
    harness.send("cli", one, two, Ask("load", number=3))
    [question] = harness.sent("m", Describe)
    harness.send("m", Described(question.question, "energy(1)"))
    [inspection] = harness.sent("w", Inspect)
    harness.send("w", Inspected(inspection.question, ()))

    numbers = [(one.about, one.number) for one in harness.sent("cli", Answer)]
    assert [("load", 3), ("arguments", 2), ("programs", 1)] == numbers


def test_no_worker_is_asked_for_the_programs_of_a_task_that_waits(harness: HubHarness) -> None:
    running(harness)

    assert ProgramsAnswer([]) == asked(harness, "programs", 2)
    assert ProgramsAnswer([]) == asked(harness, "programs", 9)
    assert ProgramsAnswer([]) == asked(harness, "programs", 1, "nobody")
    harness.lose("w")
    assert ProgramsAnswer([]) == asked(harness, "programs", 1)


def test_it_is_explained_why_a_worker_takes_no_more_tasks(harness: HubHarness) -> None:
    worker, mission = harness.worker("w"), harness.mission()
    harness.send(worker, Draining("Grain was replaced"))
    harness.submit(mission, 1)

    reasons = harness.hub.answer_why("m", 1, harness.now).reasons

    assert "w: it takes no more tasks (Grain was replaced)" in reasons
