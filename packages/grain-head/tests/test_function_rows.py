"""The tasks of a mission by function, as its scheduler shows them."""

from __future__ import annotations

import msgspec
import pytest

from grain.eventlog.usage import MemberUsage, Usage
from grain.head.base import Kinds
from grain.head.functions import function_rows
from grain.head.messages import Outlook
from grain.head.validation import check_message
from grain.resource import Cores, GPUs, Memory, WTime

TWO = Cores(2) & Memory(2) & WTime(T=60)


def test_a_function_has_the_counts_of_all_its_tasks_and_what_they_use() -> None:
    kinds = Kinds()
    optimise = kinds.of("optimise", TWO)
    optimise.left, optimise.done, optimise.failed = 7, 5, 1
    for seconds in (1.0, 2.0, 30.0):
        optimise.ended(seconds)
    optimise.used(Usage(user=8.0, peak_memory=1.5, measured_by="cgroup", programs=1), 10.0, TWO)
    optimise.used(Usage(user=19.0, peak_memory=0.5, measured_by="polling", programs=1), 10.0, TWO)
    optimise.used(Usage(user=5.0), 10.0, TWO)  # of a run without programs little is measured
    [row], more = function_rows(kinds.now([(optimise, 3.0)], {optimise: 2}, 4.0), 20)

    assert ("optimise", 5, 1, 1, 3, 0) == (
        *(row.name, row.done, row.failed, row.running, row.waiting),
        more,
    )
    assert (3, 33.0, 30.0) == (row.seconds.count, row.seconds.total, row.seconds.most)
    assert 2.0 == pytest.approx(row.seconds.quantile(0.5), rel=0.01)
    assert (1.5, 2, 2.0) == (row.peak_memory, row.memory.count, row.most_memory)
    assert 0.75 == row.memory_shares.most
    assert (2, 1.9) == (row.busy_cores.count, row.busy_cores.most)
    assert 0.8 == pytest.approx(row.busy_cores.quantile(0.5), rel=0.01)
    assert {"Cores": 2.0, "Memory": 2.0} == row.request
    assert (66.0, 32.0) == (row.core_seconds, row.cpu_seconds)


def test_of_a_function_whose_tasks_ask_for_different_things_there_is_no_request() -> None:
    kinds = Kinds()
    kinds.of("a", Cores(1) & Memory(1))
    kinds.of("b", Cores(1))
    kinds.of("a", Cores(1) & Memory(8))
    kinds.of("b", Cores(4))
    rows, _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert [("a", {}, 8.0), ("b", {}, None)] == [
        (row.name, row.request, row.most_memory) for row in rows
    ]


def test_a_function_on_several_workers_has_the_cores_of_all_and_no_request() -> None:
    """So what its programs use is that of one worker in the mean, where all were measured."""
    kinds = Kinds()
    for name, request in (("a", 4 * Cores(8)), ("b", 2 * Cores(8) | Cores(16))):
        kind = kinds.of(name, request)
        kind.ended(10.0)
        first = request.alternatives()[0]
        kind.used(Usage(user=10.0, programs=1), 10.0, first)
        each = MemberUsage(user=5.0), MemberUsage(user=35.0)
        kind.used(Usage(user=40.0, programs=2, members=each), 10.0, first)
    rows, _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert [(320.0, 120.0), (160.0, 60.0)] == [(row.core_seconds, row.cpu_seconds) for row in rows]
    assert [{}, {}] == [row.request for row in rows]
    assert [2.0, 2.0] == [row.busy_cores.most for row in rows]


def test_nothing_is_known_of_a_function_that_has_not_run() -> None:
    kinds = Kinds()
    kinds.of("dock", Cores(1) & GPUs(1)).left = 6
    [row], _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert (6, 0, None) == (row.waiting, row.seconds.count, row.peak_memory)
    assert {"Cores": 1.0, "GPUs": 1.0} == row.request


def test_of_too_many_functions_those_with_the_most_tasks_are_listed_in_their_order() -> None:
    kinds = Kinds()
    for number, left in enumerate((5, 1, 9, 7)):
        kinds.of(f"f{number}", Cores(1)).left = left
    rows, more = function_rows(kinds.now([], {}, 0.0), 2)

    assert (["f2", "f3"], 2) == ([row.name for row in rows], more)


def test_only_the_last_runs_count_for_the_median_and_the_memory_stays_bounded() -> None:
    kinds = Kinds()
    kind = kinds.of("f", Cores(1))
    for _ in range(1000):
        kind.ended(1.0)
    for _ in range(101):
        kind.ended(3.0)
    [row], _ = function_rows(kinds.now([], {}, 0.0), 20)

    assert 3.0 == pytest.approx(row.seconds.quantile(0.5), rel=0.01)
    assert (1101, 101) == (row.seconds.count, len(kind.last))


def test_a_row_stays_small_however_different_the_runs_of_a_function_are() -> None:
    """It travels every five seconds; and of any field only so many sums are let in."""
    kinds = Kinds()
    kind = kinds.of("f", TWO)
    for number in range(1, 1000):
        usage = Usage(user=number, peak_memory=number, measured_by="cgroup", programs=1)
        kind.used(usage, 10.0, TWO)
        kind.ended(number)
    rows, _ = function_rows(kinds.now([], {}, 0.0), 20)

    check_message(Outlook(1, functions=rows))
    assert len(msgspec.msgpack.encode(rows)) < 1000
