"""Lines of a log are put together to runs, on one axis of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.eventlog.schema import (
    ClockChanged,
    FunctionStanding,
    Remark,
    RunEnded,
    StandingTasks,
    TaskStarted,
    TaskSubmitted,
    WorkerLeft,
)
from grain.eventlog.usage import Usage
from grain.facts.fold import Fold

if TYPE_CHECKING:
    from grain.eventlog.schema import AnyLine
    from grain.facts.rows import Run

SUBMITTED = TaskSubmitted(time=100.0, task=1, function="f", request={"Cores": 4.0})
STARTED = TaskStarted(time=110.0, task=1, worker="w")


def runs(*lines: AnyLine) -> list[Run]:
    fold = Fold()
    return [run for line in lines if (run := fold.feed(line)) is not None]


def ended(time: float, started: float | None = None, ended: float | None = None) -> RunEnded:
    return RunEnded(time=time, task=1, outcome="value", worker="w", started=started, ended=ended)


def test_a_run_has_its_submission_and_its_times() -> None:
    [run] = runs(SUBMITTED, STARTED, ended(150.0, started=111.0, ended=149.0))

    assert ("f", 100.0, 111.0, 149.0) == (
        run.function, run.queued, run.started, run.ended
    )  # fmt: skip
    assert (11.0, 38.0, 4 * 38.0) == (run.waited, run.seconds, run.core_seconds)


def test_a_task_that_runs_again_waits_since_the_end_of_its_last_run() -> None:
    lost = RunEnded(time=120.0, task=1, outcome="lost", worker="w", final=False)
    again = TaskStarted(time=130.0, task=1, worker="x")
    first, second = runs(SUBMITTED, STARTED, lost, again, ended(150.0))

    assert (110.0, 120.0) == (first.started, first.ended)
    assert (120.0, 130.0, 150.0) == (second.queued, second.started, second.ended)


def test_a_start_whose_line_is_late_counts_from_its_own_time() -> None:
    """Brief tasks get all their lines when they end, after lines that are of later times."""
    remark = Remark(time=149.0, text="later")
    [run] = runs(SUBMITTED, remark, STARTED, ended(150.0, started=112.0, ended=120.0))

    assert (100.0, 112.0, 120.0) == (run.queued, run.started, run.ended)


@pytest.mark.parametrize(
    ("heard", "expected"),
    [(None, 190.0), (120.0, 130.0), (90.0, 100.0), (0.0, 100.0), (1e9, 190.0)],
)
def test_a_worker_was_there_until_it_was_last_heard(heard: float | None, expected: float) -> None:
    """On the axis of the log, and within it; where the log does not say so, until its line."""
    fold = Fold()
    left = WorkerLeft(time=180.0, worker="w", why="it was lost", heard=heard)
    for line in (SUBMITTED, ClockChanged(time=95.0, by=-10.0), left):
        fold.feed(line)

    assert expected == fold.last_there(left)


@pytest.mark.parametrize("wrong", [-3600.0, -9.0, 9.0, 3600.0])
def test_the_clock_of_a_worker_that_is_wrong_moves_a_run_and_keeps_its_length(wrong: float) -> None:
    [run] = runs(SUBMITTED, STARTED, ended(150.0, started=112.0 + wrong, ended=148.0 + wrong))

    assert 36.0 == pytest.approx(run.seconds)
    assert run.started is not None
    assert 110.0 <= run.started <= run.ended <= 150.0


@given(started=st.floats(-1e9, 1e9), seconds=st.floats(-1e6, 1e6), length=st.floats(0, 1e4))
def test_a_run_lies_between_the_lines_that_frame_it(
    started: float, seconds: float, length: float
) -> None:
    [run] = runs(SUBMITTED, STARTED, ended(110.0 + length, started, started + seconds))

    assert run.started is not None
    assert 100.0 == run.queued <= 110.0 <= run.started <= run.ended <= 110.0 + length


def test_a_brief_run_of_which_only_the_length_is_known_is_not_moved_by_its_workers_clock() -> None:
    """Its times are the writer's. The clock of its worker is 2.5 s ahead."""
    long = RunEnded(
        time=110.0, task=1, outcome="value", worker="w", started=102.51, ended=112.49, cpus=(0,),
        usage=Usage(),
    )  # fmt: skip
    brief = RunEnded(
        time=130.0, task=2, outcome="value", worker="w", started=129.9, ended=130.0, usage=Usage()
    )
    first, second = runs(
        TaskSubmitted(time=100.0, task=1, function="f"),
        TaskStarted(time=100.0, task=1, worker="w"),
        long,
        TaskSubmitted(time=120.0, task=2, function="f"),
        TaskStarted(time=120.0, task=2, worker="w"),
        brief,
    )

    assert pytest.approx([100.01, 109.99]) == [first.started, first.ended]
    assert pytest.approx([129.9, 130.0, 9.9]) == [second.started, second.ended, second.slack]


def test_a_run_of_whose_start_the_writer_learns_at_its_end_keeps_its_length() -> None:
    """Its worker ran it ahead, and told of both at once; its bar lies within its frame."""
    brief = RunEnded(
        time=110.001, task=1, outcome="value", worker="w", started=109.901, ended=110.001,
        usage=Usage(),
    )  # fmt: skip
    [run] = runs(SUBMITTED, STARTED, brief)

    assert pytest.approx([0.1, 0.4]) == [run.seconds, run.core_seconds]
    assert [110.0, 110.001] == [run.started, run.ended]


def test_times_after_the_clock_was_set_are_on_the_axis_of_those_before() -> None:
    fold = Fold()
    lines: list[AnyLine] = [
        SUBMITTED,
        ClockChanged(time=3701.0, by=3600.0),
        ended(3711.0, 3705.0, 3710.0),
    ]
    [run] = [run for line in lines if (run := fold.feed(line)) is not None]

    assert (105.0, 110.0) == (run.started, run.ended)
    assert (100.0, 111.0, 3600.0) == (fold.first, fold.now, fold.clock_change)


def test_time_does_not_go_back_where_a_change_of_the_clock_was_not_noticed() -> None:
    [run] = runs(SUBMITTED, STARTED, ended(50.0))

    assert (110.0, 110.0) == (run.started, run.ended)


def test_a_task_that_never_began_has_waited_until_its_end() -> None:
    cancelled = RunEnded(time=130.0, task=1, outcome="cancelled")
    [run] = runs(SUBMITTED, cancelled)

    assert (None, 30.0, 0.0) == (run.started, run.waited, run.seconds)


def test_only_a_task_without_any_run_never_ran() -> None:
    lost = RunEnded(time=120.0, task=1, outcome="lost", worker="w", final=False)
    cancelled = RunEnded(time=130.0, task=1, outcome="cancelled")

    assert [True] == [run.never_ran for run in runs(SUBMITTED, cancelled)]
    assert [False, False] == [run.never_ran for run in runs(SUBMITTED, STARTED, lost, cancelled)]


def test_a_run_without_its_submission_has_no_function() -> None:
    first, second = runs(STARTED, ended(120.0), ended(121.0))

    assert ("", 110.0) == (first.function, first.started)
    assert ("", None) == (second.function, second.started)


def test_open_tasks_are_counted_and_listed() -> None:
    fold = Fold()
    counts = []
    lines: list[AnyLine] = [
        SUBMITTED,
        TaskSubmitted(time=101.0, task=2, function="g"),
        STARTED,
        STARTED,  # as after a loss that a torn log lacks
        RunEnded(time=120.0, task=1, outcome="lost", final=False),
        STARTED,
        ended(130.0),
        Remark(time=140.0, text="nothing"),
    ]
    for line in lines:
        fold.feed(line)
        counts.append(fold.open)

    assert [(1, 0), (2, 0), (1, 1), (1, 1), (2, 0), (1, 1), (1, 0), (1, 0)] == counts
    assert [("g", None)] == [(task.function, task.started) for task in fold.open_tasks()]
    assert 140.0 == fold.now


# Of two tasks: one is submitted, given to a worker, ends, or is lost and waits again.
STEPS = st.lists(
    st.tuples(st.sampled_from("sgel"), st.integers(1, 2), st.sampled_from("fg")),
    min_size=10,
    max_size=40,
)


@given(STEPS)
def test_the_open_tasks_of_all_functions_are_those_that_are_open(
    steps: list[tuple[str, int, str]],
) -> None:
    """Also of a log that lacks lines, or has a number twice."""
    fold = Fold()
    for time, (what, task, function) in enumerate(steps):
        at = 100.0 + time
        if what == "s":
            fold.feed(TaskSubmitted(time=at, task=task, function=function))
        elif what == "g":
            fold.feed(TaskStarted(time=at, task=task, worker="w"))
        else:
            final = what == "e"
            fold.feed(RunEnded(time=at, task=task, outcome="lost", worker="w", final=final))

        tasks = list(fold.open_tasks())
        for name in fold.waiting:
            own = [one for one in tasks if one.function == name]
            waiting = sum(one.started is None for one in own)
            assert (waiting, len(own) - waiting) == (fold.waiting[name], fold.running[name])
        waiting = sum(one.started is None for one in tasks)
        assert (waiting, len(tasks) - waiting) == fold.open
        assert {one.function for one in tasks} <= fold.waiting.keys()


def test_while_not_all_tasks_have_lines_their_numbers_are_those_of_the_last_look() -> None:
    fold = Fold()
    fold.feed(TaskSubmitted(time=1.0, task=1, function="f"))
    look = FunctionStanding(function="g", waiting=40_000, ahead=780, running=12, blocked=3)
    fold.feed(StandingTasks(time=2.0, functions=(look,)))
    fold.feed(TaskSubmitted(time=3.0, task=2, function="f"))

    assert ["g"] == list(fold.waiting)
    assert (40_783, 12) == fold.open

    fold.feed(StandingTasks(time=4.0))
    assert {"f": 2} == fold.waiting


def test_a_run_after_one_that_was_handed_back_is_not_after_a_failure() -> None:
    fold, ended = Fold(), []
    fold.feed(TaskSubmitted(time=1.0, task=1, function="f"))
    for time, outcome in ((2.0, "returned"), (3.0, "lost"), (4.0, "value")):
        fold.feed(TaskStarted(time=time, task=1, worker="w"))
        line: Any = RunEnded(time=time, task=1, outcome=outcome, final=outcome == "value")  # type: ignore[arg-type]
        ended.append(fold.feed(line))

    assert [False, False, True] == [one is not None and one.is_retry for one in ended]
