"""Formats of letters and of names, as ``squeue`` and ``sinfo`` take them, over tables of fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from grain.cli.columns import Column
from grain.cli.slurm_words.grammar import BadUse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

R = TypeVar("R")

_LETTER = r"(?s)%(\.?)(\d{0,4})(.)"
_NAME = r"(?s)([A-Za-z_:-]*?[A-Za-z_-])(?::(\.?)(\d{0,4})(.*))?"
_WIDE = "20"  # characters of a name without a width


def by_words(fields: Mapping[str, R]) -> dict[str, R]:
    """Return fields by each of the words that mean one, such as a letter and names."""
    return {word: field for words, field in fields.items() for word in words.split()}


def same(text: str) -> Callable[[Any], str]:
    """Return a value that all rows have."""
    return lambda _: text


def letters(form: str, known: Mapping[str, Column[R]], error: str) -> list[Column[R]]:
    """Return the columns of a format as ``%.18i %j``.

    Args:
        known: as of `by_words`.
        error: the message about a letter that means nothing, without the letter.

    Raises:
        BadUse: a letter means nothing.
    """
    before, *parts = re.split(_LETTER, form)
    found = [Column[R]("", same(""), after=before)] if before else []
    for at in range(0, len(parts), 4):
        right, width, letter, after = parts[at : at + 4]
        found.append(_laid(known, letter, right, width, after, f"{error}: {letter}"))
    return found


def names(form: str, known: Mapping[str, Column[R]], error: str) -> list[Column[R]]:
    """Return the columns of a format as ``JobID:8,Name:.12,State``; arguments as of `letters`.

    Raises:
        BadUse: a name means nothing.
    """
    found = []
    for part in form.split(","):
        match = re.fullmatch(_NAME, part.lstrip() if ":" in part else part.strip())
        name = match[1].lower() if match and len(match[1]) > 1 else ""
        right, width, after = match.group(2, 3, 4) if match else ("", "", "")
        width = _WIDE if width is None else width
        found.append(_laid(known, name, right, width, after or "", f"{error}: {part}"))
    return found


def _laid(
    known: Mapping[str, Column[R]], word: str, right: str, width: str, after: str, error: str
) -> Column[R]:
    if word not in known:
        raise BadUse(error)
    size = int(width or 0) or None
    return replace(known[word], width=size if right or not size else -size, after=after)
