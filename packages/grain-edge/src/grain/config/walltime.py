"""Spans of time as users write them, in seconds as programs want them."""

from __future__ import annotations

from grain.config.expansion import Unfit
from grain.resource import clock_seconds, unit_seconds

# Ten years, beyond any batch system's limit: a larger number is a slip.
LONGEST = 3650 * 86400


def parse_walltime(value: object) -> int:
    """Return a span of time in seconds.

    Understood are what `grain.resource.WTime` understands, a whole number of seconds and
    ``[d]-hh:mm:ss`` (``36:00:00``, ``1-12:00:00``), and numbers with units (``90s``, ``30m``,
    ``1h30m``, ``2d``). ``30`` in quotes is refused, being minutes to Slurm and seconds to PBS, and
    so is ``30:00``, in which users see hours and minutes where batch systems see minutes and
    seconds.

    Raises:
        Unfit: it is none of these, or longer than ten years.
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
    """Return ``hh:mm:ss`` with as many hours as it takes, which Slurm and PBS both understand."""
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"


def _of_text(text: str) -> int:
    if text.isdecimal():
        raise Unfit("for seconds, write the number without quotes; for minutes, add an m")
    seconds = clock_seconds(text)
    if seconds is not None:
        return seconds
    if clock_seconds(f"{text}:00") is not None:
        raise Unfit("hours, minutes and seconds are all needed")
    span = unit_seconds(text)
    # Batch systems count whole seconds, and a decimal point may be a slip for a colon.
    if span is None or "." in text:
        raise Unfit
    return int(span)
