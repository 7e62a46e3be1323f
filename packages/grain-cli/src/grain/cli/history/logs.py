"""The logs that a name means, and the present state of their missions."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from grain.eventlog.errors import AmbiguousLog, NoSuchLog
from grain.eventlog.names import logs_folder
from grain.eventlog.store import LogStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.config import Config
    from grain.eventlog.reader import LogReader
    from grain.eventlog.schema import AnyLine
    from grain.eventlog.store import StoredLog

_QUIET = 2.0  # seconds of reading before a terminal shows how far it is
_AGAIN = 0.5
_LOOK = 1 << 14  # lines between two looks at the clock


def store_of(config: Config) -> LogStore:
    """Return the logs of the missions of a configuration."""
    return LogStore(logs_folder(config.head.event_log.folder))


def find(store: LogStore, word: str) -> StoredLog:
    """Return the log that a user means: see `LogStore.find`; also a file or a folder by its path.

    Raises:
        LogError: none, or several; the text says what to do.
        OSError: it cannot be read.
    """
    try:
        return store.find(word)
    except (AmbiguousLog, NoSuchLog):
        # A path without a slash, as in the folder itself; a name goes first.
        if Path(word).exists():
            return store.find(f"./{word}")
        raise


def namesakes(store: LogStore, log: StoredLog, word: str) -> list[StoredLog]:
    """Return all logs that a word may mean just as well, newest first; none if it is the only one.

    Names of missions need not be unique: a name means the latest, and an id each of them.
    """
    if word in (log.id, log.folder.name) or "/" in word:
        return []
    same = [one for one in store.logs() if one.name == log.name]
    return same if len(same) > 1 and not log.id.startswith(word) else []


def state_of(log: StoredLog, status: str) -> str:
    """Return the state of a mission for people.

    Args:
        log: its log.
        status: that of its last line; empty if it has no end.
    """
    if status:
        return status
    if log.is_running():
        return "running"
    end = log.end()  # its process may have ended in good order since
    return "killed" if end is None else end.status


def lines_of(reader: LogReader, size: int) -> Iterator[AnyLine]:
    """Yield the lines of a log; on a terminal, say how far it is if that takes long.

    Args:
        reader: of the log.
        size: bytes of the whole log.
    """
    shows = sys.stderr is not None and sys.stderr.isatty()
    due = time.monotonic() + _QUIET
    shown = False
    before = 0  # bytes of earlier parts
    part, offset = reader.position
    try:
        for count, line in enumerate(reader):
            yield line
            if count % _LOOK or not shows:
                continue
            if reader.position.part != part:
                before += offset
            part, offset = reader.position
            if time.monotonic() >= due:
                shown = True
                due = time.monotonic() + _AGAIN
                share = min(1.0, (before + offset) / max(1, size))
                print(f"\rreading {share:.0%} of {size / 1e9:.1f} GB", end="", file=sys.stderr)
    finally:
        if shown:
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
