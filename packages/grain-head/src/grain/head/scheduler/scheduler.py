"""`Scheduler`: which task runs where and when."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING

from grain.head.needs.groups import Needs
from grain.head.scheduler.bars import Bars
from grain.head.scheduler.cluster import ClusterPool
from grain.head.scheduler.dispatch import StartDecisions, TaskTable
from grain.head.scheduler.guard.starvation_guard import StarvationGuard
from grain.head.scheduler.places import FailingPlaces, places_of
from grain.head.scheduler.queues import QueueTable
from grain.head.scheduler.state import (
    Alternative,
    Start,
    Task,
    TaskQueue,
    WorkerAccount,
    split_time,
)
from grain.resource import ZERO, Cores, Memory, RunTimes, Supply, learned

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from grain.head.needs.groups import MemoryUse
    from grain.head.scheduler.apart import ApartWorkers
    from grain.head.scheduler.places import RunPlace
    from grain.head.scheduler.queues import QueueKey
    from grain.resource import Resource

NEARLY = 0.8
"""The part of the longest life here that is enough for a task which has outlived such a worker."""

# Cancelled tasks at the end of a queue are dropped at once where it is longer than this.
_LONG_QUEUE = 64

# Between two ages that follow each other, for tasks that are tried again.
_AGES = 1 << 20


class Scheduler:
    """The scheduler: the ``on_...`` methods take events, `dispatch` returns what starts.

    Args:
        max_overtakes: how often a task may be overtaken before a worker is reserved for it, where
            run times are not known, less than 1 counting as 1; by default as often as
            `grain.head.scheduler.guard.starvation_guard` says.
        guard: the class of what limits overtaking.
        cluster: what the scheduler owns for the whole cluster; by default nothing.

    Attributes:
        tasks: the waiting and running tasks, by id.
        workers: the workers, by id.
        taken: of running tasks that had several alternatives the one that they run by, by id.
        cluster: as the argument.
        places: those where tasks fail.
        run_times: the run times of groups, see `grain.resource.WTime`.
        needs: the memory that groups need, see `grain.resource.Memory`.
    """

    def __init__(
        self,
        *,
        max_overtakes: int | None = None,
        guard: type[StarvationGuard] = StarvationGuard,
        cluster: ClusterPool | None = None,
    ) -> None:
        self.cluster = cluster or ClusterPool()
        self.places = FailingPlaces()
        self.run_times = RunTimes()
        self.needs = Needs()
        self.workers: dict[int, WorkerAccount] = {}
        self._queues = QueueTable(self.run_times, self.needs, self.cluster)
        self._guard = guard(self.workers, self._queues, max_overtakes)
        self._bars = Bars(self.workers, self._queues, self._guard, self.places)
        self._table = TaskTable(self._guard, self.cluster, self.run_times)
        self.tasks, self.taken = self._table.tasks, self._table.taken
        self._decisions = StartDecisions(
            *(self._table, self._queues, self._guard, self._bars, self.cluster, self.places),
            self.workers,
        )
        self._last_age = 0
        self._last_again = 0

    # ---- workers

    def on_worker_joined(
        self,
        worker: int,
        name: str,
        total: Resource,
        now: float,
        interpreter: str = "",
        group: str = "",
        job: str = "",
    ) -> None:
        """Add a worker, which offers its resources.

        Args:
            worker: an id that no other worker has.
            name: its name, for messages.
            total: its resources.
            interpreter: runs its tasks; only those tasks start there that need this one, or none.
            group: the members of a gang are workers of one group.
            job: its batch job, for gangs that demand one.

        Raises:
            ValueError: a worker of this id is here already.
        """
        if worker in self.workers:
            raise ValueError(f"worker {worker} joined already")
        wtime, space = split_time(total)
        left = None if wtime is None else wtime.T
        end = math.inf if left is None else now + left
        supply = Supply(space)
        new = self.workers[worker] = WorkerAccount(
            worker,
            name,
            supply,
            self._queues.join(supply, interpreter),
            self._queues.levels.of(interpreter),
            end,
            now,
            group,
            job,
        )
        self._queues.unplaced[worker] = new
        self._guard.on_worker_open()
        self._on_shapes()
        self._require(self._queues.outlived.values())
        self._bars.renew(now)

    def on_worker_draining(self, worker: int) -> None:
        """Start no more tasks on a worker; its running tasks go on."""
        draining = self.workers[worker]
        draining.draining = True
        self._queues.withdraw(draining)
        self._guard.lose(draining.reservation)
        self._on_fewer()
        self._bars.renew()

    def on_worker_back(self, worker: int) -> None:
        """Start tasks on a worker again that was draining; without effect on any other."""
        back = self.workers[worker]
        if back.draining:
            back.draining = False
            self._queues.open_to_all(back)
            self._guard.on_worker_open()
            self._bars.renew()

    def _on_fewer(self) -> None:
        """Let gangs look again: where fewer could be members, those that are left out count."""
        if self._queues.apart.known:
            self._guard.try_gangs()

    def on_apart(self, one: int, other: int, why: str, now: float) -> None:
        """Put two workers into no gang together for a time, as they did not reach each other.

        Args:
            why: a clause for display, with both.
        """
        self._queues.apart.on_failed(one, other, why, now)
        for worker in (self.workers[one], self.workers[other]):
            self._guard.on_apart(worker)
        self._guard.try_gangs()

    def on_together(self, workers: Iterable[int]) -> None:
        """Forget that members of a gang that has begun did not reach each other before."""
        if self._queues.apart.on_begun(workers):
            self._guard.try_gangs()

    @property
    def apart(self) -> ApartWorkers:
        """The pairs of workers that gangs avoid."""
        return self._queues.apart

    def on_worker_left(self, worker: int) -> list[int]:
        """Remove a worker that is gone with all its runs; their tasks wait again, at the front.

        A gang waits again if the worker was its root; its other members run on until
        `on_finished`.

        Returns:
            The ids of those tasks, the oldest first. A task whose run was to be ended by
            `on_cancelled` is among them: cancel it again, now that it waits.
        """
        lost = self.workers.pop(worker)
        self._guard.lose(lost.reservation)
        self._queues.leave(lost)
        self._on_fewer()
        self._queues.apart.on_left(worker)
        self._guard.on_worker_left()
        self._on_shapes()
        self._require(self._queues.outlived.values())
        self.places.forget_worker(worker)
        self._bars.renew()
        again = sorted(lost.tasks.values(), key=lambda task: task.age)
        # The youngest first: then each goes to the front of its queue, without a search.
        for task in reversed(again):
            self.taken.pop(task.id, None)
            self.cluster.give_back(task.id)
            self._table.on_run_over(task)
            if task.id < 0:
                del self.tasks[task.id]
                continue
            task.worker, task.held, task.until = None, ZERO, math.inf
            self._requeue(task)
        return [task.id for task in again if task.id >= 0]

    # ---- tasks

    def queue(
        self,
        request: Resource,
        priority: int = 0,
        share: int = 0,
        interpreter: str = "",
        seen: float = 0.0,
        avoid: tuple[RunPlace, ...] = (),
    ) -> TaskQueue:
        """Return the queue of a request, for `on_submitted`; it is new if there was none.

        Tasks that have outlived a worker wait for one with the seconds left that they were seen to
        run for. If no worker that is here had so many when it joined, but one had `NEARLY` so many,
        longer lives may never come: then `NEARLY` all of the longest life is enough.

        Args:
            request: what the tasks need.
            priority: larger goes first.
            share: the owner of the tasks; each owner has queues of its own.
            interpreter: the interpreter that the tasks need; empty if any will do.
            seen: the seconds that they were seen to run for, and more, if they have outlived a
                worker; else 0.
            avoid: where they have failed, ascending. They wait for another place as long as a
                worker is here that has one, and else go anywhere. Where many others do so already,
                they do not.
        """
        queue = self._queues.get(request, priority, share, interpreter, seen)
        if avoid or self._bars.some:
            queue = self._bars.queue_for(queue, avoid)
        if seen:
            self._require((queue,))
        return queue

    def current(self, queue: TaskQueue) -> TaskQueue:
        """Return a queue for `on_submitted` that was got before, or the one that takes its place.

        Of the queues without tasks, only a few hundred are kept.
        """
        if queue.rank is not None:
            return queue
        return self.queue(
            queue.request, queue.priority, queue.share, queue.interpreter, queue.seen, queue.avoid
        )

    # ---- places where tasks fail

    def on_outcome(self, task: int, function: Hashable, now: float, *, failed: bool) -> None:
        """Take in how a run has ended by itself, before `on_finished`: see `FailingPlaces`.

        It need not be told of runs that have succeeded while ``places.watches`` is False.

        Args:
            function: what the owner of the task has called.
        """
        ran = self.tasks[task]
        if ran.worker is None or (self.taken.get(task) or ran.queue.alternatives[0]).count > 1:
            return
        what = ran.queue.share, function, places_of(ran.worker.id, ran.held), now - ran.started
        if self.places.on_failed(*what, now) if failed else self.places.on_succeeded(*what):
            self._bars.renew(now)

    def on_owner_left(self, share: int) -> None:
        """Forget where the tasks of an owner have failed."""
        if self.places.forget_owner(share):
            self._bars.renew()

    def _require(self, queues: Iterable[TaskQueue]) -> None:
        """Set what tasks need that have outlived workers, by the lives of the workers here."""
        for queue in queues:
            lives = [
                worker.life
                for worker in self.workers.values()
                if queue.fits(worker.shape.interpreter, worker.supply.total)
            ]
            longest = max(lives, default=0.0)
            alike = NEARLY * queue.seen <= longest < queue.seen
            least = NEARLY * longest if alike else queue.seen
            if least != queue.least:
                self._queues.require(queue, least)
                self._on_limits_changed()

    def on_submitted(
        self,
        task: int,
        queue: TaskQueue,
        age: int | None = None,
        urgency: float = 0.0,
        record: object = None,
        overtaken: int = 0,
    ) -> None:
        """Add a task, which is to run once.

        Args:
            task: an id that no waiting or running task has.
            queue: the queue of its request. `TaskQueue.serving_shapes` and `why_never` of
                ``explain`` say whether any worker can ever serve it.
            age: its place among the tasks of its priority, ascending, which no other task has;
                by default behind all others. A caller that gives one gives one to all.
            urgency: the larger, the earlier among the tasks of the queue. The places in the order
                of all tasks stay with the queue, whose most urgent task takes the first: so
                urgency changes nothing for other queues, and so for other owners.
            record: what the `Task` has as its record, while it waits and while it runs.
            overtaken: how often it was overtaken under another scheduler; without effect if it is
                not the oldest of its queue.
        """
        if age is None and (not queue.avoid or (age := self._age_again(queue)) is None):
            age = self._last_age = self._last_age + _AGES
        elif queue.tasks and age < queue.tasks[-1].age:
            # It waits again, and is older than others that wait.
            new = self.tasks[task] = Task(task, queue, age, urgency, record)
            self._requeue(new)
            return
        new = self.tasks[task] = Task(task, queue, age, urgency, record)
        if urgency or queue.urgent is not None:
            queue.enter_urgent(new)
        queue.tasks.append(new)
        self._table.waiting += 1
        if queue.rank is None:
            self._queues.renew(queue)
            self._queues.enter(queue, new)
            self._queues.untried |= queue.open
            if overtaken:
                self._guard.on_known(queue, new, overtaken)

    def _age_again(self, queue: TaskQueue) -> int | None:
        """Return the age of a task that is tried again: before those that wait for the same."""
        plain = self._queues.get(
            queue.request, queue.priority, queue.share, queue.interpreter, queue.seen
        )
        head = plain.head()
        if head is None:
            return None
        self._last_again = self._last_again % (_AGES - 1) + 1
        return head.age - _AGES + self._last_again

    def start_alone(
        self, task: int, by: Alternative, workers: Sequence[int], age: int, now: float
    ) -> Start:
        """Start a task, which is in no queue, with all that some workers have.

        Args:
            task: an id that no waiting or running task has.
            by: an alternative of its queue: it may use what that asks for.
            workers: one for each member, the root of a gang first. They drain.
            age: as for `on_submitted`.

        Raises:
            ValueError: something runs on one of them.
        """
        root = self.tasks[task] = Task(task, by.queue, age)
        parts = [root, *(self._table.new_seat(by.queue, age) for _ in workers[1:])]
        uses = []
        for part, number in zip(parts, workers, strict=True):
            worker = self.workers[number]
            whole = worker.supply.total
            worker.give_back()
            worker.supply.reclaim(whole)
            self._table.occupy(part, by, worker, now, whole)
            uses.append(self._table.with_limits(part.id, Supply(whole).alloc(by.space), by))
        seats = zip(workers[1:], (part.id for part in parts[1:]), uses[1:], strict=True)
        return Start(workers[0], task, uses[0], by.limits.hard, tuple(seats))

    def on_adopted(
        self,
        task: int,
        queue: TaskQueue,
        worker: int,
        held: Resource,
        age: int,
        began: float,
        until: float = math.inf,
    ) -> None:
        """Add a task that runs already, started by another scheduler.

        Args:
            task: an id that no waiting or running task has; of a gang's member that is not its
                root by `seat_id`.
            queue: the queue that it would wait in.
            worker: where it runs.
            held: what it was given there, with what it was given of the cluster's.
            age: as for `on_submitted`.
            began: when it was started.
            until: when its hard limit ends it.

        Raises:
            ValueError: what it holds is not free on that worker.
        """
        where = self.workers[worker]
        where.give_back()
        own, shared = self.cluster.split_held(held, where.supply.total)
        where.supply.reclaim(own)
        if shared is not None:
            self.cluster.reclaim(task, shared)
        new = self.tasks[task] = Task(task, queue, age)
        new.worker = where
        new.held = own
        new.started = began
        new.until = until
        if queue.only is None:
            self.taken[task] = queue.taken_by(held)
        self._table.bounded += until != math.inf
        where.tasks[task] = new
        if task < 0:
            queue.seats += 1
        else:
            queue.running += 1
        if not where.draining:
            self._queues.open_to_all(where)

    def seat_id(self) -> int:
        """Return an id for `on_adopted` of a gang's member that is not its root."""
        return self._table.seat_id()

    def on_reclassified(self, task: int, queue: TaskQueue, age: int) -> None:
        """Correct the queue and the age of a running task, when its request becomes known."""
        running = self.tasks[task]
        assert running.worker is not None
        running.queue.running -= 1
        running.queue = queue
        if queue.only is None:
            self.taken[task] = queue.taken_by(self._table.held_by(running))
        else:
            self.taken.pop(task, None)
        running.age = age
        queue.running += 1

    def on_finished(
        self, task: int, now: float, *, measured: bool = True, use: MemoryUse | None = None
    ) -> None:
        """Remove a task whose run has ended; everything that it held is free again.

        Args:
            measured: whether the time that it took counts for its group; false for a run that was
                stopped.
            use: what it has used, for a group that learns; None if that is not known.
        """
        ended = self.tasks.pop(task)
        worker = ended.worker
        assert worker is not None
        by = ended.queue.only or self.taken.pop(task)
        # Not given back at once: the next task of the queue may take it over as it is.
        worker.returned.append((by, ended.held))
        del worker.tasks[task]
        if self.cluster.held:
            self.cluster.give_back(task)
        if not worker.tasks:
            worker.idle_since = now
        self._table.on_run_over(ended)
        if worker.reservation is not None:
            worker.reservation.on_finished(task)
        if not worker.draining:
            self._queues.unplaced[worker.id] = worker
        wtime = by.wtime
        if (
            measured
            and wtime is not None
            and wtime.group is not None
            and self.run_times.record(wtime.group, now - ended.started, wtime.learn)
        ):
            self._queues.estimate(wtime.group)
            self._on_limits_changed()
        memory = by.learned
        if memory is None:
            return
        had = ended.held.get(Memory)
        if had is not memory.memory:
            worker.open_to_all = True  # the next task of the queue asks for another amount
        if use is not None:
            if memory.on_ended(had, use, now - ended.started):
                self._guard.on_amounts_changed(self._queues.outdate(memory))
            if self._queues.outdated:
                self._guard.on_amounts_changed(self._queues.renew_next())

    def learning(self) -> dict[str, Resource]:
        """Return by group a request that names it, of the queues that are here."""
        found: dict[str, Resource] = {}
        for queue in self._queues.by_request.values():
            for one in queue.alternatives if queue.learns else ():
                memory = learned(one.stated)
                if memory is not None and memory.group is not None and memory.tried[0] == 1:
                    found.setdefault(memory.group, one.stated)
        return found

    def forget_needs(self, groups: Iterable[str]) -> None:
        """Forget what groups have learned: they ask again as if no run had ended."""
        for group in groups:
            self.needs.forget(group)
            self._guard.on_amounts_changed(self._queues.learn(group))

    def on_needs_read(self) -> None:
        """Let all groups ask for what is known of them now, after it was read."""
        self._guard.on_amounts_changed(self._queues.learn())

    def _on_shapes(self) -> None:
        """Let groups ask for their part of other workers than before."""
        if self.needs.on_workers(shape.sample.total for shape in self._queues.shapes.values()):
            self._guard.on_amounts_changed(self._queues.learn())

    def on_cancelled(self, task: int) -> Task | None:
        """Remove a waiting task that is not wanted any more.

        Returns:
            The task if it runs: its worker is to end it, and it holds its resources until
            `on_finished`. None if it waited, or is unknown; then it is gone.
        """
        unwanted = self.tasks.get(task)
        if unwanted is None:
            return None
        if unwanted.worker is not None:
            return unwanted
        del self.tasks[task]
        unwanted.cancelled = True
        unwanted.record = None
        self._table.waiting -= 1
        queue = unwanted.queue
        queue.cancelled += 1
        if queue.rank is not None and queue.rank[1] == unwanted.age:
            self._guard.rerank(queue)
            return None
        if len(queue.tasks) > _LONG_QUEUE and queue.tasks[-1].cancelled:
            # A caller that cancels all tasks, the youngest first, leaves an empty queue behind.
            while queue.tasks and queue.tasks[-1].cancelled:
                queue.tasks.pop()
                queue.cancelled -= 1
        self._guard.on_fewer(queue)
        return None

    @property
    def wants_room(self) -> bool:
        """True if a task waits for room on workers that are here, and for nothing else."""
        return any(one[2].open and one[2].serving_shapes for one in self._queues.order)

    def has_room(self, queue: TaskQueue, now: float) -> bool:
        """Return True if a task that a queue gets now, after `dispatch`, would start at once.

        Call it only while `wants_room` is False: then no worker is reserved.

        Args:
            queue: one without alternatives, gangs and what the whole cluster has.
        """
        return queue.only is not None and self._decisions.find(queue.only, now) is not None

    # ---- questions

    def first_of(self, queue: TaskQueue) -> Task | None:
        """Return the task of a queue that starts next: the oldest, in which the most urgent is."""
        return self._table.first_of(queue)

    def held_by(self, task: Task) -> Resource:
        """Return all that a running task holds, of its worker and of the cluster."""
        return self._table.held_by(task)

    @property
    def max_overtakes(self) -> int:
        """The number of times that a task may be overtaken before a worker is reserved for it."""
        return self._guard.limit

    def due_after(self, queue: TaskQueue) -> int:
        """Return that number for the tasks of a queue: gangs get their workers earlier."""
        return self._guard.due_after(queue)

    def workers_for(self, by: Alternative) -> int:
        """Return the number of workers that have enough in all for a task, or a member of it."""
        shapes = self._queues.shapes.values()
        return sum(shape.workers for shape in shapes if shape.mask & by.bit)

    @property
    def next_time(self) -> float:
        """The time of the next `dispatch` that may start something without another event.

        Tasks wait until then for their first alternative, for a place that is set aside, or for
        workers in place of such a one, which have too little time from then on. ``math.inf`` if
        there are none.
        """
        return min(self._queues.next_opening(), self._bars.due)

    @property
    def queues(self) -> Mapping[QueueKey, TaskQueue]:
        """The queues as `QueueTable.by_request` has them; idle ones are soon forgotten."""
        return self._queues.by_request

    @property
    def in_order_of_service(self) -> Sequence[tuple[int, int, TaskQueue]]:
        """The queues with waiting tasks, each behind what they are ordered by."""
        return self._queues.order

    @property
    def waiting(self) -> int:
        """The number of waiting tasks."""
        return self._table.waiting

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return len(self.tasks) - self._table.waiting

    def cores(self) -> tuple[float, float]:
        """Return how many cores of the workers are in use, and how many there are."""
        busy = total = 0.0
        for worker in self.workers.values():
            given, owned = worker.supply.given(Cores)
            busy += given - sum(_cores(held) for _, held in worker.returned)
            total += owned
        return busy, total

    # ---- decisions

    def dispatch(self, now: float) -> list[Start]:
        """Start every task that can start, the oldest first."""
        return self._decisions.dispatch(now)

    # ---- small things

    def _requeue(self, task: Task) -> None:
        """Let a task wait at the place of its age, which need not be the last."""
        queue = task.queue
        # Only tasks that ran before are older, and those are few and in front.
        older = takewhile(lambda other: other.age < task.age, queue.tasks)
        place = sum(1 for _ in older)
        if task.urgency or queue.urgent is not None:
            queue.enter_urgent(task)
        if queue.prefer:
            task.started = math.inf
            self._queues.unseen.append(task)
        queue.tasks.insert(place, task)
        self._table.waiting += 1
        self._guard.on_older(queue)
        if queue.rank is None or queue.rank[1] != queue.tasks[0].age:
            self._guard.rerank(queue)
            # Being older, the task may start where a reservation forbids it to a younger one.
            self._queues.untried |= queue.open

    def _on_limits_changed(self) -> None:
        """Take in that tasks may need other times now."""
        self._guard.on_limits_changed()
        self._bars.lapse()


def _cores(held: Resource) -> float:
    cores = held.get(Cores)
    return cores.amount if isinstance(cores, Cores) else 0
