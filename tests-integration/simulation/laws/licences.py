"""The laws on licences of the whole cluster: for whom those are kept that are free.

They hold for each decision of a head. What is free when it begins is what is free afterwards, and
what was handed out in it, but to tasks that run alone, which go first.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from grain.head.scheduler.state import serving_gang
from grain.resource import Licences
from grain.worker.messages import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.hub.state import Link
    from grain.head.scheduler.state import Alternative, Reservation, Task, TaskQueue, WorkerAccount
    from grain.resource import Resource
    from simulation.heads import HeadProcess
    from simulation.setting import Setting
    from simulation.wire import Mail


class KeptLicences:
    """The observer of the licences that one head hands out.

    Args:
        world: the world.
        head: the head.
    """

    def __init__(self, world: Setting, head: HeadProcess) -> None:
        self._world = world
        self._head = head
        self._reservations: set[Reservation] = set()

    def on_dispatched(self, mail: Iterable[tuple[Link, Mail]]) -> None:
        """Check what a head has started in a decision."""
        if not self._world.has_licences:
            return
        scheduler = self._head.hub.scheduler
        cluster = scheduler.cluster
        demand = self._world.laws.demand
        takers = [one for one in self._started(mail) if one.id in cluster.held]
        usage = cluster.usage()["Licences"]
        free = Counter({name: total - used for name, (used, total) in usage.items()})
        before = free.copy()
        for task in takers:
            before.update(_counts(cluster.held[task.id]))
        kept: Counter[str] = Counter()
        for emptied in self._head.hub.quarantine.waiting.values():
            if emptied is not None:
                kept.update(_asked(emptied.by))
        law = "licences are kept for each task that is to have workers to itself"
        demand(law, all(kept[name] <= free[name] for name in kept), (kept, free))
        for rank, age, queue in scheduler.in_order_of_service:
            behind = [one for one in takers if (rank, age) < _rank(one)]
            taken: Counter[str] = Counter()
            for task in behind:
                taken.update(_counts(cluster.held[task.id]))
            lacks = [name for name, n in _needs(queue).items() if before[name] < n]
            law = "licences that become free are kept for the oldest task that has too few"
            demand(law, not any(taken[name] for name in lacks), (queue, behind, before))
            if any(one.queue is queue for one in takers):
                continue  # its oldest task had what was kept
            # Its reservation ends where it lacks licences; or where its worker is for another, or
            # too few could be members of its gang, as one of them was lost.
            lost = (one for one in self._reservations if one.queue is queue and queue.closed)
            reserved = [one for one in lost if self._would_be_reserved(one)]
            for name, n in _asked(reserved[0].by).items() if reserved else ():
                law = "licences are kept for a task that has a worker reserved"
                enough = not taken[name] or before[name] < n or free[name] >= n
                demand(law, enough, (queue, behind, before))
        self._reservations = {
            one for *_, queue in scheduler.in_order_of_service for one in queue.reservations
        }

    def _would_be_reserved(self, reservation: Reservation) -> bool:
        """Return True if its task can run there, and nothing is reserved in its place."""
        scheduler, worker, by = self._head.hub.scheduler, reservation.worker, reservation.by
        here = scheduler.workers.get(worker.id) is worker and not worker.draining
        if not here or worker.reservation not in (None, reservation):
            return False
        able = serving_gang(by, scheduler.workers.values(), self._head.now).values()
        return any(len(scheduler.apart.members(by, one, _itself, one)) == by.count for one in able)

    def _started(self, mail: Iterable[tuple[Link, Mail]]) -> Iterable[Task]:
        """Yield the tasks that the scheduler has just started, with the seats of gangs."""
        hub = self._head.hub
        for link, messages in mail:
            for message, _ in messages:
                if isinstance(message, Lease) and not message.alone:
                    lease = hub.workers.links[link].leases[message.attempt]
                    if lease.scheduler_id is not None:
                        yield hub.scheduler.tasks[lease.scheduler_id]


def _itself(worker: WorkerAccount) -> WorkerAccount:
    return worker


def _rank(task: Task) -> tuple[int, int]:
    return -task.queue.priority, task.age


def _counts(part: Resource | None) -> dict[str, int]:
    licences = None if part is None else part.get(Licences)
    return licences.counts if isinstance(licences, Licences) else {}


def _asked(by: Alternative) -> dict[str, int]:
    """Return the licences that all members have by an alternative."""
    return {name: by.count * n for name, n in _counts(by.shared).items()}


def _needs(queue: TaskQueue) -> dict[str, int]:
    """Return the licences without which no task of a queue can start."""
    return {} if queue.bits & ~queue.shared else _asked(queue.alternatives[0])
