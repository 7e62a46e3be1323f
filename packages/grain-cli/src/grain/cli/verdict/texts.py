"""Names and messages that are shortened to be shown. Pure."""

from __future__ import annotations

import unicodedata


def shortened(text: str, most: int) -> str:
    """Leave out the middle of a text that is too long: its beginning and its end say most.

    Args:
        most: the columns that it may take; a wide character, such as a Chinese one, takes two.
    """
    if len(text) <= most and text.isascii():
        return text
    wide = [1 + (unicodedata.east_asian_width(one) in {"W", "F"}) for one in text]
    if sum(wide) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[: _fitting(wide, half)].rstrip()}…{_last(text, _fitting(wide[::-1], half))}"


def _fitting(columns: list[int], most: int) -> int:
    """Return how many of the first characters have room."""
    count = 0
    for one in columns:
        most -= one
        if most < 0:
            break
        count += 1
    return count


def _last(text: str, count: int) -> str:
    return text[len(text) - count :].lstrip()
