"""The tasks of a mission by function, as its scheduler shows them."""

from __future__ import annotations

import pytest

from grain.eventlog.usage import MemberUsage, Usage
from grain.head.base import Kinds
from grain.head.functions import function_rows
from grain.resource import Cores, GPUs, Memory, WTime

TWO = Cores(2) & Memory(2) & WTime(T=60)


def test_a_function_has_the_counts_of_all_its_tasks_and_what_they_use() -> None:
    kinds = Kinds()
    optimise = kinds.of("optimise", TWO)
    optimise.left, optimise.done, optimise.failed = 7, 5, 1
    for seconds in (1.0, 2.0, 30.0):
        optimise.ended(seconds)
    optimise.used(Usage(user=8.0, peak_memory=1.5, measured_by="cgroup", programs=1), 10.0)
    optimise.used(Usage(user=19.0, peak_memory=0.5, measured_by="polling", programs=1), 10.0)
    optimise.used(Usage(user=50.0), 10.0)  # of a run without programs nothing was measured
    [row], more = function_rows(kinds.now([(optimise, 3.0)], {optimise: 2}, 4.0), 20)

    assert ("optimise", 5, 1, 1, 3, 0) == (
        *(row.function, row.done, row.failed, row.running, row.waiting),
        more,
    )
    assert (2.0, 1.5, 2.0) == (row.seconds, row.memory, row.memory_asked)
    assert (2, 2, 1.9) == (row.measured, row.peaks, row.busiest)
    assert 1.35 == pytest.approx(row.busy)
    assert {"Cores": 2.0, "Memory": 2.0} == row.request
    assert 66.0 == row.core_seconds


def test_of_a_function_whose_tasks_ask_for_different_things_there_is_no_request() -> None:
    kinds = Kinds()
    kinds.of("a", Cores(1) & Memory(1))
    kinds.of("b", Cores(1))
    kinds.of("a", Cores(1) & Memory(8))
    kinds.of("b", Cores(4))
    rows, _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert [("a", {}, 8.0), ("b", {}, 0.0)] == [
        (row.function, row.request, row.memory_asked) for row in rows
    ]


def test_a_function_on_several_workers_has_the_cores_of_all_and_no_request() -> None:
    """So what its programs use is that of one worker in the mean, where all were measured."""
    kinds = Kinds()
    several, either = kinds.of("a", 4 * Cores(8)), kinds.of("b", 2 * Cores(8) | Cores(16))
    for kind in (several, either):
        kind.ended(10.0)
        kind.used(Usage(user=10.0, programs=1), 10.0)
        each = MemberUsage(user=5.0), MemberUsage(user=35.0)
        kind.used(Usage(user=40.0, programs=2, members=each), 10.0)
    rows, _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert [320.0, 160.0] == [row.core_seconds for row in rows]
    assert [{}, {}] == [row.request for row in rows]
    assert [2.0, 2.0] == [row.busiest for row in rows]


def test_nothing_is_known_of_a_function_that_has_not_run() -> None:
    kinds = Kinds()
    kinds.of("dock", Cores(1) & GPUs(1)).left = 6
    [row], _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert (6, None, None) == (row.waiting, row.seconds, row.memory)
    assert {"Cores": 1.0, "GPUs": 1.0} == row.request


def test_of_too_many_functions_those_with_the_most_tasks_are_listed_in_their_order() -> None:
    kinds = Kinds()
    for number, left in enumerate((5, 1, 9, 7)):
        kinds.of(f"f{number}", Cores(1)).left = left
    rows, more = function_rows(kinds.now([], {}, 0.0), 2)

    assert (["f2", "f3"], 2) == ([row.function for row in rows], more)


def test_only_the_last_runs_count_for_the_median_and_the_memory_stays_bounded() -> None:
    kinds = Kinds()
    kind = kinds.of("f", Cores(1))
    for _ in range(1000):
        kind.ended(1.0)
    for _ in range(101):
        kind.ended(3.0)
    [row], _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert (3.0, 101) == (row.seconds, len(kind.last))
