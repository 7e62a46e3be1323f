"""Runs on workers: begun, given up, over. Plain state, no I/O.

A lease holds resources on its worker until the worker says that the run is over, or reports
without it on a later connection, or is lost as a whole. No timer frees them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grain.head.hub.state import Client, Entry, LeaseRecord, Outbox, Staffer
from grain.head.hub.waiting import Waiting
from grain.resource import Supply, to_data
from grain.worker.messages import DefineFunction, Lease, Revoke

if TYPE_CHECKING:
    from grain.head.scheduler.scheduler import Scheduler
    from grain.head.scheduler.state import Start


class Runs(Waiting):
    """The running part of the books.

    Args:
        epoch: this head's number; no other head of these missions and workers has it.
        scheduler: decides what starts.
        outbox: takes the messages.
        wall: the difference between the clock of Unix and that of ``now``, in seconds.
    """

    def __init__(self, epoch: int, scheduler: Scheduler, outbox: Outbox, wall: float) -> None:
        super().__init__(scheduler, outbox)
        self.epoch = epoch
        self._wall = wall
        self._attempts = 0
        self.clients: dict[str, Client] = {}
        self.by_number: dict[int, Staffer] = {}
        self.done = self.failed = 0

    def start(self, start: Start, now: float) -> tuple[Entry, LeaseRecord]:
        """The scheduler has decided that a task starts."""
        entry = self.tickets[start.task]
        assert isinstance(entry, Entry)
        entry.ticket = None
        lease = self._lease(entry, self.by_number[start.worker], start.task, now)
        assert entry.queue is not None
        self.shares.started(entry.age, entry.queue.priority)
        self._send_lease(lease, entry, to_data(start.allocation), start.limit)
        return entry, lease

    def start_suspects(self, now: float) -> list[tuple[Entry, LeaseRecord]]:
        """Start tasks that are to run alone, on workers that have been emptied for them."""
        found = []
        for entry, worker in self.quarantine.ready(now):
            queue = entry.queue
            assert queue is not None
            self.quarantine.started(entry)
            entry.suspect = False
            self._tickets += 1
            lease = self._lease(entry, worker, self._tickets, now)
            lease.alone = True
            limit = queue.limits.hard
            whole = self.scheduler.workers[worker.number].supply.total
            self.scheduler.on_adopted(
                self._tickets, queue, worker.number, whole, entry.age, now, now + limit
            )
            part = Supply(whole).alloc(queue.space)
            if queue.wtime is not None:
                part = part & queue.wtime.resolved(self.scheduler.run_times)
            self._send_lease(lease, entry, to_data(part), limit)
            found.append((entry, lease))
        return found

    def _lease(self, entry: Entry, worker: Staffer, ticket: int, now: float) -> LeaseRecord:
        lease = self._record(entry, worker, ticket)
        self.tickets[ticket] = lease
        lease.began = now
        worker.sent += 1
        lease.index = worker.sent
        return lease

    def _record(self, entry: Entry, worker: Staffer, ticket: int | None) -> LeaseRecord:
        self._attempts += 1
        lease = LeaseRecord((self.epoch, self._attempts), entry, worker, ticket)
        entry.lease = lease
        worker.leases[lease.attempt] = lease
        return lease

    def _send_lease(
        self,
        lease: LeaseRecord,
        entry: Entry,
        resources: dict[str, Any],
        limit: float = math.inf,
        line: int = 0,
    ) -> None:
        worker = lease.worker
        if entry.function not in worker.functions:
            worker.functions.add(entry.function)
            self._outbox.post(
                worker.link,
                DefineFunction(entry.function),
                entry.client.functions.get(entry.function),
            )
        message = Lease(
            entry.client.id,
            entry.number,
            lease.attempt,
            entry.function,
            resources,
            None if limit == math.inf else limit,
            lease.alone,
            line,
        )
        self._outbox.post(worker.link, message, entry.arguments)

    def revoke(self, lease: LeaseRecord) -> None:
        """A run is not wanted any more; it holds what it holds until its worker has ended it."""
        lease.revoked = True
        self._outbox.post(lease.worker.link, Revoke(lease.attempt))

    def _end(self, lease: LeaseRecord, now: float, *, measured: bool = False) -> None:
        """A run is over: what it held is free."""
        del lease.worker.leases[lease.attempt]
        self.free(lease, now, measured=measured)

    def free(self, lease: LeaseRecord, now: float, *, measured: bool = False) -> None:
        """What a run held is free, though its outcome is still under way."""
        if lease.ticket is not None:
            del self.tickets[lease.ticket]
            self.scheduler.on_finished(lease.ticket, now, measured=measured)
            lease.ticket = None
