"""Figures look the same in every display."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource.figures import (
    amount,
    clock,
    counted,
    percent,
    rate,
    signal_name,
    size_text,
    span,
)  # fmt: skip

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (17e-6, "17 µs"), (0.00042, "420 µs"), (1e-9, "0 s"),
        (0.2134, "0.21 s"), (1, "1 s"), (4.26, "4.3 s"), (59.4, "59 s"),
        (59.6, "1 min"), (90, "1 min 30 s"), (3599.7, "1 h"), (22776, "6 h 20 min"),
        (86399, "1 d"), (86400 * 3.5, "3 d 12 h"), (-5, "0 s"),
    ],
)  # fmt: skip
def test_a_span_of_a_sentence_has_two_units_at_most(seconds: float, text: str) -> None:
    assert text == span(seconds)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (17e-6, "17 µs"), (0.25, "0.25 s"),
        (1.0, "1 s"), (44.51, "44.5 s"), (59.96, "59.9 s"),
        (60, "00:01:00"), (2530.9, "00:42:10"), (97200, "1-03:00:00"), (-5, "0 s"), (None, "-"),
    ],
)  # fmt: skip
def test_a_span_of_a_column_is_as_batch_systems_write_it(seconds: float | None, text: str) -> None:
    assert text == clock(seconds)


@given(st.floats(0.001, 1e8))
def test_a_span_says_what_it_stands_for(seconds: float) -> None:
    """What is read from it is within the rounding of its smaller unit, and never 60 of anything."""
    parts = re.findall(r"([\d.]+) (s|min|h|d)", span(seconds))
    read = sum(float(number) * UNITS[unit] for number, unit in parts)

    assert abs(read - seconds) <= max(0.05 * seconds, 0.05)
    assert all(float(number) < 60 for number, unit in parts if unit in {"s", "min"})


@given(st.floats(0, 1e8), st.floats(0, 1e8))
def test_a_longer_span_of_a_column_is_never_shown_as_a_shorter_one(one: float, two: float) -> None:
    shorter, longer = sorted((one, two))

    assert _seconds(clock(shorter)) <= _seconds(clock(longer))


def _seconds(text: str) -> float:
    for unit, length in ((" µs", 1e-6), (" s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * length
    days, _, rest = text.rpartition("-")
    hours, minutes, seconds = map(int, rest.split(":"))
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


def test_counts_have_their_noun_and_signals_a_name() -> None:
    assert ["0 tasks", "1 task", "1,234 tasks"] == [counted(n, "task") for n in (0, 1, 1234)]
    assert "2 batches" == counted(2, "batch", "batches")
    assert ["SIGKILL", "signal 99"] == [signal_name(9), signal_name(99)]


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (123.4, "123/s"),
        (10, "10/s"),
        (6.12, "6.1/s"),
        (0.25, "15/min"),
        (0.002, "7.2/h"),
        (0, "0"),
    ],
)
def test_rates_have_the_unit_that_suits_them(per_second: float, text: str) -> None:
    assert text == rate(per_second)


def test_parts_amounts_and_sizes_have_the_digits_that_count() -> None:
    shares = (0, 0.0004, 0.004, 0.5, 0.999)
    assert ["0 %", "< 1 %", "0.4 %", "50 %", "100 %"] == [percent(share) for share in shares]
    assert ["99 %", "100 %"] == [percent(share, down=True) for share in (0.999, 1.0)]
    amounts = (0, 1234, 1234.5, 4.8, 0.12345, 12.0, 1e-9, math.inf)
    texts = ["0", "1,234", "1,234", "4.8", "0.123", "12", "0", "?"]
    assert texts == [amount(number) for number in amounts]
    sizes = (999, 1400, 25e3, 3.2e6, 999.6e6, 7e9)
    texts = ["999 B", "1.4 kB", "25 kB", "3.2 MB", "1.0 GB", "7.0 GB"]
    assert texts == [size_text(count) for count in sizes]
