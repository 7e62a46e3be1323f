"""The law of displays: what a head shows of a mission, and what the mission's log says, agree.

Now and then each mission is compared whose messages have all arrived: its head's answers, as
commands get them, with the rows that are made of the mission's log, and with its session. They may
differ where only one side knows something, or learns of it first:

1.  A head knows of no call in a lane that is brief, and of none of an earlier head's lane before
    the worker has reported that; of calls that are held as the mission has last said. It counts the
    calls that have ended by what missions report of lanes: such a report counts twice if it comes
    twice, and not at all if it is lost with its connection.
2.  A task whose worker has yet to report to a new head waits there, and in the log it goes on. So
    does one whose gang has ended but for some seats, see `Gangs`. A run that has ended holds
    nothing, and is not shown; the log learns of that with the outcome. A lane that has ended counts
    as before until then, or as a waiting task if no call of it was known.
3.  A worker that is away, and a seat of it, is in the log until it is given up. A new head has not
    seen all seats, and the log shows none before it has.
4.  A head counts since it met the mission, which is compared by what two looks add. It counts the
    outcome of a second run, though the task was over and its mission drops that; and another head
    counts one again whose worker had not learnt that it has arrived.
5.  A worker of which a mission has no run any more is in its log until the end, if its head ended,
    or the connection was lost, before the worker left: the next head knows of no such worker.
6.  The queue of a revoked run counts that until it has ended, and `grain top` sums up queues.
7.  Of a lasting mission a head knows the tasks of all processes, and the log those of one. That
    one does not know which runs others have cancelled, nor the name of a worker that has left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grain.edge.questions import OverviewAnswer, RunsAnswer, StateAnswer, pack, unpack
from grain.eventlog.schema import WorkerJoined, WorkerLeft, decode, encode
from grain.facts.totals import Totals
from grain.head.hub.state import ITS_MISSION, ITS_SEATS, TaskState
from grain.resource import to_data
from grain.worker.messages import LANE

if TYPE_CHECKING:
    from grain.facts.fold import Fold
    from grain.facts.rows import Mission, Queue, Task
    from grain.head.hub.state import LeaseRecord, MissionRecord, TaskRecord
    from simulation.heads import HeadProcess
    from simulation.peers import SimulatedMission
    from simulation.setting import Setting

_PAUSE = 60.0
"""Seconds between two looks at one mission."""


class _Counts(NamedTuple):
    """The ends of a mission's tasks that its head and its log had counted at a look."""

    record: MissionRecord
    connection: int
    done: int
    failed: int
    logged_done: int
    logged_failed: int
    cancelled: int
    again: int


class _Logged:
    """The rows of a mission's log.

    Attributes:
        workers: the lines of workers that are here, by name.
        before: the counts of the last look; None if there was none, or they were not settled.
        next: when the next look is due.
    """

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.totals = Totals()
        self.workers: dict[str, WorkerJoined] = {}
        self.before: _Counts | None = None
        self.next = 0.0
        self._read = 0

    def follow(self, mission: SimulatedMission) -> dict[int, Task]:
        """Read on; return the tasks that are open."""
        mission.log.write()
        lines = mission.log.kept.lines
        for written in lines[self._read :]:
            line = decode(encode(written))
            self.totals.feed(line, self.fold.feed(line))
            if isinstance(line, WorkerJoined):
                self.workers[line.worker] = line
            elif isinstance(line, WorkerLeft):
                self.workers.pop(line.worker, None)
        self._read = len(lines)
        return {task.number: task for task in self.fold.open_tasks()}


class _Look:
    """A look at one mission: what its head knows of its tasks."""

    def __init__(self, head: HeadProcess, record: MissionRecord, mission: SimulatedMission) -> None:
        hub, now = head.hub, head.now
        self.hub, self.record, self.mission = hub, record, mission
        # A new one, as each answer of the hub's own looks at some of the workers.
        overview = type(hub.overview)(hub.registry, hub.waiting, hub.counts)
        self.top = unpack(pack(overview.state(now)), OverviewAnswer)
        self.ls = unpack(pack(hub.snapshot(now)), StateAnswer)
        # Of a lasting mission, the run of a task may go on that has an outcome.
        own = {*(mission.session.pending if record.lasts else mission.story.submitted)}
        self.tasks = {n: one for n, one in record.tasks.items() if n in own}
        # The tasks that run, each with a worker of it.
        self.runs = {
            (run.task, worker.unique_name)
            for worker in hub.registry.workers.values()
            for run in unpack(pack(overview.runs(worker.id, now)), RunsAnswer).runs
            if run.mission == record.id and run.task in own
        }
        # What is shown counts those of all processes of a lasting mission.
        tasks = {n: one for n, one in record.tasks.items() if one.function is not LANE}
        self.away = {n for n, one in tasks.items() if self._goes_on_in_log(one)}
        # Their runs have ended, as workers have reported, and the outcomes are to come.
        leases = {n: one.lease for n, one in tasks.items() if one.lease is not None}
        self.over = {n for n, one in leases.items() if one.scheduler_id is None}
        # The calls that lanes have, as far as this head knows.
        calls = (call.task for call in record.lane_calls.values())
        self.calls = {task for task in calls if hub.lanes.run_of(record, task) is not None}

    def _goes_on_in_log(self, task: TaskRecord) -> bool:
        """Return True if a task waits for what may be left of a run, which the log does not say."""
        if task.lease is not None:
            return self.hub.gangs.is_stand_in(task.lease)
        return task.awaits not in ("", ITS_MISSION, ITS_SEATS)

    def lacks_seats(self, task: int) -> bool:
        """Return True if a task has seats that its head does not know, or not any more."""
        lease = self.tasks[task].lease if task in self.tasks else None
        return lease is not None and lease.gang is not None and lease.gang.missing > 0

    @property
    def in_ls(self) -> Mission:
        """The row of the mission in `grain ls`."""
        return next(one for one in self.ls.missions if one.id == self.record.id)

    @property
    def in_top(self) -> Mission:
        """The row of the mission in `grain top`."""
        return next(one for one in self.top.missions if one.id == self.record.id)

    @property
    def unreported_lanes(self) -> int:
        """The number of lanes that count as waiting tasks.

        Their workers have yet to report, or have reported the end of one without a call.
        """
        lanes = (one for one in self.record.tasks.values() if one.function is LANE)
        unreported = sum(one.lease is None and one.awaits != "" for one in lanes)
        return unreported + sum(one.call is None for one in self.ended_lanes)

    @property
    def ended_lanes(self) -> list[LeaseRecord]:
        """The lanes that have ended, as their workers have reported, with the outcomes to come."""
        lanes = (one.lease for one in self.record.tasks.values() if one.function is LANE)
        return [one for one in lanes if one and one.scheduler_id is None]

    @property
    def calls_over(self) -> int:
        """The number of calls that count as running, and whose lanes have ended."""
        return sum(one.call is not None for one in self.ended_lanes)

    @property
    def held_before(self) -> int:
        """By how much the calls that the mission has reported as held are more than it holds."""
        held = sum(not lane for lane in self.mission.session.aboard.values())
        return sum(one.calls for one in self.record.held) - held

    @property
    def outside(self) -> int:
        """The number of waiting tasks that are in no queue."""
        apart = sum(one.mission is self.record for one in self.hub.waiting.apart())
        leases = [one.lease for one in self.record.tasks.values() if one.lease is not None]
        apart += sum(self.hub.gangs.is_stand_in(one) for one in leases)
        apart += sum(one.call is None for one in self.ended_lanes)
        return apart + sum(one.state is TaskState.DORMANT for one in self.record.tasks.values())

    @property
    def again(self) -> int:
        """The number of outcomes of tasks that had another one, as far as the head remembers.

        It may have had that under an earlier record: the mission was given up, and came back.
        """
        ended = (one[0] for one in self.hub.registry.ended_tasks)
        numbers = [one.number for one in ended if one.mission.id == self.record.id]
        return len(numbers) - len({*numbers})

    @property
    def stale(self) -> int:
        """The number of runs that no task waits for, and have yet to end, without idle lanes."""
        holding = self.hub.runs.holding.items()
        tasks = self.hub.scheduler.tasks
        return sum(
            not (lease.current or lease.idle_lane)
            and number > 0
            and tasks[number].queue.share == self.record.number
            for number, lease in holding
        )


class Displays:
    """The observer of what heads show.

    Args:
        world: the world.
    """

    def __init__(self, world: Setting) -> None:
        self.world = world
        self._logged: dict[SimulatedMission, _Logged] = {}

    def check(self) -> None:
        """Look at the missions whose turn it is, once a second."""
        now = self.world.clock.now
        for mission in self.world.missions:
            logged = self._logged.setdefault(mission, _Logged(self.world.fold()))
            if now < logged.next:
                continue
            head = self.world.settled(mission)
            if head is None or mission.session.to_head or mission.wire is None:
                continue
            record = head.hub.registry.missions.get(mission.session.id)
            if record is None or record.link is not mission.wire or not record.synced:
                continue
            if not mission.wire.under_way:
                logged.next = now + _PAUSE
                self._compare(_Look(head, record, mission), logged)

    def _demand(self, law: str, shown: object, logged: object, look: _Look) -> None:
        what = look.mission.session.id, shown, logged
        self.world.laws.demand(f"what is shown is what is logged: {law}", shown == logged, what)

    def _compare(self, look: _Look, logged: _Logged) -> None:
        tasks = logged.follow(look.mission)
        session = look.mission.session
        self._demand("open tasks", {*look.mission.calls()}, {*tasks}, look)
        running = {number for number, task in tasks.items() if task.started is not None}
        known = {*session.running} - look.away
        self._demand("the mission's running tasks", known, running - look.away, look)
        if not look.record.lasts:
            self._compare_runs(look, tasks, running)
        self._compare_workers(look, logged)
        ls, top = look.in_ls, look.in_top
        runs_in_ls, runs_in_top = ls.running or 0, top.running or 0
        ends = (ls.done, ls.failed, ls.retried)
        self._demand("ends in ls and top", ends, (top.done, top.failed, top.retried), look)
        self._demand("tasks left in ls and top", runs_in_ls + ls.waiting, top.left, look)
        at_once = runs_in_top + len(look.over - look.away) + look.calls_over
        self._demand("running tasks in ls and top", runs_in_ls + look.stale, at_once, look)
        self._compare_queues(look, ls.label, ls.waiting - look.outside)
        if not look.record.lasts:
            aboard = {task for task, lane in session.aboard.items() if lane}
            at_once = len(running - look.away - aboard) + len(look.calls) + look.calls_over
            self._demand("running tasks", runs_in_ls, at_once, look)
            waiting = len({*tasks} - running - aboard) + len(look.away & running)
            waiting += look.unreported_lanes + look.held_before
            self._demand("waiting tasks", ls.waiting, waiting, look)
            self._compare_ends(look, logged, ls)

    def _compare_runs(self, look: _Look, tasks: dict[int, Task], running: set[int]) -> None:
        members = {number: tasks[number].members for number in running - look.away}
        roots = {(number, names[0]) for number, names in members.items()}
        all_of = {(number, name) for number, names in members.items() for name in names}
        shown = {one for one in look.runs if one[0] not in look.away}
        # Those in lanes are shown if they last, and seats if they were seen.
        known = {one for one in roots if one[0] in look.tasks and one[0] not in look.over}
        self._demand("runs", known & shown, known, look)
        rest = {one for one in shown - all_of if not look.lacks_seats(one[0])}
        self._demand("no other runs", set(), rest, look)

    def _compare_workers(self, look: _Look, logged: _Logged) -> None:
        for number in look.record.on_link.workers:
            worker = look.hub.registry.workers[number]
            line = logged.workers.get(worker.unique_name)
            row = next(one for one in look.ls.workers if one.id == number)
            total = look.hub.scheduler.workers[worker.number].supply.total
            self._demand("workers' resources", row.total, to_data(total), look)
            cores = float(len(row.total["Cores"]))
            facts = None if line is None else (line.host, line.job, line.resources["Cores"])
            self._demand("workers", (row.host, row.job, cores), facts, look)

    def _compare_queues(self, look: _Look, label: str, waiting: int) -> None:
        def added(queues: list[Queue]) -> int:
            return sum(queue.waiting for queue in queues if queue.mission == label)

        self._demand("waiting by queue in ls", added(look.ls.queues), waiting, look)
        self._demand("waiting by queue in top", added(look.top.queues), waiting, look)
        # Those in which something waits.
        running = sum(queue.running for queue in look.top.queues if queue.mission == label)
        calls = sum(queue.running for queue in look.ls.queues if queue.mission == label)
        self._demand("running by queue in ls", calls, look.in_top.running, look)
        self._demand("running by queue in top", True, running <= calls, look)

    def _compare_ends(self, look: _Look, logged: _Logged, ls: Mission) -> None:
        record, totals, before = look.record, logged.totals, logged.before
        now = _Counts(
            record,
            record.connection,
            ls.done,
            ls.failed,
            totals.done,
            totals.failed,
            totals.cancelled,
            look.again,
        )
        # Some outcomes, or reports of lanes, are still to come, which the log has already.
        untold = record.unconfirmed or not look.mission.session.lanes_reported
        logged.before = None if untold else now
        if before is None or before.record is not record or untold:
            return
        done = now.done - before.done - (now.logged_done - before.logged_done)
        failed = now.failed - before.failed - (now.logged_failed - before.logged_failed)
        # Ends in lanes may be lost with a connection, and one between may be to another head.
        lost = now.connection - before.connection > (0 if self.world.has_lanes else 1)
        self._demand("no fewer ends", True, lost or (done >= 0 and failed >= 0), look)
        again = self.world.has_lanes and self.world.twice
        if not again and len(self.world.heads) == 1:
            more = now.cancelled - before.cancelled + now.again - before.again
            self._demand("no more ends", True, done + failed <= more, look)
