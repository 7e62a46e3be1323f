"""Tasks under suspicion: each runs alone on a worker. Plain state, no I/O.

A worker is reserved for a suspect: the one with the least to finish among those that suffice. It
takes nothing else, and when all that ran there has ended, the suspect gets all of it. So if its
process dies again nobody else is harmed, and nobody else is blamed. Some of the workers at most
are reserved at a time, so that suspects never hold up everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.head.hub.state import Entry, Staffer
    from grain.head.scheduler.scheduler import Scheduler

_PART = 4  # one worker in so many may be reserved, and one in any case


class Quarantine:
    """Who waits to run alone, and which workers are reserved.

    Args:
        scheduler: is told which workers take nothing else.
        workers: those there are, by id.
    """

    def __init__(self, scheduler: Scheduler, workers: dict[str, Staffer]) -> None:
        self._scheduler = scheduler
        self._workers = workers
        self.waiting: dict[Entry, Staffer | None] = {}
        self._reserved: set[Staffer] = set()

    def add(self, entry: Entry) -> None:
        """A task waits to run alone."""
        self.waiting[entry] = None

    def remove(self, entry: Entry) -> None:
        """A task does not wait any more."""
        if self.waiting.pop(entry, None) is not None:
            self._give_up_reservations()

    def ready(self, now: float) -> list[tuple[Entry, Staffer]]:
        """Reserve workers; returns the tasks that can start, and where."""
        reserved = {worker.number for worker in self.waiting.values() if worker is not None}
        most = max(1, len(self._workers) // _PART)
        found = []
        for entry, worker in self.waiting.items():
            if worker is not None and not self._fit(entry, worker, now):
                reserved.discard(worker.number)
                worker = self.waiting[entry] = None
            if worker is None and len(reserved) < most:
                worker = self.waiting[entry] = self._choose(entry, reserved, now)
                if worker is not None:
                    reserved.add(worker.number)
                    worker.reserved = True
                    self._reserved.add(worker)
                    self._scheduler.on_worker_draining(worker.number)
            if worker is not None and not any(lease.ticket for lease in worker.leases.values()):
                found.append((entry, worker))
        self._give_up_reservations()
        return found

    def started(self, entry: Entry) -> None:
        """A task has started on its worker, which stays reserved while it runs."""
        del self.waiting[entry]

    def _choose(self, entry: Entry, reserved: set[int], now: float) -> Staffer | None:
        fits = [
            (len(worker.leases), worker.number, worker)
            for worker in self._workers.values()
            if worker.number not in reserved
            and not any(lease.alone for lease in worker.leases.values())
            and self._fit(entry, worker, now)
        ]
        return min(fits, default=(0, 0, None))[2]

    def _fit(self, entry: Entry, worker: Staffer, now: float) -> bool:
        known = self._scheduler.workers.get(worker.number)
        queue = entry.queue
        assert queue is not None
        return (
            known is not None
            and worker.serving
            and not worker.draining
            and known.end >= now + queue.need
            and known.supply.total.request(queue.space)
        )

    def _give_up_reservations(self) -> None:
        """Workers that are reserved for nobody any more take everybody's tasks again."""
        wanted = {worker.number for worker in self.waiting.values() if worker is not None}
        for worker in list(self._reserved):
            if worker.number in wanted or any(x.alone and x.ticket for x in worker.leases.values()):
                continue
            self._reserved.discard(worker)
            worker.reserved = False
            if self._workers.get(worker.id) is worker and worker.serving and not worker.draining:
                self._scheduler.on_worker_back(worker.number)

    @property
    def idle(self) -> bool:
        """Whether nobody is under suspicion and no worker is reserved."""
        return not self.waiting and not self._reserved
