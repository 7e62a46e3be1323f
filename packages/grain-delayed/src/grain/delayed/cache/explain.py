"""The reasons why results were computed, read off the keys of the results that are kept.

A result names each part of its key: the function, its code, what it is bound to, its version and
the call. Its older siblings of the same function show which part is new. Nothing else is written
down: a log of lookups would cost each mission a write for each batch of leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.figures import second

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.delayed.cache.key import Key
    from grain.delayed.cache.store import StoredResult


def latest_of_each_call(results: Iterable[StoredResult]) -> list[StoredResult]:
    """Return the latest result of each call of each function, the latest call first."""
    latest: dict[tuple[str, str], StoredResult] = {}
    for result in sorted(results, key=lambda result: result.created, reverse=True):
        latest.setdefault((result.key.function, result.key.call), result)
    return list(latest.values())


def reason(result: StoredResult, of_function: Sequence[StoredResult]) -> str:
    """Return why a result was not found but computed.

    Args:
        of_function: the results of its function that are kept now, this one among them.
    """
    key = result.key
    older = [other for other in of_function if other.created < result.created]
    if not older:
        return f"it is the oldest result of {key.function} that is kept"
    alike = [other for other in older if other.key.call == key.call]
    if not alike:
        count = f"{len(older)} older result{'s' * (len(older) > 1)}"
        return f"the call is new: {count} of {key.function} {_are(older)} of other calls"
    # Compare with the older result that differs in the fewest parts, the latest of several.
    nearest = min(alike, key=lambda other: (len(_changed(other.key, key)), -other.created))
    return f"{' and '.join(_changed(nearest.key, key))} changed since {second(nearest.created)}"


def parts(key: Key) -> str:
    """Return the parts of a key in one line; the first eight digits of digests."""
    version = f", version {key.version!r}" if key.version else ""
    bound = f", bound to {key.bound[:8]}" if key.bound else ""
    return f"code {key.code[:8]}{bound}{version}, call {key.call[:8]}"


def _are(results: Sequence[object]) -> str:
    return "is" if len(results) == 1 else "are"


def _changed(old: Key, new: Key) -> list[str]:
    changed = []
    if old.code != new.code:
        changed.append(f"the code of {new.function}")
    if old.bound != new.bound:
        changed.append("what it closes over or is bound to")
    if old.version != new.version:
        changed.append(f"cache_version ({old.version!r} is {new.version!r} now)")
    return changed
