"""What missions looked up in the result cache, so that it can be explained afterwards.

Each mission has a file of JSON lines in ``<root>/log``; the files of the last few missions stay.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from grain.delayed.cache.key import Key
from grain.delayed.times import when

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from grain.delayed.cache.store import StoredResult

# How many files are kept, and how many lookups of one mission.
_FILES, _MOST = 5, 10_000
# A file of ours; the directory may have others.
_OWN = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}\.jsonl")


class Lookup(NamedTuple):
    """A look for a result.

    Attributes:
        key: what for.
        at: when, in seconds since 1970.
        status: what came of it, as `grain.delayed.cache.store.LookupResult` says it.
    """

    key: Key
    at: float
    status: str


class LookupLog:
    """Writes down what one mission looks up. May be called in any thread.

    Args:
        root: the directory of the cache.
    """

    def __init__(self, root: Path) -> None:
        self._folder = root / "log"
        self._lock = threading.Lock()
        self._name: str | None = None
        self._left = _MOST

    def add(self, found: Iterable[tuple[Key, str]]) -> None:
        """Write down some lookups. Raises nothing: it is for explanations only."""
        now = time.time()
        with self._lock, suppress(OSError):
            lines = [json.dumps([*key[:6], now, status]) for key, status in found][: self._left]
            if not lines:
                return
            self._left -= len(lines)
            if self._name is None:
                self._name = f"{time.strftime('%Y%m%dT%H%M%S')}-{os.urandom(4).hex()}.jsonl"
                for old in _files(self._folder)[: -_FILES + 1]:
                    old.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(self._folder / self._name, flags, 0o600)
            try:
                os.write(fd, "".join(f"{line}\n" for line in lines).encode())
            finally:
                os.close(fd)


def lookups(root: Path) -> list[Lookup]:
    """The lookups of the last missions, the latest first; lines that make no sense are left out."""
    found = []
    for file in _files(root / "log"):
        with suppress(OSError):  # it was removed, or is not ours
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError, TypeError, OverflowError, OSError, RecursionError):
                    *key, at, status = json.loads(line)
                    lookup = Lookup(Key(*key), float(at), str(status))
                    if all(isinstance(part, str) for part in lookup.key[:6]):
                        when(lookup.at)  # is there such a time?
                        found.append(lookup)
    return sorted(found, key=lambda lookup: lookup.at, reverse=True)


def _files(folder: Path) -> list[Path]:
    """The files of lookups, the oldest first."""
    try:
        files = sorted(path for path in folder.iterdir() if _OWN.fullmatch(path.name))
        return [path for path in files if stat.S_ISREG(path.lstat().st_mode)]
    except OSError:
        return []


def explain(lookup: Lookup, entries: Sequence[StoredResult]) -> str:
    """Why a lookup was a hit or a miss.

    Args:
        lookup: the lookup.
        entries: what is kept now.
    """
    key = lookup.key
    if lookup.status == "hit":
        same = [entry for entry in entries if entry.key[:5] == key[:5]]
        if not same:
            return "hit; the result was cleared since"
        return f"hit: it was computed on {when(same[0].created)} on {same[0].host}"
    if lookup.status != "missing":
        return f"miss: its entry was not usable: {lookup.status}"
    older = [e for e in entries if e.key.function == key.function and e.created < lookup.at]
    if not older:
        return f"miss: no result of {key.function} was kept by then"
    alike = [entry for entry in older if entry.key.call == key.call]
    if not alike:
        return (
            "miss: it was not computed by then for this key; "
            f"{len(older)} other result{'s' * (len(older) > 1)} of {key.function} were kept"
        )
    # Of several, the one that differs least, and of those the latest.
    last = min(alike, key=lambda entry: (len(_changed(entry.key, key)), -entry.created))
    changed = _changed(last.key, key)
    if not changed:
        return "miss: the result was not there when it was looked up, or was made anew since"
    return f"miss: {' and '.join(changed)} changed since {when(last.created)}"


def _changed(old: Key, new: Key) -> list[str]:
    changed = []
    if old.code != new.code:
        changed.append(f"the code of {new.function}")
    if old.bound != new.bound:
        changed.append("what it closes over or is bound to")
    if old.version != new.version:
        changed.append(f"cache_version ({old.version!r} is {new.version!r} now)")
    return changed
