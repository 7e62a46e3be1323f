"""The sums of the runs of a log, by function and outcome; failures by cause.

One pass, one `Totals`: memory grows with functions, causes and tasks that failed for good, not with
the runs.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from grain.eventlog.schema import BriefTasks, CachedResults, TaskSubmitted
from grain.facts.rows import VALUE, Causes, FailedCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grain.eventlog.schema import AnyLine
    from grain.eventlog.usage import Usage
    from grain.facts.rows import Cause, Run

_Number = TypeVar("_Number", int, float)

_REQUESTS = 100
"""Requests of one function that are kept apart."""


class Histogram:
    """Amounts counted in bins whose bounds differ by 2 %: so quantiles are exact to 1 %.

    Attributes:
        least: the smallest; ``inf`` if there is none.
        most: the largest; 0 if there is none.
    """

    __slots__ = ("_bins", "count", "least", "most", "total")

    _STEP = math.log(1.02)
    _SMALLEST = 1e-9  # anything below is shown as 0

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.least = math.inf
        self.most = 0.0

    def add(self, amount: float, times: int = 1) -> None:
        """Count an amount, which is 0 or larger, so many times."""
        self.count += times
        self.total += amount * times
        self.least = min(self.least, amount)
        self.most = max(self.most, amount)
        at = round(math.log(max(amount, self._SMALLEST)) / self._STEP)
        self._bins[at] = self._bins.get(at, 0) + times

    @property
    def mean(self) -> float:
        """The mean; 0 if there are no amounts."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """Return the amount below which a share of them lies; 0 if there are none."""
        if not self.count:
            return 0.0
        rank, below = share * (self.count - 1), 0
        for amount, number in self.bins():
            below += number
            if below > rank:
                return amount
        return self.most

    def bins(self) -> Iterator[tuple[float, int]]:
        """Yield the middle of each bin that is not empty, and how many amounts are in it."""
        for at, number in sorted(self._bins.items()):
            yield min(max(math.exp(at * self._STEP), self.least), self.most), number


class Amounts:
    """The amounts of one kind that the tasks of a function ask for.

    Attributes:
        counts: how many tasks asked for which amount; of a hundred amounts at most.
    """

    __slots__ = ("counts", "least", "most")

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()
        self.least = math.inf
        self.most = 0.0

    def add(self, amount: float, tasks: int = 1) -> None:
        """Count tasks that ask for an amount."""
        self.least = min(self.least, amount)
        self.most = max(self.most, amount)
        if amount in self.counts or len(self.counts) < _REQUESTS:
            self.counts[amount] += tasks

    @property
    def usual(self) -> float:
        """The amount that most tasks asked for."""
        return self.counts.most_common(1)[0][0]


@dataclass(slots=True, eq=False)
class FunctionTotals:
    """The runs of one function.

    Attributes:
        tasks: the tasks that were submitted, without retries, and the cached results.
        brief: those of them that have no lines of their own, see `schema.BriefTasks`.
        done: the tasks that ended with a value, and the cached results.
        failed: the tasks that ended in failure for good: neither a value nor a further attempt.
        retried: the runs that followed another one of the same task, or were a further attempt.
        requests: how many tasks were submitted with each request, as it was written.
        core_seconds: the cores that its runs asked for, times their length.
        wasted_core_seconds: those of runs that brought no value.
        asked: the amounts of each kind that its tasks asked for, on each of their workers.
        workers: the numbers of workers that its tasks took at once.
        seconds: the lengths of its runs that brought a value.
        runs: its runs that began, and have ended.
        waited: the waits for its runs.
        never_ran: the waits of its tasks that ended without any run.
        memory: the peaks of memory of all runs that were measured, in GB.
        memory_shares: those peaks as shares of what was asked for.
        busy_cores: the mean number of cores in which the programs of a run computed, of runs that
            had any.
    """

    name: str
    tasks: int = 0
    brief: int = 0
    cached: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    core_seconds: float = 0.0
    wasted_core_seconds: float = 0.0
    cpu_seconds: float = 0.0
    asked: dict[str, Amounts] = field(default_factory=dict)
    workers: Counter[int] = field(default_factory=Counter)
    seconds: Histogram = field(default_factory=Histogram)
    runs: int = 0
    waited: Histogram = field(default_factory=Histogram)
    never_ran: Histogram = field(default_factory=Histogram)
    memory: Histogram = field(default_factory=Histogram)
    memory_shares: Histogram = field(default_factory=Histogram)
    busy_cores: Histogram = field(default_factory=Histogram)


class _Sum(Generic[_Number]):
    """An attribute of `Totals`: the sum of that of all `FunctionTotals`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, totals: Totals, owner: type) -> _Number:
        each = (getattr(one, self._name) for one in totals.functions.values())
        return cast("_Number", sum(each))


class Totals:
    """The sums of all runs of a log."""

    tasks = _Sum[int]()
    done = _Sum[int]()
    cached = _Sum[int]()
    failed = _Sum[int]()
    cancelled = _Sum[int]()
    retried = _Sum[int]()
    core_seconds = _Sum[float]()
    wasted_core_seconds = _Sum[float]()
    cpu_seconds = _Sum[float]()

    def __init__(self) -> None:
        self.functions: dict[str, FunctionTotals] = {}
        self.causes = Causes()
        self.runs = 0
        self.lost = 0
        # The failed tasks, by their first attempts: a further attempt takes the failure back.
        self._failed: dict[int, tuple[FunctionTotals, Cause]] = {}

    def feed(self, line: AnyLine, run: Run | None) -> None:
        """Count a line, and the run that ends with it, as `Fold.feed` has returned it."""
        if run is not None:
            self._ended(run)
        elif isinstance(line, TaskSubmitted):
            self._submitted(line)
        elif isinstance(line, BriefTasks):
            self._brief(line)
        elif isinstance(line, CachedResults):
            function = self._function(line.function)
            function.tasks += line.results
            function.done += line.results
            function.cached += line.results

    def _submitted(self, task: TaskSubmitted) -> None:
        function = self._function(task.function)
        self._count_request(function, task.request_text, task.request, 1)
        if not task.retry_of:
            function.tasks += 1
            return
        earlier = self._failed.pop(task.retry_of, None)
        if earlier is not None:
            before, cause = earlier
            before.failed -= 1
            cause.final -= 1
            cause.calls.pop(task.retry_of, None)

    def _brief(self, line: BriefTasks) -> None:
        """Count tasks that have no lines of their own; each counts with their mean."""
        tasks = line.tasks
        if tasks <= 0:
            return
        function = self._function(line.function)
        self._count_request(function, line.request_text, line.request, tasks)
        function.tasks += tasks
        function.done += tasks
        function.brief += tasks
        function.runs += tasks
        self.runs += tasks
        function.seconds.add(line.seconds / tasks, tasks)
        function.waited.add(line.waited / tasks, tasks)
        function.core_seconds += line.request.get("Cores", 0.0) * line.seconds

    @staticmethod
    def _count_request(
        function: FunctionTotals, text: str, request: Mapping[str, float], tasks: int
    ) -> None:
        if text not in function.requests and len(function.requests) >= _REQUESTS:
            text = "other requests"
        function.requests[text] += tasks
        for kind, amount in request.items():
            asked = function.asked.get(kind)
            if asked is None:
                asked = function.asked[kind] = Amounts()
            asked.add(amount, tasks)

    def _ended(self, run: Run) -> None:
        function = self._function(run.function)
        self.runs += 1
        function.runs += run.started is not None
        (function.never_ran if run.never_ran else function.waited).add(run.waited)
        function.retried += run.is_retry
        function.core_seconds += run.core_seconds
        if run.started is not None:
            function.workers[run.workers] += 1
        if run.state == VALUE:
            function.done += 1
            function.seconds.add(run.seconds)
        else:
            function.wasted_core_seconds += run.core_seconds
            self._count_failure(run, function)
        if run.usage is not None:
            self._count_usage(run, run.usage, function)

    def _function(self, name: str) -> FunctionTotals:
        function = self.functions.get(name)
        if function is None:
            function = self.functions[name] = FunctionTotals(name)
        return function

    @staticmethod
    def _count_usage(run: Run, usage: Usage, function: FunctionTotals) -> None:
        # Programs of the first worker are measured; others of the task are taken to be alike.
        function.cpu_seconds += usage.cpu * run.workers
        if run.seconds > 0 and usage.programs:  # what its tasklet computes is not measured
            function.busy_cores.add(usage.cpu / run.seconds)
        if usage.measured_by == "none":
            return
        function.memory.add(usage.peak_memory)
        asked = run.request.get("Memory", 0.0)
        if asked:
            function.memory_shares.add(usage.peak_memory / asked)

    def _count_failure(self, run: Run, function: FunctionTotals) -> None:
        if run.state == "cancelled":
            function.cancelled += run.final
            return
        if run.state == "returned":
            return  # unharmed, and its task runs again
        self.lost += run.state == "lost"
        cause = self.causes.add(run)
        if run.final:
            function.failed += 1
            first = run.retry_of or run.task
            self._failed[first] = function, cause
            cause.calls[first] = FailedCall(task=run.task, call=run.call)
