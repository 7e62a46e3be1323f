"""The result cache of a mission: the choice of its directory, and its store in threads.

It never stops a mission: a disk that is full or read-only means one warning, and that no more
results are kept; a directory that cannot be used means one warning, and no cache. Only a directory
that the user named must be usable when the mission starts.
"""

from __future__ import annotations

import os
import threading
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import trio

from grain.config import Unfit, expand_place
from grain.delayed.cache.store import MISSING, LookupResult, Store, Unpicklable
from grain.delayed.errors import CacheError
from grain.eventlog.names import with_home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.delayed.cache.key import Key

DEFAULT = ".grain-cache"
"""The directory of results if the user names none: in the directory where the mission starts."""

# Enough to hide the latency of a network file system.
_THREADS = 8


class ComputedResult(NamedTuple):
    """A result to keep, and the seconds from its call to its end."""

    key: Key
    value: Any
    seconds: float


class CacheState(Enum):
    """The state of the directory, as far as a mission knows it."""

    UNTRIED = "untried"
    USABLE = "usable"
    READ_ONLY = "read-only"  # writing has failed once
    UNUSABLE = "unusable"


class Cache:
    """The results that a mission finds, and those that it keeps."""

    def __init__(self, root: str | os.PathLike[str], report: Callable[[str], object]) -> None:
        self._store = Store(root)
        self._report = report
        self._limiter = trio.CapacityLimiter(_THREADS)
        # Threads change what follows; the trio task reports the warnings that they leave.
        self._lock = threading.Lock()
        self._state = CacheState.UNTRIED
        self._warned: set[str] = set()
        self._warnings: list[str] = []

    async def open(self) -> None:
        """Make the directory now, rather than when it is needed.

        Raises:
            CacheError: it cannot be used.
        """
        await trio.to_thread.run_sync(self._store.open, abandon_on_cancel=True)
        self._state = CacheState.USABLE

    async def look_up(self, keys: Sequence[Key]) -> list[LookupResult]:
        """Look for results. A cancellation leaves that to its thread, and returns at once."""
        results = await trio.to_thread.run_sync(
            self._look_up, keys, limiter=self._limiter, abandon_on_cancel=True
        )
        self._report_warnings()
        return results

    async def keep(self, results: Sequence[ComputedResult]) -> None:
        """Keep results. A cancellation waits until they are written, which takes no time."""
        await trio.to_thread.run_sync(self._keep, results, limiter=self._limiter)
        self._report_warnings()

    def warn(self, topic: str, line: str) -> None:
        """Warn the user, once for each topic."""
        self._add_warning(topic, line)
        self._report_warnings()

    def _report_warnings(self) -> None:
        with self._lock:
            lines, self._warnings = self._warnings, []
        for line in lines:
            self._report(line)

    # ---- in threads

    def _add_warning(self, topic: str, line: str) -> None:
        with self._lock:
            if topic not in self._warned:
                self._warned.add(topic)
                self._warnings.append(f"warning: {line}")

    def _look_up(self, keys: Sequence[Key]) -> list[LookupResult]:
        if self._opened() is CacheState.UNUSABLE:
            return [MISSING] * len(keys)
        return [self._store.read(key) for key in keys]

    def _opened(self) -> CacheState:
        """Return the state of the directory, which is made at the first lookup."""
        with self._lock:
            if self._state is CacheState.UNTRIED:
                try:
                    self._store.open()
                except CacheError as error:
                    self._state = CacheState.UNUSABLE
                    self._warnings.append(f"warning: {error}")
                else:
                    self._state = CacheState.USABLE
            return self._state

    def _keep(self, results: Sequence[ComputedResult]) -> None:
        for key, value, seconds in results:
            if self._state is not CacheState.USABLE:
                return
            try:
                self._store.write(key, value, seconds)
            except OSError as error:
                self._state = CacheState.READ_ONLY
                self._add_warning(
                    "disk",
                    f"results cannot be kept in {self._store.root}: {error.strerror or error}. "
                    "This mission goes on, and keeps no more of them",
                )
            except Unpicklable as error:
                self._add_warning(
                    key.function,
                    f"results of {key.function} cannot be kept, as one cannot be pickled ({error})",
                )


def cache_root(option: object, configured: str = "") -> tuple[Path, bool] | None:
    """Return the directory of the cache, and True if the user named it; None for no cache.

    Args:
        configured: the directory that the configuration names; empty if it names none.

    Raises:
        TypeError: the option is neither a path nor False nor None.
        CacheError: a variable in it is not set.
    """
    if option is False:
        return None
    if option is not None:
        if not isinstance(option, str | os.PathLike) or not os.fspath(option):
            raise TypeError(
                f"cache={option!r}: give the directory where results are kept, or False for none"
            )
        return _place(os.fspath(option), "cache="), True
    if named := os.environ.get("GRAIN_CACHE"):
        return _place(named, "GRAIN_CACHE="), True
    return (Path(configured), True) if configured else (Path(DEFAULT), False)


def _place(text: str, setting: str) -> Path:
    """Return a directory that is named without a shell, which would have expanded it.

    Raises:
        CacheError: a variable in it is not set, or it is in the home directory of another user.
    """
    try:
        return Path(expand_place(text, with_home(os.environ)))
    except Unfit as error:
        raise CacheError(f"{setting}{text}: {error}") from None


async def open_cache(
    option: str | os.PathLike[str] | Literal[False] | None,
    configured: str,
    report: Callable[[str], object],
) -> Cache | None:
    """Return the cache of a mission, opened if the user named its directory; None for no cache.

    Raises:
        TypeError: as `cache_root`.
        CacheError: the user named a directory, and it cannot be used.
    """
    chosen = cache_root(option, configured)
    if chosen is None:
        return None
    root, named = chosen
    cache = Cache(root, report)
    if named:
        await cache.open()
    return cache
