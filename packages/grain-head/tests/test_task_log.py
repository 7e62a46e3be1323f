"""Brief tasks are counted where they are many; others are listed, in the order of their times."""

from __future__ import annotations

import pytest

from grain.eventlog.runs import RunAssembly
from grain.eventlog.schema import BriefTasks, RunEnded, TaskStarted, TaskSubmitted, WorkerLeft
from grain.eventlog.totals import Totals
from grain.head import task_log
from grain.head.hub_log import HubLog
from grain.head.messages import Resolved, Started, WorkerEnded, WorkerFacts
from grain.head.run_log import RunLog
from grain.head.task_log import BRIEF, HELD, LISTED
from grain.resource import Cores
from grain_testkit.kept_lines import KeptLines

CORES = Cores(2)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.reading = 100.0

    def __call__(self) -> float:
        return self.reading


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def written() -> KeptLines:
    return KeptLines()


@pytest.fixture
def log(written: KeptLines, clock: Clock) -> RunLog:
    """A log of a mission that has had its share of listed tasks."""
    log = RunLog(written, "m", clock)
    log.on_message(WorkerFacts("id-w", "w", "n17", {"Cores": 2}))
    for task in range(-LISTED, 0):
        run(log, task)
    return log


def run(log: RunLog, task: int, *, retry_of: int = 0) -> None:
    """Note a task that does nothing, as an executor does."""
    log.submitted(task, "f", CORES, 0, retry_of)
    log.on_batch([(Started("id-w", (task,)), None)])
    log.tick()
    if not log.brief(task):
        log.ended(task, None)


def listed(written: KeptLines) -> set[int]:
    return {line.task for line in written.of(RunEnded) if line.task > 0}


def counts(written: KeptLines) -> list[tuple[str, int]]:
    return [(line.function, line.tasks) for line in written.of(BriefTasks)]


def test_the_first_brief_tasks_of_a_second_are_listed_and_the_others_counted(
    log: RunLog, written: KeptLines, clock: Clock
) -> None:
    for task in range(1, 6):
        run(log, task)
        clock.reading += 0.01
    log.close()
    assert set(range(-LISTED, 0)) == {line.task for line in written.of(RunEnded)}
    assert [("f", 5)] == counts(written)
    run(log, 6)
    log.close()
    assert {6} == listed(written)


def test_a_count_has_the_times_of_its_tasks_and_what_they_ask_for(
    log: RunLog, written: KeptLines, clock: Clock
) -> None:
    log.submitted(1, "f", CORES)
    log.submitted(2, "f", CORES)
    clock.reading += 0.5
    log.on_message(Started("id-w", (1, 2)))
    clock.reading += 0.125
    log.tick()
    assert log.brief(1)
    assert log.brief(2)
    log.close()
    (line,) = written.of(BriefTasks)
    assert (2, 100.5, 0.25, 1.0, {"Cores": 2}, "Cores(2)") == (
        line.tasks, line.began, line.seconds, line.waited, line.request, line.request_text
    )  # fmt: skip
    assert 100.625 == line.time


def test_functions_and_requests_are_counted_apart(log: RunLog, written: KeptLines) -> None:
    for task, (function, request) in enumerate(
        [("f", CORES), ("g", CORES), ("f", Cores(1)), ("f", Cores(2))]
    ):
        log.submitted(task, function, request)
        log.started(task, "id-w")
        assert log.brief(task)
    log.close()
    assert [("f", 2), ("g", 1), ("f", 1)] == counts(written)


def test_a_task_that_runs_for_longer_is_listed(
    log: RunLog, written: KeptLines, clock: Clock
) -> None:
    log.submitted(1, "f", CORES)
    log.on_message(Started("id-w", (1,)))
    clock.reading += BRIEF + 0.01
    log.tick()
    assert not log.brief(1)
    log.ended(1, None)
    log.close()
    assert {1} == listed(written)
    ended = written.lines[-1]
    assert isinstance(ended, RunEnded)
    assert (100.0, "w", 1) == (ended.started, ended.worker, ended.attempt)


def test_a_failure_a_cancellation_and_a_further_attempt_are_listed(
    log: RunLog, written: KeptLines
) -> None:
    for task in (1, 2):
        log.submitted(task, "f", CORES)
        log.started(task, "id-w")
    log.ended(1, ValueError("no"))
    log.ended(2, KeyError(), cancelled=True)
    run(log, 3, retry_of=1)
    log.close()
    assert {1, 2, 3} == listed(written)
    assert [1, 2, 3] == [line.task for line in written.of(TaskSubmitted) if line.task > 0]
    assert [1, 2, 3] == [line.task for line in written.of(TaskStarted) if line.task > 0]
    assert [] == counts(written)


def test_a_task_that_ran_twice_is_listed(log: RunLog, written: KeptLines) -> None:
    log.submitted(1, "f", CORES)
    log.on_message(Started("id-w", (1,)))
    log.on_message(Started("id-w", (1,)))  # after a loss of the connection
    log.on_message(Started("", (1,)))
    log.on_message(Started("id-w", (1,)))
    assert not log.brief(1)
    log.ended(1, None)
    log.close()
    ends = [(line.outcome, line.attempt) for line in written.of(RunEnded) if line.task == 1]
    assert [("returned", 1), ("value", 2)] == ends


def test_lines_are_written_in_the_order_of_their_times_once_nothing_is_older(
    log: RunLog, written: KeptLines, clock: Clock
) -> None:
    log.submitted(1, "f", CORES)
    clock.reading += 0.5
    log.on_message(WorkerEnded("id-w", "it burnt"))
    written.flush()
    assert [] == written.lines
    clock.reading += HELD - 0.5
    written.flush()
    assert [1] == [line.task for line in written.of(TaskSubmitted) if line.task > 0]
    assert [] == written.of(WorkerLeft)
    log.on_message(Started("id-w", (1,)))
    clock.reading += HELD
    written.flush()
    assert ["it burnt"] == [line.why for line in written.of(WorkerLeft)]
    assert [102.0] == [line.time for line in written.of(TaskStarted) if line.task == 1]
    times = [line.time for line in written.lines]
    assert sorted(times) == times
    assert not written.flush(), "nothing is held, and yet a flush was asked for"


def test_many_tasks_that_wait_are_listed_a_part_at_a_time(
    log: RunLog, written: KeptLines, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_log, "_AT_ONCE", 3)
    for task in range(1, 8):
        log.submitted(task, "f", CORES)
    log.on_message(WorkerEnded("id-w", "it burnt"))
    clock.reading += HELD
    seen = []
    while written.flush():
        seen.append(sum(line.task > 0 for line in written.of(TaskSubmitted)))
    assert [3, 6, 7] == seen
    times = [line.time for line in written.lines]
    assert sorted(times) == times


def test_without_a_flush_that_was_asked_for_the_notes_are_written_all_the_same(
    log: RunLog, written: KeptLines, clock: Clock
) -> None:
    log.submitted(1, "f", CORES)
    clock.reading += 60
    log.submitted(2, "f", CORES)
    assert [1] == [line.task for line in written.of(TaskSubmitted) if line.task > 0]


def test_when_the_clock_was_set_all_is_written_before(log: RunLog, written: KeptLines) -> None:
    log.submitted(1, "f", CORES)
    written.clock_was_set = True
    written.flush()
    assert [1] == [line.task for line in written.of(TaskSubmitted) if line.task > 0]


def test_the_outcome_of_a_task_is_no_line_before_it_has_ended(
    log: RunLog, written: KeptLines
) -> None:
    log.submitted(1, "f", CORES)
    log.on_batch([(Resolved(1, "value"), b"")])
    log.close()
    assert set() == listed(written)


def test_the_counts_of_missions_of_a_scheduler_are_apart(clock: Clock) -> None:
    written = KeptLines()
    log = HubLog(lambda: written, clock)
    for number in range(LISTED + 3):
        for mission in ("a", "b"):
            log.submitted(mission, number, "f", CORES)
            log.tick()
            log.started(mission, number, "w")
            if not log.brief((mission, number)):
                log.run_over(mission, number, "value", final=True)
    log.mission_left("a")
    log.close()
    half = LISTED // 2
    assert [("a", half + 3), ("b", half + 3)] == [
        (line.mission, line.tasks) for line in written.of(BriefTasks)
    ]
    ends = written.of(RunEnded)
    assert [("a", 0), ("b", 0)] == [(end.mission, end.task) for end in ends[:2]]


def test_readers_add_counted_and_listed_tasks_up(
    log: RunLog, written: KeptLines, clock: Clock
) -> None:
    for task in range(1, 11):
        log.submitted(task, "f", CORES)
        log.started(task, "id-w")
        clock.reading += 0.1
        log.tick()
        if not log.brief(task):
            log.ended(task, None)
    log.close()
    assembly, totals = RunAssembly(), Totals()
    for line in written.lines:
        ended = assembly.feed(line)
        if ended is not None:
            totals.ended(ended)
        elif isinstance(line, TaskSubmitted):
            totals.submitted(line)
        elif isinstance(line, BriefTasks):
            totals.brief(line)
    function = totals.functions["f"]
    assert (LISTED + 10, LISTED + 10, 10) == (function.tasks, function.done, function.brief)
    assert 2.0 == pytest.approx(function.core_seconds)
    assert {"Cores(2)": LISTED + 10} == function.requests
    assert [] == list(assembly.open_tasks())
