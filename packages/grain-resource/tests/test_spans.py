"""Spans of time as people write them; WTime, the configuration and grain map read them by this."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.resource.spans import clock_seconds, on_clock, unit_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:01", 1),
        ("36:00:00", 129_600),
        ("1-12:00:00", 129_600),
        ("-01:00:00", 3600),
        ("00:00:00", 0),
    ],
)
def test_a_clock_has_hours_minutes_seconds_and_may_have_days(text: str, seconds: int) -> None:
    assert seconds == clock_seconds(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400), ("5.s", 5)],
)
def test_units_go_from_days_to_seconds(text: str, seconds: float) -> None:
    assert seconds == unit_seconds(text)


@pytest.mark.parametrize("text", ["", "x", "5", "1:00", "1:60:00", "٣:00:00", "9" * 5000 + "m"])
def test_what_is_no_span_has_no_seconds(text: str) -> None:
    assert (None, None) == (clock_seconds(text), unit_seconds(text))


@pytest.mark.parametrize("text", ["m", "30 m", "30m1h", "-5m", "1e3s", "٣m", "1..5m"])
def test_units_are_not_guessed_at(text: str) -> None:
    assert unit_seconds(text) is None


def test_the_two_forms_are_told_apart() -> None:
    assert unit_seconds("01:00:00") is None
    assert clock_seconds("1h") is None


@given(st.integers(0, 10**9))
def test_a_span_that_is_shown_can_be_read(seconds: int) -> None:
    assert seconds == clock_seconds(on_clock(seconds))
