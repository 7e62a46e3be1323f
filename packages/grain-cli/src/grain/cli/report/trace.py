"""A trace for Perfetto (ui.perfetto.dev) and chrome://tracing, written as the lines of a log pass.

The format is the Trace Event Format of Chromium, as JSON. A worker is a process and a CPU a thread;
a run is on each CPU that it had. A run whose CPUs are not known is in a lane, a thread as well. The
mission itself is the process 0, with the numbers of tasks that wait and run, and remarks.

Times are in microseconds from the first line on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from grain.cli.show import clean
from grain.eventlog.schema import (
    ClockChanged,
    LogEnded,
    LogStarted,
    Remark,
    WorkerJoined,
    WorkerLeft,
)
from grain.facts.fold import Fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.eventlog.schema import AnyLine
    from grain.eventlog.usage import MemberUsage, RunMember
    from grain.facts.clocks import WorkerClocks
    from grain.facts.rows import Run, Task

MISSION = 0
"""The process of the mission."""

_LANES = 1_000_000  # the thread of the first lane: above the numbers of CPUs

_EVERY = 0.02  # seconds at least between two points of the numbers of tasks

Event = dict[str, Any]


class _Process:
    """A worker: its process, and its threads with the end of the last run on each."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.cores = 0.0
        self._ends: dict[int, int] = {}

    def names(self, name: str) -> Iterator[Event]:
        """Yield the events that name it."""
        yield _name("process_name", self.number, 0, name)
        yield {
            "ph": "M",
            "name": "process_sort_index",
            "pid": self.number,
            "tid": 0,
            "args": {"sort_index": self.number},
        }

    def lane(self, start: int, slack: int = 0) -> tuple[int, int]:
        """Return the first lane that is free at a time, or so much before; and since when."""
        lane = _LANES
        while self._ends.get(lane, 0) > start:
            lane += 1
        return lane, max(start - slack, self._ends.get(lane, 0))

    def has_room(self, start: int, cores: float) -> bool:
        """Return True if so many cores of the worker may have been free since a time."""
        busy = sum(end > start for end in self._ends.values())
        return not self.cores or self.cores - busy >= cores

    def take(self, thread: int, start: int, end: int) -> tuple[int, bool]:
        """Return when a run may begin on a thread, and True if the thread is new.

        Runs on one thread may not overlap, and clocks of workers may differ by a little.
        """
        new = thread not in self._ends
        start = min(max(start, self._ends.get(thread, 0)), end)
        self._ends[thread] = end
        return start, new


class Tracer:
    """The events of a trace, from the lines of a log in their order."""

    def __init__(self, clocks: WorkerClocks | None = None) -> None:
        self._fold = Fold(clocks)
        self._processes: dict[str, _Process] = {}
        self._counted = -1.0

    def feed(self, line: AnyLine) -> Iterator[Event]:
        """Yield the events that a line brings."""
        run = self._fold.feed(line)
        now = self._micro(self._fold.now)
        if run is not None:
            if run.started is not None:
                yield from self._run(run)
        elif isinstance(line, LogStarted):
            yield _name("process_name", MISSION, 0, f"mission {line.name}")
        elif isinstance(line, WorkerJoined):
            yield from self._process(line.worker, line.host)
            self._processes[line.worker].cores = line.resources.get("Cores", 0.0)
            yield self._instant("joined", now, self._processes[line.worker].number)
        elif isinstance(line, WorkerLeft):
            yield from self._process(line.worker)
            text = f"left: {line.why}" if line.why else "left"
            yield self._instant(text, now, self._processes[line.worker].number)
        elif isinstance(line, Remark):
            yield self._instant(line.text, now, MISSION)
        elif isinstance(line, ClockChanged):
            yield self._instant(f"the clock was set by {line.by:,.1f} s", now, MISSION)
        elif isinstance(line, LogEnded):
            yield self._instant(" ".join(filter(None, (line.status, line.message))), now, MISSION)
        if self._fold.now - self._counted >= _EVERY or isinstance(line, LogEnded):
            yield self._count(now)

    def end(self) -> Iterator[Event]:
        """Yield the events of what still runs at the end of the log."""
        now = self._micro(self._fold.now)
        for task in self._fold.open_tasks():
            if task.started is None:
                continue
            for member in task.members:
                yield from self._running(task, member, self._micro(task.started), now)
        yield self._count(now)

    def _running(self, task: Task, member: str, start: int, now: int) -> Iterator[Event]:
        """Yield the events of a task on one of its workers."""
        yield from self._process(member)
        process = self._processes[member]
        if not process.has_room(start, task.taken.get("Cores", 1.0)):
            return  # its worker has it beside its running tasks
        thread, _ = process.lane(start)
        yield from self._thread(process, thread, start, now)
        yield {
            "ph": "X",
            "name": clean(task.function),
            "cat": "running",
            "ts": start,
            "dur": now - start,
            "pid": process.number,
            "tid": thread,
            "args": {"task": task.number, "request": clean(task.asked)},
        }

    def _micro(self, time: float) -> int:
        return round((time - (self._fold.first or 0.0)) * 1e6)

    def _count(self, now: int) -> Event:
        self._counted = self._fold.now
        counts = dict(zip(("waiting", "running"), self._fold.open, strict=True))
        return {"ph": "C", "name": "tasks", "ts": now, "pid": MISSION, "tid": 0, "args": counts}

    def _instant(self, text: str, now: int, process: int) -> Event:
        return {"ph": "i", "name": clean(text), "ts": now, "pid": process, "tid": 0, "s": "p"}

    def _process(self, worker: str, host: str = "") -> Iterator[Event]:
        """Yield the events that name the process of a worker, if it is new."""
        if worker not in self._processes:
            process = self._processes[worker] = _Process(len(self._processes) + 1)
            name = f"{worker} on {host}" if host else worker or "(no worker)"
            yield from process.names(clean(name))

    def _thread(self, process: _Process, thread: int, start: int, end: int) -> Iterator[Event]:
        """Take a thread for a run that has nothing else to say; name the thread if it is new."""
        _, new = process.take(thread, start, end)
        if new:
            yield from _thread_names(process.number, thread)

    def _run(self, run: Run) -> Iterator[Event]:
        of_each = run.usage.members if run.usage is not None else ()
        for number, member in enumerate(run.members):
            # The first worker has it all, the others what they have used.
            brief = {"task": run.task} if number else {}
            if number and number < len(of_each):
                brief |= _used(of_each[number])
            yield from self._on_member(run, member, brief)

    def _on_member(self, run: Run, member: RunMember, brief: Event) -> Iterator[Event]:
        """Yield the events of a run on one of its workers; `brief` in place of what is known."""
        assert run.started is not None
        yield from self._process(member.worker, member.host)
        process = self._processes[member.worker]
        begin, end = self._micro(run.started), self._micro(run.ended)
        threads: tuple[int, ...] = member.cpus
        if not threads:
            if not run.reported and not process.has_room(begin, run.own_cores or 1.0):
                # As far as can be known, it waited at its worker beside running tasks.
                yield self._instant(f"task {run.task}: {run.state}", end, process.number)
                return
            length = end - begin
            lane, begin = process.lane(begin, round(run.slack * 1e6))
            threads, end = (lane,), begin + length
        args = brief or _args(run)
        for number, thread in enumerate(threads):
            start, new = process.take(thread, begin, end)
            if new:
                yield from _thread_names(process.number, thread)
            yield {
                "ph": "X",
                "name": clean(run.function),
                "cat": run.state,
                "ts": start,
                "dur": end - start,
                "pid": process.number,
                "tid": thread,
                # The first CPU has it all.
                "args": args if not number else {"task": run.task},
            }


def _name(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": clean(name)}}


def _thread_names(process: int, thread: int) -> Iterator[Event]:
    name = f"row {thread - _LANES + 1}" if thread >= _LANES else f"CPU {thread}"
    yield _name("thread_name", process, thread, name)
    yield {
        "ph": "M",
        "name": "thread_sort_index",
        "pid": process,
        "tid": thread,
        "args": {"sort_index": thread},
    }


def _args(run: Run) -> Event:
    """Return what Perfetto shows of a run that is selected."""
    args: Event = {
        "task": run.task,
        "attempt": run.attempt,
        "retry of": run.retry_of,
        "outcome": run.state,
        "request": clean(run.asked),
        "waited, s": round(run.waited, 6),
        "error": clean(run.failure.error),
        "message": clean(run.failure.message),
    }
    if run.usage is not None:
        args |= _used(run.usage.of_each[0])
    return {key: value for key, value in args.items() if value not in {"", 0} or key == "task"}


def _used(usage: MemberUsage) -> Event:
    """Return what Perfetto shows of what programs have used on one worker."""
    used: Event = {"CPU time, s": round(usage.cpu, 6)}
    if usage.measured_by != "none":
        used |= {"peak of memory, GB": usage.peak_memory, "measured by": usage.measured_by}
    return used


def trace(lines: Iterable[AnyLine], clocks: WorkerClocks | None = None) -> Iterator[str]:
    """Yield the text of a trace, piece by piece: a JSON object with one event a line.

    Args:
        clocks: by how much the clocks of workers differ, see `grain.facts.fold.Fold`.
    """
    tracer = Tracer(clocks)
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    before = ""
    for line in lines:
        for event in tracer.feed(line):
            yield before + _ENCODER.encode(event)
            before = ",\n"
    for event in tracer.end():
        yield before + _ENCODER.encode(event)
        before = ",\n"
    yield "\n]}\n"


_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
