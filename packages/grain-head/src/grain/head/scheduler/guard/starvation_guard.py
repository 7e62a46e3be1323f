"""The starvation guard: limits on overtaking, and the tasks that get, keep and lose reservations.

`reservation` beside it finds the worker and the time; this is the policy around it.

A task is *overtaken* by each younger task that starts, while it waits, on a worker that could serve
it. The rules:

1.  A task that was overtaken as often as the limit says is *due*: a worker is reserved for it. The
    limit is a total: on a few workers always the same, as a reservation costs what one worker could
    have done while it empties, however many others there are. On many it grows with them: they
    start more tasks in the same time, and where too many tasks were due at once, all workers would
    be emptied for them.
2.  Each waiting task has its own count, also the second and the third of its queue: a queue has as
    many reservations as it has due tasks, as long as there are workers without one. So the limit
    holds however many tasks ask for the same, and on any number of workers.
3.  Such a reservation is *sticky*. When its task starts, the worker stays reserved for the next one
    of the queue, for which it would have to be emptied again later: it is emptied once, and then
    serves several. Meanwhile tasks of other queues use only what fits beside, older ones of the
    same priority, too; but when one of these is due, it gets the worker at the next start.
4.  Where hard limits say when the oldest task of a queue can start, that start is reserved at once,
    without counting. Such a reservation is not sticky, and older tasks may push it back.
5.  A gang is due after two thirds of the limit, as several workers have to empty for it, while
    younger tasks start on the others. It collects workers: at once all that are reserved for no
    one, or for tasks that come after it, and each other one when the tasks that go first have left
    it. What it has stays reserved meanwhile, so younger tasks do not hold it up there. The order of
    the tasks decides each dispute, so two gangs never wait for each other. It collects none where
    too few workers could be its members, and begins with none while the start of a gang before it
    is known.

Where tasks have alternatives, those count that its oldest task takes now: a worker that offers none
of these is not one that could serve it. A reservation is for one of them. While the worker empties,
the task may start anywhere, and by any.

Each queue keeps the ages of the tasks that overtook its own, which are as many as its oldest task
was overtaken; those of them that are larger than the age of another of its tasks are as many as
that one was overtaken. More than the limit are never needed.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from grain.head.scheduler.guard.reservation import beside_task, best_reservation, reservation_on
from grain.head.scheduler.state import Reservation, serving_gang

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from grain.head.scheduler.queues import QueueTable
    from grain.head.scheduler.state import Alternative, Task, TaskQueue, WorkerAccount

MAX_OVERTAKES = 64
"""The number of times that a task may be overtaken before a worker is reserved for it, where run
times are not known; tools/bench/fairness.py shows the cost of other values, and test_makespan.py
holds it."""

MORE_OVERTAKES, FEW_WORKERS = 32, 4
"""The number of times more for each worker beyond the first few."""

EMPTYING = 3
"""The part of that number, one over it, which is left to gangs while their workers empty."""

# So many workers are looked at to find the best reservation: a bound on cost, not on waiting.
_SAMPLE = 64

# Of those, so many with the fewest runs are compared closely where no start is known.
_COMPARED = 4


class StarvationGuard:
    """The guarantee that every task that is passed over starts in the end.

    Args:
        max_overtakes: how often a task may be overtaken before it gets a reservation, where run
            times are not known, less than 1 counting as 1; None for `MAX_OVERTAKES`, and
            `MORE_OVERTAKES` for each worker beyond the first few.
    """

    def __init__(
        self, workers: Mapping[int, WorkerAccount], queues: QueueTable, max_overtakes: int | None
    ) -> None:
        self._workers = workers
        self._queues = queues
        self._max_overtakes = max_overtakes
        # The number of times that a worker became reservable, or a task due without being overtaken
        # or without its worker, and that at the last look for tasks that are due. A queue whose due
        # task found no worker looks again only after another.
        self._openings = 0
        self._seen_openings = 0
        # The queues with a due gang that lacked workers at the last look.
        self._gathering: list[TaskQueue] = []
        # The queues whose oldest task was overtaken under another scheduler.
        self._known: list[TaskQueue] = []
        # The first time at which a worker may have too little time left for its reservation.
        self._lapse = math.inf

    @property
    def limit(self) -> int:
        """The number of times that a task may be overtaken now, at least 1."""
        if self._max_overtakes is not None:
            return max(self._max_overtakes, 1)
        return MAX_OVERTAKES + MORE_OVERTAKES * max(len(self._workers) - FEW_WORKERS, 0)

    def due_after(self, queue: TaskQueue) -> int:
        """Return how often the tasks of a queue may be overtaken until they are due, at least 1."""
        limit = self.limit
        return limit - limit // EMPTYING if queue.gangs else limit

    def permits(self, by: Alternative, worker: WorkerAccount, now: float) -> bool:
        """Return True if a reservation with a known start lets the oldest task start by a request.

        False as well where the worker is barred for the task. Sticky reservations are considered by
        `QueueTable.startable`, at less cost.
        """
        reservation = worker.reservation
        queue = by.queue
        if queue.barred is not None and not worker.lets(by):
            return False
        if reservation is None or reservation.sticky or reservation.queue is queue:
            return True
        assert queue.rank is not None
        assert reservation.queue.rank is not None
        return queue.rank < reservation.queue.rank or reservation.allows(by, now)

    # ---- what happens

    def on_worker_open(self) -> None:
        """Let due tasks look for a worker again: one joined, or takes tasks again."""
        self._openings += 1

    def on_worker_left(self) -> None:
        """Forget what a lower limit does not need; tasks may be due now that were not before."""
        for _, _, queue in self._queues.order:
            del queue.overtakers[: -self.due_after(queue)]
        self._openings += 1

    def on_apart(self, worker: WorkerAccount) -> None:
        """End the reservation of a worker for a gang with another one that is apart from it."""
        reservation = worker.reservation
        if reservation is not None and any(
            one is not reservation and self._queues.apart.are_apart(worker.id, one.worker.id)
            for one in reservation.party
        ):
            self.lose(reservation)

    def on_limits_changed(self) -> None:
        """Look at all reservations again at the next dispatch: tasks may need other times now."""
        self._lapse = -math.inf
        self._openings += 1

    def on_dispatch(self, now: float) -> None:
        """Look at the reservations before anything starts.

        Those end for which their workers' time has become too short. If the oldest task of all was
        due under another scheduler, it takes what is reservable, or younger ones would fill at each
        start of a scheduler what had become empty for it.
        """
        if self._known and self._queues.order and self._queues.order[0][2] in self._known:
            self.reserve_due(self._queues.order[0][2], now)
        if now < self._lapse:
            return
        self._lapse = math.inf
        for worker in self._workers.values():
            reservation = worker.reservation
            if reservation is not None and reservation.lapsed(now):
                self.lose(reservation)
            elif reservation is not None:
                self._lapse = min(self._lapse, worker.end - reservation.by.need)

    def on_passed_over(self, queue: TaskQueue, now: float) -> None:
        """Reserve a start for the oldest task of a queue, if a known one can be found.

        Called before a task behind it is started, so that this one cannot push the start back.
        """
        # Where a part of a worker is barred, nothing says when the rest of it is free.
        if queue.barred is None and not queue.reservations and not queue.reservation_sought:
            queue.reservation_sought = True
            sample = islice(self._reservable(queue), _SAMPLE)
            reservation = best_reservation(queue, sample, now)
            if reservation is not None and not reservation.sticky:
                self._add(reservation)
            elif queue.gangs & queue.open:
                self._reserve_earliest(queue, (), now)

    def on_known(self, queue: TaskQueue, head: Task, times: int) -> None:
        """Count what overtook the only task of a queue under another scheduler."""
        # Each is older than the next task of the queue, and does not count for that.
        queue.overtakers += [head.age + 1] * min(times, self.due_after(queue))
        self._known.append(queue)
        self._openings += 1

    def on_overtaken(self, taker: Task, worker: WorkerAccount, now: float) -> None:
        """Count a start on a worker that could have served the older tasks of other queues."""
        mask = worker.shape.mask
        for _, _, queue in self._queues.order:
            if queue is taker.queue:
                return
            if not mask & queue.open or not _could_serve(queue, worker):
                continue
            age = taker.age
            if queue.priority != taker.queue.priority:
                # Ages of different priorities do not compare: it overtakes all that wait now.
                age = queue.tasks[-1].age + 1
            overtakers = queue.overtakers
            if len(overtakers) == self.due_after(queue):
                if age < overtakers[0]:
                    continue
                del overtakers[0]
            insort(overtakers, age)
            self.reserve_due(queue, now)

    def on_reserved_start(self, reservation: Reservation, now: float) -> None:
        """Keep a worker reserved whose reservation has been used, for the first that wants it.

        That is the next task of its queue, or a task that is due, whichever goes first. The caller
        has the worker placed again if it has another reservation then.
        """
        worker = reservation.worker
        if worker.reservation is not reservation:
            return  # no task is left for it, or its start was a known one
        if reservation.by.count > 1:
            self.end(reservation)  # another alternative of its gang fitted before
            return
        mask = worker.shape.mask
        # A queue that is the only waiting one overtakes no other.
        for _, _, queue in self._queues.order if len(self._queues.order) > 1 else ():
            if queue is reservation.queue:
                if worker.has_time(reservation.by, now) and reservation.by.bit & queue.open:
                    return
            elif (
                mask & queue.open & ~queue.gangs
                and _could_serve(queue, worker)
                and self._due(queue, _tasks_of(queue))
            ):
                another = _sticky_on_best(queue, (worker,), now)
                if another is not None:
                    self._release(reservation)
                    self._add(another)
                    return
        self.end(reservation)

    def on_gang_started(self, queue: TaskQueue, members: Iterable[WorkerAccount]) -> None:
        """End the reservations of a gang that starts; another of its queue may lose some workers.

        Called before the queue has its new oldest task.
        """
        used = {one.worker.id: one for one in queue.reservations}
        kept = [used[worker.id] for worker in members if worker.id in used]
        if kept:
            self.end(min(kept, key=queue.reservations.index))
        for reservation in kept:
            if reservation.worker.reservation is reservation:
                self.lose(reservation)

    def rerank(self, queue: TaskQueue) -> None:
        """Put a queue at the place of its new oldest task."""
        if self._queues.rerank(queue):
            self.on_opened(queue)
        self.on_head_changed(queue)

    def try_gangs(self) -> None:
        """Let gangs look for workers again: other ones than before may be together."""
        self._queues.untried |= self._queues.gangs & self._queues.nonempty
        self.on_worker_open()

    def on_head_changed(self, queue: TaskQueue) -> None:
        """Bring the counts and reservations of a queue in line with its new oldest task, if any."""
        queue.reservation_sought = False
        if self._known and queue in self._known:
            self._known.remove(queue)
        head = queue.head()
        if head is None:
            queue.overtakers.clear()
        elif queue.overtakers:
            del queue.overtakers[: bisect_right(queue.overtakers, head.age)]
        reservations = queue.reservations
        if reservations:
            # They are for younger tasks now, which may come after a gang that collects workers.
            for gathering in self._gathering:
                gathering.sought_at = self._seen_openings = -1
            # One with a known start was the first to be made.
            if not reservations[0].sticky:
                self.end(reservations[0])
            self.on_fewer(queue)
            self.on_closed(queue)

    def on_older(self, queue: TaskQueue) -> None:
        """Let due tasks look for a worker again: an older one came, and may take that of another.

        A run that was handed back is one, whose worker was reserved until it had started.
        """
        if queue.overtakers:
            self._openings += 1

    def on_opened(self, queue: TaskQueue) -> None:
        """Let a queue look for a worker again of which other alternatives are open now."""
        queue.reservation_sought = False
        self._openings += 1

    def on_barred(self, queue: TaskQueue, before: Mapping[int, int] | None) -> None:
        """End the reservations of workers of which another part is barred than before.

        What may run beside the task is another question then. The queue looks for workers again.
        """
        old, new = before or {}, queue.barred or {}
        for reservation in list(queue.reservations):
            worker = reservation.worker.id
            if old.get(worker) != new.get(worker) and reservation in queue.reservations:
                self.end(reservation)
        self.on_opened(queue)

    def on_closed(self, queue: TaskQueue) -> None:
        """End the reservations for alternatives that the oldest task of a queue does not take."""
        for reservation in list(queue.reservations):
            if not reservation.by.bit & queue.open and reservation in queue.reservations:
                self.end(reservation)

    def on_fewer(self, queue: TaskQueue) -> None:
        """End the reservations of a queue for which it has no tasks left."""
        while _tasks_of(queue) > queue.waiting:
            self.end(queue.reservations[-1])

    def on_dispatched(self, now: float) -> None:
        """Reserve workers that became reservable for tasks that are due, the oldest first."""
        if self._seen_openings != self._openings:
            self._seen_openings = self._openings
            for _, _, queue in self._queues.order:
                self.reserve_due(queue, now)
            self._gathering = [queue for queue in self._gathering if self._lacks(queue)]

    def end(self, reservation: Reservation) -> None:
        """End a reservation, or all of a gang: the task started or is gone."""
        for one in tuple(reservation.party):
            self._drop(one)

    def lose(self, reservation: Reservation | None) -> None:
        """End a reservation whose worker is or has no time left, or serves a task that goes first.

        The others of a gang stay, if its start is not known: they have emptied for it so far.
        """
        if reservation is None:
            return
        if reservation.sticky:
            self._drop(reservation)
        else:
            self.end(reservation)

    def on_amounts_changed(self, queues: Iterable[TaskQueue]) -> None:
        """End the reservations of queues that ask for other amounts than before."""
        for queue in queues:
            for reservation in list(queue.reservations):
                self.lose(reservation)

    # ---- the parts of that

    def _due(self, queue: TaskQueue, place: int) -> bool:
        """Return True if the task at a place of a queue was overtaken as often as the limit."""
        overtakers = queue.overtakers
        if len(overtakers) < self.due_after(queue) or place >= queue.waiting:
            return False
        if place == 0:
            return True
        if queue.shared:  # a worker would be emptied for what the cluster may not have
            return False
        return queue.age_at(place) < overtakers[0]

    def reserve_due(self, queue: TaskQueue, now: float) -> None:
        """Reserve workers for each due task of a queue, as long as there are some."""
        while queue.sought_at != self._openings and self._lacks(queue):
            if not self._reserve_one(queue, now):
                queue.sought_at = self._openings
                if queue.gangs and queue not in self._gathering:
                    self._gathering.append(queue)

    def _lacks(self, queue: TaskQueue) -> bool:
        """Return True if a due task of a queue has no worker, or a gang has some of its workers."""
        if queue.gangs and _incomplete(queue):
            return True
        return self._due(queue, _tasks_of(queue))

    def _reserve_one(self, queue: TaskQueue, now: float) -> bool:
        """Reserve workers for the first task of a queue that lacks them, if there are some."""
        if queue.gangs == queue.bits or (queue.gangs and _incomplete(queue)):
            return self._gather(queue, now)
        single = self._fastest_single(queue, now)
        if single is None:
            return queue.gangs != 0 and self._gather(queue, now)
        self._add_settled(single)
        return True

    def _reserve_earliest(self, queue: TaskQueue, later: Container[int], now: float) -> bool:
        """Reserve a known start for the oldest gang of a queue; return True if there is one.

        All reservations have that start: the latest of those that its members have by themselves.

        Args:
            later: the ids of workers that are reserved for other tasks, and that it may have.
        """
        for by in queue.opened():
            if by.count == 1:
                continue
            able: dict[str, list[WorkerAccount]] = {}
            for worker in self._workers.values():
                if worker.draining or not by.bit & worker.shape.mask:
                    continue
                if worker.reservation is None or worker.id in later:
                    able.setdefault(worker.in_common(by.same), []).append(worker)
            parties = []
            for workers in able.values():
                if len(workers) >= by.count:
                    each = (reservation_on(by, worker, now)[0] for worker in workers)
                    known = sorted(
                        (one for one in each if not one.sticky), key=lambda one: one.start
                    )
                    party = self._queues.apart.members(by, known, lambda one: one.worker)
                    if len(party) == by.count:
                        parties.append(party)
            for party in sorted(parties, key=_start_of_all):
                start = max(_start_of_all(party), now)
                if all(one.worker.end >= start + by.need for one in party):
                    for one in party:
                        self.lose(one.worker.reservation)
                        one.start, one.party = start, party
                        self._add(one)
                    return True
        return False

    def _gather(self, queue: TaskQueue, now: float) -> bool:
        """Reserve workers for the first gang of a queue that lacks some, as many as it can get.

        They are those with the fewest runs that have to end: first of those that are reserved for
        no one, then of those reserved for tasks that come after it.

        Returns:
            True if it got any.
        """
        party = _incomplete(queue)
        place = _parties(queue).index(party) if party else _tasks_of(queue)
        if not party and self._follows_known(queue):
            return False
        rank = -queue.priority, queue.age_at(place)
        later = self._reserved_after(rank)
        known = not queue.reservations and queue.barred is None
        if known and self._reserve_earliest(queue, later, now):
            return True
        for by in queue.opened():
            if by.count > 1:
                few = self._to_gather(by, party, later, now)
                if few:
                    break
        else:
            if party:
                self.end(party[0])
            return False
        for one in tuple(party):
            if one.by is not by or one.worker not in few:
                self._drop(one)
        found = False
        for worker in few:
            if worker.reservation is None or worker.reservation.party is not party:
                self.lose(worker.reservation)
                one = Reservation(by, worker, math.inf, beside_task(by, worker), {})
                party.append(one)
                one.party = party
                self._add_settled(one)
                found = True
        return found

    def _follows_known(self, queue: TaskQueue) -> bool:
        """Return True if a gang of another queue goes first, and its start is known.

        The workers of both would empty, while small tasks could end in time on those of one.
        """
        for _, _, other in self._queues.order:
            if other is queue:
                break
            if any(one.by.count > 1 and not one.sticky for one in other.reservations[:1]):
                return True
        return False

    def _to_gather(
        self, by: Alternative, party: Sequence[Reservation], later: Container[int], now: float
    ) -> Sequence[WorkerAccount]:
        """Return the workers that a gang is to have now; fewer than it needs while others wait.

        Args:
            party: the reservations that it has.
            later: the ids of the workers that are reserved for tasks that come after it.
        """
        best: list[tuple[tuple[int, int], WorkerAccount]] = []
        members = self._queues.apart.members
        for serving in serving_gang(by, self._workers.values(), now).values():
            if len(members(by, serving, lambda one: one, serving)) < by.count:
                continue
            some: list[tuple[tuple[int, int], WorkerAccount]] = []
            for worker in serving:
                reservation = worker.reservation
                if reservation is None:
                    choice = 1
                elif reservation.party is party:
                    choice = 0
                elif worker.id in later:
                    choice = 2
                else:
                    continue
                some.append(((choice, len(worker.tasks)), worker))
            some.sort(key=lambda one: one[0])
            few = members(by, some, lambda one: one[1], [((0, 0), one) for one in serving])
            if not best or _worth(few) > _worth(best):
                best = few
        return [worker for _, worker in best]

    def _reserved_after(self, rank: tuple[int, float]) -> set[int]:
        """Return the workers that are reserved for tasks which come after a place in the order."""
        return {
            one.worker.id
            for _, _, queue in self._queues.order
            if queue.reservations
            for place, party in enumerate(_parties(queue))
            if (-queue.priority, queue.age_at(place)) > rank
            for one in party
        }

    def _fastest_single(self, queue: TaskQueue, now: float) -> Reservation | None:
        """Return a sticky reservation where the fewest runs have to end before a task fits."""
        able = (worker for worker in self._reservable(queue) if any(_able(queue, worker, now)))
        few = nsmallest(_COMPARED, islice(able, _SAMPLE), key=lambda worker: len(worker.tasks))
        return _sticky_on_best(queue, few, now)

    def _reservable(self, queue: TaskQueue) -> Iterator[WorkerAccount]:
        """Yield the workers that could be reserved for the tasks of a queue."""
        able = queue.open
        for worker in self._workers.values():
            free = worker.reservation is None and not worker.draining
            if free and worker.shape.mask & able and _could_serve(queue, worker):
                yield worker

    def _add_settled(self, reservation: Reservation) -> None:
        """Add a reservation, and let only what it admits start on its worker from now on."""
        self._add(reservation)
        level, mask = self._queues.startable(reservation.worker)
        self._queues.settle(reservation.worker, level, mask)

    def _add(self, reservation: Reservation) -> None:
        reservation.queue.reservations.append(reservation)
        reservation.worker.reservation = reservation
        if reservation.queue.shared:
            self._queues.cluster.changed = True
        self._lapse = min(self._lapse, reservation.worker.end - reservation.by.need)

    def _drop(self, reservation: Reservation) -> None:
        """End one reservation; its worker is open to all again."""
        self._openings += 1
        self._release(reservation)
        worker = reservation.worker
        if worker.id in self._workers and not worker.draining:
            self._queues.open_to_all(worker)

    def _release(self, reservation: Reservation) -> None:
        reservation.party.remove(reservation)
        reservation.queue.reservations.remove(reservation)
        reservation.queue.reservation_sought = False
        reservation.worker.reservation = None
        if reservation.queue.shared:
            self._queues.cluster.changed = True


def _could_serve(queue: TaskQueue, worker: WorkerAccount) -> bool:
    """Return True unless a worker is barred for the tasks of a queue."""
    barred = queue.barred
    return barred is None or any(worker.could_serve(by, barred) for by in queue.opened())


def _tasks_of(queue: TaskQueue) -> int:
    """Return the number of tasks of a queue that have a reservation, or several as gangs."""
    reservations = queue.reservations
    if not queue.gangs:
        return len(reservations)
    return sum(one.party[0] is one for one in reservations)


def _parties(queue: TaskQueue) -> list[list[Reservation]]:
    """Return the reservations of each task of a queue that has some, the oldest task first."""
    return [one.party for one in queue.reservations if one.party[0] is one]


def _incomplete(queue: TaskQueue) -> list[Reservation]:
    """Return the reservations of the first gang of a queue that has some and lacks others."""
    return next((party for party in _parties(queue) if party[0].lacking), [])


def _start_of_all(party: Sequence[Reservation]) -> float:
    return max(one.start for one in party)


def _worth(workers: Sequence[tuple[tuple[int, int], WorkerAccount]]) -> tuple[int, int, int]:
    """Return how good a choice of workers for a gang is: as many as possible, and soon empty."""
    own = sum(choice == 0 for (choice, _), _ in workers)
    return len(workers), own, -sum(runs for (_, runs), _ in workers)


def _able(queue: TaskQueue, worker: WorkerAccount, now: float) -> Iterator[Alternative]:
    """Yield the alternatives on one worker, for which that has enough and time."""
    return (
        by
        for by in queue.opened()
        if by.count == 1 and worker.could_serve(by, queue.barred) and worker.has_time(by, now)
    )


def _sticky_on_best(
    queue: TaskQueue, workers: Sequence[WorkerAccount], now: float
) -> Reservation | None:
    """Return a reservation of the best of some workers, beside which nothing runs that may stay."""
    best = best_reservation(queue, workers, now)
    able = ((by, worker) for worker in workers for by in _able(queue, worker, now))
    # By their limits, runs may outlast all of these workers; but they may end before that.
    by, worker = (best.by, best.worker) if best is not None else next(able, (None, None))
    if by is None or worker is None or not worker.has_time(by, now):
        return None
    return Reservation(by, worker, math.inf, beside_task(by, worker), {})
