"""Tasks as executors keep them, without an executor: for event logs, and for mission sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.base import CallKind, SubmittedTask
from grain.remote_exer.session import RemoteTask
from grain.resource import ZERO

if TYPE_CHECKING:
    from grain.edge.messages import Payload
    from grain.head.run_log import RunLog
    from grain.resource import Resource


def remote_task(
    asked: int, digest: bytes = b"f", arguments: Payload = b"", urgency: float = 0.0
) -> RemoteTask:
    """Return a task of a request, which a session numbers."""
    kind = CallKind("f", 0)
    return RemoteTask(digest, ZERO, kind, urgency=urgency, arguments=arguments, asked=asked)


class SubmittedTasks:
    """The tasks of a mission with a log.

    Args:
        log: the log.
        request: what the tasks ask for that are not submitted by a test.
        count: their number.
    """

    def __init__(self, log: RunLog, request: Resource, count: int = 0) -> None:
        self._log = log
        self.tasks: dict[int, SubmittedTask] = {}
        log.follow(self.tasks)
        for task in range(1, count + 1):
            self.tasks[task] = _task_of("f", request)
        self._last = count

    def submit(self, function: str, request: Resource, after: int = 0, retry_of: int = 0) -> int:
        """Submit a task, as an executor does; return its number."""
        self._last = task = self._last + 1
        record = self.tasks[task] = _task_of(function, request, after)
        record.submitted = self._log.tick()
        if retry_of:
            self._log.retried(task, retry_of)
        return task

    def end(self, task: int, seconds: float = 0.0) -> None:
        """End a task with a value, after a brief run; as an executor does."""
        record = self.tasks.pop(task)
        self._log.tick()
        if record.submitted is not None and not self._log.room:
            self._log.count(record, 1, seconds, record.submitted)
        else:
            self._log.ended(task, None, record=record, report=seconds)


def _task_of(function: str, request: Resource, after: int = 0) -> RemoteTask:
    kind = CallKind(function, 0)
    return RemoteTask(function, request, kind, after=after, arguments=b"", asked=0)
