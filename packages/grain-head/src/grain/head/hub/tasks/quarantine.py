"""The quarantine: each task that crashed before gets workers to itself. Plain state, no I/O.

A worker is reserved for a suspect: the one with the least to finish, of all that suffice. It takes
nothing else, and when all its runs have ended, the suspect gets all of it. So if its process dies
again, no other task is harmed, and no other task is blamed. Only some of the workers are reserved
at a time, so that suspects never hold up everything else.

A gang gets as many workers as it has members, all at once or none: so two gangs cannot wait for
each other. It may be larger than the part of the workers that is reserved at a time; then no other
suspect has a reservation beside it. Younger suspects do not overtake it: none gets a reservation
before a gang that waits for others to give up theirs, and none a worker that a gang is to have when
other suspects have ended there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from grain.head.hub.registry import Registry
    from grain.head.hub.state import TaskRecord, WorkerRecord
    from grain.head.scheduler.state import Alternative, WorkerAccount

_PART = 4  # one worker in so many may be reserved, and one task in any case may have its workers


class EmptiedWorkers(NamedTuple):
    """The workers that are reserved for a suspect: one, or the members of a gang.

    Attributes:
        by: the alternative of its request by which it starts.
        workers: one for each member, the root first.
    """

    by: Alternative
    workers: tuple[WorkerRecord, ...]


class Quarantine:
    """The tasks that wait for workers to themselves, and the workers reserved for them.

    Attributes:
        waiting: the tasks, each with the workers reserved for it, if there are any.
    """

    def __init__(self, registry: Registry) -> None:
        self._scheduler = registry.scheduler
        self._workers = registry.workers
        self.waiting: dict[TaskRecord, EmptiedWorkers | None] = {}
        # The workers reserved for suspects that wait or run: each until its suspect has ended.
        self._reserved: set[WorkerRecord] = set()

    def add(self, task: TaskRecord) -> None:
        """Let a task wait to run by itself."""
        task.alter().suspect = True
        self.waiting[task] = None

    def remove(self, task: TaskRecord) -> None:
        """Forget a task that does not wait any more."""
        task.alter().suspect = False
        self._scheduler.cluster.release(task)
        if self.waiting.pop(task, None) is not None:
            self._give_up_reservations()

    def ready(self, now: float) -> list[tuple[TaskRecord, EmptiedWorkers]]:
        """Reserve workers; return the tasks that start now, each with its workers.

        The workers stay reserved while the task runs.
        """
        if not self.waiting and not self._reserved:
            return []
        taken = self._reserved_for_waiting()
        count = len(taken)
        most = max(1, len(self._workers) // _PART)
        ready = []
        for task, emptied in self.waiting.items():
            if emptied is not None and not self._suffice(emptied, task, now):
                self._scheduler.cluster.release(task)
                taken.difference_update(worker.number for worker in emptied.workers)
                count -= len(emptied.workers)
                emptied = self.waiting[task] = None
            if emptied is None and count < most:
                emptied = self._choose(task, taken, now)
                if emptied is None:
                    taken |= self._claimed(task, now)
                elif count and count + len(emptied.workers) > most:
                    most = 0  # none that is younger gets workers before it
                    emptied = None
                else:
                    self.waiting[task] = emptied
                    count += len(emptied.workers)
                    taken.update(worker.number for worker in emptied.workers)
                    self._reserve(emptied)
                    # So that the workers are not emptied in vain.
                    self._scheduler.cluster.keep(task, emptied.by)
            # A lease without a scheduler id holds nothing there by itself. One that is over has not
            # ended, and is not to die with the suspect.
            if emptied is not None and not any(
                lease.scheduler_id or lease.over
                for worker in emptied.workers
                for lease in worker.leases.values()
            ):
                ready.append((task, emptied))
        # Only at the end: a worker that one suspect gave up may be reserved for the next by now,
        # and the scheduler must not start anything there in between.
        self._give_up_reservations()
        for task, _ in ready:
            del self.waiting[task]
            task.alter().suspect = False
        return ready

    def _reserved_for_waiting(self) -> set[int]:
        emptied = (one.workers for one in self.waiting.values() if one is not None)
        return {worker.number for workers in emptied for worker in workers}

    def _reserve(self, emptied: EmptiedWorkers) -> None:
        for worker in emptied.workers:
            worker.reserved = True
            self._reserved.add(worker)
            self._scheduler.on_worker_draining(worker.number)

    def _choose(
        self, task: TaskRecord, taken: Collection[int] | None, now: float
    ) -> EmptiedWorkers | None:
        """Return the workers that a task can have soonest; None if too few are large enough.

        Args:
            taken: the workers that are for other suspects; None to consider these, too.
        """
        queue = task.queue
        assert queue is not None
        best: tuple[tuple[int, int], EmptiedWorkers] | None = None
        for by in queue.alternatives:
            if not self._scheduler.cluster.gives(by):
                continue  # licences are to become free first, and meanwhile no worker is kept
            for serving in self._serving(by, now).values():
                # A suspect that runs is not in `waiting`, but its worker is not free.
                able = [
                    worker
                    for worker in serving
                    if taken is None
                    or not (worker.number in taken or any(x.alone for x in worker.leases.values()))
                ]
                # Those with the fewest runs are empty soonest, as far as is known.
                able.sort(key=lambda worker: (len(worker.leases), worker.number))
                few = self._scheduler.apart.members(by, able, self._account, serving)
                if len(few) == by.count:
                    key = sum(len(worker.leases) for worker in few), by.index
                    if best is None or key < best[0]:
                        best = key, EmptiedWorkers(by, tuple(few))
        return None if best is None else best[1]

    def _serving(self, by: Alternative, now: float) -> dict[str, list[WorkerRecord]]:
        """Return the workers that could serve a task if they were empty, by what is in common."""
        serving: dict[str, list[WorkerRecord]] = {}
        for worker in self._workers.values():
            if self._suffices(worker, by, now):
                scheduled = self._scheduler.workers[worker.number]
                common = "" if by.count == 1 else scheduled.in_common(by.same)
                serving.setdefault(common, []).append(worker)
        return serving

    def _claimed(self, task: TaskRecord, now: float) -> set[int]:
        """Return the workers that a gang is to have when suspects have ended there."""
        assert task.queue is not None
        claim = self._choose(task, None, now) if task.queue.gangs else None
        if claim is None or claim.by.count == 1:
            return set()
        return {worker.number for worker in claim.workers}

    def _suffice(self, emptied: EmptiedWorkers, task: TaskRecord, now: float) -> bool:
        by, workers = emptied.by, emptied.workers
        if not all(self._suffices(worker, by, now) for worker in workers):
            return False
        if by.count > 1:
            common = self._scheduler.workers[workers[0].number].in_common(by.same)
            serving = self._serving(by, now)[common]
            members = self._scheduler.apart.members(by, workers, self._account, serving)
            if len(members) < by.count:
                return False
        return self._scheduler.cluster.gives(by, task)

    def _account(self, worker: WorkerRecord) -> WorkerAccount:
        return self._scheduler.workers[worker.number]

    def _suffices(self, worker: WorkerRecord, by: Alternative, now: float) -> bool:
        scheduled = self._scheduler.workers.get(worker.number)
        return (
            scheduled is not None
            and worker.takes_runs
            and scheduled.has_time(by, now)
            and by.fits(scheduled.shape.interpreter, scheduled.supply.total)
        )

    def _give_up_reservations(self) -> None:
        """Return the workers that are reserved for no task any more to the scheduler."""
        wanted = self._reserved_for_waiting()
        for worker in list(self._reserved):
            if worker.number in wanted or any(
                lease.alone and lease.scheduler_id for lease in worker.leases.values()
            ):
                continue
            self._reserved.discard(worker)
            worker.reserved = False
            # It may have left meanwhile, and another record may have its id.
            if self._workers.get(worker.id) is worker and worker.takes_runs:
                self._scheduler.on_worker_back(worker.number)
