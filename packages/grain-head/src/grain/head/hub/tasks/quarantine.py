"""The quarantine: each task that crashed before gets a worker to itself. Plain state, no I/O.

A worker is reserved for a suspect: the one with the least to finish, of all that suffice. It takes
nothing else, and when all its runs have ended, the suspect gets all of it. So if its process dies
again, no other task is harmed, and no other task is blamed. Only some of the workers are reserved
at a time, so that suspects never hold up everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.head.hub.registry import Registry
    from grain.head.hub.state import TaskRecord, WorkerRecord

_PART = 4  # one worker in so many may be reserved, and one in any case


class Quarantine:
    """The tasks that wait for a worker to themselves, and the workers reserved for them.

    Attributes:
        waiting: the tasks, each with the worker reserved for it, if there is one.
    """

    def __init__(self, registry: Registry) -> None:
        self._scheduler = registry.scheduler
        self._workers = registry.workers
        self.waiting: dict[TaskRecord, WorkerRecord | None] = {}
        # The workers reserved for suspects that wait or run: each until its suspect has ended.
        self._reserved: set[WorkerRecord] = set()

    def add(self, task: TaskRecord) -> None:
        """Let a task wait to run by itself."""
        task.suspect = True
        self.waiting[task] = None

    def remove(self, task: TaskRecord) -> None:
        """Forget a task that does not wait any more."""
        task.suspect = False
        if self.waiting.pop(task, None) is not None:
            self._give_up_reservations()

    def ready(self, now: float) -> list[tuple[TaskRecord, WorkerRecord]]:
        """Reserve workers; return the tasks that start now, each with its worker.

        The worker stays reserved while the task runs.
        """
        if not self.waiting and not self._reserved:
            return []
        reserved = {worker.number for worker in self.waiting.values() if worker is not None}
        most = max(1, len(self._workers) // _PART)
        ready = []
        for task, worker in self.waiting.items():
            if worker is not None and not self._suffices(worker, task, now):
                reserved.discard(worker.number)
                worker = self.waiting[task] = None
            if worker is None and len(reserved) < most:
                worker = self.waiting[task] = self._choose(task, reserved, now)
                if worker is not None:
                    reserved.add(worker.number)
                    worker.reserved = True
                    self._reserved.add(worker)
                    self._scheduler.on_worker_draining(worker.number)
            # A lease without a scheduler id holds nothing there by itself.
            if worker is not None and not any(x.scheduler_id for x in worker.leases.values()):
                ready.append((task, worker))
        # Only at the end: a worker that one suspect gave up may be reserved for the next by now,
        # and the scheduler must not start anything there in between.
        self._give_up_reservations()
        for task, _ in ready:
            del self.waiting[task]
            task.suspect = False
        return ready

    def _choose(self, task: TaskRecord, reserved: set[int], now: float) -> WorkerRecord | None:
        candidates = [
            (len(worker.leases), worker.number, worker)
            for worker in self._workers.values()
            if worker.number not in reserved
            # A suspect that runs is not in `waiting`, but its worker is not free.
            and not any(lease.alone for lease in worker.leases.values())
            and self._suffices(worker, task, now)
        ]
        return min(candidates, default=(0, 0, None))[2]

    def _suffices(self, worker: WorkerRecord, task: TaskRecord, now: float) -> bool:
        scheduled = self._scheduler.workers.get(worker.number)
        queue = task.queue
        assert queue is not None
        return (
            scheduled is not None
            and worker.takes_runs
            and queue.alternative_on(scheduled, now) is not None
        )

    def _give_up_reservations(self) -> None:
        """Return the workers that are reserved for no task any more to the scheduler."""
        wanted = {worker.number for worker in self.waiting.values() if worker is not None}
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
