"""`RunLog`: what happens to the tasks of one mission, as lines of its event log.

Theory of operation. A line costs some microseconds, of which a task that does next to nothing
cannot spare any. So nothing is written or made for a task when it is submitted and when it starts:
the records that its executor has anyway keep the times (`grain.head.base.SubmittedTask`). A task
that ends with a value after a brief run without a program (its worker decides that:
`grain.eventlog.usage.Report`) is added to the count of its function and request; about every second
the counts are written, each as one `schema.BriefTasks`. All other tasks are *listed*: with a line
for the submission, for each start and for each end. The first `LISTED` that end in a second are
listed in any case, so only a mission with many more has counts.

The lines of a task that waits or runs are made `HELD` seconds after its submission and its start.
`WAITING` of the waiting tasks get them each second, as there may be a million brief ones, and
`LISTED` while others are counted. The rest get them when they turn out not to be brief, and so too
late.

While not all tasks have lines, a `schema.StandingTasks` says each second how many wait and run.

All lines are held here for as long, and so are written in the order of their times. `_flush` does
that, in the thread of the event loop. While nothing is held, no task is woken.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, deque
from functools import partial
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import msgspec
import trio

from grain.eventlog import schema
from grain.eventlog.causes import NO_FAILURE, RunFailure
from grain.eventlog.soft_stops import STOPPED_SOFTLY
from grain.eventlog.usage import RunMember, RunReport, decode_report
from grain.head.log_words import RequestWords, amounts, cores_held, one_line
from grain.head.messages import Crashed, Seated, Started, WorkerEnded, WorkerFacts
from grain.resource import ZERO, Either
from grain.worker.call import CallLabels
from grain.worker.errors import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Reversible, Sequence

    from grain.edge.messages import Message
    from grain.eventlog.schema import AnyLine
    from grain.eventlog.usage import Report
    from grain.head.base import CallKindNow, SubmittedTask
    from grain.head.messages import Crash
    from grain.resource import Resource

Outcome = Literal["value", "error", "cancelled", "crashed"]

_NO_CPUS: tuple[int, ...] = ()

HELD = 2.0
"""Seconds for which a line is held, so that lines of earlier times may come."""

LISTED = 100
"""Brief tasks that are listed each second all the same."""

WAITING = 2000
"""Tasks that are listed each second because they wait."""

_FUNCTIONS = 200  # in a `schema.StandingTasks`

_LOST = "its worker was lost"  # as the scheduler says it of a run that counts as a crash

_LATEST = 5.0  # seconds after which lines are written without being asked for

_time = attrgetter("time")


class Lines(Protocol):
    """The log as a writer of lines needs it: see `grain.eventlog.writer.LogWriter`."""

    def time_of(self, reading: float) -> float:
        """Return the time for a line, of a reading of the clock."""

    def clock_is_off(self) -> bool:
        """Return True if the clock of the machine was set, so that times will change."""

    def write(self, lines: Sequence[AnyLine]) -> None:
        """Take lines."""

    def remind(self, flush: Callable[[], None]) -> None:
        """Call a function in about a second, in the thread of the event loop."""


class BriefCount(msgspec.Struct, eq=False):
    """The brief tasks of one function that ask for the same, since counts were last written.

    Attributes:
        request: what they ask for.
        began: when the first task to end began to run, by the clock of the log.
        key: an object that those of the function mostly share, such as the function itself.
        tasks: how many there are.
        seconds: the lengths of their runs, added up.
        taken: the times from their submissions to their ends, likewise.
    """

    function: str
    request: Resource
    began: float
    key: object = None
    tasks: int = 0
    seconds: float = 0.0
    taken: float = 0.0


class CurrentRun(msgspec.Struct, eq=False):
    """The present run of a task that is not over, or its last one.

    Attributes:
        attempt: its number, from 1; 0 if none has begun.
        worker: the id of the worker; empty while the task waits.
        began: when the task was given to the worker, by the clock of the log.
        listed: True if there is a line of that.
        alternative: by which alternative of its request it has what it holds.
        others: the ids of the further workers that it has at once.
        crash: how the run ended, if it has crashed.
        report: of its worker on it, likewise.
        stopped_softly: True if a program of it has stopped softly, after a warning.
    """

    attempt: int = 0
    worker: str = ""
    began: float = 0.0
    listed: bool = False
    alternative: int = 0
    others: tuple[str, ...] = ()
    crash: Crash | None = None
    report: Report | RunReport = b""
    stopped_softly: bool = False

    @property
    def members(self) -> tuple[str, ...]:
        """The ids of all of its workers, if there are several."""
        return (self.worker, *self.others) if self.others else ()


class RunLog:
    """The part of a mission's log that its executor writes, and the mission itself.

    Args:
        clock: the clock of the executor, which the log has, too.

    Attributes:
        id: the mission's.
        labels: makes the labels of calls that failed.
        room: how many tasks are listed, brief or not, before brief ones are counted.
        last: the count to which the last brief task was added; most tasks are like the one before.
        now: the last reading of the clock, which holds for all that is noted. A caller that has a
            reading sets it; else `tick` reads the clock.
    """

    def __init__(
        self,
        log: Lines,
        id: str,  # noqa: A002 - its name
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self.id = id
        self.room = LISTED
        self.last = BriefCount("", ZERO, 0.0)
        self.now = -math.inf
        self._log = log
        self._clock = clock
        self._words = RequestWords()
        self._lines: list[AnyLine] = []
        # By identity, as to hash a request costs more than all else here: each keeps its request.
        self._counts: dict[tuple[str, int], BriefCount] = {}
        self._latest = -math.inf  # when lines are written without a reminder
        self.labels = CallLabels()
        # The workers by id, also workers that have left: their runs end later.
        self._workers: dict[str, WorkerFacts] = {}
        # The workers that have left, by id, with the time of the last sign of a lost one, by the
        # clock of the log.
        self._left: dict[str, float] = {}
        self._tasks: Mapping[int, SubmittedTask] = {}
        self._note_starts: Callable[[], None] = lambda: None
        self._call_of: Callable[[int], str] = lambda _: ""
        self._priority_of: Callable[[Any], int] = lambda _: 0
        self._kinds: Callable[[], Iterable[CallKindNow]] = tuple
        # True if some tasks have waited for long and have no lines, as they are too many.
        self._behind = False
        self._standing = schema.StandingTasks(time=0.0)  # the last one
        # The tasks with smaller numbers are listed or over.
        self._next = 1
        # Starts that were not looked at yet: the time, the worker, the tasks, the alternative.
        self._starts: list[tuple[float, str, Sequence[int], int]] = []
        # The runs of tasks that were not over at the last look; and the runs without a line, by
        # `began`.
        self._runs: dict[int, CurrentRun] = {}
        self._unlisted: deque[int] = deque()
        # The workers that runs have by the word of an earlier process, before their facts came: the
        # lines of these runs are written again with their names.
        self._unnamed: set[str] = set()
        # The calls whose results were found in the cache since counts were last written.
        self._cached: Counter[str] = Counter()

    def tick(self) -> float:
        """Read the clock, and have what is noted from now on written in a while."""
        self.now = now = self._clock()
        if now > self._latest:
            self._hold(now)
        return now

    def close(self) -> None:
        """Write what is held, as nothing is to come any more."""
        if self._latest != -math.inf:
            self.tick()
            self._write(math.inf, math.inf, math.inf)
            self._latest = -math.inf

    # ---- what the mission does

    def follow(
        self,
        tasks: Mapping[int, SubmittedTask],
        note_starts: Callable[[], None] = lambda: None,
        call_of: Callable[[int], str] = lambda _: "",
        kinds: Callable[[], Iterable[CallKindNow]] = tuple,
        priority_of: Callable[[Any], int] = lambda _: 0,
    ) -> None:
        """List the tasks of an executor.

        Args:
            tasks: by number, ascending, until they are over.
            note_starts: calls `started` for all that run, if it is not called for each that starts.
            call_of: returns the label of the call of a task that is not over, or "". Raises
                nothing.
            kinds: returns the tasks by function and cores, see `ExecutorBase.kinds`.
            priority_of: returns the priority of one of these tasks.
        """
        self._tasks = tasks
        self._kinds = kinds
        self._note_starts = note_starts
        self._call_of = call_of
        self._priority_of = priority_of

    def retried(self, task: int, retry_of: int) -> None:
        """Note that a task, which the executor has just taken, is a further attempt.

        Args:
            retry_of: that of the first attempt.
        """
        self._list(task, self._tasks.get(task), retry_of)

    def cached(self, function: str) -> None:
        """Count a call of a function whose result was found in the result cache."""
        self._cached[function] += 1
        self.tick()

    def remark(self, text: str, place: str = "", why: str = "") -> None:
        """Note a remark, a sentence; the others are as of `grain.eventlog.schema.Remark`."""
        self._add(schema.Remark(time=self._now(), text=one_line(text), place=place, why=why))

    # ---- what the scheduler does

    def on_messages(self, messages: Iterable[Message]) -> None:
        """Note what has arrived from the scheduler at one time."""
        self.tick()
        for message in messages:
            self.on_message(message)

    def on_message(self, message: Message) -> None:
        """Note what a message of the scheduler reports; most report nothing that counts here."""
        match message:
            case Started(over=False):
                if message.interruption == "stopped":
                    self._on_soft_stop(message.tasks)
                self.started(message.tasks, message.worker, self.now, message.alternative)
            case Seated():
                self.seated(message.task, message.workers)
            case WorkerFacts():
                self.worker_joined(message)
            case WorkerEnded():
                self.worker_left(message.worker, message.why, message.silent)
            case Crashed():
                self.crashed(message.task, message.crash, message.report)

    def worker_joined(self, worker: WorkerFacts) -> None:
        """Note a worker, unless it is there: after a loss of the connection it comes again."""
        if worker.worker in self._workers and worker.worker not in self._left:
            return
        self._look_at_starts()
        self._workers[worker.worker] = worker
        self._left.pop(worker.worker, None)
        if worker.worker in self._unnamed:
            self._unnamed.remove(worker.worker)
            for task, run in self._runs.items():
                if run.worker == worker.worker:
                    run.listed = False
                    self._unlisted.append(task)
        self._add(
            schema.WorkerJoined(
                time=self._now(),
                worker=worker.name,
                host=worker.host,
                job=worker.job,
                resources=amounts(worker.total),
                ends=worker.ends,
            )
        )

    def worker_left(self, worker: str, why: str = "", silent: float | None = None) -> None:
        """Note that a worker has left.

        Args:
            why: the reason; empty if it was to leave.
            silent: for a lost worker, the seconds since its last sign.
        """
        if worker in self._workers and worker not in self._left:
            self._look_at_starts()
            now = self._now()
            heard = None if silent is None else now - max(0.0, silent)
            self._left[worker] = math.inf if heard is None else heard
            name = self._workers[worker].name
            self._add(schema.WorkerLeft(time=now, worker=name, why=why, heard=heard))

    def started(self, tasks: Sequence[int], worker: str, now: float, alternative: int = 0) -> None:
        """Note that tasks were given to a worker, by its id, or with "" that they wait again.

        Args:
            alternative: by which of the alternatives of their request, counted from 0.
        """
        self._starts.append((now, worker, tasks, alternative))

    def _on_soft_stop(self, tasks: Sequence[int]) -> None:
        """Note that programs of runs have stopped softly, which are handed back."""
        self._look_at_starts()
        for task in tasks:
            if (run := self._runs.get(task)) is not None:
                run.stopped_softly = True

    def seated(self, task: int, workers: tuple[str, ...]) -> None:
        """Note the other workers of a task, by their ids; they may have changed unseen."""
        self._look_at_starts()
        if (run := self._runs.get(task)) is not None and run.others != workers:
            run.others = workers
            if run.listed:
                run.listed = False
                self._unlisted.append(task)

    def count(self, record: SubmittedTask, tasks: int, seconds: float, submitted: float) -> None:
        """Count tasks that have ended with a value after brief runs, while there is no `room`.

        Args:
            record: that of the first one. None of them has a line; all have its function, and
                ask for the same.
            tasks: how many there are.
            seconds: the lengths of their runs, added up.
            submitted: the times of their submissions, likewise.
        """
        count, now = self.last, self.now
        if record.function is not count.key or record.request is not count.request:
            count = self.count_for(record, now - seconds / tasks)
        count.tasks += tasks
        count.seconds += seconds
        count.taken += tasks * now - submitted

    def count_for(self, record: SubmittedTask, began: float) -> BriefCount:
        """Return the count to which `count` adds a task, which is `last` from then on.

        Args:
            began: when its run began: if there is no such count yet, it is the first.
        """
        counted_as = record.name, id(record.request)
        count = self._counts.get(counted_as)
        if count is None:
            count = self._counts[counted_as] = BriefCount(record.name, record.request, began)
        count.key = record.function
        self.last = count
        return count

    def crashed(self, task: int, crash: Crash, report: Report | RunReport = b"") -> None:
        """Note how a run has crashed, with its worker's report; `started` or `ended` follows."""
        self._look_at_starts()
        self._list(task, self._tasks.get(task))
        run = self._runs.get(task)
        record = self._tasks.get(task)
        # It may be that of an earlier run, which went on elsewhere. Of a gang, it names the member
        # that was lost, and the run is listed with the worker of the root.
        is_gang = record is not None and bool(self._words.members(record.request))
        if run is not None and (is_gang or self._name(run.worker).startswith(crash.worker)):
            run.crash, run.report = crash, report

    def ended(
        self,
        task: int,
        error: BaseException | None,
        *,
        record: SubmittedTask | None = None,
        cancelled: bool = False,
        crashed: bool = False,
        report: Report | RunReport = b"",
        worker: str = "",
        call: Callable[[], str] = str,
    ) -> None:
        """Note the end of a task.

        Args:
            error: the exception with which it ended; None if it has a value.
            record: its own, which its executor does not have any more.
            crashed: True if it was given up after crashes.
            report: of its run, by its worker.
            worker: the id of the worker that had it, if `started` may not have been called.
            call: returns the label of its call, for a run that failed. Raises nothing.
        """
        if self.room:
            self.room -= 1
        self._look_at_starts(task, call)
        self._list(task, record)
        run = self._runs.pop(task, None) or CurrentRun()
        # What this end lets go on is submitted later, though with the same reading of the clock.
        self.now = self._clock()
        now = self._log.time_of(self.now)
        read = _read(report, now)
        if worker and not run.worker:
            run.worker, run.attempt = worker, run.attempt + 1
            run.alternative = 0 if record is None else record.alternative
            run.began = self.now - (0.0 if read is None else read.ended - read.started)
        self._list_start(task, run)
        host, cpus, usage, learned = self._host(run.worker), _NO_CPUS, None, None
        cores = self._cores(record or self._tasks.get(task), run)
        started, ended = (self._log.time_of(run.began), now) if run.worker else (None, None)
        if read is not None:
            started, ended = read.started, read.ended
            host, cpus, usage = read.host or host, read.cpus, read.usage
            learned = read.learned
        outcome: Outcome = "value"
        failure, label = NO_FAILURE, ""
        if cancelled:
            outcome = "cancelled"
        elif error is not None:
            outcome = "crashed" if crashed else "error"
            failure, label = failure_of(error), call()
            failure = msgspec.structs.replace(failure, message=one_line(failure.message))
        self._add(
            schema.RunEnded(
                time=now,
                task=task,
                outcome=outcome,
                worker=self._name(run.worker),
                host=host,
                attempt=run.attempt,
                alternative=run.alternative,
                started=started,
                ended=ended,
                cpus=cpus,
                cores=cores,
                failure=failure,
                usage=usage,
                members=self._members(run, read),
                call=label,
                exceeded=read is not None and read.exceeded,
                learned=learned,
            )
        )

    # ---- what is looked at later

    def _look_at_starts(self, ended: int = 0, call: Callable[[], str] = str) -> None:
        """Look at the noted starts of tasks that are not over, and of a task that is.

        Args:
            call: as in `ended`.
        """
        starts, self._starts = self._starts, []
        records = self._tasks
        for now, worker, tasks, alternative in starts:
            for task in tasks:
                if task == ended or task in records:
                    self._on_start(task, worker, now, alternative, call if task == ended else None)

    def _on_start(
        self, task: int, worker: str, now: float, alternative: int, call: Callable[[], str] | None
    ) -> None:
        run = self._runs.get(task)
        if run is None:
            if not worker:
                return
            run = self._runs[task] = CurrentRun()
        elif run.worker == worker:
            return
        if run.worker:
            self._list(task, self._tasks.get(task))
            self._list_start(task, run)
            call = call or partial(self._call_of, task)
            self._write_end(task, run, self._log.time_of(now), call)
        run.worker = worker
        if worker:
            run.attempt += 1
            run.began, run.listed, run.alternative = now, False, alternative
            run.others = ()
            self._unlisted.append(task)

    def _list_tasks(self, horizon: float, most: float) -> bool:
        """Make lines of the tasks that were submitted and have begun up to a time, and go on.

        Args:
            horizon: the reading of the clock.
            most: how many waiting tasks are listed at most.

        Returns:
            True if there are others, which may need lines later.
        """
        self._note_starts()
        self._look_at_starts()
        tasks, runs, unlisted = self._tasks, self._runs, self._unlisted
        last = next(reversed(cast("Reversible[int]", tasks)), 0)
        sparse = last - self._next > len(tasks)
        self._behind = False
        for task in list(tasks) if sparse else range(self._next, last + 1):
            record = tasks.get(task)
            if record is not None and record.submitted is not None:
                if record.submitted > horizon or most <= 0:
                    self._behind = record.submitted <= horizon
                    self._next = task
                    break
                most -= 1
                self._list(task, record)
        else:
            self._next = max(self._next, last + 1)
        while unlisted:
            task = unlisted[0]
            run = runs.get(task)
            if run is not None and task not in tasks:
                del runs[task]  # it was counted
            elif run is not None and not run.listed:
                if run.began > horizon:
                    break
                self._list(task, tasks[task])
                self._list_start(task, run)
            unlisted.popleft()
        return self._next <= last or bool(unlisted)

    def _list(self, task: int, record: SubmittedTask | None, retry_of: int = 0) -> None:
        """Make the line of a submission, unless there is one."""
        if record is None or record.submitted is None:
            return
        submitted, record.submitted = record.submitted, None
        numbers, text = self._words.of(record.request)
        several = record.request if isinstance(record.request, Either) else None
        self._add(
            schema.TaskSubmitted(
                time=self._log.time_of(submitted),
                task=task,
                function=record.name,
                request=numbers,
                request_text=text,
                others=() if several is None else self._words.others(several),
                members=self._words.members(record.request),
                prefer=0.0 if several is None else several.prefer,
                after=(record.after,) if record.after else (),
                retry_of=retry_of,
                urgency=record.urgency,
                priority=self._priority_of(record),
            )
        )

    def _list_start(self, task: int, run: CurrentRun) -> None:
        """Make the line of the start of a run, unless there is one, or nothing has started."""
        if run.worker and not run.listed:
            run.listed = True
            if run.worker not in self._workers:
                self._unnamed.add(run.worker)
            self._add(
                schema.TaskStarted(
                    time=self._log.time_of(run.began),
                    task=task,
                    worker=self._name(run.worker),
                    alternative=run.alternative,
                    members=tuple(map(self._name, run.members)),
                )
            )

    def _write_end(self, task: int, run: CurrentRun, now: float, call: Callable[[], str]) -> None:
        """Note a run that came to nothing, after which its task waits again."""
        outcome: Literal["lost", "returned", "crashed"] = "returned"
        crash, run.crash = run.crash, None
        message = STOPPED_SOFTLY if run.stopped_softly else ""
        run.stopped_softly = False
        if crash is not None:
            message = one_line(crash.how)
        report, run.report = _read(run.report, now), b""
        began, ended = self._log.time_of(run.began), now
        if run.worker in self._left and report is None:
            # The scheduler counts it as a crash, too, as the run may have ended its worker.
            # Only the runs that may have ended it have a crash; all of them have one cause.
            outcome, message = "lost", message or _LOST
            ended = max(began, min(now, self._left[run.worker]))
        elif crash is not None and crash.blamed:
            outcome = "crashed"
        self._add(
            schema.RunEnded(
                time=now,
                task=task,
                outcome=outcome,
                worker=self._name(run.worker),
                host=self._host(run.worker),
                attempt=run.attempt,
                alternative=run.alternative,
                started=began if report is None else report.started,
                ended=ended if report is None else report.ended,
                cpus=_NO_CPUS if report is None else report.cpus,
                cores=self._cores(self._tasks.get(task), run),
                usage=None if report is None else report.usage,
                members=self._members(run, report),
                failure=RunFailure(message=message) if message else NO_FAILURE,
                final=False,
                call="" if outcome == "returned" else call(),
                exceeded=report is not None and report.exceeded,
                learned=None if report is None else report.learned,
            )
        )

    def _members(self, run: CurrentRun, report: RunReport | None) -> tuple[RunMember, ...]:
        """Return the workers of a run on several, as its worker or the scheduler names them."""
        if report is not None and report.members:
            return report.members
        return tuple(RunMember(worker=self._name(one), host=self._host(one)) for one in run.members)

    def _name(self, worker: str) -> str:
        facts = self._workers.get(worker)
        return worker if facts is None else facts.name

    def _cores(self, record: SubmittedTask | None, run: CurrentRun) -> float:
        """Return the cores of a run that are not in its request; see `schema.RunEnded`."""
        facts = self._workers.get(run.worker)
        if record is None or facts is None:
            return 0.0
        one = record.request.alternatives()[run.alternative]
        return cores_held(one, amounts(facts.total).get("Cores", 0.0))

    def _host(self, worker: str) -> str:
        facts = self._workers.get(worker)
        return "" if facts is None else facts.host

    # ---- lines

    def _now(self) -> float:
        """Return the time for a line."""
        return self._log.time_of(self._clock())

    def _add(self, line: AnyLine) -> None:
        """Take a line, which is written when all that is older has been."""
        self._lines.append(line)
        now = self._clock()
        if now > self._latest:
            self._hold(now)

    def _hold(self, now: float) -> None:
        """Have what is held written in a while, or at once if that was asked for and not done."""
        if self._latest == -math.inf:
            self._latest = now + _LATEST
            self._log.remind(self._flush)
        else:
            self._flush()

    def _flush(self) -> None:
        """Write what has been held for long enough."""
        self.now = now = self._clock()
        # If the clock was set, lines by the old one are written before the line that says so.
        held = 0.0 if self._log.clock_is_off() else HELD
        # Where brief tasks end, waiting ones are most likely brief, too.
        if self._write(now - held, now - HELD, LISTED if self._counts else WAITING):
            self._latest = now + _LATEST
            self._log.remind(self._flush)
        else:
            self._latest = -math.inf

    def _write(self, horizon: float, listed: float, most: float) -> bool:
        """Write lines that are not younger than a reading of the clock.

        Args:
            horizon: the reading.
            listed: that up to which tasks are listed.
            most: how many waiting tasks are listed at most.

        Returns:
            True if there is more to come.
        """
        self._latest = math.inf  # what is listed now needs no reminder
        more = self._list_tasks(listed, most)
        self._note_standing()
        self._write_counts()
        lines = self._lines
        lines.sort(key=_time)
        at = bisect_right(lines, self._log.time_of(horizon), key=_time)
        ready, self._lines = lines[:at], lines[at:]
        if ready:
            self._log.write(ready)
        return more or bool(self._lines)

    def _note_standing(self) -> None:
        """Note how many tasks wait and run, if their lines do not tell that, or no more."""
        functions: dict[str, list[int]] = {}
        if self._counts or self._behind:
            for kind in self._kinds():
                numbers = (kind.waiting - kind.ahead, kind.ahead, len(kind.elapsed), kind.blocked)
                if any(numbers):
                    before = functions.setdefault(kind.function, [0, 0, 0, 0])
                    functions[kind.function] = list(map(add, before, numbers))
        largest = sorted(functions.items(), key=lambda one: -sum(one[1]))
        if others := largest[_FUNCTIONS - 1 :] * (len(largest) > _FUNCTIONS):
            rest = [sum(column) for column in zip(*(one for _, one in others), strict=True)]
            largest[_FUNCTIONS - 1 :] = [("", rest)]
        standing = schema.StandingTasks(
            time=self._log.time_of(self.now),
            functions=tuple(
                schema.FunctionStanding(
                    function=name, waiting=waiting, ahead=ahead, running=running, blocked=blocked
                )
                for name, (waiting, ahead, running, blocked) in largest
            ),
        )
        if standing.functions or self._standing.functions:
            self._standing = standing
            self._lines.append(standing)

    def _write_counts(self) -> None:
        self.room = LISTED
        for count in self._counts.values():
            numbers, text = self._words.of(count.request)
            self._lines.append(
                schema.BriefTasks(
                    time=self._log.time_of(self.now),
                    function=count.function,
                    tasks=count.tasks,
                    began=self._log.time_of(count.began),
                    seconds=count.seconds,
                    waited=max(0.0, count.taken - count.seconds),
                    request=numbers,
                    request_text=text,
                )
            )
        self._counts.clear()
        self.last = BriefCount("", ZERO, 0.0)
        now = self._log.time_of(self.now)
        for function, results in self._cached.items():
            self._lines.append(schema.CachedResults(time=now, function=function, results=results))
        self._cached.clear()


def _read(report: Report | RunReport, now: float) -> RunReport | None:
    return report if isinstance(report, RunReport) else decode_report(report, now)
