"""`Workload`: the tasks of a log, with what each waits for, and the workers that were there."""

from __future__ import annotations

from bisect import bisect_right
from functools import reduce
from operator import and_, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from grain.eventlog.never_ran import WAITING
from grain.eventlog.schema import (
    BriefTasks,
    LogStarted,
    StandingTasks,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
)
from grain.facts.fold import Fold
from grain.resource import ZERO, Either, Gang, Memory, Resource, WTime, from_data
from grain.whatif.brief import Stretch
from grain.whatif.errors import WhatIfError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from grain.eventlog.schema import AnyLine
    from grain.facts.rows import Run
    from grain.whatif.brief import Bundle

MOST_TASKS = 2_000_000
"""The most tasks of a workload; each takes some 500 bytes."""

# A task that waits for none is taken to follow the submission before it, unless that is longer ago
# than _BURST, and something ended within _PROMPTLY before it: then it follows that.
_BURST, _PROMPTLY = 1.0, 0.1


class Stay(NamedTuple):
    """A worker from when it joins until it leaves.

    Attributes:
        resources: what it offers.
        joins: when, in seconds since the log began.
        leaves: when it left; None if it stayed until the last task ended.
        lost: True if it left against its will, with its runs.
        ends: when its job ends; None if it has no end.
        heard: for a lost worker, its last sign, if that is known.
        took: the tasks, by index, whose runs were lost with it.
    """

    name: str
    resources: Resource
    joins: float
    leaves: float | None = None
    lost: bool = False
    ends: float | None = None
    heard: float | None = None
    took: tuple[int, ...] = ()


class LoggedRun(NamedTuple):
    """A run of a task.

    Attributes:
        seconds: how long it had its resources; while the log is read, without ``before``.
        crashed: True if its process died, and the task runs again.
        before: the seconds from the line of its start until its tasklet began.
    """

    seconds: float
    crashed: bool = False
    before: float = 0.0


class LoggedTask:
    """A task of a workload.

    Attributes:
        function: the name of its function.
        request: what it asks for.
        after: the tasks, by index, after whose ends it is submitted.
        follows: the task, by index, after whose submission it is submitted; None if ``after`` is
            not empty, if it is the first, or where the log has only the time of its submission.
        delay: the seconds from then to its submission.
        runs: its runs, in order; none if it never ran.
        waited: the seconds until its end without any run.
        failed: True if it ended with an exception.
        peak_memory: the largest memory that its last run used, in GB; None if it was not measured.
        urgency: larger goes first among tasks that ask for the same.
        priority: larger goes first.
        count: how many tasks it stands for: brief ones run one after the other as one.
    """

    __slots__ = (
        "after", "count", "delay", "failed", "follows", "function", "peak_memory", "priority",
        "request", "runs", "urgency", "waited",
    )  # fmt: skip

    def __init__(self, function: str, request: Resource) -> None:
        self.function = function
        self.request = request
        self.after: tuple[int, ...] = ()
        self.follows: int | None = None
        self.delay = 0.0
        self.runs: tuple[LoggedRun, ...] = ()
        self.waited = 0.0
        self.failed = False
        self.peak_memory: float | None = None
        self.urgency = 0.0
        self.priority = 0
        self.count = 1


class Workload(NamedTuple):
    """The tasks of a log and its workers; times are seconds since the log began.

    Attributes:
        name: the name of the mission.
        tasks: the tasks in the order of their submission; each attempt at one counts.
        repeated: how many of these are further attempts at a task that failed.
        stays: the workers that were there.
        makespan: the seconds from the first submission to the end of the last task that ran.
        guessed: the number of tasks that had not ended, whose run times are means.
        unknown: the number of tasks that had not ended, and of whose function nothing has, so they
            are left out.
        never_ran: the tasks that never ran, so they are left out: how many, by reason.
        all_workers: True if the log has all workers that were there. That of a mission which others
            can join has a worker from the first task of the mission on that it took.
        brief: the number of tasks that the log counts and does not list.
        ignored: kinds of resources that are not known here, or of the whole cluster: a log does not
            say how many there were.
    """

    name: str
    id: str
    tasks: list[LoggedTask]
    repeated: int
    stays: list[Stay]
    makespan: float
    guessed: int
    unknown: int
    ignored: tuple[str, ...]
    brief: int = 0
    never_ran: dict[str, int] = {}  # noqa: RUF012 - it is never changed
    all_workers: bool = True

    @property
    def number(self) -> int:
        """The number of its tasks, of which a bundle of brief ones stands for several."""
        return sum(task.count for task in self.tasks) - self.repeated


def workload_of(lines: Iterable[AnyLine]) -> Workload:
    """Return the workload of a log.

    Raises:
        WhatIfError: it has no tasks, or too many.
    """
    builder = WorkloadBuilder()
    for line in lines:
        builder.feed(line)
    return builder.workload()


class _Open:
    """A task that has not ended.

    Attributes:
        given: when it was given to its worker, since the log began; None while it waits.
    """

    __slots__ = ("given", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.given: float | None = None


class WorkloadBuilder:
    """A workload while its log is read: `feed` takes the lines in order.

    Args:
        most: the number of tasks that are too many beyond it.
    """

    def __init__(self, most: int = MOST_TASKS) -> None:
        self._most = most
        self._fold = Fold()
        self._start: LogStarted | None = None
        self._requests = Requests()
        self._tasks: list[LoggedTask] = []
        self._repeated = 0
        self._indices: dict[int, int] = {}
        self._submitted: list[float] = []
        # When the tasks with lines were submitted, each with its index.
        self._listed: list[tuple[float, int]] = []
        self._ended: list[float | None] = []
        self._open: dict[int, _Open] = {}
        # The last task that was submitted, and the last one that ended, by index.
        self._last: int | None = None
        self._last_end: int | None = None
        self._attempts: dict[int, int] = {}  # the last one at a task, by the first
        self._stays: dict[str, Stay] = {}
        self._past_stays: list[Stay] = []
        # The runs that were lost, by worker: when they were given to it, and their tasks.
        self._lost: dict[str, list[tuple[float, int]]] = {}
        self._last_outcome = 0.0
        self._brief = 0
        # With the index of its task, each.
        self._runs: list[tuple[int, LoggedRun]] = []
        self._stretch = Stretch(0.0, None)
        # The line that ends the stretch: what it counts stands behind, at the same time.
        self._standing: tuple[float, StandingTasks] | None = None

    def feed(self, line: AnyLine) -> None:
        """Take a line.

        Raises:
            WhatIfError: there are too many tasks.
        """
        run = self._fold.feed(line)
        first = self._fold.first or 0.0
        now = self._fold.now - first
        if self._standing is not None and now > self._standing[0]:
            self._end_stretch(*self._standing)
        if run is not None:
            self._on_ended(run, now)
        elif isinstance(line, TaskSubmitted):
            self._on_submitted(line, now)
        elif isinstance(line, TaskStarted):
            task = self._open.get(line.task)
            if task is not None:
                task.given = now
        elif isinstance(line, WorkerJoined):
            if line.worker not in self._stays:
                self._stays[line.worker] = Stay(
                    line.worker,
                    self._requests.of(line.resources),
                    now,
                    ends=None if line.ends is None else now + max(0.0, line.ends - line.time),
                )
        elif isinstance(line, WorkerLeft):
            self._on_left(line, now)
        elif isinstance(line, StandingTasks):
            self._standing = now, line
        elif isinstance(line, BriefTasks) and line.tasks:
            self._brief += line.tasks
            began = line.began - self._fold.clock_change - first
            self._stretch.count(line, max(0.0, began), now)
            self._last_outcome = max(self._last_outcome, now)
        elif isinstance(line, LogStarted):
            self._start = self._start or line

    def workload(self) -> Workload:
        """Return the workload.

        Raises:
            WhatIfError: it has no tasks.
        """
        start = self._start
        name = start.name if start is not None else ""
        if self._standing is not None:
            self._end_stretch(*self._standing)
        self._add_bundles(self._stretch.bundles({}))
        if not self._tasks:
            raise WhatIfError(f"the log of {name!r} has no tasks, so there is nothing to replay")
        self._set_runs()
        guessed, unknown = self._guess()
        stays = [self._needed(stay) for stay in (*self._past_stays, *self._stays.values())]
        return Workload(
            name=name,
            id=start.id if start is not None else "",
            tasks=self._tasks,
            repeated=self._repeated,
            stays=sorted(stays, key=lambda stay: stay.joins),
            makespan=max(0.0, self._last_outcome - min(self._submitted)),
            guessed=guessed,
            unknown=unknown,
            ignored=tuple(sorted(self._requests.ignored)),
            brief=self._brief,
            never_ran=self._fold.never_ran.reasons(),
            all_workers=self._fold.never_ran.all_workers,
        )

    # ---- lines

    def _on_left(self, line: WorkerLeft, now: float) -> None:
        stay = self._stays.pop(line.worker, None)
        if stay is not None:
            last = self._fold.last_there(line) - (self._fold.first or 0.0)
            heard = max(stay.joins, last) if line.heard is not None else None
            self._past_stays.append(stay._replace(leaves=now, lost=bool(line.why), heard=heard))

    def _end_stretch(self, until: float, standing: StandingTasks) -> None:
        """Take the brief tasks of a stretch that is over; another one begins."""
        runs, bundles = self._stretch.ends(until, standing)
        for index, seconds in runs:
            task, run = self._runs[index]
            if run.seconds < seconds:
                self._runs[index] = task, LoggedRun(seconds, run.crashed)
        self._add_bundles(bundles)
        self._stretch, self._standing = Stretch(until, standing), None

    def _add_bundles(self, bundles: Iterable[Bundle]) -> None:
        """Take brief tasks without lines: they follow the last submission with a line."""
        for bundle in bundles:
            line = bundle.line
            task = LoggedTask(line.function, self._requests.of(line.request))
            task.count, task.delay = bundle.tasks, bundle.submitted
            if at := bisect_right(self._listed, bundle.submitted, key=itemgetter(0)):
                submitted, task.follows = self._listed[at - 1]
                task.delay -= submitted
            task.runs = (LoggedRun(bundle.seconds),)
            self._add(task, bundle.submitted)
            self._ended[-1] = bundle.submitted + bundle.seconds

    def _add(self, task: LoggedTask, submitted: float) -> None:
        if len(self._tasks) >= self._most:
            raise WhatIfError(
                f"the log has more than {self._most:,} tasks, which a replay cannot hold in "
                "memory; choose the log of a smaller mission"
            )
        self._tasks.append(task)
        self._submitted.append(submitted)
        self._ended.append(None)

    def _on_submitted(self, line: TaskSubmitted, now: float) -> None:
        task = LoggedTask(line.function, self._requests.asked(line))
        index = len(self._tasks)
        self._repeated += bool(line.retry_of)
        task.urgency, task.priority = line.urgency, line.priority
        self._wire(task, line, now)
        self._add(task, now)
        self._listed.append((now, index))
        self._indices[line.task] = index
        self._open[line.task] = _Open(index)
        self._last = index

    def _wire(self, task: LoggedTask, line: TaskSubmitted, now: float) -> None:
        """Find out after what a task was submitted, and how long after it."""
        numbers = line.after
        if line.retry_of:
            numbers = (*numbers, self._attempts.get(line.retry_of, line.retry_of))
            self._attempts[line.retry_of] = line.task
        indices = map(self._indices.get, numbers)
        after = {i: end for i in indices if i is not None and (end := self._ended[i]) is not None}
        last, last_end = self._last, self._last_end
        if not after and last is not None and last_end is not None:
            gap, end = now - self._submitted[last], self._ended[last_end]
            assert end is not None
            if gap > _BURST and end > self._submitted[last] and now - end < _PROMPTLY:
                after = {last_end: end}
        if after:
            task.after = tuple(after)
            task.delay = max(0.0, now - max(after.values()))
        elif last is not None:
            task.follows = last
            task.delay = max(0.0, now - self._submitted[last])
        else:
            task.delay = now

    def _on_ended(self, run: Run, now: float) -> None:
        opened = self._open.get(run.task)
        if opened is None:
            return  # its submission is not in the log
        ran = opened.given is not None or run.started is not None
        if ran and (run.final or run.state == "crashed"):
            first = self._fold.first or 0.0
            started = now if run.started is None else run.started - first
            given = started if opened.given is None else opened.given
            crashed = not run.final
            timed = LoggedRun(max(0.0, now - started), crashed, max(0.0, started - given))
            if run.started is not None and run.state == "value":
                self._stretch.take(run.function, run.seconds, len(self._runs))
            self._runs.append((opened.index, timed))
            if run.learned is not None:
                # The log has the most that it might get: a replay learns nothing.
                task = self._tasks[opened.index]
                by, amount = run.alternative or 0, run.learned.amount
                task.request = self._requests.with_memory(task.request, by, amount)
        if run.state == "lost":
            given = now if opened.given is None else opened.given
            self._lost.setdefault(run.worker, []).append((given, opened.index))
        opened.given = None
        if not run.final:
            return
        del self._open[run.task]
        task = self._tasks[opened.index]
        task.failed = run.state != "value"
        if run.usage is not None and run.usage.measured_by != "none":
            task.peak_memory = run.usage.peak_memory
        self._ended[opened.index] = now
        if run.never_ran:
            # It was given up: that ends nothing, and lets nothing begin that does not say so.
            task.waited = max(0.0, now - self._submitted[opened.index])
            return
        self._last_outcome = now
        self._last_end = opened.index

    def _needed(self, stay: Stay) -> Stay:
        """Return a stay without an end after that of the last task: it lasts while it is needed."""
        left = self._last_outcome if stay.leaves is None else stay.leaves
        if stay.ends is not None and left > stay.ends:
            stay = stay._replace(ends=None)  # it outlived its job, or a clock is wrong
        if left < self._last_outcome:
            if not stay.lost:
                return stay
            lost = self._lost.get(stay.name, ())
            # The line of its first task may come before that of the worker.
            took = (task for given, task in lost if stay.joins - _PROMPTLY <= given <= left)
            return stay._replace(took=tuple(took))
        return stay._replace(leaves=None, lost=False, heard=None)

    # ---- run times

    def _set_runs(self) -> None:
        """Give the tasks their runs.

        A task that is sent ahead waits on its worker after the line of its start, which must not
        count: so what lies before a run counts only as far as it is usual.
        """
        earlier = sorted(run.before for _, run in self._runs)
        most = 3 * earlier[len(earlier) // 10] if earlier else 0.0
        for index, run in self._runs:
            task = self._tasks[index]
            seconds = run.seconds + min(run.before, most)
            task.runs = (*task.runs, LoggedRun(seconds, run.crashed))

    def _guess(self) -> tuple[int, int]:
        """Give the tasks that have not ended the mean run time of their function.

        Tasks that no worker had room for never ran.

        Returns:
            The number of these tasks, and of the tasks without a known run of their function, which
            have no runs and so end at once.
        """
        if not self._open:
            return 0, 0
        sums: dict[str, tuple[int, float]] = {}
        for task in self._tasks:
            if task.runs and not task.failed:
                count, seconds = sums.get(task.function, (0, 0.0))
                sums[task.function] = count + task.count, seconds + task.runs[-1].seconds
        now = self._fold.now - (self._fold.first or 0.0)
        unknown = hopeless = 0
        waiting = {
            task.number: task.alternatives
            for task in self._fold.open_tasks()
            if task.started is None and not task.ran_before
        }
        never_ran = self._fold.never_ran
        for number, opened in self._open.items():
            task = self._tasks[opened.index]
            alternatives = waiting.get(number)
            if alternatives is not None and not any(map(never_ran.fits, alternatives)):
                never_ran.add_any(alternatives, WAITING)
                hopeless += 1
                continue
            count, seconds = sums.get(task.function, (0, 0.0))
            so_far = 0.0 if opened.given is None else now - opened.given
            if count or so_far:
                mean = seconds / count if count else 0.0
                task.runs = (*task.runs, LoggedRun(max(mean, so_far)))
            else:
                unknown += 1
        self._last_outcome = max(self._last_outcome, now)
        return len(self._open) - hopeless - unknown, unknown


def changed(request: Resource, change: Resource) -> Resource:
    """Return a request with other kinds, and another number of workers if there is one."""
    made = reduce(and_, {**request.parts(), **change.parts()}.values(), ZERO)
    several = change if isinstance(change, Gang) else request
    return Gang(several.count, made, several.same) if isinstance(several, Gang) else made


def one_of(alternatives: Iterable[Resource], prefer: float) -> Resource:
    """Return a request for one of several resources, some of which may be equal."""
    distinct = tuple(dict.fromkeys(alternatives))
    if len(distinct) > 1:
        return Either(*distinct, prefer=prefer)
    return distinct[0] if distinct else ZERO


class Requests:
    """Resources from the amounts of a log; equal amounts are one object.

    Attributes:
        ignored: kinds that are not known here.
    """

    def __init__(self) -> None:
        self.ignored: set[str] = set()
        self._by_amounts: dict[tuple[tuple[str, float], ...], Resource] = {}
        self._several: dict[Hashable, Resource] = {}

    def of(self, amounts: Mapping[str, float]) -> Resource:
        """Return the resource of some amounts, without the kinds that are not known here."""
        key = tuple(amounts.items())
        resource = self._by_amounts.get(key)
        if resource is None:
            resource = self._by_amounts[key] = self._resource(amounts)
        return resource

    def asked(self, line: TaskSubmitted) -> Resource:
        """Return what a task asks for, without alternatives of which no kind is known here."""
        first = self.of(line.request)
        if not line.others and not line.members:
            return first
        amounts = tuple(tuple(one.items()) for one in (line.request, *line.others))
        key = line.prefer, line.members, *amounts
        asked = self._several.get(key)
        if asked is None:
            each = [first, *map(self.of, line.others)]
            counts = line.members or (1,) * len(each)
            some = [
                one if count == 1 else Gang(count, one)
                for count, one in zip(counts, each, strict=False)
                if one != ZERO
            ]
            # Where the first one is not known, no task waits for it.
            asked = self._several[key] = one_of(some, line.prefer if first != ZERO else 0.0)
        return asked

    def with_memory(self, request: Resource, by: int, amount: float) -> Resource:
        """Return a request with as many GB in an alternative as its group asked for in a run."""
        key = id(request), by, amount  # requests are kept here, so that no other has this id
        found = self._several.get(key)
        if found is None:
            each = [
                changed(one, Memory(amount)) if number == by else one
                for number, one in enumerate(request.alternatives())
            ]
            prefer = request.prefer if isinstance(request, Either) else 0.0
            found = self._several[key] = one_of(each, prefer)
        return found

    def _resource(self, amounts: Mapping[str, float]) -> Resource:
        resource = ZERO
        for kind, amount in amounts.items():
            if kind == "Licences":
                self.ignored.add(kind)
                continue
            try:
                if kind == "WTime":
                    part: Resource = WTime(T=amount)
                else:
                    # Kinds that are counted take no floats.
                    part = from_data({kind: int(amount) if amount == int(amount) else amount})
            except (LookupError, OverflowError, TypeError, ValueError):
                self.ignored.add(kind)
            else:
                resource = resource & part
        return resource
