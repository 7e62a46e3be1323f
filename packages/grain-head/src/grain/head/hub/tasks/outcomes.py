"""The ends of a hub's tasks: outcomes, crashes, retraction. Plain state, no I/O, no clock.

1.  A task that is resolved is kept with its outcome until its mission confirms that. So does the
    worker whose run it is of: then it is acknowledged there.
2.  A run that was begun and whose process or worker died is a crash of its task. After `SOLO`
    crashes a task runs by itself on its workers (`grain.head.hub.tasks.quarantine`); after
    `CRASHES` it fails. A run that was under way when the time of its worker was over is not a
    crash, and has rules of its own (`grain.head.scheduler.outlived`). Runs that were lost in any
    other way do not count.
3.  A run of a lasting mission is revoked only if its task is retracted or the mission cancelled,
    also if the worker reports the run after that. If the task has an outcome without it, or another
    run, it goes on *beside* the task, and takes its place when that is forgotten.
4.  A mission that leaves too many outcomes unconfirmed, or too many bytes, is paused: its waiting
    tasks are parked until half of that is confirmed. What runs goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.eventlog.soft_stops import SOFT_STOPS, STOPPED_SOFTLY
from grain.head.errors import TaskOutlivesWorkers
from grain.head.hub.state import FailedTask, TaskCourse, TaskRecord
from grain.head.messages import Crash, Crashed, Resolved, Retracted, after_crash
from grain.head.scheduler.outlived import given_up
from grain.worker.messages import LANE, TIME_OVER, one_more

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Payload
    from grain.eventlog.soft_stops import Interruption
    from grain.eventlog.usage import Report
    from grain.head.hub.registry import Registry
    from grain.head.hub.state import LeaseRecord, MissionRecord
    from grain.head.hub.tasks.waiting import Waiting
    from grain.head.messages import Ending, LaneCount
    from grain.worker.messages import Attempt, HowEnded, Outlived, RunEnded

MAX_UNCONFIRMED = 250_000
"""Outcomes that a mission may leave unconfirmed before it is paused."""

MAX_UNCONFIRMED_BYTES = 1024**3
"""Bytes of them, likewise: they are in memory here, and on the workers that have sent them."""


class Outcomes:
    """The ends of the tasks of all missions, from a run's outcome to its confirmation.

    Attributes:
        done: how many tasks have resolved with a value.
        failed: how many have failed for good. A failure counts when its mission has confirmed it,
            as only the mission knows that it tries the task again.
        retried: how many have failed and were tried again.
        on_run_time: takes the name of a function, the seconds of some runs of it that ended by
            themselves, added up, and how many these are; None if they are of no interest.
    """

    def __init__(self, registry: Registry, waiting: Waiting) -> None:
        self._registry = registry
        self._waiting = waiting
        self._outgoing = registry.outgoing
        self.done = self.failed = self.retried = 0
        self.on_run_time: Callable[[str, float, int], object] | None = None
        self.max_unconfirmed = MAX_UNCONFIRMED
        self.max_unconfirmed_bytes = MAX_UNCONFIRMED_BYTES
        # Missions that may have to be paused, or to go on.
        self._backlogs: dict[MissionRecord, None] = {}

    # ---- runs without an outcome

    def on_no_outcome(
        self, lease: LeaseRecord, task: TaskRecord, ended: RunEnded, now: float
    ) -> None:
        """Go on after a run that was cancelled, has crashed, or was handed back."""
        how = ended.detail if ended.status == "crashed" else None
        if lease.current:
            outlived = None
            if ended.status == "returned":
                outlived = ended.outlived
                if ended.report and outlived is None:  # else it never began, or is noted as a crash
                    soft = ended.interruption == "stopped"
                    end: HowEnded = "stopped" if soft else "returned"
                    course = task.alter()
                    course.past = one_more(course.past, end, ended.detail)
                    course.soft_stops = course.soft_stops + 1 if soft else 0
                    if course.soft_stops >= SOFT_STOPS:
                        how = STOPPED_SOFTLY
                lease.worker.on_handed_back(lease)
            self.run_again(
                lease, task, how, now, ended.report, outlived,
                known=True, interruption=ended.interruption, call=ended.call,
            )  # fmt: skip
        # A stale run: its task waits, or has another one. That this one has crashed counts.
        elif how is not None and lease.task is task and not task.retracted:
            self._count_crash(
                lease, task, how, now, ended.report,
                known=True, interruption=ended.interruption, call=ended.call,
            )  # fmt: skip
            if task.scheduler_id is not None:  # it may be a suspect from now on
                self._waiting.withdraw(task)
                self._waiting.enqueue(task, now)

    def run_again(
        self,
        lease: LeaseRecord,
        task: TaskRecord,
        how: str | None,
        now: float,
        report: Report = b"",
        outlived: Outlived | None = None,
        *,
        known: bool = False,
        absent: str = "",
        interruption: Interruption = "",
        call: int = 0,
    ) -> None:
        """Let a task wait again whose current run came to nothing; note the crash, if any.

        Args:
            known, interruption, call: as of `Crash`.
            absent: the worker of the member of its gang that did not join.
        """
        task.lease = None
        if task.retracted:
            self._forget_retracted(task, report)
            return
        if outlived is not None:
            how = TIME_OVER
        if how is not None:
            self._count_crash(
                lease, task, how, now, report, outlived,
                known=known, absent=absent, interruption=interruption, call=call,
            )  # fmt: skip
            if task.ending is not None:
                return
        if task.function is LANE:
            self.resolve(task, "crashed")  # it has one run
        elif task.claimed and given_up(task.crashes):
            # Its mission has brought some of them while this run, or the rest of a gang, went on.
            self.resolve(task, "crashed")
        elif task.claimed:
            self._waiting.enqueue_again(task, now, interruption)
        elif not task.crashes:  # else it is dormant, until the mission gets the crashes
            del task.mission.tasks[task.number]
            self._go_on(task.mission, task.number)

    def _count_crash(
        self,
        lease: LeaseRecord,
        task: TaskRecord,
        how: str,
        now: float,
        report: Report,
        outlived: Outlived | None = None,
        *,
        known: bool,
        absent: str = "",
        interruption: Interruption = "",
        call: int = 0,
    ) -> None:
        """Count a run that crashed, outlived its worker or did not begin; fail its task after many.

        Args:
            absent, interruption, call: see `run_again`.
        """
        worker = lease.lost or lease.worker.name
        at = self._registry.wall_time(now)
        crash = Crash(lease.attempt, worker, how, at, outlived, known, absent, interruption, call)
        # The mission may have submitted the same crash, which another head counted.
        if all(earlier.attempt != crash.attempt for earlier in task.crashes):
            course = task.alter()
            course.crashes = (*task.crashes, crash)
            course.past = after_crash(course.past, crash)
            course.soft_stops = 0
            if task.claimed:
                self._outgoing.post(task.mission.link, Crashed(task.number, crash, report))
        if given_up(task.crashes):
            if outlived is not None:
                how = f"{TaskOutlivesWorkers.__name__}: no worker lasts as long as it takes"
            elif crash.stopped_softly:
                how = f"{TaskOutlivesWorkers.__name__}: {SOFT_STOPS} times in a row, {how}"
            self.resolve(task, "crashed", report=report)
            seen = (task, worker, lease.began, now, how)
            self._registry.ended_tasks.append(seen)
            self._registry.failed_tasks.append(FailedTask(seen))

    # ---- outcomes

    def resolve(
        self,
        task: TaskRecord,
        ending: Ending,
        outcome: Payload = None,
        kept_by: tuple[str, Attempt] | None = None,
        report: Report = b"",
        gpus: tuple[int, ...] = (),
    ) -> None:
        """End a task, and its other runs, and deliver its outcome.

        Args:
            kept_by: the worker that keeps the outcome, by id, and the run that it is of.
            report: of the worker on that run.
            gpus: those that it had, if it has failed.
        """
        # It may wait: the outcome may be that of a run which was given up, and is welcome.
        self._waiting.withdraw(task)
        if task.lease is not None:
            # The run under way may be another one, whose outcome is of no use any more.
            if kept_by is None or task.lease.attempt != kept_by[1]:
                self.dismiss(task.lease, task)
            task.lease = None
        task.arguments = None
        before = task.course
        # What a lane has kept is the outcomes of calls, of which the mission may want others: so
        # the retraction has crossed it.
        if before.retracted and not (task.function is LANE and ending == "value"):
            self._acknowledge(kept_by)
            self._forget_retracted(task, report)
            return
        # It waits no more, nor is it retracted: of what was before, only its crashes are left.
        task.course = TaskCourse(
            before.crashes, False, "", False, ending, outcome, report, kept_by, gpus
        )
        mission = task.mission
        mission.unconfirmed += 1
        if outcome is not None:
            mission.unconfirmed_bytes += len(outcome)
        if self._has_backlog(mission) and not mission.paused:
            self._backlogs[mission] = None
        if ending == "value" and task.function is not LANE:
            self.done += 1
            mission.shown.done += 1
        if task.claimed:
            self.deliver(task)

    def deliver(self, task: TaskRecord) -> None:
        """Send the outcome of a task to its mission."""
        course = task.course
        assert course.ending is not None
        crashes = course.crashes if course.ending == "crashed" else ()
        message = Resolved(task.number, course.ending, crashes, course.report, course.gpus)
        self._outgoing.post(task.mission.link, message, course.outcome)

    def on_confirmed(self, mission: MissionRecord, number: int, *, retried: bool = False) -> None:
        """Forget a task whose outcome its mission has: no worker needs to keep that any more.

        Args:
            retried: True if the task has failed, and the mission tries it again by another one.
        """
        task = mission.tasks.get(number)
        if task is not None and task.course.ending is not None:
            self.discard(task, retried=retried)

    def retract(self, mission: MissionRecord, number: int) -> None:
        """End a task that its mission does not want any more; report when nothing of it is left."""
        # Whatever state the task is in: nothing of a cancelled one may go on.
        self.revoke_beside(mission, number)
        if mission.lasts:
            mission.retracted.add(number)
        task = mission.tasks.get(number)
        if task is None:
            # Also of a task that is not known here, as the mission waits for an answer.
            self._outgoing.post(mission.link, Retracted(number))
            return
        if task.ending is not None:
            # Outcome and retraction have crossed: the mission confirms what arrives.
            self.deliver(task)
        elif not task.retracted:
            task.alter().retracted = True
            if task.lease is None:
                self._waiting.withdraw(task)
                self._forget_retracted(task)
            elif not task.lease.revoked:
                self._outgoing.revoke(task.lease)

    def dismiss(self, lease: LeaseRecord, task: TaskRecord) -> None:
        """End a run for which its task does not wait; that of a lasting mission goes on.

        It ends if the task was cancelled, even if that has the outcome of another run.
        """
        mission = task.mission
        if mission.lasts and not task.retracted and mission.may_submit(task.number):
            mission.beside.setdefault(task.number, {})[lease] = None
        else:
            self._outgoing.revoke(lease)

    def revoke_beside(self, mission: MissionRecord, number: int) -> None:
        """End the runs of a lasting mission that are under way beside a task."""
        for lease in mission.beside.pop(number, ()):
            self._outgoing.revoke(lease)

    def on_beside_ended(self, lease: LeaseRecord, task: TaskRecord) -> None:
        """Forget a run that was under way beside its task, if it was."""
        others = task.mission.beside.get(task.number)
        if others is not None and lease in others:
            del others[lease]
            if not others:
                del task.mission.beside[task.number]

    def _go_on(self, mission: MissionRecord, number: int) -> None:
        """Give a run of a lasting mission, whose task was forgotten, a record of its own again.

        By that a process of the mission can submit, or retract, the task once more.
        """
        others = mission.beside.get(number)
        if others is None:
            return
        task = mission.tasks[number] = TaskRecord(mission, number)
        for lease in others:
            lease.task = task
        task.lease = next(iter(others))  # the one that was first under way
        self.on_beside_ended(task.lease, task)

    def _forget_retracted(self, task: TaskRecord, report: Report = b"") -> None:
        del task.mission.tasks[task.number]
        self._outgoing.post(task.mission.link, Retracted(task.number, report))

    def discard(self, task: TaskRecord, *, retried: bool = False) -> None:
        """Forget a task, whatever state it is in; its run is revoked, its outcome acknowledged."""
        self._waiting.withdraw(task)
        task.mission.tasks.pop(task.number)
        course = task.course
        if course.ending is not None:
            if course.ending != "value" and task.function is not LANE:
                self._count_failure(task, retried=retried)
            mission = task.mission
            mission.unconfirmed -= 1
            if course.outcome is not None:
                mission.unconfirmed_bytes -= len(course.outcome)
                course.outcome = None  # the record may be remembered
            # The look is later, once for all outcomes that one message confirms.
            if mission.paused:
                self._backlogs[mission] = None
        # Not before the mission has it: a head that comes after this one may have to fetch it.
        self._acknowledge(course.kept_by)
        if task.lease is not None:
            task.lease.task = None
            if task.lease.gang is not None:
                for seat in task.lease.gang.seats.values():
                    seat.task = None
            if not task.lease.revoked:
                self._outgoing.revoke(task.lease)
            task.lease = None
        self._go_on(task.mission, task.number)

    def _acknowledge(self, kept_by: tuple[str, Attempt] | None) -> None:
        """Let the worker that keeps an outcome forget it, unless it is lost, and all with it."""
        if kept_by is not None:
            worker = self._registry.workers.get(kept_by[0])
            if worker is not None:
                self._outgoing.acknowledge(worker.link, kept_by[1])

    def _count_failure(self, task: TaskRecord, *, retried: bool) -> None:
        """Count a task that has failed, for good or not."""
        if not retried:
            self.failed += 1
            task.mission.shown.failed += 1
            return
        self.retried += 1
        task.mission.shown.retried += 1
        for one in reversed(self._registry.failed_tasks):
            if one.ended[0] is task:
                one.retried = True
                return

    def on_lane_calls(self, mission: MissionRecord, count: LaneCount) -> None:
        """Count calls that have ended in lanes."""
        self.done += count.done
        self.failed += count.failed
        self.retried += count.retried
        mission.shown.done += count.done
        mission.shown.failed += count.failed
        mission.shown.retried += count.retried
        runs = count.done + count.failed + count.retried
        if runs:
            self.on_runs_ended(mission, count.function, count.seconds, runs)

    def on_runs_ended(
        self, mission: MissionRecord, function: bytes, seconds: float, runs: int = 1
    ) -> None:
        """Note for how long runs have taken that ended by themselves, added up."""
        if self.on_run_time is not None:
            self.on_run_time(mission.shown.function_names.get(function, ""), seconds, runs)

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
                self._waiting.pause(mission, now)
            elif mission.paused and not self._has_backlog(mission, 2):
                self._waiting.resume(mission, now)
