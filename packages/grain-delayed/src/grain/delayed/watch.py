"""A callback for the end of the tasks behind a delayed object, without an await of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import outcome

from grain.delayed.graph import tasks_behind

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.delayed.graph import Node, TaskNode


class Watch:
    """A function that is called once, when the tasks behind a node have ended.

    If they have ended already, the function is called at once.

    Args:
        callback: called without arguments, possibly in the executor's trio task: it must return
            soon and raise nothing.
        first_failure: if true, one task that failed is enough, as it is for an await of the node.

    Attributes:
        pending: the tasks that have not ended; empty after the call.
    """

    __slots__ = ("_callback", "_first_failure", "_missing", "pending")

    def __init__(
        self, node: Node, callback: Callable[[], object], *, first_failure: bool = False
    ) -> None:
        self._callback: Callable[[], object] | None = callback
        self._first_failure = first_failure
        tasks = tasks_behind([node])
        self.pending = [task for task in tasks if task.outcome is None]
        self._missing = len(self.pending)
        failed = any(type(task.outcome) is outcome.Error for task in tasks)
        if not self.pending or (failed and first_failure):
            self.pending = []
            self._call()
        for task in self.pending:
            task.add_dependent(self)

    def arrived(self, task: TaskNode) -> None:
        """Count a task that has ended."""
        self._missing -= 1
        if not self._missing or (self._first_failure and type(task.outcome) is outcome.Error):
            self._call()

    def stop(self) -> None:
        """Call nothing any more, and leave no reference in the tasks that still run."""
        self._callback = None
        for task in self.pending:
            if task.dependents is not None and self in task.dependents:
                task.dependents.remove(self)
        self.pending = []

    def _call(self) -> None:
        callback = self._callback
        self.stop()
        if callback is not None:
            callback()
