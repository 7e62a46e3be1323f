"""The tasks of a hub that wait. Plain state, no I/O, no clock.

A task waits in a queue of the scheduler, or apart from these: to run by itself after crashes
(`grain.head.hub.tasks.quarantine`), for the report of a worker that it ran on under another head,
or for its mission, which has too many outcomes to confirm first.

A task whose mission is away is not started: if it waits it is forgotten, as the mission will submit
it again. If it runs it goes on.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from grain.head.hub.state import ITS_MISSION, ITS_SEATS
from grain.head.messages import Started
from grain.head.scheduler.outlived import seen, wants_worker
from grain.worker.messages import LANE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grain.eventlog.soft_stops import Interruption
    from grain.head.hub.registry import Registry
    from grain.head.hub.reports import MissionReports
    from grain.head.hub.state import MissionRecord, TaskRecord
    from grain.head.hub.tasks.quarantine import Quarantine
    from grain.head.scheduler.state import Task, TaskQueue


class AskedLanes(Protocol):
    """The part of `grain.head.hub.tasks.lanes.LaneTable` that takes the lanes that would wait.

    Attributes:
        waiting: how many lanes wait in each queue of the scheduler.
    """

    waiting: Counter[TaskQueue]

    def ask(self, task: TaskRecord, *, has_run: bool) -> bool:
        """Let a lane start at the next decision, or end it; return True if it is to wait."""

    def withdraw(self, task: TaskRecord) -> None:
        """Forget a lane that was asked for; no effect if it was not."""


class Waiting:
    """The tasks of all missions that wait, wherever they do.

    Those that wait in a queue of the scheduler are the records of its waiting tasks.

    Attributes:
        lanes: takes the lanes that would wait. It is set by that.
        awaiting_report: those that wait for a worker's report, by the worker's id.
    """

    lanes: AskedLanes

    def __init__(self, registry: Registry, quarantine: Quarantine, reports: MissionReports) -> None:
        self._registry = registry
        self._scheduler = registry.scheduler
        self._quarantine = quarantine
        self._reports = reports
        self.awaiting_report: dict[str, dict[TaskRecord, None]] = {}
        # The workers that missions name for tasks which have another run elsewhere: if that comes
        # to nothing, the task awaits that worker's report, as long as others are.
        self._named: dict[TaskRecord, str] = {}

    # ---- tasks that begin to wait

    def enqueue(self, task: TaskRecord, now: float, *, has_run: bool = True) -> None:
        """Let a task wait for room; a suspect waits for workers of its own.

        Args:
            has_run: False if no process can have begun it, which matters to lanes only.
        """
        queue = task.queue
        assert queue is not None
        if task.function is LANE:
            slices = task.course.slices
            if not self.lanes.ask(task, has_run=has_run):
                if slices:
                    self._return_turn(task, queue)
                return
        if task.mission.paused:
            task.alter().awaits = ITS_MISSION
            task.mission.parked[task] = None
            return
        queue = task.queue = self._scheduler.current(queue)
        if not queue.serving_shapes or queue.gangs or queue.shared:
            self._reports.on_waiting(task, queue, now)
        if crashes := task.course.crashes:
            if wants_worker(crashes):
                self._quarantine.add(task)
                return
            queue = task.queue = self._scheduler.queue(
                queue.request,
                queue.priority,
                queue.share,
                queue.interpreter,
                seen(crashes),
                queue.avoid,
            )
        self.queue_up(task, queue)

    def queue_up(self, task: TaskRecord, queue: TaskQueue) -> None:
        """Put a task into a queue of the scheduler."""
        scheduler_id = task.scheduler_id = next(self._registry.scheduler_ids)
        if task.function is LANE:
            task.queue = queue
            self.lanes.waiting[queue] += 1
        carried = task.mission.on_link.carried
        overtaken = carried.pop(task.request, 0) if carried else 0
        self._scheduler.on_submitted(scheduler_id, queue, task.age, task.urgency, task, overtaken)

    def hold_back(self, task: TaskRecord, worker: str) -> None:
        """Let a task wait for the report of the worker that it ran on under another head."""
        task.alter().awaits = worker
        self.awaiting_report.setdefault(worker, {})[task] = None

    def await_seats(self, task: TaskRecord) -> None:
        """Let a task that waits for room wait until workers have reported the seats of its gang.

        One that awaits the report of a worker goes on with that.
        """
        if task.scheduler_id is not None or task.suspect or task.awaits == ITS_MISSION:
            self.withdraw(task)
            self.hold_back(task, ITS_SEATS)

    def enqueue_again(self, task: TaskRecord, now: float, interruption: Interruption = "") -> None:
        """Let a task wait whose run came to nothing, and inform its mission."""
        named = self._named.pop(task, "")
        again = Started(named, (task.number,), interruption=interruption)
        self._registry.outgoing.post(task.mission.link, again)
        if named:
            self.hold_back(task, named)
        else:
            self.enqueue(task, now)

    def on_named(self, task: TaskRecord, worker: str) -> None:
        """Note the worker that a mission names for a task which has another run elsewhere.

        Args:
            worker: its id; empty if the mission names none, or the one that has the run.
        """
        if worker:
            self._named[task] = worker
        elif self._named:
            self._named.pop(task, None)

    # ---- tasks that wait no more

    def withdraw(self, task: TaskRecord) -> None:
        """End the waiting of a task, whatever it waits for; no effect if it does not wait."""
        # By the fields and not by `TaskRecord.state`: it runs once for every task.
        course = task.course
        if task.scheduler_id is not None:
            task.age = self._scheduler.tasks[task.scheduler_id].age
            if task.function is LANE and task.queue is not None:
                self._leave_queue(task)
                self._return_turn(task, task.queue)
            self._scheduler.on_cancelled(task.scheduler_id)
            task.scheduler_id = None
        elif course.suspect:
            self._quarantine.remove(task)
        elif course.awaits == ITS_MISSION:
            del task.mission.parked[task]
            course.awaits = ""
        elif course.awaits:
            others = self.awaiting_report[course.awaits]
            del others[task]
            if not others:
                del self.awaiting_report[course.awaits]
            course.awaits = ""
        elif task.function is LANE:
            self.lanes.withdraw(task)

    def on_started(self, scheduled: Task) -> TaskRecord:
        """Return a task that starts, and so waits no more: its mission has had a turn.

        Args:
            scheduled: the scheduler's record of it. Its age counts: being more urgent than another
                task of its queue, it may have taken the place of that.
        """
        task: TaskRecord = scheduled.record
        # What it holds may pass on to others, long after this one is over.
        scheduled.record = None
        task.scheduler_id = None
        task.age = age = scheduled.age
        assert task.queue is not None
        if task.function is LANE:
            self._leave_queue(task)
        self._registry.shares.started(task.mission.share, age, task.queue.priority)
        return task

    def calls(self) -> Counter[TaskQueue]:
        """Return by how many the calls that wait in each queue are more than its tasks.

        The calls that missions hold wait, as far as they have reported them; and lanes are no
        calls: they wait in place of these. Displays count calls.
        """
        calls: Counter[TaskQueue] = Counter()
        for mission in self._registry.missions.values():
            for held in mission.held:
                queue = mission.on_link.requests.get(held.request)
                if queue is not None:
                    calls[self._scheduler.current(queue)] += held.calls
        calls.subtract(self.lanes.waiting)
        return calls

    def _leave_queue(self, lane: TaskRecord) -> None:
        """Count a lane no more among those that wait in a queue."""
        assert lane.queue is not None
        waiting = self.lanes.waiting
        waiting[lane.queue] -= 1
        if not waiting[lane.queue]:
            del waiting[lane.queue]

    def _return_turn(self, lane: TaskRecord, queue: TaskQueue) -> None:
        """Give a mission the turn back that a lane has not used."""
        self._registry.shares.return_turn(lane.mission.share, lane.age, queue.priority)

    def on_worker_over(self, worker: str, now: float) -> list[TaskRecord]:
        """Let tasks wait for room whose worker, of which they awaited a report, is over.

        Returns:
            These tasks, which may have to wait for earlier gangs.
        """
        if self._named:
            self._named = {task: named for task, named in self._named.items() if named != worker}
        tasks = list(self.awaiting_report.get(worker, ()))
        for task in tasks:
            self.withdraw(task)
            # Its mission takes it to run on that worker.
            self._registry.outgoing.post(task.mission.link, Started("", (task.number,)))
            self.enqueue(task, now)
        return tasks

    def await_no_reports(self, now: float) -> list[TaskRecord]:
        """Let all tasks wait for room that await the report of a worker; return them."""
        self._named.clear()
        workers = list(self.awaiting_report)
        return [task for worker in workers for task in self.on_worker_over(worker, now)]

    # ---- missions that do not take their outcomes

    def pause(self, mission: MissionRecord, now: float) -> None:
        """Park the waiting tasks of a mission; what runs goes on."""
        mission.paused = True
        # The youngest first: the scheduler's queues then only lose their ends.
        tasks = mission.tasks.values()
        waiting = [t for t in tasks if t.scheduler_id is not None or t.suspect]
        for task in reversed(waiting):
            self.withdraw(task)
        for task in waiting:
            self.enqueue(task, now, has_run=False)

    def resume(self, mission: MissionRecord, now: float) -> None:
        """Let the parked tasks of a mission wait for room."""
        mission.paused = False
        for task in sorted(mission.parked, key=lambda task: task.age):
            self.withdraw(task)
            self.enqueue(task, now, has_run=False)

    # ---- questions

    @property
    def suspects(self) -> Iterable[TaskRecord]:
        """The tasks that wait to run by themselves."""
        return self._quarantine.waiting.keys()

    def apart(self) -> Iterator[TaskRecord]:
        """Return the tasks that wait outside of the queues, which all ran before."""
        parked = (mission.parked for mission in self._registry.missions.values())
        return chain(self.suspects, *self.awaiting_report.values(), *parked)
