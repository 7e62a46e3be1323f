"""The missions of a hub: registration, absence, return and departure. Plain state, no I/O.

1.  A mission submits all its unresolved tasks on every connection, ascending; after `Synced` no
    other task of it is wanted. So within a connection a task that does not ascend comes twice.
2.  When its connection is lost, its waiting tasks are forgotten, as it will submit them again.
    Its runs go on, and their outcomes are kept until it confirms them.
3.  After the grace period it is over: its runs are revoked, its outcomes acknowledged. So it is at
    once when its process has ended. A mission that comes back after all is told how many runs
    ended.
4.  A mission, or a task of it, that a user cancels from outside is retracted here at once, and
    the mission is informed; on its next connection once more, as the message may be lost.
5.  Of two connections of one mission the older one is closed, with the reason, also if the mission
    has left on the newer one. A mission that reads that shares its id with another process: it
    takes another id, and submits all again.
6.  A *lasting* mission is not over when it is away for long, when it has left, or when its process
    has ended: only what waits is forgotten. Its runs go on until they end by themselves, or are
    cancelled. An outcome that none of its processes fetches in a grace period, from the next look
    on, is dropped; when nothing is left, the record is removed. A process of it may submit the task
    of a run at any time, also after `Synced`.
7.  A task that ran on a worker under this head's predecessor, as its mission reports, waits for
    that report until that worker has reported or left, or until the grace period of this head's
    start is over. As long, nothing is handed out of what the scheduler has for the whole cluster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from grain.edge.questions import CallAnswer, pack
from grain.head.errors import BadMessage
from grain.head.hub.names import labels
from grain.head.hub.registry import Questions, Registry
from grain.head.hub.state import (
    ITS_MISSION,
    ITS_SEATS,
    EndedMission,
    MissionOnLink,
    MissionRecord,
    TaskRecord,
)
from grain.head.messages import (
    AckTasks,
    CancelMission,
    CancelTask,
    Crashed,
    Depart,
    Describe,
    Described,
    LaneReport,
    MissionRegistered,
    Outlook,
    RegisterMission,
    Request,
    Retract,
    SeveralMaxima,
    Started,
    Submit,
    Synced,
    after_crash,
)
from grain.head.scheduler.outlived import given_up, never_began
from grain.head.scheduler.places import WHOLE, RunPlace
from grain.head.validation import request_of
from grain.resource import learned
from grain.worker.messages import LANE, DefineFunction

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload
    from grain.head.hub.functions import FunctionTable
    from grain.head.hub.reports import MissionReports
    from grain.head.hub.state import Link
    from grain.head.hub.tasks.gangs import Gangs
    from grain.head.hub.tasks.lanes import LaneTable
    from grain.head.hub.tasks.outcomes import Outcomes
    from grain.head.hub.tasks.waiting import Waiting
    from grain.head.messages import Ask, FailedOn
    from grain.head.scheduler.state import TaskQueue

_REMEMBERED = 1024  # missions that have ended and are remembered
_SEVERAL = 2  # maxima of a group that differ

T = TypeVar("T")


class Missions:
    """The missions of a hub.

    Args:
        grace: seconds for which a mission that is away is waited for.
        now: the time, from which workers have the grace period to come over.

    Attributes:
        links: the attached missions, by link.
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
        *,
        grace: float,
        now: float,
    ) -> None:
        self._registry = registry
        self._missions = registry.missions
        self._scheduler = registry.scheduler
        self._outgoing = registry.outgoing
        self._waiting = waiting
        self._outcomes = outcomes
        self._gangs = gangs
        self._lanes = lanes
        self._functions = functions
        self._reports = reports
        self._grace = grace
        # Until then a worker may still come over from this head's predecessor, with runs that a
        # mission knows of: its tasks are in limbo, and not started.
        self._limbo_ends = now + grace
        self._scheduler.cluster.shut(self._limbo_ends)
        self._last_number = 0
        self._questions = Questions()
        self.links: dict[Link, MissionRecord] = {}
        # The runs of missions that were given up, and when their connections were lost, by id.
        self._given_up: dict[str, tuple[int, float]] = {}
        # The ids of missions that have left, or whose processes have ended. A worker that was away
        # may still report their runs.
        self._ended: dict[str, None] = {}
        # The last connections of missions that have left, have ended or were given up, by id.
        self._removed: dict[str, int] = {}
        # Who has cancelled missions that were given up before they got that message, or tasks of
        # theirs, and which tasks they have retracted, by id.
        self._cancelled: dict[str, tuple[str, dict[int, str], set[int]]] = {}

    def get(self, id: str, now: float) -> MissionRecord:  # noqa: A002 - its name
        """Return the mission of an id, made if there is none; then it has the grace period to come.

        A worker may report the runs of a mission before that has found this head; or those of one
        that has left or whose process has ended, which are not waited for.
        """
        mission = self._missions.get(id)
        if mission is None:
            self._last_number += 1
            mission = self._missions[id] = MissionRecord(id, self._last_number)
            mission.shown.since = now
            mission.shown.pace.look(now, 0, idle=True)
            cancelled = self._cancelled.pop(id, ("", {}, set()))
            mission.cancelled_by, mission.cancelled, mission.retracted = cancelled
            mission.deadline = now if id in self._ended else now + self._grace
        return mission

    def on_message(self, link: Link, message: Message, payload: Payload, now: float) -> None:
        """Handle one message from a mission."""
        if isinstance(message, RegisterMission):
            self._register(link, message, now)
            return
        mission = self.links.get(link)
        if mission is None or mission.link != link:
            return
        match message:
            case Submit():
                self._submit(mission, message, payload, now)
            case AckTasks():
                self._on_confirmed(mission, message)
            case Request():
                self._on_request(mission, message)
            case DefineFunction():
                mission.functions[message.digest] = message.digest, payload
                mission.shown.function_names[message.digest] = message.name
            case Retract():
                self._retract(mission, message.tasks)
            case Synced():
                # Before the answer to it: what the mission has not got by then is over.
                self._reports.on_synced(mission)
                self._on_synced(mission, now)
            case Described():
                self._on_described(message)
            case Outlook() | LaneReport():
                self._on_told(mission, message, now)
            case Depart():
                self._on_departed(link, mission, now)

    def _on_request(self, mission: MissionRecord, message: Request) -> None:
        on_link, number = mission.on_link, message.number
        queue = on_link.requests[number] = self._scheduler.queue(
            *(request_of(message.resources), message.priority, mission.number, message.interpreter)
        )
        for one in queue.alternatives:
            if (memory := learned(one.stated)) is not None and memory.group is not None:
                self._on_maximum(on_link, memory.group, memory.most)
        if message.overtaken:
            on_link.overtaken[number] = on_link.carried[number] = message.overtaken

    def _on_maximum(self, on_link: MissionOnLink, group: str, most: float) -> None:
        """Tell missions once whose requests state another maximum for a group than others do.

        A mission that states several itself knows: so two of its own are enough.
        """
        stated = on_link.maxima.setdefault(group, frozenset())
        if len(stated) < _SEVERAL:
            on_link.maxima[group] = stated | {most}
        attached = [one for one in self.links.values() if group in one.on_link.maxima]
        maxima = frozenset[float]().union(*(one.on_link.maxima[group] for one in attached))
        for one in attached if len(maxima) >= _SEVERAL else ():
            if len(one.on_link.maxima[group]) < _SEVERAL and group not in one.on_link.told:
                one.on_link.told.add(group)
                self._outgoing.post(one.link, SeveralMaxima(group, tuple(sorted(maxima))))

    def _on_told(self, mission: MissionRecord, message: Outlook | LaneReport, now: float) -> None:
        """Record what a mission tells for display."""
        if isinstance(message, Outlook):
            mission.on_link.outlook = message
        else:
            self._lanes.on_report(mission, message, now)

    def _on_confirmed(self, mission: MissionRecord, message: AckTasks) -> None:
        for task in message.tasks:
            self._outcomes.on_confirmed(mission, task)
        for task in message.retried:
            self._outcomes.on_confirmed(mission, task, retried=True)

    def _retract(self, mission: MissionRecord, tasks: tuple[int, ...]) -> None:
        for number in tasks:
            task = mission.tasks.get(number)
            if task is not None:
                if not task.claimed and task.lease is not None:
                    # It may not know: what the last connection said of the run may be lost.
                    self._report_run(task, "")
                task.claimed = True  # it waits for the answer, though it does not submit the task
            self._outcomes.retract(mission, number)

    # ---- questions

    def describe(self, link: Link, mission: MissionRecord, ask: Ask) -> None:
        """Ask a mission for the call of a task, and pass its answer on to who asked for it."""
        self._outgoing.post(mission.link, Describe(self._questions.add(link, ask), ask.task))

    def _on_described(self, message: Described) -> None:
        link, answer = self._questions.pop(message.question)
        self._outgoing.post(link, answer, pack(CallAnswer(message.call)))

    # ---- joining

    def _register(self, link: Link, message: RegisterMission, now: float) -> None:
        if link in self.links:
            return
        before = self._missions.get(message.mission)
        last = self._removed.get(message.mission, 0)
        if message.connection <= max(last, 0 if before is None else before.connection):
            # It comes late: a newer connection has replaced this one, and the mission may have left
            # on that. Or its sender is not the process that has registered before.
            self._outgoing.replace(link, "mission")
            return
        mission = self.get(message.mission, now)
        mission.connection = message.connection
        if mission.link is not None:
            self.links.pop(mission.link, None)
            self._outgoing.replace(mission.link, "mission")
            self._detach(mission)
        mission.ordinal = message.number
        mission.name = message.name
        mission.host = message.host
        mission.versions = message.versions
        mission.settings = message.settings
        mission.link = link
        mission.deadline = now + self._grace if mission.lasts else math.inf
        # A task that was refused on the last connection comes again if the answer was lost with it.
        for task in mission.on_link.answered - mission.refused:
            del mission.cancelled[task]
        # All of these belong to the last connection.
        mission.on_link = MissionOnLink()
        mission.refused.clear()
        self._lanes.forget_calls(mission)
        self.links[link] = mission
        # Before any run of a cancelled task can end: the mission is to know who has cancelled it.
        if mission.cancelled_by:
            self._outgoing.post(link, CancelMission(mission.cancelled_by))
        for task, by in mission.cancelled.items():
            self._outgoing.post(link, CancelTask(task, by))
        self._reports.on_mission(mission)

    def _comes_twice(self, mission: MissionRecord, message: Submit) -> bool:
        """Return True for a task that has come before on this connection (rule 1)."""
        if message.late:  # its number may ascend or not
            twice = message.late <= mission.on_link.last_late
            mission.on_link.last_late = max(mission.on_link.last_late, message.late)
            return twice
        return message.task <= mission.on_link.last_submitted

    def _submit(
        self, mission: MissionRecord, message: Submit, arguments: Payload, now: float
    ) -> None:
        if self._comes_twice(mission, message):
            return  # its task may be over since, and must not be made again
        function = mission.functions.get(message.function)
        if message.function == LANE:
            function = LANE, None  # the same object for all, as records are looked at often
        if message.request not in mission.on_link.requests or function is None:
            raise BadMessage(f"task {message.task} refers to an undefined request or function")
        # Not by one that is late: tasks of smaller numbers may be on their way.
        if not message.late and message.task > mission.on_link.last_submitted:
            mission.on_link.last_submitted = message.task
        if mission.retracted:
            mission.retracted.discard(message.task)
        task = mission.tasks.get(message.task)
        # What only waits is forgotten with its connection: what is still here ran, or runs.
        has_run = task is not None or message.worker != "" or message.crashes != ()
        if task is None:
            task = mission.tasks[message.task] = TaskRecord(mission, message.task)
        queue = self._scheduler.current(mission.on_link.requests[message.request])
        if message.avoid:
            queue = self._avoiding(queue, message.avoid)
        task.queue = queue
        task.request = message.request
        task.urgency = message.urgency or 0.0  # one object for most of them
        task.age = self._age(task, message, has_run=has_run)
        task.function = function[0]
        task.arguments = arguments
        self._note_past(task, message)
        known = message.worker
        if has_run and (message.crashes or task.crashes):
            known = self._join_crashes(task, message)
        ran_on = message.worker
        if ran_on and (now >= self._limbo_ends or self._has_reported(ran_on)):
            ran_on = ""  # if it has the run, the task is leased by now
        cancelled = mission.cancelled_by or message.task in mission.cancelled
        if cancelled and task.ending is None:
            self._refuse(task, known)
            return
        self._claim(task, ran_on, now, has_run=has_run)
        if (message.worker or task.lease is not None) and task.ending is None:
            self._report_run(task, known)

    def _age(self, task: TaskRecord, message: Submit, *, has_run: bool) -> int:
        """Return the age of a task that is submitted, by its queue."""
        assert task.queue is not None
        shares, priority = self._registry.shares, task.queue.priority
        lane = message.function == LANE
        if lane and message.waits:
            task.alter().slices = True
        # A lane that is lent takes no turn, and a refused one loses none: it starts while nothing
        # waits. Nor does a task that is tried again.
        again = has_run or (lane and not message.waits) or message.avoid != ()
        return shares.age_again(priority) if again else shares.age(task.mission.share, priority)

    @staticmethod
    def _note_past(task: TaskRecord, message: Submit) -> None:
        """Note the attempts that its mission knows of, unless this head knows more."""
        past = message.past
        if past is None and not message.crashes:
            return
        for crash in message.crashes:
            past = after_crash(past, crash)
        if past is not None and task.course.past is None:
            task.alter().past = past

    def _refuse(self, task: TaskRecord, known: str) -> None:
        """End a submitted task that a user has cancelled.

        Args:
            known: the id of the worker on which its mission takes it to run; empty if it waits.
        """
        task.mission.refused.add(task.number)
        task.claimed = True
        if task.lease is not None:
            # That run may take long to end, and what was last said of it may be lost.
            self._report_run(task, known)
        self._outcomes.retract(task.mission, task.number)

    def _report_run(self, task: TaskRecord, known: str) -> None:
        """Report where a task runs to its mission, which takes it to run on a worker of an id."""
        by = None
        runs_on, over = task.awaits, False
        if task.lease is not None:
            over = self._gangs.is_stand_in(task.lease)
            runs_on = task.lease.worker.id
            by = self._scheduler.taken.get(task.lease.scheduler_id or 0)
            self._reports.on_run(task.mission, task.lease.worker)
        # Where tasks have alternatives, it may know of another run there; and of another gang.
        gang = task.lease is not None and task.lease.gang is not None
        if by is not None or gang or runs_on != known:
            runs_on = "" if runs_on in (ITS_MISSION, ITS_SEATS) else runs_on
            alternative = 0 if by is None else by.index
            started = Started(runs_on, (task.number,), alternative, over)
            self._outgoing.post(task.mission.link, started)
        if task.lease is not None:
            self._reports.on_gang(task.lease)

    def _join_crashes(self, task: TaskRecord, message: Submit) -> str:
        """Add the crashes that a task's mission knows of, and report the others to it.

        Returns:
            the id of the worker on which the mission takes the task to run from then on.
        """
        known = message.crashes
        reported = {crash.attempt for crash in known}
        more = [crash for crash in task.crashes if crash.attempt not in reported]
        task.alter().crashes = (*known, *more)
        for crash in more:  # they happened while the mission was away
            self._outgoing.post(task.mission.link, Crashed(task.number, crash))
        lease = task.lease
        if (
            lease is None
            or lease.worker.id != message.worker
            or all(crash.worker != lease.worker.name for crash in more)
        ):
            return message.worker
        # What runs there is another run than the one of which the mission knows.
        self._outgoing.post(task.mission.link, Started("", (task.number,)))
        return ""

    def _claim(self, task: TaskRecord, worker: str, now: float, *, has_run: bool) -> None:
        """Take a task that its mission has submitted on this connection.

        Args:
            has_run: False if it is new.
            task: with its queue, age and arguments.
            worker: the id of the worker whose report it has to wait for, because it ran there under
                another head; empty if there is none.
        """
        task.claimed = True
        lease, course = task.lease, task.course
        if lease is not None and never_began(course.crashes, lease.attempt):
            self._outgoing.revoke(lease)
            task.lease = lease = None
        if lease is not None and task.function is LANE:
            self._lanes.on_run(lease)  # a worker of an older version does not say so
        if lease is not None or course.crashes:  # else none was named: most tasks are new
            elsewhere = lease is not None and lease.worker.id != worker
            self._waiting.on_named(task, worker if elsewhere else "")
        if course.ending is not None:
            self._outcomes.deliver(task)
        elif lease is None:
            if given_up(course.crashes):
                self._outcomes.resolve(task, "crashed")
            elif worker:
                self._waiting.hold_back(task, worker)
            else:
                self._waiting.enqueue(task, now, has_run=has_run)
                if self._gangs.hold_some:
                    self._gangs.hold_back(task)
        elif lease.scheduler_id is not None and not lease.alone:
            assert task.queue is not None
            self._scheduler.on_reclassified(lease.scheduler_id, task.queue, task.age)

    def _avoiding(self, queue: TaskQueue, failed_on: tuple[FailedOn, ...]) -> TaskQueue:
        """Return the queue for a task that has failed on some workers: it goes elsewhere first."""
        workers = self._registry.workers
        known = (
            (workers[one.worker].number, one.gpus) for one in failed_on if one.worker in workers
        )
        avoid = {RunPlace(worker, gpu) for worker, gpus in known for gpu in gpus or (WHOLE,)}
        return self._scheduler.queue(
            queue.request,
            queue.priority,
            queue.share,
            queue.interpreter,
            avoid=tuple(sorted(avoid)),
        )

    def _has_reported(self, worker: str) -> bool:
        """Return True if a worker has reported to this head what it has, or will not any more."""
        record = self._registry.workers.get(worker)
        return worker in self._registry.left if record is None else record.serving

    def _on_synced(self, mission: MissionRecord, now: float) -> None:
        if mission.synced:
            return
        mission.synced = True
        mission.on_link.carried.clear()
        # The mission has submitted or retracted all that it wants; it has no use for the rest. A
        # lasting one has more processes than this, and this one may be about to submit more.
        if not mission.lasts:
            for task in [task for task in mission.tasks.values() if not task.claimed]:
                self._outcomes.discard(task)
        runs, lost_at = self._given_up.pop(mission.id, (0, now))
        label = labels(self._missions.values())[mission.number]
        registered = MissionRegistered(self._registry.epoch, runs, now - lost_at, label)
        self._outgoing.post(mission.link, registered)
        mission.on_link.answered = {
            task
            for task in mission.cancelled
            if task not in mission.tasks
            # It has yet to submit what another process of it has submitted.
            and not (mission.lasts and task > mission.on_link.last_submitted)
        }

    # ---- cancelling, from outside

    def cancel(self, mission: MissionRecord, by: str) -> None:
        """End a mission: all its runs at once, and itself when it gets the message."""
        mission.cancelled_by = by
        self._outgoing.post(mission.link, CancelMission(by))
        for task in list(reversed(mission.tasks.values())):  # the youngest first, as in `_detach`
            if task.ending is None:
                self._outcomes.retract(mission, task.number)
        for number in list(mission.beside):
            self._outcomes.revoke_beside(mission, number)

    def cancel_task(self, task: TaskRecord, by: str) -> None:
        """Retract a task, and inform its mission by whom it was cancelled."""
        self.cancel_call(task.mission, task.number, by)
        self._outcomes.retract(task.mission, task.number)

    def cancel_call(self, mission: MissionRecord, number: int, by: str) -> None:
        """Have a mission cancel a task, which a lane of it has."""
        mission.cancelled[number] = by
        mission.on_link.answered.discard(number)
        self._outgoing.post(mission.link, CancelTask(number, by))

    # ---- leaving

    def on_link_lost(self, link: Link, now: float) -> None:
        """Detach the mission whose connection is lost, and wait for it."""
        mission = self.links.pop(link, None)
        if mission is not None and mission.link == link:
            mission.link = None
            mission.on_link.outlook = None
            mission.deadline = now + self._grace
            self._detach(mission)

    def _detach(self, mission: MissionRecord) -> None:
        """Forget what waits of a mission; keep what runs, what has ended, and who crashed."""
        mission.synced = False
        mission.share.give_back()
        # The youngest first: the scheduler's queues then only lose their ends.
        for task in list(reversed(mission.tasks.values())):
            task.claimed = False
            self._waiting.withdraw(task)
            if task.lease is None and task.ending is None and not task.crashes:
                del mission.tasks[task.number]

    def _on_departed(self, link: Link, mission: MissionRecord, now: float) -> None:
        """End a mission that has left; of a lasting one a process has left."""
        if not mission.lasts:
            self._remember(self._ended, mission.id, None)
            self._remove(mission, now)
            return
        # It leaves as it was told to, or not because of that: the next one has nothing to do with
        # it. Its runs are retracted already. Of those that have yet to end the next one gets the
        # outcomes, and is to know who has cancelled them.
        by, mission.cancelled_by = mission.cancelled_by, ""
        if by:
            for task in mission.tasks.values():
                if task.retracted and task.lease is not None:
                    mission.cancelled.setdefault(task.number, by)
        self.on_link_lost(link, now)
        self._end_if_over(mission, now)

    def _outlast(self, mission: MissionRecord, now: float) -> None:
        """Forget what a lasting mission left at the last look already, and no process of it wants.

        Its runs go on, whether it is connected or not.
        """
        over = [task for task in mission.tasks.values() if task.lease is None and not task.claimed]
        before = mission.on_link.unfetched
        mission.on_link.unfetched = {task.number: (task.course, task.crashes) for task in over}
        for task in over:
            if before.get(task.number) == mission.on_link.unfetched[task.number]:
                self._outcomes.discard(task)
        mission.deadline = now + self._grace
        if mission.link is None:
            self._end_if_over(mission, now)

    def _end_if_over(self, mission: MissionRecord, now: float) -> None:
        """End a lasting mission that is away, and of which nothing is left."""
        if not mission.tasks and not mission.beside:
            self._give_up(mission, now)

    def _give_up(self, mission: MissionRecord, now: float) -> None:
        """End a mission that has not come back in time, and remember that for when it does."""
        runs = sum(task.lease is not None for task in mission.tasks.values())
        if mission.cancelled_by or mission.cancelled or mission.retracted:
            cancelled = (mission.cancelled_by, mission.cancelled, mission.retracted)
            self._remember(self._cancelled, mission.id, cancelled)
        # A mission that never connected to this head has no lost connection to hear of.
        if runs and mission.connection:
            self._remember(self._given_up, mission.id, (runs, mission.deadline - self._grace))
        self._remove(mission, now)

    def _remember(self, among: dict[str, T], mission: str, what: T) -> None:
        among[mission] = what
        if len(among) > _REMEMBERED:
            del among[next(iter(among))]

    def _remove(self, mission: MissionRecord, now: float) -> None:
        """End a mission: no task of it is wanted any more."""
        if mission.link is not None:
            self.links.pop(mission.link, None)
            mission.link = None
        for task in list(reversed(mission.tasks.values())):  # the youngest first, as above
            self._outcomes.discard(task)
        if not mission.lasts:
            self._gangs.end(mission.id)
        del self._missions[mission.id]
        self._scheduler.on_owner_left(mission.number)
        mission.set_aside.clear()
        mission.functions.clear()
        self._functions.on_changed()
        if mission.connection:  # else it never came
            self._remember(self._removed, mission.id, mission.connection)
            self._registry.ended_missions.append(EndedMission(mission, now))

    def on_ended(self, id: str, now: float) -> None:  # noqa: A002 - its name
        """Remove a mission whose process has ended, unless it is connected in spite of that."""
        mission = self._missions.get(id)
        if mission is not None and mission.link is None and not mission.lasts:
            self._remember(self._ended, id, None)
            self._remove(mission, now)

    def on_tick(self, now: float) -> None:
        """Remove the missions whose grace period is over; end the limbo when it is time."""
        for mission in [m for m in self._missions.values() if m.deadline <= now]:
            if mission.lasts:
                self._outlast(mission, now)
            else:
                self._give_up(mission, now)
        for mission in self._missions.values():
            mission.shown.pace.look(
                now, mission.shown.done + mission.shown.failed, idle=not mission.tasks
            )
        if self._limbo_ends > now:
            return
        self._gangs.await_no_reports(now)
        self._scheduler.cluster.open()
        # Not before: a mission that has yet to come over may have functions that workers have.
        if all(mission.synced for mission in self._missions.values()):
            self._functions.sweep()

    def postpone(self, since: float, seconds: float) -> None:
        """Move all deadlines: this process was stopped for so long, and no peer could reach it."""
        # A limbo that was over before the stop stays over: tasks have started since. The deadlines
        # of attached missions are infinite, and stay so, but for those of lasting ones.
        if self._limbo_ends > since:
            self._limbo_ends += seconds
            self._scheduler.cluster.shut(self._limbo_ends)
        for mission in self._missions.values():
            mission.deadline += seconds
