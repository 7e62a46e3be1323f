"""`HubLog`: what happens to the tasks of all missions of a scheduler, as lines of its event log."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Literal

import trio

from grain.eventlog import schema
from grain.eventlog.usage import decode_report
from grain.head.run_log import one_line
from grain.head.task_log import WAITING, TaskLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grain.eventlog.usage import Report
    from grain.head.hub.state import LeaseRecord, TaskRecord, WorkerRecord
    from grain.head.scheduler.state import TaskQueue
    from grain.head.task_log import Lines
    from grain.worker.messages import RunEnded

Outcome = Literal["value", "error", "cancelled", "crashed", "lost", "returned"]


class HubLog(TaskLog):
    """The log of a hub, which is made when there is a first line.

    Args:
        clock: as in `TaskLog`.

    Attributes:
        fresh: tasks that have come, each with the time in `TaskRecord.submitted`: the hub adds
            them.
    """

    def __init__(
        self, begin: Callable[[], Lines], clock: Callable[[], float] = trio.current_time
    ) -> None:
        super().__init__(begin, clock)
        self.fresh: list[TaskRecord] = []
        self._last_queue: TaskQueue | None = None
        self._workers: Mapping[str, WorkerRecord] = {}
        self._wall = 0.0
        # Tasks that a question has looked at, and that have no line.
        self._waiting: deque[TaskRecord] = deque()

    def mission_joined(self, mission: str, name: str) -> None:
        """Note a mission that has registered for the first time."""
        self._add(schema.MissionJoined(time=self._now(), mission=mission, name=name))

    def mission_back(self, mission: str, tasks: Mapping[int, TaskRecord]) -> None:
        """Forget the tasks of a mission that have no line, as it is about to submit them again.

        Args:
            tasks: those of it that the hub has kept.
        """

        def stays(task: TaskRecord) -> bool:
            return task.mission.id != mission or tasks.get(task.number) is task

        self.fresh = list(filter(stays, self.fresh))
        self._waiting = deque(filter(stays, self._waiting))

    def mission_left(self, mission: str) -> None:
        """Note a mission that has left, or is not waited for any more; its tasks are over."""
        latest, self._latest = self._latest, math.inf
        self._list_tasks(math.inf, WAITING)
        self._latest = latest
        # The rest of its tasks was too many to be listed.
        self._waiting = deque(task for task in self._waiting if task.mission.id != mission)
        self._add(schema.MissionLeft(time=self._now(), mission=mission))

    def worker_left(self, worker: WorkerRecord, why: str) -> None:
        """Note that a worker has left, or is lost, if there is a reason."""
        at = self._log.time_of(worker.heard) if why else None
        self._add(schema.WorkerLeft(time=self._now(), worker=worker.unique_name, why=why, heard=at))

    def follow(self, workers: Mapping[str, WorkerRecord], wall: float) -> None:
        """Look at the runs of the workers of a hub now and then.

        Args:
            wall: the difference between the clock of Unix and that of the hub, in seconds.
        """
        self._workers = workers
        self._wall = wall

    def on_dispatch(self, now: float) -> None:
        """Take note of the time at which the hub has filled `fresh`, or counted tasks."""
        self.now = now
        if now > self._latest and (self.fresh or self._counts):
            self._hold(now)

    def _count(self, task: TaskRecord, seconds: float, taken: float) -> None:
        """Count a task that has ended with a value after a brief run, while there is no `room`.

        Args:
            task: its record; it has no line.
            seconds: the length of the run.
            taken: the time since its submission.
        """
        count, queue, key = self.last, task.queue, task.function
        if queue is not self._last_queue or key != count.key:
            assert queue is not None
            self._last_queue, mission = queue, task.mission
            name = mission.function_names.get(key, "")
            count = self._counted_as(key, mission.id, name, queue.request, self.now - seconds)
        count.tasks += 1
        count.seconds += seconds
        count.taken += taken

    def on_run_ended(
        self, ended: RunEnded, lease: LeaseRecord, task: TaskRecord | None, now: float
    ) -> None:
        """Note the end of a run, or count it.

        Args:
            task: the one that it is a run of; None if that is of no concern any more.
        """
        if (
            type(ended.report) is float
            and ended.status == "value"
            and task is not None
            and task.submitted is not None
            and not self.room
        ):
            self._count(task, ended.report, now - task.submitted)
            task.submitted = None
            return
        failed = ended.status == "error" and lease.current
        cancelled = ended.status == "cancelled" and task is not None and task.retracted
        over = ended.status == "value" or failed or cancelled
        final = over and task is not None and task.ending is None
        whose = ended.mission, ended.task
        self._over(*whose, ended.status, task, lease, ended.detail, ended.report, final=final)

    def on_run_lost(self, lease: LeaseRecord, task: TaskRecord, how: str, *, ran: bool) -> None:
        """Note a run that was lost with its worker, or before it began there."""
        outcome: Outcome = "lost" if ran else "returned"
        self._over(
            task.mission.id, task.number, outcome, task, lease, how, heard=lease.worker.heard
        )

    def on_task_over(self, task: TaskRecord, outcome: Outcome, how: str = "") -> None:
        """Note the end of a task, beside those of its runs."""
        self._over(task.mission.id, task.number, outcome, task, None, how, final=True)

    def _over(
        self,
        mission: str,
        task: int,
        outcome: Outcome,
        record: TaskRecord | None,
        lease: LeaseRecord | None,
        how: str,
        report: Report = b"",
        *,
        final: bool = False,
        heard: float = math.inf,
    ) -> None:
        """Note the end of a run, or of a task without one.

        Args:
            mission: the id of the mission.
            task: the number of the task.
            outcome: how it has ended.
            record: the task; None if it is of no concern any more.
            lease: the run.
            how: of a crash, how the process died; of an error, its class and its text.
            final: True if the task is over with it.
            heard: when there was the last sign of the worker, by the clock of the hub, if the run
                was lost with it.
        """
        if self.room:
            self.room -= 1
        if record is not None:
            self._list(record)
        attempt = 1 if record is None else len(record.crashes)
        worker = host = ""
        began = None
        if lease is not None:
            self._list_start(lease, mission, task)
            worker, host = lease.worker.unique_name, lease.worker.host
            attempt = 1 if record is None else attempt + 1
            began = self._wall + lease.began if lease.began else None
        now = self._now()
        ended = None if began is None else max(began, min(now, self._log.time_of(heard)))
        cpus: tuple[int, ...] = ()
        usage = None
        read = decode_report(report, now)
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

    # ---- what is looked at later

    def _list_tasks(self, horizon: float, most: float) -> bool:
        fresh, self.fresh = self.fresh, []
        waiting = self._waiting
        waiting.extend([task for task in fresh if task.submitted is not None])
        while waiting:
            submitted = waiting[0].submitted
            if submitted is not None:
                if submitted > horizon or most <= 0:
                    break
                most -= 1
                self._list(waiting[0])
            waiting.popleft()
        return self._list_starts(horizon) or bool(waiting)

    def _list_starts(self, horizon: float) -> bool:
        """Make lines of the runs that have begun up to a time; return True if there are others."""
        more = False
        for worker in self._workers.values():
            for lease in worker.leases.values():
                if lease.given is None or lease.task is None:
                    continue
                if lease.given > horizon:
                    more = True
                    continue
                self._list(lease.task)
                self._list_start(lease, lease.task.mission.id, lease.task.number)
        return more

    def _list(self, task: TaskRecord) -> None:
        """Make the line of a submission, unless there is one."""
        if task.submitted is None:
            return
        submitted, task.submitted = task.submitted, None
        assert task.queue is not None
        numbers, text = self._words.of(task.queue.request)
        self._add(
            schema.TaskSubmitted(
                time=self._log.time_of(submitted),
                task=task.number,
                function=task.mission.function_names.get(task.function, ""),
                request=numbers,
                request_text=text,
                mission=task.mission.id,
            )
        )

    def _list_start(self, lease: LeaseRecord, mission: str, task: int) -> None:
        """Make the line of the start of a run, unless there is one."""
        if lease.given is None:
            return
        given, lease.given = lease.given, None
        self._add(
            schema.TaskStarted(
                time=self._log.time_of(given),
                task=task,
                worker=lease.worker.unique_name,
                mission=mission,
            )
        )
