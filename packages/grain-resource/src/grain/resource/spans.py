"""Spans of time as users write them: on a clock (``1-12:00:00``) or with units (``1h30m``)."""

from __future__ import annotations

import re

_CLOCK = re.compile(r"(?:([0-9]*)-)?([0-9]+):([0-5][0-9]):([0-5][0-9])")
_NUMBER = r"([0-9]+(?:\.[0-9]*)?)"
_UNITS = re.compile(rf"(?=.)(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")
_SECONDS = (86_400, 3600, 60, 1)
# A longer text is not meant as a span, and Python refuses to read numbers of thousands of digits.
_LONGEST = 40


def clock_seconds(text: str) -> int | None:
    """Return the seconds of ``[d]-hh:mm:ss``, as in ``02:30:00``; None if it is none."""
    match = _CLOCK.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    return sum(int(n or 0) * unit for n, unit in zip(match.groups(), _SECONDS, strict=True))


def unit_seconds(text: str) -> float | None:
    """Return the seconds of numbers with units from d to s, as in ``1h30m``; None if it is none."""
    match = _UNITS.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    return sum(float(n or 0) * unit for n, unit in zip(match.groups(), _SECONDS, strict=True))


def on_clock(seconds: float) -> str:
    """Return a span as ``[d-]hh:mm:ss``, rounded to seconds."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    d, h = divmod(hours, 24)
    return f"{d}-{h:02}:{m:02}:{s:02}" if d else f"{h:02}:{m:02}:{s:02}"
