"""What a report adds up: amounts over time, bars, the critical path, the request that sufficed."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from grain.cli.report.charts import static_timeline
from grain.cli.report.collecting import Report, collect
from grain.cli.report.critical_path import CriticalPath
from grain.cli.report.figures import amount_ticks, hours, share, time_ticks
from grain.cli.report.sufficient import sufficient, two_digits_up
from grain.cli.report.timeline.bars import VAIN, VALUE, Bar, Lanes, Timeline, coarser
from grain.cli.report.timeline.series import Series, Staircase
from grain.cli.verdict.texts import shortened
from grain.eventlog.causes import RunFailure
from grain.eventlog.schema import (
    BriefTasks,
    ClockChanged,
    LogEnded,
    LogStarted,
    Remark,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
)
from grain.eventlog.usage import RunMember, Usage
from grain.facts.clocks import clocks_of
from grain.facts.fold import Fold
from grain.facts.totals import Totals
from grain_testkit.campaign import Campaign
from grain_testkit.event_logs import SyntheticMission

if TYPE_CHECKING:
    from grain.eventlog.schema import AnyLine

# ---- amounts over time

SPANS = st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 100))


@given(st.lists(SPANS, min_size=1, max_size=30))
def test_the_area_of_a_series_is_that_of_its_amounts(
    spans: list[tuple[float, float, float]],
) -> None:
    series = Series(16)
    for start, length, amount in spans:
        series.add(start, start + length, amount)

    area = sum(((start + length) - start) * amount for start, length, amount in spans)
    assert area == pytest.approx(series.area, rel=1e-6, abs=1e-6)


def test_a_series_has_the_mean_of_each_bin() -> None:
    series = Series(4)
    series.add(0.0, 2.0, 3.0)
    series.add(1.0, 4.0, 1.0)

    assert (1.0, [3.0, 4.0, 1.0, 1.0]) == (series.width, series.means(4.0))
    assert [3.0, 4.0, 2.0] == series.means(2.5)  # the last one is cut


def test_a_level_is_held_until_it_changes() -> None:
    level = Staircase(4)
    for time, number_ in [(0.0, 2), (1.0, 5), (1.0, 4), (3.0, 0), (4.0, 0)]:
        level.set(time, number_)

    assert ([2.0, 4.0, 4.0, 0.0], 5) == (level.series.means(4.0), level.most)


# ---- bars


def bar(start: float, end: float, task: int = 1, state: int = VALUE, function: int = 0) -> Bar:
    return Bar(start, end, function, state, task, 1, end - start)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=60))
def test_runs_in_one_lane_do_not_overlap_and_lanes_are_as_few_as_can_be(
    runs: list[tuple[float, float]],
) -> None:
    bars = sorted((bar(start, start + length) for start, length in runs), key=lambda one: one.end)
    lanes = Lanes()
    for one in bars:
        lanes.add(one)

    for row in lanes.rows():
        assert row
        assert all(one.end <= two.start for one, two in pairwise(row))
    at_once = (sum(one.start <= at.start < one.end for one in bars) for at in bars)
    # Runs without any length are nowhere, and still have a place.
    assert len(lanes.rows()) <= max(at_once, default=0) + 1


def test_a_run_is_in_the_lane_of_each_of_its_cpus() -> None:
    lanes = Lanes()
    lanes.add(bar(0, 10, task=1), (0, 1))
    lanes.add(bar(0, 12, task=2), (3,))
    lanes.add(bar(10, 20, task=3), (1, 3))  # CPU 3 had another run by then, or so it seems

    assert [[1, 3], [1, 3], [2]] == [[one.task for one in row] for row in lanes.rows()]


def test_a_run_that_overlaps_the_one_before_it_by_a_moment_stays_on_its_cpu() -> None:
    """Clocks are not exact. It begins when the other has ended."""
    lanes = Lanes()
    lanes.add(bar(0, 10, task=1), (0,))
    lanes.add(bar(9.96, 20, task=2), (0,))
    lanes.add(bar(19.9, 30, task=3), (0,))  # too much

    rows = lanes.rows()
    assert [[(1, 0, 10), (2, 10, 20)], [(3, 19.9, 30)]] == [
        [(one.task, one.start, one.end) for one in row] for row in rows
    ]


def test_a_run_whose_cpus_are_not_known_is_where_there_is_room() -> None:
    lanes = Lanes()
    lanes.add(bar(0, 10, task=1), (0,))
    lanes.add(bar(20, 30, task=2), (0,))
    lanes.add(bar(0, 30, task=3), (1,))
    lanes.add(bar(12, 18, task=4))
    lanes.add(bar(40, 50, task=5), lanes=2)
    lanes.add(bar(40, 50, task=6))

    tasks = [[one.task for one in row] for row in lanes.rows(4)]
    assert (4, [1, 4, 2]) == (len(tasks), tasks[0][:3])
    assert sorted([1, 4, 2, 3, 5, 5, 6]) == sorted(task for row in tasks for task in row)


def test_brief_runs_of_which_the_end_is_not_known_stand_side_by_side() -> None:
    """A worker of two CPUs has run eight, one after the other; the mission learned of all at 1."""
    lanes = Lanes()
    for task in range(8):
        lanes.add(bar(0.8, 1.0, task=task), slack=0.8)

    rows = lanes.rows(2)
    assert [4, 4] == [len(row) for row in rows]
    assert all(
        one.end <= two.start and two.end <= 1.05 for row in rows for one, two in pairwise(row)
    )


def test_what_no_worker_has_reported_is_shown_only_where_there_was_room() -> None:
    lanes = Lanes()
    lanes.add(bar(0, 50, task=1), (0, 1))
    lanes.add(bar(60, 80, task=2), lanes=2, vague=True)  # lost with its worker
    lanes.add(bar(5, 80, task=3), vague=True)  # the same, though there was no CPU for it

    rows = lanes.rows(2)
    assert [[1, 2], [1, 2]] == [[one.task for one in row] for row in rows]
    assert 1 == lanes.hidden


def test_a_run_in_many_lanes_is_one_bar() -> None:
    timeline = Timeline(100)
    for at in range(100):
        timeline.add("w", bar(at, at + 1, task=at), range(4) if at % 2 else range(2, 6))

    assert (100, False) == (timeline.count, timeline.joined)


def test_lanes_are_cpus_however_wrong_the_clocks_of_workers_are() -> None:
    lines = list(Campaign(63).lines())
    got = collect(lines, clocks=clocks_of(lines))

    rows = got.timeline.rows()
    assert {"n01": 4, "n02": 4, "n03": 4} == {name: len(lanes) for name, lanes in rows.items()}
    assert all(
        one.end <= two.start
        for lanes in rows.values()
        for row in lanes
        for one, two in pairwise(row)
    )


def test_neighbours_are_joined_where_there_are_too_many() -> None:
    row = [bar(at, at + 0.5, task=at, function=at % 2) for at in range(64)]
    row += [bar(100.0, 200.0, task=64), bar(200.0, 200.5, task=65, state=VAIN)]
    [joined], grain = coarser([row], 8)

    assert len(joined) <= 8
    assert 66 == sum(one.runs for one in joined)
    assert all(one.end - one.start <= grain for one in joined if one.runs > 1)
    assert (100.0, 200.0, 1) == (joined[-2].start, joined[-2].end, joined[-2].runs)
    assert VAIN == joined[-1].state


def test_a_bar_is_one_of_a_failure_if_any_of_its_runs_failed() -> None:
    states = [VALUE, VAIN, VALUE, VALUE]
    row = [bar(at, at + 0.5, state=state) for at, state in enumerate(states)]

    [[joined]], _ = coarser([row], 1)

    assert (4, VAIN) == (joined.runs, joined.state)


def test_a_timeline_has_at_most_so_many_bars() -> None:
    timeline = Timeline(100)
    for at in range(5000):
        timeline.add(f"w{at % 3}", bar(at, at + 2.5))

    assert timeline.count <= 100
    assert timeline.joined
    rows = [row for lanes in timeline.rows().values() for row in lanes]
    assert (timeline.count, 5000) == (
        sum(map(len, rows)), sum(one.runs for row in rows for one in row)
    )  # fmt: skip


# ---- the critical path


def test_the_critical_path_leads_back_by_what_was_awaited_last() -> None:
    path = CriticalPath()
    path.submitted(1, 0, 0.0, ())
    path.submitted(2, 0, 0.0, ())
    path.ended(1, 1.0, 5.0)
    path.ended(2, 1.0, 8.0)
    path.submitted(3, 1, 9.0, (1, 2, 77))
    path.submitted(4, 1, 9.0, (1,))
    path.ended(4, 9.0, 10.0)
    path.ended(3, 12.0, 20.0)
    path.ended(99, 1.0, 30.0)  # its submission was torn

    assert [(2, 0.0, 0.0, 1.0, 8.0), (3, 8.0, 9.0, 12.0, 20.0)] == [
        (one.task, one.after, one.submitted, one.started, one.ended) for one in path.steps()
    ]


def test_a_further_attempt_follows_the_one_before() -> None:
    path = CriticalPath()
    for task, retry_of in ((1, 0), (2, 1), (3, 1)):
        path.submitted(task, 0, 10.0 * task, (), retry_of)
        path.ended(task, 10.0 * task + 1, 10.0 * task + 5)

    assert [1, 2, 3] == [one.task for one in path.steps()]


def test_a_task_that_ended_after_a_submission_was_not_awaited_before_it() -> None:
    """A mission names what its branch has awaited; a number may be used twice."""
    path = CriticalPath()
    path.submitted(1, 0, 0.0, ())
    path.submitted(2, 0, 0.0, ())
    path.ended(1, 1.0, 5.0)
    path.ended(2, 1.0, 12.0)
    path.submitted(3, 1, 9.0, (1, 2))
    path.ended(3, 9.0, 20.0)

    assert [1, 3] == [one.task for one in path.steps()]


def test_at_most_all_of_a_wait_is_unsure() -> None:
    path = CriticalPath()
    path.submitted(1, 0, 2.0, ())
    path.ended(1, 5.0, 9.0, unsure=math.inf)

    assert [3.0] == [step.unsure for step in path.steps()]


def test_numbers_that_are_used_twice_make_no_endless_path() -> None:
    path = CriticalPath()
    for after in ((), (2,), (1,)):
        for task in (1, 2):
            path.submitted(task, 0, 10.0, after)
            path.ended(task, 1.0, 5.0)

    assert len(path.steps()) <= 2


def test_what_never_ran_ends_no_path() -> None:
    path = CriticalPath()
    for task in (1, 2):
        path.submitted(task, 0, 0.0, ())
    path.ended(1, 1.0, 5.0)
    path.ended(2, None, 100.0)

    assert [(1, 5.0)] == [(one.task, one.ended) for one in path.steps()]


def test_a_log_without_tasks_has_no_critical_path() -> None:
    assert [] == CriticalPath().steps()


# ---- the request that would have sufficed


def requests(*runs: tuple[dict[str, float], Usage | None]) -> Totals:
    totals, fold = Totals(), Fold()
    for task, (request, usage) in enumerate(runs, 1):
        submitted = TaskSubmitted(time=0.0, task=task, function="f", request=request)
        ended = RunEnded(
            time=100.0, task=task, outcome="value", started=0.0, ended=100.0, usage=usage
        )
        for line in submitted, ended:
            totals.feed(line, fold.feed(line))
    return totals


def used(cores: float, memory: float) -> Usage:
    return Usage(user=100 * cores, peak_memory=memory, measured_by="cgroup", programs=1)


def test_what_sufficed_is_the_most_that_was_used() -> None:
    asked = {"Cores": 8.0, "Memory": 16.0, "WTime": 7200.0, "GPUs": 1.0}
    totals = requests((asked, used(2.9, 3.31)), (asked, used(3.04, 1.0)))
    enough = sufficient(totals.functions["f"])

    assert 'Cores(3) & Memory(3.4) & WTime(T="00:02:00") & GPUs(1)' == enough.text
    assert [
        "asked for 8 cores, needed 3 at most",
        "asked for 16 GB of memory, needed 3.4 at most",
    ] == enough.less


def test_what_was_used_beyond_the_request_is_said() -> None:
    enough = sufficient(requests(({"Memory": 2.0}, used(1, 2.5))).functions["f"])

    assert ("Memory(2.5)", [], ["asked for 2 GB of memory, used up to 2.5"]) == enough


def test_runs_that_their_time_limit_ended_needed_more() -> None:
    """It is unknown how much; and a run that failed otherwise says nothing about its limit."""
    totals, fold = Totals(), Fold()
    for task, (seconds, error) in enumerate(
        ((0.5, ""), (2.0, "TooSlowError"), (2.0, "OSError")), 1
    ):
        at = 10.0 * task
        outcome: Any = "error" if error else "value"
        submitted = TaskSubmitted(time=at, task=task, function="f", request={"WTime": 2.0})
        line = RunEnded(
            time=at + seconds,
            task=task,
            outcome=outcome,
            failure=RunFailure(error),
            started=at,
            ended=at + seconds,
        )
        totals.feed(submitted, fold.feed(submitted))
        run = fold.feed(line)
        assert run is not None
        totals.feed(line, run)

        if task == 1:
            assert 'WTime(T="00:00:01")' == sufficient(totals.functions["f"]).text
    assert (
        'more than WTime(T="00:00:02")',
        [],
        ["a time limit of 2 s or less ended a run: more time is needed"],
    ) == sufficient(totals.functions["f"])


def test_what_is_not_measured_stays_as_it_was_asked_for() -> None:
    asked = {"Cores": 4.0, "Memory": 8.0}
    unmeasured = Usage(user=380.0, measured_by="none")

    assert "Cores(4) & Memory(8)" == sufficient(requests((asked, None)).functions["f"]).text
    assert "Cores(4) & Memory(8)" == sufficient(requests((asked, unmeasured)).functions["f"]).text
    in_python = requests((asked, Usage()))  # on as many cores as its library takes
    assert ("Cores(4) & Memory(8)", [], []) == sufficient(in_python.functions["f"])
    assert "" == sufficient(requests(({}, None)).functions["f"]).text


def test_a_few_measured_runs_do_not_say_that_less_sufficed_for_all() -> None:
    asked = {"Cores": 4.0, "Memory": 8.0}
    few = requests((asked, used(1, 0.5)), (asked, None), (asked, None)).functions["f"]
    assert "Cores(4) & Memory(8)" == sufficient(few).text
    assert [] == sufficient(few).less
    few_of_them = "cores and memory were measured in 1 of 3 runs only: "
    assert [f"{few_of_them}the others may need what they asked for"] == sufficient(few).more
    only = requests(({"Memory": 8.0}, used(1, 0.5)), ({"Memory": 8.0}, None)).functions["f"]
    [said] = sufficient(only).more
    assert said.startswith("memory was measured in 1 of 2 runs only: ")

    beyond = requests((asked, used(5, 9.5)), (asked, None)).functions["f"]
    assert "Memory(9.5)" in sufficient(beyond).text
    assert "asked for 8 GB of memory, used up to 9.5" in sufficient(beyond).more


def test_nothing_is_known_of_what_never_ran() -> None:
    totals, fold = Totals(), Fold()
    submitted = TaskSubmitted(time=0.0, task=1, function="f", request={"Cores": 4.0})
    for line in submitted, RunEnded(time=90.0, task=1, outcome="cancelled", attempt=0):
        totals.feed(line, fold.feed(line))

    function = totals.functions["f"]
    assert ("", [], []) == sufficient(function)
    assert (0, 1, 90.0) == (
        function.waited.count,
        function.never_ran.count,
        function.never_ran.most,
    )


@given(st.floats(1e-3, 1e6))
def test_rounding_up_is_never_below_and_at_most_a_tenth_above(amount: float) -> None:
    up = two_digits_up(amount)

    assert amount * (1 - 1e-6) <= up <= max(0.01, amount * 1.1 * (1 + 1e-6))


# ---- figures


def test_shares_and_core_hours_have_words_for_nothing_and_for_very_little() -> None:
    assert ["91 %", "< 1 %", "0.7 %", "\u2013"] == [
        share(*at) for at in ((91, 100), (0.001, 100), (0.7, 100), (1, 0))
    ]
    assert ["2", "< 0.01", "0"] == [hours(at) for at in (7200, 1, 0)]


@given(st.floats(1e-3, 1e9))
def test_axes_have_a_few_ticks(most: float) -> None:
    times, amounts = time_ticks(most), amount_ticks(most)

    assert 1 <= len(times.at) <= 12
    assert times.at[-1] <= most * (1 + 1e-9)
    assert 2 <= len(amounts.at) <= 6
    assert amounts.at[-2] < most <= amounts.at[-1] * (1 + 1e-9)
    assert len(set(amounts.labels)) == len(amounts.labels)


# ---- all of it

HEADER = LogStarted(time=1000.0, version=1, grain="1", id="i", name="n")


def report(*lines: AnyLine) -> Report:
    return collect([HEADER, *lines])


def test_a_report_has_the_utilisation_of_each_resource() -> None:
    got = report(
        WorkerJoined(time=1000.0, worker="w", resources={"Cores": 8.0, "Memory": 16.0}),
        TaskSubmitted(time=1000.0, task=1, function="f", request={"Cores": 4.0, "Memory": 2.0}),
        TaskStarted(time=1010.0, task=1, worker="w"),
        RunEnded(
            time=1050.0, task=1, outcome="value", worker="w", started=1010.0, ended=1050.0,
            usage=Usage(user=80.0, peak_memory=1.0, measured_by="polling"),
        ),
        WorkerLeft(time=1100.0, worker="w", why="killed"),
        LogEnded(time=1200.0, status="done"),
    )  # fmt: skip

    assert 200.0 == got.span
    assert [("Cores", 800.0, 160.0, 80.0), ("Memory", 1600.0, 80.0, 40.0)] == [
        (kind, *(one.area for one in usage)) for kind, usage in got.usage.items()
    ]
    [worker] = got.workers
    assert (1, 160.0, 800.0, 100.0, "killed") == (
        worker.runs, worker.core_seconds, worker.offered, worker.left, worker.why
    )  # fmt: skip
    queue = got.queue
    assert (1, 10.0, 1, 40.0) == (
        queue.most, queue.waiting["f"].series.area,
        queue.running["f"].most, queue.running["f"].series.area,
    )  # fmt: skip


def test_the_queue_is_counted_by_function() -> None:
    got = report(
        *(TaskSubmitted(time=1000.0, task=task, function="f") for task in (1, 2)),
        TaskSubmitted(time=1005.0, task=3, function="g"),
        TaskStarted(time=1010.0, task=1, worker="w"),
        RunEnded(
            time=1030.0, task=1, outcome="lost", worker="w", started=1010.0, final=False
        ),
        TaskStarted(time=1040.0, task=1, worker="w"),
        RunEnded(time=1050.0, task=1, outcome="value", worker="w", started=1040.0),
        RunEnded(time=1060.0, task=2, outcome="cancelled"),
        LogEnded(time=1100.0, status="done"),
    ).queue  # fmt: skip

    areas = {
        name: (got.waiting[name].series.area, got.running[name].series.area) for name in got.waiting
    }
    assert {"f": (10.0 + 10.0 + 60.0, 30.0), "g": (95.0, 0.0)} == areas
    assert (3, (1, 0)) == (got.most, got.now)


def test_the_queue_of_further_functions_is_one() -> None:
    names = [f"f{number_}" for number_ in range(50)]
    got = report(
        *(
            TaskSubmitted(time=1000.0, task=task, function=name)
            for task, name in enumerate(names, start=1)
        ),
        TaskStarted(time=1010.0, task=50, worker="w"),
        LogEnded(time=1020.0, status="done"),
    ).queue

    assert names[:40] == list(got.waiting) == list(got.running)
    assert (10 * 10.0 + 9 * 10.0, 10.0) == tuple(one.series.area for one in got.others)


def test_the_graph_counts_tasks_that_came_after_others_and_no_further_attempts() -> None:
    def submitted(task: int, function: str, *after: int, retry_of: int = 0) -> TaskSubmitted:
        return TaskSubmitted(
            time=1000.0 + task, task=task, function=function, after=after, retry_of=retry_of
        )

    got = report(
        submitted(1, "f"),
        submitted(2, "f"),
        submitted(3, "g", 1, 2),
        submitted(4, "g", 2),
        submitted(5, "g", 4),
        submitted(6, "g", 2, 3, retry_of=3),
        submitted(7, "h", 99),  # that of a brief task, which has no line
    )

    f, g, _ = range(3)
    assert ["f", "g", "h"] == got.functions
    assert {(f, g): 2, (g, g): 1} == got.edges


def test_what_still_runs_is_in_the_report_up_to_now() -> None:
    got = report(
        WorkerJoined(time=1000.0, worker="w", resources={"Cores": 8.0}),
        TaskSubmitted(time=1000.0, task=1, function="f", request={"Cores": 4.0}),
        TaskSubmitted(time=1000.0, task=2, function="f"),
        TaskStarted(time=1010.0, task=1, worker="w"),
        Remark(time=1100.0, text="a sentence"),
    )

    assert ((1, 1), None) == (got.queue.now, got.end)
    assert 4 * 90.0 == got.usage["Cores"].asked.area
    assert 800.0 == got.offered
    first, *others = got.timeline.rows()["w"]
    [only] = first
    assert [[only]] * 3 + [[]] * 4 == others  # it has four cores of eight
    assert (10.0, 100.0, 1) == (only.start, only.end, only.task)
    assert [(100.0, "a sentence")] == got.remarks


@pytest.mark.parametrize(("heard", "left"), [(1040.0, 40.0), (None, 100.0), (900.0, 20.0)])
def test_a_worker_that_was_lost_was_there_until_it_was_last_heard(
    heard: float | None, left: float
) -> None:
    """Its dead minute is none that it offered."""
    got = report(
        WorkerJoined(time=1020.0, worker="w", resources={"Cores": 2.0}),
        WorkerLeft(time=1100.0, worker="w", why="its connection was lost", heard=heard),
        LogEnded(time=1200.0, status="done"),
    )

    [worker] = got.workers
    assert (left, 2 * (left - 20)) == (worker.left, worker.offered)


def test_a_worker_that_comes_back_is_counted_once() -> None:
    joined = WorkerJoined(time=1000.0, worker="w", resources={"Cores": 2.0})
    got = report(
        joined,
        WorkerJoined(time=1010.0, worker="w", resources={"Cores": 2.0}),
        WorkerLeft(time=1020.0, worker="w", why="lost"),
        WorkerJoined(time=1030.0, worker="w", resources={"Cores": 2.0}),
        LogEnded(time=1040.0, status="done"),
    )

    assert (1, 2 * 30.0, None, "") == (
        len(got.workers), got.offered, got.workers[0].left, got.workers[0].why
    )  # fmt: skip


def test_a_clock_that_was_set_is_remarked_and_makes_no_gap() -> None:
    got = report(ClockChanged(time=4610.0, by=3600.0), LogEnded(time=4620.0, status="interrupted"))

    assert 20.0 == got.span
    [(when, text)] = got.remarks
    assert (10.0, True) == (when, "set forward by 3,600.0 s" in text)


def test_the_critical_path_of_a_mission_is_in_its_report() -> None:
    mission = SyntheticMission(300, seed=5, workers=3, failing=0.1)
    got = collect(mission.lines())

    assert len(mission.critical_path) > 3
    assert list(mission.critical_path) == [step.task for step in got.steps]
    assert all(one.ended == two.after <= two.submitted <= two.started <= two.ended
               for one, two in pairwise(got.steps))  # fmt: skip


def test_a_campaign_whose_gpu_tasks_never_ran_ends_with_the_last_run() -> None:
    got = collect(Campaign(63).lines())
    without = collect(Campaign(63, gpu_tasks=0).lines())

    assert {"no worker had GPUs": 6} == got.never_ran
    functions = [got.functions[step.function] for step in got.steps]
    assert ("rank", False) == (functions[-1], "dock" in functions)
    assert [step.task - 6 for step in got.steps] == [step.task for step in without.steps]


def test_what_waits_at_the_end_of_a_log_is_counted_with_what_it_lacked() -> None:
    lines: list[AnyLine] = [
        WorkerJoined(time=1000.0, worker="w", resources={"Cores": 8.0, "Memory": 4.0}),
        WorkerJoined(time=1000.0, worker="x", resources={"Cores": 2.0, "Memory": 64.0}),
    ]
    requests = [
        {"Cores": 16.0}, {"Cores": 16.0}, {"Cores": 8.0, "Memory": 8.0}, {"Cores": 1.0},
        {"GPUs": 1.0, "Seats": 1.0, "WTime": 60.0},
    ]  # fmt: skip
    for task, request in enumerate(requests, 1):
        lines.append(TaskSubmitted(time=1000.0, task=task, function="f", request=request))

    assert {
        "no worker had 16 cores": 2,
        "no worker had 8 cores and 8 GB of memory at once": 1,
        "still waiting at the end": 1,
        "no worker had GPUs or Seats": 1,
    } == report(*lines).left_waiting
    assert {"no worker was there": 1} == report(lines[-1]).left_waiting


def test_a_mission_that_shares_workers_does_not_know_those_that_took_none_of_its_tasks() -> None:
    shared = replace(HEADER, address="edge:///home/me/edge")
    gpu = TaskSubmitted(time=1000.0, task=1, function="f", request={"GPUs": 1.0})
    worker = WorkerJoined(time=1000.0, worker="w", resources={"Cores": 8.0})

    assert {"no worker took a task": 1} == collect([shared, gpu]).left_waiting
    assert {"no worker that took other tasks had GPUs": 1} == collect(
        [shared, worker, gpu]
    ).left_waiting


def test_brief_tasks_occupy_their_mean_and_count_as_done() -> None:
    brief = BriefTasks(
        time=12.0, function="f", tasks=100, began=10.0, seconds=1.0, request={"Cores": 2}
    )
    later = TaskSubmitted(time=12.0, task=101, function="f", after=(7,))
    got = collect([Remark(time=0.0, text=""), brief, later])

    assert 2.0 == pytest.approx(got.usage["Cores"].asked.area)
    assert 1.0 == pytest.approx(got.usage["Cores"].asked.means(12.0)[-1])
    one = got.totals.functions["f"]
    assert (101, 100) == (one.tasks, one.done)
    assert 0.01 == pytest.approx(one.seconds.quantile(0.5), rel=0.02)


def test_an_empty_log_is_an_empty_report() -> None:
    got = collect([])

    assert (0.0, None, [], [], 0) == (
        got.span, got.header, got.workers, got.steps, got.totals.tasks
    )  # fmt: skip


def test_in_the_printed_timeline_a_failure_does_not_colour_its_neighbours() -> None:
    timeline = Timeline(100_000)
    for task in range(20_000):  # in eight lanes; joined to 2,500 bars
        start, cpu = divmod(task, 8)
        state = VAIN if start % 16 == 0 else VALUE
        timeline.add("w", bar(start, start + 1, task, state), (cpu,))
    drawn = static_timeline(timeline, 2500.0, {0: 0})

    assert drawn is not None
    [failures] = [path for style, path in drawn.paths if style == "vain"]
    lengths = list(map(float, re.findall(r"h([\d.]+)", failures)))
    assert 8 * 157 == len(lengths)
    assert [1.25] == sorted(set(lengths))  # the thinnest bar that is drawn


def test_a_text_that_is_too_long_loses_its_middle() -> None:
    assert "optimise" == shortened("optimise", 8)
    assert "opt…ise" == shortened("optimised_otherwise", 8)
    assert "名前" == shortened("名前", 4)
    assert "関…前" == shortened("関数の名前", 6)  # each takes two columns
    assert "a…b" == shortened("a  and so on  b", 5)


def test_a_task_on_several_workers_counts_with_all_of_them() -> None:
    got = report(
        *(WorkerJoined(time=1000.0, worker=w, resources={"Cores": 4.0}) for w in "abc"),
        TaskSubmitted(
            time=1000.0, task=1, function="f", request={"Cores": 4.0}, members=(3,)
        ),
        TaskStarted(time=1000.0, task=1, worker="a", members=("a", "b", "c")),
        RunEnded(
            time=1010.0, task=1, outcome="value", worker="a", started=1000.0, ended=1010.0,
            usage=Usage(user=20.0, programs=1),
            members=tuple(RunMember(worker=w, cpus=(0, 1, 2, 3)) for w in "abc"),
        ),
        TaskSubmitted(
            time=1010.0, task=2, function="g", request={"Cores": 1.0}, request_text='Cores("all")'
        ),
        TaskStarted(time=1010.0, task=2, worker="b"),
        RunEnded(
            time=1020.0, task=2, outcome="value", worker="b", started=1010.0, ended=1020.0,
            cores=4.0,
        ),
        LogEnded(time=1020.0, status="done"),
    )  # fmt: skip

    cores = got.usage["Cores"]
    assert (240.0, 120.0 + 40.0, 60.0) == (cores.offered.area, cores.asked.area, cores.used.area)
    assert 160.0 == got.totals.core_seconds
    assert [40.0, 80.0, 40.0] == [worker.core_seconds for worker in got.workers]
    assert [1, 2, 1] == [worker.runs for worker in got.workers]
    bars = {
        name: {bar.task for row in rows for bar in row}
        for name, rows in got.timeline.rows().items()
    }
    assert {"a": {1}, "b": {1, 2}, "c": {1}} == bars
    # What would have sufficed is a request for as many workers.
    assert "3 * Cores(2)" == sufficient(got.totals.functions["f"]).text


def test_a_task_that_still_runs_on_several_workers_keeps_all_of_them() -> None:
    got = report(
        *(WorkerJoined(time=1000.0, worker=w, resources={"Cores": 4.0}) for w in "ab"),
        TaskSubmitted(time=1000.0, task=1, function="f", request={"Cores": 4.0}, members=(2,)),
        TaskStarted(time=1000.0, task=1, worker="a", members=("a", "b")),
        LogEnded(time=1010.0, status="failed"),
    )

    assert [40.0, 40.0] == [worker.cores.area for worker in got.workers]
    assert ["a", "b"] == [name for name, rows in got.timeline.rows().items() if any(rows)]
