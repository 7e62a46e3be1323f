"""The result cache of a mission: where it is, and its store in threads.

It never stops a mission: a disk that is full or cannot be written to means one warning, and that
no more results are kept; a directory that cannot be used means one warning, and no cache. Only a
directory that the user named must be usable.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import trio

from grain.delayed.cache.lookups import LookupLog
from grain.delayed.cache.store import MISSING, LookupResult, Store, Unpicklable
from grain.delayed.errors import CacheError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.delayed.cache.key import Key

DEFAULT = ".grain-cache"
"""Where results are kept if nobody says otherwise: in the directory where the mission starts."""

# Enough to hide the latency of a network file system.
_THREADS = 8


class ComputedResult(NamedTuple):
    """A result to be kept, and the seconds that it took."""

    key: Key
    value: Any
    seconds: float


class Cache:
    """The results that a mission finds, and those that it keeps.

    Args:
        root: the directory.
        say: tells the user one line.
    """

    def __init__(self, root: str | os.PathLike[str], say: Callable[[str], object]) -> None:
        self._store = Store(root)
        self._log = LookupLog(self._store.root)
        self._say = say
        self._limiter = trio.CapacityLimiter(_THREADS)
        self._lock = threading.Lock()
        self._usable: bool | None = None  # nobody has tried yet
        self._writing = True
        self._told: set[str] = set()
        self._untold: list[str] = []

    async def open(self) -> None:
        """Make the directory now, rather than when it is needed.

        Raises:
            CacheError: it cannot be used.
        """
        await trio.to_thread.run_sync(self._store.open, abandon_on_cancel=True)
        self._usable = True

    async def look_up(self, keys: Sequence[Key]) -> list[LookupResult]:
        """Look for results. Cancellation leaves it to its threads, and returns at once."""
        found = await trio.to_thread.run_sync(
            self._look_up, keys, limiter=self._limiter, abandon_on_cancel=True
        )
        self._tell()
        return found

    async def keep(self, results: Sequence[ComputedResult]) -> None:
        """Keep results. Once begun, it is not cancelled: it is about to be done."""
        await trio.to_thread.run_sync(self._keep, results, limiter=self._limiter)
        self._tell()

    def warn(self, topic: str, line: str) -> None:
        """Warn the user of something, once."""
        self._note(topic, line)
        self._tell()

    def _note(self, topic: str, line: str) -> None:
        with self._lock:
            if topic not in self._told:
                self._told.add(topic)
                self._untold.append(f"warning: {line}")

    def _tell(self) -> None:
        with self._lock:
            lines, self._untold = self._untold, []
        for line in lines:
            self._say(line)

    # ---- in threads

    def _look_up(self, keys: Sequence[Key]) -> list[LookupResult]:
        if not self._opened():
            return [MISSING] * len(keys)
        found = [self._store.read(key) for key in keys]
        self._log.add((key, one.status) for key, one in zip(keys, found, strict=True))
        return found

    def _opened(self) -> bool:
        with self._lock:
            if self._usable is not None:
                return self._usable
            try:
                self._store.open()
            except CacheError as error:
                self._usable = self._writing = False
                self._untold.append(f"warning: {error}")
            else:
                self._usable = True
            return self._usable

    def _keep(self, results: Sequence[ComputedResult]) -> None:
        for key, value, seconds in results:
            if not self._writing:
                return
            try:
                self._store.write(key, value, seconds)
            except OSError as error:
                self._writing = False
                self._note(
                    "disk",
                    f"results cannot be kept in {self._store.root}: {error.strerror or error}. "
                    "This mission goes on, and keeps no more of them",
                )
            except Unpicklable as error:
                self._note(
                    key.function,
                    f"results of {key.function} cannot be kept, as one cannot be pickled ({error})",
                )


def cache_root(option: object, configured: str = "") -> tuple[Path, bool] | None:
    """The directory of the cache, and whether the user named it; None for no cache.

    Args:
        option: the argument `cache` of a mission.
        configured: what the configuration says, if anything.

    Raises:
        TypeError: the option is neither a path nor False nor None.
    """
    if option is False:
        return None
    if option is not None:
        if not isinstance(option, str | os.PathLike) or not os.fspath(option):
            raise TypeError(
                f"cache={option!r}: give the directory where results are kept, or False for none"
            )
        return Path(os.fspath(option)).expanduser(), True
    named = os.environ.get("GRAIN_CACHE") or configured
    return (Path(named).expanduser(), True) if named else (Path(DEFAULT), False)


async def open_cache(
    option: str | os.PathLike[str] | Literal[False] | None,
    configured: str,
    say: Callable[[str], object],
) -> Cache | None:
    """The cache of a mission.

    Raises:
        TypeError: as `cache_root`.
        CacheError: the user named a directory, and it cannot be used.
    """
    found = cache_root(option, configured)
    if found is None:
        return None
    root, named = found
    cache = Cache(root, say)
    if named:
        await cache.open()
    return cache
