"""`LogStore`: the folder of all logs, in which they are listed, looked up and removed when old."""

from __future__ import annotations

import datetime
import os
import socket
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grain.eventlog.errors import AmbiguousLog, NoSuchLog, NotALog, SeveralRun
from grain.eventlog.files import read_end, refuse_foreign_links
from grain.eventlog.names import (
    FIRST_PART,
    fit_name,
    label_of,
    logs_folder,
    parse_folder,
    parse_label,
    part_name,
    part_number,
)
from grain.eventlog.reader import LONGEST_LINE, LogReader
from grain.eventlog.schema import LogEnded, LogStarted, decode
from grain.files.processes import start_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEEP = 30 * 86400.0
"""Seconds for which a log is kept after its end."""

KEEP_GB = 1.0
"""GB of all logs together."""

TOUCHED = 3600.0
"""Seconds after which a writer marks its file as in use, if it has written nothing meanwhile."""

_SURELY = 2 * TOUCHED  # seconds for which a log without an end counts as being written
_ELSEWHERE = 48 * TOUCHED  # the same for one of another host, whose processes cannot be seen
_STAMP = ".looked"  # the file whose time is that of the last look for old logs
_BETWEEN = 600.0  # seconds between two such looks, where no log is large
_CANDIDATES = 5  # that an error names
_SHORT = 8  # characters of an id
_CLOCKS = 60.0  # seconds by which the clocks of this host and of a filesystem may differ


@dataclass(frozen=True)
class StoredLog:
    """A log of a store, by the name of its folder: nothing of it was read yet.

    Attributes:
        started: when it began, in UTC.
        name: the name of the mission, as `names.fit_name` returns it; `header` has it in full.
        number: that of its label; 0 if it has none.
    """

    folder: Path
    started: datetime.datetime
    name: str
    id: str
    number: int = 0

    @property
    def label(self) -> str:
        """Its name and number; of one without a number, the beginning of its id."""
        return label_of(self.name, self.number) if self.number else self.id[:_SHORT]

    @property
    def words(self) -> str:
        """The label, the id and the host, which tell it from others."""
        header = self._readable_header()
        where = f", on {header.host}" if header is not None and header.host else ""
        id_ = f"id {self.id[:_SHORT]}{where}"
        return f"{self.label} ({id_})" if self.number else id_

    def header(self) -> LogStarted | None:
        """Read the first line; None if there is none yet.

        Raises:
            LogError: it is not a log of this version.
            OSError: it cannot be read.
        """
        reader = LogReader(self.folder)
        next(iter(reader), None)
        return reader.header

    def end(self) -> LogEnded | None:
        """Read the last line; None if it is not the end of the log, or cannot be read."""
        try:
            return _last_line(self.folder)
        except OSError:
            return None

    def size(self) -> int:
        """Return the bytes of all its parts; 0 if they are not there any more."""
        return sum(status.st_size for status in self._parts())

    def modified(self) -> float:
        """Return when it was last written to, in Unix seconds by the clock of the filesystem."""
        times = [status.st_mtime for status in self._parts()]
        if not times:  # its writer has made the folder just now
            with suppress(OSError):
                times.append(self.folder.lstat().st_mtime)
        return max(times, default=0.0)

    def is_written(self, now: float | None = None) -> bool:
        """Return True if its process may still write to it; when in doubt, it may.

        A process of another host cannot be seen: its log counts as being written for two days
        after its last sign of life; a writer gives one an hour.

        Args:
            now: Unix seconds, by the clock of the filesystem; by default that of this process.
        """
        if self.end() is not None:
            return False
        age = (time.time() if now is None else now) - self.modified()
        if age < _SURELY:
            return True
        writer = self._writer()
        return age < _ELSEWHERE if writer is None else _is_alive(*writer, self.modified())

    def is_running(self) -> bool:
        """Return True if its process runs: where this host can see it, at once after its death.

        Another namespace of processes under the same host name is taken for this host.
        """
        if self.end() is not None or self._is_followed():
            return False
        writer = self._writer()
        return self.is_written() if writer is None else _is_alive(*writer, self.modified())

    def runs(self) -> bool:
        """Return True if its process runs as far as that can be told now.

        One of another host has given a sign of life within two hours: its writer gives one an hour.
        """
        age = time.time() - self.modified()
        # Most logs are old.
        if age > _ELSEWHERE or self.end() is not None or self._is_followed():
            return False
        writer = self._writer()
        if writer is None:
            return age < _SURELY
        return _is_alive(*writer, self.modified())

    def _writer(self) -> tuple[int, float] | None:
        """Return the process id of its writer, and when it began the log; None on another host."""
        header = self._readable_header()
        if header is None or header.host != socket.gethostname():
            return None
        return (header.pid, header.time) if header.pid else None

    def _is_followed(self) -> bool:
        """Return True if a later process serves the lasting mission that its process served.

        The mission has one process at a time. A host that died has left no other sign of it.
        """
        own = self._readable_header()
        if own is None or not own.lasting:
            return False
        # By the number, as the clocks of two hosts may differ by more than the time between them.
        return any(
            header.lasting == own.lasting and header.generation > own.generation
            for log in LogStore(self.folder.parent).logs()
            if log.name == fit_name(own.name) and (header := log._readable_header()) is not None
        )

    def _readable_header(self) -> LogStarted | None:
        try:
            return self.header()
        except Exception:  # it is damaged, or newer
            return None

    def _parts(self) -> list[os.stat_result]:
        parts = []
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if part_number(entry.name) is not None:
                    with suppress(OSError):
                        parts.append(entry.stat(follow_symlinks=False))
        return parts


class LogStore:
    """The folder that has the folders of all logs.

    Args:
        folder: as `names.logs_folder` returns it; by default that of missions.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or logs_folder()

    def logs(self) -> list[StoredLog]:
        """Return all logs, newest first; none if there is no such folder.

        Raises:
            OSError: the folder cannot be read.
        """
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        logs = []
        for name in names:
            parsed = parse_folder(name)
            if parsed is not None:
                logs.append(StoredLog(self.folder / name, *parsed))
        # A folder tells the second only, and a loop in a shell starts several missions in one:
        # numbers of one name say which began last.
        return sorted(logs, key=lambda log: (log.started, log.number, log.id), reverse=True)

    def find(self, text: str) -> StoredLog:
        """Return the log that a user means.

        A label, an id and its beginning always mean the same mission. A name means the mission that
        runs, and if none does, the one that began last.

        Args:
            text: the label, the name or the id of a mission, or the beginning of one of the last
                two; the name of the folder, or its path.

        Raises:
            NoSuchLog: nothing fits.
            SeveralRun: several missions of that name run.
            AmbiguousLog: missions of several names, or several ids, begin like this.
            NotALog: it is the path of something else.
            OSError: the folder cannot be read.
        """
        if "/" in text:
            return _at(Path(text))
        logs = self.logs()
        fit = fit_name(text)
        name, number = parse_label(text) or ("", 0)
        label = (fit_name(name), number)
        for exact in (
            [log for log in logs if log.folder.name == text],
            [log for log in logs if log.id == text],
            # Several have one label where several users write to the folder.
            [log for log in logs if log.number and (log.name, log.number) == label],
        ):
            if len(exact) == 1:
                return exact[0]
            if exact:
                raise self._ambiguous(text, "the label of several missions", exact)
        if named := [log for log in logs if log.name == fit]:
            return _running(text, named) or named[0]
        begun = [
            log
            for log in logs
            if text
            and (
                log.name.startswith(fit)
                or log.id.startswith(text)
                or log.folder.name.startswith(text)
            )
        ]
        if not begun:
            if Path(text).exists() and text:  # a path without a slash
                return _at(Path(text))
            same = [log for log in logs if number and log.name == label[0]]
            raise NoSuchLog(self._nothing(text, same or logs))
        if len({log.name if log.name.startswith(fit) else log.id for log in begun}) > 1:
            if Path(text).exists():
                return _at(Path(text))
            raise self._ambiguous(text, "the beginning of several names or ids", begun)
        return (_running(text, begun) if begun[0].name.startswith(fit) else None) or begun[0]

    def _ambiguous(self, text: str, is_: str, logs: list[StoredLog]) -> AmbiguousLog:
        names = tuple(log.folder.name for log in logs[:_CANDIDATES])
        more = f", and {len(logs) - len(names)} more" if len(logs) > len(names) else ""
        return AmbiguousLog(
            f"{text!r} is {is_}: {', '.join(names)}{more}. Write more of one", names
        )

    def _nothing(self, text: str, logs: list[StoredLog]) -> str:
        if not logs and not _can_be_made(self.folder):
            return (
                f"no log of {text!r}: you may not write to {self.folder}, so missions have no "
                "event log. Make that possible, or set head.event_log.folder in grain.toml"
            )
        if not logs:
            return (
                f"no log of {text!r}: there are no logs in {self.folder}. Missions write them, "
                "unless run(..., event_log=False) or head.event_log of grain.toml says otherwise"
            )
        recent = [log.name for log in logs]
        if len(set(recent)) == 1:
            recent = [f"{log.label} of {log.started.astimezone():%Y-%m-%d %H:%M}" for log in logs]
        shown = ", ".join(list(dict.fromkeys(recent))[:_CANDIDATES])
        return f"no log of {text!r} in {self.folder}; the latest missions are {shown}"

    def is_neglected(self, now: float) -> bool:
        """Return True if no process looked for old logs for ten minutes; note that this one does.

        Thousands of brief missions need not look at each other's logs.

        Args:
            now: Unix seconds by the clock of the filesystem.

        Raises:
            OSError: the folder cannot be written.
        """
        stamp = self.folder / _STAMP
        if self.folder.exists():
            refuse_foreign_links(self.folder)
        with suppress(FileNotFoundError):
            if 0 <= now - stamp.lstat().st_mtime < _BETWEEN:
                return False
        # Non-blocking, as another user may have made a named pipe of it.
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(stamp, flags, 0o600)
        try:
            os.utime(fd)
        finally:
            os.close(fd)
        return True

    def remove_old(
        self, *, seconds: float = KEEP, gigabytes: float = KEEP_GB, now: float | None = None
    ) -> list[str]:
        """Remove logs that ended long ago, and the oldest ones if all together are too large.

        A log that is being written stays. Only the files of logs are removed, by no link, so a
        folder with anything else in it stays, without its log. Several processes may do this at
        once. Logs of other users, in a folder that they share, are not looked at: they neither go
        nor take room.

        Args:
            seconds: logs that were written to within so many seconds stay if there is room.
            gigabytes: GB of all logs together.
            now: Unix seconds by the clock of the filesystem; by default that of this process.

        Returns:
            The names of the folders.

        Raises:
            OSError: the folder cannot be read.
        """
        now = time.time() if now is None else now
        total = 0
        removed = []
        with _opened(self.folder) as store:
            for log in self.logs():
                if not _is_ours(log.folder):
                    continue
                total += log.size()
                old = now - log.modified() > seconds
                if (
                    (old or total > gigabytes * 1e9)
                    and not log.is_written(now)
                    and _remove(store, log.folder.name)
                ):
                    removed.append(log.folder.name)
        return removed


def _running(text: str, logs: list[StoredLog]) -> StoredLog | None:
    """Return the only log whose mission runs; None if none does.

    Raises:
        SeveralRun: there are several.
    """
    running = [log for log in logs if log.runs()]
    if len(running) > 1:
        raise SeveralRun(
            several_run(text, [log.words for log in running[:_CANDIDATES]], len(running)),
            tuple(log.folder.name for log in running),
        )
    return running[0] if running else None


def several_run(text: str, words: Sequence[str], count: int) -> str:
    """Return the sentence on missions of one name that run, of which a command needs one."""
    which = ", ".join(words)
    return f"{count} missions called {text!r} run: {which}; name one by its label or its id"


def _at(path: Path) -> StoredLog:
    """Return the log at a path, wherever it is.

    Raises:
        LogError: nothing there is one, of this version.
        OSError: it cannot be read.
    """
    folder = path.parent if path.name == FIRST_PART else path
    if not (folder / FIRST_PART).exists():
        raise NotALog(f"{path} is not the folder of an event log: there is no {FIRST_PART} in it")
    log = StoredLog(folder, datetime.datetime.now(datetime.timezone.utc), "", "")
    header = log.header()
    if header is None:
        raise NotALog(f"{path} has no complete line yet")
    started = datetime.datetime.fromtimestamp(header.time, datetime.timezone.utc)
    _, number = parse_label(header.label) or ("", 0)
    return StoredLog(folder, started, fit_name(header.name), header.id, number)


def _can_be_made(folder: Path) -> bool:
    """Return True if this user may write to a folder, or make it."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    return os.access(there, os.W_OK | os.X_OK)


def _is_ours(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.geteuid()
    except OSError:  # another process has removed it
        return False


def _last_line(folder: Path) -> LogEnded | None:
    numbers = (part_number(name) for name in os.listdir(folder))
    last = max((number for number in numbers if number is not None), default=0)
    lines = read_end(folder / part_name(last), LONGEST_LINE).rsplit(b"\n", 2)
    # Behind the last newline is nothing, or a line that is torn.
    try:
        line = decode(lines[-2] if len(lines) > 1 else b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return line if isinstance(line, LogEnded) else None


def _is_alive(pid: int, *written: float) -> bool:
    """Return True if a process of this host runs that has written to a log.

    Args:
        pid: its id. The kernel uses ids again: a process that began after the last write is another
            one.
        written: times at which it wrote, in Unix seconds. The latest counts: the date of a file
            can be set back, and the time in a log is too early once the clock was set on.
    """
    start = start_time(pid)
    try:
        with Path("/proc/stat").open(encoding="utf-8") as file:
            boot = next((line for line in file if line.startswith("btime ")), "")
    except OSError:
        return False
    if start is None:
        return False
    began = float(boot.removeprefix("btime ") or 0) + start / os.sysconf("SC_CLK_TCK")
    return began <= max(written) + _CLOCKS


@contextmanager
def _opened(folder: str | Path, within: int | None = None) -> Iterator[int]:
    """Open a folder, which is not a link if it is within another one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fd = os.open(folder, flags | (0 if within is None else os.O_NOFOLLOW), dir_fd=within)
    try:
        yield fd
    finally:
        os.close(fd)


def _remove(store: int, name: str) -> bool:
    """Remove the log in a folder of the store, by descriptors; return False if that fails.

    Nothing is done by path: another process may put a link where a folder was.
    """
    with suppress(OSError):
        with _opened(name, store) as folder:
            if os.fstat(folder).st_uid != os.geteuid():
                return False
            for file in os.listdir(folder):
                if part_number(file) is None:
                    continue
                status = os.stat(file, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    with suppress(FileNotFoundError):  # another process removes it as well
                        os.unlink(file, dir_fd=folder)
        # While a process still reads a file, NFS keeps a `.nfs...` of it: then the folder
        # stays, without a log, and goes the next time.
        os.rmdir(name, dir_fd=store)
        return True
    return False
