"""The hub: one scheduler for many missions and workers. Plain state, no I/O, no clock."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from grain.edge.questions import (
    CallAnswer,
    FoundAnswer,
    LoadAnswer,
    NeedRow,
    ProgramsAnswer,
    TaskCounts,
    WhyAnswer,
    pack,
)
from grain.edge.version import Versions
from grain.eventlog.soft_stops import soft_stop_text
from grain.head.hub.answers.demand import demand
from grain.head.hub.answers.overview import Overview, measured
from grain.head.hub.answers.snapshot import (
    draining_worker,
    find_mission,
    find_task,
    known_run,
    named_mission,
    snapshot,
)
from grain.head.hub.functions import FunctionTable
from grain.head.hub.missions import Missions
from grain.head.hub.names import find_peer, labels, numbered
from grain.head.hub.registry import Registry
from grain.head.hub.reports import MissionReports
from grain.head.hub.state import ITS_MISSION, ITS_SEATS, TaskState
from grain.head.hub.tasks.gangs import Gangs
from grain.head.hub.tasks.lanes import LaneTable
from grain.head.hub.tasks.outcomes import Outcomes
from grain.head.hub.tasks.quarantine import Quarantine
from grain.head.hub.tasks.runs import Runs
from grain.head.hub.tasks.waiting import Waiting
from grain.head.hub.workers import Workers
from grain.head.messages import MISSION, Answer, Ask, Started
from grain.head.scheduler.explain import Explanation, disagreements, explain, named
from grain.head.scheduler.guard.starvation_guard import StarvationGuard
from grain.head.scheduler.scheduler import Scheduler
from grain.head.validation import check_message
from grain.resource import Cores
from grain.resource.figures import counted, size_text
from grain.worker.messages import Disconnect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.edge.messages import Message, Payload
    from grain.edge.questions import StateAnswer
    from grain.facts.rows import Worker
    from grain.head.hub.state import Link, MissionRecord, TaskRecord, WorkerRecord
    from grain.head.scheduler.cluster import ClusterPool
    from grain.head.scheduler.state import TaskQueue

GRACE = 60.0
"""Seconds for which workers and missions that are away are waited for."""

MAX_SILENCE = 12 * 3600.0
"""Seconds for which a mission is waited for that is there, and whose event loop does not run."""

_STOPPED = 30.0  # a longer gap between two looks at the clock means that the process was stopped
_AT_ONCE = 65536  # tasks in one `Started`; at nine bytes each they fit a message
_WORDS = 200  # characters of what a batch system says of a job
_PULSE = 10.0  # seconds of such a gap that count, as in them it may have run


def epoch_at(nanoseconds: int, chance: int) -> int:
    """Return the epoch of a head that starts.

    It is made of both, as neither is enough: the clocks of two hosts may show the same millisecond
    when a head starts there, or go back between one head and the next.

    Args:
        nanoseconds: since Unix' epoch, by the clock of the head's host.
        chance: 20 random bits.
    """
    return nanoseconds // 1_000_000 << 20 | chance


class Parts(NamedTuple):
    """The classes that a hub is made of; the simulation puts faulty ones into their places."""

    waiting: type[Waiting] = Waiting
    outcomes: type[Outcomes] = Outcomes
    runs: type[Runs] = Runs
    functions: type[FunctionTable] = FunctionTable
    missions: type[Missions] = Missions
    workers: type[Workers] = Workers
    quarantine: type[Quarantine] = Quarantine
    gangs: type[Gangs] = Gangs
    lanes: type[LaneTable] = LaneTable
    guard: type[StarvationGuard] = StarvationGuard
    overview: type[Overview] = Overview


class Hub:
    """A scheduler for many missions and workers.

    Args:
        epoch: this head's number; no other head of these missions and workers has it.
        now: the time, in seconds of any clock that does not go back.
        grace: seconds for which workers and missions that are away are waited for.
        wall: the time now as seconds since Unix' epoch, only for display.
        max_overtakes, cluster: see `Scheduler`.

    Attributes:
        registry: the missions and workers with their tasks and leases.
        overview: answers what ``grain top`` asks.
    """

    def __init__(
        self,
        epoch: int,
        now: float,
        *,
        grace: float = GRACE,
        wall: float = 0.0,
        max_overtakes: int | None = None,
        cluster: ClusterPool | None = None,
        parts: Parts = Parts(),  # noqa: B008 - it cannot change
        versions: Versions = Versions(),  # noqa: B008 - as above
    ) -> None:
        self.scheduler = Scheduler(max_overtakes=max_overtakes, guard=parts.guard, cluster=cluster)
        self.registry = registry = Registry(epoch, wall - now, versions, self.scheduler)
        functions = parts.functions(registry)
        self._outgoing = registry.outgoing
        self._reports = reports = MissionReports(registry)
        self.quarantine = parts.quarantine(registry)
        self.waiting = parts.waiting(registry, self.quarantine, reports)
        self.outcomes = parts.outcomes(registry, self.waiting)
        self.gangs = parts.gangs(registry, self.waiting, self.outcomes, reports)
        self.lanes = parts.lanes(registry, self.waiting, self.outcomes, self.quarantine)
        self.runs = parts.runs(
            registry,
            self.waiting,
            self.outcomes,
            self.gangs,
            self.lanes,
            functions,
            reports,
        )
        self.missions = parts.missions(
            registry,
            self.waiting,
            self.outcomes,
            self.gangs,
            self.lanes,
            functions,
            reports,
            grace=grace,
            now=now,
        )
        self.workers = parts.workers(
            registry,
            self.runs,
            functions,
            reports,
            grace=grace,
            mission=self.missions.get,
        )
        self.overview = parts.overview(registry, self.waiting, self.counts)
        self._looked = now

    # ---- events

    def on_message(self, link: Link, message: Message, payload: Payload, now: float) -> None:
        """Handle one message from a peer; `dispatch` after all messages that arrived together.

        Raises:
            BadMessage: it makes no sense: `disconnect` the peer. The records are consistent.
        """
        self._look(now)
        check_message(message)
        if isinstance(message, Ask):
            if message.scales:
                self._reports.on_scaling(now)
            self._answer(link, message, now)
        elif isinstance(message, MISSION) and link not in self.workers.links:
            self.missions.on_message(link, message, payload, now)
        else:
            self.workers.on_message(link, message, payload, now)

    def on_link_lost(
        self, link: Link, now: float, silent: float = 0.0, *, ended: bool = False
    ) -> None:
        """Detach the peer whose connection is lost or was closed.

        Args:
            silent: for how many seconds nothing has come from the peer, for messages.
            ended: as in `ChannelBroken`: it was not lost for silence.
        """
        self._look(now)
        worker = self.workers.links.get(link)
        if worker is not None:
            worker.heard = now - silent
        self._outgoing.drop(link)
        self.missions.on_link_lost(link, now)
        self.workers.on_link_lost(link, now, ended=ended)

    def disconnect(self, link: Link, why: str, now: float, *, refused: bool = False) -> None:
        """Detach a peer as if its connection were lost, and inform it; then close that.

        Args:
            why: a sentence for display.
            refused: it makes no sense that it comes again with the same.
        """
        self.on_link_lost(link, now)
        self._outgoing.post(link, Disconnect(why, "refused" if refused else "failed"))

    def on_mission_ended(self, mission: str, now: float) -> None:
        """End a mission whose process is known to have ended: it cannot come back."""
        self._look(now)
        self.missions.on_ended(mission, now)

    def on_worker_ended(self, worker: str, now: float) -> None:
        """Give up a worker whose process is known to have ended: it cannot come back."""
        self._look(now)
        self.workers.on_ended(worker, now)

    def workers_in_doubt(self, now: float) -> list[WorkerRecord]:
        """Return the workers for whose jobs their batch systems are to be asked, each now and then.

        `on_job_over` takes the answers.
        """
        self._look(now)
        return self.workers.in_doubt(now)

    def on_job_over(self, worker: str, why: str, now: float) -> None:
        """Give up a worker that is away, as its batch job is over.

        Args:
            why: how it has ended, in the words of its batch system; or empty.
        """
        self._look(now)
        self.workers.on_job_over(worker, why[:_WORDS], now)

    def on_trouble(self, what: str, why: str) -> None:
        """Report to missions what keeps this head from working as it should.

        Args:
            what: where, as a directory.
            why: the end of a sentence; empty if it is over.
        """
        self._reports.on_trouble(what, why)

    def on_tick(self, now: float) -> None:
        """Remove the peers whose grace period is over."""
        self._look(now)
        self.missions.on_tick(now)
        self.workers.on_tick(now)
        self._reports.on_tick(now)

    def _look(self, now: float) -> None:
        """Notice that this process was stopped: no peer could reach it meanwhile."""
        gap = now - self._looked
        if gap > _STOPPED:
            self.missions.postpone(self._looked, gap - _PULSE)
            self.workers.postpone(gap - _PULSE)
        self._looked = now

    def dispatch(self, now: float) -> None:
        """Start what can start."""
        # Before anything starts: of a mission that is paused now nothing more may.
        self.outcomes.settle_backlogs(now)
        # Suspects first: what starts beside them would keep their workers from being empty.
        alone = self.quarantine.ready(now)
        leases = [self.runs.start_alone(task, emptied, now) for task, emptied in alone]
        # Then the queues; then lanes that are lent, which may have only what no task wants.
        starts = self.scheduler.dispatch(now) + self.lanes.start_asked(now)
        if self.scheduler.places.news:
            self._reports.on_set_aside()
        leases += [self.runs.start(start, now) for start in starts]
        started: dict[tuple[Link | None, str, int], list[int]] = {}
        taken = self.scheduler.taken
        for lease in leases:
            task = lease.task
            assert task is not None
            by = self.runs.alternative(lease) if taken else 0
            key = (task.mission.link, lease.worker.id, by)
            numbers = started.get(key)
            if numbers is None:
                started[key] = [task.number]
                self._reports.on_run(task.mission, lease.worker)
            else:
                numbers.append(task.number)
        for (link, name, alternative), numbers in started.items():
            for at in range(0, len(numbers), _AT_ONCE):
                some = tuple(numbers[at : at + _AT_ONCE])
                self._outgoing.post(link, Started(name, some, alternative))
        for lease in leases:
            self._reports.on_gang(lease)
        self.lanes.recall(now)

    def take(self) -> dict[Link, list[tuple[Message, Payload]]]:
        """Return the messages to be sent, by link, and to be sent in this order.

        Those to missions come first, those to workers after them: a mission is informed of the
        worker of its task before the worker gets the lease. If this head is killed in between, its
        successor waits for that worker's report; the other way round it would start the task again.
        """
        mail = self._outgoing.take()
        if len(mail) > 1:
            missions = self.missions.links
            mail = {
                link: mail[link] for link in sorted(mail, key=lambda link: link not in missions)
            }
        return mail

    # ---- questions

    @property
    def idle(self) -> bool:
        """True if no mission is here or waited for."""
        return not self.registry.missions

    def snapshot(self, now: float) -> StateAnswer:
        """Return the state of everything."""
        return snapshot(self.registry, self.waiting, self.counts(), now)

    def counts(self) -> TaskCounts:
        """Return how many tasks are in each state, as people see it."""
        return TaskCounts(
            waiting=self.scheduler.waiting
            + self.waiting.calls().total()
            + sum(len(mission.parked) for mission in self.registry.missions.values()),
            awaiting_report=sum(map(len, self.waiting.awaiting_report.values())),
            running=self.scheduler.running - self.gangs.seats - self.lanes.idle,
            done=self.outcomes.done,
            failed=self.outcomes.failed,
            retried=self.outcomes.retried,
            suspect=len(self.quarantine.waiting),
        )

    def why(self, mission: str, task: int, now: float) -> Explanation:
        """Explain why a task waits or runs.

        Args:
            mission: its mission, as `grain.head.hub.names.find_peer` takes it.
        """
        owner = find_peer(self.registry.missions.values(), mission, "mission")
        if isinstance(owner, str):
            ended = self._ended(mission)
            if ended is not None:
                return self._explain_absence(ended, task, now)
            return Explanation(task, "unknown", (owner,))
        record = find_task(owner, task)
        if record is None:
            return self._explain_absence(owner, task, now)
        return self._explain(record, now)

    def answer_why(self, mission: str, task: int, now: float) -> WhyAnswer:
        """Explain as `why` does, and state what is known of the task beside that."""
        why = self.why(mission, task, now)
        owner = self._meant(mission)
        answer = WhyAnswer(why.task, why.state, list(why.reasons))
        if owner is None:
            return answer
        answer = replace(answer, mission_id=owner.id)
        run = known_run(self.registry, self.lanes, owner, task, now)
        if run is None:
            return answer
        answer = replace(answer, function=run.function)
        if run.started is None:
            return answer
        ended = None if run.state == "running" else run.state
        return replace(
            answer,
            worker=run.worker,
            host=run.host or None,
            began=run.started,
            seconds=run.seconds,
            ended=ended,
            why=None if ended is None else run.why,
        )

    def _meant(self, word: str) -> MissionRecord | None:
        """Return the mission of a word, also if it has left."""
        return find_mission(self.registry, word) or self._ended(word)

    def _ended(self, word: str) -> MissionRecord | None:
        """Return the last mission of a name or an id that has left."""
        for ended in reversed(self.registry.ended_missions):
            if word and word in (ended.record.name, ended.record.id, numbered(ended.record)):
                return ended.record
        return None

    def _explain_absence(self, owner: MissionRecord, task: int, now: float) -> Explanation:
        if self.lanes.run_of(owner, task) is not None:
            return Explanation(task, "running", ())
        run = known_run(self.registry, self.lanes, owner, task, now)
        if run is not None and run.state not in {"waiting", "running"}:
            return Explanation(task, "ended", self._of_ended(owner, task))
        held = owner.held_with(task)
        if held is not None:
            why = "it is brief, so its mission holds it: it goes with others like it"
            queue = owner.on_link.requests.get(held.request)
            lane = None if queue is None else self.scheduler.current(queue).head()
            # It waits for what the next lane for it waits for.
            more = () if lane is None else explain(self.scheduler, lane.id, now).reasons
            return Explanation(task, "waiting", (why, *more))
        if owner.link is not None and task > max(owner.on_link.last_submitted, owner.last_task):
            return Explanation(task, "unknown", ("it has not been submitted yet",))
        why = "it has ended or was cancelled; only the last tasks are remembered here"
        return Explanation(task, "unknown", (why,))

    def _of_ended(self, owner: MissionRecord, number: int) -> tuple[str, ...]:
        """Return what is known of the groups of a task that ended not long ago."""
        for one in reversed(self.registry.ended_tasks):
            task = one[0]
            if task.mission is owner and task.number == number and task.queue is not None:
                return tuple(disagreements(self.scheduler, task.queue))
        return ()

    def _explain(self, task: TaskRecord, now: float) -> Explanation:
        lease = task.lease
        if task.state is TaskState.RESOLVED:
            why = "its outcome is on its way to the mission"
            return Explanation(task.number, "ended", (why,))
        if task.awaits == ITS_MISSION:
            mission = task.mission
            why = (
                f"its mission has not taken {mission.unconfirmed} outcomes of "
                f"{size_text(mission.unconfirmed_bytes)}; more "
                "of it starts when it has taken half of them: is its event loop blocked, or its "
                "process stopped?"
            )
            return Explanation(task.number, "waiting", (why,))
        if task.awaits == ITS_SEATS:
            why = "it ran on several workers, of which some have yet to find this scheduler"
            return Explanation(task.number, "waiting", (why,))
        if task.state is TaskState.AWAITING_REPORT:
            why = f"it ran on worker {task.awaits}, which has yet to find this scheduler"
            return Explanation(task.number, "waiting", (why,))
        if task.state is TaskState.SUSPECT:
            several = task.queue is not None and task.queue.gangs
            own = "workers" if several else "a worker"
            why = f"it crashed before, and waits for {own} of its own"
            return Explanation(task.number, "waiting", (why, *_crashes(task)))
        if lease is not None and self.gangs.is_stand_in(lease) and lease.gang is not None:
            others = [seat.worker.name for _, seat in sorted(lease.gang.seats.items())]
            why = f"its last run has ended, but for what {named(others)} may still have of it"
            return Explanation(task.number, "waiting", (why, *_crashes(task)))
        scheduler_id = task.scheduler_id if lease is None else lease.scheduler_id
        explanation = explain(self.scheduler, -1 if scheduler_id is None else scheduler_id, now)
        reasons = [*explanation.reasons, *_crashes(task), *_soft_stops(task)]
        if explanation.state == "running" and lease is not None and lease.gang is not None:
            others = [seat.worker.name for _, seat in sorted(lease.gang.seats.items())]
            reasons.append(f"it also has {named(others)}")
        if explanation.state == "waiting":
            if task.queue is not None and task.queue.closed:
                reasons += self._users(task.queue)
            reasons += _backlogs(self.registry.workers.values())
        return Explanation(task.number, explanation.state, tuple(reasons))

    def _users(self, queue: TaskQueue) -> list[str]:
        """Return a sentence for each kind of the whole cluster that a queue asks for: its users."""
        own = labels(self.registry.missions.values())
        asked = {kind for by in queue.alternatives if by.shared for kind in by.shared.parts()}
        sentences = []
        for kind in sorted(asked):
            users: Counter[str] = Counter()
            for task, held in self.scheduler.cluster.held.items():
                if kind in held.parts():
                    share = self.scheduler.tasks[task].queue.share
                    users[own.get(share, "a mission that has left")] += 1
            named = ", ".join(f"{mission} ({counted(n, 'task')})" for mission, n in users.items())
            if named:
                sentences.append(f"{kind}: in use by {named}")
        return sentences

    def drain(self, pattern: str = "*", *, at_once: bool = False) -> list[Worker]:
        """Ask workers to leave, absent ones when they are back.

        Args:
            pattern: of their names or labels, as a shell would match it; or an id.
            at_once: have them hand their runs back instead of waiting for the ends of these.
        """
        workers = [one for one in self.registry.workers.values() if _goes_by(one, pattern)]
        own = labels(self.registry.workers.values())
        before = [draining_worker(self.registry, worker, own[worker.number]) for worker in workers]
        for worker in workers:
            self.workers.drain(worker, at_once=at_once)
        return before

    def find(self, mission: str) -> FoundAnswer:
        """Return the mission that a word means."""
        peer = find_peer(self.registry.missions.values(), mission, "mission")
        if isinstance(peer, str):
            return FoundAnswer(None, peer)
        return FoundAnswer(named_mission(self.registry, self.waiting, peer))

    def cancel(self, mission: str, task: int, by: str) -> FoundAnswer:
        """End a mission, or one task of it, for a user outside of it.

        Args:
            mission: which, as `grain.head.hub.names.find_peer` takes it.
            task: the number of the task; 0 for the whole mission.
            by: the user who wants that, as text.

        Returns:
            The mission as it was before.
        """
        owner = find_peer(self.registry.missions.values(), mission, "mission")
        if isinstance(owner, str):
            return FoundAnswer(None, owner)
        found = named_mission(self.registry, self.waiting, owner)
        if not task:
            self.missions.cancel(owner, by)
            return FoundAnswer(found)
        if self.lanes.run_of(owner, task) is not None:
            self.missions.cancel_call(owner, task, by)
            return FoundAnswer(found, state="running")
        record = find_task(owner, task)
        if record is None and owner.held_with(task) is not None:
            self.missions.cancel_call(owner, task, by)
            return FoundAnswer(found, state="waiting")
        if record is None or record.state is TaskState.RESOLVED:
            away = "" if owner.link is not None else ", or waits while its mission is away"
            why = f"task {task} of {found.label} has ended, or was never submitted{away}"
            return FoundAnswer(None, why)
        state = "waiting" if record.lease is None else "running"
        self.missions.cancel_task(record, by)
        return FoundAnswer(found, state=state)

    def _answer(self, link: Link, ask: Ask, now: float) -> None:
        if ask.about == "overview":
            self._outgoing.post(link, Answer(ask.about, ask.number), self.overview.packed(now))
            return
        answer: Any = self._view(ask, now)
        if answer is not None:
            pass
        elif ask.about == "arguments":
            owner = find_mission(self.registry, ask.mission)
            if owner is not None and owner.link is not None:
                self.missions.describe(link, owner, ask)
                return
            answer = CallAnswer("")
        elif ask.about == "programs":
            owner = find_mission(self.registry, ask.mission)
            lease = None
            if owner is not None:
                record = find_task(owner, ask.task)
                lease = self.lanes.run_of(owner, ask.task) if record is None else record.lease
            if lease is not None and lease.worker.link is not None:
                self.workers.inspect(link, lease, ask)
                return
            answer = ProgramsAnswer([])
        elif ask.about == "drain":
            answer = self.drain(ask.pattern, at_once=ask.at_once)
        elif ask.about == "ended":
            answer = self.workers.on_job_ended(ask.pattern, ask.why[:_WORDS], now)
        elif ask.about == "find":
            answer = self.find(ask.mission)
        elif ask.about == "cancel":
            answer = self.cancel(ask.mission, ask.task, ask.by)
        else:
            own = self.missions.links.get(link)
            mission = ask.mission or (own.id if own is not None else "")
            answer = self.answer_why(mission, ask.task, now)
        self._outgoing.post(link, Answer(ask.about, ask.number), pack(answer))

    def needs(self, forget: str = "") -> list[NeedRow]:
        """Return the groups that learn how much memory to ask for, by name.

        Args:
            forget: a pattern of names, as for files: those are forgotten, and returned as they
                were; "" for none.
        """
        stated = self.scheduler.learning()
        needs = self.scheduler.needs
        names = [name for name in sorted(needs.groups) if not forget or fnmatchcase(name, forget)]
        rows = [needs.row(name, stated.get(name)) for name in names]
        if forget:
            self.scheduler.forget_needs(names)
        return rows

    def load(self) -> LoadAnswer:
        """Return how many cores tasks were given, how many there are, and how many compute.

        Workers that have just begun are left out of the last one.
        """
        given, cores = self.scheduler.cores()
        computing = unknown = 0.0
        for worker in self.registry.numbered.values():
            scheduled = self.scheduler.workers[worker.number]
            if not scheduled.tasks:
                continue
            if worker.computing is not None:
                computing += worker.computing
            else:
                unknown += scheduled.supply.given(Cores)[0]
        return LoadAnswer(given, cores, measured(computing, unknown, given))

    def _view(self, ask: Ask, now: float) -> Any:
        """Return how things stand, if that is the question; else None."""
        match ask.about:
            case "state":
                return self.snapshot(now)
            case "runs":
                return self.overview.runs(ask.pattern, now)
            case "demand":
                return demand(self.registry, self.waiting, now)
            case "load":
                return self.load()
            case "needs":
                return self.needs(ask.pattern)
        return None


def _goes_by(worker: WorkerRecord, pattern: str) -> bool:
    names = (worker.name, numbered(worker))
    return worker.id == pattern or any(fnmatchcase(name, pattern) for name in names)


def _backlogs(workers: Iterable[WorkerRecord]) -> list[str]:
    """Return why workers that are here take no runs, where missions are the reason."""
    return [
        f"{worker.name} takes tasks again when missions have taken half of its "
        f"{worker.backlog[0]} outcomes of {size_text(worker.backlog[1])}"
        for worker in workers
        if worker.backlog is not None
    ]


def _crashes(task: TaskRecord) -> list[str]:
    texts = []
    for crash in task.crashes:
        if crash.outlived is not None:
            texts.append(f"ran {crash.outlived.ran:.0f} s on {crash.worker}, then {crash.how}")
        elif crash.absent:
            texts.append(f"did not begin: {crash.how}")
        else:
            texts.append(f"crashed on {crash.worker}: {crash.how}")
    return texts


def _soft_stops(task: TaskRecord) -> list[str]:
    """Return a sentence on the last attempt, if a program of it has stopped softly."""
    past = task.course.past
    if past is None or not past.stopped_softly:
        return []
    return [f"attempt {past.count} is over: {soft_stop_text(past.count)}"]
