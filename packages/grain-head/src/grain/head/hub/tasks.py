"""The task table of a hub: every task and its runs, from submission to outcome. No I/O, no clock.

A task waits for room, runs as a lease on a worker, and is resolved (`grain.head.hub.state` has its
states). The rules:

1.  A lease holds resources on its worker until the worker reports that the run has ended, or
    reports without it on a later connection, or is lost as a whole. No timer frees them.
2.  The first success of any run resolves a task; a failure only if it is that of the current run.
    What comes after the resolution is acknowledged and dropped.
3.  A run that a worker reports is adopted by its task if that waits. If another run of the task is
    under way, the older of the two goes on and the other is revoked, but holds what it holds. One
    that has ended, its outcome still to come, keeps no other from going on.
4.  A task whose mission is away is not started: if it waits it is forgotten, as the mission will
    submit it again. If it runs it goes on.
5.  A run that was begun and whose process or worker died is a crash of its task. After `SOLO`
    crashes a task runs alone on a worker (`grain.head.hub.quarantine`); after `CRASHES` it fails.
    A run that was under way when the time of its worker was over is not a crash, and has rules
    of its own (`grain.head.scheduler.outlived`). Runs that were lost in any other way do not count.
6.  A mission that leaves too many outcomes unconfirmed, or too many bytes, is paused: its waiting
    tasks are parked until half of that is confirmed. What runs goes on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from grain.edge.questions import TaskCounts
from grain.head.errors import BadMessage, TaskOutlivesWorkers
from grain.head.hub.fair_share import FairShare
from grain.head.hub.state import ITS_MISSION, FailedTask, LeaseRecord, TaskRecord
from grain.head.messages import Crash, Crashed, Resolved, Retracted, Started
from grain.head.scheduler.outlived import blamed, lasts_too_long, seen
from grain.head.scheduler.state import split_time
from grain.head.validation import check_attempt, resources_of
from grain.resource import Supply, to_data
from grain.worker.messages import TIME_OVER, Lease, Outlived, Revoke

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Payload
    from grain.eventlog.usage import Report
    from grain.head.hub.functions import FunctionTable
    from grain.head.hub.prefetch import Prefetch
    from grain.head.hub.quarantine import Quarantine
    from grain.head.hub.reports import WorkerReports
    from grain.head.hub.state import MissionRecord, Outgoing, Registry, WorkerRecord
    from grain.head.hub.unschedulable import UnschedulableRequests
    from grain.head.hub_log import HubLog
    from grain.head.messages import Ending
    from grain.head.scheduler.scheduler import Scheduler
    from grain.head.scheduler.state import Start
    from grain.worker.messages import Attempt, InventoryRun, RunEnded

SOLO = 2
"""Crashes after which a task runs alone."""

CRASHES = 5
"""Crashes after which a task fails."""


MAX_UNCONFIRMED = 250_000
"""Outcomes that a mission may leave unconfirmed before it is paused."""

MAX_UNCONFIRMED_BYTES = 1024**3
"""Bytes of them, likewise: they are in memory here, and on the workers that have sent them."""


def given_up(crashes: tuple[Crash, ...]) -> bool:
    """Return True if a task fails: after too many crashes, or if no worker lasts long enough."""
    return bool(crashes) and (blamed(crashes) >= CRASHES or lasts_too_long(crashes))


class TaskTable:
    """The tasks of all missions and their runs on all workers.

    Args:
        epoch: this head's number; no other head of these missions and workers has it.
        wall: the difference between the clock of Unix and that of ``now``, in seconds.
        registry: the missions and workers, whose records hold their tasks and leases.
        scheduler: decides what starts.
        prefetch: decides what waits on workers.
        quarantine: decides where suspects run.
        functions: sends functions to workers.
        unschedulable: informs missions of requests that no worker can meet.
        reports: informs missions of workers.
        outgoing: takes the messages.

    Attributes:
        by_scheduler_id: what each of the scheduler's tasks is here: a task that waits, or a lease
            that holds resources.
        awaiting_report: the tasks that wait for a worker's report, by the worker's id.
        done: how many tasks have resolved with a value.
        failed: how many have failed for good. A failure counts when its mission has confirmed it,
            as nobody else knows that it tries the task again.
        retried: how many have failed and were tried again.
    """

    def __init__(
        self,
        epoch: int,
        wall: float,
        *,
        registry: Registry,
        scheduler: Scheduler,
        prefetch: Prefetch,
        quarantine: Quarantine,
        functions: FunctionTable,
        unschedulable: UnschedulableRequests,
        reports: WorkerReports,
        outgoing: Outgoing,
    ) -> None:
        self.epoch = epoch
        self.registry = registry
        self.scheduler = scheduler
        self.prefetch = prefetch
        self.quarantine = quarantine
        self.shares = FairShare()
        self.by_scheduler_id: dict[int, TaskRecord | LeaseRecord] = {}
        self.awaiting_report: dict[str, dict[TaskRecord, None]] = {}
        # The workers that missions name for tasks which have another run elsewhere: if that comes
        # to nothing, the task awaits that worker's report, as long as others are.
        self.named: dict[TaskRecord, str] = {}
        self.done = self.failed = self.retried = 0
        # Takes the name of the function and the seconds of each run that ended by itself.
        self.on_run_time: Callable[[str, float], object] | None = None
        self._wall = wall
        self._functions = functions
        self._unschedulable = unschedulable
        self._reports = reports
        self._outgoing = outgoing
        self._last_scheduler_id = 0
        self._last_attempt = 0
        self.max_unconfirmed = MAX_UNCONFIRMED
        self.max_unconfirmed_bytes = MAX_UNCONFIRMED_BYTES
        # Missions that may have to be paused, or to go on.
        self._backlogs: dict[MissionRecord, None] = {}
        self._remember = registry.ended_tasks.append

    # ---- waiting

    def enqueue(self, task: TaskRecord, now: float) -> None:
        """Let a task wait for room; a suspect waits for a worker of its own."""
        queue = task.queue
        assert queue is not None
        if task.mission.paused:
            task.awaits = ITS_MISSION
            task.mission.parked[task] = None
            return
        if not queue.serving_shapes:
            self._unschedulable.on_waiting(task, queue, now)
        if task.crashes:
            if blamed(task.crashes) >= SOLO:
                task.suspect = True
                self.quarantine.add(task)
                return
            queue = task.queue = self.scheduler.queue(
                queue.request, queue.priority, queue.share, queue.interpreter, seen(task.crashes)
            )
        self._last_scheduler_id += 1
        task.scheduler_id = self._last_scheduler_id
        self.by_scheduler_id[self._last_scheduler_id] = task
        self.scheduler.on_submitted(self._last_scheduler_id, queue, task.age, task.urgency)

    def hold_back(self, task: TaskRecord, worker: str) -> None:
        """Let a task wait for the report of the worker that it ran on under another head."""
        task.awaits = worker
        self.awaiting_report.setdefault(worker, {})[task] = None

    def enqueue_awaiting_report(self, worker: str, now: float) -> None:
        """Let the tasks that awaited a worker's report, and not adopted, wait for room."""
        if self.named:
            self.named = {task: named for task, named in self.named.items() if named != worker}
        for task in list(self.awaiting_report.get(worker, ())):
            self.withdraw(task)
            # Its mission takes it to run on that worker.
            self._outgoing.post(task.mission.link, Started("", (task.number,)))
            self.enqueue(task, now)

    def withdraw(self, task: TaskRecord) -> None:
        """End the waiting of a task, whatever it waits for; no effect on one that does not wait."""
        # By the fields and not by `TaskRecord.state`: it runs once for every task.
        if task.scheduler_id is not None:
            task.age = self.scheduler.tasks[task.scheduler_id].age
            self.scheduler.on_cancelled(task.scheduler_id)
            del self.by_scheduler_id[task.scheduler_id]
            task.scheduler_id = None
        elif task.suspect:
            task.suspect = False
            self.quarantine.remove(task)
        elif task.awaits == ITS_MISSION:
            del task.mission.parked[task]
            task.awaits = ""
        elif task.awaits:
            others = self.awaiting_report[task.awaits]
            del others[task]
            if not others:
                del self.awaiting_report[task.awaits]
            task.awaits = ""

    # ---- starting

    def start(self, start: Start, now: float) -> LeaseRecord:
        """Start a task as the scheduler has decided."""
        task = self.by_scheduler_id[start.task]
        assert isinstance(task, TaskRecord)
        assert task.queue is not None
        task.scheduler_id = None
        # It may have taken the place of another of its queue, being more urgent.
        task.age = self.scheduler.tasks[start.task].age
        lease = self._lease(task, self.registry.numbered[start.worker], start.task, now)
        self.shares.started(task.mission.share, task.age, task.queue.priority)
        self._send_lease(lease, task, to_data(start.allocation), start.limit)
        self.prefetch.on_started(lease)
        return lease

    def start_suspects(self, now: float) -> list[LeaseRecord]:
        """Start tasks that are to run alone, on workers that have been emptied for them."""
        leases = []
        for task, worker in self.quarantine.ready(now):
            queue = task.queue
            assert queue is not None
            self.quarantine.on_started(task)
            task.suspect = False
            self._last_scheduler_id += 1
            lease = self._lease(task, worker, self._last_scheduler_id, now)
            lease.alone = True
            limit = queue.limits.hard
            # It holds the whole worker, and may use what it asked for.
            whole = self.scheduler.workers[worker.number].supply.total
            self.scheduler.on_adopted(
                self._last_scheduler_id, queue, worker.number, whole, task.age, now, now + limit
            )
            part = Supply(whole).alloc(queue.space)
            if queue.wtime is not None:
                part = part & queue.wtime.resolved(self.scheduler.run_times)
            self._send_lease(lease, task, to_data(part), limit)
            leases.append(lease)
        return leases

    def send_prefetched(self) -> list[LeaseRecord]:
        """Send brief tasks behind runs that have begun; after all that can start has started."""
        leases = []
        for chain, queue, count in self.prefetch.growth():
            for taken in self.scheduler.on_taken(queue, count):
                task = self.by_scheduler_id.pop(taken.id)
                assert isinstance(task, TaskRecord)
                task.scheduler_id = None
                task.age = taken.age
                lease = self._new_lease(task, chain.head.worker, None)
                self.prefetch.append(lease, chain)
                self.shares.started(task.mission.share, task.age, queue.priority)
                self._send_lease(lease, task, chain.resources, chain=chain.number)
                leases.append(lease)
        return leases

    def _lease(
        self, task: TaskRecord, worker: WorkerRecord, scheduler_id: int, now: float
    ) -> LeaseRecord:
        """Make the lease of a run that begins as soon as it arrives."""
        lease = self._new_lease(task, worker, scheduler_id)
        self.by_scheduler_id[scheduler_id] = lease
        lease.began = now
        return lease

    def _new_lease(
        self, task: TaskRecord, worker: WorkerRecord, scheduler_id: int | None
    ) -> LeaseRecord:
        self._last_attempt += 1
        lease = LeaseRecord((self.epoch, self._last_attempt), task, worker, scheduler_id)
        task.lease = lease
        worker.leases[lease.attempt] = lease
        worker.sent += 1
        lease.index = worker.sent
        return lease

    def _send_lease(
        self,
        lease: LeaseRecord,
        task: TaskRecord,
        resources: dict[str, Any],
        limit: float = math.inf,
        chain: int = 0,
    ) -> None:
        self._functions.send(task.function, task.mission, lease.worker)
        message = Lease(
            task.mission.id,
            task.number,
            lease.attempt,
            task.function,
            resources,
            None if limit == math.inf else limit,
            lease.alone,
            chain,
            task.mission.settings,
        )
        self._outgoing.post(lease.worker.link, message, task.arguments)

    # ---- the end of a run

    def revoke(self, lease: LeaseRecord) -> None:
        """Have a run ended that nobody wants; it holds what it holds until its worker reports."""
        lease.revoked = True
        self._outgoing.post(lease.worker.link, Revoke(lease.attempt))

    def free(self, lease: LeaseRecord, now: float, *, measured: bool = False) -> None:
        """Free what a run held, or pass it on to its successor.

        Its outcome may still be under way.
        """
        successor = self.prefetch.leave(lease, now, measured=measured)
        scheduler_id, lease.scheduler_id = lease.scheduler_id, None
        if scheduler_id is None:
            return
        if successor is None:
            del self.by_scheduler_id[scheduler_id]
            self.scheduler.on_finished(scheduler_id, now, measured=measured)
            return
        # For the scheduler the same task goes on, with the resources that it has; but its time
        # counts from now.
        self.by_scheduler_id[scheduler_id] = successor
        successor.scheduler_id = scheduler_id
        scheduled = self.scheduler.tasks[scheduler_id]
        successor.began = scheduled.started = now
        task = successor.task
        queue = None if task is None or not task.claimed else task.queue
        if task is not None and queue is not None and queue is not scheduled.queue:
            # Its predecessor was adopted and nobody wants that one: its request is not known.
            self.scheduler.on_reclassified(scheduler_id, queue, task.age)

    def on_run_ended(
        self, worker: WorkerRecord, ended: RunEnded, payload: Payload, now: float
    ) -> None:
        """Take a worker's report that a run has ended, with its outcome.

        Raises:
            BadMessage: the run is that of another task. Nothing has changed.
        """
        lease = worker.leases.get(ended.attempt)
        task = self._task_of(ended)
        if lease is not None and lease.current and lease.task is not task:
            raise BadMessage(f"run {ended.attempt} is not one of task {ended.mission}:{ended.task}")
        if lease is None:
            # A repeated report. It is acknowledged, unless the outcome is that of the task, and
            # its mission has not confirmed it yet: then the worker has to keep it.
            if task is None or task.kept_by != (worker.id, ended.attempt):
                self.acknowledge(worker, ended.attempt)
            return
        self._end(lease, now, measured=ended.status in ("value", "error"))
        log = self.registry.log
        if log is None:
            pass
        elif (
            type(ended.report) is float
            and ended.status == "value"
            and task is not None
            and task.submitted is not None
            and not log.room
        ):
            log.count(task, ended.report, now - task.submitted)
            task.submitted = None
        else:
            self._log_end(log, lease, task, ended)
        if task is None or task.ending is not None:
            self.acknowledge(worker, ended.attempt)
        elif ended.status == "value" or (ended.status == "error" and lease.current):
            task.report = ended.report
            self._resolve(task, ended.status, payload, (worker.id, ended.attempt))
            self._remember((task, worker.name, lease.began, now, ended.detail))
            if ended.status == "error":
                self.registry.failed_tasks.append(FailedTask(self.registry.ended_tasks[-1]))
        else:
            self.acknowledge(worker, ended.attempt)
            self._on_no_outcome(lease, task, ended, now)

    def _on_no_outcome(
        self, lease: LeaseRecord, task: TaskRecord, ended: RunEnded, now: float
    ) -> None:
        """Go on after a run that was cancelled, has crashed, or was handed back."""
        how = ended.detail if ended.status == "crashed" else None
        if lease.current:
            outlived = None
            if ended.status == "returned":
                outlived = ended.outlived
                lease.worker.on_handed_back(lease)
            self._run_again(lease, task, how, now, ended.report, outlived)
        elif how is not None and lease.task is task and not task.retracted:
            self._count_crash(lease, task, how, now, ended.report)
            if task.scheduler_id is not None:  # it may be a suspect from now on
                self.withdraw(task)
                self.enqueue(task, now)

    def _log_end(
        self, log: HubLog, lease: LeaseRecord, task: TaskRecord | None, ended: RunEnded
    ) -> None:
        """Note the end of a run in the log of the scheduler."""
        waits = task is not None and task.ending is None
        failed = ended.status == "error" and lease.current
        cancelled = ended.status == "cancelled" and task is not None and task.retracted
        log.run_over(
            ended.mission,
            ended.task,
            ended.status,
            final=waits and (ended.status == "value" or failed or cancelled),
            record=task,
            lease=lease,
            began=self._wall + lease.began if lease.began else None,
            attempt=1 if task is None else len(task.crashes) + 1,
            how=ended.detail,
            report=ended.report,
        )

    def on_run_lost(
        self, lease: LeaseRecord, how: str | None, now: float, over: float | None = None
    ) -> None:
        """End a run that is gone without an outcome.

        Args:
            lease: of the run.
            how: what its worker died of, if the run may have been the reason.
            over: when its worker, whose time was over then, was here for the last time; None for
                one that had time left.
        """
        ran = lease.begun and lease.scheduler_id is not None
        if lease.task is not None and self.registry.log is not None:
            self.registry.log.run_over(
                lease.task.mission.id,
                lease.task.number,
                "lost" if ran else "returned",
                final=False,
                record=lease.task,
                lease=lease,
                began=self._wall + lease.began,
                attempt=len(lease.task.crashes) + 1,
                how=how or "",
                heard=lease.worker.heard,
            )
        self._end(lease, now, measured=False)
        if lease.current:
            assert lease.task is not None
            outlived = None
            if ran and over is not None:
                life = self.scheduler.workers[lease.worker.number].life
                outlived = Outlived(over - lease.began, life)
            self._run_again(lease, lease.task, how if ran else None, now, outlived=outlived)

    def _task_of(self, ended: RunEnded) -> TaskRecord | None:
        """Return the task of a run.

        It is looked up, and not that of the lease: the task may have been forgotten, and submitted
        again since the run was given up; then its success is welcome there.
        """
        mission = self.registry.missions.get(ended.mission)
        return None if mission is None else mission.tasks.get(ended.task)

    def _end(self, lease: LeaseRecord, now: float, *, measured: bool) -> None:
        del lease.worker.leases[lease.attempt]
        if measured and self.on_run_time is not None and lease.task is not None:
            task = lease.task
            name = task.mission.function_names.get(task.function, "")
            self.on_run_time(name, now - lease.began)
        self.free(lease, now, measured=measured)

    def _run_again(
        self,
        lease: LeaseRecord,
        task: TaskRecord,
        how: str | None,
        now: float,
        report: Report = b"",
        outlived: Outlived | None = None,
    ) -> None:
        """Let a task wait again whose current run came to nothing; note the crash, if any."""
        task.lease = None
        if task.retracted:
            self._forget_retracted(task, report)
            return
        if outlived is not None:
            how = TIME_OVER
        if how is not None:
            self._count_crash(lease, task, how, now, report, outlived)
            if task.ending is not None:
                return
        if task.claimed:
            named = self.named.pop(task, "")
            self._outgoing.post(task.mission.link, Started(named, (task.number,)))
            if named:
                self.hold_back(task, named)
            else:
                self.enqueue(task, now)
        elif not task.crashes:  # else it is dormant, until the mission gets the crashes
            del task.mission.tasks[task.number]

    def _count_crash(
        self,
        lease: LeaseRecord,
        task: TaskRecord,
        how: str,
        now: float,
        report: Report,
        outlived: Outlived | None = None,
    ) -> None:
        """Count the crash of a run, or one that outlived its worker; fail its task after many."""
        crash = Crash(lease.attempt, lease.worker.name, how, self._wall + now, outlived)
        # The mission may have submitted the same crash, which another head counted.
        if all(earlier.attempt != crash.attempt for earlier in task.crashes):
            task.crashes = (*task.crashes, crash)
            if task.claimed:
                self._outgoing.post(task.mission.link, Crashed(task.number, crash, report))
        if given_up(task.crashes):
            task.report = report
            if outlived is None:
                self._log_without_run(task, "crashed", f"its process died {CRASHES} times")
            else:
                how = f"{TaskOutlivesWorkers.__name__}: no worker lasts as long as it takes"
                self._log_without_run(task, "error", how)
            self._resolve(task, "crashed", None, None)
            self._remember((task, lease.worker.name, lease.began, now, how))
            self.registry.failed_tasks.append(FailedTask(self.registry.ended_tasks[-1]))

    # ---- the end of a task

    def _resolve(
        self,
        task: TaskRecord,
        ending: Ending,
        outcome: Payload,
        kept_by: tuple[str, Attempt] | None,
    ) -> None:
        self.withdraw(task)
        if task.lease is not None:
            if kept_by is None or task.lease.attempt != kept_by[1]:
                self.revoke(task.lease)
            task.lease = None
        task.arguments = None
        if task.retracted:
            if kept_by is not None:
                self.acknowledge(self.registry.workers.get(kept_by[0]), kept_by[1])
            self._forget_retracted(task, task.report)
            return
        task.ending = ending
        task.outcome = outcome
        task.kept_by = kept_by
        mission = task.mission
        mission.unconfirmed += 1
        if outcome is not None:
            mission.unconfirmed_bytes += len(outcome)
        if self._has_backlog(mission) and not mission.paused:
            self._backlogs[mission] = None
        if ending == "value":
            self.done += 1
            task.mission.done += 1
        if task.claimed:
            self.deliver(task)

    def deliver(self, task: TaskRecord) -> None:
        """Send the outcome of a task to its mission."""
        assert task.ending is not None
        crashes = task.crashes if task.ending == "crashed" else ()
        message = Resolved(task.number, task.ending, crashes, task.report)
        self._outgoing.post(task.mission.link, message, task.outcome)

    def on_confirmed(self, mission: MissionRecord, number: int, *, retried: bool = False) -> None:
        """Forget a task whose outcome its mission has: no worker needs to keep that any more.

        Args:
            number: the task's number.
            retried: True if the task has failed, and the mission tries it again by another one.
        """
        task = mission.tasks.get(number)
        if task is not None and task.ending is not None:
            self.discard(task, retried=retried)

    def retract(self, mission: MissionRecord, number: int) -> None:
        """End a task that its mission does not want any more; report when nothing of it is left."""
        task = mission.tasks.get(number)
        if task is None:
            self._outgoing.post(mission.link, Retracted(number))
            return
        if task.ending is not None:
            self.deliver(task)
        elif not task.retracted:
            task.retracted = True
            if task.lease is None:
                self.withdraw(task)
                self._log_without_run(task, "cancelled")
                self._forget_retracted(task)
            elif not task.lease.revoked:
                self.revoke(task.lease)

    def _log_without_run(
        self, task: TaskRecord, outcome: Literal["cancelled", "crashed", "error"], how: str = ""
    ) -> None:
        """Note the end of a task in the log of the scheduler, beside those of its runs."""
        if self.registry.log is not None:
            self.registry.log.run_over(
                task.mission.id,
                task.number,
                outcome,
                final=True,
                record=task,
                attempt=len(task.crashes),
                how=how,
            )

    def _forget_retracted(self, task: TaskRecord, report: Report = b"") -> None:
        del task.mission.tasks[task.number]
        self._outgoing.post(task.mission.link, Retracted(task.number, report))

    def discard(self, task: TaskRecord, *, retried: bool = False) -> None:
        """Forget a task, whatever state it is in; its run is revoked, its outcome acknowledged.

        Args:
            retried: as of `on_confirmed`.
        """
        self.withdraw(task)
        del task.mission.tasks[task.number]
        if task.ending is not None:
            if task.ending != "value":
                self._count_failure(task, retried=retried)
            mission = task.mission
            mission.unconfirmed -= 1
            if task.outcome is not None:
                mission.unconfirmed_bytes -= len(task.outcome)
            if mission.paused:
                self._backlogs[mission] = None
        task.outcome = None  # the record may be remembered
        if task.kept_by is not None:
            self.acknowledge(self.registry.workers.get(task.kept_by[0]), task.kept_by[1])
        if task.lease is not None:
            task.lease.task = None
            if not task.lease.revoked:
                self.revoke(task.lease)
            task.lease = None

    def _count_failure(self, task: TaskRecord, *, retried: bool) -> None:
        """Count a task that has failed, for good or not."""
        if not retried:
            self.failed += 1
            task.mission.failed += 1
            return
        self.retried += 1
        task.mission.retried += 1
        for one in reversed(self.registry.failed_tasks):
            if one.ended[0] is task:
                one.retried = True
                return

    # ---- missions that do not take their outcomes

    def _has_backlog(self, mission: MissionRecord, parts: int = 1) -> bool:
        return (
            mission.unconfirmed * parts > self.max_unconfirmed
            or mission.unconfirmed_bytes * parts > self.max_unconfirmed_bytes
        )

    def settle_backlogs(self, now: float) -> None:
        """Pause missions that leave too much unconfirmed, and let others go on again.

        Between the two there is a factor of two, as each takes a look at all that waits.
        """
        if not self._backlogs:
            return
        backlogs, self._backlogs = self._backlogs, {}
        for mission in backlogs:
            if not mission.paused and self._has_backlog(mission):
                mission.paused = True
                # The youngest first: the scheduler's queues then only lose their ends.
                tasks = mission.tasks.values()
                waiting = [t for t in tasks if t.scheduler_id is not None or t.suspect]
                for task in reversed(waiting):
                    self.withdraw(task)
                for task in waiting:
                    self.enqueue(task, now)
            elif mission.paused and not self._has_backlog(mission, 2):
                mission.paused = False
                for task in sorted(mission.parked, key=lambda task: task.age):
                    self.withdraw(task)
                    self.enqueue(task, now)

    def acknowledge(self, worker: WorkerRecord | None, attempt: Attempt) -> None:
        """Let a worker forget an outcome; None for one that is lost, and its outcomes with it."""
        if worker is not None:
            self._outgoing.acknowledge(worker.link, attempt)

    # ---- adoption: what workers and missions report when they connect

    def check_reported(self, held: InventoryRun) -> None:
        """Check a run that a worker reports, before any of them changes the table.

        Raises:
            BadMessage: it makes no sense.
        """
        check_attempt(held.attempt, self.epoch, self._last_attempt)
        resources_of(held.res)

    def confirm(self, worker: WorkerRecord, held: InventoryRun, now: float) -> None:
        """Note that a worker which connects again has a run that is in the table."""
        lease = worker.leases[held.attempt]
        lease.session = worker.session
        lease.index = 0  # it is there: for certain, as `begun` wants to know
        if held.ended:
            self.free(lease, now)
        elif lease.revoked:
            self.revoke(lease)  # again: the first message may be lost

    def adopt(
        self, worker: WorkerRecord, held: InventoryRun, mission: MissionRecord, now: float
    ) -> None:
        """Take a run into the table that another head has begun, or that was given up.

        Raises:
            BadMessage: the worker has not free what the run uses there. Nothing has changed.
        """
        task = mission.tasks.get(held.task)
        if task is not None and task.kept_by == (worker.id, held.attempt):
            return  # resolved by this very run, which the mission has not confirmed yet
        lease = LeaseRecord(held.attempt, None, worker, None)
        lease.began = now - held.elapsed
        lease.alone = held.alone
        # Before anything is noted elsewhere: it is here that a report may contradict another one.
        if not held.ended and not self.prefetch.adopt(lease, held):
            self._hold(lease, held, mission, task, now)
        worker.leases[held.attempt] = lease
        if task is None and not mission.synced:
            # The mission has yet to submit it, or to be synced without it.
            task = mission.tasks[held.task] = TaskRecord(mission, held.task)
        unwanted = task is None or task.ending is not None or task.retracted
        lease.task = None if unwanted else task
        if unwanted or task is None:
            if not held.ended:
                self.revoke(lease)
        elif task.lease is None:
            if task.awaits not in ("", ITS_MISSION, worker.id):
                if held.ended:
                    return  # a later run is on the worker named; a success is welcome from any
                self.named[task] = task.awaits
            self.withdraw(task)
            self._run_as_reported(task, lease)
        elif not held.ended:
            # Two runs of one task. One that has ended gives way, whichever is reported first: it
            # may have been handed back, and a success is welcome from any run. Otherwise one under
            # way goes before one that waits in a chain, and of two under way the older, as it is
            # likely to end first; the other one is revoked.
            other = task.lease
            ended = other.scheduler_id is None and not other.waits
            before = not lease.waits and (other.waits or lease.began < other.began)
            if ended or before:
                self._run_as_reported(task, lease)
                lease = other
            if not ended:
                self.revoke(lease)

    def _run_as_reported(self, task: TaskRecord, lease: LeaseRecord) -> None:
        """Let a task wait for a run that its worker reports, and inform its mission."""
        task.lease = lease
        # Not before the mission has submitted the task on this connection: its `Submit`, which may
        # be under way, names the worker as the mission knew it before, and is answered by that.
        if task.claimed:
            self._reports.on_run(task.mission, lease.worker)
            self._outgoing.post(task.mission.link, Started(lease.worker.id, (task.number,)))

    def _hold(
        self,
        lease: LeaseRecord,
        held: InventoryRun,
        mission: MissionRecord,
        task: TaskRecord | None,
        now: float,
    ) -> None:
        """Take what a reported run uses out of what its worker has free."""
        space = split_time(resources_of(held.res))[1]
        if held.alone:
            space = self.scheduler.workers[lease.worker.number].supply.total
        # Until its mission has submitted the task, its request is not known: what it holds stands
        # for that, until `claim` puts the run into its own queue.
        queue = task.queue if task is not None and not held.alone else None
        queue = queue or self.scheduler.queue(space, 0, mission.number)
        self._last_scheduler_id += 1
        until = math.inf if held.left is None else now + held.left
        age = self.shares.age_again(queue.priority)
        try:
            self.scheduler.on_adopted(
                self._last_scheduler_id, queue, lease.worker.number, space, age, lease.began, until
            )
        except ValueError as error:
            self.prefetch.forget(lease)
            raise BadMessage(f"run {held.attempt} cannot be there: {error}") from error
        lease.scheduler_id = self._last_scheduler_id
        self.by_scheduler_id[lease.scheduler_id] = lease

    def claim(self, task: TaskRecord, worker: str, now: float) -> None:
        """Take a task that its mission has submitted on this connection.

        Args:
            task: with its queue, age and arguments.
            worker: the id of the worker whose report it has to wait for, because it ran there under
                another head; empty if there is none.
        """
        task.claimed = True
        if self.named:
            self.named.pop(task, None)
        if worker and task.lease is not None and task.lease.worker.id != worker:
            self.named[task] = worker
        if task.ending is not None:
            self.deliver(task)
        elif given_up(task.crashes) and task.lease is None:
            self._resolve(task, "crashed", None, None)
        elif task.lease is None:
            if worker:
                self.hold_back(task, worker)
            else:
                self.enqueue(task, now)
        elif task.lease.scheduler_id is not None and not task.lease.alone:
            assert task.queue is not None
            self.scheduler.on_reclassified(task.lease.scheduler_id, task.queue, task.age)

    # ---- questions

    def wall_time(self, now: float) -> float:
        """Return a time as seconds since Unix' epoch."""
        return self._wall + now

    def counts(self) -> TaskCounts:
        """Return how many tasks are in each state, as people see it."""
        return TaskCounts(
            waiting=self.scheduler.waiting
            + self.prefetch.in_chains
            + sum(len(mission.parked) for mission in self.registry.missions.values()),
            awaiting_report=sum(map(len, self.awaiting_report.values())),
            running=self.scheduler.running,
            done=self.done,
            failed=self.failed,
            retried=self.retried,
            suspect=len(self.quarantine.waiting),
        )
