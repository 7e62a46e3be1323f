"""`Collector`: all that a report shows, from the lines of a log in one pass.

Pure: no file is read here, and nothing is made to be looked at. Times are in seconds from the first
line on.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.report.critical_path import CriticalPath
from grain.cli.report.timeline.bars import RUNNING, VAIN, VALUE, Bar, Timeline
from grain.cli.report.timeline.series import QueueSeries, Series
from grain.eventlog.never_ran import WAITING, NeverRan
from grain.eventlog.schema import (
    BriefTasks,
    CachedResults,
    ClockChanged,
    LogEnded,
    LogStarted,
    Remark,
    StandingTasks,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
)
from grain.facts.fold import Fold
from grain.facts.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.cli.report.critical_path import PathStep
    from grain.eventlog.schema import AnyLine
    from grain.facts.clocks import WorkerClocks
    from grain.facts.rows import Run

BINS = 480
"""Bins of the pictures over time."""

WORKER_BINS = 160
"""Bins of the picture of each worker."""

BARS = 120_000
"""Bars of the timeline."""

_REMARKS = 200  # that are kept; a scheduler in trouble may repeat itself

_TIME = "WTime"  # a limit, which is not used up


@dataclass(eq=False)
class WorkerTrack:
    """A worker, under one name.

    Attributes:
        resources: amounts by kind.
        left: when it left for the last time, or when there was the last sign of it; None if it is
            still there.
        why: the reason; empty if it was to leave.
        heard: True if it is known when there was the last sign of it, and ``left`` is that.
        sent_back: the tasks that wait again, or did, since it was lost with them.
        core_seconds: the cores that its runs asked for, times their length.
        present: 1 while it was there, over time.
        since: since when it is there; None if it is not.
    """

    name: str
    host: str = ""
    job: str = ""
    resources: dict[str, float] = field(default_factory=dict)
    joined: float = 0.0
    left: float | None = None
    why: str = ""
    heard: bool = False
    sent_back: int = 0
    runs: int = 0
    core_seconds: float = 0.0
    offered: float = 0.0
    cores: Series = field(default_factory=lambda: Series(WORKER_BINS))
    present: Series = field(default_factory=lambda: Series(WORKER_BINS))
    since: float | None = None


class ResourceSeries(NamedTuple):
    """A kind of resource over time, each as a series.

    Attributes:
        used: by the programs of the runs; empty where that is not measured.
    """

    offered: Series
    asked: Series
    used: Series


@dataclass(frozen=True)
class Report:
    """All that a report shows.

    Attributes:
        span: seconds from the first line to the last.
        clock_change: seconds that were added to the writer's clock meanwhile.
        functions: the names of functions, by their numbers in bars and steps.
        workers: in the order in which they joined.
        usage: by kind of resource, the cores first.
        edges: how many tasks of the second function were submitted after tasks of the first, by the
            numbers of both. A further attempt is not counted.
        steps: the critical path.
        never_ran: how many tasks never ran, by reason; waiting tasks are not among them.
        not_called_off: the same without those for which there was room, and whose caller cancelled
            them.
        left_waiting: how many have not begun by the end of the log, by reason.
        first_wait: how long the oldest task had waited when a worker took the first one; 0 if that
            is not known.
        last_run: when the last run ended; 0 if none has.
    """

    header: LogStarted | None
    end: LogEnded | None
    span: float
    clock_change: float
    totals: Totals
    functions: list[str]
    workers: list[WorkerTrack]
    usage: dict[str, ResourceSeries]
    queue: QueueSeries
    timeline: Timeline
    edges: dict[tuple[int, int], int]
    steps: list[PathStep]
    never_ran: dict[str, int]
    not_called_off: dict[str, int]
    left_waiting: dict[str, int]
    first_wait: float
    last_run: float
    remarks: list[tuple[float, str]]
    more_remarks: int
    set_aside: dict[str, str]

    @property
    def offered(self) -> float:
        """Core seconds that all workers offered."""
        return sum(worker.offered for worker in self.workers)


class Collector:
    """A report in the making: feed it the lines of a log, then take the report."""

    def __init__(self, bars: int = BARS, clocks: WorkerClocks | None = None) -> None:
        self._fold = Fold(clocks)
        self._header: LogStarted | None = None
        self._end: LogEnded | None = None
        self._totals = Totals()
        self._functions: dict[str, int] = {}
        self._workers: dict[str, WorkerTrack] = {}
        self._usage: dict[str, ResourceSeries] = {}
        self._queue = QueueSeries(BINS)
        self._edges: Counter[tuple[int, int]] = Counter()
        self._timeline = Timeline(bars)
        self._path = CriticalPath()
        self._first_taken: float | None = None
        self._oldest = 0.0  # since when the oldest task waited by then
        self._last_run = 0.0
        self._remarks: list[tuple[float, str]] = []
        self._more_remarks = 0
        self._set_aside: dict[str, str] = {}

    def feed(self, line: AnyLine) -> None:
        """Take the next line."""
        run = self._fold.feed(line)
        self._totals.feed(line, run)
        if run is not None:
            self._count(run.function)
            self._ended(run)
        elif isinstance(line, TaskSubmitted):
            self._submitted(line)
        elif isinstance(line, TaskStarted):
            self._taken(line)
        elif isinstance(line, BriefTasks):
            self._brief(line)
        elif isinstance(line, StandingTasks):
            for function in {*self._queue.waiting, *self._fold.waiting}:
                self._count(function)
        elif isinstance(line, CachedResults):
            self._number(line.function)
        elif isinstance(line, WorkerJoined):
            self._joined(line)
        elif isinstance(line, WorkerLeft):
            self._left(line)
        else:
            self._of_the_log(line)

    def _count(self, function: str) -> None:
        """Take the numbers of its tasks that wait and run."""
        counts = self._fold.waiting[function], self._fold.running[function]
        self._queue.set(self._now, function, counts, self._fold.open)

    def _of_the_log(self, line: AnyLine) -> None:
        """Take a line that is about no task and no worker."""
        if isinstance(line, LogStarted):
            self._header = self._header or line
        elif isinstance(line, LogEnded):
            self._end = line
        elif isinstance(line, Remark):
            if line.place and len(self._remarks) < _REMARKS:
                self._set_aside[line.place] = line.why
            self._remark(line.text)
        elif isinstance(line, ClockChanged):
            way = "forward" if line.by > 0 else "back"
            self._remark(
                f"the clock of the log's host was set {way} by {abs(line.by):,.1f} s; the times "
                "here are as if it had not been"
            )

    def report(self) -> Report:
        """Return the report, up to the last line. Feed no further lines then."""
        now = self._now
        for worker in self._workers.values():
            if worker.since is not None:
                self._absent(worker, now)
        never_ran = self._fold.never_ran
        left = NeverRan(never_ran)
        for task in self._fold.open_tasks():
            if task.started is None:
                if not task.ran_before:
                    left.add_any(task.alternatives, WAITING)
            else:
                start = task.started - (self._fold.first or 0.0)
                self._occupy(task.now(self._fold.now), start, now)
                number = self._number(task.function)
                bar = Bar(start, now, number, RUNNING, task.number, 1, now - start)
                lanes = _lanes(task.taken.get("Cores", 0.0))
                for name in task.members:
                    self._timeline.add(name, bar, lanes=lanes, vague=True)
        self._timeline.order(self._workers)
        self._queue.end(now)
        kinds = sorted(self._usage, key=lambda kind: (kind != "Cores", kind != "Memory", kind))
        return Report(
            header=self._header,
            end=self._end,
            span=now,
            clock_change=self._fold.clock_change,
            totals=self._totals,
            functions=list(self._functions),
            workers=list(self._workers.values()),
            usage={kind: self._usage[kind] for kind in kinds},
            queue=self._queue,
            timeline=self._timeline,
            edges=dict(self._edges),
            steps=self._path.steps(),
            never_ran=never_ran.reasons(),
            not_called_off=never_ran.reasons(called_off=False),
            left_waiting=left.reasons(),
            first_wait=max(0.0, (self._first_taken or 0.0) - self._oldest),
            last_run=self._last_run,
            remarks=self._remarks,
            more_remarks=self._more_remarks,
            set_aside=self._set_aside,
        )

    @property
    def _now(self) -> float:
        """Seconds from the first line to the last line fed."""
        return self._fold.now - (self._fold.first or 0.0)

    def _remark(self, text: str) -> None:
        if len(self._remarks) < _REMARKS:
            self._remarks.append((self._now, text))
        else:
            self._more_remarks += 1

    # ---- workers

    def _joined(self, line: WorkerJoined) -> None:
        now = self._now
        worker = self._workers.get(line.worker)
        if worker is None:
            worker = self._workers[line.worker] = WorkerTrack(line.worker, joined=now)
        elif worker.since is not None:  # its connection was lost, but not the worker
            self._absent(worker, now)
        worker.host, worker.job, worker.resources = line.host, line.job, line.resources
        worker.since, worker.left, worker.why, worker.heard = now, None, "", False
        self._timeline.offer(line.worker, line.resources.get("Cores", 0.0))

    def _left(self, line: WorkerLeft) -> None:
        worker = self._workers.get(line.worker)
        if worker is None:
            return
        # A lost worker was lost before that was known.
        left = self._fold.last_there(line) - (self._fold.first or 0.0)
        if worker.since is not None:
            left = max(worker.since, left)
            self._absent(worker, left)
        worker.left, worker.why, worker.heard = left, line.why, line.heard is not None

    def _absent(self, worker: WorkerTrack, now: float) -> None:
        """Count what a worker offered since it came."""
        since = now if worker.since is None else worker.since
        worker.since = None
        worker.present.add(since, now, 1)
        worker.offered += worker.resources.get("Cores", 0.0) * (now - since)
        for kind, amount in worker.resources.items():
            if kind != _TIME:
                self._of_kind(kind).offered.add(since, now, amount)

    def _of_kind(self, kind: str) -> ResourceSeries:
        usage = self._usage.get(kind)
        if usage is None:
            usage = self._usage[kind] = ResourceSeries(Series(BINS), Series(BINS), Series(BINS))
        return usage

    # ---- tasks

    def _number(self, function: str) -> int:
        return self._functions.setdefault(function, len(self._functions))

    def _submitted(self, line: TaskSubmitted) -> None:
        now = self._now
        self._count(line.function)
        number = self._number(line.function)
        self._path.submitted(line.task, number, now, line.after, line.retry_of)
        if not line.retry_of:
            before = {self._path.function_of(task) for task in line.after}
            self._edges.update((one, number) for one in before if one is not None)

    def _taken(self, line: TaskStarted) -> None:
        """Keep when the first task was taken; a line may come later than that of a later start."""
        task = self._fold.open_task(line.task)
        if task is not None:
            self._count(task.function)
        time = line.time - self._fold.clock_change
        if self._first_taken is None:
            # All that are open have waited until then.
            oldest = next(self._fold.open_tasks())
            self._first_taken, self._oldest = time, oldest.queued
        self._first_taken = min(time, self._first_taken)

    def _brief(self, line: BriefTasks) -> None:
        """Count tasks without lines of their own; they occupy their mean over the whole time."""
        self._first_taken = self._first_taken or 0.0  # it may have been one of them
        self._number(line.function)
        start = line.began - self._fold.clock_change - (self._fold.first or 0.0)
        start, end = max(0.0, min(start, self._now)), self._now
        if end <= start:
            return
        for kind, amount in line.request.items():
            if kind != _TIME:
                self._of_kind(kind).asked.add(start, end, amount * line.seconds / (end - start))

    def _ended(self, run: Run) -> None:
        if run.state == "lost" and not run.final and run.worker in self._workers:
            self._workers[run.worker].sent_back += 1
        if run.started is not None:
            self._last_run = self._now
            if self._first_taken is None:
                self._first_taken = 0.0  # the line of its start was torn
            self._show(run)
        if run.final:
            first = self._fold.first or 0.0
            started = None if run.started is None else run.started - first
            unsure = math.inf if run.ran_before else run.slack
            self._path.ended(run.task, started, run.ended - first, unsure)

    def _show(self, run: Run) -> None:
        first = self._fold.first or 0.0
        assert run.started is not None
        start, end = run.started - first, run.ended - first
        for worker in self._workers_of(run):
            worker.runs += 1
            worker.core_seconds += run.own_cores * run.seconds
        self._occupy(run, start, end)
        if run.usage is not None and end > start:
            self._of_kind("Cores").used.add(start, end, run.cpu / (end - start))
            if run.usage.measured_by != "none":
                self._of_kind("Memory").used.add(start, end, run.memory)
        state = VALUE if run.state == "value" else VAIN
        number = self._number(run.function)
        bar = Bar(start, end, number, state, run.task, 1, end - start)
        lanes, vague = _lanes(run.own_cores), not run.reported
        for member in run.members:
            self._timeline.add(
                member.worker, bar, member.cpus, lanes=lanes, slack=run.slack, vague=vague
            )

    def _workers_of(self, run: Run) -> Iterator[WorkerTrack]:
        """Yield the workers of a run that the log has."""
        return filter(None, (self._workers.get(member.worker) for member in run.members))

    def _occupy(self, run: Run, start: float, end: float) -> None:
        """Count what a run has taken of the resources."""
        amounts = {kind: amount * run.workers for kind, amount in run.request.items()}
        amounts.pop(_TIME, None)
        if run.cores:
            amounts["Cores"] = run.cores
        for kind, amount in amounts.items():
            self._of_kind(kind).asked.add(start, end, amount)
        for worker in self._workers_of(run):
            worker.cores.add(start, end, run.own_cores)


def _lanes(cores: float) -> int:
    """Return how many lanes a run takes."""
    return max(1, round(cores))


def collect(
    lines: Iterable[AnyLine], bars: int = BARS, clocks: WorkerClocks | None = None
) -> Report:
    """Return the report of a log.

    Args:
        bars: of the timeline, at most.
        clocks: by how much the clocks of workers differ, see `grain.facts.fold.Fold`.
    """
    collector = Collector(bars, clocks)
    for line in lines:
        collector.feed(line)
    return collector.report()
