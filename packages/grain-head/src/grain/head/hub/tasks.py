"""Tasks and leases: what is decided about one task. Plain state, no I/O.

1.  A lease holds resources on its worker until the worker says that the run is over, or reports
    without it on a later connection, or is lost as a whole. No timer frees them.
2.  The first success of any run resolves a task; a failure only if it is that of the current run.
    What comes after the resolution is released and dropped.
3.  A run that a worker reports is adopted by its task if that waits. If another run of the task is
    under way, the older of the two goes on and the other is revoked, but holds what it holds.
4.  A task whose mission is away is not started: if it waits it is forgotten, as the mission will
    submit it again. If it runs it goes on.
5.  A run that was begun and whose process or worker died is a crash of its task. After `SOLO`
    crashes a task runs alone on a worker (`_quarantine`); after `CRASHES` it fails.
    Runs that were lost in any other way do not count.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grain.head.hub.prefetch import Ahead
from grain.head.hub.state import Client, Entry, LeaseRecord, Staffer
from grain.head.messages import Crash, Crashed, Resolved, Retracted, Started
from grain.head.scheduler.state import split_time
from grain.resource import from_data

if TYPE_CHECKING:
    from grain.edge.messages import Payload
    from grain.head.messages import Ending
    from grain.worker.messages import Attempt, HeldRun, RunEnded

CRASHES = 5
"""Crashes after which a task fails."""


class Ledger(Ahead):
    """The tasks of all missions and their runs on all workers.

    Args:
        epoch: this head's number; no other head of these missions and workers has it.
        scheduler: decides what starts.
        outbox: takes the messages.
        wall: the difference between the clock of Unix and that of ``now``, in seconds.
        ahead: seconds of work that are sent ahead for each run.
    """

    # ---- the end of a run

    def settle(self, worker: Staffer, settled: RunEnded, payload: Payload, now: float) -> None:
        """A worker says what became of a run."""
        lease = worker.leases.get(settled.attempt)
        if lease is None:
            self._settled_before(worker, settled)
            return
        measured = settled.status in ("value", "error")
        self._end(lease, now, measured=measured)
        entry = self._entry(settled)
        if entry is None or entry.ending is not None:
            self.release(worker, settled.attempt)
        elif settled.status == "value" or (settled.status == "error" and lease.current):
            self._resolve(entry, settled.status, payload, (worker.id, settled.attempt))
        else:
            self.release(worker, settled.attempt)
            if lease.current:
                how = settled.detail if settled.status == "crashed" else None
                self._again(lease, entry, how, now)

    def _entry(self, settled: RunEnded) -> Entry | None:
        """The task of a run; looked up, as it may have come again since the run was given up."""
        client = self.clients.get(settled.mission)
        return None if client is None else client.entries.get(settled.task)

    def _settled_before(self, worker: Staffer, settled: RunEnded) -> None:
        """Told twice; but an outcome that the mission has yet to confirm is to be kept."""
        entry = self._entry(settled)
        if entry is None or entry.source != (worker.id, settled.attempt):
            self.release(worker, settled.attempt)

    def lose(self, lease: LeaseRecord, how: str | None, now: float) -> None:
        """A run is gone without an outcome.

        Args:
            lease: which.
            how: what its worker died of, if the run may have been the reason.
            now: the time.
        """
        ran = lease.begun and lease.ticket is not None
        self._end(lease, now)
        if lease.current:
            assert lease.entry is not None
            self._again(lease, lease.entry, how if ran else None, now)

    def _again(self, lease: LeaseRecord, entry: Entry, how: str | None, now: float) -> None:
        """The current run of a task has come to nothing."""
        entry.lease = None
        if entry.retracted:
            self._gone(entry)
            return
        if how is not None:
            crash = Crash(lease.attempt, lease.worker.name, how, self._wall + now)
            if all(known.attempt != crash.attempt for known in entry.crashes):
                entry.crashes = (*entry.crashes, crash)
                if entry.claimed:
                    self._outbox.post(entry.client.link, Crashed(entry.number, crash))
            if len(entry.crashes) >= CRASHES:
                self._resolve(entry, "crashed", None, None)
                return
        if entry.claimed:
            self._outbox.post(entry.client.link, Started("", (entry.number,)))
            self.enqueue(entry, now)
        elif not entry.crashes:  # or the mission is to be told of them
            del entry.client.entries[entry.number]

    # ---- the end of a task

    def _resolve(
        self, entry: Entry, ending: Ending, outcome: Payload, source: tuple[str, Attempt] | None
    ) -> None:
        self.withdraw(entry)
        if entry.lease is not None:
            if source is None or entry.lease.attempt != source[1]:
                self.revoke(entry.lease)
            entry.lease = None
        entry.arguments = None
        if entry.retracted:
            if source is not None:
                self.release(self.workers.get(source[0]), source[1])
            self._gone(entry)
            return
        entry.ending = ending
        entry.outcome = outcome
        entry.source = source
        if ending == "value":
            self.done += 1
        else:
            self.failed += 1
        if entry.claimed:
            self.deliver(entry)

    def deliver(self, entry: Entry) -> None:
        """Tell the mission what became of its task."""
        assert entry.ending is not None
        crashes = entry.crashes if entry.ending == "crashed" else ()
        message = Resolved(entry.number, entry.ending, crashes)
        self._outbox.post(entry.client.link, message, entry.outcome)

    def received(self, client: Client, task: int) -> None:
        """The mission has the outcome: nobody needs to keep it."""
        entry = client.entries.get(task)
        if entry is not None and entry.ending is not None:
            self.discard(entry)

    def retract(self, client: Client, task: int) -> None:
        """The mission does not want a task any more."""
        entry = client.entries.get(task)
        if entry is None:
            self._outbox.post(client.link, Retracted(task))
            return
        entry.claimed = True
        if entry.ending is not None:
            self.deliver(entry)
        elif not entry.retracted:
            entry.retracted = True
            if entry.lease is None:
                self.withdraw(entry)
                self._gone(entry)
            elif not entry.lease.revoked:
                self.revoke(entry.lease)

    def _gone(self, entry: Entry) -> None:
        del entry.client.entries[entry.number]
        self._outbox.post(entry.client.link, Retracted(entry.number))

    def discard(self, entry: Entry) -> None:
        """A task is forgotten, whatever state it is in."""
        self.withdraw(entry)
        del entry.client.entries[entry.number]
        if entry.source is not None:
            self.release(self.workers.get(entry.source[0]), entry.source[1])
        if entry.lease is not None:
            entry.lease.entry = None
            if not entry.lease.revoked:
                self.revoke(entry.lease)
            entry.lease = None

    def release(self, worker: Staffer | None, attempt: Attempt) -> None:
        """A worker need not keep an outcome."""
        if worker is not None:
            self._outbox.release(worker.link, attempt)

    # ---- adoption

    def confirm(self, worker: Staffer, held: HeldRun, now: float) -> None:
        """A worker that connects again reports a run that is known."""
        lease = worker.leases[held.attempt]
        lease.session = worker.session
        lease.index = 0
        if held.ended:
            self.free(lease, now)
        elif lease.revoked:
            self.revoke(lease)

    def adopt(self, worker: Staffer, held: HeldRun, client: Client, now: float) -> None:
        """A worker reports a run that another head has begun, or that was given up."""
        entry = client.entries.get(held.task)
        if entry is None and not client.synced:
            entry = client.entries[held.task] = Entry(client, held.task)
        if entry is not None and entry.source == (worker.id, held.attempt):
            return  # resolved by this very run, which the mission has not confirmed yet
        unwanted = entry is None or entry.ending is not None or entry.retracted
        lease = LeaseRecord(held.attempt, None if unwanted else entry, worker, None)
        lease.began = now - held.elapsed
        lease.alone = held.alone
        worker.leases[held.attempt] = lease
        if not held.ended and not self.adopt_behind(lease, held):
            self._hold(lease, held, client, entry, now)
        if unwanted or entry is None:
            if not held.ended:
                self.revoke(lease)
        elif entry.lease is None:
            self.withdraw(entry)
            entry.lease = lease
            self._outbox.post(client.link, Started(worker.id, (entry.number,)))
        elif not held.ended:
            other = entry.lease
            older = other.ticket is not None and lease.began < other.began
            if not lease.waits and (other.waits or older):
                entry.lease, lease = lease, entry.lease
            self.revoke(lease)

    def _hold(
        self, lease: LeaseRecord, held: HeldRun, client: Client, entry: Entry | None, now: float
    ) -> None:
        """Take what a reported run uses out of what its worker has free."""
        space = split_time(from_data(held.res, unknown="keep"))[1]
        if held.alone:
            space = self.scheduler.workers[lease.worker.number].supply.total
        queue = entry.queue if entry is not None and not held.alone else None
        queue = queue or self.scheduler.queue(space, 0, client.number)
        self._tickets += 1
        until = math.inf if held.left is None else now + held.left
        age = self.shares.age(client.share, queue.priority)
        self.scheduler.on_adopted(
            self._tickets, queue, lease.worker.number, space, age, lease.began, until
        )
        lease.ticket = self._tickets
        self.tickets[lease.ticket] = lease

    def claim(self, entry: Entry, worker: str, now: float) -> None:
        """A mission has told of a task, and where it ran when it was last told."""
        entry.claimed = True
        if entry.ending is not None:
            self.deliver(entry)
        elif len(entry.crashes) >= CRASHES and entry.lease is None:
            self._resolve(entry, "crashed", None, None)
        elif entry.lease is None:
            if worker:
                self.hold_back(entry, worker)
            else:
                self.enqueue(entry, now)
        elif entry.lease.ticket is not None and not entry.lease.alone:
            assert entry.queue is not None
            self.scheduler.on_reclassified(entry.lease.ticket, entry.queue, entry.age)

    # ---- small things

    def summary(self) -> dict[str, Any]:
        """Counts, for people."""
        return {
            "waiting": self.scheduler.waiting + self.in_line,
            "held back": sum(map(len, self.awaiting.values())),
            "running": self.scheduler.running,
            "done": self.done,
            "failed": self.failed,
        }
