"""`HubLog`: what happens to the tasks of all missions of a scheduler, as lines of its event log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from grain.eventlog import schema
from grain.eventlog.usage import decode_report
from grain.head.run_log import one_line
from grain.head.task_log import TaskLog, amounts

if TYPE_CHECKING:
    from grain.resource import Resource


Outcome = Literal["value", "error", "cancelled", "crashed", "lost", "returned"]


class HubLog(TaskLog):
    """The log of a hub, which is made when there is a first line.

    Args:
        begin: begins the log.
        clock: as of `TaskLog`.
    """

    def mission_joined(self, mission: str, name: str) -> None:
        """Note a mission that has registered for the first time."""
        self._add(schema.MissionJoined(time=self._now(), mission=mission, name=name))

    def mission_left(self, mission: str) -> None:
        """Note a mission that has left, or is not waited for any more; its tasks are over."""
        self._add(schema.MissionLeft(time=self._now(), mission=mission))
        self._forget_counts(mission)

    def worker_joined(
        self, worker: str, host: str, job: str, total: dict[str, Any], ends: float | None
    ) -> None:
        """Note a worker; its resources are plain data."""
        self._add(
            schema.WorkerJoined(
                time=self._now(),
                worker=worker,
                host=host,
                job=job,
                resources=amounts(total),
                ends=ends,
            )
        )

    def worker_left(self, worker: str, why: str) -> None:
        """Note that a worker has left, or is lost."""
        self._add(schema.WorkerLeft(time=self._now(), worker=worker, why=why))

    def submitted(self, mission: str, task: int, function: str, request: Resource) -> None:
        """Note a task that this scheduler did not have."""
        self.note((mission, task), function, request, mission=mission)

    def started(self, mission: str, task: int, worker: str) -> None:
        """Note that a task was given to a worker."""
        key = mission, task
        if key in self._notes:
            if key not in self._begun:
                self._begun[key] = self._reading, worker
                return
            self._list(key)
        self._add(schema.TaskStarted(time=self._now(), task=task, worker=worker, mission=mission))

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
        key = mission, task
        if key in self._notes:
            self._list(key)
        now = self._now()
        ended = None if began is None else now
        cpus: tuple[int, ...] = ()
        usage = None
        read = decode_report(report)
        if read is not None:
            began, ended, cpus, usage = read.started, read.ended, read.cpus, read.usage
        error = ""
        if outcome == "error":
            error, _, how = how.partition(": ")
        self._add(
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
