"""What groups ask for, what that may cost, and how they say it."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grain.facts.needs import FinishedRun
from grain.facts.rows import LAST_RUNS
from grain.head.needs.group import (
    CALM,
    PART,
    SELDOM,
    LearningGroup,
    Terms,
    _rounded,
    _scale_of,
)

TERMS = Terms(share=4, maximum=32)
GUARDED = 8  # "its first eight runs", as the module says


def seen(*peaks: float, seconds: float = 100, amount: float = 32) -> LearningGroup:
    group = LearningGroup("opt")
    for peak in peaks:
        group.on_finished(FinishedRun(peak, amount, seconds), TERMS.maximum)
    return group


def run(
    group: LearningGroup, peak: float, seconds: float, lost: float = 1.0, terms: Terms = TERMS
) -> list[float]:
    """Run a task with as many attempts as it needs; return the amounts."""
    asked = [group.amount(terms)]
    before = 0.0
    while asked[-1] < peak:
        group.on_exceeded(asked[-1], lost * seconds, after=before)
        before = asked[-1]
        amount = group.amount_after(terms, asked[-1], len(asked) + 1)
        assert amount is not None
        asked.append(amount)
    group.on_finished(FinishedRun(peak, asked[-1], seconds), terms.maximum, before)
    return asked


def test_nothing_known_it_asks_for_the_share_of_its_cores_then_doubles() -> None:
    group = LearningGroup("opt")
    assert group.amount(TERMS) == 4
    assert group.explain(TERMS) == (
        "opt asks for 4 GB, the share of its cores: no run of it has ended yet; then 8, then 16, "
        "then 32"
    )


def test_an_attempt_that_failed_counts_until_its_task_has_finished() -> None:
    group = LearningGroup("opt")
    group.on_exceeded(4, 50)
    assert group.amount(TERMS) == 16  # it needs 8 at least, and perhaps twice as much
    assert group.explain(TERMS) == (
        "opt asks for 16 GB: 1 task had too little, and none has finished yet; then 32"
    )
    group.on_exceeded(16, 50, after=4)
    assert group.rungs(TERMS) == (32,)
    group.on_finished(FinishedRun(17, 32, 100), 32, after=16)
    assert group.rungs(TERMS) == (20.4, 32) or group.rungs(TERMS) == (32,)
    assert "too little" not in group.explain(TERMS)


def test_attempts_of_tasks_that_never_come_back_are_pushed_out() -> None:
    group = LearningGroup("opt")
    for amount in range(1, 10 * LAST_RUNS):
        group.on_exceeded(float(amount), 50)
    assert len(group._failed) == LAST_RUNS


def test_it_says_what_it_asks_for_and_why() -> None:
    group = seen(*[1.0] * 30, *[2.0] * 25, *[5.5] * 3)
    assert group.explain(TERMS) == (
        "opt asks for 2.4 GB: 55 of 58 runs needed no more (median 1, largest 5.5); then 6.6, "
        "then 13.2, then 26.4, then 32"
    )


@given(
    st.lists(st.tuples(st.floats(0.01, 32), st.floats(1, 1e4), st.floats(0.01, 1)), max_size=120),
    st.sampled_from([math.inf, 64.0, 20.0, 4.0, 0.9]),
)
def test_learning_costs_no_more_than_the_maximum_its_first_runs_and_one_under_way(
    tasks: list[tuple[float, float, float]], worker: float
) -> None:
    terms = TERMS._replace(share=min(TERMS.share, worker), worker=worker)
    group = LearningGroup("opt")
    costs = []
    whole = 0.0  # of attempts with all that a worker has, of tasks that need more
    for peak, seconds, lost in tasks:
        before = group.spent
        asked = run(group, peak, seconds, lost, terms)
        assert max(asked) <= TERMS.maximum
        assert len(asked) <= 5
        if max(asked) > worker:
            assert peak > worker in asked
            whole += worker * lost * seconds
        costs.append(group.spent - before)
        allowed = group.fixed + sum(costs[:GUARDED]) + max(costs) + whole
        assert group.spent <= allowed * (1 + 1e-9)


def test_while_it_has_cost_more_than_the_maximum_it_asks_for_that() -> None:
    group = LearningGroup("opt")
    for _ in range(GUARDED):
        for before, amount in ((0, 8), (8, 16), (16, 31)):
            group.on_exceeded(amount, 100, after=before)
        group.on_finished(FinishedRun(31.5, 32, 100), 32, 31)
    assert group.guarded
    assert group.amount(TERMS) == 32
    assert group.amount_after(TERMS, 4, 2) == 32
    assert group.amount_after(TERMS, 32, 2) is None
    assert group.explain(TERMS) == (
        "opt asks for 32 GB, its maximum: with less, its runs and their failed attempts have taken "
        "more memory in all (2.72 times)"
    )


@pytest.mark.parametrize("obeys", [True, False])
def test_a_group_that_asks_for_its_maximum_has_a_whole_worker_before_it(obeys: bool) -> None:
    group = LearningGroup("opt", finished=GUARDED, spent=2.0, fixed=1.0, obeys=obeys)
    assert group.guarded
    terms = TERMS._replace(worker=8)
    assert 8 == group.amount(terms)
    assert [8, 32, 32, None] == [group.amount_after(terms, had, 2) for had in (4, 8, 16, 32)]
    assert group.explain(terms).startswith("opt asks for 8 GB, all that a worker has: ")


def test_runs_too_short_to_be_timed_are_explained_all_the_same() -> None:
    group = seen(*[1.0] * GUARDED, seconds=0)
    group.on_exceeded(4, 10)
    assert group.explain(TERMS).endswith("have taken more memory in all")


def test_programs_that_use_what_they_are_given_teach_nothing() -> None:
    group = LearningGroup("orca")
    for amount in (4, 4, 6, 8):
        group.on_finished(FinishedRun(0.75 * amount, amount, 60), 32)
    assert group.obeys
    assert group.amount(TERMS) == 32
    assert "use the same part of whatever they are given" in group.explain(TERMS)


def test_amounts_that_follow_from_sizes_are_no_obedience() -> None:
    group = LearningGroup("opt")
    for size in (4, 4, 6, 8):
        group.on_finished(FinishedRun(0.75 * size, size, 60, size), 32)
    assert not group.obeys


def test_an_amount_has_three_digits_rounded_up_and_is_at_least_that_of_the_smallest_program() -> (
    None
):
    group = LearningGroup("opt")
    asked = [group.amount(Terms(share, 32)) for share in (10.61, 10.6, 0.12345, 1e-5, 0.0)]
    assert asked == [10.7, 10.6, 0.124, 0.01, 0.01]


@given(st.floats(0.02, 5000))
@example(math.nextafter(0.1, 0))
@example(math.nextafter(1, 0))
@example(math.nextafter(10, 0))
def test_usual_amounts_are_rounded_as_all_others(amount: float) -> None:
    scale = _scale_of(amount)
    assert math.ceil(amount * scale - 5e-7) / scale == _rounded(amount)


def test_rungs_that_follow_from_peaks_are_not_taken_for_obedience() -> None:
    group = LearningGroup("opt")
    for task in range(100):
        run(group, 1.5 if task % 3 else 12, 60)
    assert not group.obeys
    assert group.rungs(TERMS)[:2] == pytest.approx((1.8, 14.4))


def test_beyond_64_runs_it_learns_once_in_eight() -> None:
    group = seen(*[1.0] * LAST_RUNS)
    changed = [group.on_finished(FinishedRun(3.0, 4, 100), 32) for k in range(2 * SELDOM)]
    assert [k + 1 for k, now in enumerate(changed) if now] == [SELDOM, 2 * SELDOM]


def test_with_many_runs_it_learns_once_in_a_part_of_them_and_at_once_where_the_guard_changes() -> (
    None
):
    runs = seen(*[1.0] * LAST_RUNS).runs
    group = LearningGroup("opt", runs, finished=50 * PART, spent=1.0, fixed=1e9)
    changed = [group.on_finished(FinishedRun(3.0, 4, 100), 32) for k in range(51)]
    assert [50] == [k + 1 for k, now in enumerate(changed) if now]
    group.spent = group.fixed - 1
    assert not group.guarded
    assert group.on_finished(FinishedRun(3.0, 40, 100), 32)
    assert group.guarded


def test_while_amounts_stay_it_finds_them_less_often() -> None:
    group = seen(*[1.0] * LAST_RUNS)
    found = []
    for end in range(1, 40 * SELDOM + 1):
        if group.on_finished(FinishedRun(1.0, 1.2, 100), 32):
            found.append(end)
            assert group.amount(TERMS) == 1.2
    gaps = [(new - old) // SELDOM for old, new in pairwise(found)]
    assert [1, 1, 2, 4, CALM, CALM] == gaps[:6]


@pytest.mark.parametrize("peak", [0.5, 1.5])
def test_needs_that_change_are_found_at_once_however_long_they_have_stayed(peak: float) -> None:
    group = seen(*[1.0] * LAST_RUNS)
    for _ in range(40 * SELDOM):
        group.on_finished(FinishedRun(1.0, 1.2, 100), 32)
        group.amount(TERMS)
    assert group._calm == CALM
    found = [group.on_finished(FinishedRun(peak, 4, 100), 32) for _ in range(LAST_RUNS + SELDOM)]
    # The largest need becomes smaller only when the last run with the old one leaves the window.
    assert found.index(True) < (SELDOM if peak > 1 else LAST_RUNS + SELDOM)


def test_an_attempt_with_too_little_lets_amounts_be_found_at_the_next_look() -> None:
    group = seen(*[1.0] * LAST_RUNS)
    while group._waits < CALM - 1:
        group.on_finished(FinishedRun(1.0, 1.2, 100), 32)
        group.amount(TERMS)
    group.on_exceeded(1.2, 100)
    found = [group.on_finished(FinishedRun(1.0, 1.2, 100), 32) for _ in range(SELDOM)]
    assert any(found)


def test_it_forgets_what_is_long_ago() -> None:
    group = seen(*[20.0] * 10, *[1.0] * (LAST_RUNS + SELDOM))
    assert group.amount(TERMS) == pytest.approx(1.2)


def test_needs_grow_with_size() -> None:
    group = LearningGroup("opt")
    for size in (10, 20, 40, 80, 15, 30):
        group.on_finished(FinishedRun((size / 20) ** 2, 32, 60, size), 32)
    assert group.power == pytest.approx(2)
    assert group.amount(TERMS._replace(size=60)) == pytest.approx(1.2 * 9)
    assert group.explain(TERMS._replace(size=60)).startswith(
        "opt asks for 10.8 GB at size 60: 6 of"
    )
    # Without a size, they count as they are.
    assert group.amount(TERMS) < 1.2 * 16


def test_a_need_beyond_all_numbers_is_the_maximum() -> None:
    group = LearningGroup("opt")
    for size in (10, 20, 40, 80):
        group.on_finished(FinishedRun((size / 20) ** 2, 32, 60, size), 32)
    group.on_exceeded(1e250, 60, size=1e-200)
    assert group.amount(TERMS._replace(size=1e200)) == 32


def test_the_power_by_which_needs_grow_follows_the_last_runs() -> None:
    group = LearningGroup("opt")
    for power in (2, 1):
        for size in (10, 20, 40, 80) * 8:
            group.on_finished(FinishedRun((size / 20) ** power, 32, 60, size), 32)
        assert group.power == pytest.approx(power)


def test_sizes_that_explain_nothing_play_no_part() -> None:
    group = LearningGroup("opt")
    for size, peak in ((10, 3.0), (20, 1.0), (40, 3.1), (80, 1.1), (15, 1.0)):
        group.on_finished(FinishedRun(peak, 32, 60, size), 32)
    assert group.power == 0
    assert group.amount(TERMS._replace(size=1000)) == group.amount(TERMS)


class PlainGroup(LearningGroup):
    """The same rules without what makes them cheap: each end looks at everything."""

    _since = 0

    def on_finished(self, run: FinishedRun, maximum: float, after: float = 0.0) -> bool:
        if after:
            self._forget(after)
            run = FinishedRun(run.peak, run.amount, run.seconds, run.size, first=False)
        guarded = self.guarded
        self.runs.append(run)
        self._peaks.append(run.peak)
        self.finished += 1
        self.spent += run.amount * run.seconds
        self.fixed += maximum * run.seconds
        changed = self._is_anew(max(SELDOM, self.finished // PART)) or guarded != self.guarded
        if changed:
            self.obeys = self.obeys or self._use_what_they_get()
        return changed

    def on_exceeded(
        self, amount: float, seconds: float, size: float = 0.0, after: float = 0.0
    ) -> bool:
        if after:
            self._forget(after)
        guarded = self.guarded
        self._failed.append(FinishedRun(2 * amount, amount, seconds, size))
        self.exceeded += 1
        self.spent += amount * seconds
        self._waits = 0
        return self._is_anew(SELDOM) or guarded != self.guarded

    def _is_anew(self, ends: int) -> bool:
        self._since += 1
        if self.finished > LAST_RUNS and self._since < ends:
            return False
        self._since = 0
        if self._may_wait():
            return False
        self._outdate()
        return True

    def _alike(self, terms: Terms, before: float) -> tuple[float, ...]:  # noqa: ARG002
        return ()

    def _use_what_they_get(self) -> bool:
        runs = [run for run in self.runs if run.amount and run.peak and run.first and not run.size]
        parts = sorted(run.peak / run.amount for run in runs)
        amounts = sorted(run.amount for run in runs)
        alike = len(runs) >= 4 and parts[-1] <= 1.1 * parts[0]
        return alike and amounts[-1] >= 1.5 * amounts[0]


ENDS = st.tuples(
    st.booleans(),  # True if it had enough
    st.sampled_from([0.5, 1.0, 1.01, 3.0, 20.0, 40.0]),  # its peak, or what was too little
    st.sampled_from([1.0, 4.0, 31.0, 32.0, 33.0]),  # what it had
    st.sampled_from([1.0, 60.0, 1e4]),
    st.sampled_from([0.0, 0.0, 10.0, 20.0, 40.0, 80.0]),
    st.sampled_from([0.0, 0.0, 0.0, 4.0]),
)


@given(
    st.integers(0, 700), st.sampled_from([4.0, 32.0, 33.0]), st.booleans(),
    st.lists(ENDS, max_size=60),
)  # fmt: skip
@example(1, 4.0, False, [(False, 0.5, 1.0, 1.0, 0.0, 0.0)])
def test_what_is_cheap_asks_for_the_same_as_what_looks_at_everything_at_each_end(
    before: int,
    amount: float,
    sized: bool,
    ends: list[tuple[bool, float, float, float, float, float]],
) -> None:
    cheap, plain = LearningGroup("opt"), PlainGroup("opt")
    first = [(1.0 + k % 4, 10.0 * (1 + k % 4) if sized else 0.0) for k in range(before)]
    ends = [(True, peak, amount, 10.0 + peak, size, 0.0) for peak, size in first] + ends
    for number, (enough, peak, amount, seconds, size, after) in enumerate(ends):
        if enough:
            run = FinishedRun(peak, amount, seconds, size)
            changed = [one.on_finished(run, TERMS.maximum, after) for one in (cheap, plain)]
        else:
            changed = [one.on_exceeded(amount, seconds, size, after) for one in (cheap, plain)]
        assert changed[0] == changed[1]
        if number < before - 1:
            continue
        for terms in (TERMS, TERMS._replace(size=30.0, worker=64.0)):
            assert plain.amount(terms) == cheap.amount(terms)
            assert plain.amount_after(terms, 2.0, 2) == cheap.amount_after(terms, 2.0, 2)
        assert (plain.guarded, plain.obeys) == (cheap.guarded, cheap.obeys)
        assert (plain.spent, plain.fixed) == (cheap.spent, cheap.fixed)
