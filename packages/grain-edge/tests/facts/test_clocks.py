"""The clocks of workers: one correction for all runs of a worker, while no run contradicts it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.eventlog.schema import (
    ClockChanged,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
)
from grain.eventlog.usage import Usage
from grain.facts.clocks import WorkerClocks, clocks_of
from grain.facts.fold import Fold
from grain_testkit.campaign import CLOCKS, Campaign

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.schema import AnyLine
    from grain.facts.rows import Run

USED = Usage(user=1.0, programs=1)


def runs(lines: Iterable[AnyLine], clocks: WorkerClocks | None = None) -> list[Run]:
    fold = Fold(clocks)
    return [run for line in lines if (run := fold.feed(line)) is not None]


def task(number: int, given: float, began: float, ended: float, learned: float) -> list[AnyLine]:
    """Return the lines of a run; began and ended are by its worker's clock."""
    end = RunEnded(
        time=learned, task=number, outcome="value", worker="w", started=began, ended=ended,
        usage=USED,
    )  # fmt: skip
    return [
        TaskSubmitted(time=given, task=number, function="f"),
        TaskStarted(time=given, task=number, worker="w"),
        end,
    ]


def test_all_runs_of_a_worker_are_moved_alike() -> None:
    """Each alone would be moved to when the writer learned of its end, one upon the other."""
    ahead = 5.0
    lines = task(1, 100.0, 100.01 + ahead, 110.0 + ahead, 110.01)
    for number in range(2, 6):  # one after the other, of which the writer learns at one time
        at = 110.0 + number
        lines += task(number, 110.0, at + ahead, at + 0.9 + ahead, 120.0)

    got = runs(lines, clocks_of(lines))

    assert [112.0, 113.0, 114.0, 115.0] == pytest.approx([run.started for run in got[1:]], abs=0.02)
    assert all(one.ended <= (two.started or 0) for one, two in pairwise(got))


def test_clocks_that_may_agree_are_taken_to_agree() -> None:
    clocks = WorkerClocks()
    clocks.learn("w", 10.0, -0.2, 3.0)

    assert 0.0 == clocks.correction("w", 10.0) == clocks.correction("unknown", 10.0)


def test_the_correction_is_the_middle_of_what_all_runs_allow() -> None:
    clocks = WorkerClocks()
    for least, largest in [(-9.0, -4.0), (-6.0, -1.0), (-30.0, -3.0)]:
        clocks.learn("w", 10.0, least, largest)

    assert -5.0 == clocks.correction("w", 0.0) == clocks.correction("w", 99.0)


def test_a_clock_that_was_set_has_another_correction_from_then_on() -> None:
    clocks = WorkerClocks()
    clocks.learn("w", 10.0, 2.0, 3.0)
    clocks.learn("w", 20.0, 2.5, 4.0)
    clocks.learn("w", 30.0, 7.0, 8.0)
    clocks.learn("w", 40.0, 9.0, 8.0)  # longer than its frame, so it says nothing

    assert [2.75, 2.75, 7.5, 7.5] == [clocks.correction("w", at) for at in (10.0, 29.0, 30.0, 50.0)]


def test_an_estimate_ends_where_the_writers_clock_was_set_or_the_worker_joins_again() -> None:
    lines: list[AnyLine] = [
        *task(1, 100.0, 104.0, 105.0, 102.0),  # between 3 and 4 ahead
        ClockChanged(time=203.0, by=100.0),
        *task(2, 204.0, 207.2, 208.2, 206.0),  # between 2.2 and 3.2 ahead
        WorkerJoined(time=207.0, worker="w"),
        *task(3, 208.0, 211.9, 212.9, 210.0),  # between 2.9 and 3.9 ahead
    ]

    got = runs(lines, clocks_of(lines))

    assert [100.5, 104.5, 108.5] == pytest.approx([run.started for run in got])


def test_random_clocks_do_not_take_ever_more_memory() -> None:
    clocks = WorkerClocks()
    for at in range(5000):
        clocks.learn("w", float(at), float(at), at + 0.5)

    assert 1000 == len(clocks._since["w"])
    assert 999.25 == clocks.correction("w", 4000.0)


def test_the_clocks_of_a_campaign_are_found_to_some_milliseconds() -> None:
    clocks = clocks_of(Campaign(63).lines())

    found = {worker: clocks.correction(worker, 1e12) for worker in ("n01", "n02", "n03")}
    assert {worker: -CLOCKS[worker] for worker in found} == pytest.approx(found, abs=0.01)


@given(
    ahead=st.floats(-1e6, 1e6),
    begins=st.lists(st.tuples(st.floats(0, 2), st.floats(0, 9), st.floats(0, 2)), min_size=1),
)
def test_a_correction_moves_no_run_out_of_its_frame(
    ahead: float, begins: list[tuple[float, float, float]]
) -> None:
    clocks, at = WorkerClocks(), 1e9
    frames = []
    for before, length, after in begins:
        began, ended = at + before + ahead, at + before + length + ahead
        learned = at + before + length + after
        frames.append((at, began, ended, learned))
        clocks.learn("w", learned, at - began, learned - ended)
        at = learned
    for given_at, began, ended, learned in frames:
        correction = clocks.correction("w", learned)
        assert given_at - 1e-5 <= began + correction
        assert ended + correction <= learned + 1e-5
