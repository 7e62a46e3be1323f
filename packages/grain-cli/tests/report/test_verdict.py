"""The verdict: each rule says its sentence, is silent below its limit, and where it is not sure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from grain.cli.report.collecting import collect
from grain.cli.report.critical_path import PathStep
from grain.cli.report.page import render
from grain.cli.report.verdict import verdict
from grain.cli.verdict.rules import MOST
from grain.eventlog.causes import RunFailure
from grain.eventlog.schema import (
    BriefTasks,
    CachedResults,
    LogEnded,
    LogStarted,
    Remark,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
)
from grain.eventlog.usage import Usage
from grain.facts.rows import Causes
from grain_testkit.campaign import Campaign
from grain_testkit.event_logs import SyntheticMission

if TYPE_CHECKING:
    from grain.cli.report.collecting import Report
    from grain.eventlog.schema import AnyLine

HEADER = LogStarted(time=1000.0, version=1, grain="1", id="i", name="n")
WORKER = WorkerJoined(time=1000.0, worker="w", resources={"Cores": 4.0, "Memory": 16.0})


def said(*lines: AnyLine, running: bool = False, whole: bool = True) -> list[str]:
    return [one.text for one in verdict(collect([HEADER, *lines]), running=running, whole=whole)]


def said_of(section: str, *lines: AnyLine, running: bool = False) -> list[str]:
    """Return the sentences that one section explains."""
    found = verdict(collect([HEADER, *lines]), running=running, whole=True)
    return [one.text for one in found if one.section == section]


def submitted(task: int, time: float = 1000.0, **request: float) -> TaskSubmitted:
    text = " & ".join(request)
    return TaskSubmitted(time=time, task=task, function="f", request=request, request_text=text)


def started(task: int, time: float = 1000.0, worker: str = "w") -> TaskStarted:
    return TaskStarted(time=time, task=task, worker=worker)


def ended(task: int, time: float = 1010.0, began: float = 1000.0, **more: Any) -> RunEnded:
    failure = RunFailure(more.pop("error", ""), more.pop("message", ""))
    more = {"outcome": "value", "worker": "w", "failure": failure, **more}
    return RunEnded(time=time, task=task, started=began, ended=time, **more)


def end(time: float = 1010.0) -> LogEnded:
    return LogEnded(time=time, status="done")


# ---- what never ran


def test_tasks_that_fitted_nowhere_come_first_and_those_called_off_are_not_worth_a_word() -> None:
    gpu, plain = submitted(1, GPUs=1.0), submitted(2, Cores=1.0)
    off = [RunEnded(time=1005.0, task=task, outcome="cancelled", attempt=0) for task in (1, 2)]

    assert ["1 task never ran: no worker had GPUs."] == said(WORKER, gpu, plain, *off, end())
    assert [] == said(WORKER, plain, off[1], end())
    assert [] == said(WORKER, gpu, off[0], end(), whole=False)  # the worker's line may be torn


def test_what_still_waits_has_not_come_too_late_to_run_while_the_mission_goes_on() -> None:
    waits: list[AnyLine] = [WORKER, submitted(1), submitted(2, GPUs=1.0), started(1)]

    assert [] == said(*waits, running=True)
    assert ["1 task never ran: no worker had GPUs."] == said(*waits)


def test_of_several_reasons_why_tasks_never_ran_the_first_is_said() -> None:
    lines = [submitted(1, GPUs=1.0), submitted(2, Cores=64.0), submitted(3, Cores=64.0)]

    assert ["2 tasks never ran: no worker had 64 cores."] == said(WORKER, *lines, end())


# ---- failures


def failures(*messages: str, **more: Any) -> list[AnyLine]:
    lines: list[AnyLine] = []
    for task, message in enumerate(messages, 1):
        failed = {"outcome": "error", "error": "ValueError", "message": message, **more}
        lines += [submitted(task), started(task), ended(task, **failed)]
    return lines


def test_the_cause_of_most_failures_is_named_with_what_their_messages_share() -> None:
    alike = [f"mol{number}: no convergence" for number in range(3)]
    others = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]

    assert ["3 of 12 failed tasks are alike, in f: ValueError: …: no convergence."] == said(
        *failures(*alike, *others), end()
    )
    assert [] == said(*failures(*alike, *others, "j"), end())  # less than a quarter
    assert [] == said(*failures("a", "b"), end())
    assert ["All 3 failed tasks are alike, in f: ValueError: …: no convergence."] == said(
        *failures(*alike), end()
    )
    assert ["One task of f failed: ValueError: Why?"] == said(*failures("Why?"), end())
    assert ["One task of f failed: ValueError: So."] == said(*failures("So."), end())


def test_failures_of_a_function_without_a_name_are_told_without_one() -> None:
    lines = [
        structs.replace(line, function="") if isinstance(line, TaskSubmitted) else line
        for line in failures("a", "a")
    ]

    assert ["All 2 failed tasks are alike: ValueError: a."] == said(*lines, end())
    assert ["One task failed: ValueError: a."] == said(*lines[:3], end())


def test_a_task_that_failed_without_an_exception_was_given_up_after_crashes() -> None:
    crashed = failures("it was killed", outcome="crashed", error="")

    assert ["One task of f failed: given up after crashes: it was killed."] == said(*crashed, end())


def test_a_failure_that_a_further_attempt_made_up_for_is_none() -> None:
    again = TaskSubmitted(time=1010.0, task=2, function="f", retry_of=1)
    made_up: list[AnyLine] = [again, started(2, 1010.0), ended(2, 1020.0, 1010.0)]
    other = failures("", "", "mol3: a")[-3:]

    assert [] == said(*failures("mol1: a"), *made_up, end())
    assert ["One task of f failed: ValueError: …: a."] == said(
        *failures("mol1: a"), *made_up, *other, end()
    )


def test_of_a_mission_that_goes_on_failed_runs_are_counted() -> None:
    assert ["One run of f failed: ValueError: a."] == said(*failures("a"), running=True)


def test_workers_that_were_lost_and_causes_that_are_not_kept_apart_are_no_cause() -> None:
    lost = failures("a", "a", outcome="lost", error="", final=False)
    words = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(2000)]

    assert [] == said_of("failures", *lost, running=True)
    assert [] == said(*failures(*words), end())


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    [sentence] = said(*failures(f"xtb {'x' * 5000} did not converge"), end())

    assert len(sentence) < 250
    assert sentence.startswith("One task of f failed: ValueError: xtb x")
    assert sentence.endswith("x did not converge.")
    assert "…" in sentence


def test_a_long_name_of_a_function_keeps_its_beginning_and_its_end() -> None:
    name = f"chem.{'x' * 500}.optimise"
    task = TaskSubmitted(time=1000.0, task=1, function=name)
    failed = ended(1, outcome="error", error="ValueError", message="a")

    [sentence] = said(task, started(1), failed, end())

    assert re.fullmatch(r"One task of chem\.x+…x+\.optimise failed: ValueError: a\.", sentence)
    assert 60 > len(sentence) - len("One task of  failed: ValueError: a.") - 1 > 50
    fits = structs.replace(task, function="x" * 60)
    assert [f"One task of {'x' * 60} failed: ValueError: a."] == said(
        fits, started(1), failed, end()
    )


# ---- time limits


@pytest.mark.parametrize(("runs", "fires"), [(20, True), (21, False)])
def test_a_time_limit_that_ends_one_run_of_twenty_is_named(runs: int, fires: bool) -> None:
    lines: list[AnyLine] = []
    for task in range(1, runs + 1):
        slow: dict[str, Any] = {"outcome": "error", "error": "TooSlowError"} if task == 1 else {}
        lines += [submitted(task, WTime=10.0), started(task), ended(task, **slow)]
    found = said(WORKER, *lines, submitted(99, WTime=10.0), running=True)

    assert fires == ("A time limit of 10 s or less ended 1 run of f." in found)


def cut(function: str, *tasks: int) -> list[AnyLine]:
    lines: list[AnyLine] = []
    slow: dict[str, Any] = {"outcome": "error", "error": "TooSlowError"}
    for task in tasks:
        one = structs.replace(submitted(task, WTime=10.0), function=function)
        lines += [one, started(task), ended(task, **slow)]
    return lines


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([*cut("f", 1, 2, 3), *cut("g", 4, 5)], "A time limit of 10 s or less ended 3 runs of f."),
        ([*cut("f", 1, 2), *cut("g", 3, 4, 5)], "A time limit of 10 s or less ended 3 runs of g."),
        ([*cut("f", 1, 2), *cut("g", 3, 4)], "A time limit of 10 s or less ended 2 runs of f."),
    ],
)
def test_the_function_of_which_a_time_limit_ended_most_runs_is_named(
    lines: list[AnyLine], sentence: str
) -> None:
    assert [sentence] == said_of("requests", WORKER, *lines, end())


def test_no_time_limit_is_said_to_end_runs_of_a_function_without_a_name() -> None:
    assert [] == said_of("requests", WORKER, *cut("", 1, 2), end())


# ---- requests


def computing(cores: float, runs: int = 5, asked: float = 2.0, **more: float) -> list[AnyLine]:
    used = Usage(user=10 * cores, programs=1)
    return [
        line
        for task in range(1, runs + 1)
        for line in (
            submitted(task, Cores=asked, **more), started(task), ended(task, usage=used)
        )
    ]  # fmt: skip


TWICE = (
    "f asked for 2 cores, and its programs kept 1 busy on average at most: with Cores(1), "
    "twice as many would have room at once."
)


def test_cores_that_programs_never_kept_busy_are_named() -> None:
    assert [TWICE] == said(WORKER, *computing(1.0), end())
    assert [TWICE] == said(WORKER, *computing(1.05), end())
    assert [] == said(WORKER, *computing(1.06), end())
    assert [TWICE] == said(WORKER, *computing(0.5), end())
    more = TWICE.replace("asked for 2", "asked for 4").replace("twice", "4 times")
    assert [more] == said(WORKER, *computing(1.0, asked=4.0), end())
    wide = WorkerJoined(time=1000.0, worker="w", resources={"Cores": 16.0})
    [sentence] = said(wide, *computing(1.0, asked=5.0), end())
    assert sentence.endswith("with Cores(1), 5.3 times as many would have room at once.")


@pytest.mark.parametrize(
    "lines",
    [
        computing(1.0, runs=4),  # too few
        computing(0.4),  # most of it may be the tasklet's own computing
        computing(1.0, Memory=8.0),  # the memory is used up
        computing(3.0, asked=4.0),  # a worker has four
        [*computing(1.0), submitted(9, Cores=4.0)],  # not all of them asked for that
        [*computing(1.0), submitted(9, Memory=4.0)],
        [*computing(1.0), submitted(9, Cores=2.0), started(9), ended(9)],  # not measured
    ],
)
def test_nothing_is_said_of_a_request_that_may_have_been_right(lines: list[AnyLine]) -> None:
    assert [] == said_of("requests", WORKER, *lines, running=True)


def test_nothing_is_said_of_cores_that_were_a_small_part_or_of_workers_without_room() -> None:
    other = TaskSubmitted(time=1000.0, task=50, function="g", request={"Cores": 4.0})

    def with_other(seconds: float) -> list[str]:
        late = 1000.0 + seconds
        return said(WORKER, *computing(1.0), other, started(50), ended(50, late), end(late))

    assert [TWICE] == with_other(225.0)  # 100 of 1,000 core seconds
    assert [] == with_other(226.0)
    assert [] == said(*computing(1.0), end())


def test_rooms_are_whole_tasks_on_the_worker_that_gains_least() -> None:
    def on(*workers: dict[str, float], asked: float = 2.0, Memory: float = 1.0) -> str:
        joined = [
            WorkerJoined(time=1000.0, worker=str(at), resources=resources)
            for at, resources in enumerate(workers)
        ]
        return "".join(said(*joined, *computing(1.0, asked=asked, Memory=Memory), end()))

    memory = {"Cores": 4.0, "Memory": 16.0}
    assert TWICE == on(memory, memory, Memory=2.0)
    assert "" == on(memory, {"Cores": 4.0, "Memory": 2.0}, Memory=2.0)
    assert "with Cores(1), 4 times as many" in on(memory, asked=3.0)
    assert TWICE == on({"Cores": 6.0, "Memory": 0.6}, Memory=0.1)  # 0.6 / 0.1 < 6
    assert TWICE == on(memory, Memory=0.0)


def test_tasks_may_have_different_limits_of_time() -> None:
    lines = [
        structs.replace(one, request={**one.request, "WTime": 100.0 + one.task})
        if isinstance(one, TaskSubmitted)
        else one
        for one in computing(1.0)
    ]

    assert [TWICE] == said(WORKER, *lines, end())


def test_the_median_run_decides_whether_programs_are_most_of_it() -> None:
    def with_two_of(cores: float, others: float) -> list[str]:
        runs = computing(others)
        del runs[-1], runs[-3]
        used = Usage(user=10 * cores, programs=1)
        return said(WORKER, *runs, ended(4, usage=used), ended(5, usage=used), end())

    assert [TWICE] == with_two_of(0.3, 1.0)
    assert [] == with_two_of(1.0, 0.3)


def test_nothing_is_said_of_cores_for_which_no_task_asked_or_of_a_function_without_a_name() -> None:
    used = Usage(user=10.0, programs=1)
    without: list[AnyLine] = []
    for task in range(1, 6):
        without += [submitted(task, Memory=1.0), started(task), ended(task, usage=used)]

    assert [] == said(WORKER, *without, end())
    nameless = [
        structs.replace(one, function="") if isinstance(one, TaskSubmitted) else one
        for one in computing(1.0)
    ]
    assert [] == said(WORKER, *nameless, end())


def test_nothing_is_said_of_cores_with_which_half_as_many_more_would_have_room() -> None:
    """Three tasks in place of two."""
    worker = WorkerJoined(time=1000.0, worker="w", resources={"Cores": 6.0})

    assert [] == said(worker, *computing(2.0, asked=3.0), end())


# ---- the first start


def test_a_late_first_start_is_named() -> None:
    def after(late: float, until: float) -> list[str]:
        at = 1000.0 + late
        return said(submitted(1), WORKER, started(1, at), ended(1, at + 1, at), end(1000.0 + until))

    assert ["Tasks waited 10 s before a worker took the first one."] == after(10.0, 200.0)
    assert [] == after(9.9, 100.0)
    assert [] == after(10.0, 201.0)


def test_a_late_start_on_workers_without_a_line_leads_to_the_queue() -> None:
    late: list[AnyLine] = [submitted(1), started(1, 1020.0), ended(1, 1030.0, 1020.0), end(1030.0)]

    assert ["Tasks waited 20 s before a worker took the first one."] == said_of("queue", *late)
    assert ["Tasks waited 20 s before a worker took the first one."] == said_of(
        "workers", WORKER, *late
    )


def test_the_first_start_is_not_late_if_it_may_have_been_another_one() -> None:
    late: list[AnyLine] = [started(2, 1100.0), ended(2, 1110.0, 1100.0), end(1110.0)]
    waits = "Tasks waited 1 min 40 s before a worker took the first one."
    brief = BriefTasks(time=1050.0, function="g", tasks=9, began=1001.0, seconds=0.9)
    called_off = RunEnded(time=1005.0, task=1, outcome="cancelled", attempt=0)

    assert [waits] == said(WORKER, submitted(2), *late)
    assert [] == said(WORKER, submitted(2), *late, whole=False)
    assert [] == said_of("workers", WORKER, submitted(2), brief, *late)
    # The line of a start may come after that of a later one.
    both: list[AnyLine] = [submitted(1), submitted(2), late[0], started(1, 1001.0), *late[1:]]
    assert [] == said_of("workers", WORKER, *both)
    assert [] == said(WORKER, submitted(1), called_off, submitted(2, 1095.0), *late)


# ---- workers


def lost(*names: str, heard: float | None = 1128.0, tasks: int = 2) -> list[AnyLine]:
    lines: list[AnyLine] = []
    for at, name in enumerate(names):
        numbers = range(100 * at + 1, 100 * at + 1 + tasks)
        lines += [WorkerJoined(time=1000.0, worker=name, resources={"Cores": 4.0})]
        lines += [line for task in numbers for line in (submitted(task), started(task, 1e3, name))]
        lines += [WorkerLeft(time=1188.0, worker=name, why="it is silent", heard=heard)]
        lines += [ended(task, 1188.0, worker=name, outcome="lost", final=False) for task in numbers]
    return lines


def test_lost_workers_are_named_with_what_went_back() -> None:
    assert ["n02 was lost 2 min 8 s after the start: 2 of its tasks had to start again."] == (
        said_of("workers", *lost("n02"))
    )
    assert ["n02 was lost: 2 of its tasks had to start again."] == said_of(
        "workers", *lost("n02", heard=None)
    )
    assert [
        "5 workers were lost (a, b, c and 2 others): 10 of their tasks had to start again."
    ] == said_of("workers", *lost(*"abcde"))
    assert ["3 workers were lost (a, b, c): 6 of their tasks had to start again."] == said_of(
        "workers", *lost(*"abc")
    )
    assert [] == said_of("workers", *lost("n02", tasks=0))


def test_a_task_that_was_given_up_with_its_worker_did_not_go_back() -> None:
    lines = [
        structs.replace(line, final=True) if isinstance(line, RunEnded) else line
        for line in lost("n02")
    ]

    assert [] == said_of("workers", *lines, end(1200.0))


def test_a_worker_that_came_back_or_was_to_leave_is_not_lost() -> None:
    back = WorkerJoined(time=1189.0, worker="n02", resources={"Cores": 4.0})
    assert [] == said_of("workers", *lost("n02"), back)
    left = WorkerLeft(time=1100.0, worker="w")
    assert [] == said(WORKER, submitted(1), started(1), ended(1), left, end(1100.0))


# ---- the critical path


def test_a_critical_path_that_mostly_waited_is_named() -> None:
    def waiting(seconds: float, *, running: bool = False, lines: Any = ()) -> list[str]:
        at = 1010.0 + seconds
        second = TaskSubmitted(time=1010.0, task=2, function="f", after=(1,))
        return said(
            submitted(1), WORKER, started(1), ended(1), second, *lines, started(2, at),
            ended(2, 1100.0, at), *([] if running else [end(1100.0)]), running=running,
        )  # fmt: skip

    text = "Tasks of the critical path waited 50 s of 1 min 40 s for room."
    assert [text] == waiting(50.0)
    assert [] == waiting(49.0)
    assert [] == waiting(50.0, running=True)
    in_vain = [started(2, 1011.0), ended(2, 1058.0, 1011.0, outcome="returned", final=False)]
    assert [] == waiting(50.0, lines=in_vain)


def test_what_may_be_the_delay_of_a_report_is_not_a_wait_for_room() -> None:
    """The mission learned 60 s later of a run of 0.1 s, and does not know when it was."""

    def learned(seconds: float, given: float) -> list[str]:
        at = 1000.0 + given
        late = ended(1, at + seconds, at + seconds - 0.1, usage=Usage())
        return said_of("path", submitted(1), *started_soon, started(1, at), late, end(1100.0))

    # The first start is that of another task, so that nothing is said of that.
    started_soon: list[AnyLine] = [submitted(9), started(9, 1000.0)]
    assert [] == learned(60.0, given=10.0)
    assert [] == learned(60.0, given=40.0)
    assert ["Tasks of the critical path waited at least 51 s of 1 min 40 s for room."] == learned(
        45.0, given=51.0
    )


def test_a_wait_that_is_sure_but_for_a_moment_is_not_called_a_least_one() -> None:
    report = collect([HEADER, WORKER, submitted(1), started(1), ended(1), end(1100.0)])
    report = replace(report, steps=[PathStep(1, 0, 0.0, 0.0, 60.0, 100.0, unsure=0.01)])

    [found] = verdict(report, running=False, whole=True)

    assert "Tasks of the critical path waited 1 min of 1 min 40 s for room." == found.text


def test_the_wait_for_the_first_start_is_said_once() -> None:
    lines: list[AnyLine] = [
        submitted(1),
        WORKER,
        started(1, 1060.0),
        ended(1, 1100.0, 1060.0),
        end(1100.0),
    ]

    assert ["Tasks waited 1 min before a worker took the first one."] == said(*lines)


# ---- all of them


def test_a_log_without_trouble_has_no_verdict() -> None:
    assert [] == said()
    assert [] == said(end())
    assert [] == said(CachedResults(time=1000.0, function="f", results=9), end())
    assert [] == said(WORKER, submitted(1), started(1), ended(1), end())


def test_of_many_sentences_the_first_three_are_said() -> None:
    found = verdict(collect(Campaign(63).lines()), running=False, whole=True)

    assert MOST == len(found)
    assert ["queue", "requests", "requests"] == [one.section for one in found]
    assert ["queue", "requests", "workers"] == [
        one.section for one in verdict(_without_limits(), running=False, whole=True)
    ]


def test_sentences_come_in_the_order_of_the_rules() -> None:
    def of_g(task: int, **request: float) -> TaskSubmitted:
        return TaskSubmitted(time=1000.0, task=task, function="g", request=request)

    slow: dict[str, Any] = {"outcome": "error", "error": "TooSlowError"}
    gone: dict[str, Any] = {"outcome": "lost", "worker": "n02", "final": False}
    report = collect([
        HEADER, WORKER, of_g(50, GPUs=1.0), *computing(1.0),
        of_g(51, WTime=10.0), started(51), ended(51, **slow),
        WorkerJoined(time=1000.0, worker="n02", resources={"Cores": 4.0}),
        of_g(52), started(52, 1e3, "n02"), WorkerLeft(time=1188.0, worker="n02", why="gone"),
        ended(52, 1188.0, **gone), end(1200.0),
    ])  # fmt: skip
    report = replace(report, first_wait=20.0, steps=[PathStep(1, 0, 0.0, 0.0, 180.0, 200.0, 0.0)])

    def beginnings() -> list[str]:
        return [one.text.split()[0] for one in verdict(report, running=False, whole=True)]

    assert ["1", "One", "A"] == beginnings()
    report.left_waiting.clear()
    assert ["One", "A", "f"] == beginnings()
    report.totals.causes = Causes()
    assert ["A", "f", "Tasks"] == beginnings()
    report.totals.functions["g"].overtime = 0
    assert ["f", "Tasks", "Tasks"] == beginnings()
    found = verdict(report, running=False, whole=True)
    assert ["requests", "path", "workers"] == [one.section for one in found]
    report.totals.functions.clear()
    assert ["Tasks", "Tasks", "n02"] == beginnings()


def _without_limits() -> Report:
    """Return a report whose first and last rules apply, and not that on time limits."""
    report = collect(Campaign(63).lines())
    for one in report.totals.functions.values():
        one.overtime = 0
    return report


MISSIONS = st.builds(
    SyntheticMission,
    st.integers(0, 60),
    seed=st.integers(0, 99),
    workers=st.integers(0, 4),
    cores=st.sampled_from([2, 8, 16]),
    failing=st.sampled_from([0.0, 0.1, 1.0]),
    ended=st.sampled_from(["done", "failed", "interrupted", None]),
)
CAMPAIGNS = st.builds(
    Campaign, st.integers(22, 30), gpu_tasks=st.integers(0, 2), loses_a_worker=st.booleans()
)


@given(
    mission=MISSIONS | CAMPAIGNS,
    cut=st.tuples(st.just(0) | st.integers(0, 40), st.integers(1, 300)),
    torn=st.integers(2, 50),
    running=st.booleans(),
)
def test_any_log_has_three_sentences_at_most(
    mission: SyntheticMission | Campaign, cut: tuple[int, int], torn: int, running: bool
) -> None:
    """Also one that is cut anywhere, and whose lines are torn."""
    lines = list(mission.lines())[cut[0] : cut[1]]
    for kept in (lines, [line for at, line in enumerate(lines) if at % torn]):
        found = verdict(collect(kept), running=running, whole=kept is lines)
        assert len(found) <= MOST
        assert all(re.fullmatch(r"\S.*[.!?]", one.text) for one in found)


@pytest.mark.parametrize("cut", [0, 1, 100, 300, 10_000])
@pytest.mark.parametrize("running", [False, True])
def test_each_sentence_of_a_page_leads_to_a_section_that_is_there(cut: int, running: bool) -> None:
    lines = list(Campaign(63).lines())[:cut]
    text = render(collect(lines), written=running, version="1", notes=[])

    links = re.findall(r'<li><a href="#(\w+)">', text)
    assert (0 if cut < 40 else 1) <= len(links) <= MOST
    assert all(f'<section id="{anchor}"' in text for anchor in links)
    assert all(f'id="{anchor}"' in text for anchor in re.findall(r'<a[^>]*href="#(\w+)"', text))


def test_a_page_says_nothing_twice_and_takes_nothing_for_markup() -> None:
    gpu = TaskSubmitted(time=1000.0, task=50, function="g", request={"GPUs": 1.0})
    lines = [HEADER, WORKER, gpu, *failures("<b>bold</b>\x1b[1m"), end()]
    text = render(collect(lines), written=False, version="1", notes=[])

    verdict_ = text[text.index("<h1>") : text.index('<p class="facts">')]
    assert '<li><a href="#queue">1 task never ran: no worker had GPUs.</a></li>' in verdict_
    assert "One task of f failed: ValueError: &lt;b&gt;bold&lt;/b&gt;?[1m.</a></li>" in verdict_
    assert 1 == text.count("1 task never ran: no worker had GPUs")


def test_places_that_were_set_aside_are_named_with_the_last_reason() -> None:
    def remark(place: str, function: str) -> Remark:
        why = f"set aside for 1 min: {function} failed there 9 times in a row"
        return Remark(time=1001.0, text="a warning", place=place, why=why)

    one = "was set aside for 1 min: opt failed there 9 times in a row"
    assert [] == said_of("remarks", Remark(time=1001.0, text="warning: the disk is full"))
    assert [f"n02 {one}."] == said_of("remarks", remark("n02", "step"), remark("n02", "opt"))
    assert [f"GPU 0 of n03 {one}; 1 other place as well."] == said_of(
        "remarks", remark("n02", "step"), remark("GPU 0 of n03", "opt")
    )
