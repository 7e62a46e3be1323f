"""What must hold, whatever goes wrong. Each law has a name, which a broken one is reported by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.messages import Crashed, MissionRegistered, Retracted
from grain.head.testing import check_scheduler
from grain.worker.messages import AckRuns, Inventory, Lease
from simulation.people import Client, Process, fits

if TYPE_CHECKING:
    from grain.edge.messages import Message
    from grain.head.hub.state import Client as Customer
    from grain.head.hub.state import Staffer
    from grain.remote_exer import Resolution
    from grain.worker.messages import Attempt
    from simulation.heads import HeadProcess
    from simulation.wire import Wire
    from simulation.world import World

    Outcome = tuple[str, int, Attempt, str]


class Broken(AssertionError):
    """A law does not hold."""


class Laws:
    """Watches a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.leased: set[Attempt] = set()
        self.begun: dict[Attempt, Process] = {}
        self.completed: dict[Attempt, Outcome] = {}
        self.crashed: dict[tuple[str, int], set[Attempt]] = {}
        self.gone: set[tuple[HeadProcess, str, int]] = set()
        self.drained: set[tuple[HeadProcess, object]] = set()
        self.told: dict[tuple[HeadProcess, Attempt], tuple[Staffer, Customer]] = {}
        self.attempts: dict[tuple[str, int], list[Attempt]] = {}
        self.released: set[Attempt] = set()
        self.executions = 0

    def demand(self, law: str, holds: object, what: object = "") -> None:
        """Raise if a law does not hold."""
        if not holds:
            raise Broken(f"{law} (at {self.world.clock.now:.3f} s): {what}")

    # ---- as it happens

    def on_sent(self, head: HeadProcess, wire: Wire, message: Message) -> None:
        """A head sends a message."""
        newest = wire.number == head.newest[wire.peer]
        self.demand("nothing is said on a connection that was replaced", newest, message)
        if isinstance(message, Lease):
            self.demand("an attempt is used once", message.attempt not in self.leased, message)
            self.leased.add(message.attempt)
            self.demand("no lease before the worker has reported", wire in head.ready, message)
            key = (head, message.mission, message.task)
            self.demand("what is gone does not start", key not in self.gone, message)
            entry = head.hub.ledger.clients[message.mission].entries[message.task]
            suspect = len(entry.crashes) >= 2
            self.demand("a suspect runs alone", message.alone == suspect, message)
            self.check_needed(head, message)
            self.told[head, message.attempt] = (head.hub.staff.links[wire], entry.client)
        elif isinstance(message, MissionRegistered):
            client = head.hub.clients.links[wire]
            unwanted = client.entries.keys() - head.wanted.get(wire, set())
            self.demand("nothing is kept that its mission does not want", not unwanted, unwanted)
        elif isinstance(message, AckRuns):
            for attempt in message.attempts:
                self.on_released(head, attempt)
        elif isinstance(message, Crashed):
            self.check_blame(head, message)
        elif isinstance(message, Retracted) and isinstance(wire.peer, Client):
            self.gone.add((head, wire.peer.session.id, message.task))

    def check_blame(self, head: HeadProcess, message: Crashed) -> None:
        """A task is blamed for a crash."""
        attempt = message.crash.attempt
        self.demand("who has not begun cannot crash", attempt in self.begun, message)
        if "lost" in message.crash.how:
            worker = self.begun[attempt].worker
            self.demand("a drain is no crash", (head, worker) not in self.drained, message)

    def on_told(self, head: HeadProcess, wire: Wire, message: Inventory) -> None:
        """A head learns what a worker has."""
        staffer = head.hub.staff.links.get(wire)
        if staffer is not None:
            for held in message.runs:
                client = head.hub.ledger.clients.get(held.mission)
                if client is not None:
                    self.told[head, held.attempt] = (staffer, client)

    def check_needed(self, head: HeadProcess, lease: Lease) -> None:
        """A task is started: no run of it that this head was told of may have slipped its mind."""
        for attempt in self.attempts.get((lease.mission, lease.task), ()):
            staffer, client = self.told.get((head, attempt), (None, None))
            process = self.begun[attempt]
            worker = process.worker
            runs = worker.processes.get(process.number) is process
            kept = attempt in self.completed and attempt not in self.released
            if staffer is None or not worker.alive or not (runs or kept):
                continue
            ledger = head.hub.ledger
            given_up = ledger.clients[lease.mission] is not client
            if ledger.workers.get(staffer.id) is staffer and not given_up:
                known = attempt in staffer.leases
                self.demand("nothing is started again without need", known, (lease, attempt))

    def on_released(self, head: HeadProcess, attempt: Attempt) -> None:
        """A worker is told to forget what became of a run: somebody else must have it."""
        self.released.add(attempt)
        lease = self.begun[attempt].lease if attempt in self.begun else None
        outcome = self.completed.get(attempt)
        if lease is None or outcome is None or outcome[3] != "value":
            return
        for client in self.world.clients:
            waits = client.alive and lease.task in client.session.pending
            wanted = waits and lease.task not in client.story.cancelled
            known = head.hub.ledger.clients.get(lease.mission)
            if client.session.id == lease.mission and wanted and known is not None:
                entry = known.entries.get(lease.task)
                has = entry is not None and entry.source is not None and entry.source[1] != attempt
                here = known.link is client.wire and known.synced
                self.demand("what is released has arrived", has or not here, lease)

    def on_begun(self, process: Process) -> None:
        """A run begins."""
        lease = process.lease
        self.executions += 1
        self.demand("a run begins once", lease.attempt not in self.begun, lease)
        self.begun[lease.attempt] = process
        self.attempts.setdefault((lease.mission, lease.task), []).append(lease.attempt)
        worker = process.worker
        self.demand("who drains begins nothing", not worker.session.draining, lease)
        there = list(worker.processes.values())
        self.demand("no more is used than there is", fits(worker.session.total, there), there)
        if any(other.lease.alone for other in there):
            self.demand("who runs alone is alone", len(there) == 1, there)

    def on_completed(self, process: Process, outcome: Outcome) -> None:
        """A run comes to an end of its own."""
        self.completed[process.lease.attempt] = outcome

    def on_crashed(self, process: Process) -> None:
        """A run dies with its process or worker."""
        lease = process.lease
        self.crashed.setdefault((lease.mission, lease.task), set()).add(lease.attempt)

    def on_resolved(self, client: Client, resolution: Resolution) -> None:
        """A mission learns what became of a task."""
        task = resolution.task
        story = client.story
        self.demand("a task resolves once", task not in story.resolved, resolution)
        self.demand("only what was submitted resolves", task in story.submitted, resolution)
        if task in story.cancelled:
            self.demand("cancelled is cancelled", resolution.ending == "cancelled", resolution)
            return
        self.demand("nothing is cancelled unasked", resolution.ending != "cancelled", resolution)
        kind = self.world.job(client.session.id, task).kind
        if resolution.ending == "crashed":
            attempts = {crash.attempt for crash in resolution.crashes}
            self.demand("a crash counts once", len(attempts) == len(resolution.crashes))
            self.demand("five crashes fail a task", len(attempts) >= 5, resolution)
            self.demand("crashes were begun", attempts <= self.begun.keys(), resolution)
            return
        self.demand("the outcome is that of the task", resolution.ending == kind, resolution)
        real = resolution.payload in self.completed.values()
        self.demand("the outcome is that of a run", real, resolution)
        own = resolution.payload[:2] == (client.session.id, task)
        self.demand("the outcome is that of the task's own run", own, resolution)

    # ---- after a step

    def check(self, *, deeply: bool) -> None:
        """What can be seen at any time."""
        for head in self.world.heads:
            if head.alive:
                self.check_books(head, deeply=deeply)
        for worker in self.world.workers:
            if worker.alive:
                there = set(worker.processes) | worker.queued
                known = {run.number for run in worker.session.runs.values()}
                self.demand("a session knows what runs", there == known, worker.session.name)

    def check_books(self, head: HeadProcess, *, deeply: bool) -> None:
        """What a head believes agrees with itself."""
        ledger = head.hub.ledger
        if deeply:
            check_scheduler(ledger.scheduler, dispatched=head.now)
        tickets = set(ledger.tickets)
        self.demand("tickets agree", tickets == set(ledger.scheduler.tasks))
        for client in ledger.clients.values():
            for entry in client.entries.values():
                states = [
                    entry.ticket is not None,
                    entry.awaits != "",
                    entry.suspect,
                    entry.lease is not None,
                    entry.ending is not None,
                ]
                told = not entry.claimed and bool(entry.crashes)
                self.demand("one state", sum(states) == 1 or (told and not any(states)), entry)
        for worker in ledger.workers.values():
            for lease in worker.leases.values():
                if not lease.current:
                    late = lease.revoked or lease.ticket is None
                    self.demand("what nobody waits for is revoked", late, lease)

    # ---- at the end

    def check_end(self) -> None:
        """Faults have stopped long ago, and all missions have left."""
        for client in self.world.clients:
            if client.alive:
                missing = set(client.story.submitted) - client.story.resolved.keys()
                self.demand("every task resolves", not missing, (client.session.id, missing))
        for worker in self.world.workers:
            if worker.alive:
                self.demand("nothing runs for nobody", not worker.processes, worker.session.name)
                self.demand(
                    "nothing is kept for nobody", not worker.session.kept, worker.session.kept
                )
                left = worker.session.functions
                self.demand("no function is kept for nobody", not left, left)
        head = self.world.head
        assert head is not None
        self.demand("no mission is left", not head.hub.ledger.clients, head.hub.snapshot(head.now))
        for known in head.hub.scheduler.workers.values():
            known.give_back()
            self.demand("all is free in the end", known.supply.idle(), known.name)
