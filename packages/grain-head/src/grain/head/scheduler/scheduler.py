"""`Scheduler`: which task runs where and when."""

from __future__ import annotations

import math
from collections import Counter
from heapq import heappop
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING

from grain.head.needs.groups import Needs
from grain.head.scheduler.cluster import ClusterPool, unowned
from grain.head.scheduler.numbered import Numbered
from grain.head.scheduler.places import WHOLE, FailingPlaces, RunPlace, bar, places_of
from grain.head.scheduler.queues import QueueTable
from grain.head.scheduler.starvation_guard import StarvationGuard
from grain.head.scheduler.state import (
    Alternative,
    Start,
    Task,
    TaskQueue,
    WorkerAccount,
    serving_gang,
    split_time,
)
from grain.resource import ZERO, Cores, Memory, RunTimes, Supply, learned

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from grain.head.needs.groups import MemoryUse
    from grain.head.scheduler.apart import ApartWorkers
    from grain.head.scheduler.queues import QueueKey
    from grain.resource import Resource

NEARLY = 0.8
"""The part of the longest life here that is enough for a task which has outlived such a worker."""

# Cancelled tasks at the end of a queue are dropped at once where it is longer than this.
_LONG_QUEUE = 64

# Between two ages that follow each other, for tasks that are tried again.
_AGES = 1 << 20

# The queues whose tasks avoid places: each costs what another request costs.
_AVOIDING = 64


class Scheduler:
    """The scheduler: the ``on_...`` methods take events, `dispatch` returns what starts.

    Args:
        max_overtakes: how often a task may be overtaken before a worker is reserved for it, where
            run times are not known, less than 1 counting as 1; by default as often as
            `grain.head.scheduler.starvation_guard` says.
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
        self.tasks: Numbered[Task] = Numbered()
        self.workers: dict[int, WorkerAccount] = {}
        self.taken: dict[int, Alternative] = {}
        self._queues = QueueTable(self.run_times, self.needs, self.cluster)
        self._guard = guard(self.workers, self._queues, max_overtakes)
        self._last_age = 0
        self._last_again = 0
        self._last_seat = 0
        self._waiting = 0
        # True if a place is set aside, or may be barred for a queue.
        self._some_barred = False
        # The last time that is known, and the one from which workers may have too little time left
        # to serve a queue in place of those that are barred.
        self._now = -math.inf
        self._bars_lapse = math.inf
        # The number of running tasks whose end is known (`Task.until`): while there are none, no
        # reservation can have a known start.
        self._bounded = 0

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
        self._now = now
        self._bar()

    def on_worker_draining(self, worker: int) -> None:
        """Start no more tasks on a worker; its running tasks go on."""
        draining = self.workers[worker]
        draining.draining = True
        self._queues.withdraw(draining)
        self._guard.lose(draining.reservation)
        self._bar()

    def on_worker_back(self, worker: int) -> None:
        """Start tasks on a worker again that was draining; without effect on any other."""
        back = self.workers[worker]
        if back.draining:
            back.draining = False
            self._queues.open_to_all(back)
            self._guard.on_worker_open()
            self._bar()

    def on_apart(self, one: int, other: int, why: str, now: float) -> None:
        """Put two workers into no gang together for a time, as they did not reach each other.

        Args:
            why: a clause for display, with both.
        """
        self._queues.apart.on_failed(one, other, why, now)
        for worker in (self.workers[one], self.workers[other]):
            self._guard.on_apart(worker)
        self._try_gangs()

    def on_together(self, workers: Iterable[int]) -> None:
        """Forget that members of a gang that has begun did not reach each other before."""
        if self._queues.apart.on_begun(workers):
            self._try_gangs()

    def _try_gangs(self) -> None:
        """Let gangs look for workers again: other ones than before may be together."""
        self._queues.untried |= self._queues.gangs & self._queues.nonempty
        self._guard.on_worker_open()

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
        if self._queues.apart.on_left(worker):
            self._try_gangs()
        self._guard.on_worker_left()
        self._on_shapes()
        self._require(self._queues.outlived.values())
        self.places.forget_worker(worker)
        self._bar()
        again = sorted(lost.tasks.values(), key=lambda task: task.age)
        for task in reversed(again):
            self.taken.pop(task.id, None)
            self.cluster.give_back(task.id)
            self._uncount_run(task)
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
        if avoid or self._some_barred:
            queue = self._elsewhere(queue, avoid)
        if seen:
            self._require((queue,))
        return queue

    def _elsewhere(self, queue: TaskQueue, avoid: tuple[RunPlace, ...]) -> TaskQueue:
        """Return the queue for tasks of a queue that avoid some places."""
        if queue.rank is None:
            self._bar_queue(queue)
        # What is set aside now will be tried again, so that makes no difference.
        if avoid and self._queues.avoiding < _AVOIDING and self._barred(queue, avoid, {}):
            queue = self._queues.avoiding_queue(queue, avoid)
            self._bar_queue(queue)
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
            self._now = now
            self._bar()

    def on_owner_left(self, share: int) -> None:
        """Forget where the tasks of an owner have failed."""
        if self.places.forget_owner(share):
            self._bar()

    def _bar(self) -> None:
        """Keep tasks from the places that are set aside, or that they avoid, and from no others."""
        if self._some_barred or self.places.some_aside or self._queues.avoiding:
            self._some_barred = self.places.some_aside
            self._bars_lapse = math.inf
            for queue in self._queues.by_request.values():
                self._bar_queue(queue)

    def _bar_queue(self, queue: TaskQueue) -> None:
        aside = self.places.barred(queue.share) if self.places.some_aside else {}
        barred = self._barred(queue, queue.avoid, aside)
        self._some_barred |= barred is not None
        if barred != queue.barred:
            before, queue.barred = queue.barred, barred
            self._queues.untried |= queue.open & self._queues.nonempty
            self._guard.on_barred(queue, before)

    def _barred(
        self, queue: TaskQueue, avoid: Sequence[RunPlace], aside: Mapping[int, int]
    ) -> Mapping[int, int] | None:
        """Return what is barred for the tasks of a queue: as much as others can serve without.

        A task that has failed on two GPUs of a worker avoids all of it, if other workers are here.
        """
        choices = [aside]
        if avoid:
            devices, workers = dict(aside), dict(aside)
            times = Counter(place.worker for place in avoid)
            for place in avoid:
                if place.worker in self.workers:
                    bar(workers, place if times[place.worker] == 1 else RunPlace(place.worker))
                    if place.gpu != WHOLE:
                        bar(devices, place)
            choices = [workers, devices, aside]
        for barred in choices:
            if not barred or self._some_serve(queue, barred):
                return barred or None
        return None

    def _some_serve(self, queue: TaskQueue, barred: Mapping[int, int]) -> bool:
        """Return True if workers can serve the tasks of a queue without what is barred.

        They have time for them now; when that of one of them is too short, it is asked again.
        """
        for by in queue.alternatives:
            able = (
                worker.end - by.need
                for worker in self.workers.values()
                if not worker.draining
                and worker.has_time(by, self._now)
                and worker.could_serve(by, barred)
            )
            ends = list(islice(able, by.count))
            if len(ends) == by.count:
                self._bars_lapse = min(self._bars_lapse, *ends)
                return True
        return False

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
    ) -> None:
        """Add a task, which is to run once.

        Args:
            task: an id that no waiting or running task has.
            queue: the queue of its request. `TaskQueue.serving_shapes` and `why_never` say whether
                any worker can ever serve it.
            age: its place among the tasks of its priority, ascending, which no other task has;
                by default behind all others. A caller that gives one gives one to all.
            urgency: the larger, the earlier among the tasks of the queue. The places in the order
                of all tasks stay with the queue, whose most urgent task takes the first: so
                urgency changes nothing for other queues, and so for other owners.
            record: what the `Task` has as its record, while it waits and while it runs.
        """
        if age is None and (not queue.avoid or (age := self._age_again(queue)) is None):
            age = self._last_age = self._last_age + _AGES
        elif queue.tasks and age < queue.tasks[-1].age:
            new = self.tasks[task] = Task(task, queue, age, urgency, record)
            self._requeue(new)
            return
        new = self.tasks[task] = Task(task, queue, age, urgency, record)
        if urgency or queue.urgent is not None:
            queue.enter_urgent(new)
        queue.tasks.append(new)
        self._waiting += 1
        if queue.rank is None:
            self._queues.enter(queue, new)
            self._queues.untried |= queue.open

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
        root = Task(task, by.queue, age)
        parts = [root]
        for _ in workers[1:]:
            self._last_seat -= 1
            parts.append(Task(self._last_seat, by.queue, age))
        uses = []
        for part, number in zip(parts, workers, strict=True):
            worker = self.workers[number]
            whole = worker.supply.total
            worker.give_back()
            worker.supply.reclaim(whole)
            self.tasks[part.id] = part
            self._occupy(part, by, worker, now, whole)
            uses.append(self._with_limits(part.id, Supply(whole).alloc(by.space), by))
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
        by: Alternative | None = None,
    ) -> None:
        """Add a task that runs already, started by another scheduler.

        Args:
            task: an id that no waiting or running task has.
            queue: the queue that it would wait in.
            worker: where it runs.
            held: what it was given there, with what it was given of the cluster's.
            age: as for `on_submitted`.
            began: when it was started.
            until: when its hard limit ends it.
            by: the alternative that it runs by; None to tell it from what it holds.

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
            self.taken[task] = by or queue.taken_by(held)
        self._bounded += until != math.inf
        where.tasks[task] = new
        queue.running += 1
        if not where.draining:
            self._queues.open_to_all(where)

    def on_reclassified(self, task: int, queue: TaskQueue, age: int) -> None:
        """Correct the queue and the age of a running task, when its request becomes known."""
        running = self.tasks[task]
        assert running.worker is not None
        running.queue.running -= 1
        running.queue = queue
        if queue.only is None:
            self.taken[task] = queue.taken_by(self.held_by(running))
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
        worker.returned.append((by, ended.held))
        del worker.tasks[task]
        if self.cluster.held:
            self.cluster.give_back(task)
        if not worker.tasks:
            worker.idle_since = now
        self._uncount_run(ended)
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
        if by.learns and use is not None:
            group = self.needs.on_ended(by.stated, ended.held, use, now - ended.started)
            if group is not None:
                self._on_learned(group)

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
            self._on_learned(group)

    def _on_shapes(self) -> None:
        """Let groups ask for their part of other workers than before."""
        if self.needs.on_workers(shape.sample.total for shape in self._queues.shapes.values()):
            self._on_learned()

    def _on_learned(self, group: str | None = None) -> None:
        """Let the queues of a group, or of all, ask for other amounts than before."""
        for queue in self._queues.learn(group):
            for reservation in list(queue.reservations):
                self._guard.lose(reservation)

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
        self._waiting -= 1
        queue = unwanted.queue
        queue.cancelled += 1
        if queue.rank is not None and queue.rank[1] == unwanted.age:
            self._rerank(queue)
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
        return queue.only is not None and self._find(queue.only, now) is not None

    def sole_queue(self) -> TaskQueue | None:
        """Return the queue of all waiting tasks, if it is one, without a reservation; else None."""
        order: Sequence[tuple[int, int, TaskQueue]] = self._queues.order
        if len(order) > 1 and self.cluster.kinds:
            order = [one for one in order if one[2].open]  # the others wait for no worker
        if len(order) != 1:
            return None
        queue = order[0][2]
        return None if queue.reservations or queue.gangs else queue

    def on_taken(self, queue: TaskQueue, count: int) -> list[Task]:
        """Remove the first waiting tasks of a queue, which start without the scheduler.

        Returns:
            As many as there are up to ``count``.
        """
        taken: list[Task] = []
        while len(taken) < count:
            head = self.first_of(queue)
            if head is None:
                break
            queue.tasks.popleft()
            self.tasks.pop(head.id)
            taken.append(head)
        if taken:
            self._waiting -= len(taken)
            self._rerank(queue)
        return taken

    # ---- questions

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

    @property
    def max_overtakes(self) -> int:
        """The number of times that a task may be overtaken before a worker is reserved for it."""
        return self._guard.limit

    def due_after(self, queue: TaskQueue) -> int:
        """Return that number for the tasks of a queue: gangs get their workers earlier."""
        return self._guard.due_after(queue)

    def why_never(self, request: Resource, now: float, interpreter: str = "") -> str | None:
        """Say why no worker that is here could ever run such a task; None if one could.

        For a gang, why there are not enough workers.
        """
        probe = self._probe(request, interpreter)
        never = self.never_in_cluster(probe)
        if never is not None:
            return never
        several = probe.only is None
        reasons = []
        able: Counter[tuple[int, str]] = Counter()
        for worker in self.workers.values():
            if not probe.runs_on(worker.shape.interpreter):
                reasons.append(f"{worker.name}: {probe.why_not_on(worker.shape.interpreter)}")
                continue
            clauses = [self._why_never(one, worker, now) for one in probe.alternatives]
            why = [
                f"for {one.request.ask()} {clause}" if several else clause
                for one, clause in zip(probe.alternatives, clauses, strict=True)
                if clause is not None
            ]
            if len(why) < len(clauses):
                if not worker.draining:
                    ways = zip(probe.alternatives, clauses, strict=True)
                    able.update(
                        (one.index, worker.in_common(one.same)) for one, no in ways if no is None
                    )
                    if any(n >= probe.alternatives[index].count for (index, _), n in able.items()):
                        return None
                    continue
                why = ["it takes no more tasks"]
            reasons.append(f"{worker.name}: {', and '.join(why)}")
        lacking = unowned(request, self.cluster, (w.supply.total for w in self.workers.values()))
        if lacking and not probe.only:
            lacking = []  # another alternative may do without
        return "; ".join([*_too_few(probe, able), *lacking, *reasons]) or "no worker is here"

    def never_in_cluster(self, queue: TaskQueue) -> str | None:
        """Say why the whole cluster will never have enough for a task; None if it may."""
        never = [self.cluster.why_never(one) for one in queue.alternatives]
        if not all(never):
            return None
        return ", and ".join(dict.fromkeys(why for why in never if why is not None))

    def _probe(self, request: Resource, interpreter: str = "") -> TaskQueue:
        """Return a queue that is only asked what fits where."""
        bits = [0] * len(request.alternatives())
        return TaskQueue(
            request, 0, bits, self.run_times, self.needs, self.cluster.kinds,
            interpreter=interpreter,
        )  # fmt: skip

    def _why_never(self, one: Alternative, worker: WorkerAccount, now: float) -> str | None:
        """Return why a worker can never run a task by an alternative; None if it could."""
        why = self.cluster.why_never(one)
        if why is not None:
            return why
        left = worker.end - now
        if not worker.supply.total.request(one.space):
            return worker.supply.why_never(one.space)
        if left < 0:
            return "its time is over"
        if not worker.has_time(one, now):
            return f"{left:.0f} s are left, {one.need:.0f} s needed"
        return None

    def workers_for(self, by: Alternative) -> int:
        """Return the number of workers that have enough in all for a task, or a member of it."""
        shapes = self._queues.shapes.values()
        return sum(shape.workers for shape in shapes if shape.mask & by.bit)

    def needs_larger(self, request: Resource) -> bool:
        """Return True if workers are here, and each has too little in all for a request."""
        spaces = [one.space for one in self._probe(request).alternatives]
        totals = [worker.supply.total for worker in self.workers.values()]
        return bool(totals) and not any(
            total.request(space) for total in totals for space in spaces
        )

    def held_by(self, task: Task) -> Resource:
        """Return all that a running task holds, of its worker and of the cluster."""
        shared = self.cluster.held.get(task.id)
        return task.held if shared is None else task.held & shared

    @property
    def next_time(self) -> float:
        """The time of the next `dispatch` that may start something without another event.

        Tasks wait until then for their first alternative, for a place that is set aside, or for
        workers in place of such a one, which have too little time from then on. ``math.inf`` if
        there are none.
        """
        # A second later, so that no rounding leaves them the time.
        lapse = self._bars_lapse + 1.0 if self._some_barred else math.inf
        return min(self._queues.next_opening(), self.places.due, lapse)

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
        return self._waiting

    @property
    def running(self) -> int:
        """The number of running tasks."""
        return len(self.tasks) - self._waiting

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
        starts: list[Start] = []
        self._guard.on_dispatch(now)
        queues = self._queues
        if now >= queues.apart.next_end and queues.apart.on_time(now):
            self._try_gangs()
        self._now = now
        if self._some_barred and (self.places.try_again(now) or now > self._bars_lapse):
            self._bar()
        if queues.patient:
            self._open_alternatives(now)
        if self.cluster.changed:
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
        while self.cluster.changed:
            self.cluster.changed = False
            for queue, closed in self.cluster.share_out(self._queues.order):
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
                if first.bits & worker.shape.mask or self._bounded:
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
            # Where its group has learned meanwhile, the next one asks for another amount.
            if by.learns and _memory(held) != _memory(by.space):
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
        """
        for _, _, queue in self._queues.order:
            if fitting & queue.bits:
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
            if self._bounded:
                self._guard.on_passed_over(queue, now)
        return None

    def _serve_first(self, starts: list[Start], now: float) -> None:
        """Try the first untried queue: start its oldest task on the worker that it fits best."""
        for _, _, queue in self._queues.order:
            if self._queues.untried & queue.bits:
                break
            if self._bounded:
                self._guard.on_passed_over(queue, now)
        for by in queue.opened():
            members = self._find_members(by, now)
            if members:
                starts.append(self._start(by, members[0], now, members=members))
                for worker in members:
                    self._queues.place(worker)
                return
        self._queues.untried &= ~queue.bits

    def _place(self, worker: WorkerAccount) -> None:
        """Put a worker where what it has free belongs; the queues that fit there are tried."""
        worker.give_back()
        worker.open_to_all = False
        self._queues.place(worker)

    def _find(self, by: Alternative, now: float) -> WorkerAccount | None:
        """Return the worker on which a queue's oldest task is to start by a request, if any."""
        best: WorkerAccount | None = None
        tightest = 0.0
        for level in self._queues.levels.fitting(by):
            slack = level.slack[by.bit]
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
            worker = self._find(by, now)
            return () if worker is None else (worker,)
        apart = self._queues.apart
        found: dict[str, list[WorkerAccount]] = {}
        # Those that are reserved for it go first: they may serve no one else.
        for worker in chain(self._queues.reserved.find_all(by, now), self._free(by, now)):
            able = found.setdefault(worker.in_common(by.same), [])
            able.append(worker)
            if len(able) == by.count and not apart.known:
                return able
        if not apart.known:
            return ()
        serving = serving_gang(by, self.workers.values(), now)
        for common, able in found.items():
            members = apart.choose(able, by.count, lambda one: one.id, serving[common])
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
            self.first_of(queue)
        task = queue.tasks.popleft()
        limit = by.limits.hard
        if held is None:
            # Most often nothing is barred, and each call counts here.
            free = queue.barred is None
            held = worker.supply.alloc(by.space) if free else worker.allocate(by)
        self._waiting -= 1
        reservation = worker.reservation
        self._occupy(task, by, worker, now, held)
        seats = [self._seat(task, by, member, now) for member in members[1:]]
        if self._queues.order[0][2] is not queue:
            # Only now: a new reservation of this worker must account for the run that begins.
            self._guard.on_overtaken(task, worker, now)
        if by.count > 1:
            self._guard.on_gang_started(queue, members)
        self._rerank(queue)
        if by.count == 1 and reservation is not None and reservation.queue is queue:
            self._guard.on_reserved_start(reservation, now)
        allocation = self._with_limits(task.id, task.held, by)
        if self.cluster.changed:
            self._share_out(now)
        trials = self.places.trials
        if trials and self.places.on_started(queue.share, places_of(worker.id, held), now):
            self._bar()
        return Start(
            worker.id,
            task.id,
            allocation,
            limit,
            tuple(
                (member.id, seat.id, self._with_limits(seat.id, seat.held, by))
                for member, seat in zip(members[1:], seats, strict=True)
            ),
        )

    def _seat(self, root: Task, by: Alternative, worker: WorkerAccount, now: float) -> Task:
        """Give a member of a gang its allocation, by a task of its own."""
        self._last_seat -= 1
        seat = self.tasks[self._last_seat] = Task(self._last_seat, by.queue, root.age)
        self._occupy(seat, by, worker, now, worker.allocate(by))
        return seat

    def _occupy(
        self, task: Task, by: Alternative, worker: WorkerAccount, now: float, held: Resource
    ) -> None:
        """Note that a task runs on a worker, and what that means for the worker's reservation."""
        queue = by.queue
        if queue.only is None:
            self.taken[task.id] = by
        if by.shared is not None:
            self.cluster.take(task.id, by.shared)
        task.worker = worker
        task.held = held
        task.started = now
        limit = by.limits.hard
        if limit != math.inf:
            task.until = now + limit
            self._bounded += 1
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

    def _with_limits(self, task: int, held: Resource, by: Alternative) -> Resource:
        """Return what a run may use: of its worker, and of the cluster, and its time limits."""
        if by.shared is not None:
            held = held & self.cluster.held[task]
        return held if by.wtime is None else held & by.wtime.resolved(self.run_times)

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
        self._waiting += 1
        self._guard.on_older(queue)
        if queue.rank is None or queue.rank[1] != queue.tasks[0].age:
            self._rerank(queue)
            # Being older, the task may start where a reservation forbids it to a younger one.
            self._queues.untried |= queue.open

    def _rerank(self, queue: TaskQueue) -> None:
        """Put a queue at the place of its new oldest task."""
        if self._queues.rerank(queue):
            self._guard.on_opened(queue)
        self._guard.on_head_changed(queue)

    def _on_limits_changed(self) -> None:
        """Take in that tasks may need other times now."""
        self._guard.on_limits_changed()
        self._bars_lapse = -math.inf

    def _uncount_run(self, task: Task) -> None:
        """Count a run no more."""
        if task.until != math.inf:
            self._bounded -= 1
        if task.id < 0:
            task.queue.seats -= 1
        else:
            task.queue.running -= 1


def _too_few(queue: TaskQueue, able: Counter[tuple[int, str]]) -> list[str]:
    """Return a clause for each gang of a queue for which some workers could be members."""
    clauses = []
    for one in queue.alternatives:
        most = max((n for (index, _), n in able.items() if index == one.index), default=0)
        if most:
            of_one = "" if one.same == "group" else " of one job"
            clauses.append(
                f"{one.request.ask()} needs {one.count} workers{of_one} at once, and only {most} "
                f"that {'is' if most == 1 else 'are'} here would do"
            )
    return clauses


def _memory(held: Resource) -> float:
    memory = held.get(Memory)
    return memory.M if isinstance(memory, Memory) else 0


def _cores(held: Resource) -> float:
    cores = held.get(Cores)
    return cores.amount if isinstance(cores, Cores) else 0
