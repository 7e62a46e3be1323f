"""The rows: what every display knows of tasks, runs, failures, functions, and of what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from grain.eventlog.causes import NO_FAILURE, RunFailure, pattern_of
from grain.eventlog.usage import LearnedAmount, MemberUsage, RunMember, Usage
from grain.facts.amounts import REQUESTS, AskedAmounts, Histogram
from grain.resource.figures import amount, counted, needed, too_little

VALUE = "value"

FAILURES = frozenset({"error", "crashed", "lost"})
"""The states of runs that failed."""

Amounts = Mapping[str, float]
"""Amounts by kind."""


class _Row(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """The base of all rows: what is not known has its default, and does not travel."""


class Run(_Row, frozen=True, kw_only=True):
    """A run of a task, or a task that ended before any run.

    Attributes:
        mission: the id of its mission; empty in what one log says.
        name: its task's, as commands take it: ``opt@2:17``; empty where nothing needs it.
        task: the number of its task.
        retry_of: the task of which its task is a further attempt; 0 if it is the first.
        attempt: how many runs of the task have begun, this one included.
        state: as `grain.eventlog.schema.RunEnded.outcome`; or ``"waiting"`` or ``"running"``.
        final: True if the task is over with it.
        again: True if its mission tries it again all the same, by a task of another number.
        members: its workers, as far as they are known; the first one ran it.
        workers: how many it has at once.
        alternative: which of the alternatives of its request it took, from 0; None if it has none.
        request: the amounts that it asks for on each worker, by that alternative; of memory that
            is learned, what it got.
        asked: the request as it was written.
        cores: those that it has on all of its workers.
        after: the tasks that its branch has awaited, or whose values it takes.
        queued: since when it waited for this run: its submission, or the end of its last run.
        started: when the run began, between ``queued`` and ``ended``; None if it never did.
        ended: when it ended; of one that goes on, the moment of the row.
        seconds: its length, as its worker measured it; 0 if it never began. It may be more than
            from ``started`` to ``ended``: of brief runs, the writer of the log may learn of the
            start and of the end at once.
        slack: seconds by which it may have been earlier, where the log does not say when it was.
        ran_before: True if an earlier run of the task had begun.
        in_vain: True if an earlier run of it crashed or was lost.
        failure: why it brought no value.
        call: of a failed run, the function with its arguments, where that is known.
        exceeded: True if it failed as it needed more memory than it had.
        learned: its memory, if its group learns that, and its worker has reported it.
    """

    mission: str = ""
    name: str = ""
    task: int
    retry_of: int = 0
    function: str = ""
    attempt: int = 1
    state: str = VALUE
    final: bool = True
    again: bool = False
    members: tuple[RunMember, ...] = ()
    workers: int = 1
    alternative: int | None = None
    request: Amounts = {}
    asked: str = ""
    cores: float = 0.0
    after: tuple[int, ...] = ()
    submitted: float = 0.0
    queued: float = 0.0
    started: float | None = None
    ended: float = 0.0
    seconds: float = 0.0
    slack: float = 0.0
    ran_before: bool = False
    in_vain: bool = False
    usage: Usage | None = None
    failure: RunFailure = NO_FAILURE
    call: str = ""
    exceeded: bool = False
    learned: LearnedAmount | None = None

    @property
    def worker(self) -> str:
        """The name of the worker that ran it; empty if it never began."""
        return self.members[0].worker if self.members else ""

    @property
    def host(self) -> str:
        """The host of that worker; empty if it is not known."""
        return self.members[0].host if self.members else ""

    @property
    def waited(self) -> float:
        """The time that the task waited for the run, or for its end without any."""
        return (self.ended if self.started is None else self.started) - self.queued

    @property
    def own_cores(self) -> float:
        """The cores on its own worker, which is the first one of several."""
        return self.cores / self.workers

    @property
    def core_seconds(self) -> float:
        """The cores that it has, for as long as it ran."""
        return self.cores * self.seconds

    @property
    def cpu(self) -> float:
        """CPU seconds on all of its workers; one that was not measured counts as the first did."""
        return self._of_all(lambda used: used.cpu)

    @property
    def memory(self) -> float:
        """The sum of its peaks of memory on all of its workers, likewise."""
        return self._of_all(lambda used: used.peak_memory)

    def _of_all(self, amount: Callable[[MemberUsage], float]) -> float:
        if self.usage is None:
            return 0.0
        measured = self.usage.of_each
        return sum(map(amount, measured)) * self.workers / len(measured)

    @property
    def why(self) -> str:
        """The class of the exception, and its text; empty without both."""
        return ": ".join(part for part in (self.failure.error, self.failure.message) if part)

    @property
    def is_retry(self) -> bool:
        """True if an earlier run of the task, or an earlier attempt at it, was in vain."""
        return self.in_vain or self.retry_of != 0

    @property
    def reported(self) -> bool:
        """True if its worker has reported it; else it may not have begun there, nor gone on."""
        return self.usage is not None or self.state in (VALUE, "error")

    @property
    def never_ran(self) -> bool:
        """True if the task is over, and no run of it has ever begun."""
        return self.started is None and self.final and not self.ran_before


class Task(_Row, frozen=True, kw_only=True):
    """A task that waits or runs.

    Attributes:
        number: that in its mission.
        request: the amounts that it asks for on each worker; of alternatives those of the first.
        asked: the request as it was written.
        others: the further alternatives.
        counts: how many workers it takes at once, by each alternative; empty if always one.
        after, retry_of: as of `Run`.
        queued: since when it waits, or waited for the run that goes on.
        started: since when it runs; None while it waits.
        alternative: by which of the alternatives it ran last, from 0.
        members: the names of its workers, as far as they are known; none while it waits.
        ran_before, in_vain: as of `Run`.
    """

    number: int
    function: str = ""
    request: Amounts = {}
    asked: str = ""
    others: tuple[Amounts, ...] = ()
    counts: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    retry_of: int = 0
    submitted: float = 0.0
    queued: float = 0.0
    started: float | None = None
    alternative: int = 0
    members: tuple[str, ...] = ()
    ran_before: bool = False
    in_vain: bool = False

    @property
    def alternatives(self) -> tuple[Amounts, ...]:
        """The amounts of each alternative of its request."""
        return (self.request, *self.others)

    @property
    def taken(self) -> Amounts:
        """The amounts of the alternative by which it ran last."""
        known = 0 < self.alternative <= len(self.others)
        return self.others[self.alternative - 1] if known else self.request

    @property
    def workers(self) -> int:
        """The number of workers that this alternative takes at once."""
        known = self.alternative < len(self.counts)
        return self.counts[self.alternative] if known else 1

    def run(self, *, cores: float = 0.0, **more: Any) -> Run:
        """Return a run of it.

        Args:
            cores: those of all of its workers, where its request does not say so; else 0.
            more: the fields of the run that are not those of its task.
        """
        request, workers = self.taken, self.workers
        return Run(
            task=self.number,
            retry_of=self.retry_of,
            function=self.function,
            workers=workers,
            alternative=self.alternative if self.others else None,
            request=request,
            asked=self.asked,
            cores=cores or request.get("Cores", 0.0) * workers,
            after=self.after,
            submitted=self.submitted,
            queued=self.queued,
            ran_before=self.ran_before,
            in_vain=self.in_vain,
            **more,
        )

    def now(self, at: float) -> Run:
        """Return the run that goes on, or for which it waits, as of a moment."""
        return self.run(
            state="waiting" if self.started is None else "running",
            final=False,
            members=tuple(RunMember(worker=name) for name in self.members),
            started=self.started,
            ended=at,
            seconds=0.0 if self.started is None else at - self.started,
        )


# ---- failures


class FailedCall(_Row, frozen=True, kw_only=True):
    """A task that failed for good.

    Attributes:
        task: the number of its last attempt.
        call: as of `Run`.
    """

    task: int
    call: str


_HOW = {"crashed": "given up after crashes", "error": "it raised an exception"}


class Cause(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Runs whose failures are alike. It grows with each of them.

    Attributes:
        how: what they have in common, in a few words, the line that says why first.
        first: the first of the runs.
        runs: how many there are.
        final: how many of them ended their task for good; the others were tried again.
        workers: how many ended on which worker.
        calls: those that ended their task, in their order, by the first attempt.
    """

    how: str = ""
    first: Run
    runs: int = 0
    final: int = 0
    workers: dict[str, int] = {}
    calls: dict[int, FailedCall] = {}

    @property
    def kind(self) -> str:
        """The class of the exception; without any the outcome."""
        return self.first.failure.error or self.first.state

    @property
    def again(self) -> int:
        """The number of runs after which the task was tried again."""
        return self.runs - self.final

    def count(self, run: Run) -> None:
        """Count a run; the first was counted when the cause was made."""
        self.runs += 1
        self.final += run.final and not run.again
        for member in run.members:
            self.workers[member.worker] = self.workers.get(member.worker, 0) + 1
        if run.failure != self.first.failure and how_failed(run) != self.how:
            self.how = how_failed(self.first, pattern_of)


def how_failed(run: Run, vary: Callable[[str], str] = str) -> str:
    """Return why a run failed in a few words, as `RunFailure.words`."""
    return run.failure.words(_HOW.get(run.state, run.state) if run.final else run.state, vary)


def key_of(run: Run) -> tuple[str, str, str, str]:
    """Return what is the same for runs whose failures are alike."""
    return run.mission, run.function, run.state, how_failed(run, pattern_of)


_CAUSES = 500
"""Causes that are kept apart; any further ones are counted as one."""

OTHER_CAUSES = "other causes"
"""The error of the causes that are not kept apart."""


class Causes:
    """Failed runs by their causes: those of one mission and function whose messages are alike."""

    def __init__(self) -> None:
        self._causes: dict[tuple[str, str, str, str], Cause] = {}

    def __iter__(self) -> Iterator[Cause]:
        return iter(self._causes.values())

    def __len__(self) -> int:
        return len(self._causes)

    def frequent(self) -> list[Cause]:
        """Return the causes, the most frequent first."""
        return sorted(self, key=lambda cause: -cause.runs)

    def add(self, run: Run) -> Cause:
        """Count a run that failed; return its cause."""
        key = key_of(run)
        if key not in self._causes and len(self._causes) >= _CAUSES:
            run = replace(run, mission="", function="", failure=RunFailure(OTHER_CAUSES))
            key = key_of(run)
        cause = self._causes.get(key)
        if cause is None:
            cause = self._causes[key] = Cause(how=how_failed(run), first=run)
        cause.count(run)
        return cause

    def take_back(self, run: Run) -> None:
        """Forget a run like this one, which was counted: a further attempt of its task follows."""
        cause = self._causes.get(key_of(run))
        if cause is not None:
            cause.runs -= 1
            cause.final -= 1
            if not cause.runs:
                del self._causes[key_of(run)]


# ---- functions

_TOO_SLOW = ("TooSlowError", "ExternalTimeoutError")
_NEARLY = 0.9  # of the limit: the run that is logged begins a little later than its limit


LAST_RUNS = 64
"""So many of the last runs of a group count, for its scheduler and for displays."""


_EXPLAINED = 3  # groups of a function that have a line


class GroupRuns(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The runs of a function in a group that learns its memory. It grows with each of them.

    Attributes:
        group: the name of the group.
        asks: GB that the last first attempt got.
        runs: the runs that had enough, and whose peaks were measured.
        exceeded: the attempts that had too little.
        sized: True if requests state a size, so that each size has an amount of its own.
        last: of the last runs the peak and the amount in GB, and 1 for a first attempt, else 0.
    """

    group: str = ""
    asks: float = 0.0
    runs: int = 0
    exceeded: int = 0
    sized: bool = False
    last: list[tuple[float, float, int]] = []

    def add(self, run: Run, learned: LearnedAmount) -> None:
        """Count a run."""
        self.exceeded += run.exceeded
        self.sized = self.sized or learned.size > 0
        if learned.attempt == 1 or not self.asks:
            self.asks = learned.amount
        if run.state == VALUE and run.usage is not None and run.usage.measured_by != "none":
            self.runs += 1
            seen = (run.usage.peak_memory, learned.amount, int(learned.attempt == 1))
            self.last = [*self.last, seen][-LAST_RUNS:]

    @property
    def peaks(self) -> list[float]:
        """The peaks of the last runs, in GB."""
        return [peak for peak, _, _ in self.last]

    @property
    def text(self) -> str:
        """The explanation in one line, in the words of `grain why`."""
        asked, enough = amount(self.asks), sum(peak <= self.asks for peak in self.peaks)
        first = [gb for _, gb, is_first in self.last if is_first]
        if self.sized and first:
            asked, enough = f"{amount(min(first))} to {amount(max(first))}", len(first)
        why = "no run that had enough was measured"
        if self.last:
            why = needed(enough, self.peaks)
        by = " by size" if self.sized else ""
        return f"{self.group} asked for {asked} GB{by}: {why}{too_little(self.exceeded)}"


class Function(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The tasks of one function, and their runs. It grows with each of them.

    Attributes:
        tasks: the tasks that were submitted, without further attempts of the same, and the results
            that the cache had.
        brief: those of them that have no lines of their own, see `schema.BriefTasks`.
        done: the tasks that ended with a value, and the cached results.
        failed: the tasks that ended in failure for good: neither a value nor a further attempt.
        retried: the runs that followed another one of the same task, or were a further attempt.
        waiting, running: the tasks that wait and run.
        requests: how many tasks were submitted with each request, as it was written.
        core_seconds: the cores that its runs asked for, times their length.
        wasted_core_seconds: those of runs that brought no value.
        asked: the amounts of each kind that its tasks asked for, on each of their workers.
        workers: how many of its runs had so many workers at once.
        seconds: the lengths of its runs that brought a value.
        runs: its runs that began, and have ended.
        waited: the waits for its runs.
        never_ran: the waits of its tasks that ended without any run.
        memory: the peaks of memory of all runs that were measured, in GB.
        memory_shares: those peaks as shares of what was asked for.
        busy_cores: the mean number of cores in which the programs of a run computed, of runs that
            had any.
        overtime: its runs that their time limit ended.
        time_limit: the longest of these limits, in seconds.
        learned: its runs by the groups that learn their memory; of a hundred groups at most.

    What a mission that goes on tells of a function is such a row, too. It has what the mission
    counts, `seconds` are those of all runs whose times are known, with the median of the last ones,
    and of other lengths and amounts only the median is kept, see `Histogram.thinned`.
    """

    name: str = ""
    tasks: int = 0
    brief: int = 0
    cached: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    waiting: int = 0
    running: int = 0
    runs: int = 0
    requests: dict[str, int] = {}
    core_seconds: float = 0.0
    wasted_core_seconds: float = 0.0
    cpu_seconds: float = 0.0
    asked: dict[str, AskedAmounts] = {}
    workers: dict[int, int] = {}
    seconds: Histogram = msgspec.field(default_factory=Histogram)
    waited: Histogram = msgspec.field(default_factory=Histogram)
    never_ran: Histogram = msgspec.field(default_factory=Histogram)
    memory: Histogram = msgspec.field(default_factory=Histogram)
    memory_shares: Histogram = msgspec.field(default_factory=Histogram)
    busy_cores: Histogram = msgspec.field(default_factory=Histogram)
    overtime: int = 0
    time_limit: float = 0.0
    learned: dict[str, GroupRuns] = {}

    @property
    def core_hours(self) -> float:
        """The cores that its runs asked for, times the hours that they took."""
        return self.core_seconds / 3600

    @property
    def wasted_core_hours(self) -> float:
        """Those of runs that brought no value."""
        return self.wasted_core_seconds / 3600

    @property
    def cpu_hours(self) -> float:
        """The CPU time that programs used, in hours."""
        return self.cpu_seconds / 3600

    @property
    def peak_memory(self) -> float | None:
        """The largest memory that a run used, in GB; None if none was measured."""
        return self.memory.most if self.memory.count else None

    @property
    def most_memory(self) -> float | None:
        """The most memory that a task asked for, in GB; None if none did."""
        return self.asked["Memory"].most if "Memory" in self.asked else None

    @property
    def request(self) -> dict[str, float]:
        """The amounts for which all tasks asked, without time limits; empty if these differ."""
        tasks = sum(self.requests.values())
        if any(one.tasks != tasks for one in self.asked.values()):
            return {}  # some kinds were not in all requests
        amounts = {kind: one for kind, one in self.asked.items() if kind != "WTime"}
        if any(one.least != one.most for one in amounts.values()):
            return {}
        return {kind: one.most for kind, one in amounts.items()}

    @property
    def valued(self) -> int:
        """The number of its runs that brought a value."""
        return self.done - self.cached

    def ask(self, text: str, request: Amounts, tasks: int = 1) -> None:
        """Count tasks that ask for something."""
        if text not in self.requests and len(self.requests) >= REQUESTS:
            text = "other requests"
        self.requests[text] = self.requests.get(text, 0) + tasks
        for kind, number in request.items():
            asked = self.asked.get(kind)
            if asked is None:
                asked = self.asked[kind] = AskedAmounts()
            asked.add(number, tasks)

    def use(self, usage: Usage, seconds: float, workers: int = 1, memory: float = 0.0) -> None:
        """Count what the programs of a run have used.

        Args:
            seconds: for which it ran.
            workers: how many it had at once; one that was not measured counts as the first did.
            memory: for which it asked on each of them, in GB; 0 if it asked for none.
        """
        measured = usage.of_each
        cpu = max(sum(used.cpu for used in measured), 0.0) / len(measured)
        self.cpu_seconds += cpu * workers
        if seconds > 0 and usage.programs:  # what its tasklet computes is not measured
            self.busy_cores.add(cpu / seconds)
        if usage.measured_by == "none":
            return
        peak = max(usage.peak_memory, 0.0)
        self.memory.add(peak)
        if memory:
            self.memory_shares.add(peak / memory)

    def learn(self, run: Run) -> None:
        """Count a run if its group learns its memory."""
        if (learned := run.learned) is not None:
            group = self.learned.get(learned.group)
            if group is None:
                group = GroupRuns(group=learned.group)
                if len(self.learned) < REQUESTS:
                    self.learned[learned.group] = group
            group.add(run, learned)

    @property
    def explained(self) -> list[str]:
        """A line for each group that learns its memory; of many for those with the most runs."""
        groups = sorted(self.learned.values(), key=lambda one: -one.runs)
        rest = len(groups) - _EXPLAINED
        more = [f"and {counted(rest, 'other group')} of memory"] if rest > 0 else []
        return [group.text for group in groups[:_EXPLAINED]] + more

    def cut(self, run: Run) -> None:
        """Count a run that failed if its time limit has ended it."""
        limit = run.request.get("WTime", 0.0)
        if run.failure.error in _TOO_SLOW and limit and run.seconds >= _NEARLY * limit:
            self.overtime += 1
            self.time_limit = max(self.time_limit, limit)

    def add(self, other: Function) -> None:
        """Add the tasks and runs of another function."""
        for name in self.__struct_fields__:
            own, its = getattr(self, name), getattr(other, name)
            if isinstance(own, Histogram):
                own.merge(its)
            elif isinstance(own, int | float):
                setattr(self, name, max(own, its) if name == "time_limit" else own + its)
            elif name == "asked":
                for kind, asked in its.items():
                    own.setdefault(kind, AskedAmounts()).merge(asked)


HISTOGRAMS = tuple(
    field.name for field in msgspec.structs.fields(Function) if field.type is Histogram
)
"""The fields of a function that count lengths and amounts."""


# ---- what is here


class Worker(_Row, frozen=True, kw_only=True):
    """A worker.

    Attributes:
        name: its name, which others may have, too.
        label: the name that commands take: ``name@2`` is the second of that name.
        cluster: as it states that; empty if it does not.
        job: its batch job, as the batch system calls it; empty if it has none.
        state: ``"joining"``, ``"serving"``, ``"paused"``, ``"draining"``, ``"away"`` or ``"lost"``.
        draining: True if it is to leave, whatever its state.
        backlog: how many outcomes missions have not taken, and how many bytes these have; None if
            that keeps it from nothing.
        total: its resources as plain data.
        free: those that tasks were not given.
        used: the part of each kind that tasks were given, from 0 to 1; None where it has no class
            in the head.
        left: seconds that remain to it; None without an end.
        ends: when its time is over, likewise.
        idle: seconds since the last run ended; 0 while one goes on.
        computing: on how many cores something is computed; None where that is not known.
        tasks: a few of the tasks that run, as ``mission:number`` with the mission's label.
        runs: the oldest of the runs there.
        heard: of one that is lost, when there was the last sign of it.
        lost_runs: how many tasks had a run there when it was lost, and run again.
        at: when all this was.
        versions: those of its process, by name.
    """

    id: str = ""
    name: str
    label: str = ""
    host: str = ""
    cluster: str = ""
    interpreter: str = ""
    job: str = ""
    state: str = ""
    draining: bool = False
    backlog: tuple[int, int] | None = None
    total: dict[str, Any] = {}
    free: dict[str, Any] = {}
    used: dict[str, float | None] = {}
    left: float | None = None
    ends: float | None = None
    idle: float = 0.0
    running: int = 0
    computing: float | None = None
    tasks: list[str] = []
    runs: list[Run] = []
    heard: float = 0.0
    lost_runs: int = 0
    at: float = 0.0
    versions: dict[str, str] = {}


class MissionOutlook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The progress of a mission, as it estimates itself.

    Attributes:
        ended: how many of its calls have ended, also those found in the result cache.
        total: how many there will be; 0 if it has not said so.
        left: seconds until all that it has submitted so far has ended, and all calls if these are
            known; None without an estimate.
        least: True if it may take longer, as nothing is known of some of them.
        whole: True if the seconds are those until all calls have ended.
        functions: those that have the most tasks, in the order of their first calls.
        more_functions: how many others there are.
    """

    ended: int
    total: int = 0
    left: float | None = None
    least: bool = False
    whole: bool = False
    functions: tuple[Function, ...] = ()
    more_functions: int = 0


class Mission(_Row, frozen=True, kw_only=True):
    """A mission.

    Attributes:
        label: the name that commands take, without the number while no other here has the name.
        number: that of its label, as 2 of ``opt@2``; 0 if it has none.
        connected: False while it is away.
        paused: True if nothing more of it starts until it has taken some outcomes.
        since: when it came.
        ended: when it left; None while it is here.
        failed: how many of its tasks failed for good.
        retried: how many failed, and were tried again.
        left: how many of its tasks have no outcome.
        running: how many of these run; None where there are too many different requests to count.
        unconfirmed: how many outcomes it has not taken; and the bytes of these.
        rate: how many of its tasks end in a second.
        outlook: None if it does not state any.
        versions: those of its process, by name.
    """

    id: str = ""
    name: str
    label: str = ""
    number: int = 0
    host: str = ""
    connected: bool = True
    paused: bool = False
    since: float = 0.0
    ended: float | None = None
    done: int = 0
    failed: int = 0
    retried: int = 0
    left: int = 0
    running: int | None = 0
    waiting: int = 0
    unconfirmed: int = 0
    unconfirmed_bytes: int = 0
    rate: float = 0.0
    outlook: MissionOutlook | None = None
    versions: dict[str, str] = {}

    def goes_by(self, word: str) -> bool:
        """Return True if a word is its name, its label or its id."""
        return word in (self.name, self.label, self.id, f"{self.name}@{self.number}")


class AlternativeDemand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of several alternatives that tasks ask for.

    Attributes:
        need: seconds that a worker must have left.
        members: how many workers each task takes at once; `request` is of one of them.
        same: as of `grain.resource.Gang`.
    """

    request: dict[str, Any]
    need: float
    members: int = 1
    same: str = "group"


Lack = Literal["", "here", "room", "members"]
"""The lack of waiting tasks: see `Queue`."""


class Queue(_Row, frozen=True, kw_only=True):
    """Tasks that ask for the same: of a mission, or of all.

    Attributes:
        request: what each asks for, as plain data; for demand without its time, of alternatives the
            first one, and of several workers that on each.
        asked: what each asks for, as a user writes it.
        interpreter: that they need; empty if any will do.
        mission: the label of their mission; empty for those of all.
        mission_id: its id; empty if no waiting task is known.
        waiting: how many wait; one on several workers counts once.
        oldest: the one that has waited longest, as ``mission:number``; empty if none is known.
        task: its number; 0 if none is known.
        never: why no worker here could run them; empty if one could.
        lack: of waiting ones, ``"here"`` if no worker is here that takes tasks, ``"room"`` if none
            here has enough, and ``"members"`` if too few could do at once; else empty.
        why: why the oldest waits.
        elapsed: seconds that the running ones have run, together.
        need: seconds that a worker must have left.
        ended: of how many runs, at most 100 of each mission, ``mean`` is.
        mean: their mean duration in seconds.
        others: the further alternatives.
        members, same: as of `AlternativeDemand`.
    """

    request: dict[str, Any] = {}
    asked: str = ""
    interpreter: str = ""
    mission: str = ""
    mission_id: str = ""
    priority: int = 0
    waiting: int = 0
    running: int = 0
    oldest: str = ""
    task: int = 0
    never: str = ""
    lack: Lack = ""
    why: str = ""
    elapsed: float = 0.0
    need: float = 0.0
    ended: int = 0
    mean: float = 0.0
    others: list[AlternativeDemand] = []
    members: int = 1
    same: str = "group"
