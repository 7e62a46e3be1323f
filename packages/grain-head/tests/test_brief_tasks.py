"""Brief tasks are counted where they are many; others are listed, in the order of their times."""

from __future__ import annotations

from typing import Any

import pytest

from grain.eventlog.schema import (
    BriefTasks,
    FunctionStanding,
    RunEnded,
    StandingTasks,
    TaskStarted,
    TaskSubmitted,
    WorkerLeft,
)
from grain.eventlog.usage import RunReport, encode_report
from grain.facts.fold import Fold
from grain.facts.totals import Totals
from grain.head import run_log
from grain.head.base import CallKind, CallKindNow
from grain.head.log_words import RequestWords
from grain.head.messages import Started, WorkerEnded, WorkerFacts
from grain.head.run_log import HELD, LISTED, RunLog
from grain.resource import Cores
from grain_testkit.kept_lines import KeptLines
from grain_testkit.submitted_tasks import SubmittedTasks

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
    return RunLog(written, "m", clock)


@pytest.fixture
def kept(log: RunLog) -> SubmittedTasks:
    """The tasks of a mission with its share of listed tasks, of numbers up to `LISTED`."""
    kept = SubmittedTasks(log, CORES)
    log.on_message(WorkerFacts("id-w", "w", "n17", {"Cores": 2}))
    for _ in range(LISTED):
        run(log, kept)
    return kept


def run(log: RunLog, kept: SubmittedTasks, function: str = "f", *, retry_of: int = 0) -> int:
    """Note a task that does nothing, as an executor does."""
    task = kept.submit(function, CORES, 0, retry_of)
    log.on_messages([Started("id-w", (task,))])
    kept.end(task)
    return task


def listed(written: KeptLines, kind: type[Any] = RunEnded) -> list[int]:
    return [line.task - LISTED for line in written.of(kind) if line.task > LISTED]


def counts(written: KeptLines) -> list[tuple[str, int]]:
    return [(line.function, line.tasks) for line in written.of(BriefTasks)]


def test_the_first_brief_tasks_of_a_second_are_listed_and_the_others_counted(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    for _ in range(5):
        run(log, kept)
        clock.reading += 0.01
    log.close()
    assert list(range(1, LISTED + 1)) == [line.task for line in written.of(RunEnded)]
    assert [("f", 5)] == counts(written)
    run(log, kept)
    log.close()
    assert [6] == listed(written)


def test_tasks_of_two_functions_in_turns_are_counted_apart(
    log: RunLog, kept: SubmittedTasks, written: KeptLines
) -> None:
    for _ in range(3):
        run(log, kept)
        run(log, kept, "g")
    log.close()
    assert [("f", 3), ("g", 3)] == counts(written)


def test_a_count_has_the_times_of_its_tasks_and_what_they_ask_for(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    one, two = kept.submit("f", CORES), kept.submit("f", CORES)
    clock.reading += 0.5
    log.on_messages([Started("id-w", (one, two))])
    clock.reading += 0.125
    kept.end(one, 0.125)
    kept.end(two, 0.0625)
    log.close()
    (line,) = written.of(BriefTasks)
    assert (2, 100.5, 0.1875, 1.0625, {"Cores": 2}, "Cores(2)") == (
        line.tasks, line.began, line.seconds, line.waited, line.request, line.request_text
    )  # fmt: skip
    assert 100.625 == line.time


def test_functions_and_requests_are_counted_apart(
    log: RunLog, kept: SubmittedTasks, written: KeptLines
) -> None:
    one = Cores(1)
    for function, request in [("f", CORES), ("g", CORES), ("f", one), ("f", CORES)]:
        kept.end(kept.submit(function, request))
    log.close()
    assert [("f", 2), ("g", 1), ("f", 1)] == counts(written)


def test_a_task_whose_run_was_not_brief_is_listed_with_its_start(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    task = kept.submit("f", CORES, 7)
    clock.reading += 0.5
    log.on_messages([Started("id-w", (task,))])
    clock.reading += 0.5
    report = encode_report(RunReport(started=100.6, ended=101.0))
    log.ended(task, None, record=kept.tasks.pop(task), report=report)
    log.close()
    (submitted,) = [line for line in written.of(TaskSubmitted) if line.task == task]
    (started,) = [line for line in written.of(TaskStarted) if line.task == task]
    assert ((7,), 100.0, 100.5) == (submitted.after, submitted.time, started.time)
    ended = written.lines[-1]
    assert isinstance(ended, RunEnded)
    assert (100.6, 101.0, "w", 1) == (ended.started, ended.ended, ended.worker, ended.attempt)


def test_a_failure_a_cancellation_and_a_further_attempt_are_listed(
    log: RunLog, kept: SubmittedTasks, written: KeptLines
) -> None:
    for error, cancelled in ((ValueError("no"), False), (KeyError(), True)):
        task = kept.submit("f", CORES)
        log.on_messages([Started("id-w", (task,))])
        log.ended(task, error, record=kept.tasks.pop(task), cancelled=cancelled)
    run(log, kept, retry_of=LISTED + 1)
    log.close()
    for kind in TaskSubmitted, TaskStarted, RunEnded:
        assert [1, 2, 3] == listed(written, kind)
    assert [LISTED + 1] == [line.retry_of for line in written.of(TaskSubmitted) if line.retry_of]
    assert [] == counts(written)


def test_a_task_that_ran_twice_is_listed(
    log: RunLog, kept: SubmittedTasks, written: KeptLines
) -> None:
    task = kept.submit("f", CORES)
    for worker in "id-w", "id-w", "", "id-w":  # the second one after a loss of the connection
        log.on_message(Started(worker, (task,)))
    log.on_message(WorkerEnded("id-x"))
    log.on_message(WorkerEnded("id-w"))
    kept.end(task)
    log.close()
    ends = [(line.outcome, line.attempt) for line in written.of(RunEnded) if line.task == task]
    assert [("returned", 1), ("value", 2)] == ends


def test_lines_are_written_in_the_order_of_their_times_once_nothing_is_older(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    task = kept.submit("f", CORES)
    clock.reading += 0.5
    log.on_message(WorkerEnded("id-w", "it burnt"))
    written.flush()
    assert [] == written.lines
    clock.reading += HELD - 0.5
    written.flush()
    assert [1] == listed(written, TaskSubmitted)
    assert [] == written.of(WorkerLeft)
    log.on_messages([Started("id-w", (task,))])
    clock.reading += HELD
    written.flush()
    assert ["it burnt"] == [line.why for line in written.of(WorkerLeft)]
    assert [102.0] == [line.time for line in written.of(TaskStarted) if line.task == task]
    times = [line.time for line in written.lines]
    assert sorted(times) == times
    assert not written.flush(), "nothing is held, and yet a flush was asked for"


def test_what_is_submitted_with_the_last_reading_follows_an_end_before_it(
    log: RunLog, clock: Clock, written: KeptLines
) -> None:
    """An executor reads the clock once for kept that leave together; an end may come between."""
    kept = SubmittedTasks(log, CORES)
    first, second = (kept.submit("f", CORES) for _ in range(2))
    clock.reading += 1.0
    log.ended(first, None, record=kept.tasks.pop(first))
    kept.tasks[second].submitted = log.now  # as if only now
    log.close()

    lines = [line for line in written.lines if isinstance(line, (TaskSubmitted, RunEnded))]
    expected = [(TaskSubmitted, first), (RunEnded, first), (TaskSubmitted, second)]
    assert expected == [(type(line), line.task) for line in lines]


def test_of_very_many_tasks_that_wait_some_are_listed_each_second(
    log: RunLog,
    kept: SubmittedTasks,
    written: KeptLines,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_log, "WAITING", 3)
    tasks = [kept.submit("f", CORES) for _ in range(8)]
    clock.reading += HELD
    seen = []
    for _ in range(2):
        written.flush()
        seen.append(listed(written, TaskSubmitted))
    assert [[1, 2, 3], [1, 2, 3, 4, 5, 6]] == seen
    log.room = 0
    kept.end(tasks[6])
    log.ended(tasks[7], ValueError(), record=kept.tasks.pop(tasks[7]))
    log.close()
    assert [1, 2, 3, 4, 5, 6, 8] == listed(written, TaskSubmitted)
    assert [("f", 1)] == counts(written)
    fold = Fold()
    runs = [fold.feed(line) for line in written.lines]
    (late,) = [run for run in runs if run is not None and run.task == tasks[7]]
    assert HELD == late.waited


def test_without_a_flush_that_was_asked_for_the_notes_are_written_all_the_same(
    kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    kept.submit("f", CORES)
    clock.reading += 60
    kept.submit("f", CORES)
    assert [1] == listed(written, TaskSubmitted)


def test_when_the_clock_was_set_the_lines_that_are_held_are_written_before(
    log: RunLog, kept: SubmittedTasks, written: KeptLines
) -> None:
    log.on_message(WorkerEnded("id-w", "it burnt"))
    written.clock_was_set = True
    written.flush()
    assert ["it burnt"] == [line.why for line in written.of(WorkerLeft)]


def test_a_counted_task_leaves_nothing_behind(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    task = kept.submit("f", CORES)
    log.on_messages([Started("id-w", (task,))])
    log.on_message(WorkerEnded("id-x"))
    log.on_message(WorkerEnded("id-w"))  # it looks at the starts
    kept.end(task)
    clock.reading += HELD
    while written.flush():
        clock.reading += HELD
    assert [] == listed(written)
    assert [("f", 1)] == counts(written)


def test_readers_add_counted_and_listed_tasks_up(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    for _ in range(10):
        task = kept.submit("f", CORES)
        log.on_messages([Started("id-w", (task,))])
        clock.reading += 0.1
        kept.end(task, 0.1)
    log.close()
    fold, totals = Fold(), Totals()
    for line in written.lines:
        totals.feed(line, fold.feed(line))
    function = totals.functions["f"]
    assert (LISTED + 10, LISTED + 10, 10) == (function.tasks, function.done, function.brief)
    assert 2.0 == pytest.approx(function.core_seconds)
    assert {"Cores(2)": LISTED + 10} == function.requests
    assert [] == list(fold.open_tasks())


def test_while_tasks_are_counted_few_of_those_that_wait_are_listed(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    for _ in range(LISTED + 5):
        kept.submit("f", CORES)
    clock.reading += HELD
    kept.end(kept.submit("f", CORES))
    written.flush()
    assert LISTED == len(listed(written, TaskSubmitted))
    written.flush()
    assert LISTED + 5 == len(listed(written, TaskSubmitted))


def test_brief_tasks_that_end_together_are_counted_with_the_times_of_each(
    log: RunLog, written: KeptLines, kept: SubmittedTasks, clock: Clock
) -> None:
    submitted = clock.reading
    record = kept.tasks.pop(kept.submit("f", CORES))
    clock.reading += 5.0
    log.tick()
    log.count(record, 3, 0.6, 3 * submitted + 2.0)
    log.close()

    [line] = written.of(BriefTasks)
    assert (3, pytest.approx(0.6)) == (line.tasks, line.seconds)
    assert pytest.approx(13.0 - 0.6) == line.waited
    assert submitted + 5.0 - 0.2 == line.began


def test_the_words_of_requests_are_bounded_where_each_task_asks_for_something_else() -> None:
    words = RequestWords(most=3)

    for number in range(1, 9):
        assert ({"Cores": number}, f"Cores({number})") == words.of(Cores(number))
        assert len(words) <= 3


# ---- how many tasks there are


def test_while_brief_tasks_are_counted_the_log_says_how_many_wait_and_run(
    log: RunLog, kept: SubmittedTasks, written: KeptLines
) -> None:
    f, g = CallKind("f", 1), CallKind("g", 1)
    now = [
        CallKindNow("f", 1, 41_000, 2, (0.1, 0.2), 0, 0.0, 0.0, f, 780),
        CallKindNow("f", 2, 1, 0, (), 0, 0.0, 0.0, f),
        CallKindNow("g", 1, 0, 0, (), 9, 0.1, 0.1, g),
    ]
    log.follow(kept.tasks, kinds=lambda: now)
    run(log, kept)
    log.close()
    run(log, kept)
    log.close()

    expected = FunctionStanding(function="f", waiting=40_221, ahead=780, running=2, blocked=2)
    assert [(expected,), ()] == [line.functions for line in written.of(StandingTasks)]


def test_of_many_functions_those_with_few_tasks_are_added_up(
    log: RunLog, kept: SubmittedTasks, written: KeptLines
) -> None:
    kinds = [CallKindNow(f"f{i}", 1, i, 0, (), 0, 0.0, 0.0) for i in range(1, 301)]
    log.follow(kept.tasks, kinds=lambda: kinds)
    run(log, kept)
    log.close()

    (line, *_) = written.of(StandingTasks)
    assert (200, "f300", "") == (
        len(line.functions), line.functions[0].function, line.functions[-1].function
    )  # fmt: skip
    assert sum(range(1, 301)) == sum(one.waiting for one in line.functions)


def test_while_waiting_tasks_get_their_lines_the_log_says_how_many_there_are(
    log: RunLog, kept: SubmittedTasks, written: KeptLines, clock: Clock
) -> None:
    log.close()
    for _ in range(run_log.WAITING + 1):
        kept.submit("f", CORES)
    log.follow(kept.tasks, kinds=lambda: [CallKindNow("f", 2, 2001, 0, (), 0, 0.0, 0.0)])
    clock.reading += HELD + 1
    log.tick()
    written.flush()
    clock.reading += HELD + 1
    written.flush()
    log.close()

    assert [2001, 0] == [sum(one.waiting for one in s.functions) for s in written.of(StandingTasks)]
