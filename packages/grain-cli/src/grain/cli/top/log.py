"""Logs as they grow: of a worker the end, and of a task its lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.show import clean
from grain.cli.workers.jobs import outputs, records
from grain.cli.workers.logs import latest, readable
from grain.cli.workers.task_logs import TaskOutput, facts_text, nothing_text
from grain.eventlog.errors import LogError
from grain.eventlog.files import open_plain
from grain.eventlog.store import LogStore

if TYPE_CHECKING:
    from pathlib import Path

_END = 64 * 1024  # bytes that are read at once, at most
LINES = 1000
"""Lines that are kept."""


class WorkerLog:
    """The last lines of a worker's log.

    Attributes:
        lines: without characters that control a terminal.
        path: of the log; None as long as none is there.
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
            self._at, self._rest = 0, b""  # written again
        if size - _END > self._at:
            self._at, self._rest = size - _END, b""  # what is between would not be read in time
        with open_plain(self.path) as source:
            source.seek(self._at)
            added = source.read(_END)
        self._at += len(added)
        *whole, rest = (self._rest + added).split(b"\n")
        self._rest = rest[-_END:]  # a line may never end, such as a line that is written over
        self.lines += [readable(line) for line in whole]
        del self.lines[:-LINES]
        self.problem = "" if self.lines else f"the log of {self._worker} is empty"


class LogTail:
    """The last lines of a task, as `grain logs` shows them.

    Attributes:
        lines: without characters that control a terminal; a line before each worker's log names the
            worker if there are several.
        facts: its former runs, and the files of their programs, a line each.
    """

    def __init__(self, name: str, number: int, mission: str) -> None:
        self._name = name
        self._number = number
        self._mission = mission
        self.lines: list[str] = []
        self.facts: list[str] = []
        self.problem = ""
        self._output: TaskOutput | None = None
        self._file: Path | None = None

    def read(self) -> None:
        """Read what was added. It may take as long as the file systems do."""
        try:
            self._read()
        except OSError as error:
            self.problem = f"the log of {self._name} cannot be read: {error.strerror or error}"

    def _read(self) -> None:
        if self._output is None:  # not before: it reads the event log of the mission
            label = self._name.rpartition(":")[0]
            try:
                log = LogStore().find(self._mission)
            except LogError:
                log = None
            self._output = TaskOutput(label, self._number, log, self._mission)
            self.facts = facts_text(self._output.facts)
        jobs = records().read()
        for file, lines in self._output.read(jobs):
            if file != self._file:
                self.lines.append(f"==> {clean(file)} <==")
                self._file = file
            self.lines += readable(b"".join(lines)).splitlines()
        del self.lines[:-LINES]
        self.problem = "" if self.lines else nothing_text(self._name, len(jobs))
