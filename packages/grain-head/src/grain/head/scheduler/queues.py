"""The queues: one for each request and priority, and the order in which they are served.

Each queue has a bit, by which levels and shapes tell in one number which queues fit. Queues whose
last task left are kept for a while, as their requests usually come back; then their bits are
given to others.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from grain.head.scheduler.index import LevelIndex, Shape
from grain.head.scheduler.state import Task, TaskQueue
from grain.resource import Supply

if TYPE_CHECKING:
    from collections.abc import Hashable

    from grain.head.scheduler.index import Worker
    from grain.resource import Resource, RunTimes

# So many queues without tasks are kept.
_IDLE = 256


class QueueTable:
    """All queues, by request and by rank, and where their requests fit.

    Attributes:
        by_request: the queues by priority, request and owner.
        by_identity: by the identity of the request object that a queue holds: most submissions
            bring the same object again, and comparing requests costs more than all else.
        by_bit: the queues by their bit.
        order: the queues with waiting tasks: (-priority, age of the oldest task, queue), sorted.
        active: bit mask of the queues with waiting tasks.
        open: bit mask of those that may find room.
        levels: the workers by what they have free.
        shapes: the workers by what they have in all.
    """

    __slots__ = (
        "_run_times",
        "active",
        "by_bit",
        "by_identity",
        "by_request",
        "free_bits",
        "levels",
        "open",
        "order",
        "shapes",
    )

    def __init__(self, run_times: RunTimes) -> None:
        self._run_times = run_times
        self.by_request: dict[tuple[int, Resource, int], TaskQueue] = {}
        self.by_identity: dict[int, TaskQueue] = {}
        self.by_bit: dict[int, TaskQueue] = {}
        self.free_bits: list[int] = []
        self.order: list[tuple[int, int, TaskQueue]] = []
        self.active = 0
        self.open = 0
        self.levels = LevelIndex()
        self.shapes: dict[Hashable, Shape] = {}

    def get(self, request: Resource, priority: int, share: int) -> TaskQueue:
        """The queue of a request, made if there is none."""
        queue = self.by_identity.get(id(request))
        if queue is not None and queue.priority == priority and queue.share == share:
            return queue
        known = self.by_request.get((priority, request, share))
        return known or self._new(request, priority, share)

    def activate(self, queue: TaskQueue, head: Task) -> None:
        """A queue has a waiting task, of which this is the oldest."""
        queue.rank = (-queue.priority, head.seq)
        insort(self.order, (-queue.priority, head.seq, queue))
        self.active |= queue.bit

    def rerank(self, queue: TaskQueue) -> None:
        """The oldest task of a queue is another now, or none waits any more.

        Where the last one found no room, a younger one that asks for the same finds none either:
        whether the queue is open does not change.
        """
        if queue.rank is not None:
            del self.order[bisect_left(self.order, queue.rank)]
        head = queue.head()
        if head is None:
            queue.rank = None
            self.active &= ~queue.bit
            self.open &= ~queue.bit
        else:
            self.activate(queue, head)

    def place(self, worker: Worker) -> None:
        """Note at which level a worker is now; queues that fit there may be served."""
        level = self.levels.of(worker, self.by_bit.values())
        self.levels.place(worker, level, self.by_bit.values())
        self.open |= level.mask & self.active

    def join(self, worker: Worker) -> None:
        """A worker is here: which queues it could serve if nothing ran on it."""
        key = worker.supply.level()
        shape = self.shapes.get(key)
        if shape is None:
            shape = self.shapes[key] = Shape(key, Supply(worker.supply.total))
            for queue in self.by_bit.values():
                self._try(queue, shape)
        shape.workers += 1
        worker.shape = shape

    def leave(self, worker: Worker) -> None:
        """A worker is gone."""
        self.levels.drop(worker)
        shape = worker.shape
        assert shape is not None
        shape.workers -= 1
        if not shape.workers:
            del self.shapes[shape.key]
            for queue in self.by_bit.values():
                queue.served -= bool(shape.mask & queue.bit)

    def _new(self, request: Resource, priority: int, share: int) -> TaskQueue:
        if len(self.by_request) - self.active.bit_count() > _IDLE:
            self._retire()
        bit = self.free_bits.pop() if self.free_bits else 1 << len(self.by_bit)
        queue = TaskQueue(request, priority, bit, self._run_times, share)
        self.by_request[priority, request, share] = self.by_bit[bit] = queue
        self.by_identity.setdefault(id(request), queue)
        for shape in self.shapes.values():
            self._try(queue, shape)
        self.levels.admit(queue)
        return queue

    def _retire(self) -> None:
        """Forget the queues that have no tasks, waiting or running."""
        for key, queue in list(self.by_request.items()):
            if not queue.running and not self.active & queue.bit:
                del self.by_request[key], self.by_bit[queue.bit]
                self.free_bits.append(queue.bit)
                if self.by_identity.get(id(queue.request)) is queue:
                    del self.by_identity[id(queue.request)]
                self.levels.retire(queue)
                for shape in self.shapes.values():
                    shape.mask &= ~queue.bit

    def _try(self, queue: TaskQueue, shape: Shape) -> None:
        if shape.sample.total.request(queue.space):
            shape.mask |= queue.bit
            queue.served += 1
