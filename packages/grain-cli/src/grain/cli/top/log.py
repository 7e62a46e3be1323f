"""The log of a worker as it grows: of a large one the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.cli.workers.jobs import records
from grain.cli.workers.logs import latest, outputs, readable

if TYPE_CHECKING:
    from pathlib import Path

_END = 64 * 1024  # bytes that are read at once, at most
LINES = 1000
"""Lines that are kept."""


class WorkerLog:
    """The last lines of a worker's log.

    Args:
        worker: the name of the worker, which is that of its job.

    Attributes:
        lines: without characters that control a terminal.
        path: of the log; None as long as none is there.
        problem: why there are no lines; empty if there are any.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self.lines: list[str] = []
        self.path: Path | None = None
        self.problem = ""
        self._at = 0
        self._rest = b""

    def read(self) -> None:
        """Read what was added. It may take as long as the file system does."""
        try:
            self._read()
        except OSError as error:
            self.problem = f"the log of {self._worker} cannot be read: {error.strerror or error}"

    def _read(self) -> None:
        if self.path is None:
            jobs = latest(records().read(), self._worker)
            files = [file for job in jobs for file in outputs(job)]
            if not files:
                self.problem = f"no log of {self._worker} was written on this host or its disks"
                return
            self.path = files[-1]
            self._at = max(self.path.stat().st_size - _END, 0)
        size = self.path.stat().st_size
        if size < self._at:
            self._at, self._rest = 0, b""  # written anew
        with self.path.open("rb") as source:
            source.seek(max(self._at, size - _END))
            added = source.read(_END)
        self._at = max(self._at, size - _END) + len(added)
        *whole, self._rest = (self._rest + added).split(b"\n")
        self.lines += [readable(line) for line in whole]
        del self.lines[:-LINES]
        self.problem = "" if self.lines else f"the log of {self._worker} is empty"


def about(lines: list[str], task: str) -> list[str]:
    """Return the lines that name a task, as in ``opt:17``."""
    named = re.compile(rf"(?<![\w.@-]){re.escape(task)}(?!\d)")
    return [line for line in lines if named.search(line)]
