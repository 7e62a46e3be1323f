"""Logs that a full disk does not stop: lines that cannot be written are counted and reported later.

Python's own handlers keep such lines in a buffer. Writing the buffer fails again when the process
ends, which then has exit code 120, so a batch system takes a worker that did well for one that
failed.
"""

from __future__ import annotations

import logging
import os


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

    def write(self, data: bytes) -> None:
        """Write one or more lines, after the number of those that were lost before them."""
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


class PatientHandler(logging.Handler):
    """A log handler that writes each record at once to a descriptor, and goes on if that fails.

    Args:
        fd: the descriptor; its owner closes it.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._writer = PatientWriter(fd)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, after the number of those that were lost before it."""
        try:
            text = self.format(record)
        except Exception:  # as in logging: a mistake in a log call ends no program
            self.handleError(record)
            return
        self._writer.write(f"{text}\n".encode(errors="backslashreplace"))


STANDARD_ERROR = 2


def log_to(fd: int, form: str) -> None:
    """Write the log of this process to a file descriptor, from level INFO up.

    Args:
        fd: the descriptor, as of `PatientHandler`.
        form: the format of a line, as of `logging.Formatter`.
    """
    handler = PatientHandler(fd)
    handler.setFormatter(logging.Formatter(form))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
