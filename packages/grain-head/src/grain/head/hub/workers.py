"""The workers of a hub: joining, absence, return and departure. Plain state, no I/O.

1.  What a worker reports on a connection settles what was sent on *earlier* ones, once: what it
    does not mention has never arrived. Nothing is sent to it before.
2.  A worker whose connection is lost is away: nothing new goes there, nothing of it is started
    elsewhere. After the grace period it is lost, and its runs with it. That is shorter where the
    kernel at the other end has ended the connection: a worker that lives comes again at once. It is
    over as soon as the process, or the job, is known to have ended.
3.  A lost worker that comes back is a new one that has runs already.
4.  A worker that has too many outcomes which their missions do not take gets no runs until half of
    them are confirmed. Its present runs go on.
5.  Messages of a connection that another one has replaced are ignored. It is closed, with the
    reason: a worker that reads that shares its id with another process, and takes another one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.edge.questions import JobEndedAnswer, ProgramsAnswer, pack
from grain.facts.rows import Worker
from grain.head.errors import BadMessage
from grain.head.hub.names import next_ordinal
from grain.head.hub.registry import Questions, Registry
from grain.head.hub.state import MissionRecord, WorkerRecord
from grain.head.messages import Blocked, Printed
from grain.head.validation import resources_of
from grain.worker.messages import (
    ArrivedCount,
    Backlog,
    CoresComputed,
    Drain,
    Draining,
    GangBegun,
    GangNews,
    Inspect,
    Inspected,
    Inventory,
    InventoryEnd,
    InventoryRun,
    Leaving,
    LoopBlocked,
    RegisterWorker,
    RunEnded,
    RunOver,
    SeatOpen,
    TasksPrinted,
    WorkerRegistered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Message, Payload
    from grain.head.hub.functions import FunctionTable
    from grain.head.hub.reports import MissionReports
    from grain.head.hub.state import LeaseRecord, Link
    from grain.head.hub.tasks.runs import Runs
    from grain.head.messages import Ask

ENDED = 30.0
"""Seconds for which a worker is waited for at least whose connection was ended at its side.

If it lives, and something on the way has ended the connection, it notices that when it sends its
next sign of life, and connects again.
"""

SWEPT = 10.0
"""Seconds in which the guards of a worker end what it ran, once its process has ended.

The batch system ends all processes of a job that has ended; only the guards do on this host.
"""

ASK_AFTER = 3.0
"""Seconds for which a worker is away before its batch system is asked whether its job is over."""

ASK_AGAIN = 10.0
"""Seconds until it is asked again, while the worker is away."""

_MOST_WHY = 200  # characters of the reason why a worker drains, for display
_WALLTIME_SLACK = 60.0  # batch systems end a job up to a minute early


class Workers:
    """The workers of a hub.

    Args:
        grace: seconds for which a worker that is away is waited for.
        mission: returns the mission of an id, at a time; made if there is none.

    Attributes:
        links: the workers that are here, by link.
    """

    def __init__(
        self,
        registry: Registry,
        runs: Runs,
        functions: FunctionTable,
        reports: MissionReports,
        *,
        grace: float,
        mission: Callable[[str, float], MissionRecord],
    ) -> None:
        self._registry = registry
        self._scheduler = registry.scheduler
        self._outgoing = registry.outgoing
        self._runs = runs
        self._functions = functions
        self._reports = reports
        self._grace = grace
        self._mission = mission
        self._last_number = 0
        self._questions = Questions()
        self.links: dict[Link, WorkerRecord] = {}

    def on_message(self, link: Link, message: Message, payload: Payload, now: float) -> None:
        """Handle one message from a worker."""
        if isinstance(message, RegisterWorker):
            self._register(link, message, now)
            return
        worker = self.links.get(link)
        # A connection that was replaced may still have messages on their way.
        if worker is None or worker.link != link:
            return
        match message:
            case RunEnded():
                self._runs.on_run_ended(worker, message, payload, now)
            case RunOver():
                self._runs.on_run_over(worker, message, now)
            case SeatOpen() | GangBegun() | ArrivedCount() | CoresComputed():
                self._note(worker, message)
            case Inventory():
                self._on_inventory(worker, message, now)
            case InventoryEnd():
                self._on_inventory_end(worker, now)
            case LoopBlocked() | TasksPrinted():
                self._pass_on(worker, message, now)
            case Inspected():
                link, answer = self._questions.pop(message.question)
                programs = ProgramsAnswer([*message.programs])
                self._outgoing.post(link, answer, pack(programs))
            case Backlog() | Draining():
                self._on_readiness(worker, message, now)
            case Leaving():
                self._remove(worker, None, now, told=message.why)
            case _:
                pass

    def _note(self, worker: WorkerRecord, message: GangNews | ArrivedCount | CoresComputed) -> None:
        """Record what a worker says of itself."""
        if isinstance(message, ArrivedCount):
            worker.arrived = max(worker.arrived, message.count)
        elif isinstance(message, CoresComputed):
            worker.computing = message.cores
        else:
            lease = worker.leases.get(message.attempt)
            if lease is not None and lease.gang is not None:
                self._runs.gangs.on_news(lease, lease.gang, message)

    def _pass_on(
        self, worker: WorkerRecord, message: LoopBlocked | TasksPrinted, now: float
    ) -> None:
        """Pass on output for the user of a mission, if it is here; not too much of it."""
        mission = self._registry.missions.get(message.mission)
        if mission is None or mission.link is None:
            return
        if isinstance(message, LoopBlocked):
            self._outgoing.post(mission.link, Blocked(message.task, worker.name, message.code))
        elif (lost := mission.prints.admit(message, now)) is not None:
            self._outgoing.post(mission.link, Printed(worker.name, message.text, lost))

    def _on_readiness(self, worker: WorkerRecord, message: Backlog | Draining, now: float) -> None:
        """Start nothing on a worker that drains, or while too many outcomes wait there."""
        before = worker.takes_runs
        if isinstance(message, Draining):
            worker.draining = True
            self._scheduler.workers[worker.number].why_draining = message.why[:_MOST_WHY]
            self._reports.on_draining(worker, now)
        else:
            worker.backlog = (message.outcomes, message.size) if message.outcomes else None
        if before and not worker.takes_runs:
            self._scheduler.on_worker_draining(worker.number)
        # A reserved worker stays closed to others until the task has run for which it is.
        elif worker.takes_runs and not before and not worker.reserved:
            self._scheduler.on_worker_back(worker.number)

    def inspect(self, link: Link, lease: LeaseRecord, ask: Ask) -> None:
        """Ask a worker for the programs of a run, and pass its answer on to who asked for it."""
        question = Inspect(self._questions.add(link, ask), lease.attempt)
        self._outgoing.post(lease.worker.link, question)

    # ---- joining

    def _register(self, link: Link, message: RegisterWorker, now: float) -> None:
        if link in self.links:
            return
        worker = self._registry.workers.get(message.worker)
        last = self._registry.left.get(message.worker, 0) if worker is None else worker.connection
        if message.connection <= last:
            # It comes late: a newer connection has replaced this one. Or its sender is not the
            # process that has registered before.
            self._outgoing.replace(link, "worker")
            return
        if worker is None:
            worker = self._new(message, now)
        elif worker.link is not None:
            self.links.pop(worker.link, None)
            self._outgoing.replace(worker.link, "worker")
        self._scheduler.on_worker_draining(worker.number)  # until it has reported
        for lease in worker.leases.values():
            if lease.begun:
                lease.index = 0  # for certain: what the worker counts from now on are later leases
        self.links[link] = worker
        worker.link = link
        worker.connection = message.connection
        worker.session += 1
        worker.sent = worker.arrived = 0
        worker.backlog = None
        worker.computing = None
        worker.serving = False
        worker.draining = worker.draining or message.draining
        worker.functions = set(message.functions)
        worker.deadline = worker.away_since = worker.heard = math.inf
        worker.over, worker.by_batch = "", False

    def _new(self, message: RegisterWorker, now: float) -> WorkerRecord:
        total, shared = self._scheduler.cluster.split(resources_of(message.total))
        self._last_number += 1
        worker = WorkerRecord(message.worker, self._last_number)
        worker.name = message.name
        worker.ordinal = next_ordinal(message.name, self._registry.workers.values())
        worker.host = message.host
        worker.versions = message.versions
        worker.job = message.job
        worker.cluster = message.cluster
        worker.system, worker.listed = message.system, message.listed
        if shared is not None:
            self._reports.on_trouble(
                f"the worker {worker.unique_name}",
                f"worker {worker.unique_name} offers {shared.ask()}, which the scheduler has for "
                "the whole cluster, so that of the worker is not used: state it either in "
                "[head.res] or in [worker.res] of grain.toml",
            )
        self._registry.workers[worker.id] = self._registry.numbered[worker.number] = worker
        self._registry.left.pop(worker.id, None)
        self._scheduler.on_worker_joined(
            worker.number,
            worker.name,
            total,
            now,
            worker.versions.interpreter,
            worker.cluster,
            worker.job,
        )
        return worker

    def _on_inventory(self, worker: WorkerRecord, message: Inventory, now: float) -> None:
        if worker.serving:
            return  # it comes twice
        # All of them before the first one changes the table: a message that makes no sense is
        # refused as a whole.
        for held in message.runs:
            self._runs.check_reported(held)
        for held in message.runs:
            lease = worker.leases.get(held.attempt)
            if lease is None:
                self._adopt(worker, held, message, now)
            elif lease.session < worker.session:
                self._runs.confirm(worker, held, now)

    def _adopt(
        self, worker: WorkerRecord, held: InventoryRun, message: Inventory, now: float
    ) -> None:
        """Take a run into the table that another head has begun.

        A worker that has been there meanwhile may have got, with that run, what a lease of here
        has, which it has not: that lease is lost, as what is not reported will be in the end.

        Raises:
            BadMessage: the worker has not free what the run uses there.
        """
        mission = self._mission(held.mission, now)
        try:
            self._runs.adopt(worker, held, mission, now)
        except BadMessage:
            for one in message.runs:
                lease = worker.leases.get(one.attempt)
                if lease is not None and lease.session < worker.session:
                    self._runs.confirm(worker, one, now)
            for lease in list(worker.leases.values()):
                if lease.session < worker.session:
                    self._runs.on_run_lost(lease, None, now)
            self._runs.adopt(worker, held, mission, now)

    def _on_inventory_end(self, worker: WorkerRecord, now: float) -> None:
        """Let a worker serve that has reported all it has."""
        if worker.serving:
            return  # it comes twice: what was leased since is on its way
        worker.serving = True
        # They never arrived (rule 1): no run began, and so none is a crash.
        for lease in list(worker.leases.values()):
            if lease.session < worker.session:
                self._runs.on_run_lost(lease, None, now)
        if worker.takes_runs and not worker.reserved:
            self._scheduler.on_worker_back(worker.number)
        self._outgoing.post(
            worker.link, WorkerRegistered(self._registry.epoch, self._registry.versions)
        )
        if worker.told_to_drain is not None:
            self._outgoing.post(worker.link, Drain(worker.told_to_drain))
        self._functions.on_changed()
        self._reports.on_worker(worker)
        self._runs.gangs.on_worker_over(worker.id, now)

    # ---- leaving

    def on_link_lost(self, link: Link, now: float, *, ended: bool = False) -> None:
        """Wait for the worker whose connection is lost; nothing new goes there.

        Args:
            ended: the kernel at the other end has closed it.
        """
        worker = self.links.pop(link, None)
        if worker is not None and worker.link == link:
            # Its runs go on, and none begins elsewhere before the grace period is over.
            worker.link = None
            worker.serving = False
            worker.computing = None
            worker.away_since = now
            worker.deadline = now + self._grace
            if ended:
                worker.deadline = min(worker.deadline, now + max(ENDED, self._grace / 2))
            # Its job had ended before, and only the open connection kept it (`on_job_ended`).
            if worker.over:
                worker.deadline = now
            self._scheduler.on_worker_draining(worker.number)

    def _remove(
        self,
        worker: WorkerRecord,
        how: str | None,
        now: float,
        why: str = "",
        over: float | None = None,
        told: str = "",
        *,
        known: bool = False,
    ) -> None:
        """Remove a worker and its runs.

        Args:
            how: what it died of, if a run may have been the reason.
            why: why it has left, for display; empty if it was to leave.
            over, known: as of `grain.head.hub.tasks.runs.Runs.on_run_lost`.
            told: why it was to leave, for display.
        """
        silent = now - worker.heard if why else None
        # Before the ends of its runs: `WorkerEnded` promises missions that order.
        self._reports.on_worker_left(worker, why, silent, told)
        if why:
            runs = sum(
                lease.current and lease.task is not None and not lease.idle_lane
                for lease in worker.leases.values()
            )
            lost = Worker(
                name=worker.unique_name,
                host=worker.host,
                state="lost",
                heard=self._registry.wall_time(worker.heard),
                at=self._registry.wall_time(now),
                lost_runs=runs,
            )
            self._registry.lost_workers.append(lost)
        for lease in list(worker.leases.values()):
            self._runs.on_run_lost(lease, how, now, over, known=known)
        self._scheduler.on_worker_left(worker.number)
        if self._scheduler.cluster.kinds:
            self._reports.on_trouble(f"the worker {worker.unique_name}", "")
        self._registry.remove_worker(worker)
        if worker.link is not None:
            self.links.pop(worker.link, None)
        self._runs.gangs.on_worker_over(worker.id, now)

    def on_tick(self, now: float) -> None:
        """Remove the workers whose grace period is over."""
        for worker in [w for w in self._registry.workers.values() if w.deadline <= now]:
            why = "its connection was lost, and it did not come back"
            self._lose(worker, worker.over or why, now)

    def on_ended(self, id: str, now: float) -> None:  # noqa: A002 - its name
        """Give up a worker that is away, as its process has ended, when its guards have swept."""
        worker = self._registry.workers.get(id)
        if worker is not None and worker.link is None:
            worker.over, worker.by_batch = "its process has ended", False
            worker.deadline = min(worker.deadline, now + SWEPT)

    def on_job_ended(self, name: str, why: str, now: float) -> JobEndedAnswer:
        """Give up a worker whose job has ended, now or when its connection is lost.

        Nothing is done if several have that name.

        Args:
            name: the worker's.
            why: how the job has ended, in the words of its batch system; or empty.
            now: the time.
        """
        named = [one for one in self._registry.workers.values() if one.name == name]
        if len(named) != 1:
            return JobEndedAnswer(0)
        self._end_job(named[0], why, now)
        return JobEndedAnswer(1)

    def in_doubt(self, now: float) -> list[WorkerRecord]:
        """Return the workers that are away, and whose batch systems are to be asked for their jobs.

        Those that do not come back may say nothing of it: a limit on memory ends them at once.
        """
        due = [
            one
            for one in self._registry.workers.values()
            if one.link is None
            and one.listed
            and now >= max(one.away_since + ASK_AFTER, one.asked + ASK_AGAIN)
        ]
        for one in due:
            one.asked = now
        return due

    def on_job_over(self, id: str, why: str, now: float) -> None:  # noqa: A002 - its name
        """Give up a worker that is away still, as its batch system says that its job has ended."""
        worker = self._registry.workers.get(id)
        if worker is not None and worker.link is None:
            self._end_job(worker, why, now, known=True)

    def _end_job(self, worker: WorkerRecord, why: str, now: float, *, known: bool = False) -> None:
        worker.over, worker.by_batch = "its job has ended" + f": {why}" * bool(why), bool(why)
        if worker.link is None:
            self._lose(worker, worker.over, now, known=known)

    def _lose(self, worker: WorkerRecord, why: str, now: float, *, known: bool = False) -> None:
        """Remove a worker that is away, and does not come back."""
        # One that drained, or whose walltime was nearly over when it went, was ended by its
        # batch system most likely, and not by a run.
        scheduled = self._scheduler.workers[worker.number]
        left = scheduled.end - worker.away_since
        ended = worker.draining or left < _WALLTIME_SLACK
        # Of a short life so much is more than the impatience of a batch system.
        over = worker.away_since if left < min(_WALLTIME_SLACK, scheduled.life / 10) else None
        how = None if ended else "its worker was lost" + f" ({why})" * known
        self._remove(worker, how, now, why, over, known=known)

    def postpone(self, seconds: float) -> None:
        """Move all deadlines: this process was stopped for so long, and no peer could reach it."""
        for worker in self._registry.workers.values():
            worker.deadline += seconds

    def drain(self, worker: WorkerRecord, *, at_once: bool) -> None:
        """Ask a worker to leave; an absent worker gets the message when it is back."""
        worker.told_to_drain = at_once or worker.told_to_drain is True
        self._outgoing.post(worker.link, Drain(at_once))
