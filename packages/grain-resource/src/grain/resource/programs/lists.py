"""Lists of GPUs in variables, such as ``0,1`` or ``GPU-8f1,GPU-77a``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NONE = ("", "-1", "NoDevFiles")


def names_in(environ: Mapping[str, str], variable: str) -> tuple[str, ...] | None:
    """Return the names in a list, each once; None if there is no such variable.

    A library stops at the first word that cannot be a device.
    """
    text = environ.get(variable)
    if text is None:
        return None
    names: dict[str, None] = {}
    for word in text.split(","):
        if word.strip() in _NONE:
            break
        names[word.strip()] = None
    return tuple(names)


def are_numbers(names: Sequence[str]) -> bool:
    """Return True if devices are named by numbers, which are then their ids."""
    return all(name.isascii() and name.isdecimal() and len(name) < 6 for name in names)


def ids_of(names: Sequence[str]) -> list[int]:
    """Return the ids of named devices: their numbers, or else their places in the list."""
    return [int(name) for name in names] if are_numbers(names) else list(range(len(names)))


def names_of(ids: Sequence[int], names: Sequence[str]) -> list[str] | None:
    """Return the names of ids; None if they are places, of which the list has fewer.

    Then it is the list of this very allocation, in a process that has it already.
    """
    if are_numbers(names):
        return [str(one) for one in ids]
    return [names[one] for one in ids] if max(ids, default=0) < len(names) else None
