"""The records of the scheduler: tasks, queues, alternatives, workers, levels, reservations.

They refer to each other in circles (a queue has the reservation of its oldest task, a reservation
has its worker, a worker has the tasks that run on it), so they share a module.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from dataclasses import InitVar, dataclass, field
from functools import reduce
from heapq import heapify, heappush
from itertools import islice
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from grain.head.needs.groups import LearnedMemory
from grain.head.scheduler.places import WHOLE
from grain.resource import ZERO, Either, Gang, Host, Limits, Memory, Supply, WTime, learned

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from grain.head.needs.families import LearningFamily
    from grain.head.needs.groups import Needs
    from grain.head.scheduler.places import RunPlace
    from grain.resource import Resource, RunTimes

T = TypeVar("T")

DURATIONS = 100
"""The number of ended runs of a queue whose durations are kept."""


@dataclass(slots=True, eq=False, repr=False)
class Task:
    """A task: it waits in its queue, or it runs and holds resources of a worker.

    Attributes:
        id: the caller's number of it.
        queue: the queue in which it waits or waited.
        age: its place among the tasks of its priority; the smaller, the older.
        urgency: of the tasks of one queue the one of the largest urgency starts first. It starts in
            the place of the oldest, which waits on in its place: see `Scheduler.on_submitted`.
        cancelled: True if it was cancelled while it waited: its queue drops it later.
        started: when its run began. While it waits, where that matters (`TaskQueue.prefer`), when
            it began to wait; ``math.inf`` until the first decision after that.
        worker: where it runs; None while it waits. The attributes below are those of a run.
        held: the resources of the worker that the run holds.
        until: when its hard time limit ends it; ``math.inf`` without one.
        record: the caller's own record of it, if it has given one; None once it was cancelled.
    """

    id: int
    queue: TaskQueue
    age: int
    urgency: float = 0.0
    record: Any = None
    cancelled: bool = False
    worker: WorkerAccount | None = None
    held: Resource = ZERO
    started: float = math.inf
    until: float = math.inf

    def __repr__(self) -> str:
        return f"<Task {self.id}: {self.queue.request.ask()}>"


class Start(NamedTuple):
    """The decision to run a task: the scheduler's outgoing command.

    Attributes:
        allocation: what the run may use: allocated resources and its time limits.
        limit: the hard time limit in seconds; ``math.inf`` if there is none.
        seats: the other members of a gang: worker, id, and what it may use there. The scheduler has
            a task of each, which `Scheduler.on_finished` ends like any other; their ids are
            negative, so no caller has given them.
    """

    worker: int
    task: int
    allocation: Resource
    limit: float
    seats: tuple[tuple[int, int, Resource], ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Alternative:
    """One of the requests of which the tasks of a queue take one; most queues have one.

    Attributes:
        queue: whose it is.
        index: its place among those of the queue; 0 is the first choice.
        request: a request without alternatives.
        bit: its place in the bit masks of `QueueTable`, `Level` and `Shape`.
        interpreter: that of the queue.
        wtime: the part of the request that limits the time, if any.
        shared: the part that the scheduler owns for the whole cluster, if any.
        stated: the rest of the request.
        learned: its memory, if that names a group that learns how much to ask for.
        rest: of the stated, without the memory that it learns; nothing if it learns none.
        space: what is stated, with the memory that the group asks for.
        family: that of the alternatives which differ only in what they learn; None without.
        count: the number of workers at once that it asks for; more than 1 for a gang.
        same: what the members of a gang have in common: ``"group"`` or ``"job"``.
        hosts: those of which a gang has a member each.
        limits: the time limits in seconds, estimated where the request names a group.
        least: the seconds that a worker must have left as the tasks have outlived others, see
            `Scheduler.queue`; 0 for all others.
        heap: the levels at which the request fits, as a heap: (slack, number of the level, level),
            so that the tightest fit is first. Levels that have lost their workers since are
            dropped when they come to the top.
        gathered: the heap has the levels that had workers when so many levels had got them.
    """

    queue: TaskQueue
    index: int
    request: Resource
    bit: int
    interpreter: str
    run_times: InitVar[RunTimes]
    kinds: InitVar[frozenset[str]]
    needs: InitVar[Needs]
    least: float = 0.0
    wtime: WTime | None = field(init=False)
    shared: Resource | None = field(init=False)
    stated: Resource = field(init=False)
    learned: LearnedMemory | None = field(init=False)
    rest: Resource = field(init=False)
    space: Resource = field(init=False)
    family: LearningFamily | None = None
    limits: Limits = field(init=False)
    count: int = 1
    same: str = "group"
    hosts: tuple[str, ...] = ()
    heap: list[tuple[float, int, Level]] = field(default_factory=list)
    gathered: int = 0

    def __post_init__(self, run_times: RunTimes, kinds: frozenset[str], needs: Needs) -> None:
        request = self.request
        if isinstance(request, Gang):
            self.count, self.same = request.count, request.same
            request = request.member
        self.wtime, space = split_time(request)
        self.space, self.shared = divided(space, kinds)
        self.stated = self.space
        hosts = self.space.get(Host)
        if self.count > 1 and isinstance(hosts, Host):
            self.hosts = hosts.names
        self.limits = limits_of(self.wtime, run_times)
        memory = learned(self.stated)
        self.learned = None if memory is None else LearnedMemory(needs, self.stated, memory)
        self.rest = ZERO
        if self.learned is not None:
            for kind, part in self.stated.parts().items():
                self.rest = self.rest if kind == Memory._kind else self.rest & part
            self.space = self.rest & self.learned.memory

    def renew_memory(self) -> bool:
        """Set the amount of memory to what its group needs now; return True if it is another."""
        if self.learned is None or not self.learned.renew():
            return False
        self.space = self.rest & self.learned.memory
        return True

    def fits(self, interpreter: str, free: Resource) -> bool:
        """Return True if tasks can run by it on workers of an interpreter that have this free."""
        return (not self.interpreter or self.interpreter == interpreter) and free.request(
            self.space
        )

    def together(self, workers: Iterable[T], account: Callable[[T], WorkerAccount]) -> Iterator[T]:
        """Yield those of some workers that may be in one gang, as far as their hosts go.

        They are the first on each host that the request names, and for the rest any.

        Args:
            workers: some that it fits on, in the order of preference.
            account: returns the account of one.
        """
        if not self.hosts:
            yield from workers
            return
        wanted, others = set(self.hosts), self.count - len(self.hosts)
        for one in workers:
            host = account(one).supply.total.get(Host)
            name = host.names[0] if isinstance(host, Host) else ""
            if name in wanted:
                wanted.remove(name)
                yield one
            elif others > 0:
                others -= 1
                yield one

    def has_equal_levels(self) -> bool:
        """Return True if another level may fit as tightly as the first one of the heap."""
        heap = self.heap
        # In a heap the second smallest entry is one of the two below the first.
        return any(entry[0] == heap[0][0] for entry in heap[1:3])

    @property
    def need(self) -> float:
        """The seconds that a worker must have left to take such a task."""
        soft = self.limits.soft
        return soft if self.least < soft < math.inf else self.least

    @property
    def whole(self) -> Resource:
        """All that a member gets, but for its time limit."""
        return self.space if self.shared is None else self.space & self.shared

    @property
    def spares_time(self) -> bool:
        """True if its tasks leave the workers with much time left to others."""
        return not self.least and self.limits.soft != math.inf

    def __repr__(self) -> str:
        return f"<Alternative {self.request.ask()}>"


@dataclass(slots=True, eq=False, repr=False)
class RequestedWays:
    """The ways in which the tasks of a queue may run: the alternatives of what they ask for.

    Attributes:
        request: what each of the tasks asks for.
        interpreter: the interpreter that they need, as `grain.edge.version.INTERPRETER`, because
            they have bytecode; empty if any will do.
        seen: the seconds that they were seen to run for, and more, as they have outlived their
            workers; 0 for all others.
        alternatives: the requests of which each task takes one, the first choice first.
        only: the alternative, if there is but one; else None.
        bits: the bits of all alternatives.
        gangs: the bits of those that ask for several workers at once.
        shared: the bits of those that ask for resources of the whole cluster.
        learns: True if one of them learns its memory, so that its amount may change.
        prefer: for how many seconds a task waits for the first alternative before it takes others.
    """

    request: Resource
    own_bits: InitVar[Sequence[int]]
    run_times: InitVar[RunTimes]
    needs: InitVar[Needs]
    kinds: InitVar[frozenset[str]]
    interpreter: str = ""
    seen: float = 0.0
    alternatives: tuple[Alternative, ...] = field(init=False)
    only: Alternative | None = field(init=False)
    bits: int = field(init=False)
    gangs: int = field(init=False)
    shared: int = field(init=False)
    learns: bool = field(init=False)
    prefer: float = field(init=False)
    _asked: str = ""

    def __post_init__(
        self,
        own_bits: Sequence[int],
        run_times: RunTimes,
        needs: Needs,
        kinds: frozenset[str],
    ) -> None:
        requests = self.request.alternatives()
        queue = cast("TaskQueue", self)
        self.alternatives = tuple(
            Alternative(
                queue, index, request, bit, self.interpreter, run_times, kinds, needs, self.seen
            )
            for index, (request, bit) in enumerate(zip(requests, own_bits, strict=True))
        )
        self.only = self.alternatives[0] if len(requests) == 1 else None
        self.prefer = self.request.prefer if isinstance(self.request, Either) else 0.0
        self.bits = reduce(or_, (one.bit for one in self.alternatives))
        self.gangs = sum(one.bit for one in self.alternatives if one.count > 1)
        self.learns = any(one.learned is not None for one in self.alternatives)
        self.shared = sum(one.bit for one in self.alternatives if one.shared is not None)

    @property
    def asked(self) -> str:
        """The request as a user would write it; it is made once, as that takes long."""
        if not self._asked:
            self._asked = self.request.ask()
        return self._asked

    @property
    def bit(self) -> int:
        """The bit of the first alternative, by which the queue is known."""
        return self.alternatives[0].bit

    @property
    def least(self) -> float:
        """The seconds that a worker must have left as the tasks have outlived others."""
        return self.alternatives[0].least

    def fits(self, interpreter: str, free: Resource) -> bool:
        """Return True if its tasks can run on workers of an interpreter that have this free."""
        return any(one.fits(interpreter, free) for one in self.alternatives)

    def runs_on(self, interpreter: str) -> bool:
        """Return True if an interpreter can run its tasks."""
        return not self.interpreter or self.interpreter == interpreter

    def why_not_on(self, interpreter: str) -> str:
        """Return a clause with the reason why an interpreter cannot run its tasks."""
        there = interpreter or "an unknown Python"
        return f"it has {there}, and a function that travels by value needs {self.interpreter}"

    def taken_by(self, held: Resource) -> Alternative:
        """Return the alternative by which a task has what it holds: the one that leaves least."""
        if self.only is not None:
            return self.only
        supply = Supply(held)
        able = [one for one in self.alternatives if held.request(one.whole)]
        return min(able, key=lambda one: supply.slack(one.whole), default=self.alternatives[0])


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class TaskQueue(RequestedWays):
    """The waiting tasks of one owner and priority that ask for the same, the oldest first.

    They may be of any functions, which the scheduler does not know.

    Attributes:
        priority: larger goes first.
        share: the owner of the tasks, where several owners share a scheduler.
        avoid: places where its tasks have failed, which go elsewhere first.
        barred: these, and those that are set aside for its owner, as far as other workers can serve
            it: by worker, a mask of its GPUs, or `WHOLE`; None for most queues.
        closed: the bits of those alternatives for which the cluster has not enough free, as
            `ClusterPool.share_out` says.
        open: the bits of those that its oldest task takes now: ``bits``, or the first one's while
            it is to wait for that, see ``prefer``; without those in ``closed``.
        tasks: the waiting tasks, ascending by age. Tasks that were cancelled stay here until they
            come to the front, as taking them out of the middle of a long queue is slow.
        urgent: a heap of (-urgency, age, id) of the waiting tasks, beside entries of some that wait
            no more; None as long as no task of the queue has an urgency.
        cancelled: the number of cancelled tasks in ``tasks``.
        running: the number of its tasks that run; the roots of gangs among them.
        seats: the number of the other members of these gangs.
        serving_shapes: the number of shapes of workers on which such a task fits when they are
            empty, time limits aside. If it is 0, none of the workers can ever run one.
        rank: the queue's place in the order of service, (-priority, age of the oldest task); None
            while no task waits.
        overtakers: the ages of the tasks that overtook its own, ascending: as many as its oldest
            task was overtaken, and at most the limit of the starvation guard.
        durations: the seconds that its last `DURATIONS` runs took which ended by themselves; None
            before the first.
        reservations: the reservations of its oldest tasks, each on a worker of its own.
        reservation_sought: True if a reservation with a known start was looked for since the
            oldest task became the oldest or lost its reservation: once is enough, as looking
            costs much.
        sought_at: the count of the starvation guard at which it last found no worker to reserve.
    """

    priority: int = 0
    share: int = 0
    avoid: tuple[RunPlace, ...] = ()
    barred: Mapping[int, int] | None = None
    closed: int = 0
    open: int = field(init=False)
    tasks: deque[Task] = field(default_factory=deque)
    urgent: list[tuple[float, int, int]] | None = None
    cancelled: int = 0
    running: int = 0
    seats: int = 0
    serving_shapes: int = 0
    rank: tuple[int, int] | None = None
    overtakers: list[int] = field(default_factory=list)
    durations: deque[float] | None = None
    reservations: list[Reservation] = field(default_factory=list)
    reservation_sought: bool = False
    sought_at: int = -1

    def __post_init__(
        self,
        own_bits: Sequence[int],
        run_times: RunTimes,
        needs: Needs,
        kinds: frozenset[str],
    ) -> None:
        RequestedWays.__post_init__(self, own_bits, run_times, needs, kinds)
        self.open = self.bits

    def opened(self) -> Iterator[Alternative]:
        """Yield the alternatives that the oldest task takes now, the first choice first."""
        return (one for one in self.alternatives if one.bit & self.open)

    def on_duration(self, seconds: float) -> None:
        """Note how long a run took that ended by itself."""
        if self.durations is None:
            self.durations = deque(maxlen=DURATIONS)
        self.durations.append(seconds)

    def head(self) -> Task | None:
        """Return the oldest waiting task, and drop the cancelled ones in front of it."""
        tasks = self.tasks
        while tasks:
            if not tasks[0].cancelled:
                return tasks[0]
            tasks.popleft()
            self.cancelled -= 1
        return None

    def age_at(self, place: int) -> float:
        """Return the age of a waiting task by its place, 0 being the oldest; infinite without."""
        if not self.cancelled:
            return self.tasks[place].age if place < len(self.tasks) else math.inf
        waiting = (task.age for task in self.tasks if not task.cancelled)
        return next(islice(waiting, place, None), math.inf)

    def enter_urgent(self, task: Task) -> None:
        """Record the urgency of a task that waits here from now on."""
        if self.urgent is None:
            if not task.urgency:
                return
            self.urgent = [(-one.urgency, one.age, one.id) for one in self.tasks]
            heapify(self.urgent)
        heappush(self.urgent, (-task.urgency, task.age, task.id))

    @property
    def waiting(self) -> int:
        """The number of waiting tasks."""
        return len(self.tasks) - self.cancelled

    def __repr__(self) -> str:
        return f"<TaskQueue {self.request.ask()} priority={self.priority}: {len(self.tasks)}>"


@dataclass(slots=True, eq=False, repr=False)
class WorkerAccount:
    """A worker: its account, the tasks that run on it, and its place in the index.

    Attributes:
        id: the caller's number of it.
        supply: what it has in all, and what of it is free.
        end: when its time is over; ``math.inf`` if it has no limit.
        order: the key by which workers of a level are sorted.
        shape: the group of workers that have the same in all.
        peers: the levels of all workers with its interpreter, see `LevelIndex`.
        level: the group of workers that have the same free; None while the worker is new,
            draining, or among `ReservedWorkers`. It is out of date while the worker is in
            ``QueueTable.unplaced``.
        tasks: the tasks that run on it, by id.
        returned: what ended runs held, with the alternatives that they ran by. The resources are
            not yet free in ``supply``: most often the next task of the same queue takes them over
            as they are, which saves giving back and allocating.
        open_to_all: True if more than what was returned may have become free since the worker was
            placed (it is new, or it took part in a reservation), or if what was returned is not
            what its queue asks for now. Then tasks of all queues are to be considered for it, and
            what was returned is not handed over.
        draining: True if it takes no more tasks.
        why_draining: the reason, if it has told one.
        idle_since: when its last task ended, or when it joined; meaningless while tasks run.
        group, job: what it has in common with others, for the members of gangs; a worker without a
            job has it in common with none.
    """

    id: int
    name: str
    supply: Supply
    shape: Shape
    peers: dict[Hashable, Level]
    end: float
    joined: float
    group: str = ""
    job: str = ""
    idle_since: float = 0.0
    order: tuple[float, int] = (0.0, 0)
    level: Level | None = None
    tasks: dict[int, Task] = field(default_factory=dict)
    returned: list[tuple[Alternative, Resource]] = field(default_factory=list)
    open_to_all: bool = True
    draining: bool = False
    why_draining: str = ""
    reservation: Reservation | None = None

    def __post_init__(self) -> None:
        self.idle_since = self.joined
        self.order = (self.end, self.id)

    @property
    def life(self) -> float:
        """The seconds from when it joined until its time is over."""
        return self.end - self.joined

    def in_common(self, same: str) -> str:
        """Return the name of what the members of a gang have in common with it."""
        if same == "group":
            return self.group
        return self.job or f"{self.name}#{self.id}"

    def has_time(self, by: Alternative, now: float) -> bool:
        """Return True if the worker has enough time left for an alternative, and any at all."""
        return self.end > now and self.end >= now + by.need

    def lets(self, by: Alternative) -> bool:
        """Return True if the tasks of a queue may start here now by an alternative that fits.

        They may not where the place is barred for them, or what else is free is not enough.
        """
        barred = by.queue.barred
        if barred is None or self.id not in barred:
            return True
        mask = barred[self.id]
        if mask == WHOLE:
            return False
        with self.supply.without(mask):
            return self.supply.free.request(by.space)

    def could_serve(self, by: Alternative, barred: Mapping[int, int] | None) -> bool:
        """Return True if it has enough in all for an alternative, without what is barred of it."""
        if not by.bit & self.shape.mask:
            return False
        mask = 0 if barred is None else barred.get(self.id, 0)
        if mask <= 0:
            return mask == 0
        whole = Supply(self.supply.total)
        with whole.without(mask):
            return whole.free.request(by.space)

    def allocate(self, by: Alternative) -> Resource:
        """Take what an alternative asks for, without what is barred for the tasks of its queue."""
        barred = by.queue.barred
        if barred is None or self.id not in barred:
            return self.supply.alloc(by.space)
        with self.supply.without(barred[self.id]):
            return self.supply.alloc(by.space)

    def give_back(self) -> None:
        """Make free in the supply what ended runs held."""
        while self.returned:
            self.supply.dealloc(self.returned.pop()[1])
            self.open_to_all = True


@dataclass(slots=True, eq=False, repr=False)
class Shape:
    """All workers that are alike when nothing runs on them.

    Attributes:
        key: their interpreter, and the level of such a worker's supply when all of it is free.
        interpreter: the interpreter that runs their tasks.
        sample: a supply of this shape, all of it free.
        mask: the bits of the alternatives that fit on such a worker when it is empty.
    """

    key: Hashable
    interpreter: str
    sample: Supply
    mask: int = 0
    workers: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Level:
    """All workers with the same interpreter and resources free, ordered by the time they have left.

    Attributes:
        key: the level of their supplies, see `grain.resource.Supply.level`.
        interpreter: the interpreter that runs their tasks.
        number: distinguishes levels in the heaps of queues.
        sample: a supply of this level that answers for all of them, and that never changes.
        known: the number of the last change of an alternative that it knows of; all while a worker
            is here, or when `LevelIndex.level_of` has returned it.
        mask: the bits of the alternatives that fit.
        in_heap: the bits of the alternatives that have this level in their heap.
        slack: how loosely those fit, by bit.
        since: the number of levels that had got a worker when this one last did.
        memory: what is free of it, in GB; less than 0 if there is none at all.
        families: how loosely the rest of the alternatives of a family fits, by kind; nothing where
            it does not fit.
        order: the sort keys of ``workers``.
        workers: the workers, ascending by the time at which they end.
    """

    key: Hashable
    number: int
    interpreter: str
    sample: Supply
    known: int
    mask: int = 0
    in_heap: int = 0
    since: int = 0
    slack: dict[int, float] = field(default_factory=dict)
    memory: float = field(init=False)
    families: dict[int, dict[str, float]] = field(default_factory=dict)
    order: list[tuple[float, int]] = field(default_factory=list)
    workers: list[WorkerAccount] = field(default_factory=list)

    def __post_init__(self) -> None:
        memory = self.sample.free.get(Memory)
        self.memory = float(memory.M) if isinstance(memory, Memory) else -1.0

    def add(self, worker: WorkerAccount) -> None:
        """Put a worker into its place."""
        at = bisect_left(self.order, worker.order)
        self.order.insert(at, worker.order)
        self.workers.insert(at, worker)

    def remove(self, worker: WorkerAccount) -> None:
        """Take a worker out."""
        at = bisect_left(self.order, worker.order)
        del self.order[at], self.workers[at]

    def forget(self, bit: int) -> None:
        """Forget whether an alternative fits."""
        self.mask &= ~bit
        self.in_heap &= ~bit
        self.slack.pop(bit, None)

    def candidates(self, by: Alternative, now: float) -> Iterable[WorkerAccount]:
        """Return the workers with enough time left for an alternative, in order of preference.

        A task with a known limit goes where the least time remains that still suffices, and leaves
        the long ones to others. A task without one may take any time, and a task that has outlived
        a worker any time above a known one: it goes where it is least likely to be cut off.
        """
        need = by.need
        least = (now + need, -1) if need else (now, math.inf)
        enough = range(bisect_left(self.order, least), len(self.workers))
        return map(self.workers.__getitem__, enough if by.spares_time else reversed(enough))


@dataclass(slots=True, eq=False, repr=False)
class Reservation:
    """Room on a worker, kept for one of the oldest tasks of a queue.

    Attributes:
        by: the alternative for which there will be room, of the queue whose task it is for. Another
            alternative that fits before is welcome, too.
        start: the time at which the task can start at the latest; ``math.inf`` if not known. With
            an unknown start a reservation is sticky, see
            `grain.head.scheduler.guard.starvation_guard`.
        future: an account of what the worker will have free beside the task at ``start``.
        beside: what is taken out of ``future`` already, by task: the runs that may still go on
            at ``start``.
        beside_mask: the bits of the alternatives that fit into ``future``, kept by
            `QueueTable`; None if they are to be worked out again.
        party: the reservations of the members of a gang: of all if the start is known, and else of
            those that it has collected so far; for any other task only this one.
    """

    by: Alternative
    worker: WorkerAccount
    start: float
    future: Supply
    beside: dict[int, Resource]
    beside_mask: int | None = None
    queue: TaskQueue = field(init=False)
    party: list[Reservation] = field(init=False)

    def __post_init__(self) -> None:
        self.queue = self.by.queue
        self.party = [self]

    @property
    def sticky(self) -> bool:
        """True if the start is not known: the worker empties, and stays reserved after that."""
        return self.start == math.inf

    @property
    def lacking(self) -> int:
        """The number of workers that its gang needs and has not collected yet."""
        return self.by.count - len(self.party)

    def allows(self, by: Alternative, now: float) -> bool:
        """Return True if another task may start on the worker without pushing back the start."""
        return self._ends_before(by, now) or self.future.free.request(by.space)

    def on_started(self, task: int, by: Alternative, now: float) -> None:
        """Account for a task of another queue that `allows` has let pass."""
        if not self._ends_before(by, now):
            self.beside[task] = self.future.alloc_whole(by.space)
            self.beside_mask = None

    def on_finished(self, task: int) -> None:
        """Account for the end of a run on the worker."""
        held = self.beside.pop(task, None)
        if held is not None:
            self.future.dealloc(held)
            self.beside_mask = None

    def lapsed(self, now: float) -> bool:
        """Return True if the worker's time has become too short for the task."""
        return self.worker.end < now + self.by.need

    def _ends_before(self, by: Alternative, now: float) -> bool:
        return self.start != math.inf and now + by.limits.hard <= self.start


def serving_gang(
    by: Alternative, workers: Iterable[WorkerAccount], now: float
) -> dict[str, list[WorkerAccount]]:
    """Return the workers that could be members if they were empty, by what they have in common."""
    serving: dict[str, list[WorkerAccount]] = {}
    for worker in workers:
        serves = not worker.draining and worker.could_serve(by, by.queue.barred)
        if serves and worker.has_time(by, now):
            serving.setdefault(worker.in_common(by.same), []).append(worker)
    return serving


def split_time(resource: Resource) -> tuple[WTime | None, Resource]:
    """Return the time limit of a resource and the rest of it, as time is scheduled apart."""
    wtime = resource.get(WTime)
    if not isinstance(wtime, WTime):
        return None, resource
    space = ZERO
    for part in resource.parts().values():
        if part is not wtime:
            space = space & part
    return wtime, space


def divided(request: Resource, kinds: AbstractSet[str]) -> tuple[Resource, Resource | None]:
    """Return the part of a request that a worker gives, and that of the other kinds, if any."""
    parts = request.parts()
    if not kinds or kinds.isdisjoint(parts):
        return request, None
    space = shared = ZERO
    for kind, part in parts.items():
        if kind in kinds:
            shared = shared & part
        else:
            space = space & part
    return space, shared


def limits_of(wtime: WTime | None, run_times: RunTimes) -> Limits:
    """Return the limits of a request, estimated where it names a group with an estimate."""
    return Limits(math.inf, math.inf) if wtime is None else wtime.limits(run_times)
