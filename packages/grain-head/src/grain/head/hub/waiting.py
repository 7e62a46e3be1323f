"""Tasks that wait: for room, for a worker of their own, or for word of a worker. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.hub.fair_share import FairShare
from grain.head.hub.quarantine import Quarantine
from grain.head.messages import Notice

if TYPE_CHECKING:
    from grain.head.hub.state import Entry, LeaseRecord, Outbox, Staffer
    from grain.head.scheduler.scheduler import Scheduler
    from grain.head.scheduler.state import TaskQueue

SOLO = 2
"""Crashes after which a task runs alone."""


class Waiting:
    """The waiting part of the books.

    Args:
        scheduler: decides what starts.
        outbox: takes the messages.
    """

    def __init__(self, scheduler: Scheduler, outbox: Outbox) -> None:
        self.scheduler = scheduler
        self.shares = FairShare()
        self._outbox = outbox
        self._tickets = 0
        # What the scheduler's ids stand for: an entry that waits, or a lease.
        self.tickets: dict[int, Entry | LeaseRecord] = {}
        # Tasks held back, by the worker that they ran on.
        self.awaiting: dict[str, dict[Entry, None]] = {}
        self.workers: dict[str, Staffer] = {}
        self.quarantine = Quarantine(scheduler, self.workers)

    def enqueue(self, entry: Entry, now: float) -> None:
        """A task waits for room."""
        queue = entry.queue
        assert queue is not None
        if not queue.serving_shapes:
            self._warn(entry, queue, now)
        if len(entry.crashes) >= SOLO:
            entry.suspect = True
            self.quarantine.add(entry)
            return
        self._tickets += 1
        entry.ticket = self._tickets
        self.tickets[self._tickets] = entry
        self.scheduler.on_submitted(self._tickets, queue, entry.age)

    def hold_back(self, entry: Entry, worker: str) -> None:
        """A task waits for word of the worker that it ran on under another head."""
        entry.awaits = worker
        self.awaiting.setdefault(worker, {})[entry] = None

    def withdraw(self, entry: Entry) -> None:
        """A task does not wait any more, for whatever reason."""
        if entry.ticket is not None:
            self.scheduler.on_cancelled(entry.ticket)
            del self.tickets[entry.ticket]
            entry.ticket = None
        elif entry.suspect:
            entry.suspect = False
            self.quarantine.remove(entry)
        elif entry.awaits:
            others = self.awaiting[entry.awaits]
            del others[entry]
            if not others:
                del self.awaiting[entry.awaits]
            entry.awaits = ""

    def heard_of(self, worker: str, now: float) -> None:
        """What was held back for a worker, and not adopted, waits for room."""
        for entry in list(self.awaiting.get(worker, ())):
            self.withdraw(entry)
            self.enqueue(entry, now)

    def _warn(self, entry: Entry, queue: TaskQueue, now: float) -> None:
        client = entry.client
        if entry.request not in client.reported:
            client.reported.add(entry.request)
            why = self.scheduler.why_never(queue.request, now)
            if why is not None:
                self._outbox.post(
                    client.link, Notice(entry.request, why, bool(self.scheduler.workers))
                )
