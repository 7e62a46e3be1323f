"""The answer to ``Ask("overview")``: what ``grain top`` shows, as often as a user looks.

A look must not cost the scheduler more than a millisecond, with 1,000 workers and a million tasks,
and however many users look at once. So

1.  an answer is encoded once, and all askers within `FRESH` seconds get the same bytes;
2.  each answer looks at `_LOOKS` workers in turn, and has the others as they were when it was their
    turn; each row says when that was;
3.  nothing goes through the tasks: waiting tasks are counted by queue, the tasks of a mission by
    its table, and a few running ones are named with their worker;
4.  lists have an end, and beside it the number of what is left out. A reason that takes a look at
    every worker is not in here: ``Ask("why")`` has it.
"""

from __future__ import annotations

import math
from collections import Counter
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import astuple, replace

from grain.edge.questions import MissionOutlook, OverviewAnswer, RunsAnswer, pack
from grain.facts.rows import Lack, Mission, Queue, Run, Worker
from grain.head.hub.answers.snapshot import (
    cluster_state,
    ended_run,
    idle_lanes,
    tasks_left,
    used_parts,
    worker_state,
)
from grain.head.hub.names import labels, peer_label
from grain.head.hub.state import CallInLane
from grain.head.scheduler.explain import full_text, reserved_text, too_few_text
from grain.resource import Cores, to_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from grain.edge.questions import TaskCounts
    from grain.head.hub.registry import Registry
    from grain.head.hub.state import (
        FailedTask,
        LeaseRecord,
        MissionRecord,
        TaskRecord,
        WorkerRecord,
    )
    from grain.head.hub.tasks.waiting import Waiting
    from grain.head.messages import Outlook
    from grain.head.scheduler.state import TaskQueue

FRESH = 0.5
"""Seconds for which an answer is given again."""

OLD = 600.0
"""Seconds for which the failures of a mission are shown that has left."""

_LOOKS = 32  # workers that one answer looks at
_NAMES = 40  # workers whose names are counted in the time of one look
_RUNS = 256  # runs in an answer; at least one of each worker
_RUNS_OF_ONE = 256  # runs in the answer about one worker
_STALE = 64  # leases that are passed over, as they are stale
_QUEUES = 1000  # queues that one answer looks at
_WAITING = 50  # queues in an answer
_EXPLAINED = 3  # of these, the longest, for which a few workers show what is used up
_FULL = 3
_CANCELLED = 64  # cancelled tasks that are passed over in search of the oldest of a queue
_MISSIONS = 100  # missions in an answer
_FUNCTIONS = 200  # functions in an answer; at least one of each mission

_NO_CORES = (0.0, 0.0, 0.0, 0.0)
_UNKNOWN = 0.05  # the share of the given cores whose use may be unknown

_name = attrgetter("name")
_encode = msgspec.msgpack.Encoder(enc_hook=repr).encode


class _Row:
    """A worker as it was at its last turn.

    Attributes:
        total: its resources as plain data, which stay the same.
        encoded: what an answer has of it.
        state: as `worker_state` names it; empty before the first turn.
        cores: counts of its cores: given to tasks; all; in use; given, but with unknown use.
    """

    __slots__ = ("cores", "encoded", "state", "total")

    def __init__(self, total: dict[str, Any]) -> None:
        self.total = total
        self.encoded = msgspec.Raw()
        self.state = ""
        self.cores = _NO_CORES


class Overview:
    """The last answer, and the rows that the next one is made of.

    Args:
        registry: that of the hub.
        waiting: likewise.
        counts: returns how many tasks are in each state.
    """

    def __init__(
        self, registry: Registry, waiting: Waiting, counts: Callable[[], TaskCounts]
    ) -> None:
        self._registry = registry
        self._waiting = waiting
        self._scheduler = registry.scheduler
        self._counts = counts
        # By the number of the worker.
        self._rows: dict[int, _Row] = {}
        # The workers whose turn comes in this round, the next one last; how many have a name; and
        # which workers there were when that was counted.
        self._turns: list[int] = []
        self._names: Counter[str] = Counter()
        self._workers = (0, 0)
        # By the number of a mission: what it told last, how many functions of it, and that encoded;
        # of the missions in the last answer, and in the one that is made.
        self._outlooks: dict[int, tuple[Outlook, int, msgspec.Raw]] = {}
        self._shown_outlooks: dict[int, tuple[Outlook, int, msgspec.Raw]] = {}
        self._states: Counter[str] = Counter()
        self._given = self._cores = self._unknown = self._computing = 0.0
        self._answer = b""
        self._at = -math.inf

    def packed(self, now: float) -> bytes:
        """Return the answer as a payload, which is at most `FRESH` seconds old."""
        if not 0 <= now - self._at < FRESH:
            self._answer = pack(self.state(now))
            self._at = now
        return self._answer

    def state(self, now: float) -> OverviewAnswer:
        """Return a new answer."""
        self.look(now)
        numbered = self._registry.numbered
        missions = self._registry.missions
        own = labels(missions.values())
        calls = self._waiting.calls()
        left = tasks_left(self._registry, calls)
        idle = idle_lanes(self._registry)
        running, waiting, queues = self._count_queues(calls)
        rows = [row.encoded for row in self._rows.values()]
        # Those of missions that are gone are forgotten.
        self._outlooks, self._shown_outlooks = self._shown_outlooks, {}
        return OverviewAnswer(
            at=self._registry.wall_time(now),
            epoch=self._registry.epoch,
            tasks=self._counts(),
            cores=self.cores,
            computing=self.computing,
            worker_states=dict(self._states),
            workers=cast("list[Worker]", rows),  # each is encoded already
            more_workers=len(numbered) - len(self._rows),
            missions=[
                self._mission(mission, own, running, left[mission.number])
                for mission in _first(missions.values())
            ],
            more_missions=max(len(missions) - _MISSIONS, 0),
            queues=[
                self._queue(queue, own, now, calls[queue], idle[queue], number < _EXPLAINED)
                for number, queue in enumerate(queues)
            ],
            more_queues=max(waiting - len(queues), 0),
            failures=[self._failure(failed, own) for failed in self._failed(now)],
            lost=list(self._registry.lost_workers),
            troubles=self._registry.all_troubles(),
            cluster=cluster_state(self._registry),
        )

    def runs(self, worker: str, now: float) -> RunsAnswer:
        """Return runs of the worker with an id."""
        runs: list[Run] = []
        more = 0
        record = self._registry.workers.get(worker)
        if record is not None:
            wall = self._registry.wall_time(0.0)
            runs = self._runs(record, _RUNS_OF_ONE, wall, seats=True)
            running = len(self._scheduler.workers[record.number].tasks) - record.idle_lanes
            more = max(running - len(runs), 0)
        return RunsAnswer(runs, more, self._registry.wall_time(now))

    @property
    def cores(self) -> tuple[float, float]:
        """The number of cores that tasks were given, and that of all, by the last looks."""
        # Parts of cores leave rounding errors in sums that are kept for long.
        return round(self._given, 6), self._cores

    @property
    def computing(self) -> float | None:
        """The number of cores on which something is computed, by the last looks, if known."""
        return measured(self._computing, self._unknown, self._given)

    @property
    def worker_states(self) -> Mapping[str, int]:
        """The number of workers in each state, by the last looks."""
        return self._states

    @property
    def looks_for_all(self) -> int:
        """The number of looks after which it was the turn of each worker."""
        # The first look keeps at least half of its budget; so do the others while no worker joins.
        return math.ceil(2 * len(self._registry.numbered) / _LOOKS) + 1

    # ---- workers

    def look(self, now: float) -> None:
        """Look at the workers whose turn it is."""
        numbered = self._registry.numbered
        # Numbers grow, so of two sets with the same last member and the same size neither lacks
        # anything of the other.
        workers = (len(numbered), next(reversed(numbered), 0))
        looks = _LOOKS
        if workers != self._workers:
            self._workers = workers
            self._on_workers_changed()
            # That takes its time, too; but the answer gets somewhere however often workers come.
            looks -= min(len(numbered) // _NAMES, _LOOKS // 2)
        most = max(_RUNS // max(len(numbered), 1), 1)
        at = self._registry.wall_time(now)
        for _ in range(min(_LOOKS, len(numbered))):
            while self._turns and self._turns[-1] not in numbered:
                self._turns.pop()
            if not self._turns:
                self._turns = list(reversed(numbered))
            worker = numbered[self._turns.pop()]
            # A row that is new takes twice as long.
            looks -= 1 if worker.number in self._rows else 2
            if looks < 0:
                self._turns.append(worker.number)
                return
            self._look_at(worker, most, at, at - now)

    def _on_workers_changed(self) -> None:
        """Let it be the turn of workers that have come, and remove workers that have left."""
        numbered = self._registry.numbered
        self._names = Counter(map(_name, numbered.values()))
        for number in [number for number in self._rows if number not in numbered]:
            self._count(self._rows.pop(number), "", _NO_CORES)
        self._turns += [number for number in reversed(numbered) if number not in self._rows]

    def _look_at(self, worker: WorkerRecord, most: int, at: float, wall: float) -> None:
        """Update the row of a worker, at a time of the wall, which is ahead of ours by so much."""
        number = worker.number
        scheduled = self._scheduler.workers[number]
        row = self._rows.get(number)
        if row is None:
            row = self._rows[number] = _Row(to_data(scheduled.supply.total))
        state = worker_state(worker)
        running = len(scheduled.tasks)
        computing = worker.computing if running else 0.0
        seen = Worker(
            id=worker.id,
            name=worker.name,
            label=peer_label(worker, alone=self._names[worker.name] == 1),
            host=worker.host,
            cluster=worker.cluster,
            state=state,
            ends=None if scheduled.end == math.inf else wall + scheduled.end,
            total=row.total,
            used=used_parts(scheduled.supply),
            running=running - worker.idle_lanes,
            computing=computing,
            runs=self._runs(worker, most, wall),
            at=at,
        )
        row.encoded = msgspec.Raw(_encode(seen))
        given, total = scheduled.supply.given(Cores)
        if computing is None:
            self._count(row, state, (given, total, 0.0, given))
        else:
            self._count(row, state, (given, total, computing, 0))

    def _count(self, row: _Row, state: str, cores: tuple[float, float, float, float]) -> None:
        """Put a row's new state and cores into the sums, in the place of the former."""
        if row.state:
            self._states[row.state] -= 1
            if not self._states[row.state]:
                del self._states[row.state]
        if state:
            self._states[state] += 1
        before = row.cores
        self._given += cores[0] - before[0]
        self._cores += cores[1] - before[1]
        self._computing += cores[2] - before[2]
        self._unknown += cores[3] - before[3]
        row.state, row.cores = state, cores

    def _runs(
        self, worker: WorkerRecord, most: int, wall: float, *, seats: bool = False
    ) -> list[Run]:
        """Return the oldest runs of a worker; a gang has its one where its root is.

        Args:
            seats: True if it has one where its seats are, too.
        """
        rows = []
        for lease, task in islice(_current(worker, most, seats=seats), most):
            call = lease.call or CallInLane(task.number, task.function, lease.began)
            rows.append(
                Run(
                    mission=task.mission.id,
                    task=call.task,
                    function=task.mission.shown.function_names.get(call.function, ""),
                    state="running",
                    final=False,
                    asked="" if task.queue is None else task.queue.asked,
                    started=wall + call.began,
                )
            )
        return rows

    # ---- missions, queues, failures

    def _mission(
        self,
        mission: MissionRecord,
        own: dict[int, str],
        running: Counter[int] | None,
        left: int,
    ) -> Mission:
        outlook = mission.on_link.outlook
        return Mission(
            id=mission.id,
            name=mission.name,
            label=own[mission.number],
            host=mission.host,
            connected=mission.link is not None,
            paused=mission.paused,
            since=self._registry.wall_time(mission.shown.since),
            done=mission.shown.done,
            failed=mission.shown.failed,
            retried=mission.shown.retried,
            left=max(left, 0),
            running=None if running is None else running[mission.number] - mission.idle_lanes,
            outlook=None if outlook is None else self._outlook(mission.number, outlook),
            rate=mission.shown.pace.rate,
        )

    def _outlook(self, mission: int, outlook: Outlook) -> MissionOutlook:
        """Return what a mission has told, encoded: it tells something new every five seconds."""
        missions = max(min(len(self._registry.missions), _MISSIONS), 1)
        most = max(_FUNCTIONS // missions, 1)
        known = self._outlooks.get(mission)
        if known is None or known[0] is not outlook or known[1] != most:
            functions = outlook.functions[:most]
            more = outlook.more_functions + len(outlook.functions) - len(functions)
            shown = replace(outlook, functions=functions, more_functions=more)
            known = outlook, most, msgspec.Raw(_encode(MissionOutlook(*astuple(shown))))
        self._shown_outlooks[mission] = known
        return cast("MissionOutlook", known[2])

    def _count_queues(
        self, calls: Counter[TaskQueue]
    ) -> tuple[Counter[int] | None, int, list[TaskQueue]]:
        """Return the running tasks by mission, the number of queues, and the longest of them."""
        scheduler = self._scheduler
        running: Counter[int] | None = None
        if len(scheduler.queues) <= _QUEUES:
            running = Counter()
            for queue in scheduler.queues.values():
                running[queue.share] += queue.running
        waiting = scheduler.in_order_of_service
        first = [queue for _, _, queue in islice(waiting, _QUEUES)]
        # Calls that a mission holds wait where no task may.
        held = [queue for queue, count in calls.items() if count > 0 and queue.rank is None]
        longest = nlargest(_WAITING, held + first, key=lambda one: one.waiting + calls[one])
        return running, len(held) + len(waiting), longest

    def _queue(
        self,
        queue: TaskQueue,
        own: dict[int, str],
        now: float,
        calls: int,
        idle: int,
        explained: bool,
    ) -> Queue:
        first = (task for task in islice(queue.tasks, _CANCELLED) if not task.cancelled)
        head = next(first, None)
        task: TaskRecord | None = None if head is None else head.record
        label = own.get(queue.share, "")
        lack, why = self._why(queue, now, explained=explained)
        return Queue(
            request=to_data(queue.alternatives[0].space) if lack == "room" else {},
            mission=label,
            mission_id="" if task is None else task.mission.id,
            asked=queue.asked,
            priority=queue.priority,
            waiting=queue.waiting + calls,
            running=queue.running - idle,
            oldest="" if task is None else f"{label}:{task.number}",
            task=0 if task is None else task.number,
            lack=lack,
            why=why,
        )

    def _why(self, queue: TaskQueue, now: float, *, explained: bool) -> tuple[Lack, str]:
        """Return what its oldest task lacks, and why it waits, as `Queue` has them."""
        if queue.reservations:
            return "", reserved_text(queue.reservations[0], now)
        if not self._registry.workers:
            return "here", "no worker is here"
        if not queue.serving_shapes:
            return "room", "no worker here has enough for it"
        if queue.gangs and (few := too_few_text(queue, self._scheduler)):
            return "members", few
        serving = self._states["serving"]
        if not serving:
            return "here", "no worker that is here takes tasks"
        looked_at = islice(self._scheduler.workers.values(), _FULL)
        return "", full_text(queue, serving, looked_at if explained else ())

    def _failed(self, now: float) -> Iterator[FailedTask]:
        """Yield the failures of the missions that are here, and of those that left lately."""
        missions = self._registry.missions
        left = {one.record.id for one in self._registry.ended_missions if now - one.at <= OLD}
        for failed in self._registry.failed_tasks:
            mission = failed.ended[0].mission.id
            if mission in missions or mission in left:
                yield failed

    def _failure(self, failed: FailedTask, own: dict[int, str]) -> Run:
        run = ended_run(self._registry, failed.ended)
        mission = failed.ended[0].mission
        label = own.get(mission.number) or mission.name or mission.id[:8]
        return replace(run, name=f"{label}:{run.task}", again=failed.retried)


def measured(computing: float, unknown: float, given: float) -> float | None:
    """Return the cores that compute; None where that is not known of too many given ones.

    Args:
        computing: of workers that have told.
        unknown: the given cores of the workers that have not.
        given: those of all.
    """
    return None if unknown > _UNKNOWN * given else max(computing, 0.0)


def _first(missions: Iterable[MissionRecord]) -> Iterator[MissionRecord]:
    return islice(missions, _MISSIONS)


def _current(
    worker: WorkerRecord, most: int, *, seats: bool
) -> Iterator[tuple[LeaseRecord, TaskRecord]]:
    """Yield runs of a worker that tasks wait for, the oldest first; some of them if many do not."""
    for lease in islice(worker.leases.values(), most + _STALE):
        task = lease.task
        # A seat of an earlier gang, which is to end, is not a part of its task's run.
        root = None if lease.gang is None or not seats else lease.gang.lease
        wanted = lease.current or (root is not None and root.current)
        shown = lease.scheduler_id is not None and not lease.idle_lane
        if task is not None and shown and wanted:
            yield lease, task
