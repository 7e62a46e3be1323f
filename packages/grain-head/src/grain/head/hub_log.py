"""`HubLog`: what happens to the tasks of all missions of a scheduler, as lines of its event log."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from grain.eventlog import schema
from grain.eventlog.usage import decode_report
from grain.head.run_log import RequestWords, amounts, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.head.run_log import Lines
    from grain.resource import Resource


Outcome = Literal["value", "error", "cancelled", "crashed", "lost", "returned"]


class HubLog:
    """The log of a hub, which is made when there is a first line.

    Args:
        begin: begins the log.
    """

    def __init__(self, begin: Callable[[], Lines]) -> None:
        self._begin = begin
        self._requests = RequestWords()

    @cached_property
    def _log(self) -> Lines:
        return self._begin()

    def mission_joined(self, mission: str, name: str) -> None:
        """Note a mission that has registered for the first time."""
        log = self._log
        log.write(schema.MissionJoined(time=log.now(), mission=mission, name=name))

    def mission_left(self, mission: str) -> None:
        """Note a mission that has left, or is not waited for any more; its tasks are over."""
        log = self._log
        log.write(schema.MissionLeft(time=log.now(), mission=mission))

    def worker_joined(
        self, worker: str, host: str, job: str, total: dict[str, Any], ends: float | None
    ) -> None:
        """Note a worker; its resources are plain data."""
        log = self._log
        log.write(
            schema.WorkerJoined(
                time=log.now(),
                worker=worker,
                host=host,
                job=job,
                resources=amounts(total),
                ends=ends,
            )
        )

    def worker_left(self, worker: str, why: str) -> None:
        """Note that a worker has left, or is lost."""
        log = self._log
        log.write(schema.WorkerLeft(time=log.now(), worker=worker, why=why))

    def submitted(self, mission: str, task: int, function: str, request: Resource) -> None:
        """Note a task that this scheduler did not have."""
        log = self._log
        numbers, text = self._requests.of(request)
        log.write(
            schema.TaskSubmitted(
                time=log.now(),
                task=task,
                function=function,
                request=numbers,
                request_text=text,
                mission=mission,
            )
        )

    def started(self, mission: str, task: int, worker: str) -> None:
        """Note that a task was given to a worker."""
        log = self._log
        log.write(schema.TaskStarted(time=log.now(), task=task, worker=worker, mission=mission))

    def run_over(
        self,
        mission: str,
        task: int,
        outcome: Outcome,
        *,
        final: bool,
        worker: str = "",
        host: str = "",
        began: float | None = None,
        attempt: int = 1,
        how: str = "",
        report: bytes = b"",
    ) -> None:
        """Note the end of a run, or of a task without one.

        Args:
            mission: the id of the mission.
            task: the number of the task.
            outcome: how it has ended.
            final: True if the task is over with it.
            worker: the name of the worker.
            host: its host.
            began: when the task was given to it, in Unix seconds.
            attempt: its number, from 1.
            how: of a crash, how the process died; of an error, its class and its text.
            report: of the worker, as bytes.
        """
        log = self._log
        now = log.now()
        ended = None if began is None else now
        cpus: tuple[int, ...] = ()
        usage = None
        read = decode_report(report)
        if read is not None:
            began, ended, cpus, usage = read.started, read.ended, read.cpus, read.usage
        error = ""
        if outcome == "error":
            error, _, how = how.partition(": ")
        log.write(
            schema.RunEnded(
                time=now,
                task=task,
                outcome=outcome,
                worker=worker,
                host=host,
                attempt=attempt,
                started=began,
                ended=ended,
                cpus=cpus,
                error=error,
                message=one_line(how) if how else "",
                final=final,
                usage=usage,
                mission=mission,
            )
        )
