"""The queues: one for each request, priority, owner and interpreter, and their order of service.

Each alternative of a queue has a bit, so that one number says which of them fit at a level. Queues
without tasks are kept for a while, as their requests usually come back; then their bits go to
others.

Where tasks are to wait for their first alternative, the others are *closed*: a queue has their bits
in none of the masks below until its oldest task has waited for so long. Time then opens them, so
`QueueTable.next_opening` says when to look again.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from grain.head.scheduler.apart import ApartWorkers
from grain.head.scheduler.index import LevelIndex, ReservedWorkers
from grain.head.scheduler.state import Shape, Task, TaskQueue, limits_of
from grain.resource import Supply

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from grain.head.needs.groups import LearnedMemory, Needs
    from grain.head.scheduler.cluster import ClusterPool
    from grain.head.scheduler.places import RunPlace
    from grain.head.scheduler.state import Alternative, Level, WorkerAccount
    from grain.resource import Resource, RunTimes

    QueueKey = tuple[int, Resource, int, str, float, tuple[RunPlace, ...]]

# So many queues without tasks are kept.
_IDLE = 256

# So many places of the order are looked at for a queue to renew.
_LOOK = 16

# Before all queues in the order.
_FRONT = (-math.inf, 0)


class QueueTable:
    """All queues, by request and by rank, and the workers that their requests fit.

    Attributes:
        by_request: the queues by priority, request, owner, interpreter, the seconds seen and the
            places that they avoid.
        by_identity: by the identity of the request object that a queue holds: most submissions
            bring the same object again, and comparing requests costs more than all else.
        avoiding: the number of queues whose tasks avoid places.
        by_bit: the alternatives of all queues by their bit.
        outlived: the queues whose tasks have outlived workers, by their bit.
        order: the queues with waiting tasks: (-priority, age of the oldest task, queue), sorted.
        nonempty: the bits of the alternatives that the oldest tasks of the queues take now.
        untried: the bits of those among them for which no worker was sought since the task may have
            become startable. `Scheduler.dispatch` ends when none is left.
        gangs: the bits of the alternatives that ask for several workers at once.
        unseen: the tasks that wait again for their first alternative, since the last decision.
        patient: the queues in ``order`` whose tasks wait for their first alternative, by their bit.
        now: the time of the last decision.
        outdated: the bits of the alternatives for which their group may ask for another amount
            since they were renewed.
        cluster: what the scheduler owns for the whole cluster.
        levels: the workers by what they have free.
        reserved: those with sticky reservations, by the queues whose tasks may start there.
        apart: the pairs of them that gangs avoid.
        shapes: the workers by what they have in all.
        unplaced: the workers, by id, that may have more free than their level says: ended runs
            returned something, or their resources are no longer reserved.
    """

    def __init__(self, run_times: RunTimes, needs: Needs, cluster: ClusterPool) -> None:
        self._run_times = run_times
        self._needs = needs
        self.cluster = cluster
        self._free_bits: list[int] = []
        self._by_priority: dict[int, int] = {}  # the bits of all queues of a priority
        self.by_request: dict[QueueKey, TaskQueue] = {}
        self.by_identity: dict[int, TaskQueue] = {}
        self.avoiding = 0
        self.by_bit: dict[int, Alternative] = {}
        self.outlived: dict[int, TaskQueue] = {}
        self.order: list[tuple[int, int, TaskQueue]] = []
        self.nonempty = 0
        self.untried = 0
        self.gangs = 0
        self.levels = LevelIndex(self.by_bit)
        self.reserved = ReservedWorkers()
        self.shapes: dict[Hashable, Shape] = {}
        self.apart = ApartWorkers()
        self.unplaced: dict[int, WorkerAccount] = {}
        self.unseen: list[Task] = []
        self.patient: dict[int, TaskQueue] = {}
        self.now = -math.inf
        self._by_group: dict[str, int] = {}  # the bits of its alternatives, by group
        self.outdated = 0
        # Behind the last queue in the order that was renewed, or had no need to be.
        self._renewed = _FRONT

    def get(
        self, request: Resource, priority: int, share: int, interpreter: str, seen: float = 0.0
    ) -> TaskQueue:
        """Return the queue of a request, which is new if there was none."""
        queue = self.by_identity.get(id(request))
        if (
            queue is not None
            and queue.priority == priority
            and queue.share == share
            and queue.interpreter == interpreter
            and queue.seen == seen
        ):
            return queue
        key = priority, request, share, interpreter, seen, ()
        return self.by_request.get(key) or self._new(key)

    def avoiding_queue(self, queue: TaskQueue, avoid: tuple[RunPlace, ...]) -> TaskQueue:
        """Return the queue for tasks that ask for the same and avoid some places."""
        key = (
            *(queue.priority, queue.request, queue.share, queue.interpreter, queue.seen),
            avoid,
        )
        return self.by_request.get(key) or self._new(key)

    def renew(self, queue: TaskQueue) -> list[TaskQueue]:
        """Set the memory of a request to what its group needs now; return as `learn`."""
        return self._renew(queue.alternatives) if queue.bits & self.outdated else []

    def enter(self, queue: TaskQueue, head: Task) -> bool:
        """Put a queue into the order of service by its oldest task; return as `set_open`."""
        queue.rank = (-queue.priority, head.age)
        insort(self.order, (-queue.priority, head.age, queue))
        opened = False
        if queue.prefer:
            self.patient[queue.bit] = queue
            opened = self.set_open(queue, head)
        if queue.shared:
            self.cluster.changed = True
        self.nonempty |= queue.open
        return opened

    def rerank(self, queue: TaskQueue) -> bool:
        """Put a queue at the place of its new oldest task, or take it out if no task waits.

        It is tried if and only if it was to be tried before: where the former oldest task found no
        worker, a younger task that asks for the same finds none either.

        Returns:
            True if alternatives are open to it that were not open to the former one.
        """
        if queue.rank is not None:
            del self.order[bisect_left(self.order, queue.rank)]
        head = queue.head()
        if head is None:
            queue.rank = None
            queue.urgent = None
            self.nonempty &= ~queue.bits
            self.untried &= ~queue.bits
            if queue.shared:
                self.cluster.changed = True
            if queue.prefer:
                self.patient.pop(queue.bit, None)
                if not self.patient:
                    self.unseen.clear()  # cancelled, all of them: no decision looks at them
            return False
        return self.enter(queue, head)

    # ---- alternatives that are closed for a time

    def set_open(self, queue: TaskQueue, head: Task) -> bool:
        """Open the alternatives for which its oldest task has waited long enough, close others.

        Where no worker here could serve the first alternative, there is nothing to wait for. Those
        stay closed for which the cluster has not enough free.

        Returns:
            True if any of them is open now that was not.
        """
        bits = queue.bits
        wanted = bits & ~queue.closed
        if queue.prefer and self._awaits_first(queue, head):
            wanted &= queue.bit
        opened = wanted & ~queue.open
        if wanted != queue.open:
            queue.open = wanted
            self.nonempty = self.nonempty & ~bits | wanted
            if opened or self.untried & bits:
                self.untried = self.untried & ~bits | wanted
        return opened != 0

    def _awaits_first(self, queue: TaskQueue, head: Task) -> bool:
        """Return True while the oldest task of a queue is to wait for the first alternative."""
        possible = any(shape.mask & queue.bit for shape in self.shapes.values())
        if queue.shared and self.cluster.never(queue.alternatives[0]):
            possible = False
        return possible and head.started + queue.prefer > self.now

    def date(self, now: float) -> None:
        """Let the wait of tasks for their first alternative begin that came since the last time."""
        self.now = now
        for queue in self.patient.values():
            for task in reversed(queue.tasks):  # the last ones are new
                if task.started != math.inf:
                    break
                task.started = now
        # Only then: some of these stand between new ones.
        for task in self.unseen:
            task.started = now
        self.unseen.clear()

    def next_opening(self) -> float:
        """Return the time at which the next alternatives open; ``math.inf`` if none will."""
        closed = (
            queue for queue in self.patient.values() if queue.open != queue.bits & ~queue.closed
        )
        waits = ((queue.head(), queue.prefer) for queue in closed)
        return min((head.started + prefer for head, prefer in waits if head), default=math.inf)

    # ---- limits

    def estimate(self, group: str) -> None:
        """Set the time limits of the queues of a group to its new estimate."""
        for one in self.by_bit.values():
            if one.wtime is not None and one.wtime.group == group:
                one.limits = limits_of(one.wtime, self._run_times)
                # Shorter limits may suit workers that were out of the question.
                self.untried |= one.bit & self.nonempty

    def learn(self, group: str | None = None) -> list[TaskQueue]:
        """Set the memory of requests to what their group needs now; of all groups for None.

        Returns:
            The queues whose amounts are others now: their reservations are for the old ones.
        """
        bits = -1 if group is None else self._by_group.get(group, 0)
        return self._renew([one for one in self.by_bit.values() if one.learned and one.bit & bits])

    def outdate(self, learned: LearnedMemory) -> list[TaskQueue]:
        """Let the requests of a group ask for other amounts before they start.

        To find an amount takes as long as several decisions, and a group may have a request for
        each size of a problem. A group that asks for its maximum does so at once: its guard bounds
        what learning may cost, and the maximum need not be found.

        Returns:
            As `learn`.
        """
        if learned.certain:
            return self.learn(learned.group)
        self.outdated |= self._by_group[learned.group]
        self._renewed = _FRONT
        return []

    def renew_next(self) -> list[TaskQueue]:
        """Set the memory of the first outdated request in the order of service; return as `learn`.

        Each end of a run renews one, and no task starts by an outdated one. So what learning costs
        does not depend on the number of requests, and a task whose group asks for less than before
        has its turn as soon as there is room.
        """
        at = bisect_left(self.order, self._renewed)
        for rank, age, queue in self.order[at : at + _LOOK]:
            self._renewed = (rank, age + 1)
            if queue.bits & self.outdated:
                return self._renew(queue.alternatives)
        return []

    def _renew(self, alternatives: Iterable[Alternative]) -> list[TaskQueue]:
        changed: dict[int, TaskQueue] = {}
        for one in alternatives:
            self.outdated &= ~one.bit
            if not one.renew_memory():
                continue
            queue = one.queue
            changed[queue.bit] = queue
            self.levels.remove_alternative(one)
            one.heap.clear()
            self.levels.add_alternative(one)
            for shape in self.shapes.values():
                # Taken out and put in again: another alternative of the queue may fit there, too.
                queue.serving_shapes -= bool(shape.mask & queue.bits)
                shape.mask &= ~one.bit
                queue.serving_shapes += bool(shape.mask & queue.bits)
                self._try(one, shape)
            # So what ended runs have returned, which may be the former amount, is not handed over.
            self.untried |= one.bit & self.nonempty
        if changed:
            self._on_fits_changed()
        return list(changed.values())

    def _on_fits_changed(self) -> None:
        """Let reserved workers be looked at again: their masks know nothing of new fits."""
        for worker in self.reserved:
            if worker.reservation is not None:
                worker.reservation.beside_mask = None
            self.open_to_all(worker)

    def startable(self, worker: WorkerAccount) -> tuple[Level, int]:
        """Return the level of what a worker has free, and the bits that it lets start.

        A sticky reservation admits the tasks that it is for, tasks that fit beside them, and all
        tasks of higher priority. Reservations with a known start are not considered.
        """
        level = self.levels.level_of(worker, worker.supply)
        reservation = worker.reservation
        if reservation is None or not reservation.sticky:
            return level, level.mask
        queue = reservation.queue
        if reservation.beside_mask is None:
            reservation.beside_mask = self.levels.level_of(worker, reservation.future).mask
        allowed = queue.bits | reservation.beside_mask
        for priority, bits in self._by_priority.items():
            if priority > queue.priority:
                allowed |= bits
        return level, level.mask & allowed

    def settle(self, worker: WorkerAccount, level: Level, mask: int) -> None:
        """Put a worker into the index, as `startable` says."""
        if worker.reservation is not None and worker.reservation.sticky:
            self.levels.remove(worker)
            self.reserved.place(worker, mask)
        else:
            self.reserved.remove(worker)
            self.levels.place(worker, level)

    def place(self, worker: WorkerAccount) -> None:
        """Put a worker where what it has free belongs; the queues that fit there are tried."""
        level, mask = self.startable(worker)
        self.settle(worker, level, mask)
        self.untried |= mask & self.nonempty

    def open_to_all(self, worker: WorkerAccount) -> None:
        """Let tasks of all queues try a worker again."""
        worker.open_to_all = True
        self.unplaced[worker.id] = worker

    def withdraw(self, worker: WorkerAccount) -> None:
        """Let no more tasks start on a worker."""
        self.unplaced.pop(worker.id, None)
        self.levels.remove(worker)
        self.reserved.remove(worker)

    def join(self, supply: Supply, interpreter: str) -> Shape:
        """Return the shape of a new worker, which counts it from now on."""
        key = interpreter, supply.level()
        shape = self.shapes.get(key)
        if shape is None:
            shape = self.shapes[key] = Shape(key, interpreter, Supply(supply.total))
            for one in self.by_bit.values():
                self._try(one, shape)
        shape.workers += 1
        return shape

    def leave(self, worker: WorkerAccount) -> None:
        """Forget a worker."""
        self.withdraw(worker)
        shape = worker.shape
        shape.workers -= 1
        if not shape.workers:
            del self.shapes[shape.key]
            for queue in self.by_request.values():
                queue.serving_shapes -= bool(shape.mask & queue.bits)

    def require(self, queue: TaskQueue, least: float) -> None:
        """Set the seconds that a worker must have left for tasks that have outlived others."""
        for one in queue.alternatives:
            one.least = least
        self.untried |= queue.bits & self.nonempty

    def _new(self, key: QueueKey) -> TaskQueue:
        priority, request, share, interpreter, seen, avoid = key
        if len(self.by_request) - len(self.order) > _IDLE:
            self._discard_unused()
        bits: list[int] = []
        for _ in request.alternatives():
            # Freed bits first: masks stay as long as there are alternatives, and no longer.
            new = 1 << len(self.by_bit) + len(bits)
            bits.append(self._free_bits.pop() if self._free_bits else new)
        queue = TaskQueue(
            request,
            bits,
            self._run_times,
            self._needs,
            self.cluster.kinds,
            interpreter,
            seen,
            priority=priority,
            share=share,
            avoid=avoid,
        )
        self.by_bit.update((one.bit, one) for one in queue.alternatives)
        self.gangs |= queue.gangs
        self.by_request[key] = queue
        self.avoiding += bool(avoid)
        if seen:
            self.outlived[queue.bit] = queue
        if not avoid:
            self.by_identity.setdefault(id(request), queue)
        for one in queue.alternatives:
            if one.learned is not None:
                group = one.learned.group
                self._by_group[group] = self._by_group.get(group, 0) | one.bit
            for shape in self.shapes.values():
                self._try(one, shape)
            self.levels.add_alternative(one)
        self._by_priority[priority] = self._by_priority.get(priority, 0) | queue.bits
        self._on_fits_changed()
        return queue

    def _discard_unused(self) -> None:
        """Forget the queues that have no tasks, waiting or running."""
        for key, queue in list(self.by_request.items()):
            if not queue.running and not queue.seats and queue.rank is None:
                del self.by_request[key]
                self.avoiding -= bool(queue.avoid)
                self.gangs &= ~queue.gangs
                self.outdated &= ~queue.bits
                self.outlived.pop(queue.bit, None)
                self._by_priority[queue.priority] &= ~queue.bits
                if not self._by_priority[queue.priority]:
                    del self._by_priority[queue.priority]
                if self.by_identity.get(id(queue.request)) is queue:
                    del self.by_identity[id(queue.request)]
                for one in queue.alternatives:
                    del self.by_bit[one.bit]
                    if one.learned is not None:
                        self._by_group[one.learned.group] &= ~one.bit
                    self._free_bits.append(one.bit)
                    self.levels.remove_alternative(one)
                for shape in self.shapes.values():
                    shape.mask &= ~queue.bits

    def _try(self, one: Alternative, shape: Shape) -> None:
        if one.fits(shape.interpreter, shape.sample.total):
            one.queue.serving_shapes += not shape.mask & one.queue.bits
            shape.mask |= one.bit
