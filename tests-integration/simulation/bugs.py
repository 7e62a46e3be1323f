"""Deliberate mistakes, each of which the laws have to find: the test of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from grain.head.hub.hub import Hub
from grain.head.hub.missions import Clients
from grain.head.hub.runs import Runs
from grain.head.hub.tasks import Ledger
from grain.head.hub.workers import Staff
from grain.remote_exer import MissionSession, Resolution
from grain.worker.agent.session import WorkerSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.head.hub.state import Client, Entry, LeaseRecord, Staffer
    from grain.worker.messages import HeldRun, RunEnded


class Cast(NamedTuple):
    """Who plays: the classes of a world."""

    hub: type[Hub] = Hub
    worker: type[WorkerSession] = WorkerSession
    mission: type[MissionSession] = MissionSession


def ledger(**methods: Callable[..., Any]) -> Cast:
    """A hub with a faulty ledger."""
    return Cast(type("FaultyHub", (Hub,), {"ledger_class": type("Faulty", (Ledger,), methods)}))


def staff(**methods: Callable[..., Any]) -> Cast:
    """A hub with faulty staff."""
    return Cast(type("FaultyHub", (Hub,), {"staff_class": type("Faulty", (Staff,), methods)}))


def clients(**methods: Callable[..., Any]) -> Cast:
    """A hub with faulty clients."""
    return Cast(type("FaultyHub", (Hub,), {"clients_class": type("Faulty", (Clients,), methods)}))


def worker(**methods: Callable[..., Any]) -> Cast:
    """A faulty worker."""
    return Cast(worker=type("Faulty", (WorkerSession,), methods))


def mission(**methods: Callable[..., Any]) -> Cast:
    """A faulty mission."""
    return Cast(mission=type("Faulty", (MissionSession,), methods))


def free_when_link_is_lost(self: Staff, link: object, now: float) -> None:
    known = self.links.get(link)
    Staff.on_link_lost(self, link, now)
    for lease in list(known.leases.values()) if known is not None else ():
        self._ledger.lose(lease, None, now)


def begin_again(self: WorkerSession, lease: Any, arguments: object, now: float) -> None:
    self._begun.clear()
    WorkerSession._begin(self, lease, arguments, now)


def send_and_forget(self: WorkerSession, lease: Any, *args: Any, **kwargs: Any) -> None:
    WorkerSession._settle(self, lease, *args, **kwargs)
    if self.connected:
        del self.kept[lease.attempt]


def release_at_once(
    self: Ledger, held_by: Staffer, settled: RunEnded, payload: object, now: float
) -> None:
    Ledger.settle(self, held_by, settled, payload, now)
    self.release(held_by, settled.attempt)


def resolve_again(
    self: MissionSession, task: int, ending: Any, payload: object, crashes: Any
) -> None:
    self.pending.pop(task, None)
    self.resolved.append(Resolution(task, ending, payload, crashes))


def no_epoch(self: Ledger, *args: Any) -> None:
    Ledger.__init__(self, *args)
    self.epoch = 0


def report_again(self: Staff, who: Staffer, now: float) -> None:
    if who.serving:
        for lease in list(who.leases.values()):
            self._ledger.lose(lease, None, now)
    Staff._reported(self, who, now)


def take_stale_failures(
    self: Ledger, held_by: Staffer, settled: RunEnded, payload: object, now: float
) -> None:
    lease = held_by.leases.get(settled.attempt)
    entry = self._entry(settled)
    stopped = settled.status == "cancelled"
    if stopped and lease is not None and entry is not None and not entry.retracted:
        self._end(lease, now)
        self._resolve(entry, "error", None, (held_by.id, settled.attempt))
        return
    Ledger.settle(self, held_by, settled, payload, now)


def drains_are_crashes(self: Staff, who: Staffer, how: str | None, now: float) -> None:
    Staff._remove(self, who, how or "its worker was lost", now)


def forget_retractions(self: MissionSession) -> None:
    MissionSession.on_connected(self)
    self.to_head[:] = [pair for pair in self.to_head if type(pair[0]).__name__ != "Retract"]


def discard_quietly(self: Ledger, entry: Entry) -> None:
    lease = entry.lease
    entry.lease = None
    Ledger.discard(self, entry)
    if lease is not None:
        lease.entry = None


def never_count(
    self: Ledger, lease: LeaseRecord, entry: Entry, how: str | None, now: float
) -> None:
    Ledger._again(self, lease, entry, None, now)


def never_alone(self: Ledger, entry: Entry, now: float) -> None:
    crashes, entry.crashes = entry.crashes, ()
    Ledger.enqueue(self, entry, now)
    entry.crashes = crashes


def serve_unreported(self: Staff, link: object, message: Any, now: float) -> None:
    Staff._register(self, link, message, now)
    known = self.links.get(link)
    if known is not None and not known.draining:
        self._ledger.scheduler.on_worker_back(known.number)


def begin_while_draining(self: WorkerSession, lease: Any, arguments: object, now: float) -> None:
    draining, self.draining = self.draining, False
    WorkerSession._begin(self, lease, arguments, now)
    self.draining = draining


def hold_nothing(
    self: Ledger, lease: LeaseRecord, held: HeldRun, client: Client, entry: Entry | None, now: float
) -> None:
    pass


def enrol_late(self: Clients, link: object, message: Any, now: float) -> None:
    self.client(message.mission, now).connection = 0
    Clients._enrol(self, link, message, now)


def register_late(self: Staff, link: object, message: Any, now: float) -> None:
    known = self._ledger.workers.get(message.worker)
    if known is not None:
        known.connection = 0
    Staff._register(self, link, message, now)


def submit_again(self: Clients, client: Client, *args: Any) -> None:
    client.last_task = -1
    Clients._submit(self, client, *args)


def drop_too_much(self: Staff, wanted: set[bytes]) -> None:
    known = {who: set(who.functions) for who in self._ledger.workers.values()}
    Staff.sweep(self, set())
    for who, functions in known.items():
        who.functions = functions


def keep_unclaimed(self: Clients, client: Client) -> None:
    for entry in client.entries.values():
        entry.claimed = True
    Clients._synced(self, client)


def adopt_nothing(self: Ledger, who: Staffer, held: HeldRun, client: Client, now: float) -> None:
    if not client.synced:
        return
    Ledger.adopt(self, who, held, client, now)


def blame_all(self: Staff, who: Staffer, how: str | None, now: float) -> None:
    for held in list(who.leases.values()):
        self._ledger.lose(held, how, now)
    Staff._remove(self, who, how, now)


def blame_the_line(self: WorkerSession, *args: Any) -> None:
    self._lines.waiting = list  # type: ignore[method-assign]
    WorkerSession.on_runner_crashed(self, *args)


def begin_before_its_turn(self: WorkerSession, lease: Any, arguments: object, now: float) -> None:
    WorkerSession._begin(self, structs.replace(lease, chain=0), arguments, now)


def lengthen_adopted_lines(self: Ledger, held_lease: LeaseRecord, held: HeldRun) -> bool:
    waits = Ledger.adopt_behind(self, held_lease, held)
    if held_lease.line is not None:
        held_lease.line.number = held.chain
    return waits


def free_under_a_line(self: Ledger, *args: Any, **kwargs: Any) -> None:
    args[0].line = None
    Runs.free(self, *args, **kwargs)


def forget_lines(self: Ledger, held_lease: LeaseRecord, held: HeldRun) -> bool:
    return False


BUGS: dict[str, Cast] = {
    "resources are free when a connection is lost": staff(on_link_lost=free_when_link_is_lost),
    "a worker begins a lease as often as it comes": worker(_begin=begin_again),
    "a worker forgets an outcome once it is sent": worker(_settle=send_and_forget),
    "a head releases outcomes that no mission has": ledger(settle=release_at_once),
    "a mission takes a second resolution": mission(_resolve=resolve_again),
    "two heads use the same attempts": ledger(__init__=no_epoch),
    "a repeated report settles new leases": staff(_reported=report_again),
    "a stale cancellation resolves a task": ledger(settle=take_stale_failures),
    "a drained worker's runs count as crashed": staff(_remove=drains_are_crashes),
    "a mission forgets to retract again": mission(on_connected=forget_retractions),
    "what nobody wants runs on": ledger(discard=discard_quietly),
    "crashes are never counted": ledger(_again=never_count),
    "suspects run beside others": ledger(enqueue=never_alone),
    "leases go to workers that have not reported": staff(_register=serve_unreported),
    "a draining worker begins runs": worker(_begin=begin_while_draining),
    "adopted runs hold nothing": ledger(_hold=hold_nothing),
    "a lost connection's greeting comes late and counts": clients(_enrol=enrol_late),
    "a lost connection's registration comes late and counts": staff(_register=register_late),
    "a submission counts as often as it comes": clients(_submit=submit_again),
    "functions in use are dropped": staff(sweep=drop_too_much),
    "what a mission does not want any more is kept": clients(_synced=keep_unclaimed),
    "what workers report is not adopted": ledger(adopt=adopt_nothing),
    "who waited in line is blamed for the loss of a worker": staff(_remove=blame_all),
    "who waited in line is blamed for a crash": worker(on_runner_crashed=blame_the_line),
    "a worker begins what is to wait in line": worker(_begin=begin_before_its_turn),
    "another head's lines are made longer": ledger(adopt_behind=lengthen_adopted_lines),
    "a run frees what the next in its line uses": ledger(free=free_under_a_line),
    "lines are adopted as if all of them ran": ledger(adopt_behind=forget_lines),
}
"""Each bug by what it is, as the classes of a world that has it."""
