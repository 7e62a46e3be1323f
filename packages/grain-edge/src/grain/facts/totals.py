"""The sums of the runs of a log, by function and outcome; failures by cause.

One pass, one `Totals`: memory grows with functions, causes and tasks that failed for good, not with
the runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast

from grain.eventlog.schema import BriefTasks, CachedResults, TaskSubmitted
from grain.facts.rows import VALUE, Causes, FailedCall, Function

if TYPE_CHECKING:
    from grain.eventlog.schema import AnyLine
    from grain.facts.rows import Cause, Run

_Number = TypeVar("_Number", int, float)


class _Sum(Generic[_Number]):
    """An attribute of `Totals`: the sum of that of all `Function`."""

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
        self.functions: dict[str, Function] = {}
        self.causes = Causes()
        self.runs = 0
        self.lost = 0
        # The failed tasks, by their first attempts: a further attempt takes the failure back.
        self._failed: dict[int, tuple[Function, Cause]] = {}

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
        function.ask(task.request_text, task.request)
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
        function.ask(line.request_text, line.request, tasks)
        function.tasks += tasks
        function.done += tasks
        function.brief += tasks
        function.runs += tasks
        self.runs += tasks
        function.seconds.add(line.seconds / tasks, tasks)
        function.waited.add(line.waited / tasks, tasks)
        function.core_seconds += line.request.get("Cores", 0.0) * line.seconds

    def _ended(self, run: Run) -> None:
        function = self._function(run.function)
        self.runs += 1
        function.runs += run.started is not None
        (function.never_ran if run.never_ran else function.waited).add(run.waited)
        function.retried += run.is_retry
        function.core_seconds += run.core_seconds
        function.learn(run)
        if run.started is not None:
            function.workers[run.workers] = function.workers.get(run.workers, 0) + 1
        if run.state == VALUE:
            function.done += 1
            function.seconds.add(run.seconds)
        else:
            function.wasted_core_seconds += run.core_seconds
            self._count_failure(run, function)
        if run.usage is not None:
            memory = run.request.get("Memory", 0.0)
            function.use(run.usage, run.seconds, run.workers, memory)

    def _function(self, name: str) -> Function:
        function = self.functions.get(name)
        if function is None:
            function = self.functions[name] = Function(name=name)
        return function

    def _count_failure(self, run: Run, function: Function) -> None:
        if run.state == "cancelled":
            function.cancelled += run.final
            return
        if run.state == "returned":
            return  # unharmed, and its task runs again
        self.lost += run.state == "lost"
        function.cut(run)
        cause = self.causes.add(run)
        if run.final:
            function.failed += 1
            first = run.retry_of or run.task
            self._failed[first] = function, cause
            cause.calls[first] = FailedCall(task=run.task, call=run.call)
