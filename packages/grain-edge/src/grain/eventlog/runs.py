"""The runs of tasks, put together from the lines of a log as they pass.

Rules:

1. A line is needed once: memory grows with the tasks that wait and run, not with the log.
2. All times are on one axis, by the writer's clock as it was set when the log began: after a
   `schema.ClockChanged` the change is subtracted. `RunAssembly.clock_change` is the sum, which
   added to a time gives what clocks on the wall show at the end of the log.
3. A run lies within its *frame*: it begins when the writer gave it away or later, and ends when the
   writer learned of its end or sooner. Lines may be late: their own times count, not those around.
4. Workers' clocks differ from the writer's: the runs of a worker are moved all alike, by the
   difference that `WorkerClocks` has found. A run that is still outside of its frame is moved into
   it, and shortened only if it is too long.
5. The log has the length and the frame of brief runs, and not their place in there:
   `EndedRun.slack` is by how much they may have been earlier.
6. While not all tasks have lines, the numbers of those that wait and run are those of the last
   `schema.StandingTasks`.
7. A torn log lacks lines: a run without its submission has an empty function name.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from grain.eventlog.schema import AnyLine, WorkerLeft

VALUE = "value"


class Submission(NamedTuple):
    """A task as it was submitted.

    Attributes:
        request: amounts by kind on each worker; of alternatives those of the first one.
        after: the tasks that its branch has awaited, or whose values it takes.
        retry_of: the task of which this is a further attempt; 0 if it is the first.
    """

    task: int
    function: str
    request: Mapping[str, float]
    request_text: str
    after: tuple[int, ...]
    retry_of: int
    time: float
    others: tuple[Mapping[str, float], ...] = ()
    members: tuple[int, ...] = ()

    def alternative(self, index: int) -> Mapping[str, float]:
        """Return the amounts of an alternative, counted from 0."""
        return self.others[index - 1] if 0 < index <= len(self.others) else self.request

    def workers(self, index: int) -> int:
        """Return the number of workers that an alternative takes at once."""
        return self.members[index] if index < len(self.members) else 1


class EndedRun(NamedTuple):
    """A run of a task that has ended, or a task that ended before any run.

    Attributes:
        queued: since when it waited for this run: its submission, or the end of its last run.
        started: when the run began, between ``queued`` and ``ended``; None if it never did.
        slack: seconds by which the run may have been earlier, where the log does not say when it
            was.
        ran_before: True if an earlier run of the task had begun.
        in_vain: True if an earlier run of it crashed or was lost.
        length: the seconds that its worker measured; None if the log does not have them.
    """

    submission: Submission
    line: RunEnded
    queued: float
    started: float | None
    ended: float
    slack: float = 0.0
    ran_before: bool = False
    in_vain: bool = False
    length: float | None = None

    @property
    def seconds(self) -> float:
        """The length of the run; 0 if it never began.

        It may be more than from ``started`` to ``ended``: of brief runs, the writer of the log may
        learn of the start and of the end at once.
        """
        if self.length is not None:
            return self.length
        return 0.0 if self.started is None else self.ended - self.started

    @property
    def waited(self) -> float:
        """The time that the task waited for the run, or for its end without any."""
        return (self.ended if self.started is None else self.started) - self.queued

    @property
    def request(self) -> Mapping[str, float]:
        """The amounts that the task asked for on each worker, by the alternative that it took."""
        return self.submission.alternative(self.line.alternative)

    @property
    def cores(self) -> float:
        """The cores that the task has on all of its workers."""
        return self.line.cores or self.request.get("Cores", 0.0) * self.workers

    @property
    def own_cores(self) -> float:
        """Those of its own worker, which is the first one of several."""
        return self.cores / self.workers

    @property
    def workers(self) -> int:
        """The number of workers that it has at once."""
        return self.submission.workers(self.line.alternative)

    @property
    def members(self) -> tuple[RunMember, ...]:
        """Its workers, as far as the log names them. The first one is the worker that ran it."""
        line = self.line
        own = RunMember(worker=line.worker, host=line.host, cpus=line.cpus)
        return line.members or (own,)

    @property
    def core_seconds(self) -> float:
        """The cores that it has, for as long as it ran."""
        return self.cores * self.seconds

    @property
    def wasted(self) -> bool:
        """True if the run brought no value."""
        return self.line.outcome != VALUE

    @property
    def is_retry(self) -> bool:
        """True if an earlier run of the task, or an earlier attempt at it, was in vain."""
        return self.in_vain or self.submission.retry_of != 0

    @property
    def reported(self) -> bool:
        """True if its worker has reported it; else it may not have begun there, nor gone on."""
        return self.line.usage is not None or self.line.outcome in (VALUE, "error")

    @property
    def never_ran(self) -> bool:
        """True if the task is over, and no run of it has ever begun."""
        return self.started is None and self.line.final and not self.ran_before


class OpenTask:
    """A task that waits or runs.

    Attributes:
        queued: since when it waits, or waited for the run that goes on.
        started: since when it runs; None while it waits.
        request: the amounts that it asks for on each worker. If it has alternatives, these are the
            amounts of the last one by which it ran.
        workers: the number of workers that it takes at once, likewise.
        members: the names of its workers, as far as the log names them; none while it waits.
        ran_before: True if an earlier run of it had begun.
        in_vain: True if one of these crashed or was lost.
    """

    __slots__ = (
        "in_vain", "members", "queued", "ran_before", "request", "started", "submission", "workers",
    )  # fmt: skip

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.request = submission.request
        self.workers = submission.workers(0)
        self.queued = submission.time
        self.started: float | None = None
        self.members: tuple[str, ...] = ()
        self.ran_before = self.in_vain = False

    @property
    def worker(self) -> str:
        """The name of the worker that runs it; empty while it waits."""
        return self.members[0] if self.members else ""


class OpenCounts:
    """The open tasks of one function, or of all.

    Attributes:
        waiting: those that wait.
        running: those that run.
    """

    __slots__ = ("running", "waiting")

    def __init__(self, waiting: int = 0, running: int = 0) -> None:
        self.waiting = waiting
        self.running = running


NO_TASKS = OpenCounts()
"""That of a function without open tasks: it is never changed."""


class RunAssembly:
    """The tasks of a log that are open, from its lines in their order.

    Args:
        clocks: by how much the clocks of workers differ, from `clocks_of` the same log; without,
            they are found as the lines pass, and the first runs of a worker are less exact.

    Attributes:
        clock_change: seconds that were added to the writer's clock in the course of the log.
        by_function: the numbers of open tasks of functions.
        total: those of all functions.
    """

    def __init__(self, clocks: WorkerClocks | None = None) -> None:
        self.clocks = WorkerClocks() if clocks is None else clocks
        self._learns = clocks is None
        self.never_ran = NeverRan()
        self.first: float | None = None
        self.now = 0.0
        self.clock_change = 0.0
        # By the lines of single tasks; and by the last `StandingTasks`, where it holds.
        self._listed: dict[str, OpenCounts] = {}
        self._listed_total = OpenCounts()
        self.by_function = self._listed
        self.total = self._listed_total
        self._open: dict[int, OpenTask] = {}
        # Requests are equal for thousands of tasks: one object for each.
        self._requests: dict[tuple[tuple[str, float], ...], dict[str, float]] = {}

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

    def feed(self, line: AnyLine) -> EndedRun | None:
        """Take the next line; return the run that ends with it."""
        now = self.advance(line)
        if isinstance(line, TaskSubmitted):
            self._remove(line.task)  # a number that is used twice
            # Of very many tasks that wait, some lines come late.
            since = max(min(line.time - self.clock_change, now), self.first or 0.0)
            self._open[line.task] = OpenTask(self._submission(line, since))
            self._count(line.function, waiting=1)
        elif isinstance(line, TaskStarted):
            task = self._task(line.task)
            if task.started is None:
                self._count(task.submission.function, waiting=-1, running=1)
            # Of brief tasks, this line comes as late as that of the end.
            given = min(line.time - self.clock_change, now)
            task.started = max(given, task.queued)
            task.members = line.members or (line.worker,)
            task.request = task.submission.alternative(line.alternative)
            task.workers = task.submission.workers(line.alternative)
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

    def open_task(self, number: int) -> OpenTask | None:
        """Return a task that waits or runs; None if it is not open."""
        return self._open.get(number)

    def open_tasks(self) -> Iterator[OpenTask]:
        """Yield the tasks that wait or run, the oldest first."""
        return iter(self._open.values())

    def _task(self, number: int) -> OpenTask:
        task = self._open.get(number)
        if task is None:  # its submission was torn, or stood in a part that was deleted
            unknown = Submission(number, "", {}, "", (), 0, self.now)
            task = self._open[number] = OpenTask(unknown)
            self._count("", waiting=1)
        return task

    def _remove(self, number: int) -> None:
        task = self._open.pop(number, None)
        if task is not None and task.started is None:
            self._count(task.submission.function, waiting=-1)
        elif task is not None:
            self._count(task.submission.function, running=-1)

    def _stand(self, line: StandingTasks) -> None:
        """Take the numbers of open tasks, of which some have no lines; or have lines again."""
        if not line.functions:
            self.by_function, self.total = self._listed, self._listed_total
            return
        self.by_function = {
            one.function: OpenCounts(one.waiting + one.ahead + one.blocked, one.running)
            for one in line.functions
        }
        counts = self.by_function.values()
        self.total = OpenCounts(sum(c.waiting for c in counts), sum(c.running for c in counts))

    def _count(self, function: str, waiting: int = 0, running: int = 0) -> None:
        """Change the numbers of open tasks that have lines."""
        self._listed_total.waiting += waiting
        self._listed_total.running += running
        counts = self._listed.get(function)
        if counts is None:
            counts = self._listed[function] = OpenCounts()
        counts.waiting += waiting
        counts.running += running

    def _submission(self, line: TaskSubmitted, now: float) -> Submission:
        request = self._requests.setdefault(tuple(line.request.items()), line.request)
        return Submission(
            line.task,
            line.function,
            request,
            line.request_text,
            line.after,
            line.retry_of,
            now,
            line.others,
            line.members,
        )

    def _ended(self, line: RunEnded, now: float) -> EndedRun:
        task = self._task(line.task)
        started, ended = self._framed(line, task, now)
        slack = 0.0
        if started is not None and task.started is not None and _is_only_length(line):
            slack = max(0.0, started - task.started)
        length = None
        if line.usage is not None and line.started is not None and line.ended is not None:
            length = max(0.0, line.ended - line.started)  # its worker has said so
        run = EndedRun(
            task.submission, line, task.queued, started, ended, slack, task.ran_before,
            task.in_vain, length,
        )  # fmt: skip
        if line.final:
            if run.never_ran:
                how = CANCELLED if line.outcome == "cancelled" else ENDED
                self.never_ran.add_any((task.submission.request, *task.submission.others), how)
            self._remove(line.task)
            return run
        if task.started is not None:
            self._count(task.submission.function, waiting=1, running=-1)
        task.ran_before = task.ran_before or started is not None
        task.in_vain = task.in_vain or line.outcome != "returned"
        task.queued, task.started, task.members = now, None, ()
        return run

    def _framed(self, line: RunEnded, task: OpenTask, now: float) -> tuple[float | None, float]:
        """Return when a run started and ended, within its frame."""
        if line.started is None:
            return task.started, now
        begin = task.queued if task.started is None else task.started
        started = line.started - self.clock_change
        ended = now if line.ended is None else line.ended - self.clock_change
        seconds = max(0.0, ended - started)
        if line.usage is not None and not _is_only_length(line):  # its worker has said so
            if self._learns and task.started is not None:
                self.clocks.learn(line.worker, now, begin - started, now - ended)
            started += self.clocks.correction(line.worker, now)
        # The worker's clock is right about the length, and may be wrong about the rest.
        started = min(max(started, begin), now - seconds)
        return max(begin, started), min(now, max(begin, started) + seconds)


def _is_only_length(line: RunEnded) -> bool:
    """Return True if the log has the length of a run, and its end is when the writer learned of it.

    As for brief runs with a value that started no program (`grain.eventlog.usage.Report`).
    """
    return (
        line.outcome == VALUE
        and line.ended == line.time
        and not line.cpus
        and line.usage is not None
        and not line.usage.programs
    )


def clocks_of(lines: Iterable[AnyLine]) -> WorkerClocks:
    """Return by how much the clocks of workers differ, over the whole of a log.

    It looks at nothing else, and so takes less time than a `RunAssembly`.
    """
    clocks = WorkerClocks()
    given: dict[int, float] = {}
    now, change = 0.0, 0.0
    for line in lines:
        if isinstance(line, ClockChanged):
            change += line.by
            clocks.reset_all()
        time = line.time - change
        now = max(now, time)
        if isinstance(line, TaskStarted):
            given[line.task] = time
        elif isinstance(line, RunEnded):
            begin = given.pop(line.task, None)
            if begin is None or line.started is None or line.ended is None:
                continue
            if line.usage is not None and not _is_only_length(line):
                least = begin - (line.started - change)
                clocks.learn(line.worker, now, least, now - (line.ended - change))
        elif isinstance(line, WorkerJoined):
            clocks.reset(line.worker)
    return clocks


# ---- the clocks of workers

_ESTIMATES = 1000  # estimates of one worker


class _Estimate:
    """Bounds of the correction of one clock."""

    __slots__ = ("largest", "least")

    def __init__(self) -> None:
        self.least = -math.inf
        self.largest = math.inf

    def bind(self, least: float, largest: float) -> bool:
        """Narrow the bounds; return False, and do nothing, if nothing would be left."""
        if max(self.least, least) > min(self.largest, largest):
            return False
        self.least, self.largest = max(self.least, least), min(self.largest, largest)
        return True

    @property
    def correction(self) -> float:
        if self.least <= 0 <= self.largest:
            return 0.0
        if math.isinf(self.least) or math.isinf(self.largest):
            return self.least if math.isinf(self.largest) else self.largest
        return (self.least + self.largest) / 2


class WorkerClocks:
    """By how much the clocks of workers differ from the writer's of a log.

    A run cannot have begun before the writer gave it away, nor ended after the writer learned of
    its end. So each run bounds the *correction*, the seconds that its worker's clock has to be put
    forward:

        given - begun  <=  correction  <=  learned - ended

    where ``begun`` and ``ended`` are by the worker's clock. All runs of a worker together leave a
    narrow span: as wide as the fastest start and the fastest report were slow. If 0 is within it,
    the clocks are taken to agree, as those of one cluster do, and nothing is moved; otherwise the
    middle of the span is taken, whose error is half of its width at most.

    Where a run contradicts those before it, the worker's clock was set, or drifts: then a new
    estimate begins, which holds from this run on. It also begins where the writer's clock was set,
    and where the worker joins, which may be another one of the same name.

    A run costs two comparisons, and memory grows with estimates, a thousand per worker at most;
    runs beyond these do not count.
    """

    def __init__(self) -> None:
        self._since: dict[str, list[float]] = {}
        self._estimates: dict[str, list[_Estimate]] = {}
        self._closed: set[str] = set()

    def learn(self, worker: str, now: float, least: float, largest: float) -> None:
        """Record the bounds that a run sets.

        Args:
            now: when the writer learned of its end; these times do not go back.
            least: the least correction, with which the run begins when it was given away.
            largest: the largest one, with which it ends when the writer learned of it.
        """
        if least > largest:
            return  # it is longer than its frame: a clock was set meanwhile
        estimates = self._estimates.setdefault(worker, [])
        if estimates and worker not in self._closed and estimates[-1].bind(least, largest):
            return
        if len(estimates) >= _ESTIMATES:
            return
        self._closed.discard(worker)
        estimates.append(_Estimate())
        estimates[-1].bind(least, largest)
        self._since.setdefault(worker, []).append(now)

    def reset(self, worker: str) -> None:
        """Begin a new estimate with the next run of a worker."""
        self._closed.add(worker)

    def reset_all(self) -> None:
        """Begin a new estimate with the next run of each worker."""
        self._closed.update(self._estimates)

    def correction(self, worker: str, now: float) -> float:
        """Return the seconds to be added to times of a worker's clock.

        Args:
            now: when the writer learned of the run.
        """
        since = self._since.get(worker)
        if not since:
            return 0.0
        at = max(0, bisect_right(since, now) - 1)
        return self._estimates[worker][at].correction
