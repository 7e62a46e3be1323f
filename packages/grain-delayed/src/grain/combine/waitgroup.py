"""`WaitGroup`: jobs that are waited for, cancelled and told of together."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import outcome
import trio

from grain.combine.errors import ResultsNotReady, WaitGroupClosed
from grain.delayed import Delayed, DelayedFn
from grain.delayed.function import check_argument
from grain.delayed.graph import Outcome, TaskNode
from grain.head import Cancelled, collapsed
from grain.resource import ZERO, Resource
from grain.worker.job import Call, name_of

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.delayed import Mission

P = ParamSpec("P")
T = TypeVar("T")

_NOTED = 5  # how many further failures are named


class GroupJob(TaskNode):
    """A source that tells its group. The group raises its failure, so nobody else needs to."""

    __slots__ = ("group", "id")

    def __init__(self, group: WaitGroup, mission: Mission) -> None:
        super().__init__(mission.tasks)
        self.group: WaitGroup | None = group
        self.id: int | None = None  # the executor's number; None for a branch
        self.awaited = True

    def __call__(self, ended: Outcome) -> None:
        """Take the outcome of the job, and report it to the group."""
        super().__call__(ended)
        group, self.group = self.group, None  # or whoever keeps its result would keep them all
        if group is not None:
            group._ended(self)


class WaitGroup:
    """A group of jobs and branches. Made by `open_waitgroup`, in whose block it takes them."""

    def __init__(self, mission: Mission, nursery: trio.Nursery) -> None:
        self._mission = mission
        self._nursery = nursery
        self._jobs: list[GroupJob] = []
        self._pending = 0
        self._idle = trio.Event()
        self._failed: GroupJob | None = None
        self._failed_first = False  # before the block was left by an exception
        self._open = True
        self._results: list[Any] | None = None

    def submit(
        self,
        res: Resource,
        fn: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Delayed[T]:
        """Queue a job; returns at once.

        Args:
            res: the resources it needs, as ``Cores(4)``. With ``ZERO`` it is a branch, as by
                `start_subtask`.
            fn: an async function, called with the other arguments on a worker.

        Returns:
            A delayed object for its result. There is no need to await it: the group waits for the
            job, and has its result among `results`.

        Raises:
            WaitGroupClosed: the group's block has ended.
            TypeError: res is no resource, fn no plain function, or an argument is or holds a
                delayed object.
            grain.resource.Infeasible: no worker can ever meet the request, and none can join.
        """
        if not isinstance(res, Resource):
            raise TypeError(
                f"submit({res!r}, ...): first come the resources, as in "
                "submit(Cores(2), fn, 1). What needs none is started with start_subtask(fn, 1)"
            )
        if res is ZERO:
            return self.start_subtask(fn, *args, **kwargs)
        job = self._new(fn, args, kwargs)
        job.id = self._mission.submit(res, Call(fn, args, kwargs), job)
        return self._add(job)

    def start_subtask(
        self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Delayed[T]:
        """Start a branch: it runs in this process, and may open waitgroups itself.

        Args:
            fn: an async function, called with the other arguments.

        Returns:
            A delayed object for its result, as of `submit`; it takes its place in `results`.

        Raises:
            WaitGroupClosed, TypeError: as `submit`.
        """
        job = self._new(fn, args, kwargs)
        call = Call(fn, args, kwargs)
        self._mission.start_branch(self._nursery, call, job)
        return self._add(job)

    @property
    def results(self) -> list[Any]:
        """What the jobs and branches returned, in the order in which they were submitted.

        Raises:
            ResultsNotReady: the block has not ended yet, or was left by an exception.
        """
        if self._results is not None:
            return self._results
        if self._open:
            raise ResultsNotReady(
                "the results of a waitgroup are there when its `async with` block has ended. In "
                "it, await what submit() returned: r_ = wg.submit(Cores(1), fn); r = await r_"
            )
        raise ResultsNotReady(
            "this waitgroup has no results: its block was left by an exception, which cancelled "
            "what had not ended"
        )

    def __repr__(self) -> str:
        how = "open" if self._open else "failed" if self._results is None else "done"
        return f"<WaitGroup: {how}, {len(self._jobs) - self._pending} of {len(self._jobs)} ended>"

    # ---- taking jobs

    def _new(self, fn: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GroupJob:
        if not self._open:
            raise WaitGroupClosed(
                f"{name_of(fn)} was submitted to a waitgroup whose block has ended: submit it in "
                "the `async with` block, or in a branch that was started there"
            )
        if isinstance(fn, DelayedFn):
            raise TypeError(
                f"{name_of(fn.fn)} is a delayed function, which is called and not submitted: "
                f"(fn @ Cores(2))(...). To submit it, give the function in it, fn.__wrapped__"
            )
        if not callable(fn):
            if inspect.iscoroutine(fn):
                fn.close()  # or Python warns that it was never awaited
            raise TypeError(
                f"{fn!r} cannot be submitted: give an async function and its arguments, not its "
                "call: submit(Cores(1), fn, 1) instead of submit(Cores(1), fn(1))"
            )
        for arg in (*args, *kwargs.values()):
            check_argument(arg, fn)
        return GroupJob(self, self._mission)

    def _add(self, job: GroupJob) -> Delayed[Any]:
        self._jobs.append(job)
        self._pending += 1
        return Delayed(job, None, True)

    # ---- their ends

    def _ended(self, job: GroupJob) -> None:
        """A job has ended; the first failure cancels the rest."""
        self._pending -= 1
        error = _error_of(job)
        if error is not None:
            # That something was cancelled tells less than what failed.
            if self._failed is None or (_was_cancelled(self._failed) and not _was_cancelled(job)):
                self._failed = job
            self._nursery.cancel_scope.cancel()
        if not self._pending:
            self._idle.set()

    async def _join(self) -> None:
        """Wait until no job is left; more may be submitted meanwhile."""
        await trio.lowlevel.checkpoint()
        while self._pending:
            if self._idle.is_set():
                self._idle = trio.Event()
            await self._idle.wait()

    async def _leave(self) -> None:
        """Cancel what has not ended, and wait until nothing of it is left."""
        self._open = False
        self._failed_first = self._failed is not None and not _was_cancelled(self._failed)
        self._nursery.cancel_scope.cancel()
        for job in self._jobs:
            if job.outcome is None and job.id is not None:
                self._mission.executor.cancel(job.id)
        over = trio.Event()

        async def farewell() -> None:
            try:
                await self._join()
            finally:
                over.set()

        with trio.CancelScope(shield=True):
            if self._mission.ended:
                await self._join()
                return
            # If the mission itself is cancelled, its executor waits for the jobs, and does so only
            # when all of its block has been left: a branch of the mission ends this wait then.
            self._mission.branches.start_soon(farewell)
            await over.wait()

    def _stands_for(self, error: BaseException) -> bool:
        """Whether the first failure is to be raised instead of what the block raised."""
        failure = None if self._failed is None else _error_of(self._failed)
        rest: BaseException | None = error
        if isinstance(error, trio.Cancelled):
            rest = None
        elif isinstance(error, BaseExceptionGroup):
            rest = error.split(trio.Cancelled)[1]
            rest = rest and collapsed(rest)
        if rest is None:
            # Cancelled jobs are what a cancellation of the whole block leaves behind.
            return self._failed is not None and not _was_cancelled(self._failed)
        if self._failed_first and isinstance(rest, Exception) and rest is not failure:
            _note(failure, [rest], "the block raised")
            return True
        _note(error, self._others(rest))
        return False

    def _finish(self) -> None:
        """The block has ended: raise the first failure, or have the results."""
        if self._results is not None:
            return
        self._open = False
        if self._failed is not None:
            failure = _error_of(self._failed)
            assert failure is not None
            _note(failure, self._others(failure))
            raise failure.with_traceback(self._failed.traceback)
        self._results = [job.value for job in self._jobs]

    def _others(self, raised: BaseException) -> list[BaseException]:
        """What failed beside what is raised."""
        errors = [_error_of(job) for job in self._jobs if not _was_cancelled(job)]
        return [error for error in errors if error is not None and error is not raised]


def _error_of(job: GroupJob) -> BaseException | None:
    return job.outcome.error if isinstance(job.outcome, outcome.Error) else None


def _was_cancelled(job: GroupJob) -> bool:
    return isinstance(_error_of(job), Cancelled)


def _note(
    error: BaseException | None,
    others: list[BaseException],
    what: str = "failed in the same waitgroup",
) -> None:
    """Name other exceptions in a note on the one that is raised."""
    if error is None or not others:
        return
    from grain.worker.payload import add_note

    told = "; ".join(repr(other) for other in others[:_NOTED])
    more = f"; and {len(others) - _NOTED} more" if len(others) > _NOTED else ""
    add_note(error, f"Besides, {what}: {told}{more}")
