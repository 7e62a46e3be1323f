"""The decisions of the scheduler: which task starts where, and what it holds then."""

from __future__ import annotations

import math
from heapq import heappop
from itertools import chain
from typing import TYPE_CHECKING

from grain.head.scheduler.numbered import Numbered
from grain.head.scheduler.places import places_of
from grain.head.scheduler.state import Alternative, Start, Task, serving_gang

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grain.head.scheduler.bars import Bars
    from grain.head.scheduler.cluster import ClusterPool
    from grain.head.scheduler.guard.starvation_guard import StarvationGuard
    from grain.head.scheduler.places import FailingPlaces
    from grain.head.scheduler.queues import QueueTable
    from grain.head.scheduler.state import TaskQueue, WorkerAccount
    from grain.resource import Resource, RunTimes


class TaskTable:
    """The tasks that wait and run, and what the running ones hold.

    Args:
        cluster: what the scheduler owns for the whole cluster.
        run_times: the run times of groups.

    Attributes:
        tasks: all of them, by id.
        taken: of running tasks that had several alternatives the one that they run by, by id.
        waiting: the number of waiting tasks.
        bounded: the number of running tasks whose end is known (`Task.until`): while there are
            none, no reservation can have a known start.
    """

    def __init__(self, guard: StarvationGuard, cluster: ClusterPool, run_times: RunTimes) -> None:
        self._guard = guard
        self._cluster = cluster
        self._run_times = run_times
        self.tasks: Numbered[Task] = Numbered()
        self.taken: dict[int, Alternative] = {}
        self.waiting = 0
        self.bounded = 0
        self._last_seat = 0

    def new_seat(self, queue: TaskQueue, age: int) -> Task:
        """Return a task for a member of a gang."""
        number = self.seat_id()
        seat = self.tasks[number] = Task(number, queue, age)
        return seat

    def seat_id(self) -> int:
        """Return the id of a task that is a member of a gang and not its root: less than 0."""
        self._last_seat -= 1
        return self._last_seat

    def seat(self, root: Task, by: Alternative, worker: WorkerAccount, now: float) -> Task:
        """Give a member of a gang its allocation, by a task of its own."""
        seat = self.new_seat(by.queue, root.age)
        self.occupy(seat, by, worker, now, worker.allocate(by))
        return seat

    def occupy(
        self, task: Task, by: Alternative, worker: WorkerAccount, now: float, held: Resource
    ) -> None:
        """Note that a task runs on a worker, and what that means for the worker's reservation."""
        queue = by.queue
        if queue.only is None:
            self.taken[task.id] = by
        if by.shared is not None:
            self._cluster.take(task.id, by.shared)
        task.worker = worker
        task.held = held
        task.started = now
        limit = by.limits.hard
        if limit != math.inf:
            task.until = now + limit
            self.bounded += 1
        worker.tasks[task.id] = task
        if task.id < 0:
            queue.seats += 1
        else:
            queue.running += 1
        reservation = worker.reservation
        if reservation is not None and reservation.queue is not queue:
            if reservation.allows(by, now):
                reservation.on_started(task.id, by, now)
            else:
                # A task of higher priority took the room, or an older one before a known start.
                self._guard.lose(reservation)

    def with_limits(self, task: int, held: Resource, by: Alternative) -> Resource:
        """Return what a run may use: of its worker, and of the cluster, and its time limits."""
        if by.shared is not None:
            held = held & self._cluster.held[task]
        return held if by.wtime is None else held & by.wtime.resolved(self._run_times)

    def on_run_over(self, task: Task) -> None:
        """Count a run no more."""
        if task.until != math.inf:
            self.bounded -= 1
        if task.id < 0:
            task.queue.seats -= 1
        else:
            task.queue.running -= 1

    def held_by(self, task: Task) -> Resource:
        """Return all that a running task holds, of its worker and of the cluster."""
        shared = self._cluster.held.get(task.id)
        return task.held if shared is None else task.held & shared

    def first_of(self, queue: TaskQueue) -> Task | None:
        """Return the task of a queue that starts next: the oldest, in which the most urgent is."""
        head = queue.head()
        if head is None or queue.urgent is None:
            return head
        while True:
            urgency, _, most = queue.urgent[0]
            best = self.tasks.get(most)
            if (
                best is not None
                and best.worker is None
                and best.queue is queue
                and best.urgency == -urgency
            ):
                break
            heappop(queue.urgent)
        if best is not head:
            # The two exchange their places, and thereby all that the places mean to others.
            self.tasks[best.id], self.tasks[head.id] = head, best
            best.id, head.id = head.id, best.id
            best.urgency, head.urgency = head.urgency, best.urgency
            best.record, head.record = head.record, best.record
        return head


class StartDecisions:
    """The decisions on what starts: after each `dispatch`, no task waits that could start."""

    def __init__(
        self,
        table: TaskTable,
        queues: QueueTable,
        guard: StarvationGuard,
        bars: Bars,
        cluster: ClusterPool,
        places: FailingPlaces,
        workers: Mapping[int, WorkerAccount],
    ) -> None:
        self._table = table
        self._queues = queues
        self._guard = guard
        self._bars = bars
        self._cluster = cluster
        self._places = places
        self._workers = workers

    def dispatch(self, now: float) -> list[Start]:
        """Start every task that can start, the oldest first."""
        starts: list[Start] = []
        self._guard.on_dispatch(now)
        queues = self._queues
        if now >= queues.apart.next_end and queues.apart.on_time(now):
            self._guard.try_gangs()
        self._bars.on_time(now)
        if queues.patient:
            self._open_alternatives(now)
        if self._cluster.changed:
            self._share_out(now)
        unplaced = queues.unplaced
        while True:
            if len(unplaced) == 1 and not queues.untried:
                # The usual case in a long queue: one run ended, and the waiting tasks found no room
                # elsewhere. What starts is decided without a look at the other workers.
                self._refill(unplaced.popitem()[1], starts, now)
            else:
                for worker in unplaced.values():
                    self._place(worker)
                unplaced.clear()
            if queues.untried:
                self._serve_first(starts, now)
            elif not unplaced:
                self._guard.on_dispatched(now)
                if not unplaced:
                    return starts

    def _open_alternatives(self, now: float) -> None:
        """Open the alternatives for which tasks have waited long enough."""
        self._queues.date(now)
        for queue in list(self._queues.patient.values()):
            head = queue.head()
            assert head is not None
            if self._queues.set_open(queue, head):
                self._guard.on_opened(queue)
            else:
                self._guard.on_closed(queue)

    def _share_out(self, now: float) -> None:
        """Close the alternatives for which the cluster has not enough free, and open others."""
        while self._cluster.changed:
            self._cluster.changed = False
            for queue, closed in self._cluster.share_out(self._queues.order):
                head = queue.head()
                if closed == queue.closed or head is None:
                    continue
                queue.closed = closed
                if self._queues.set_open(queue, head):
                    # Now, or the next younger task would take what became free.
                    self._guard.on_opened(queue)
                    self._guard.reserve_due(queue, now)
                else:
                    self._guard.on_closed(queue)

    def _refill(self, worker: WorkerAccount, starts: list[Start], now: float) -> None:
        """Start on one worker what fits there, the oldest first."""
        if not worker.open_to_all and self._hand_over(worker, starts, now):
            return  # its place in the index has not changed
        worker.give_back()
        worker.open_to_all = False
        queues = self._queues
        while True:
            level, mask = queues.startable(worker)
            fitting = mask & queues.nonempty
            if fitting & queues.gangs:
                # A gang may have room on this worker and others together.
                queues.settle(worker, level, mask)
                queues.untried |= fitting
                return
            chosen = self._first(fitting, worker, now) if fitting else None
            if chosen is None:
                if queues.untried:  # by another amount, it may start here or elsewhere
                    queues.open_to_all(worker)
                else:
                    queues.settle(worker, level, mask)
                return
            starts.append(self._start(chosen, worker, now))
            if queues.unplaced or queues.untried:
                # A reservation ended, or an alternative opened, which may concern other workers.
                queues.open_to_all(worker)
                return

    def _hand_over(self, worker: WorkerAccount, starts: list[Start], now: float) -> bool:
        """Let the first tasks take over what ended runs of their own queue held.

        Nothing is then given back and allocated again, and no other task gets room. The first tasks
        are the oldest that the worker could serve if it were empty, or on a reserved worker the
        tasks that it is reserved for.

        Returns:
            True if all that was returned was taken over, or the rest waits in ``unplaced``.
        """
        while worker.returned and self._queues.order:
            by, held = worker.returned[-1]
            for _, _, first in self._queues.order:
                # Where ends are known, those that are passed over look for a start on others.
                if first.bits & worker.shape.mask or self._table.bounded:
                    break
            reservation = worker.reservation
            if reservation is not None:
                if not reservation.sticky or first.priority > reservation.queue.priority:
                    return False
                first = reservation.queue
            # Where tasks have alternatives, the first may be possible that another run returned.
            # A gang needs what its other members have, too.
            if first.only is not by or by.count > 1 or not worker.has_time(by, now):
                return False
            if not by.bit & first.open or first.barred is not None:
                return False
            if by.bit & self._queues.outdated:
                return False
            worker.returned.pop()
            starts.append(self._start(by, worker, now, held))
            if worker.reservation is not reservation:
                self._queues.open_to_all(worker)
                return True
            # A reservation elsewhere ended, of the task or of one that waits for licences now.
            if self._queues.unplaced:
                self._queues.unplaced[worker.id] = worker
                return True
        return not worker.returned

    def _first(self, fitting: int, worker: WorkerAccount, now: float) -> Alternative | None:
        """Return the first of a bit mask by which the oldest task of a queue may start on a worker.

        No other worker has room for this task, or it would have started there: so the first
        alternative that fits here is the first that fits anywhere.

        Returns:
            None, too, if that task asks for another amount of memory from now on.
        """
        for _, _, queue in self._queues.order:
            if fitting & queue.bits:
                if self._queues.outdated and self._renew(queue):
                    return None
                for by in queue.alternatives:
                    if (
                        fitting & by.bit
                        and worker.has_time(by, now)
                        and (
                            (worker.reservation is None and queue.barred is None)
                            or self._guard.permits(by, worker, now)
                        )
                    ):
                        return by
            if self._table.bounded:
                self._guard.on_passed_over(queue, now)
        return None

    def _serve_first(self, starts: list[Start], now: float) -> None:
        """Start the oldest task of the first untried queue that can start, where it fits best.

        It ends, too, where workers are to be placed before the next queue is tried.
        """
        queues = self._queues
        fitting = -1
        for _, _, queue in queues.order:
            if queues.untried & queue.bits:
                if queues.outdated and self._renew(queue):
                    if queues.unplaced:  # reserved workers, which may have no room for it any more
                        return
                    fitting |= queue.bits
                for by in queue.opened() if fitting & queue.bits else ():
                    members = self._find_members(by, now)
                    if members:
                        starts.append(self._start(by, members[0], now, members=members))
                        for worker in members:
                            queues.place(worker)
                        return
                # It fits nowhere now. Whatever becomes free sets its bits again.
                queues.untried &= ~queue.bits
                if fitting == -1 and queues.levels.occupied < queues.untried.bit_count():
                    # Starts have taken the room, and others fit nowhere, either.
                    fitting = queues.levels.fit | queues.reserved.fit
                    if not self._table.bounded:
                        queues.untried &= fitting
                if queues.unplaced or not queues.untried:
                    return
            if self._table.bounded:
                self._guard.on_passed_over(queue, now)

    def _renew(self, queue: TaskQueue) -> bool:
        """Let a queue whose task may start ask for what its group needs now.

        Otherwise those would go first whose amounts are too small since other runs have ended.

        Returns:
            True if that is another amount.
        """
        changed = self._queues.renew(queue)
        self._guard.on_amounts_changed(changed)
        return bool(changed)

    def _place(self, worker: WorkerAccount) -> None:
        """Put a worker where what it has free belongs; the queues that fit there are tried."""
        worker.give_back()
        worker.open_to_all = False
        self._queues.place(worker)

    def find(self, by: Alternative, now: float) -> WorkerAccount | None:
        """Return the worker on which a queue's oldest task is to start by a request, if any."""
        best: WorkerAccount | None = None
        tightest = 0.0
        for level in self._queues.levels.fitting(by):
            slack = level.slack[by.bit]
            # The levels come with the tightest fit first.
            if best is not None and slack > tightest:
                break
            for worker in level.candidates(by, now):
                if self._guard.permits(by, worker, now):
                    # Equally tight fits at several levels are compared as `Level.candidates` does.
                    if best is None or (worker.end < best.end) == by.spares_time:
                        best, tightest = worker, slack
                    break
            if best is not None and not by.has_equal_levels():
                break
        return best or self._queues.reserved.find(by, now)

    def _find_members(self, by: Alternative, now: float) -> Sequence[WorkerAccount]:
        """Return the workers on which a queue's oldest task is to start by a request, or none.

        The members of a gang are the tightest fits that have in common what they must. The first is
        the root.
        """
        if by.count == 1:
            worker = self.find(by, now)
            return () if worker is None else (worker,)
        apart = self._queues.apart
        found: dict[str, list[WorkerAccount]] = {}
        # Those that are reserved for it go first: they may serve no one else.
        for worker in chain(self._queues.reserved.find_all(by, now), self._free(by, now)):
            able = found.setdefault(worker.in_common(by.same), [])
            able.append(worker)
            if len(able) == by.count and not apart.known and not by.hosts:
                return able
        if not apart.known and not by.hosts:
            return ()
        serving = serving_gang(by, self._workers.values(), now)
        for common, able in found.items():
            members = apart.members(by, able, lambda one: one, serving[common])
            if len(members) == by.count:
                return members
        return ()

    def _free(self, by: Alternative, now: float) -> Iterator[WorkerAccount]:
        """Yield the workers with room for an alternative and without a sticky reservation."""
        for level in self._queues.levels.fitting(by):
            for worker in level.candidates(by, now):
                if self._guard.permits(by, worker, now):
                    yield worker

    def _start(
        self,
        by: Alternative,
        worker: WorkerAccount,
        now: float,
        held: Resource | None = None,
        members: Sequence[WorkerAccount] = (),
    ) -> Start:
        """Start the first task of a queue, with ``held`` or with what is allocated for it.

        Args:
            members: all workers of a gang, of which `worker` is the first.
        """
        queue = by.queue
        if queue.urgent is not None:
            self._table.first_of(queue)
        task = queue.tasks.popleft()
        limit = by.limits.hard
        if held is None:
            # Most often nothing is barred, and each call counts here.
            free = queue.barred is None
            held = worker.supply.alloc(by.space) if free else worker.allocate(by)
        self._table.waiting -= 1
        reservation = worker.reservation
        self._table.occupy(task, by, worker, now, held)
        # Only a gang has members, and even an empty comprehension is a call.
        seats = [self._table.seat(task, by, one, now) for one in members[1:]] if members else ()
        if self._queues.order[0][2] is not queue:
            # Only now: a new reservation of this worker must account for the run that begins.
            self._guard.on_overtaken(task, worker, now)
        if by.count > 1:
            self._guard.on_gang_started(queue, members)
        self._guard.rerank(queue)
        if by.count == 1 and reservation is not None and reservation.queue is queue:
            self._guard.on_reserved_start(reservation, now)
        allocation = self._table.with_limits(task.id, task.held, by)
        if self._cluster.changed:
            self._share_out(now)
        trials = self._places.trials
        if trials and self._places.on_started(queue.share, places_of(worker.id, held), now):
            self._bars.renew()
        if not seats:
            return Start(worker.id, task.id, allocation, limit)
        others = (
            (member.id, seat.id, self._table.with_limits(seat.id, seat.held, by))
            for member, seat in zip(members[1:], seats, strict=True)
        )
        return Start(worker.id, task.id, allocation, limit, tuple(others))
