"""The scheduler: which task runs where and when. Plain state, no I/O, no clock.

Events come in through the ``on_...`` methods, decisions go out of `Scheduler.dispatch`; time is
an argument, in seconds of any clock that does not go back. The policy:

1.  Tasks that ask for the same, at the same priority, form one queue, first come first served.
    Queues are served by the rank of their oldest task: priority, then age.
2.  A queue whose oldest task finds no room is passed over: younger tasks of other queues may use
    what it cannot. It is promised room before that can starve it (`grain.head.scheduler.starvation_guard`).
3.  Among the workers with room, the tightest fit wins, and among equal ones the one with the
    least time left that suffices (`grain.head.scheduler.index`).
4.  After every `dispatch`, no task waits that could start.

Cost: a task's submission, start and end each cost the same however many tasks wait, as long as
distinct requests are few; the number of workers enters by its logarithm.

Invariants, which `check_scheduler` in grain.head.testing asserts after every step of the tests:

- a worker's supply plus the leases on it is what it has in all;
- a waiting task is in exactly one queue, in the order of submission;
- a queue's bit is set in ``active`` while it has a waiting task; ``order`` is sorted.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING

from grain.head.scheduler.dispatch import Dispatch
from grain.head.scheduler.index import Worker
from grain.head.scheduler.state import Task, TaskQueue, limits_of
from grain.resource import ZERO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.resource import Resource


class Scheduler(Dispatch):
    """Decides which task runs where and when.

    Args:
        max_overtakes: how often, for each worker, the oldest task of a queue may be overtaken
            before room is kept for it, where run times are not known.
    """

    # ---- workers

    def on_worker_joined(self, worker: int, name: str, total: Resource, now: float) -> None:
        """A worker offers its resources.

        Raises:
            ValueError: a worker of this id is here already.
        """
        if worker in self.workers:
            raise ValueError(f"worker {worker} joined already")
        new = self.workers[worker] = Worker(worker, name, total, now)
        self._queues.join(new)
        self._unsettled[worker] = new

    def on_worker_draining(self, worker: int) -> None:
        """A worker takes no more tasks; those that run there go on."""
        known = self.workers[worker]
        known.draining = True
        self._unsettled.pop(worker, None)
        self._queues.levels.drop(known)
        self._fairness.release(known.promise)

    def on_worker_back(self, worker: int) -> None:
        """A worker that was said to be draining takes tasks again."""
        known = self.workers[worker]
        if known.draining:
            known.draining = False
            known.stale = True
            self._unsettled[worker] = known

    def on_worker_left(self, worker: int) -> list[int]:
        """A worker is gone with all its runs; their tasks wait again, at the front.

        Returns:
            The ids of those tasks, the oldest first. A task whose run was to be ended by
            `on_cancelled` is among them: cancel it again, now that it waits.
        """
        gone = self.workers.pop(worker)
        self._unsettled.pop(worker, None)
        self._fairness.release(gone.promise)
        self._queues.leave(gone)
        again = sorted(gone.tasks.values(), key=lambda task: task.seq, reverse=True)
        for task in again:
            self._release(task)
            self._requeue(task)
        return [task.id for task in reversed(again)]

    # ---- tasks

    def queue(self, request: Resource, priority: int = 0, share: int = 0) -> TaskQueue:
        """The queue for a request, made if there is none: what `on_submitted` takes.

        Args:
            request: what the tasks need.
            priority: larger goes first.
            share: whose tasks; each owner has queues of its own.
        """
        return self._queues.get(request, priority, share)

    def on_submitted(self, task: int, queue: TaskQueue, age: int | None = None) -> None:
        """A task wants to run once.

        Args:
            task: an id that no waiting or running task has.
            queue: the queue of its request. `TaskQueue.served` and `why_never` tell whether it
                can be served at all.
            age: its place among the tasks of its priority, ascending, which no other task has;
                by default behind all others. Who gives one gives one to all.
        """
        if age is None:
            age = self._seq = self._seq + 1
        elif queue.tasks and age < queue.tasks[-1].seq:
            new = self.tasks[task] = Task(task, queue, age)
            self._requeue(new)
            return
        new = self.tasks[task] = Task(task, queue, age)
        queue.tasks.append(new)
        self._waiting += 1
        if not self._queues.active & queue.bit:
            self._queues.activate(queue, new)
            self._queues.open |= queue.bit

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
        """A task turns out to run already, started by another scheduler.

        Args:
            task: an id that no waiting or running task has.
            queue: the queue that it would wait in.
            worker: where it runs.
            held: what it was given there.
            age: as for `on_submitted`.
            began: when it was started.
            until: when its hard limit ends it.

        Raises:
            ValueError: what it holds is not free on that worker.
        """
        where = self.workers[worker]
        where.give_back()
        where.supply.reclaim(held)
        new = self.tasks[task] = Task(task, queue, age)
        new.worker = where
        new.held = held
        new.started = began
        new.until = until
        self._bounded += until != math.inf
        where.tasks[task] = new
        queue.running += 1
        if not where.draining:
            where.stale = True
            self._unsettled[worker] = where

    def on_reclassified(self, task: int, queue: TaskQueue, age: int) -> None:
        """Of a running task it has become known what it asked for."""
        known = self.tasks[task]
        assert known.worker is not None
        known.queue.running -= 1
        known.queue = queue
        known.seq = age
        queue.running += 1

    def on_finished(self, task: int, now: float, *, measured: bool = True) -> None:
        """A run has ended, and everything it held is free again.

        Args:
            task: which task.
            now: the time.
            measured: whether the time it took tells of its group; false for one that was stopped.
        """
        known = self.tasks.pop(task)
        worker = known.worker
        assert worker is not None
        worker.returned.append((known.queue, known.held))
        del worker.tasks[task]
        self._release(known)
        if worker.promise is not None:
            worker.promise.finished(task)
        if not worker.draining:
            self._unsettled[worker.id] = worker
        wtime = known.queue.wtime
        if (
            measured
            and wtime is not None
            and wtime.group is not None
            and self.run_times.record(wtime.group, now - known.started)
        ):
            self._new_estimate(wtime.group)

    def on_cancelled(self, task: int) -> Task | None:
        """A task is not wanted any more.

        Returns:
            The task if it runs: its worker is to end it, and it holds its resources until
            `on_finished`. None if it waited, or was not known; then it is gone.
        """
        known = self.tasks.get(task)
        if known is None:
            return None
        if known.worker is not None:
            return known
        del self.tasks[task]
        known.cancelled = True
        self._waiting -= 1
        queue = known.queue
        queue.cancelled += 1
        if queue.rank is not None and queue.rank[1] == known.seq:
            self._rerank(queue)
        elif len(queue.tasks) > 64 and queue.tasks[-1].cancelled:
            while queue.tasks and queue.tasks[-1].cancelled:
                queue.tasks.pop()
                queue.cancelled -= 1
        return None

    def sole_queue(self) -> TaskQueue | None:
        """The queue of all waiting tasks, if they are of one queue and nothing was promised."""
        if len(self._queues.order) != 1:
            return None
        queue = self._queues.order[0][2]
        return queue if queue.promise is None else None

    def on_taken(self, queue: TaskQueue, count: int) -> list[int]:
        """The oldest waiting tasks of a queue are none of the scheduler's business any more.

        Returns:
            Their ids, as many as there are up to `count`.
        """
        taken: list[int] = []
        while len(taken) < count:
            head = queue.head()
            if head is None:
                break
            queue.tasks.popleft()
            del self.tasks[head.id]
            taken.append(head.id)
        if taken:
            self._waiting -= len(taken)
            self._rerank(queue)
        return taken

    # ---- questions

    def why_never(self, request: Resource, now: float) -> str | None:
        """Why no worker that is here could ever run such a task; None if one could."""
        probe = TaskQueue(request, 0, 0, self.run_times)
        reasons = []
        for worker in self.workers.values():
            left = worker.end - now
            if not worker.supply.total.request(probe.space):
                reasons.append(f"{worker.name}: {worker.supply.why_never(probe.space)}")
            elif left < 0:
                reasons.append(f"{worker.name}: its time is over")
            elif not worker.has_time(probe, now):
                reasons.append(f"{worker.name}: {left:.0f} s are left, {probe.need:.0f} s needed")
            elif worker.draining:
                reasons.append(f"{worker.name}: it takes no more tasks")
            else:
                return None
        return "; ".join(reasons) or "no worker is here"

    @property
    def queues(self) -> Mapping[tuple[int, Resource, int], TaskQueue]:
        """The queues by priority, request and share; idle ones are forgotten at some time."""
        return self._queues.by_request

    @property
    def waiting(self) -> int:
        """How many tasks wait."""
        return self._waiting

    @property
    def running(self) -> int:
        """How many tasks run."""
        return len(self.tasks) - self._waiting

    # ---- small things

    def _requeue(self, task: Task) -> None:
        """A task waits again, at the place of its age."""
        queue = task.queue
        # Only tasks that ran before are older, and those are few and in front.
        older = takewhile(lambda other: other.seq < task.seq, queue.tasks)
        queue.tasks.insert(sum(1 for _ in older), task)
        self._waiting += 1
        if queue.rank is None or queue.rank[1] != queue.tasks[0].seq:
            self._rerank(queue)
            self._queues.open |= (
                queue.bit
            )  # as an older one it may pass a promise that a younger may not

    def _new_estimate(self, group: str) -> None:
        for queue in self._queues.by_bit.values():
            if queue.wtime is not None and queue.wtime.group == group:
                queue.limits = limits_of(queue.wtime, self.run_times)
                # Shorter limits may suit workers that were out of the question.
                self._queues.open |= queue.bit & self._queues.active

    def _release(self, task: Task) -> None:
        """A task does not run any more."""
        if task.until != math.inf:
            self._bounded -= 1
            task.until = math.inf
        task.worker = None
        task.held = ZERO
        task.queue.running -= 1
