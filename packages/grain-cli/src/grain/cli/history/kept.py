"""Summaries of logs that have not changed since they were read, in the cache directory of the user.

To list the missions of a month means to read up to a gigabyte; the summary of a log that has its
end is made once. Nothing depends on it: what is missing, damaged or has other fields is made again.
Nothing is kept if the directory cannot be written to, or if another user could replace it, and no
file of another user is read.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grain.cli.history.logs import lines_of
from grain.cli.history.summary import LogSummary, Summariser
from grain.eventlog.files import open_plain
from grain.eventlog.names import home_folder, parse_folder
from grain.eventlog.reader import LogReader
from grain.files.forms import form_of
from grain.files.trust import check_private, private_folder, remove_files
from grain.files.whole import whole_name, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.store import StoredLog

_RULES = 5  # grows when the same log gives another summary, though that has the same fields


class _Kept(msgspec.Struct):
    """A summary and what it was made of.

    Attributes:
        version: the form of the summary; one of another is made again.
    """

    version: int
    size: int
    modified: float
    summary: LogSummary


class KeptSummaries:
    """Summaries by the folders of their logs."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder()

    def of(self, log: StoredLog) -> LogSummary:
        """Return the summary of a log: the kept one, or a new one.

        Raises:
            LogError: it is not a log of this version.
            OSError: it cannot be read.
        """
        size, modified = log.size(), log.modified()
        file = self._file(log)
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            check_private(self._folder)
            kept = _DECODER.decode(_own(file))
            if (kept.version, kept.size, kept.modified) == (_version(), size, modified):
                return kept.summary
        summary = read_summary(log)
        if summary.status:
            self._keep(file, _Kept(_version(), size, modified, summary))
        return summary

    def prune(self, logs: Iterable[StoredLog]) -> None:
        """Remove the summaries of logs that are not there any more."""
        there = {self._file(log).name for log in logs}
        with suppress(OSError):
            check_private(self._folder)
            remove_files(self._folder, lambda name, _: is_summary(name) and name not in there)

    def _file(self, log: StoredLog) -> Path:
        return self._folder / f"{log.folder.name}.json"

    def _keep(self, file: Path, kept: _Kept) -> None:
        with suppress(OSError):
            private_folder(self._folder)
            write_whole(file, msgspec.json.encode(kept))


def _version() -> int:
    return form_of(_Kept, _RULES)


def is_summary(name: str) -> bool:
    """Return True for the name of a summary, or of a half-written one."""
    log, json, _ = whole_name(name).partition(".json")
    return bool(json) and parse_folder(log) is not None


def _own(file: Path) -> bytes:
    """Read a file of this user, through no link: another user may have put it there."""
    with open_plain(file, links=False) as opened:
        if os.fstat(opened.fileno()).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user", str(file))
        return opened.read()


def read_summary(log: StoredLog) -> LogSummary:
    """Read a log and return its summary.

    Raises:
        LogError: it is not a log of this version.
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
    base = Path(given) if given.startswith("/") else home_folder() / ".cache"
    return base / "grain" / "summaries"


_DECODER = msgspec.json.Decoder(_Kept)
