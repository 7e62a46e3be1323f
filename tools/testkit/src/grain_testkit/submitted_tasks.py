"""Tasks as executors keep them, without an executor: for event logs, and for mission sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.base import CallKind, SubmittedTask
from grain.head.run_log import RunLog
from grain.remote_exer.session import RemoteTask, taken
from grain.resource import ZERO
from grain_testkit.kept_lines import KeptLines

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Payload
    from grain.remote_exer import MissionSession, Resolution
    from grain.resource import Resource


def remote_task(
    asked: int,
    digest: bytes = b"f",
    arguments: Payload = b"",
    urgency: float = 0.0,
    request: Resource = ZERO,
) -> RemoteTask:
    """Return a task of a request, which a session numbers."""
    kind = CallKind("f", 0)
    return RemoteTask(digest, request, kind, urgency=urgency, arguments=arguments, asked=asked)


class SessionLog:
    """The event log of the mission of a session, as `RemoteExecutor` keeps it.

    Args:
        session: the session.
        clock: its clock.
        wall: what people's clock shows when that is at 0.
        run_log: the class that makes the lines.

    Attributes:
        tasks: those without an outcome, by number, without lanes.
        kept: the lines.
    """

    def __init__(
        self,
        session: MissionSession,
        clock: Callable[[], float],
        wall: float = 0.0,
        run_log: type[RunLog] = RunLog,
    ) -> None:
        self.tasks: dict[int, SubmittedTask] = {}
        self.kept = KeptLines(wall)
        self._session = session
        self._log = run_log(self.kept, session.id, clock)
        self._log.follow(self.tasks, self._note_starts)
        session.reports = []

    def on_submitted(self, task: int, record: RemoteTask) -> None:
        """Note a task that the session has just taken."""
        record.submitted = self._log.tick()
        self.tasks[task] = record
        if record.worker:
            self._session.running.setdefault(task, self._log.now)
            self._log.started((task,), record.worker, self._log.now)

    def on_news(self) -> None:
        """Note what the session reports; before the outcomes that have come with it."""
        self._log.on_messages(taken(self._session.reports or []))

    def on_resolved(self, resolution: Resolution) -> None:
        """Note the outcome of a task."""
        record = self.tasks.pop(resolution.task, None)
        if record is None:
            return
        assert isinstance(record, RemoteTask)
        failed = resolution.ending in ("error", "crashed")
        self._log.ended(
            resolution.task,
            ValueError("as planned") if failed else None,
            record=record,
            cancelled=resolution.ending == "cancelled",
            crashed=resolution.ending == "crashed",
            report=resolution.report,
            worker=record.worker,
        )

    def write(self) -> None:
        """Write what is held; more may come."""
        self._log.close()

    def _note_starts(self) -> None:
        session = self._session
        if session.ahead.used:
            session.ahead.used = bool(session.ahead.behind)
            for task, at in session.running.items():
                record = session.pending[task]
                self._log.started((task,), record.worker, at, record.alternative)


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
