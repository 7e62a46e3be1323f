"""Tests of the scheduler: scenarios, workloads in virtual time, and a check of every invariant.

    cluster = Cluster(Cores(8), max_overtakes=1)
    long = cluster.submit(Cores(4))
    wide = cluster.submit(Cores(8))
    assert cluster.running == [long]
    cluster.finish(long)
    assert cluster.running == [wide]

Every step dispatches, and checks every invariant.
"""

from __future__ import annotations

import copy
import math
from functools import reduce
from heapq import heappop, heappush
from itertools import product
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import astuple

from grain.head.hub.state import ITS_MISSION, NO_COURSE, TaskCourse
from grain.head.scheduler.explain import Explanation, explain
from grain.head.scheduler.scheduler import Scheduler
from grain.head.scheduler.state import serving_gang
from grain.resource import Host, Licences, Supply

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.head.hub.hub import Hub
    from grain.head.hub.state import LeaseRecord, TaskRecord
    from grain.head.scheduler.cluster import ClusterPool
    from grain.head.scheduler.places import RunPlace
    from grain.head.scheduler.state import (
        Alternative,
        Level,
        Reservation,
        Start,
        Task,
        TaskQueue,
        WorkerAccount,
    )
    from grain.resource import Resource


class Cluster:
    """A scheduler with workers and a clock: each method is one event, with its consequences.

    Args:
        workers: the resources of the first workers; their ids count from 0.
        max_overtakes, cluster: see `Scheduler`.

    Attributes:
        now: the time in seconds.
        starts: the starts, by task; the last one if there were several.
        order: the ids of all started tasks, in the order of starting.
    """

    def __init__(
        self,
        *workers: Resource,
        max_overtakes: int | None = None,
        cluster: ClusterPool | None = None,
    ) -> None:
        self.scheduler = Scheduler(max_overtakes=max_overtakes, cluster=cluster)
        self.now = 0.0
        self.starts: dict[int, Start] = {}
        self.order: list[int] = []
        self._last_task = self._last_worker = -1
        for total in workers:
            self.join(total)

    def join(self, total: Resource, interpreter: str = "", group: str = "", job: str = "") -> int:
        """Let a worker join; return its id."""
        self._last_worker = worker = self._last_worker + 1
        self.scheduler.on_worker_joined(
            worker, f"w{worker}", total, self.now, interpreter, group, job
        )
        self.settle()
        return worker

    def drain(self, worker: int) -> None:
        """Let a worker take no more tasks."""
        self.scheduler.on_worker_draining(worker)
        self.settle()

    def leave(self, worker: int) -> list[int]:
        """Lose a worker; return the tasks that wait again."""
        again = self.scheduler.on_worker_left(worker)
        check_scheduler(self.scheduler)
        self.settle()
        return again

    def submit(
        self,
        request: Resource,
        *,
        priority: int = 0,
        interpreter: str = "",
        urgency: float = 0.0,
        avoid: tuple[RunPlace, ...] = (),
    ) -> int:
        """Submit a task; return its id."""
        return self.submit_many(
            request, priority=priority, interpreter=interpreter, urgency=urgency, avoid=avoid
        )[0]

    def submit_many(
        self,
        *requests: Resource,
        priority: int = 0,
        interpreter: str = "",
        urgency: float = 0.0,
        avoid: tuple[RunPlace, ...] = (),
    ) -> list[int]:
        """Submit tasks in the same instant; return their ids."""
        for request in requests:
            self._last_task += 1
            queue = self.scheduler.queue(
                request, priority, interpreter=interpreter, avoid=tuple(sorted(avoid))
            )
            self.scheduler.on_submitted(self._last_task, queue, urgency=urgency)
        self.settle()
        return list(range(self._last_task - len(requests) + 1, self._last_task + 1))

    def finish(self, *tasks: int) -> None:
        """End runs in the same instant."""
        for task in tasks:
            self.scheduler.on_finished(task, self.now)
        self.settle()

    def end(self, task: int, function: str = "f", *, failed: bool = False) -> None:
        """End a run by itself."""
        self.scheduler.on_outcome(task, function, self.now, failed=failed)
        self.finish(task)

    def finish_after(self, task: int, seconds: float) -> None:
        """Let time pass, then end a run."""
        self.wait(seconds)
        self.finish(task)

    def cancel(self, *tasks: int) -> None:
        """Cancel tasks in the same instant."""
        for task in tasks:
            self.scheduler.on_cancelled(task)
        self.settle()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.settle()

    def settle(self) -> list[Start]:
        """Dispatch, and check the invariants before and after."""
        check_scheduler(self.scheduler)
        starts = self.scheduler.dispatch(self.now)
        for start in starts:
            task = self.scheduler.tasks[start.task]
            by = self.scheduler.taken.get(task.id) or task.queue.alternatives[0]
            ids = [start.worker, *(seat[0] for seat in start.seats)]
            members = [self.scheduler.workers[one] for one in ids]
            assert members[0].end >= self.now + by.need, "started too late"
            found = {
                host for one in members for host in by.hosts if one.supply.total.request(Host(host))
            }
            assert len(found) == min(by.count, len(by.hosts)), "not on the hosts that it names"
            self.starts[start.task] = start
            self.order.append(start.task)
        check_scheduler(self.scheduler, dispatched=self.now)
        return starts

    @property
    def running(self) -> list[int]:
        """The ids of the running tasks, ascending."""
        return sorted(t.id for t in self.scheduler.tasks.values() if t.worker is not None)

    @property
    def waiting(self) -> list[int]:
        """The ids of the waiting tasks, ascending."""
        return sorted(t.id for t in self.scheduler.tasks.values() if t.worker is None)

    def where(self, task: int) -> int | None:
        """Return the worker that a task runs on; None while it waits."""
        worker = self.scheduler.tasks[task].worker
        return None if worker is None else worker.id

    def why(self, task: int) -> Explanation:
        """Explain why a task is not running."""
        return explain(self.scheduler, task, self.now)

    def reservation(self, task: int) -> tuple[int, float] | None:
        """Return the worker and the time reserved for the oldest task of a task's queue."""
        reservations = self.scheduler.tasks[task].queue.reservations
        return (reservations[0].worker.id, reservations[0].start) if reservations else None


class SimulatedTask(NamedTuple):
    """One task of a workload.

    Attributes:
        request: the resources that it asks for.
        duration: the seconds that it takes.
        at: the time of its submission in seconds.
    """

    request: Resource
    duration: float
    at: float = 0.0


class WorkloadResult(NamedTuple):
    """The course that a workload took.

    Attributes:
        makespan: the time in seconds at which the last task ended.
        started: the time at which each task started, in the order of the workload.
    """

    makespan: float
    started: list[float]


def simulate(
    workers: Iterable[Resource], tasks: Sequence[SimulatedTask], *, max_overtakes: int | None = None
) -> WorkloadResult:
    """Run a workload of known durations in virtual time."""
    scheduler = Scheduler(max_overtakes=max_overtakes)
    for number, total in enumerate(workers):
        scheduler.on_worker_joined(number, f"w{number}", total, 0.0)
    coming = sorted(range(len(tasks)), key=lambda k: (tasks[k].at, k), reverse=True)
    ends: list[tuple[float, int]] = []
    started = [math.inf] * len(tasks)
    now = 0.0
    while coming or ends:
        now = min(tasks[coming[-1]].at if coming else math.inf, ends[0][0] if ends else math.inf)
        while ends and ends[0][0] <= now:
            scheduler.on_finished(heappop(ends)[1], now)
        while coming and tasks[coming[-1]].at <= now:
            task = coming.pop()
            scheduler.on_submitted(task, scheduler.queue(tasks[task].request))
        for start in scheduler.dispatch(now):
            started[start.task] = now
            for number in (start.task, *(seat for _, seat, _ in start.seats)):
                heappush(ends, (now + tasks[start.task].duration, number))
    assert not scheduler.tasks, "some tasks never started"
    return WorkloadResult(now, started)


def check_scheduler(scheduler: Scheduler, *, dispatched: float | None = None) -> None:
    """Assert every invariant of a scheduler, by brute force.

    Args:
        scheduler: the one to check.
        dispatched: the time of the last call of `Scheduler.dispatch`, if nothing happened since:
            then no task may wait that could start.

    Raises:
        AssertionError: an invariant does not hold.
    """
    for worker in scheduler.workers.values():
        _check_account(worker)
    _check_tasks(scheduler)
    _check_queues(scheduler)
    _check_shapes(scheduler)
    _check_levels(scheduler)
    _check_reservations(scheduler)
    _check_cluster(scheduler)
    if dispatched is not None:
        _check_time_left(scheduler, dispatched)
        _check_work_conserved(scheduler, dispatched)
        _check_due(scheduler, dispatched)


def check_hub(hub: Hub, now: float) -> None:
    """Assert that the records of a hub agree with each other, and every invariant of its scheduler.

    Args:
        hub: the one to check, after `Hub.dispatch`.

    Raises:
        AssertionError: they do not.
    """
    check_scheduler(hub.scheduler, dispatched=now)
    assert astuple(NO_COURSE) == astuple(TaskCourse()), "the course of all tasks was changed"
    waiting = {number: task for number, task in hub.scheduler.tasks.items() if task.record}
    held = hub.runs.holding.keys()
    assert not waiting.keys() & held
    assert waiting.keys() | held == hub.scheduler.tasks.keys()
    for number, scheduled in waiting.items():
        assert scheduled.record.scheduler_id == number
        assert scheduled.record.mission.tasks[scheduled.record.number] is scheduled.record
    for mission in hub.registry.missions.values():
        for task in mission.tasks.values():
            _check_record(hub, task)
            assert (task.awaits == ITS_MISSION) == (task in mission.parked)
        outcomes = [task.outcome for task in mission.tasks.values() if task.ending is not None]
        assert mission.unconfirmed == len(outcomes)
        assert mission.unconfirmed_bytes == sum(len(one) for one in outcomes if one is not None)
        assert mission.paused or not mission.parked
    for link, mission in hub.missions.links.items():
        assert hub.registry.missions.get(mission.id) is mission
        assert mission.link == link
    for link, worker in hub.workers.links.items():
        assert hub.registry.workers.get(worker.id) is worker
        assert worker.link == link
    for worker in hub.registry.workers.values():
        assert hub.registry.numbered[worker.number] is worker
        for lease in worker.leases.values():
            if lease.scheduler_id is not None:
                assert hub.runs.holding[lease.scheduler_id] is lease
            if not lease.current and not lease.member:
                late = lease.revoked or lease.scheduler_id is None
                assert late or _is_beside(lease), f"{lease} runs unwanted"
    _check_quarantine(hub)
    _check_gangs(hub)
    _check_lanes(hub)


def _is_beside(lease: LeaseRecord) -> bool:
    task = lease.task
    return task is not None and lease in task.mission.beside.get(task.number, ())


def _check_lanes(hub: Hub) -> None:
    """Check that the lanes without a call are counted, for each worker and mission, and in all."""
    idle = [lease for lease in hub.lanes.leases if lease.idle_lane]
    assert hub.lanes.idle == len(idle)
    for lease, mission in hub.lanes.leases.items():
        assert lease.scheduler_id is not None
        assert mission.idle_lanes == sum(hub.lanes.leases[one] is mission for one in idle)
    for worker in hub.registry.workers.values():
        assert worker.idle_lanes == sum(one.worker is worker for one in idle)


def _check_quarantine(hub: Hub) -> None:
    """Check that each reserved worker is that of one task that is to run by itself, or does so."""
    emptied = [one for one in hub.quarantine.waiting.values() if one is not None]
    chosen = [worker for one in emptied for worker in one.workers]
    assert len({worker.number for worker in chosen}) == len(chosen)
    assert all(len(one.workers) == one.by.count for one in emptied)
    assert hub.scheduler.cluster._kept.keys() <= {
        task for task, reserved in hub.quarantine.waiting.items() if reserved is not None
    }
    for worker in hub.registry.workers.values():
        if worker in chosen:
            assert worker.reserved
        elif worker.reserved:
            alone = any(lease.alone and lease.scheduler_id for lease in worker.leases.values())
            assert alone, f"{worker.name} is reserved, but no task needs it"


def _check_gangs(hub: Hub) -> None:
    """Check that gangs and leases agree, and that a gang that has ended is forgotten."""
    for gang in hub.gangs.all():
        ended = [one for worker in hub.registry.workers.values() for one in worker.leases.values()]
        known = gang.seats or any(one.gang is gang for one in ended)
        assert gang.lease is not None or known, f"{gang} is empty"
        for member, seat in gang.seats.items():
            assert (seat.gang, seat.member) == (gang, member)
            assert seat.worker.leases[seat.attempt] is seat
        if gang.lease is not None:
            assert gang.lease.gang is gang
            assert not gang.ended
            assert gang.lease.worker.leases[gang.lease.attempt] is gang.lease
    for worker in hub.registry.workers.values():
        for lease in worker.leases.values():
            if lease.member:
                assert lease.gang is not None
                assert lease.gang.seats[lease.member] is lease


def is_in_one_state(task: TaskRecord) -> bool:
    """Return True if a task is in one state, or in none as only its crashes are remembered."""
    states = [
        task.scheduler_id is not None,
        task.awaits != "",
        task.suspect,
        task.lease is not None,
        task.ending is not None,
    ]
    dormant = not task.claimed and bool(task.crashes)
    return sum(states) == 1 or (dormant and not any(states))


def _check_record(hub: Hub, task: TaskRecord) -> None:
    """Check that a task is in one state, and that its run is on a worker's list."""
    if task.scheduler_id is not None:
        assert hub.scheduler.tasks[task.scheduler_id].record is task
    assert is_in_one_state(task), task
    if task.lease is not None and not hub.gangs.is_stand_in(task.lease):
        assert task.lease.worker.leases.get(task.lease.attempt) is task.lease, f"{task} is lost"


def _check_account(worker: WorkerAccount) -> None:
    """Check that what is free and what is held add up to what the worker has."""
    free = copy.deepcopy(worker.supply.free)
    for task in worker.tasks.values():
        free.dealloc(task.held)
    for _, held in worker.returned:
        free.dealloc(held)
    assert worker.supply.total == free, f"{worker.name}: {free!r} after all was given back"


def _check_tasks(scheduler: Scheduler) -> None:
    """Check that each task waits in its queue or runs on its worker, and that the counts agree."""
    running = {t.id: t for w in scheduler.workers.values() for t in w.tasks.values()}
    waiting = {t.id: t for q in scheduler.queues.values() for t in q.tasks if not t.cancelled}
    assert {**running, **waiting} == scheduler.tasks
    assert len(running) + len(waiting) == len(scheduler.tasks)
    assert (scheduler.running, scheduler.waiting) == (len(running), len(waiting))
    several = {t.id for t in running.values() if len(t.queue.request.alternatives()) > 1}
    assert scheduler.taken.keys() == several
    for number, by in scheduler.taken.items():
        assert by.queue is running[number].queue
        # What a group asks for may have changed since.
        assert by.learned or running[number].held.request(by.space)
        shared = scheduler.cluster.held.get(number)
        assert by.shared is None or (shared is not None and shared.request(by.shared))
    assert scheduler._table.bounded == sum(t.until != math.inf for t in running.values())
    for task in running.values():
        assert task.worker is not None
        assert task.worker.tasks[task.id] is task
        assert not task.cancelled
    assert all(task.worker is None and task.until == math.inf for task in waiting.values())


def _check_queues(scheduler: Scheduler) -> None:
    """Check the order of tasks and of queues, and the bits of queues."""
    expected = []
    for key, queue in scheduler.queues.items():
        priority = key[0]
        who = queue.share, queue.interpreter
        assert key == (queue.priority, queue.request, *who, queue.seen, queue.avoid)
        aside = scheduler.places.barred(queue.share)
        assert queue.barred == scheduler._bars.barred(queue, queue.avoid, aside)
        # Two may have one age: a task that was cancelled and submitted again, and the cancelled
        # one, which is dropped later.
        assert [task.age for task in queue.tasks] == sorted(task.age for task in queue.tasks)
        ages = [task.age for task in queue.tasks if not task.cancelled]
        assert len(ages) == len(set(ages))
        assert all(task.queue is queue for task in queue.tasks)
        running = [t for t in scheduler.tasks.values() if t.queue is queue and t.worker]
        assert queue.running + queue.seats == len(running)
        assert queue.seats == sum(task.id < 0 for task in running)
        alive = [task for task in queue.tasks if not task.cancelled]
        assert len(alive) == queue.waiting
        if queue.urgent is None:
            assert not any(task.urgency for task in alive)
        else:
            entries = {(urgency, number) for urgency, _, number in queue.urgent}
            assert {(-task.urgency, task.id) for task in alive} <= entries
        assert queue.rank == ((-priority, alive[0].age) if alive else None)
        if alive:
            expected.append((-priority, alive[0].age, queue))
        else:
            assert not queue.tasks, "a queue keeps cancelled tasks only"
            assert not queue.overtakers
            assert not queue.reservations
        assert queue.overtakers == sorted(queue.overtakers)
        assert len(queue.overtakers) <= scheduler.due_after(queue)
        assert all(age > ages[0] for age in queue.overtakers)
    assert scheduler._queues.order == sorted(expected, key=lambda entry: entry[:2])
    assert scheduler._queues.nonempty == reduce(or_, (queue.open for *_, queue in expected), 0)
    patient = {queue.bit: queue for *_, queue in expected if queue.prefer}
    assert scheduler._queues.patient == patient
    for queue in scheduler.queues.values():
        assert [one.request for one in queue.alternatives] == list(queue.request.alternatives())
        assert all(one.queue is queue for one in queue.alternatives)
        assert queue.bits == reduce(or_, (one.bit for one in queue.alternatives))
        assert queue.only is (queue.alternatives[0] if len(queue.alternatives) == 1 else None)
        free = queue.bits & ~queue.closed
        assert queue.open in ({free, free & queue.bit} if queue.prefer else {free})
        assert queue.shared == sum(one.bit for one in queue.alternatives if one.shared is not None)
        assert not queue.closed & ~queue.shared
    assert not scheduler._queues.untried & ~scheduler._queues.nonempty
    outlived = {queue.bit: queue for queue in scheduler.queues.values() if queue.seen}
    assert scheduler._queues.outlived == outlived
    alternatives = _alternatives(scheduler.queues.values())
    assert scheduler._queues.by_bit == {one.bit: one for one in alternatives}
    bits = [*scheduler._queues.by_bit, *scheduler._queues._free_bits]
    assert sorted(bits) == [1 << k for k in range(len(bits))]
    for identity, queue in scheduler._queues.by_identity.items():
        assert identity == id(queue.request)
        assert scheduler._queues.by_bit[queue.bit].queue is queue


def _check_shapes(scheduler: Scheduler) -> None:
    """Check the masks of the queues that each shape of workers could serve."""
    queues = scheduler.queues.values()
    for shape in scheduler._queues.shapes.values():
        assert shape.workers == sum(w.shape is shape for w in scheduler.workers.values()) > 0
        every = _alternatives(queues)
        assert shape.mask == _mask(every, shape.interpreter, shape.sample.total)
    for worker in scheduler.workers.values():
        key = worker.shape.interpreter, Supply(worker.supply.total).level()
        assert worker.shape is scheduler._queues.shapes[key]
    for queue in queues:
        assert queue.serving_shapes == sum(
            bool(s.mask & queue.bits) for s in scheduler._queues.shapes.values()
        )


def _check_levels(scheduler: Scheduler) -> None:
    """Check that each worker is at the level of what it has free, and the heaps of the queues."""
    levels = {
        (interpreter, key): level
        for interpreter, peers in scheduler._queues.levels._levels.items()
        for key, level in peers.items()
    }
    placed: list[WorkerAccount] = []
    for key, level in levels.items():
        assert (level.interpreter, level.sample.level()) == key
        assert level.key == key[1]
        _check_level(scheduler, level)
        assert level.order == sorted(level.order) == [w.order for w in level.workers]
        assert all(worker.level is level for worker in level.workers)
        placed += level.workers
    assert len(placed) == sum(w.level is not None for w in scheduler.workers.values())
    for worker in scheduler.workers.values():
        if worker.draining:
            assert worker.level is None
            assert worker.id not in scheduler._queues.unplaced
        elif worker.reservation is not None and worker.reservation.sticky:
            assert worker.level is None or worker.id in scheduler._queues.unplaced
        elif worker.id not in scheduler._queues.unplaced:
            assert worker.level is not None
            assert worker.level is levels[worker.shape.interpreter, worker.supply.level()]
    _check_reserved(scheduler)
    since = [level.since for level in scheduler._queues.levels._occupied.values()]
    assert since == sorted(set(since))
    for one in _alternatives(scheduler.queues.values()):
        heap = one.heap
        assert all(heap[(k - 1) // 2] <= heap[k] for k in range(1, len(heap)))
        assert len(heap) == len({number for _, number, _ in heap})
        wanted = [
            level
            for level in levels.values()
            if level.in_heap & one.bit and _knows(scheduler, level, one)
        ]
        found = {number: (slack, level) for slack, number, level in heap}
        for number, (_, level) in list(found.items()):
            if levels.get((level.interpreter, level.key)) is not level:  # it gave way to a new one
                assert not level.workers
                del found[number]
        assert {level.number: (level.sample.slack(one.space), level) for level in wanted} == found


def _check_cluster(scheduler: Scheduler) -> None:
    """Check what is held of the whole cluster's, and by whom."""
    cluster = scheduler.cluster
    running = {t.id for t in scheduler.tasks.values() if t.worker is not None}
    assert cluster.held.keys() <= running
    for task in running:
        by = scheduler.taken.get(task) or scheduler.tasks[task].queue.only
        if by is not None and by.shared is not None:
            assert task in cluster.held, f"task {task} uses what it does not hold"
    parts = [held.get(Licences) for held in cluster.held.values()]
    for name, (used, _) in cluster.usage().get("Licences", {}).items():
        held = sum(one.counts.get(name, 0) for one in parts if isinstance(one, Licences))
        assert used == held
    if not cluster.changed:
        for queue, closed in cluster.share_out(scheduler.in_order_of_service):
            assert queue.closed == closed


def _check_reserved(scheduler: Scheduler) -> None:
    """Check the groups of the workers with sticky reservations."""
    reserved = {worker.id: worker for worker in scheduler._queues.reserved}
    for worker in scheduler.workers.values():
        reservation = worker.reservation
        if worker.id in scheduler._queues.unplaced:
            continue
        assert (worker.id in reserved) == (reservation is not None and reservation.sticky)
        if worker.id in reserved:
            assert reservation is not None
            mask = 0
            for one in _alternatives(scheduler.queues.values()):
                queue = one.queue
                passes = queue.priority > reservation.queue.priority or (
                    reservation.future.free.request(one.space)
                )
                if (queue is reservation.queue or passes) and one.fits(
                    worker.shape.interpreter, worker.supply.free
                ):
                    mask |= one.bit
            assert scheduler._queues.reserved._masks[worker.id] == mask


def _check_level(scheduler: Scheduler, level: Level) -> None:
    assert bool(level.workers) == (level.number in scheduler._queues.levels._occupied)
    every = _alternatives(scheduler.queues.values())
    every = [one for one in every if _knows(scheduler, level, one)]
    known = sum(one.bit for one in every)
    assert level.mask & known == _mask(every, level.interpreter, level.sample.free)
    assert not level.in_heap & ~level.mask
    if level.workers:
        gathered = sum(one.bit for one in every if level.since <= one.gathered)
        assert not level.mask & gathered & ~level.in_heap


def _knows(scheduler: Scheduler, level: Level, one: Alternative) -> bool:
    """Return True if a level was compared with what an alternative asks for now."""
    return bool(level.workers) or scheduler._queues.levels._changed[one.bit] <= level.known


def _mask(alternatives: Iterable[Alternative], interpreter: str, free: Resource) -> int:
    able = [one for one in alternatives if one.queue.interpreter in ("", interpreter)]
    return reduce(or_, (one.bit for one in able if free.request(one.space)), 0)


def _alternatives(queues: Iterable[TaskQueue]) -> list[Alternative]:
    return [one for queue in queues for one in queue.alternatives]


def _check_reservations(scheduler: Scheduler) -> None:
    """Check that queue and worker agree on a reservation that no run can push back."""
    for queue in scheduler.queues.values():
        assert scheduler.wants_room or not queue.reservations  # as `has_room` supposes
        assert len({id(one.party) for one in queue.reservations}) <= queue.waiting
        for reservation in queue.reservations:
            assert 1 <= len(reservation.party) <= reservation.by.count
            assert reservation.sticky or not reservation.lacking
            assert reservation in reservation.party
            for other in reservation.party:
                assert other in queue.reservations
                assert (other.by, other.start) == (reservation.by, reservation.start)
            common = {one.worker.in_common(one.by.same) for one in reservation.party}
            assert len(common) == 1
            assert reservation.queue is queue
            assert reservation.by.bit & queue.open
            assert reservation.worker.reservation is reservation
            assert reservation.worker.could_serve(reservation.by, queue.barred)
            assert queue.rank is not None
    for worker in scheduler.workers.values():
        if worker.reservation is not None:
            assert worker.reservation.worker is worker
            assert worker.reservation in worker.reservation.queue.reservations
            assert not worker.draining
            _check_reservation(worker.reservation, worker)


def _check_reservation(reservation: Reservation, worker: WorkerAccount) -> None:
    assert reservation.beside.keys() <= worker.tasks.keys()
    future = copy.deepcopy(reservation.future)
    for held in reservation.beside.values():
        future.dealloc(held)
    needed = Supply(worker.supply.total)
    needed.take_out((reservation.queue.barred or {}).get(worker.id, 0))
    needed.alloc_whole(reservation.by.space)
    assert future.level() == needed.level()
    if reservation.start != math.inf:
        for task in worker.tasks.values():
            if task.until > reservation.start:
                # Raises if the task could not start in time.
                needed.alloc_whole(task.held)


def _check_time_left(scheduler: Scheduler, now: float) -> None:
    """Check that each reserved worker has time for the task that it is reserved for."""
    for worker in scheduler.workers.values():
        if worker.reservation is not None:
            need = worker.reservation.by.need
            assert worker.end >= now + need, f"{worker.name} is reserved in vain"


def _check_work_conserved(scheduler: Scheduler, now: float) -> None:
    """Check that no task waits that could start, but for reservations of older ones."""
    assert not scheduler._queues.untried
    assert not scheduler._queues.unplaced
    assert not scheduler._queues.unseen
    for queue in scheduler._queues.patient.values():
        assert all(task.started <= now for task in queue.tasks)
    for *rank, queue in scheduler._queues.order:
        task = _head(queue)
        waits = queue.prefer and task.started + queue.prefer > now and _possible(scheduler, queue)
        _check_gangs_start(scheduler, queue, now, waits=bool(waits))
        for worker, one in product(scheduler.workers.values(), queue.alternatives):
            if one.count > 1 or worker.draining or not worker.has_time(one, now):
                continue
            if not worker.lets(one):
                continue
            if waits and one.index:
                assert queue.open == queue.bit & ~queue.closed
                continue
            if one.bit & queue.closed:
                continue
            if one.fits(worker.shape.interpreter, worker.supply.free):
                reservation = worker.reservation
                assert reservation is not None, f"{task} could start on {worker.name}"
                assert reservation.queue is not queue, (
                    f"{task} could start on the worker that is reserved for it"
                )
                assert reservation.queue.rank is not None
                if reservation.queue.rank > tuple(rank):
                    older = f"{task} is older than the task that has the reservation"
                    assert reservation.sticky, older
                    assert reservation.queue.priority == queue.priority, older
                assert not reservation.allows(one, now), (
                    f"{task} would not push back the reserved start"
                )


def _check_gangs_start(scheduler: Scheduler, queue: TaskQueue, now: float, *, waits: bool) -> None:
    """Check that no gang waits for whose members there is room, but for reservations of others."""
    for one in queue.alternatives:
        if one.count == 1 or (waits and one.index) or one.bit & queue.closed:
            continue
        able: dict[str, list[WorkerAccount]] = {}
        for worker in scheduler.workers.values():
            if (
                not worker.draining
                and worker.has_time(one, now)
                and one.fits(worker.shape.interpreter, worker.supply.free)
                and worker.lets(one)
                and (
                    worker.reservation is None
                    or worker.reservation.queue is queue
                    or worker.reservation.allows(one, now)
                )
            ):
                able.setdefault(worker.in_common(one.same), []).append(worker)
        serving = serving_gang(one, scheduler.workers.values(), now)
        for common, workers in able.items():
            some = scheduler.apart.members(one, workers, lambda w: w, serving[common])
            assert len(some) < one.count, f"{queue} could start {one.request}"


def _check_due(scheduler: Scheduler, now: float) -> None:
    """Check that tasks which were overtaken too often have reservations, while workers are left."""
    for *_, queue in scheduler._queues.order:
        limit = scheduler.due_after(queue)
        overtakers = queue.overtakers
        waiting = [t for t in queue.tasks if not t.cancelled]
        due = [t for t in waiting if sum(age > t.age for age in overtakers) >= limit]
        if queue.shared:
            del due[1:]
        parties = [one.party for one in queue.reservations if one.party[0] is one]
        lacking = [(k, party) for k, party in enumerate(parties) if party[0].lacking]
        if lacking:
            _check_gathered(scheduler, queue, *lacking[0], now)
        elif len(due) > len(parties):
            for one in queue.opened():
                if one.count > 1:
                    _check_gathered(scheduler, queue, len(parties), [], now)
                    continue
                for worker in scheduler.workers.values():
                    assert worker.reservation is not None or not _could_serve(one, worker, now), (
                        f"{worker.name} could be reserved for {one}"
                    )


def _check_gathered(
    scheduler: Scheduler, queue: TaskQueue, place: int, party: Sequence[Reservation], now: float
) -> None:
    """Check that a due gang has all workers that it can get, and none where it can never start."""
    waiting = [t for t in queue.tasks if not t.cancelled]
    rank = (-queue.priority, waiting[place].age)
    order = [one for *_, one in scheduler._queues.order]
    first = [one.reservations[0] for one in order[: order.index(queue)] if one.reservations]
    if scheduler.apart.known:
        return  # which of them go together is another question
    if not party and any(one.by.count > 1 and not one.sticky for one in first):
        return  # what goes first has a known start
    for one in queue.opened():
        if one.count == 1:
            continue
        serving: dict[str, list[WorkerAccount]] = {}
        left: dict[str, list[WorkerAccount]] = {}
        for worker in scheduler.workers.values():
            if not _could_serve(one, worker, now):
                continue
            common = worker.in_common(one.same)
            serving.setdefault(common, []).append(worker)
            reservation = worker.reservation
            if reservation is None or (reservation not in party and _rank_of(reservation) > rank):
                left.setdefault(common, []).append(worker)
        where = [party[0].worker.in_common(one.same)] if party else [*serving]
        for common in where:
            own = [reservation.worker for reservation in party]
            if _together(one, serving.get(common, [])) >= one.count:
                more = _together(one, [*own, *left.get(common, [])])
                assert more == len(own), f"{queue} could collect another worker"
            else:
                assert not party or party[0].by is not one, f"{queue} waits in vain for workers"


def _together(by: Alternative, workers: Iterable[WorkerAccount]) -> int:
    return sum(1 for _ in by.together(workers, lambda one: one))


def _could_serve(by: Alternative, worker: WorkerAccount, now: float) -> bool:
    """Return True if a worker could serve a task by an alternative if it were empty."""
    able = not worker.draining and worker.has_time(by, now)
    return able and worker.could_serve(by, by.queue.barred)


def _rank_of(reservation: Reservation) -> tuple[int, int]:
    """Return the place in the order of all tasks of the one that has a reservation."""
    queue = reservation.queue
    parties = [one.party for one in queue.reservations if one.party[0] is one]
    waiting = [t for t in queue.tasks if not t.cancelled]
    return -queue.priority, waiting[parties.index(reservation.party)].age


def _possible(scheduler: Scheduler, queue: TaskQueue) -> bool:
    """Return True if a worker could serve the first alternative of a queue when it is empty."""
    first = queue.alternatives[0]
    return not scheduler.cluster.never(first) and any(
        first.fits(worker.shape.interpreter, worker.supply.total)
        for worker in scheduler.workers.values()
    )


def _head(queue: TaskQueue) -> Task:
    return next(task for task in queue.tasks if not task.cancelled)
