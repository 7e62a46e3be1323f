"""The records of the scheduler: tasks, their queues, and the leases of running ones."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from grain.resource import ZERO, Limits, WTime

if TYPE_CHECKING:
    from grain.head.scheduler.index import Level, Worker
    from grain.head.scheduler.reservation import Promise
    from grain.resource import Resource, RunTimes


class Task:
    """One task: it waits in its queue, or it runs and holds resources of a worker."""

    __slots__ = (
        "attempt",
        "cancelled",
        "held",
        "id",
        "queue",
        "seq",
        "started",
        "until",
        "worker",
    )

    def __init__(self, id: int, queue: TaskQueue, seq: int) -> None:  # noqa: A002 - its name
        self.id = id
        self.queue = queue
        self.seq = seq
        self.cancelled = False
        # Of a running task: where, which attempt, with what, since when, and when its hard time
        # limit ends it (inf without one), in the scheduler's time.
        self.worker: Worker | None = None
        self.attempt = 0
        self.held = ZERO
        self.started = 0.0
        self.until = math.inf

    def __repr__(self) -> str:
        return f"<Task {self.id}: {self.queue.request.ask()}>"


class Start(NamedTuple):
    """The decision to run a task: the scheduler's outgoing command."""

    worker: int
    task: int
    attempt: int
    # What the run may use: allocated resources and its time limits.
    allocation: Resource
    # The hard time limit in seconds; inf if there is none.
    limit: float


class TaskQueue:
    """All waiting tasks of one priority that ask for the same: first come, first served.

    The scheduler decides between queues, of which there are few, and not between tasks.
    """

    __slots__ = (
        "bit",
        "cancelled",
        "heap",
        "limits",
        "overtaken",
        "priority",
        "promise",
        "protected",
        "rank",
        "request",
        "running",
        "served",
        "share",
        "space",
        "span",
        "tasks",
        "wtime",
    )

    def __init__(
        self, request: Resource, priority: int, bit: int, run_times: RunTimes, share: int = 0
    ) -> None:
        self.request = request
        self.priority = priority
        # Whose tasks these are, where several share a scheduler.
        self.share = share
        # This queue's place in the bit masks of levels and shapes.
        self.bit = bit
        wtime, self.space = split_time(request)
        self.wtime = wtime
        self.limits = limits_of(wtime, run_times)
        self.tasks: deque[Task] = deque()
        # How many of them are cancelled: they are dropped when they come to the front.
        self.cancelled = 0
        self.running = 0
        # How many shapes of workers could run such a task if they were empty, time limits aside.
        self.served = 0
        # Levels at which this request fits, the tightest first: (slack, number, level).
        self.heap: list[tuple[float, int, Level]] = []
        # Where this queue stands in the order of service while a task waits: priority, then age.
        self.rank: tuple[int, int] | None = None
        # How often younger tasks were started where the head of this queue could have run.
        self.overtaken = 0
        # Seconds that its runs took lately, where somebody measures it (`grain.head.hub.prefetch`).
        self.span = 1.0
        # The promise made to the head, and whether one was already looked for.
        self.promise: Promise | None = None
        self.protected = False

    def head(self) -> Task | None:
        """The oldest waiting task; cancelled ones are dropped on the way."""
        tasks = self.tasks
        while tasks:
            if not tasks[0].cancelled:
                return tasks[0]
            tasks.popleft()
            self.cancelled -= 1
        return None

    @property
    def waiting(self) -> int:
        """How many tasks wait."""
        return len(self.tasks) - self.cancelled

    def has_equal_levels(self) -> bool:
        """Whether another level may fit as tightly as the first one: the heap's next two tell."""
        heap = self.heap
        return any(entry[0] == heap[0][0] for entry in heap[1:3])

    @property
    def need(self) -> float:
        """The seconds that a worker must have left to take such a task."""
        soft = self.limits.soft
        return soft if soft != math.inf else 0.0

    def __repr__(self) -> str:
        return f"<TaskQueue {self.request.ask()} priority={self.priority}: {len(self.tasks)}>"


def split_time(resource: Resource) -> tuple[WTime | None, Resource]:
    """The time limit of a resource and the rest of it, as time is scheduled apart."""
    wtime = resource.get(WTime)
    if not isinstance(wtime, WTime):
        return None, resource
    space = ZERO
    for part in resource.parts().values():
        if part is not wtime:
            space = space & part
    return wtime, space


def limits_of(wtime: WTime | None, run_times: RunTimes) -> Limits:
    """The limits of a request, estimated where it names a group with an estimate."""
    return Limits(math.inf, math.inf) if wtime is None else wtime.limits(run_times)
