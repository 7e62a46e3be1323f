"""Requests that differ only in the memory that they learn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grain.head.needs.families import LearningFamily
from grain.resource import Cores

AMOUNTS = st.floats(0.01, 1e4) | st.sampled_from([0.5, 0.999, 1.0, 1.01, 2.0, 64.0])


@given(st.lists(st.tuples(st.integers(0, 9), AMOUNTS | st.none())), AMOUNTS | st.just(-1.0))
def test_those_are_within_an_amount_that_ask_for_no_more(
    changes: list[tuple[int, float | None]], memory: float
) -> None:
    family, amounts = LearningFamily(1, "", Cores(1)), dict[int, float]()
    for number, amount in changes:
        bit = 1 << number
        if amounts.pop(bit, None) is not None:
            family.remove(bit)
        if amount is not None:
            amounts[bit] = amount
            family.add(bit, amount)
    assert len(family) == len(amounts)
    assert family.within(memory) == sum(bit for bit, one in amounts.items() if one <= memory)
