"""Logs that a full disk does not stop, and that do not fill one.

Lines that cannot be written are counted and reported later. Lines of one cause are written up to a
number a minute, and then counted: a stranger who knocks again and again writes no log of gigabytes.
A file has a limit, at which it is renamed; only its owner may read it. No line controls a terminal
that shows it.

Python's own handlers keep such lines in a buffer. Writing the buffer fails again when the process
ends, which then has exit code 120, so a batch system takes a successful worker for a failed one.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from pathlib import Path

from grain.files.trust import open_appended
from grain.worker.errors import printable

PER_MINUTE = 200
"""Lines of one cause that are written in a minute: hundreds of workers may join in one."""

MAX_BYTES = 10_000_000
"""The size at which a log file becomes ``NAME.1``, in the place of the one before."""


STANDARD_ERROR = 2


class Allowance:
    """An amount that may be used each second; what is not used is saved up to a limit.

    Args:
        rate: the amount for each second.
        saved: the most that is saved up; there is so much at the beginning.
    """

    def __init__(self, rate: float, saved: float) -> None:
        self._rate = rate
        self._most = self._left = saved
        self._counted = 0.0

    def take(self, amount: float, now: float) -> bool:
        """Use some of it; return False if there is not so much, and none is used.

        Args:
            now: the time in seconds, by a clock that does not go back.
        """
        self._left = min(self._most, self._left + (now - self._counted) * self._rate)
        self._counted = now
        if amount > self._left:
            return False
        self._left -= amount
        return True


class PatientWriter:
    """A writer of lines to a descriptor, at once, which goes on if that fails.

    Args:
        fd: the descriptor; its owner closes it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lost = 0
        self._why = ""
        self._torn = False

    @property
    def failed(self) -> str:
        """Why the last line could not be written; empty if it was."""
        return self._why if self._lost else ""

    def write(self, data: bytes) -> None:
        """Write one or more lines, after the number of lines that were lost before them."""
        count = data.count(b"\n") or 1
        if self._lost:
            note = f"{self._lost} log lines could not be written here: {self._why}\n"
            data = note.encode(errors="backslashreplace") + data
        try:
            self._write(data)
        except OSError as error:
            self._lost += count
            self._why = error.strerror or str(error)
        else:
            self._lost = 0

    def _write(self, data: bytes) -> None:
        left = b"\n" + data if self._torn else data
        while left:
            written = os.write(self._fd, left)
            left = left[written:]
            self._torn = bool(left)


class LogFile(PatientWriter):
    """A log file of a limited size, which no other user may read: the writer that opens it.

    Other processes may write to the same file; each finds out by itself that another has renamed
    it. At the limit the file becomes ``NAME.1``, and what was there is removed. Standard error goes
    along if it leads to this file.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str, limit: int = MAX_BYTES) -> None:
        self.path = path
        self._limit = limit
        super().__init__(open_private(path))

    def _write(self, data: bytes) -> None:
        own = os.fstat(self._fd)
        if stat.S_ISREG(own.st_mode) and own.st_size and own.st_size + len(data) > self._limit:
            self._rotate(own)
        super()._write(data)

    def _rotate(self, own: os.stat_result) -> None:
        try:
            if os.path.samestat(own, Path(self.path).stat()):  # else another process has done it
                Path(self.path).replace(f"{self.path}.1")
        except FileNotFoundError:
            pass
        new = open_private(self.path)
        try:
            if os.path.samestat(own, os.fstat(STANDARD_ERROR)):
                os.dup2(new, STANDARD_ERROR)
            os.dup2(new, self._fd, inheritable=False)
        finally:
            os.close(new)


def open_private(path: str) -> int:
    """Open a log file for appending, which no other user may read; return its descriptor.

    Raises:
        OSError: it cannot be opened, or another user may have put it there.
    """
    fd = open_appended(path)
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
        os.fchmod(fd, 0o600)  # one of an earlier version
    return fd


def _is_of_grain(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == "grain"


class RateLimit:
    """A limit of the lines of one cause in a minute; the others are counted.

    A cause is the place of a log call in Grain: what a line is about may be of a stranger's
    choosing. The count stands at the end of the first line of that cause after the minute.
    """

    def __init__(self) -> None:
        # By place: when the minute began, and how many lines came in it.
        self._causes: dict[tuple[str, int], tuple[float, int]] = {}

    def note(self, record: logging.LogRecord) -> str | None:
        """Return what to add to the line of a record; None if it is not to be written."""
        if not _is_of_grain(record):
            return ""  # what users log is theirs
        cause = (record.pathname, record.lineno)
        now = time.monotonic()
        since, count = self._causes.get(cause, (now, 0))
        more = 0
        if now - since >= 60.0:
            more = max(count - PER_MINUTE, 0)
            since, count = now, 0
        self._causes[cause] = (since, count + 1)
        if count >= PER_MINUTE:
            return None
        if more:
            return f" ... and {more} more like this before"
        return " ... more of these are counted for a minute" if count == PER_MINUTE - 1 else ""


class PatientHandler(logging.Handler):
    """A log handler that writes each record at once to a descriptor, and goes on if that fails.

    Args:
        to: the descriptor, whose owner closes it; or a `LogFile`.
    """

    def __init__(self, to: int | LogFile) -> None:
        super().__init__()
        self._writer = PatientWriter(to) if isinstance(to, int) else to
        self._limit = RateLimit()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, after the number of records that were lost before it."""
        note = self._limit.note(record)
        if note is None:
            return
        try:
            text = printable(self.format(record))
            if _is_of_grain(record):
                # A line that begins with a time and a level is not part of what a peer has sent.
                text = text.replace("\n", "\n  ")
        except Exception:  # as in logging: a mistake in a log call ends no program
            self.handleError(record)
            return
        self._writer.write(f"{text}{note}\n".encode(errors="backslashreplace"))


def log_to(to: int | LogFile, form: str) -> None:
    """Write the log of this process to a file descriptor or a file, from level INFO up."""
    handler = PatientHandler(to)
    handler.setFormatter(logging.Formatter(form))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
