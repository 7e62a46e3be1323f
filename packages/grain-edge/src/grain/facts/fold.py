"""`Fold`: tasks and their runs, put together from the lines of a log as they pass.

Rules:

1. A line is needed once: memory grows with the tasks that wait and run, not with the log.
2. All times are on one axis, by the writer's clock as it was set when the log began: after a
   `schema.ClockChanged` the change is subtracted. `Fold.clock_change` is the sum, which
   added to a time gives what clocks on the wall show at the end of the log.
3. A run lies within its *frame*: it begins when the writer gave it away or later, and ends when the
   writer learned of its end or sooner. Lines may be late: their own times count, not those around.
4. Workers' clocks differ from the writer's: the runs of a worker are moved all alike, by the
   difference that `WorkerClocks` has found. A run that is still outside of its frame is moved into
   it, and shortened only if it is too long.
5. The log has the length and the frame of brief runs, and not their place in there:
   `Run.slack` is by how much they may have been earlier.
6. While not all tasks have lines, the numbers of those that wait and run are those of the last
   `schema.StandingTasks`.
7. A torn log lacks lines: a run without its submission has an empty function name.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grain.eventlog.never_ran import CANCELLED, ENDED, NeverRan
from grain.eventlog.schema import (
    ClockChanged,
    LogStarted,
    RunEnded,
    StandingTasks,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
)
from grain.eventlog.usage import RunMember
from grain.facts.clocks import WorkerClocks, is_only_length
from grain.facts.rows import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.eventlog.schema import AnyLine, WorkerLeft
    from grain.facts.rows import Run


class Fold:
    """The tasks of a log that are open, from its lines in their order.

    Args:
        clocks: by how much the clocks of workers differ, from `clocks_of` the same log; without,
            they are found as the lines pass, and the first runs of a worker are less exact.

    Attributes:
        clock_change: seconds that were added to the writer's clock in the course of the log.
        waiting, running: how many tasks wait and run, by function.
    """

    def __init__(self, clocks: WorkerClocks | None = None) -> None:
        self.clocks = WorkerClocks() if clocks is None else clocks
        self._learns = clocks is None
        self.never_ran = NeverRan()
        self.first: float | None = None
        self.now = 0.0
        self.clock_change = 0.0
        # By the lines of single tasks; a `StandingTasks` takes their place for as long as it holds.
        self._listed: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        self._listed_open = [0, 0]
        self.waiting, self.running = self._listed
        self._stands: tuple[int, int] | None = None
        self._open: dict[int, Task] = {}
        # Requests are equal for thousands of tasks: one object for each.
        self._requests: dict[tuple[tuple[str, float], ...], dict[str, float]] = {}

    @property
    def open(self) -> tuple[int, int]:
        """The numbers of tasks that wait and run, of all functions."""
        waiting, running = self._listed_open if self._stands is None else self._stands
        return waiting, running

    def advance(self, line: AnyLine) -> float:
        """Return the time of a line on the axis of the log; it never goes back."""
        if isinstance(line, ClockChanged):
            self.clock_change += line.by
            if self._learns:
                self.clocks.reset_all()
        time = line.time - self.clock_change
        if self.first is None:
            self.first = self.now = time
        # A clock can be set back without notice.
        self.now = max(self.now, time)
        return self.now

    def feed(self, line: AnyLine) -> Run | None:
        """Take the next line; return the run that ends with it."""
        now = self.advance(line)
        if isinstance(line, TaskSubmitted):
            self._remove(line.task)  # a number that is used twice
            # Of very many tasks that wait, some lines come late.
            since = max(min(line.time - self.clock_change, now), self.first or 0.0)
            self._open[line.task] = self._submitted(line, since)
            self._count(line.function, waiting=1)
        elif isinstance(line, TaskStarted):
            task = self._task(line.task)
            if task.started is None:
                self._count(task.function, waiting=-1, running=1)
            # Of brief tasks, this line comes as late as that of the end.
            given = min(line.time - self.clock_change, now)
            self._open[line.task] = replace(
                task,
                started=max(given, task.queued),
                members=line.members or (line.worker,),
                alternative=line.alternative,
            )
        elif isinstance(line, RunEnded):
            return self._ended(line, now)
        elif isinstance(line, StandingTasks):
            self._stand(line)
        elif isinstance(line, LogStarted):
            # A mission is informed of the workers of others when they take a task of it.
            self.never_ran.all_workers = not line.address
        elif isinstance(line, WorkerJoined):
            self.never_ran.offered(line.resources)
            if self._learns:
                self.clocks.reset(line.worker)
        return None

    def last_there(self, left: WorkerLeft) -> float:
        """Return when a worker was there for the last time, by the line that it has left.

        A lost worker was lost before that was known: it offered nothing from then on. Of a log
        without that time it is the line's.
        """
        if left.heard is None:
            return self.now
        return max(self.first or 0.0, min(left.heard - self.clock_change, self.now))

    def open_task(self, number: int) -> Task | None:
        """Return a task that waits or runs; None if it is not open."""
        return self._open.get(number)

    def open_tasks(self) -> Iterator[Task]:
        """Yield the tasks that wait or run, the oldest first."""
        return iter(self._open.values())

    def _task(self, number: int) -> Task:
        task = self._open.get(number)
        if task is None:  # its submission was torn, or stood in a part that was deleted
            task = Task(number=number, submitted=self.now, queued=self.now)
            self._open[number] = task
            self._count("", waiting=1)
        return task

    def _remove(self, number: int) -> None:
        task = self._open.pop(number, None)
        if task is not None and task.started is None:
            self._count(task.function, waiting=-1)
        elif task is not None:
            self._count(task.function, running=-1)

    def _stand(self, line: StandingTasks) -> None:
        """Take the numbers of open tasks, of which some have no lines; or have lines again."""
        if not line.functions:
            (self.waiting, self.running), self._stands = self._listed, None
            return
        self.waiting, self.running = Counter(), Counter()
        for one in line.functions:
            self.waiting[one.function] += one.waiting + one.ahead + one.blocked
            self.running[one.function] += one.running
        self._stands = self.waiting.total(), self.running.total()

    def _count(self, function: str, waiting: int = 0, running: int = 0) -> None:
        """Change the numbers of open tasks that have lines."""
        by_waiting, by_running = self._listed
        if waiting:
            by_waiting[function] += waiting
            self._listed_open[0] += waiting
        if running:
            by_running[function] += running
            self._listed_open[1] += running

    def _submitted(self, line: TaskSubmitted, since: float) -> Task:
        return Task(
            number=line.task,
            function=line.function,
            request=self._requests.setdefault(tuple(line.request.items()), line.request),
            asked=line.request_text,
            others=line.others,
            counts=line.members,
            after=line.after,
            retry_of=line.retry_of,
            submitted=since,
            queued=since,
        )

    def _ended(self, line: RunEnded, now: float) -> Run:
        task = self._task(line.task)
        if task.alternative != line.alternative:
            task = replace(task, alternative=line.alternative)
        started, ended = self._framed(line, task, now)
        slack = 0.0
        if started is not None and task.started is not None and is_only_length(line):
            slack = max(0.0, started - task.started)
        seconds = 0.0 if started is None else ended - started
        if line.usage is not None and line.started is not None and line.ended is not None:
            seconds = max(0.0, line.ended - line.started)  # its worker has said so
        own = RunMember(worker=line.worker, host=line.host, cpus=line.cpus)
        run = task.run(
            cores=line.cores,
            attempt=line.attempt,
            state=line.outcome,
            final=line.final,
            members=line.members or (own,),
            started=started,
            ended=ended,
            seconds=seconds,
            slack=slack,
            usage=line.usage,
            failure=line.failure,
            call=line.call,
            exceeded=line.exceeded,
            learned=line.learned,
        )
        if line.learned is not None:
            run = replace(run, request={**run.request, "Memory": line.learned.amount})
        if line.final:
            if run.never_ran:
                how = CANCELLED if line.outcome == "cancelled" else ENDED
                self.never_ran.add_any(task.alternatives, how)
            self._remove(line.task)
            return run
        if task.started is not None:
            self._count(task.function, waiting=1, running=-1)
        self._open[line.task] = replace(
            task,
            queued=now,
            started=None,
            members=(),
            ran_before=task.ran_before or started is not None,
            in_vain=task.in_vain or line.outcome != "returned",
        )
        return run

    def _framed(self, line: RunEnded, task: Task, now: float) -> tuple[float | None, float]:
        """Return when a run started and ended, within its frame."""
        if line.started is None:
            return task.started, now
        begin = task.queued if task.started is None else task.started
        started = line.started - self.clock_change
        ended = now if line.ended is None else line.ended - self.clock_change
        seconds = max(0.0, ended - started)
        if line.usage is not None and not is_only_length(line):  # its worker has said so
            if self._learns and task.started is not None:
                self.clocks.learn(line.worker, now, begin - started, now - ended)
            started += self.clocks.correction(line.worker, now)
        # The worker's clock is right about the length, and may be wrong about the rest.
        started = min(max(started, begin), now - seconds)
        return max(begin, started), min(now, max(begin, started) + seconds)
