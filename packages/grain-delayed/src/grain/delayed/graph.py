"""The graph behind delayed objects: nodes that tasks fill in, and recorded operations on them.

An operation is recorded with the *nodes* of its operands, not with the delayed objects: a delayed
object may be assigned to later (``a[0] = 1`` gives it another node), which must not change what
was derived from it before.

Nothing here is recursive: ``s += f(i)`` in a loop makes a chain as long as the loop.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import outcome
import trio

from grain.delayed.errors import NotInMission
from grain.delayed.host import checkpoint, event_here
from grain.head import TaskCancelled
from grain.worker.call import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

Outcome = outcome.Value[Any] | outcome.Error


class Dependent(Protocol):
    """An object that waits for the outcomes of tasks."""

    def arrived(self, task: TaskNode, /) -> None:
        """Record that one more task has ended. Raises nothing."""


woken_by: ContextVar[int] = ContextVar("the task whose end this code last waited for", default=0)
"""The number of the task for which the calling code has last waited, in a mission with a log.

What the code did from then on it could not do before the end of that task. A branch inherits it
from its caller.
"""


class MissionTasks:
    """The tasks of one mission, as far as delayed objects need to know them.

    Attributes:
        unseen: the tasks that failed and whose failure no await has raised yet, as an ordered set.
    """

    __slots__ = ("_token", "recorded", "unseen")

    def __init__(self, *, recorded: bool = False) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self.recorded = recorded
        self.unseen: dict[TaskNode, None] = {}

    @property
    def here(self) -> bool:
        """True if the calling code runs in the trio run of the mission."""
        try:
            return trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:
            return False

    def unseen_failures(self) -> list[Exception]:
        """Return the exceptions of the tasks that were not awaited."""
        errors = [t.outcome.error for t in self.unseen if isinstance(t.outcome, outcome.Error)]
        return [e for e in errors if isinstance(e, Exception) and not isinstance(e, TaskCancelled)]


class TaskNode:
    """A node that one task fills in: the executor calls it with the outcome of the task.

    Attributes:
        number: the task's number, once the executor has it. For a branch, in a mission with a log,
            the number of the task that it waited for last; else 0.
    """

    __slots__ = ("awaited", "dependents", "name", "number", "outcome", "tasks", "traceback")

    def __init__(self, tasks: MissionTasks, fn: Callable[..., Any]) -> None:
        self.tasks = tasks
        self.number = 0
        self.name = name_of(fn)
        self.outcome: Outcome | None = None
        self.traceback: TracebackType | None = None
        # True once an await of it has ended. Until then its failure is reported at the end of the
        # mission: an await that was given up, as by a timeout, has raised nothing.
        self.awaited = False
        # None instead of an empty list: most tasks have no more than one dependent, for a while.
        self.dependents: list[Dependent] | None = None

    def __call__(self, ended: Outcome) -> None:
        """Take the outcome of the task, once."""
        self.outcome = ended
        if type(ended) is outcome.Error:
            self.traceback = ended.error.__traceback__
            if not self.awaited:
                self.tasks.unseen[self] = None
        dependents, self.dependents = self.dependents, None
        for dependent in dependents or ():
            dependent.arrived(self)

    def add_dependent(self, dependent: Dependent) -> None:
        """Report the outcome to an object, too."""
        if self.dependents is None:
            self.dependents = [dependent]
        else:
            self.dependents.append(dependent)

    @property
    def done(self) -> bool:
        """True if the task has ended."""
        return self.outcome is not None

    @property
    def value(self) -> Any:
        """The value of a task that has ended well."""
        assert isinstance(self.outcome, outcome.Value)
        return self.outcome.value


@dataclass(slots=True, eq=False, repr=False)
class Operation:
    """A recorded call of a function whose arguments may be nodes, and later its value."""

    function: Callable[..., Any] | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    needs: Sequence[Node]
    done: bool = False
    value: Any = None

    def compute(self) -> None:
        """Compute the value; all needs are done."""
        __tracebackhide__ = True
        assert self.function is not None
        args = tuple(_filled(arg) for arg in self.args)
        kwargs = {name: _filled(arg) for name, arg in self.kwargs.items()}
        self.value = self.function(*args, **kwargs)
        self.done = True
        # The operands may be large.
        self.function, self.args, self.kwargs, self.needs = None, (), {}, ()


class Constant:
    """A value that exists from the beginning."""

    __slots__ = ("value",)

    done = True

    def __init__(self, value: Any) -> None:
        self.value = value


Node = TaskNode | Operation | Constant


class Gathering:
    """A wait for several tasks: until all have ended, or the first of them has failed."""

    __slots__ = ("_event", "_last", "_missing", "_tasks")

    def __init__(self, tasks: Sequence[TaskNode]) -> None:
        self._event = event_here()
        self._tasks = tasks
        self._missing = len(tasks)
        self._last = tasks[0]
        for task in tasks:
            task.add_dependent(self)

    def arrived(self, task: TaskNode) -> None:
        """Count a task that has ended."""
        self._missing -= 1
        if not self._missing or type(task.outcome) is outcome.Error:
            self._last = task
            self._event.set()

    async def wait(self) -> None:
        """Wait; a wait that is given up leaves no reference in the tasks."""
        __tracebackhide__ = True
        try:
            await self._event.wait()
            waited_for(self._last)
        finally:
            if self._missing:  # or a task that is awaited again and again would keep every wait
                for task in self._tasks:
                    if task.dependents is not None:
                        task.dependents.remove(self)


def waited_for(task: TaskNode) -> None:
    """Note that the calling code has waited for the end of a task."""
    if task.tasks.recorded and task.number:
        woken_by.set(task.number)


def tasks_behind(roots: Iterable[Node]) -> list[TaskNode]:
    """Return the tasks from which the nodes are still to be computed, in the order of the calls."""
    tasks: dict[TaskNode, None] = {}
    seen: set[Node] = set()
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, TaskNode):
            tasks[node] = None
        elif isinstance(node, Operation) and not node.done and node not in seen:
            seen.add(node)
            stack.extend(reversed(node.needs))
    return list(tasks)


def name_behind(root: Node) -> str:
    """Return the display name of the source of a node; empty if that is not a task."""
    if isinstance(root, TaskNode):
        return root.name.rpartition("<locals>.")[2]
    stack: list[Node] = [root]
    looked_at = 0
    while stack and looked_at < _MOST:
        node = stack.pop()
        looked_at += 1
        if isinstance(node, TaskNode):
            return f"of {name_behind(node)}"
        if isinstance(node, Operation) and not node.done:
            stack.extend(node.needs)
    return ""


_MOST = 1000  # nodes that are looked at for a name


async def gather(roots: Sequence[Node]) -> list[Any]:
    """Wait for the tasks behind some nodes, and return the values of the nodes.

    Raises:
        Exception: the exception of the first task that failed, at once; the other tasks go on.
        NotInMission: a pending task belongs to a mission that the caller cannot wait for.
    """
    __tracebackhide__ = True
    tasks = tasks_behind(roots)
    missing = [task for task in tasks if task.outcome is None]
    failed = any(type(task.outcome) is outcome.Error for task in tasks)
    if missing and not failed:
        for task in missing:
            check_here(task)
        await Gathering(missing).wait()
    else:
        await checkpoint()
    # The first failure stands for all of these tasks: the end of the mission reports none.
    for task in tasks:
        task.awaited = True
        task.tasks.unseen.pop(task, None)
    for task in tasks:
        if type(task.outcome) is outcome.Error:
            # Restore its first traceback, as each await would make the traceback longer.
            raise task.outcome.error.with_traceback(task.traceback)
    return [evaluated(root) for root in roots]


def check_here(task: TaskNode) -> None:
    """Check that the calling code can wait for a task.

    Raises:
        NotInMission: the task's mission runs in another trio run.
    """
    if not task.tasks.here:
        raise NotInMission(
            "this delayed object belongs to a mission of another thread or trio program; "
            "await it there"
        )


def evaluated(root: Node) -> Any:
    """Return the value of a node; all tasks behind it have ended well."""
    __tracebackhide__ = True
    stack = [root]
    while stack:
        node = stack[-1]
        if isinstance(node, Operation) and not node.done:
            missing = [need for need in node.needs if not need.done]
            if missing:
                stack.extend(reversed(missing))  # evaluated from left to right, as by Python
                continue
            node.compute()
        stack.pop()
    return root.value


def _filled(arg: Any) -> Any:
    """Return an argument with each node replaced by its value."""
    if isinstance(arg, TaskNode | Operation | Constant):
        return arg.value
    if type(arg) is Nested:
        return arg.filled()
    return arg


@dataclass(slots=True, eq=False, repr=False)
class Nested:
    """A list, tuple, dict or slice among the arguments that contains nodes."""

    kind: type
    items: list[Any]

    def filled(self) -> Any:
        """Return the container with each node replaced by its value."""
        items = [_filled(item) for item in self.items]
        if self.kind is slice:
            return slice(*items)
        if self.kind is dict:
            return dict(zip(items[::2], items[1::2], strict=True))
        return self.kind(items)
