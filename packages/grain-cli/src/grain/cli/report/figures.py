"""Figures as text: amounts, shares, the ticks of axes, and what is said of rows left out."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

from grain.resource.figures import amount, percent

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0

NOTHING = "\u2013"
"""A dash, for a figure that is not there."""

_SPANS = (
    (1.0, "s", "seconds", (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)),
    (_MINUTE, "min", "minutes", (1, 2, 5, 10, 20)),
    (_HOUR, "h", "hours", (0.5, 1, 2, 3, 6, 12)),
    (_DAY, "d", "days", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Units of time, with the natural steps between ticks in each."""


def hours(seconds: float) -> str:
    """Format core seconds in core-hours."""
    number = seconds / _HOUR
    return "< 0.01" if 0 < number < 0.01 else amount(number)


def share(part: float, whole: float) -> str:
    """Format a share in percent; a dash if there is no whole."""
    if whole <= 0:
        return NOTHING
    return percent(part / whole)


class Ticks(NamedTuple):
    """The ticks of an axis.

    Attributes:
        labels: their text, without the unit.
        unit: the unit, as a word; empty for plain numbers.
    """

    at: list[float]
    labels: list[str]
    unit: str


def time_ticks(seconds: float, most: int = 8) -> Ticks:
    """Return the ticks of an axis of time, from 0 on."""
    for size, _, word, steps in _SPANS:
        for step in steps:
            if seconds / (step * size) <= most:
                return _ticks(seconds / size, step, size, word)
    return _ticks(seconds / _DAY, 10 ** math.ceil(math.log10(seconds / _DAY / most)), _DAY, "days")


def _ticks(end: float, step: float, size: float, word: str) -> Ticks:
    at = [step * number for number in range(int(end / step + 1e-9) + 1)]
    return Ticks([one * size for one in at], [f"{one:.10g}" for one in at], word)


def amount_ticks(largest: float, most: int = 4, *, whole: bool = False) -> Ticks:
    """Return the ticks of an axis of amounts, from 0 to the first that is not below the largest.

    Args:
        whole: True if there are no fractions of what is counted.
    """
    largest = largest if largest > 0 else 1.0
    power = 10.0 ** math.floor(math.log10(largest / most))
    step = next(f * power for f in (1, 2, 2.5, 5, 10, 20) if largest / (f * power) <= most)
    if whole:
        step = max(1.0, math.ceil(step))
    at = [step * number for number in range(math.ceil(largest / step - 1e-9) + 1)]
    return Ticks(at, [f"{one:,.10g}" for one in at], "")


def log_ticks(least: float, most: float) -> Ticks:
    """Return the ticks of a logarithmic axis of time: the usual spans within the bounds."""
    usual = (
        (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (60, "1 min"),
        (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"), (86400, "1 d"), (7 * 86400, "7 d"),
    )  # fmt: skip
    chosen = [(at, label) for at, label in usual if least <= at <= most]
    return Ticks([float(at) for at, _ in chosen], [label for _, label in chosen], "")


# ---- rows of tables


class Rows(NamedTuple):
    """The rows of each part of the page, at most.

    Attributes:
        functions: those of the tables.
        cards: functions with pictures of their own.
        workers: those of the table, and in the timeline.
        details: the calls of a cause, and its workers.
        steps: those of the critical path.
    """

    functions: int = 200
    cards: int = 24
    workers: int = 1000
    details: int = 200
    steps: int = 60


USUAL_ROWS = Rows()
ALL_ROWS = Rows(*[sys.maxsize] * len(Rows._fields))

_ALL = "grain report --all shows all."


def plus(count: int, what: str) -> str:
    """Return the count of rows that are folded or left out, as a label."""
    return f"+{count:,} more {what}{'' if count == 1 else 's'}" if count > 0 else ""


def left_out(count: int, most: int, what: str) -> str:
    """Return a sentence on rows that are left out, and how to see them; empty if none are."""
    label = plus(count - most, what)
    return f"{label}: {_ALL}" if label else ""
