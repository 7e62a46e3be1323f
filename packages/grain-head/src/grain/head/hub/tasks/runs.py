"""The runs of a hub's tasks on its workers. Plain state, no I/O, no clock.

1.  A lease holds resources on its worker until the worker reports that the run has ended, or is
    over, or reports without it on a later connection, or is lost as a whole. No timer frees them.
2.  The first success of any run resolves a task; a failure only if it is that of the current run.
    What comes after the resolution is acknowledged and dropped.
3.  A run that a worker reports is adopted by its task if that waits. If another run of the task is
    under way, the older of the two goes on and the other is revoked, but holds what it holds. One
    that has ended, its outcome still to come, keeps no other from going on.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from grain.eventlog.usage import decode_report
from grain.head.errors import BadMessage
from grain.head.hub.state import ITS_MISSION, ITS_SEATS, FailedTask, LeaseRecord, TaskRecord
from grain.head.messages import Started
from grain.head.needs.groups import MemoryUse
from grain.head.scheduler.outlived import never_began
from grain.head.scheduler.places import gpus_of
from grain.head.scheduler.state import split_time
from grain.head.validation import check_attempt, resources_of
from grain.resource import to_data
from grain.worker.messages import LANE, GangPart, Lease, Outlived

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Payload
    from grain.head.hub.functions import FunctionTable
    from grain.head.hub.registry import Registry
    from grain.head.hub.reports import MissionReports
    from grain.head.hub.state import MissionRecord, WorkerRecord
    from grain.head.hub.tasks.gangs import Gangs
    from grain.head.hub.tasks.lanes import LaneTable
    from grain.head.hub.tasks.outcomes import Outcomes
    from grain.head.hub.tasks.quarantine import EmptiedWorkers
    from grain.head.hub.tasks.waiting import Waiting
    from grain.head.scheduler.state import Start
    from grain.worker.messages import InventoryRun, RunEnded, RunOver


class Runs:
    """The runs on all workers.

    Attributes:
        holding: the leases that hold resources, by the scheduler's id of each.
        gangs: those that belong together.
    """

    def __init__(
        self,
        registry: Registry,
        waiting: Waiting,
        outcomes: Outcomes,
        gangs: Gangs,
        lanes: LaneTable,
        functions: FunctionTable,
        reports: MissionReports,
    ) -> None:
        self._registry = registry
        self._scheduler = registry.scheduler
        self._outgoing = registry.outgoing
        self._waiting = waiting
        self._outcomes = outcomes
        self._functions = functions
        self._reports = reports
        self.gangs = gangs
        self._lanes = lanes
        self._epoch = registry.epoch
        self._last_attempt = 0
        self.holding: dict[int, LeaseRecord] = {}

    # ---- starting

    def start(self, start: Start, now: float) -> LeaseRecord:
        """Start a task as the scheduler has decided."""
        task = self._waiting.on_started(self._scheduler.tasks[start.task])
        lease = self._lease(task, self._registry.numbered[start.worker], start.task, now)
        if start.seats:
            self._start_gang(lease, task, start, now)
        self._send_lease(lease, task, to_data(start.allocation), start.limit)
        if task.function is LANE:
            self._lanes.on_run(lease)
        return lease

    def _start_gang(self, root: LeaseRecord, task: TaskRecord, start: Start, now: float) -> None:
        """Send the leases of the seats of a gang."""
        gang = self.gangs.of(
            GangPart(root.attempt, 0, 1 + len(start.seats)), task.mission.id, task.number
        )
        gang.lease, root.gang = root, gang
        for member, (worker, scheduler_id, allocation) in enumerate(start.seats, 1):
            seat = self._new_lease(task, self._registry.numbered[worker], scheduler_id)
            self.holding[scheduler_id] = seat
            seat.began, seat.alone = now, root.alone
            seat.gang, seat.member = gang, member
            seat.resources = to_data(allocation)
            gang.seats[member] = seat
            gang.seen.add(member)
            self._send_lease(seat, task, seat.resources, start.limit)
        task.lease = root

    def start_alone(self, task: TaskRecord, emptied: EmptiedWorkers, now: float) -> LeaseRecord:
        """Start a task that is to run by itself, on workers that have been emptied for it."""
        numbers = [worker.number for worker in emptied.workers]
        scheduler_id = next(self._registry.scheduler_ids)
        self._scheduler.cluster.release(task)
        start = self._scheduler.start_alone(scheduler_id, emptied.by, numbers, task.age, now)
        lease = self._lease(task, emptied.workers[0], scheduler_id, now)
        lease.alone = True
        if start.seats:
            self._start_gang(lease, task, start, now)
        self._send_lease(lease, task, to_data(start.allocation), start.limit)
        return lease

    def _lease(
        self, task: TaskRecord, worker: WorkerRecord, scheduler_id: int, now: float
    ) -> LeaseRecord:
        """Make the lease of a run that begins as soon as it arrives."""
        lease = self._new_lease(task, worker, scheduler_id)
        self.holding[scheduler_id] = lease
        lease.began = now
        return lease

    def _new_lease(self, task: TaskRecord, worker: WorkerRecord, scheduler_id: int) -> LeaseRecord:
        self._last_attempt += 1
        lease = LeaseRecord((self._epoch, self._last_attempt), task, worker, scheduler_id)
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
    ) -> None:
        function, arguments = task.function, task.arguments
        if lease.member:
            function, arguments = b"", None
        elif function is not LANE:
            self._functions.send(function, task.mission, lease.worker)
        message = Lease(
            task.mission.id,
            task.number,
            lease.attempt,
            function,
            resources,
            None if limit == math.inf else limit,
            lease.alone,
            task.mission.settings,
            None if lease.gang is None else lease.gang.part(lease.member),
            task.course.past,
        )
        self._outgoing.post(lease.worker.link, message, arguments)

    def alternative(self, lease: LeaseRecord) -> int:
        """Return by which alternative of its request a run has what it holds, counted from 0."""
        taken = self._scheduler.taken.get(lease.scheduler_id or 0)
        return 0 if taken is None else taken.index

    # ---- the end of a run

    def _free(
        self,
        lease: LeaseRecord,
        now: float,
        *,
        measured: bool = False,
        use: MemoryUse | None = None,
    ) -> None:
        """Free what a run held; its outcome may still be under way.

        Args:
            measured: whether it ended by itself, so that others will take about as long.
        """
        scheduler_id, lease.scheduler_id = lease.scheduler_id, None
        if scheduler_id is None:
            return
        if measured:
            self._scheduler.tasks[scheduler_id].queue.on_duration(now - lease.began)
        self._lanes.on_over(lease)
        del self.holding[scheduler_id]
        self._scheduler.on_finished(scheduler_id, now, measured=measured, use=use)

    def on_run_over(self, worker: WorkerRecord, message: RunOver, now: float) -> None:
        """Free what a run held that uses it no more, though it has not ended.

        Not if its place is judged by its end.
        """
        lease = worker.leases.get(message.attempt)
        if lease is None or lease.gang is not None or self._scheduler.places.watches:
            return
        if lease.scheduler_id is not None:  # else it comes again, as on each connection
            self._free(lease, now, measured=True)
            lease.over = True

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
                self._outgoing.acknowledge(worker.link, ended.attempt)
            return
        measured = ended.status in ("value", "error") and not (lease.member or lease.lane)
        gpus: tuple[int, ...] = ()
        use = self._use(lease, ended, now)
        # A run that needed more memory than it had says nothing of its place.
        tells = measured and not (use is not None and use.exceeded)
        if tells and (ended.status == "error" or self._scheduler.places.watches):
            gpus = self._note_outcome(lease, now, failed=ended.status == "error")
        self._end(lease, now, measured=measured, use=use)
        if lease.member:
            self._outgoing.acknowledge(worker.link, ended.attempt)
            self.gangs.on_seat_ended(lease, ended, now)
            return
        self._on_outcome(worker, lease, task, ended, payload, gpus, now)

    def _note_outcome(self, lease: LeaseRecord, now: float, *, failed: bool) -> tuple[int, ...]:
        """Note where a run has ended by itself; return the GPUs that it had."""
        if lease.scheduler_id is None or lease.task is None:
            return ()
        wanted = lease.current and not lease.task.retracted
        if wanted and not lease.alone:
            self._scheduler.on_outcome(lease.scheduler_id, lease.task.function, now, failed=failed)
        return gpus_of(self._scheduler.tasks[lease.scheduler_id].held)

    def _on_outcome(
        self,
        worker: WorkerRecord,
        lease: LeaseRecord,
        task: TaskRecord | None,
        ended: RunEnded,
        payload: Payload,
        gpus: tuple[int, ...],
        now: float,
    ) -> None:
        """Take what a run of a task, or the root of its gang, has come to."""
        again: Callable[[float], object] | None = None
        if task is None or task.course.ending is not None:
            self._outgoing.acknowledge(worker.link, ended.attempt)
        elif ended.status == "value" or (ended.status == "error" and lease.current):
            kept_by = worker.id, ended.attempt
            if ended.status == "value":
                gpus = ()
            self._outcomes.resolve(task, ended.status, payload, kept_by, ended.report, gpus)
            seen = (task, worker.name, lease.began, now, ended.failure or ended.detail)
            if not lease.lane:
                self._registry.ended_tasks.append(seen)
                if ended.status == "error":
                    self._registry.failed_tasks.append(FailedTask(seen))
        else:
            self._outgoing.acknowledge(worker.link, ended.attempt)
            again = partial(self._outcomes.on_no_outcome, lease, task, ended)
        if lease.gang is not None:
            if ended.absent >= 0:
                self.gangs.on_absent(lease, ended.absent, ended.detail, now)
            elif ended.status == "value":
                self.gangs.on_value(lease.gang)
            lease.lost = ended.lost
            crashed = ended.status == "crashed"
            unbegun = ended.absent == 0
            self.gangs.on_root_ended(lease, again, now, crashed=crashed, unbegun=unbegun)
        elif again is not None and task is not None:
            again(now)
            self.gangs.hold_back(task)

    def on_run_lost(
        self,
        lease: LeaseRecord,
        how: str | None,
        now: float,
        over: float | None = None,
        *,
        known: bool = False,
    ) -> None:
        """End a run that is gone without an outcome.

        Args:
            how: what its worker died of, if the run may have been the reason.
            over: when its worker, whose time was over then, was here for the last time; None for a
                worker that had time left.
            known: as of `Crash`.
        """
        if how is None and known and lease.task is not None and lease.task.mission.lasts:
            # The run is not blamed, but its mission has to know that the attempt is over.
            how = f"its worker was lost ({lease.worker.over})"
        ran = lease.begun and (lease.scheduler_id is not None or lease.over)
        if lease.gang is not None:
            ran = ran and lease.gang.begun
        crash = how if ran else None
        self._end(lease, now, measured=False)
        if lease.member:
            self.gangs.on_seat_ended(lease, None, now)
            return
        again: Callable[[float], object] | None = None
        if lease.current:
            assert lease.task is not None
            outlived = None
            if ran and over is not None and not lease.lane:
                life = self._scheduler.workers[lease.worker.number].life
                outlived = Outlived(over - lease.began, life)
            again = partial(
                self._outcomes.run_again,
                lease,
                lease.task,
                crash,
                outlived=outlived,
                known=known,
            )
        if lease.gang is not None:
            crashed = crash is not None and not lease.revoked
            self.gangs.on_root_ended(lease, again, now, crashed=crashed)
        elif again is not None and lease.task is not None:
            again(now)
            self.gangs.hold_back(lease.task)

    def _task_of(self, ended: RunEnded) -> TaskRecord | None:
        """Return the task of a run.

        It is looked up, and not that of the lease: the task may have been forgotten, and submitted
        again since the run was given up; then its success is welcome there.
        """
        mission = self._registry.missions.get(ended.mission)
        return None if mission is None else mission.tasks.get(ended.task)

    @staticmethod
    def _use(lease: LeaseRecord, ended: RunEnded, now: float) -> MemoryUse | None:
        """Return the memory that a run has used, if its group learns from it.

        A run that failed for another reason may have needed more later.
        """
        queue = None if lease.task is None else lease.task.queue
        if queue is None or not queue.learns or lease.member:
            return None
        report = decode_report(ended.report, now)
        if report is None or not (report.exceeded or ended.status == "value"):
            return None
        usage = report.usage
        if not report.exceeded and usage.measured_by == "none":
            return None
        return MemoryUse(usage.peak_memory, report.exceeded)

    def _end(
        self,
        lease: LeaseRecord,
        now: float,
        *,
        measured: bool,
        use: MemoryUse | None = None,
    ) -> None:
        del lease.worker.leases[lease.attempt]
        if lease.task is not None and lease.task.mission.beside:
            self._outcomes.on_beside_ended(lease, lease.task)
        if measured and lease.task is not None:
            task = lease.task
            self._outcomes.on_runs_ended(task.mission, task.function, now - lease.began)
        self._free(lease, now, measured=measured, use=use)

    # ---- adoption: what workers and missions report when they connect

    def check_reported(self, held: InventoryRun) -> None:
        """Check a run that a worker reports, before any of them changes the table.

        Raises:
            BadMessage: it makes no sense.
        """
        check_attempt(held.attempt, self._epoch, self._last_attempt)
        resources_of(held.res)

    def confirm(self, worker: WorkerRecord, held: InventoryRun, now: float) -> None:
        """Note that a worker which connects again has a run that is in the table."""
        lease = worker.leases[held.attempt]
        lease.session = worker.session
        lease.index = 0  # it is there: for certain, as `begun` wants to know
        if held.ended or held.over:
            self._free(lease, now)
            lease.over = held.over
        if lease.revoked and not held.ended:
            self._outgoing.revoke(lease)  # again: the first message may be lost
        lease.recalled = False  # likewise
        if lease.gang is not None and not lease.member:
            self.gangs.on_root_here(lease.gang)

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
        lease = self._reported(worker, held, now)
        if lease.member:
            self._adopt_seat(lease, held, mission, now)
            return
        # One that is over keeps no other from going on, either: it is about to have a value.
        ended = held.ended or held.over
        # Before anything is noted elsewhere: it is here that a report may contradict another one.
        if not ended:
            self._hold(lease, held, mission, task, now)
        worker.leases[held.attempt] = lease
        if held.gang is not None:
            gang = self.gangs.of(held.gang, held.mission, held.task)
            self.gangs.on_root_reported(lease, gang, ended=held.ended)
        if task is None and mission.may_submit(held.task):
            function = LANE if held.lane else b""
            task = mission.tasks[held.task] = TaskRecord(mission, held.task, function=function)
        unwanted = task is None or task.ending is not None or task.retracted
        # It may be blocked, and the task is not to wait for it.
        unwanted = unwanted or (task is not None and never_began(task.crashes, held.attempt))
        lease.task = None if unwanted else task
        if unwanted or task is None:
            if not held.ended:
                self._dismiss(lease, task)
        elif task.lease is None:
            if task.awaits not in ("", ITS_MISSION, ITS_SEATS, worker.id):
                if ended:
                    return  # a later run is on the worker named; a success is welcome from any
                self._waiting.on_named(task, task.awaits)
            self._waiting.withdraw(task)
            self._run_as_reported(task, lease)
        elif not ended:
            self._choose_run(task, task.lease, lease)

    def _choose_run(self, task: TaskRecord, other: LeaseRecord, lease: LeaseRecord) -> None:
        """Choose between the run that a task waits for and another one that its worker reports.

        A run that has ended gives way, whichever is reported first: it may have been handed back,
        and a success is welcome from any run. Of two under way the older goes on, as it is likely
        to end first; the other one is revoked.
        """
        ended = other.scheduler_id is None
        if ended or lease.began < other.began:
            self._run_as_reported(task, lease)
            lease = other
        if not ended:
            self._outcomes.dismiss(lease, task)

    def _reported(self, worker: WorkerRecord, held: InventoryRun, now: float) -> LeaseRecord:
        lease = LeaseRecord(held.attempt, None, worker, None)
        lease.began = now - held.elapsed
        lease.alone, lease.over = held.alone, held.over
        if held.gang is not None:
            lease.member, lease.resources = held.gang.index, held.res
        return lease

    def _adopt_seat(
        self, lease: LeaseRecord, held: InventoryRun, mission: MissionRecord, now: float
    ) -> None:
        """Take a seat into the table that another head has begun; its task waits for it.

        Raises:
            BadMessage: as of `adopt`.
        """
        assert held.gang is not None
        if held.ended:
            return  # its `RunEnded` follows, and is acknowledged
        self._hold(lease, held, mission, None, now)
        lease.worker.leases[held.attempt] = lease
        task = mission.tasks.get(held.task)
        gang = self.gangs.of(held.gang, held.mission, held.task)
        awaited = gang.lease is None and not gang.absent
        if task is None and awaited and mission.may_submit(held.task):
            task = mission.tasks[held.task] = TaskRecord(mission, held.task)
        lease.task = task
        self.gangs.on_seat_reported(lease, gang)

    def _dismiss(self, lease: LeaseRecord, task: TaskRecord | None) -> None:
        """End a run that its worker reports, and that no task waits for."""
        if task is None or never_began(task.crashes, lease.attempt):
            self._outgoing.revoke(lease)
            return
        if task.mission.lasts:
            lease.task = task
        self._outcomes.dismiss(lease, task)

    def _run_as_reported(self, task: TaskRecord, lease: LeaseRecord) -> None:
        """Let a task wait for a run that its worker reports, and inform its mission."""
        task.lease = lease
        if task.function is LANE:
            self._lanes.on_run(lease)
        # Not before the mission has submitted the task on this connection: its `Submit`, which may
        # be under way, names the worker as the mission knew it before, and is answered by that.
        if task.claimed:
            self._reports.on_run(task.mission, lease.worker)
            started = Started(lease.worker.id, (task.number,), self.alternative(lease))
            self._outgoing.post(task.mission.link, started)
            self._reports.on_gang(lease)

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
            total = self._scheduler.workers[lease.worker.number].supply.total
            shared = self._scheduler.cluster.split_held(space, total)[1]
            space = total if shared is None else total & shared
        # Until its mission has submitted the task, its request is not known: what it holds stands
        # for that, until `claim` puts the run into its own queue.
        queue = task.queue if task is not None and not held.alone else None
        queue = queue or self._scheduler.queue(space, 0, mission.number)
        # A seat is not a task by itself, and does not count as one.
        seat = lease.member > 0
        scheduler_id = self._scheduler.seat_id() if seat else next(self._registry.scheduler_ids)
        until = math.inf if held.left is None else now + held.left
        age = self._registry.shares.age_again(queue.priority)
        try:
            self._scheduler.on_adopted(
                scheduler_id, queue, lease.worker.number, space, age, lease.began, until
            )
        except ValueError as error:
            raise BadMessage(f"run {held.attempt} cannot be there: {error}") from error
        lease.scheduler_id = scheduler_id
        self.holding[scheduler_id] = lease
