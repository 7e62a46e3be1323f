"""A trace for Perfetto: valid JSON, workers as processes, CPUs as threads."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.report.trace import trace
from grain.eventlog.causes import RunFailure
from grain.eventlog.schema import (
    ClockChanged,
    LogEnded,
    LogStarted,
    Remark,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
)
from grain.eventlog.usage import MemberUsage, RunMember, Usage
from grain.facts.clocks import clocks_of
from grain_testkit.campaign import Campaign
from grain_testkit.event_logs import SyntheticMission

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.schema import AnyLine

HEADER = LogStarted(time=1000.0, version=1, grain="1", id="i", name="n")


def events(lines: Iterable[AnyLine]) -> list[dict[str, Any]]:
    got: list[dict[str, Any]] = json.loads("".join(trace(lines)))["traceEvents"]
    return got


def names(got: list[dict[str, Any]], what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in got if e["name"] == what}


def test_workers_are_processes_and_cpus_are_threads() -> None:
    got = events([
        HEADER,
        WorkerJoined(time=1001.0, worker="w", host="n17"),
        TaskSubmitted(time=1002.0, task=7, function="f", request_text="Cores(2)"),
        TaskStarted(time=1003.0, task=7, worker="w"),
        RunEnded(time=1005.0, task=7, outcome="error", worker="w", host="n17", started=1003.5,
                 ended=1004.5, cpus=(2, 5), failure=RunFailure("ValueError", "no")),
        LogEnded(time=1006.0, status="done"),
    ])  # fmt: skip

    assert {(0, 0): "mission n", (1, 0): "w on n17"} == names(got, "process_name")
    assert {(1, 2): "CPU 2", (1, 5): "CPU 5"} == names(got, "thread_name")
    first, second = [event for event in got if event["ph"] == "X"]
    assert {"ph": "X", "name": "f", "cat": "error", "ts": 3_500_000, "dur": 1_000_000} == {
        key: first[key] for key in ("ph", "name", "cat", "ts", "dur")
    }
    assert [(1, 2), (1, 5)] == [(event["pid"], event["tid"]) for event in (first, second)]
    assert ("Cores(2)", "error", "ValueError", 1.5) == tuple(
        first["args"][key] for key in ("request", "outcome", "error", "waited, s")
    )


def test_a_task_on_several_workers_is_on_the_cpus_of_each_also_while_it_runs() -> None:
    got = events([
        HEADER,
        *(WorkerJoined(time=1001.0, worker=w, host=f"n{w}") for w in "ab"),
        *(TaskSubmitted(time=1002.0, task=k, function="f", members=(2,)) for k in (7, 8)),
        TaskStarted(time=1003.0, task=7, worker="a", members=("a", "b")),
        RunEnded(time=1005.0, task=7, outcome="error", worker="a", started=1003.5, ended=1004.5,
                 cpus=(2,), members=(RunMember(worker="a", cpus=(2,)),
                                     RunMember(worker="b", cpus=(5, 6))),
                 usage=Usage(user=3.0, programs=2, members=(
                     MemberUsage(user=1.0), MemberUsage(user=2.0, peak_memory=4.0,
                                                        measured_by="cgroup")))),
        TaskStarted(time=1006.0, task=8, worker="b", members=("b", "a")),
        LogEnded(time=1007.0, status="done"),
    ])  # fmt: skip

    slices = [event for event in got if event["ph"] == "X"]
    ended = [(e["pid"], e["tid"]) for e in slices if e["args"]["task"] == 7]
    assert [(1, 2), (2, 5), (2, 6)] == ended
    used = [e["args"].get("CPU time, s") for e in slices if e["args"]["task"] == 7]
    assert [1.0, 2.0, None] == used  # of each worker, on its first CPU
    assert {1, 2} == {e["pid"] for e in slices if e["args"]["task"] == 8}


def test_runs_without_cpus_have_rows_in_which_they_do_not_overlap() -> None:
    got = events(SyntheticMission(300, seed=1, workers=3, with_cpus=False).lines())

    threads = defaultdict(list)
    for event in got:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert {name.split()[0] for name in names(got, "thread_name").values()} == {"row"}
    assert 302 > len(threads) > 3
    for runs in threads.values():
        assert all(one[1] <= two[0] for one, two in pairwise(sorted(runs)))


def test_slices_nest_and_none_is_shortened_however_wrong_the_clocks_of_workers_are() -> None:
    lines = list(Campaign(63).lines())
    got: list[dict[str, Any]] = json.loads("".join(trace(lines, clocks_of(lines))))["traceEvents"]

    threads = defaultdict(list)
    for event in got:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    for slices in threads.values():
        slices.sort(key=lambda event: (event["ts"], event["dur"]))
        assert all(one["ts"] + one["dur"] <= two["ts"] for one, two in pairwise(slices))
    ends = [line for line in lines if isinstance(line, RunEnded) and line.usage]
    lengths = {end.task: (end.ended or 0) - (end.started or 0) for end in ends}
    runs = [event for event in got if event["ph"] == "X" and event["cat"] != "lost"]
    shown = {event["args"]["task"]: event["dur"] / 1e6 for event in runs}
    assert len(lengths) == len(shown) > 150
    assert lengths == pytest.approx(shown, abs=0.01)
    # Of those that were sent ahead to the lost worker none had begun, as its CPUs were taken.
    assert 4 == len({tid for pid, tid in threads if pid == 2 and tid < 1_000_000})
    assert 2 >= len({tid for pid, tid in threads if pid == 2 and tid >= 1_000_000})


def test_slices_of_one_cpu_do_not_overlap_though_the_log_says_so() -> None:
    """Clocks of workers are not exact."""

    def run(task: int, began: float, ended: float) -> list[AnyLine]:
        return [
            TaskSubmitted(time=1000.0, task=task, function="f"),
            TaskStarted(time=1000.0, task=task, worker="w"),
            RunEnded(time=1010.0, task=task, outcome="value", worker="w", started=began,
                     ended=ended, cpus=(0,)),
        ]  # fmt: skip

    got = events([HEADER, *run(1, 1001.0, 1005.0), *run(2, 1004.98, 1006.0)])

    first, second = [(event["ts"], event["dur"]) for event in got if event["ph"] == "X"]
    assert ((1_000_000, 4_000_000), (5_000_000, 1_000_000)) == (first, second)


def test_the_numbers_of_tasks_that_wait_and_run_are_counters() -> None:
    got = events(SyntheticMission(50, seed=1, workers=2).lines())

    counts = [event["args"] for event in got if event["ph"] == "C"]
    assert max(count["running"] for count in counts) > 4
    assert {"waiting": 0, "running": 0} == counts[-1]
    assert [event["ts"] for event in got if event["ph"] == "C"] == sorted(
        event["ts"] for event in got if event["ph"] == "C"
    )


def test_what_still_runs_reaches_to_the_end() -> None:
    got = events([
        HEADER,
        TaskSubmitted(time=1000.0, task=1, function="f"),
        TaskStarted(time=1001.0, task=1, worker="w"),
        Remark(time=1003.0, text="</script>\u202e"),
        ClockChanged(time=4603.0, by=3600.0),
    ])  # fmt: skip

    [run] = [event for event in got if event["ph"] == "X"]
    assert ("running", 1_000_000, 2_000_000) == (run["cat"], run["ts"], run["dur"])
    instants = [event["name"] for event in got if event["ph"] == "i"]
    assert ["</script>?", "the clock was set by 3,600.0 s"] == instants


def test_an_empty_log_is_an_empty_trace() -> None:
    assert [("C", 0)] == [(event["ph"], event["ts"]) for event in events([])]
