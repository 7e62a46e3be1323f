"""The counts of a log, by function and by cause of failure, as data that can be kept. Pure.

`grain.facts.totals` does the counting.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from grain.eventlog.schema import LogEnded, LogStarted, Remark, WorkerJoined
from grain.facts.fold import Fold
from grain.facts.rows import HISTOGRAMS, Cause, Function
from grain.facts.totals import Totals

if TYPE_CHECKING:
    from grain.eventlog.schema import AnyLine

_REMARKS = 5
_WORKERS = 12  # that are named for a cause
_CALLS = 200  # that are kept of a cause; there may be a million


class LogSummary(msgspec.Struct, kw_only=True):
    """The counts of a log.

    Attributes:
        began: when the log began, in Unix seconds.
        last: the time of its last line, by the clock with which it began.
        clock_change: seconds that were added to that clock since.
        status: as in `grain.eventlog.schema.LogEnded`; empty if the log has no end.
        unwritten: lines that the writer had to drop, as the disk was full.
        causes: the failures by cause, the most frequent first.
        missing: parts that were removed, as the log grew too large.
    """

    id: str = ""
    name: str = ""
    command: list[str] = []
    directory: str = ""
    host: str = ""
    pid: int = 0
    began: float = 0.0
    last: float = 0.0
    clock_change: float = 0.0
    status: str = ""
    message: str = ""
    unwritten: int = 0
    workers: int = 0
    functions: dict[str, Function] = {}
    lost_runs: int = 0
    causes: list[Cause] = []
    remarks: list[str] = []
    skipped: int = 0
    missing: int = 0

    @property
    def total(self) -> Function:
        """The counts of all functions together."""
        total = Function()
        for one in self.functions.values():
            total.add(one)
        return total

    @property
    def seconds(self) -> float:
        """The seconds from the first to the last line."""
        return max(0.0, self.last - self.began)


class Summariser:
    """The counts of a log while it is read: `feed` takes the lines in order."""

    def __init__(self) -> None:
        self._fold = Fold()
        self._totals = Totals()
        self._start: LogStarted | None = None
        self._end: LogEnded | None = None
        self._workers: set[str] = set()
        self._remarks: list[str] = []

    def feed(self, line: AnyLine) -> None:
        """Count a line."""
        run = self._fold.feed(line)
        self._totals.feed(line, run)
        if isinstance(line, WorkerJoined):
            self._workers.add(line.worker)
        elif isinstance(line, Remark):
            self._remarks = [*self._remarks, line.text][-_REMARKS:]
        elif isinstance(line, LogStarted):
            self._start = self._start or line
        elif isinstance(line, LogEnded):
            self._end = line

    def summary(self, *, skipped: int = 0, missing: int = 0) -> LogSummary:
        """Return the counts so far."""
        functions = {name: _kept_function(one) for name, one in self._totals.functions.items()}
        for name in dict.fromkeys((*self._fold.waiting, *self._fold.running)):
            waiting, running = self._fold.waiting[name], self._fold.running[name]
            if waiting or running:
                function = functions.setdefault(name, Function(name=name))
                function.waiting, function.running = waiting, running
        counts = LogSummary(
            began=self._fold.first or 0.0,
            last=self._fold.now,
            clock_change=self._fold.clock_change,
            workers=len(self._workers),
            functions=functions,
            lost_runs=self._totals.lost,
            causes=list(map(_kept, self._totals.causes.frequent())),
            remarks=self._remarks,
            skipped=skipped,
            missing=missing,
        )
        if (start := self._start) is not None:
            counts.id, counts.name = start.id, start.name
            counts.command, counts.directory = list(start.command), start.directory
            counts.host, counts.pid = start.host, start.pid
        if (end := self._end) is not None:
            counts.status, counts.message, counts.unwritten = end.status, end.message, end.lost
        return counts


def _kept_function(function: Function) -> Function:
    """Return a copy of the sums of a function: no single amounts, of which there may be many."""
    return replace(
        function,
        requests={},
        asked={kind: replace(one, counts={}) for kind, one in function.asked.items()},
        **{name: replace(getattr(function, name), counts={}) for name in HISTOGRAMS},
    )


def _kept(cause: Cause) -> Cause:
    """Return a cause with the workers of the most runs, and the first calls."""
    workers = sorted(cause.workers.items(), key=lambda item: -item[1])[:_WORKERS]
    calls = dict(islice(cause.calls.items(), _CALLS))
    return replace(cause, workers=dict(workers), calls=calls)
