"""The ladder costs least, and its laws hold for any runs."""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.head.needs.ladder import MOST_NEEDS, NEAR, alike_ladder, in_effect, ladder, next_amount
from grain.resource import LAST_ATTEMPT, Memory, Supply


class RunNeed(NamedTuple):
    """The need of one run: an amount in GB, for some seconds."""

    amount: float
    seconds: float


AMOUNTS = st.floats(0.01, 500)
NEEDS = st.lists(st.builds(RunNeed, AMOUNTS, st.floats(0.1, 1e5)), min_size=1, max_size=80)


def cost(
    rungs: tuple[float, ...], needs: list[RunNeed], share: float, worker: float = math.inf
) -> float:
    """Return what the runs take if each climbs these rungs until it has enough."""
    total = 0.0
    for need in needs:
        for rung in rungs:
            total += (in_effect(rung, worker) + share) * need.seconds
            if need.amount <= rung:
                break
    return total


@given(
    st.lists(st.builds(RunNeed, AMOUNTS, st.floats(0.1, 1e3)), min_size=1, max_size=6),
    AMOUNTS,
    st.sampled_from([math.inf, 500.0, 64.0]),
)
def test_no_other_sequence_of_needs_costs_less(
    needs: list[RunNeed], share: float, worker: float
) -> None:
    amounts = sorted({need.amount for need in needs})
    others = (
        (*chosen, amounts[-1])
        for count in range(len(amounts))
        for chosen in combinations(amounts[:-1], count)
    )
    least = min(cost(one, needs, share, worker) for one in others)
    found = ladder(needs, share, 1e9, worker)
    assert cost(found, needs, share, worker) == pytest.approx(least)


@given(
    st.lists(
        st.builds(RunNeed, st.floats(1, 1.3) | st.sampled_from([1.0, 2.0, 40.0]), st.just(60.0)),
        min_size=1,
        max_size=64,
    ),
    st.sampled_from([0.0, 0.5, 4.0, 64.0]),
    st.sampled_from([1.1, 1.5, 4.0, 1e9]),
    st.sampled_from([math.inf, 64.0, 4.0, 1.2]),
    st.just(0.0) | st.floats(0.9, 1.5) | st.sampled_from([2.0, 2.1, 2.6, 80.0]),
)
def test_needs_of_which_as_many_fit_on_a_worker_have_the_ladder_of_any_needs(
    needs: list[RunNeed], share: float, maximum: float, worker: float, before: float
) -> None:
    least, *_, most = sorted(need.amount for need in [needs[0], *needs])
    before = min(before, maximum)  # as it is a rung
    found = alike_ladder(least, most, len(needs), share, maximum, worker, before)
    fits = {in_effect(min(amount, maximum), worker) for amount in (least, most)}
    between = min(least, maximum) <= before < min(most, maximum)
    assert bool(found) == (len(fits) == 1 and not between)
    if found:
        needs = [RunNeed(min(amount, maximum), s) for amount, s in [*needs, (2 * most, 60.0)]]
        rungs = ladder(needs, share, maximum, worker, before)
        costs = [cost(one, needs, share, worker) for one in (found, rungs)]
        assert found == rungs or costs[0] == pytest.approx(costs[1])


@given(NEEDS, st.floats(0, 100), AMOUNTS, st.sampled_from([math.inf, 500.0, 8.0]), AMOUNTS)
def test_the_first_rung_so_far_stays_only_if_it_costs_no_more_and_is_not_much_larger(
    needs: list[RunNeed], share: float, maximum: float, worker: float, before: float
) -> None:
    maximum = min(maximum, worker)
    before = min(before, maximum)
    best = ladder(needs, share, maximum, worker)
    found = ladder(needs, share, maximum, worker, before)
    assert list(found) == sorted(set(found))
    if found[0] == best[0]:
        assert found == best
    else:
        assert found[0] == before <= NEAR * best[0]
        assert found[-1] >= best[-1] or found[-1] == before
        cut = [RunNeed(min(amount, maximum), seconds) for amount, seconds in needs]
        costs = [cost(one, cut, share, worker) for one in (found, best)]
        assert costs[0] <= costs[1] * (1 + 1e-6)


@pytest.mark.parametrize(
    ("before", "rungs"),
    [
        (2.5, (2.5, 4.6)),  # three fit on a worker, as with 2.3
        (2.54, (2.3, 4.6)),  # more than a tenth above 2.3
        (2.67, (2.3, 4.6)),  # two fit
        (2.2, (2.3, 4.6)),  # too little for one of them
        (4.6, (2.3, 4.6)),
        (0.0, (2.3, 4.6)),
    ],
)
def test_a_first_rung_of_which_as_many_fit_on_a_worker_stays_if_it_is_near(
    before: float, rungs: tuple[float, ...]
) -> None:
    needs = [RunNeed(2.1, 60.0)] * 63 + [RunNeed(2.3, 60.0), RunNeed(4.6, 60.0)]
    assert rungs == ladder(needs, 4, 8, 8, before)
    assert rungs == (alike_ladder(2.1, 2.3, 64, 4, 8, 8, before) or (2.3, 4.6))


def test_of_a_rung_that_is_a_part_of_a_worker_so_many_fit() -> None:
    needs = [RunNeed(0.05 * k + 1, 60.0) for k in range(40)]
    first = ladder(needs, 4, 100, 8)[0]
    assert first == pytest.approx(8 / 3)
    worker = Supply(Memory(8))
    for _ in range(3):
        worker.alloc(Memory(100, group="opt").given(first))


@pytest.mark.parametrize(
    ("share", "maximum", "worker", "rungs"),
    [
        (4, 100, 64, (16.0, 100)),  # a quarter of a worker
        (0.5, 60, 24, (5.9, 60)),
        (0, 200, 128, (4.6, 64.0, 153.1)),
        (0.5, 100, math.inf, (13.1, 100)),
    ],
)
def test_many_needs_have_these_rungs(
    share: float, maximum: float, worker: float, rungs: tuple[float, ...]
) -> None:
    needs = [RunNeed(0.1 * k * k + 1, 60.0 + k) for k in range(40)]
    assert rungs == pytest.approx(ladder(needs, share, maximum, worker))


@given(NEEDS, st.floats(0, 100), AMOUNTS)
def test_rungs_ascend_to_the_largest_need_and_never_above_the_maximum(
    needs: list[RunNeed], share: float, maximum: float
) -> None:
    rungs = ladder(needs, share, maximum)
    assert list(rungs) == sorted(set(rungs))
    assert rungs[-1] == min(max(need.amount for need in needs), maximum)
    assert len(rungs) <= MOST_NEEDS


def test_of_very_many_needs_the_largest_has_a_rung() -> None:
    rungs = ladder([RunNeed(float(k), 60) for k in range(1, 41)], share=0, maximum=100)
    assert 40.0 == rungs[-1]
    assert 1 < len(rungs) <= MOST_NEEDS


def test_costs_beyond_all_numbers_have_rungs_too() -> None:
    assert (1e301, 1e302) == ladder([(1e301, 1e9), (1e302, 1e9)], 1.0, 1e302)


def test_with_nothing_known_there_is_no_rung() -> None:
    assert ladder([], 4, 32) == ()


def test_a_few_large_needs_have_a_rung_of_their_own_and_a_dear_share_takes_it_away() -> None:
    needs = [RunNeed(1.0, 60)] * 20 + [RunNeed(10.0, 60)] * 2
    assert ladder(needs, share=1, maximum=32) == (1.0, 10.0)
    assert ladder(needs, share=1000, maximum=32) == (10.0,)


@given(NEEDS, AMOUNTS, AMOUNTS, AMOUNTS, st.just(math.inf) | AMOUNTS)
def test_five_attempts_at_most_each_with_more_than_the_last_up_to_the_maximum(
    needs: list[RunNeed], share: float, first: float, maximum: float, worker: float
) -> None:
    amount: float | None = min(first, maximum, worker)
    rungs = ladder(needs, share, maximum, worker)
    asked = []
    while amount is not None:
        asked.append(amount)
        amount = next_amount(rungs, amount, len(asked) + 1, maximum, worker)
    assert len(asked) <= LAST_ATTEMPT
    assert asked == sorted(set(asked))
    assert asked[-1] == maximum
    if worker < maximum:
        assert worker in asked


@pytest.mark.parametrize(
    ("failed", "attempt", "amount"),
    [
        (1.0, 2, 1.25),  # exactly a quarter more
        (1.01, 2, 4.0),  # 1.25 is not a quarter more
        (4.0, 2, 8.0),  # no rung above: doubled
        (20.0, 2, 32),
        (1.0, 5, 32),
        (32, 2, None),
    ],
)
def test_after_a_failure_the_first_rung_a_quarter_above_it_else_double(
    failed: float, attempt: int, amount: float | None
) -> None:
    assert next_amount((1.0, 1.25, 4.0), failed, attempt, maximum=32) == amount


@pytest.mark.parametrize(
    ("failed", "attempt", "amount"),
    [
        (0.45, 2, 0.9),  # and not 1.8, which is the next rung
        (0.1, 2, 0.2),  # no rung below it: doubled
        (0.9, 3, 1.8),
        (0.2, 4, 0.9),  # so that the fifth may have the maximum
        (0.2, 5, 0.9),
        (0.9, 5, 32),
    ],
)
def test_a_whole_worker_comes_before_anything_above_it(
    failed: float, attempt: int, amount: float
) -> None:
    rungs = (0.2, 1.8) if failed == 0.1 else (1.8,)
    assert amount == next_amount(rungs, failed, attempt, maximum=32, worker=0.9)
