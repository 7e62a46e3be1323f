"""Spans of time as users write them, in seconds as programs want them."""

from __future__ import annotations

import re

from grain.config.expansion import Unfit

_CLOCK = re.compile(r"(?:([0-9]*)-)?([0-9]+):([0-5][0-9]):([0-5][0-9])")
_UNITS = re.compile(r"(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")
_SECONDS = (86400, 3600, 60, 1)
# Ten years, beyond any batch system's limit: a larger number is a slip. A text that is longer than
# any sane span is not parsed at all, as Python refuses to read numbers of thousands of digits.
LONGEST = 3650 * 86400
_LONGEST_TEXT = 40


def parse_walltime(value: object) -> int:
    """A span of time in seconds.

    Understood are whatever `grain.resource.WTime` understands, a whole number of seconds and
    ``[d]-hh:mm:ss`` (``36:00:00``, ``1-12:00:00``), and numbers with units (``90s``, ``30m``,
    ``1h30m``, ``2d``). ``30`` in quotes is refused, being minutes to Slurm and seconds to PBS, and
    so is ``30:00``, in which people see hours and minutes where batch systems see minutes and
    seconds.

    Raises:
        Unfit: It is none of these, or longer than ten years.
    """
    if isinstance(value, str):
        seconds = _of_text(value.strip())
    elif isinstance(value, int) and not isinstance(value, bool):
        seconds = value
    elif hasattr(value, "tzinfo"):
        # TOML has times of day: 12:00:00 without quotes is noon, and 24:00:00 no time at all.
        raise Unfit("put it in quotes")
    else:
        raise Unfit
    if not 0 <= seconds <= LONGEST:
        raise Unfit("at most 3650 days" if seconds > 0 else "")
    return seconds


def format_walltime(seconds: int) -> str:
    """``hh:mm:ss``, with as many hours as it takes; Slurm and PBS both read it so."""
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"


def _of_text(text: str) -> int:
    if len(text) > _LONGEST_TEXT:
        raise Unfit
    if text.isdecimal():
        raise Unfit("for seconds, write the number without quotes; for minutes, add an m")
    if _CLOCK.fullmatch(f"{text}:00") and not _CLOCK.fullmatch(text):
        raise Unfit("hours, minutes and seconds are all needed")
    found = _CLOCK.fullmatch(text) or _UNITS.fullmatch(text)
    if not text or found is None:
        raise Unfit
    numbers = found.groups()
    return sum(int(number or 0) * unit for number, unit in zip(numbers, _SECONDS, strict=True))
