"""The known key that the author of an unknown one probably meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BARE = re.compile(r"[A-Za-z0-9_-]{1,60}")


def dotted(path: Iterable[str]) -> str:
    """Write a key's path as TOML does, parts quoted that need it, and cut if too long to read."""
    return ".".join(part if _BARE.fullmatch(part) else repr(part[:60]) for part in path)


def nearest(path: Sequence[str], keys: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the known key nearest to an unknown one; None if none is near.

    First among the keys of the same table, where a slip of the finger stays; then among the last
    parts of all keys, those nearest to the top first, for a key that stands in the wrong table.
    """
    # Only a mistake needs it, and it is not cheap to import.
    from difflib import get_close_matches

    *table, name = path
    name = name.lower()[:100]
    siblings = {key[-1]: key for key in keys if list(key[:-1]) == table}
    elsewhere: dict[str, tuple[str, ...]] = {}
    for key in sorted(keys, key=len):
        elsewhere.setdefault(key[-1], key)
    for names, cutoff in (siblings, 0.6), (elsewhere, 0.8):
        if close := get_close_matches(name, names, n=1, cutoff=cutoff):
            return names[close[0]]
    return None
