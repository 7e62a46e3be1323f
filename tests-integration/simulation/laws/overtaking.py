"""The law on overtaking: a task that was overtaken as often as the limit has a worker reserved.

A gang has its workers after two thirds of the limit, as they have to empty.

A task is overtaken by each one behind it in the order of service that starts, while it waits, on a
worker that could serve it if nothing else ran there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.worker.messages import Lease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.head.hub.state import Link
    from grain.head.scheduler.state import Task, TaskQueue, WorkerAccount
    from simulation.heads import HeadProcess
    from simulation.setting import Setting
    from simulation.wire import Mail


class Overtaking:
    """The observer of how often the waiting tasks of one head are overtaken.

    Args:
        world: the world.
        head: the head.
    """

    def __init__(self, world: Setting, head: HeadProcess) -> None:
        self._world = world
        self._head = head
        # How often each waiting task was overtaken, where it was, up to the limit.
        self._counts: dict[Task, int] = {}
        # The queues that could have had their licences when it was last decided.
        self._licensed: set[TaskQueue] = set()

    def on_dispatched(self, mail: Iterable[tuple[Link, Mail]]) -> None:
        """Count what the head has started since the last call, and check those overtaken by it."""
        scheduler = self._head.hub.scheduler
        promised = self._world.max_overtakes or scheduler.max_overtakes
        takers = list(self._started(mail))
        before, self._counts = self._counts, {}
        licensed = set()
        for _, _, queue in scheduler.in_order_of_service:
            limit = promised - promised // 3 if queue.gangs else promised
            passed = [one for one in takers if one.queue is not queue and _could_serve(one, queue)]
            if queue.shared and queue not in self._licensed:
                passed = []  # its licences were kept for an older task when the others started
            if queue.shared & queue.open:
                licensed.add(queue)
            waiting = (task for task in queue.tasks if not task.cancelled)
            for place, task in enumerate(waiting):
                behind = sum(_rank(task) < _rank(taker) for taker in passed)
                count = min(before.get(task, 0) + behind, limit)
                if count:
                    self._counts[task] = count
                reserved = len({id(one.party) for one in queue.reservations if not one.lacking})
                if queue.shared and place:
                    continue  # licences may become free for one, hardly for the next one as well
                if behind and count == limit and place >= reserved:
                    law = "a task that was overtaken often has a worker reserved, if there is one"
                    free = [w for w in scheduler.workers.values() if _reservable(w, queue)]
                    most = self._most_left(queue)
                    few = len(scheduler.apart.choose(free, most + 1, lambda one: one.id)) <= most
                    names = [worker.name for worker in free]
                    self._world.laws.demand(law, few, (queue, place, count, names))
        self._licensed = licensed

    def _most_left(self, queue: TaskQueue) -> int:
        """Return how many workers may have no reservation while a due task lacks some.

        A gang collects each one, if enough are here; but not while the start of a gang before it is
        known, or while some workers are apart, which it may have to choose between.
        """
        scheduler = self._head.hub.scheduler
        need = min(one.count for one in queue.opened())
        here = [w for w in scheduler.workers.values() if not w.draining and serves(w, queue)]
        order = [one for _, _, one in scheduler.in_order_of_service]
        first = [one.reservations[0] for one in order[: order.index(queue)] if one.reservations]
        known = any(one.by.count > 1 and not one.sticky for one in first)
        if need > 1 and (len(here) < need or known or scheduler.apart.known):
            return need - 1
        return 0

    def _started(self, mail: Iterable[tuple[Link, Mail]]) -> Iterable[Task]:
        """Yield the tasks that the scheduler has just started, which do not run alone."""
        hub = self._head.hub
        for link, messages in mail:
            for message, _ in messages:
                if isinstance(message, Lease) and not message.alone:
                    lease = hub.workers.links[link].leases[message.attempt]
                    if lease.scheduler_id is not None and not lease.member:
                        yield hub.scheduler.tasks[lease.scheduler_id]


def _rank(task: Task) -> tuple[int, int]:
    return -task.queue.priority, task.age


def _could_serve(taker: Task, queue: TaskQueue) -> bool:
    """Return True if the worker of a task that has started could serve a queue, when empty."""
    assert taker.worker is not None
    return serves(taker.worker, queue)


def _reservable(worker: WorkerAccount, queue: TaskQueue) -> bool:
    return worker.reservation is None and not worker.draining and serves(worker, queue)


def serves(worker: WorkerAccount, queue: TaskQueue) -> bool:
    """Return True if a worker could serve a queue when empty, by what its tasks take now."""
    return any(
        one.fits(worker.shape.interpreter, worker.supply.total)
        and worker.could_serve(one, queue.barred)
        for one in queue.opened()
    )
