"""The runs of a log, each joined with how its task was submitted and started, in one pass.

A `RunJoiner` remembers only tasks that have not ended, so a log of any length can be read. Times
are by the clock that the log began with: where the clock of its writer was set, the lines after
that are corrected. Spans are never negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.eventlog.schema import (
    ClockChanged,
    LogEnded,
    LogStarted,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.eventlog.schema import AnyLine

UNKNOWN = TaskSubmitted(time=0.0, task=0, function="")
"""The submission of a task whose line is not in the log, as its file was removed."""


class OpenTask:
    """A task that has not ended.

    Attributes:
        submission: its line.
        submitted: when it was submitted.
        queued: since when it waits for the run that comes next, or has begun.
        began: when it was given to its worker; None while it waits.
        worker: the name of that worker; empty while it waits.
        runs: the number of its runs that have ended.
    """

    __slots__ = ("began", "queued", "runs", "submission", "submitted", "worker")

    def __init__(self, submission: TaskSubmitted, submitted: float) -> None:
        self.submission = submission
        self.submitted = self.queued = submitted
        self.began: float | None = None
        self.worker = ""
        self.runs = 0


class Run:
    """One run of a task, or the end of a task that never began.

    Attributes:
        submission: the line of its task; `UNKNOWN` if the log lacks it.
        end: the line of its end.
        submitted: when the task was submitted.
        queued: since when the task waited for this run: since it was submitted, or since its last
            run ended.
        began: when it was given to its worker; None if it never was.
        ended: when the writer of the log learned of its end.
    """

    __slots__ = ("began", "end", "ended", "queued", "submission", "submitted")

    def __init__(
        self,
        submission: TaskSubmitted,
        end: RunEnded,
        *,
        submitted: float,
        queued: float,
        began: float | None,
        ended: float,
    ) -> None:
        self.submission = submission
        self.end = end
        self.submitted = submitted
        self.queued = queued
        self.began = began
        self.ended = ended

    @property
    def begun(self) -> bool:
        """True if its tasklet began, or was given to a worker at least."""
        return self.began is not None or self.end.started is not None

    @property
    def seconds(self) -> float:
        """The seconds that it ran: by its worker if that has said so, else by the log."""
        end = self.end
        if end.started is not None and end.ended is not None:
            return max(0.0, end.ended - end.started)
        return self.held

    @property
    def held(self) -> float:
        """The seconds for which it had its resources, by the log; 0 if it never began."""
        return 0.0 if self.began is None else max(0.0, self.ended - self.began)

    @property
    def waited(self) -> float:
        """The seconds that its task waited for it."""
        until = self.ended if self.began is None else self.began
        return max(0.0, until - self.queued)

    @property
    def cores(self) -> float:
        """The number of cores that it had: those of its request."""
        return self.submission.request.get("Cores", 0.0)

    @property
    def core_hours(self) -> float:
        """The cores that it had, times the hours that it ran."""
        return self.cores * self.seconds / 3600


class RunJoiner:
    """Runs from lines: `feed` takes the lines of a log in order.

    Attributes:
        started: the first line of the log; None before it.
        ended: the last line; None before it, and of a log whose process was killed.
        open: the tasks that have not ended, by the id of their mission and their number.
        offset: the seconds by which the clock of the writer is ahead of what it was at first.
        last: the time of the last line.
    """

    def __init__(self) -> None:
        self.started: LogStarted | None = None
        self.ended: LogEnded | None = None
        self.open: dict[tuple[str, int], OpenTask] = {}
        self.offset = 0.0
        self.last = 0.0

    def feed(self, line: AnyLine) -> Run | None:
        """Take a line; return the run whose end it is, if it is one."""
        self.last = time = line.time - self.offset
        if isinstance(line, RunEnded):
            return self._run(line, time)
        if isinstance(line, TaskSubmitted):
            self.open[line.mission, line.task] = OpenTask(line, time)
        elif isinstance(line, TaskStarted):
            task = self.open.get((line.mission, line.task))
            if task is not None:
                task.began = time
                task.worker = line.worker
        elif isinstance(line, ClockChanged):
            # The line itself is by the new clock.
            self.offset += line.by
            self.last = line.time - self.offset
        elif isinstance(line, LogStarted):
            self.started = self.started or line
            self.ended = None  # a log that goes on was not at its end
        elif isinstance(line, LogEnded):
            self.ended = line
        return None

    def _run(self, end: RunEnded, time: float) -> Run:
        key = end.mission, end.task
        task = self.open.get(key)
        if task is None:
            task = OpenTask(UNKNOWN, time)
        run = Run(
            task.submission,
            end,
            submitted=task.submitted,
            queued=task.queued,
            began=task.began,
            ended=time,
        )
        if end.final:
            self.open.pop(key, None)
        else:
            task.queued = time
            task.began = None
            task.worker = ""
            task.runs += 1
        return run


def runs(lines: Iterable[AnyLine]) -> Iterator[Run]:
    """Yield the runs of a log, in the order of their ends."""
    joiner = RunJoiner()
    for line in lines:
        run = joiner.feed(line)
        if run is not None:
            yield run
