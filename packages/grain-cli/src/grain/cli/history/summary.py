"""The counts of a log, by function and by cause of failure, as data that can be kept. Pure.

`grain.facts.totals` does the counting.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from grain.eventlog.schema import LogEnded, LogStarted, Remark, WorkerJoined
from grain.facts.fold import Fold
from grain.facts.rows import Cause
from grain.facts.totals import Totals

if TYPE_CHECKING:
    from grain.eventlog.schema import AnyLine
    from grain.facts.totals import FunctionTotals

_REMARKS = 5
_WORKERS = 12  # that are named for a cause
_CALLS = 200  # that are kept of a cause; there may be a million


class FunctionSummary(msgspec.Struct, kw_only=True):
    """The tasks of one function; amounts are of all their runs, including failed ones.

    Attributes:
        tasks: the number of its tasks that were submitted, without further attempts of the same,
            and of the results that were found in the result cache.
        done: those that returned a value, and the results from the cache.
        running: those that run, or ran when the log ended.
        waiting: those that wait, or waited when the log ended.
        runs: the number of runs that returned a value.
        seconds: how long these took together.
        longest: the longest of them, in seconds.
        waited: how long the tasks waited together, in seconds.
        core_hours: the cores that all runs had, times the hours that they took.
        wasted_core_hours: those of runs that returned no value.
        cpu_hours: the CPU time that programs used, in hours.
        peak_memory: the largest memory that a run used, in GB; None if none was measured.
        memory: the most that a task asked for, in GB; None if none did.
    """

    tasks: int = 0
    done: int = 0
    cached: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0
    waiting: int = 0
    retried: int = 0
    runs: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    waited: float = 0.0
    core_hours: float = 0.0
    wasted_core_hours: float = 0.0
    cpu_hours: float = 0.0
    peak_memory: float | None = None
    memory: float | None = None

    def add(self, other: FunctionSummary) -> None:
        """Add the counts of another one."""
        for name in self.__struct_fields__:
            own, its = getattr(self, name), getattr(other, name)
            if name in _LARGEST:
                setattr(self, name, max((x for x in (own, its) if x is not None), default=None))
            else:
                setattr(self, name, own + its)


_LARGEST = {"longest", "peak_memory", "memory"}


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
    functions: dict[str, FunctionSummary] = {}
    lost_runs: int = 0
    causes: list[Cause] = []
    remarks: list[str] = []
    skipped: int = 0
    missing: int = 0

    @property
    def total(self) -> FunctionSummary:
        """The counts of all functions together."""
        total = FunctionSummary()
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
        functions = {name: _function(one) for name, one in self._totals.functions.items()}
        for name, open_ in self._fold.by_function.items():
            if open_.waiting or open_.running:
                function = functions.setdefault(name, FunctionSummary())
                function.waiting, function.running = open_.waiting, open_.running
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


def _function(totals: FunctionTotals) -> FunctionSummary:
    asked = totals.asked.get("Memory")
    return FunctionSummary(
        tasks=totals.tasks,
        done=totals.done,
        cached=totals.cached,
        failed=totals.failed,
        cancelled=totals.cancelled,
        retried=totals.retried,
        runs=totals.seconds.count,
        seconds=totals.seconds.total,
        longest=totals.seconds.most,
        waited=totals.waited.total + totals.never_ran.total,
        core_hours=totals.core_seconds / 3600,
        wasted_core_hours=totals.wasted_core_seconds / 3600,
        cpu_hours=totals.cpu_seconds / 3600,
        peak_memory=totals.memory.most if totals.memory.count else None,
        memory=asked.most if asked is not None else None,
    )


def _kept(cause: Cause) -> Cause:
    """Return a cause with the workers of the most runs, and the first calls."""
    workers = sorted(cause.workers.items(), key=lambda item: -item[1])[:_WORKERS]
    calls = dict(islice(cause.calls.items(), _CALLS))
    return msgspec.structs.replace(cause, workers=dict(workers), calls=calls)
