"""Runs add up, by function and outcome; failures by cause."""

from __future__ import annotations

import math
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from grain.eventlog.causes import RunFailure, pattern_of
from grain.eventlog.schema import RunEnded, TaskSubmitted
from grain.eventlog.usage import MemberUsage, Usage
from grain.facts.amounts import Histogram
from grain.facts.fold import Fold
from grain.facts.rows import LAST_RUNS, Function
from grain.facts.totals import Totals
from grain_testkit.event_logs import SyntheticMission
from grain_testkit.small_log import learned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.schema import AnyLine


def totals_of(lines: Iterable[AnyLine]) -> Totals:
    fold, totals = Fold(), Totals()
    for line in lines:
        totals.feed(line, fold.feed(line))
    return totals


def submitted(task: int, retry_of: int = 0, memory: float = 8.0) -> TaskSubmitted:
    return TaskSubmitted(
        time=0.0, task=task, function="f", request={"Cores": 2.0, "Memory": memory},
        request_text=f"Cores(2) & Memory({memory:g})", retry_of=retry_of,
    )  # fmt: skip


def ended(task: int, outcome: Any, message: str = "", at: float = 0.0, **more: Any) -> RunEnded:
    """A run of ten seconds."""
    return RunEnded(
        time=at + 10.0, task=task, outcome=outcome, worker="w", started=at, ended=at + 10.0,
        failure=RunFailure("ValueError" if message else "", message), **more,
    )  # fmt: skip


def test_a_failure_that_a_further_attempt_makes_up_for_is_none() -> None:
    totals = totals_of([
        submitted(1), ended(1, "error", "a"), submitted(2, retry_of=1), ended(2, "value"),
        submitted(3), ended(3, "error", "a"),
    ])  # fmt: skip

    assert (2, 1, 1, 1) == (totals.tasks, totals.done, totals.failed, totals.retried)
    [failures] = totals.causes
    assert (2, 1, 1) == (failures.runs, failures.final, failures.first.task)
    assert {"w": 2} == failures.workers


def test_a_task_that_fails_at_each_of_several_attempts_has_failed_once() -> None:
    totals = totals_of([
        submitted(1), ended(1, "error", "a"), submitted(2, retry_of=1), ended(2, "error", "b"),
        submitted(3, retry_of=1), ended(3, "error", "a"),
    ])  # fmt: skip

    assert (1, 0, 1, 2) == (totals.tasks, totals.done, totals.failed, totals.retried)
    assert {"a": (2, 1), "b": (1, 0)} == {
        cause.first.failure.pattern: (cause.runs, cause.final) for cause in totals.causes
    }


def test_the_calls_of_a_cause_are_those_that_failed_for_good() -> None:
    """Each with its last attempt, and where that failed for another reason, there."""
    totals = totals_of([
        submitted(1), ended(1, "error", "a", call="f(1)"),
        submitted(2), ended(2, "error", "a", call="f(2)"), submitted(3, retry_of=2),
        ended(3, "value"),
        submitted(4), ended(4, "error", "a", call="f(4)"), submitted(5, retry_of=4),
        ended(5, "error", "b", call="f(4)"),
        submitted(6), ended(6, "lost", final=False, call="f(6)"), ended(6, "value", attempt=2),
        submitted(7), ended(7, "error", "a"),
    ])  # fmt: skip

    assert {"a": [(1, "f(1)"), (7, "")], "b": [(5, "f(4)")], "": []} == {
        cause.first.failure.pattern: [(call.task, call.call) for call in cause.calls.values()]
        for cause in totals.causes
    }


def test_core_time_that_brought_no_value_is_wasted() -> None:
    totals = totals_of([
        submitted(1), submitted(2), submitted(3),
        ended(1, "lost", final=False), ended(2, "cancelled"), ended(3, "returned", final=False),
        ended(1, "value", at=10.0, attempt=2),
    ])  # fmt: skip

    assert (80.0, 60.0) == (totals.core_seconds, totals.wasted_core_seconds)
    assert (1, 1, 0, 1) == (totals.done, totals.cancelled, totals.failed, totals.lost)


def test_a_function_has_what_was_asked_for_and_what_was_used() -> None:
    used = Usage(user=8.0, system=2.0, peak_memory=3.0, measured_by="polling", programs=1)
    totals = totals_of([
        submitted(1), submitted(2), submitted(3, memory=12.0),
        ended(1, "value", usage=used), ended(2, "value", usage=Usage(user=1.0, programs=1)),
    ])  # fmt: skip

    function = totals.functions["f"]
    memory = function.asked["Memory"]
    assert (8.0, 8.0, 12.0) == (memory.usual, memory.least, memory.most)
    assert {"Cores(2) & Memory(8)": 2, "Cores(2) & Memory(12)": 1} == function.requests
    assert (1, 3.0, 3 / 8) == (
        function.memory.count, function.memory.most, function.memory_shares.most
    )  # fmt: skip
    assert (11.0, 1.0) == (function.cpu_seconds, function.busy_cores.most)


def test_a_function_has_what_its_group_has_learned_and_its_runs_what_they_got() -> None:
    function = totals_of(learned()).functions["optimise"]
    text = (
        "opt asked for 2.4 GB: 2 of 3 runs needed no more (median 2, largest 5.5); 1 attempt had "
        "too little"
    )
    assert text == function.learned["opt"].text
    assert [text] == function.explained
    # The next attempt after one that had too little is not what the group asks for.
    assert 4 == totals_of(learned()[:9]).functions["optimise"].learned["opt"].asks
    # Not of the 32 GB that it states as the most.
    assert (4, 1 / 4, 4.1 / 4) == pytest.approx(
        (function.memory_shares.count, function.memory_shares.least, function.memory_shares.most)
    )


def test_of_a_group_with_sizes_the_amounts_have_a_range() -> None:
    text = totals_of(learned(size=9)).functions["optimise"].learned["opt"].text
    assert text.startswith("opt asked for 2.4 to 4 GB by size: 2 of 3 runs needed no more (")


def test_of_a_group_without_a_run_that_had_enough_the_amount_is_known() -> None:
    [group] = totals_of(learned()[3:6]).functions["optimise"].learned.values()
    assert "opt asked for 4 GB: no run that had enough was measured; 1 attempt had too little" == (
        group.text
    )


def test_of_groups_that_all_differ_a_few_are_explained_and_a_hundred_kept() -> None:
    def lines() -> Iterable[AnyLine]:
        for number in range(200):
            for line in learned()[:3]:
                if isinstance(line, RunEnded) and line.learned is not None:
                    line = replace(line, learned=replace(line.learned, group=f"g{number}"))
                yield line

    function = totals_of(lines()).functions["optimise"]
    assert 100 == len(function.learned)
    *texts, rest = function.explained
    assert ["g0", "g1", "g2"] == [text.split()[0] for text in texts]
    assert "and 97 other groups of memory" == rest


def test_of_very_many_runs_of_a_group_the_last_count() -> None:
    lines = [replace(line, time=line.time + k) for k in range(200) for line in learned()[:3]]
    group = totals_of([*lines, *learned()[9:]]).functions["optimise"].learned["opt"]
    assert (201, LAST_RUNS) == (group.runs, len(group.last))
    assert "opt asked for 2.4 GB: 64 of 64 runs needed no more (median 1, largest 2)" == group.text


def test_a_measurement_below_0_counts_as_0() -> None:
    function = Function()
    function.use(Usage(user=-1.0, peak_memory=-2.0, measured_by="polling", programs=1), 10.0)

    assert (0.0, 1, 0.0, 1) == (
        *(function.cpu_seconds, function.busy_cores.count, function.busy_cores.least),
        function.memory.count,
    )
    assert 0.0 == function.memory.least


@pytest.mark.parametrize("amounts", [(1.0,), (2.0, 5.0, 90.0), (1e-12, 1e-12, 3.0)])
def test_amounts_for_a_message_have_one_bin_and_the_same_median(amounts: tuple[float, ...]) -> None:
    whole = Histogram()
    for amount in amounts:
        whole.add(amount)
    thin = whole.thinned()

    assert 1 == len(thin.counts)
    assert whole.quantile(0.5) == thin.quantile(0.5)
    assert whole.mean == thin.mean
    assert (whole.count, whole.least, whole.most) == (thin.count, thin.least, thin.most)


def test_without_amounts_there_is_nothing_for_a_message() -> None:
    assert Histogram() == Histogram().thinned() == Histogram().thinned(3.0)


def test_a_bin_that_cannot_be_has_a_quantile() -> None:
    """A mission may state it, and `grain top` shows what missions state."""
    assert 7.0 == Histogram(1, 7.0, 7.0, 7.0, {10**9: 1}).quantile(0.5)
    assert 7.0 == Histogram(1, 7.0, 7.0, 7.0, {-(10**9): 1}).quantile(0.5)


def test_the_cores_of_a_run_without_programs_are_not_known() -> None:
    totals = totals_of([submitted(1), ended(1, "value", usage=Usage())])

    assert 0 == totals.functions["f"].busy_cores.count


def test_requests_that_all_differ_do_not_take_ever_more_memory() -> None:
    totals = totals_of(submitted(task, memory=float(task)) for task in range(1, 1001))

    function = totals.functions["f"]
    assert 1000 == sum(function.requests.values())
    assert max(len(function.requests), len(function.asked["Memory"].counts)) <= 101
    assert (1.0, 1000.0) == (function.asked["Memory"].least, function.asked["Memory"].most)


def test_causes_that_all_differ_do_not_take_ever_more_memory() -> None:
    def lines() -> Iterable[AnyLine]:
        for task in range(1, 2001):
            yield submitted(task)
            # Neither digits nor dots: nothing that a pattern would leave out.
            yield ended(task, "error", "".join(chr(97 + int(digit)) for digit in str(task)))

    totals = totals_of(lines())

    assert 501 == len(totals.causes)
    assert 2000 == sum(one.final for one in totals.causes) == totals.failed


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("the energy of water: no exit code", "the energy of water: no exit code"),
        ("no convergence in /scratch/a b after 30 cycles", "no convergence in … b after … cycles"),
        ("KeyError: 'n17'", "KeyError: '…'"),
        ("", ""),
    ],
)
def test_messages_are_alike_but_for_paths_and_numbers(message: str, pattern: str) -> None:
    assert pattern == pattern_of(message)


@given(st.lists(st.floats(1e-6, 1e9), min_size=2, max_size=300))
def test_quantiles_of_a_histogram_are_exact_to_one_percent(amounts: list[float]) -> None:
    histogram = Histogram()
    for amount in amounts:
        histogram.add(amount)

    assert (min(amounts), max(amounts)) == (histogram.least, histogram.most)
    assert len(amounts) == sum(count for _, count in histogram.bins())
    ordered = sorted(amounts)
    at = math.floor(0.5 * (len(ordered) - 1))
    assert ordered[at] == pytest.approx(histogram.quantile(0.5), rel=0.0101)


def test_a_histogram_without_amounts_is_zero() -> None:
    assert (0.0, 0.0, 0) == (Histogram().quantile(0.5), Histogram().mean, Histogram().count)


def test_the_totals_of_a_mission_agree_with_its_lines() -> None:
    lines = list(SyntheticMission(400, seed=3, workers=3).lines())
    totals = totals_of(lines)

    ends = [line for line in lines if isinstance(line, RunEnded)]
    tasks = [line for line in lines if isinstance(line, TaskSubmitted)]
    assert len(ends) == totals.runs
    assert len([task for task in tasks if not task.retry_of]) == totals.tasks
    assert len([end for end in ends if end.outcome == "value"]) == totals.done
    assert totals.tasks == totals.done + totals.failed
    lengths = [end.ended - end.started for end in ends if end.ended and end.started]
    longest = max(function.seconds.most for function in totals.functions.values())
    assert max(lengths) >= longest > quantiles(lengths)[2]


def test_a_task_on_several_workers_has_the_cores_of_all() -> None:
    task = TaskSubmitted(
        time=0.0, task=1, function="f", request={"Cores": 2.0}, request_text="3 * Cores(2)",
        members=(3,),
    )  # fmt: skip
    totals = totals_of([task, ended(1, "value", usage=Usage(user=10.0, programs=1))])

    [function] = totals.functions.values()
    assert (60.0, 30.0) == (totals.core_seconds, totals.cpu_seconds)
    # As much as is asked for on each of them, which is what a user states.
    assert (2.0, 1.0) == (function.asked["Cores"].most, function.busy_cores.most)


def test_a_task_on_several_workers_has_used_what_was_measured_on_each() -> None:
    task = TaskSubmitted(time=0.0, task=1, function="f", request={"Memory": 8.0}, members=(2,))
    each = MemberUsage(user=10.0, peak_memory=2.0), MemberUsage(user=30.0, peak_memory=6.0)
    used = Usage(user=40.0, peak_memory=6.0, measured_by="polling", programs=2, members=each)
    fold = Fold()
    assert fold.feed(task) is None
    run = fold.feed(ended(1, "value", usage=used))
    assert run is not None
    assert (40.0, 8.0) == (run.cpu, run.memory)

    [function] = totals_of([task, ended(1, "value", usage=used)]).functions.values()
    assert (40.0, 6.0, 0.75) == (
        function.cpu_seconds, function.memory.most, function.memory_shares.most
    )  # fmt: skip
    assert 20.0 / run.seconds == function.busy_cores.most


def test_a_task_that_asks_for_all_cores_has_those_of_its_worker() -> None:
    assert 160.0 == totals_of([submitted(1), ended(1, "value", cores=16.0)]).core_seconds
