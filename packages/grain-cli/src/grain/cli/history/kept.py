"""Summaries of logs that have not changed since they were read, in the cache directory of the user.

To list the missions of a month means to read up to a gigabyte; the summary of a log that has its
end is made once. Nothing depends on it: what is missing, damaged or of another version of Grain is
made anew, and where the directory cannot be written to nothing is kept.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grain.cli.history.logs import lines_of
from grain.cli.history.summary import LogSummary, Summariser
from grain.eventlog.reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.store import StoredLog

_VERSION = 1  # of the summary: grows when the same log gives another one


class _Kept(msgspec.Struct):
    """A summary and what it was made of."""

    version: int
    size: int
    modified: float
    summary: LogSummary


class KeptSummaries:
    """Summaries by the folders of their logs.

    Args:
        folder: where they are kept; by default `cache_folder`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder()

    def of(self, log: StoredLog) -> LogSummary:
        """Return the summary of a log: the one that is kept, or a new one.

        Raises:
            LogError: it is no log of this version.
            OSError: it cannot be read.
        """
        size, modified = log.size(), log.modified()
        file = self._file(log)
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            kept = _DECODER.decode(file.read_bytes())
            if (kept.version, kept.size, kept.modified) == (_VERSION, size, modified):
                return kept.summary
        summary = read_summary(log)
        if summary.status:
            self._keep(file, _Kept(_VERSION, size, modified, summary))
        return summary

    def prune(self, logs: Iterable[StoredLog]) -> None:
        """Remove the summaries of logs that are not there any more."""
        there = {self._file(log).name for log in logs}
        with suppress(OSError):
            for file in self._folder.iterdir():
                if file.name not in there:
                    file.unlink(missing_ok=True)

    def _file(self, log: StoredLog) -> Path:
        return self._folder / f"{log.folder.name}.json"

    def _keep(self, file: Path, kept: _Kept) -> None:
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.encode(kept))
            temporary.replace(file)


def read_summary(log: StoredLog) -> LogSummary:
    """Read a log and return its summary.

    Raises:
        LogError: it is no log of this version.
        OSError: it cannot be read.
    """
    reader = LogReader(log.folder)
    summariser = Summariser()
    for line in lines_of(reader, log.size()):
        summariser.feed(line)
    return summariser.summary(skipped=reader.skipped, missing=reader.missing)


def cache_folder() -> Path:
    """Return the directory of summaries: ``$XDG_CACHE_HOME/grain/summaries``."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return base / "grain" / "summaries"


_DECODER = msgspec.json.Decoder(_Kept)
