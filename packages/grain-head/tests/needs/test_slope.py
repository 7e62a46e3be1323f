"""The power by which memory grows with the size of a problem."""

from __future__ import annotations

import pytest

from grain.head.needs.slope import Sized, power


def grown(b: float, *sizes: float) -> list[Sized]:
    return [Sized(size**b, size) for size in sizes]


@pytest.mark.parametrize(("b", "found"), [(-1.0, 0.0), (0.0, 0.0), (1.5, 1.5), (6.0, 4.0)])
def test_it_is_from_0_to_4(b: float, found: float) -> None:
    assert found == pytest.approx(power(grown(b, 1, 2, 4, 8, 16)))


def test_it_needs_four_sizes_that_differ_by_a_tenth() -> None:
    assert 0.0 == power(grown(2.0, 1, 2, 4, 1, 2, 4))
    assert 0.0 == power(grown(2.0, 1, 1.01, 1.02, 1.03))
    assert 2.0 == pytest.approx(power(grown(2.0, 1, 2, 4, 8)))


def test_the_last_32_runs_count_and_runs_without_a_peak_do_not() -> None:
    before, now = grown(3.0, 1, 2, 4, 8), grown(1.0, *[1, 2, 4, 8] * 8)
    assert 1.0 == pytest.approx(power([*before, *now]))
    assert 1.0 == pytest.approx(power([*now, Sized(0.0, 16)]))


def test_a_few_odd_runs_do_not_bend_it() -> None:
    assert 2.0 == pytest.approx(power([*grown(2.0, *range(1, 11)), Sized(50.0, 10)]), abs=0.2)
