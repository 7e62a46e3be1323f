"""Logs that a full disk does not stop: what cannot be written is counted, and told later.

Python's own handlers keep what they could not write in a buffer. That fails again when the process
ends, which then has exit code 120, so that a batch system takes a worker that did well for one that
failed.
"""

from __future__ import annotations

import logging
import os


class PatientHandler(logging.Handler):
    """Writes each record at once to a file descriptor, and goes on if that fails.

    Args:
        fd: where to; it stays open, and its owner closes it.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._lost = 0
        self._why = ""
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, after a word about those that were lost before it."""
        try:
            text = self.format(record)
        except Exception:  # as in logging: a mistake in a log call ends no program
            self.handleError(record)
            return
        if self._lost:
            text = f"{self._lost} log lines could not be written here: {self._why}\n{text}"
        try:
            self._write(f"{text}\n".encode(errors="backslashreplace"))
        except OSError as error:
            self._lost += 1
            self._why = error.strerror or str(error)
        else:
            self._lost = 0

    def _write(self, data: bytes) -> None:
        left = b"\n" + data if self._torn else data
        while left:
            written = os.write(self._fd, left)
            left = left[written:]
            self._torn = bool(left)


STANDARD_ERROR = 2


def log_to(fd: int, form: str) -> None:
    """Have the log of this process written to a file descriptor, from INFO up.

    Args:
        fd: as of `PatientHandler`.
        form: of a line, as of `logging.Formatter`.
    """
    handler = PatientHandler(fd)
    handler.setFormatter(logging.Formatter(form))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
