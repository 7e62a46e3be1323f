"""`WaitGroup`: tasks that are awaited, cancelled and reported together."""

from __future__ import annotations

import inspect
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import outcome
import trio

from grain.combine.errors import ResultsNotReady, WaitGroupClosed
from grain.delayed import Delayed, DelayedFn
from grain.delayed.function import check_argument
from grain.delayed.graph import Outcome, TaskNode, waited_for
from grain.head import TaskCancelled, collapsed
from grain.resource import ZERO, Resource
from grain.worker.call import Call, name_of

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.delayed import Mission

P = ParamSpec("P")
T = TypeVar("T")

_NOTED = 5  # further failures that a note names


class GroupState(Enum):
    """The states of a waitgroup, as its repr shows them."""

    OPEN = "open"
    FAILED = "failed"  # its block was left by an exception, or a task has failed
    DONE = "done"


class GroupTask(TaskNode):
    """The node of a task, which reports its end to the group; the group raises its failure."""

    __slots__ = ("group",)

    def __init__(self, group: WaitGroup, mission: Mission, fn: Callable[..., Any]) -> None:
        super().__init__(mission.tasks, fn)
        self.group: WaitGroup | None = group
        self.awaited = True

    def __call__(self, ended: Outcome) -> None:
        """Take the outcome of the task, and report it to the group."""
        super().__call__(ended)
        group, self.group = self.group, None  # or one kept result would keep all others
        if group is not None:
            group._ended(self)


class WaitGroup:
    """A group of tasks and branches; `open_waitgroup` makes it, and it takes them in that block."""

    def __init__(self, mission: Mission, nursery: trio.Nursery) -> None:
        self._mission = mission
        self._nursery = nursery
        mission.add_group(nursery)
        self._tasks: list[GroupTask] = []
        # The ids, for the executor's `cancel`, of the tasks that have not ended; not of branches.
        self._ids: dict[GroupTask, int] = {}
        self._pending = 0
        self._idle = trio.Event()
        self._last: GroupTask | None = None
        self._failed: GroupTask | None = None
        self._failed_first = False  # before the block was left by an exception
        self._state = GroupState.OPEN
        self._results: list[Any] = []

    def submit(
        self,
        res: Resource,
        fn: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Delayed[T]:
        """Queue a task, and return at once.

        Args:
            res: the resources it needs, as ``Cores(4)``. With ``ZERO`` it is a branch, as by
                `start_subtask`.
            fn: an async function, called with the other arguments on a worker.

        Returns:
            The delayed object of its result. There is no need to await it: the group waits for the
            task, and its result is one of `results`.

        Raises:
            WaitGroupClosed: the group's block has ended.
            TypeError: res is not a resource, fn no plain function, or an argument is or holds a
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
        task = self._new(fn, args, kwargs)
        self._ids[task] = task.number = self._mission.submit(res, Call(fn, args, kwargs), task)
        return self._add(task)

    def start_subtask(
        self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Delayed[T]:
        """Start a branch, which runs in this process and may open waitgroups itself.

        Branches begin in the order of these calls.

        Args:
            fn: an async function, called with the other arguments.

        Returns:
            The delayed object of its result, as in `submit`; the result is one of `results`.

        Raises:
            WaitGroupClosed, TypeError: as `submit`.
        """
        task = self._new(fn, args, kwargs)
        call = Call(fn, args, kwargs)
        self._mission.start_branch(self._nursery, call, task)
        return self._add(task)

    @property
    def results(self) -> list[Any]:
        """The results of the tasks and branches, in the order in which they were submitted.

        Raises:
            ResultsNotReady: the block has not ended yet, or was left by an exception.
        """
        if self._state is GroupState.DONE:
            return self._results
        if self._state is GroupState.OPEN:
            raise ResultsNotReady(
                "the results of a waitgroup are there when its `async with` block has ended. In "
                "it, await what submit() returned: r_ = wg.submit(Cores(1), fn); r = await r_"
            )
        raise ResultsNotReady(
            "this waitgroup has no results: its block was left by an exception, which cancelled "
            "what had not ended"
        )

    def __repr__(self) -> str:
        ended = len(self._tasks) - self._pending
        return f"<WaitGroup: {self._state.value}, {ended} of {len(self._tasks)} ended>"

    # ---- taking tasks

    def _new(self, fn: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GroupTask:
        if self._state is not GroupState.OPEN:
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
        return GroupTask(self, self._mission, fn)

    def _add(self, task: GroupTask) -> Delayed[Any]:
        self._tasks.append(task)
        self._pending += 1
        return Delayed(task, None, True)

    # ---- their ends

    def _ended(self, task: GroupTask) -> None:
        """Count a task that has ended; the first failure cancels the others."""
        self._pending -= 1
        self._ids.pop(task, None)
        error = _error_of(task)
        if error is not None:
            # A task that was cancelled says less than one that failed.
            if self._failed is None or (_was_cancelled(self._failed) and not _was_cancelled(task)):
                self._failed = task
            self._nursery.cancel_scope.cancel()
        if not self._pending:
            self._last = task
            self._idle.set()

    async def _join(self) -> None:
        """Wait until no task is left; more may be submitted meanwhile."""
        await trio.lowlevel.checkpoint()
        while self._pending:
            if self._idle.is_set():
                self._idle = trio.Event()
            await self._idle.wait()
            if self._last is not None:
                waited_for(self._last)

    async def _leave(self) -> None:
        """Cancel what has not ended, and wait until nothing of it is left."""
        self._state = GroupState.FAILED
        self._failed_first = self._failed is not None and not _was_cancelled(self._failed)
        self._nursery.cancel_scope.cancel()
        for number in list(self._ids.values()):  # a task that waits ends at once
            self._mission.executor.cancel(number)
        over = trio.Event()

        async def wait_in_the_mission() -> None:
            try:
                await self._join()
            finally:
                over.set()

        with trio.CancelScope(shield=True):
            if self._mission.ended:
                await self._join()
                return
            # If the mission itself is cancelled, its executor waits for the tasks, and does so only
            # when all of its block has been left: a branch of the mission ends this wait then.
            self._mission.branches.start_soon(wait_in_the_mission)
            await over.wait()

    def _stands_for(self, error: BaseException) -> bool:
        """Return True if the first failure is to be raised instead of the block's exception."""
        failure = None if self._failed is None else _error_of(self._failed)
        rest: BaseException | None = error
        if isinstance(error, trio.Cancelled):
            rest = None
        elif isinstance(error, BaseExceptionGroup):
            rest = error.split(trio.Cancelled)[1]
            rest = rest and collapsed(rest)
        if rest is None:
            # Cancelled tasks are what a cancellation of the whole block leaves behind.
            return self._failed is not None and not _was_cancelled(self._failed)
        if self._failed_first and isinstance(rest, Exception) and rest is not failure:
            _note(failure, [rest], "the block raised")
            return True
        _note(error, self._others(rest))
        return False

    def _finish(self) -> None:
        """Raise the first failure, or set the results; the block has ended."""
        __tracebackhide__ = True
        if self._state is GroupState.DONE:
            return
        self._state = GroupState.FAILED
        if self._failed is not None:
            failure = _error_of(self._failed)
            assert failure is not None
            _note(failure, self._others(failure))
            raise failure.with_traceback(self._failed.traceback)
        self._results = [task.value for task in self._tasks]
        self._state = GroupState.DONE

    def _others(self, raised: BaseException) -> list[BaseException]:
        """Return the failures beside the exception that is raised."""
        errors = [_error_of(task) for task in self._tasks if not _was_cancelled(task)]
        return [error for error in errors if error is not None and error is not raised]


def _error_of(task: GroupTask) -> BaseException | None:
    return task.outcome.error if isinstance(task.outcome, outcome.Error) else None


def _was_cancelled(task: GroupTask) -> bool:
    return isinstance(_error_of(task), TaskCancelled)


def _note(
    error: BaseException | None,
    others: list[BaseException],
    what: str = "failed in the same waitgroup",
) -> None:
    """Add a note that names other exceptions to the raised one."""
    if error is None or not others:
        return
    from grain.worker.payload import add_note

    named = "; ".join(repr(other) for other in others[:_NOTED])
    more = f"; and {len(others) - _NOTED} more" if len(others) > _NOTED else ""
    add_note(error, f"Besides, {what}: {named}{more}")
