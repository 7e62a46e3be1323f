"""The workers of a hub: how they come, are missed, come back, and leave. Plain state, no I/O.

1.  What a worker reports on a connection settles what was sent on *earlier* ones, once: what it
    does not mention has never arrived. Nothing is sent to it before.
2.  A worker whose connection is lost is suspect: nothing new goes there, nothing of it is done
    elsewhere. After the grace period it is lost, and its runs with it.
3.  A lost worker that comes back is a new one that has runs already.
4.  Messages of a connection that another one has replaced are ignored.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.head.hub.state import Client, Staffer
from grain.resource import from_data
from grain.worker.messages import (
    FUNCTIONS,
    BegunCount,
    Draining,
    ForgetFunctions,
    Inventory,
    InventoryEnd,
    Leaving,
    RegisterWorker,
    Retire,
    RunEnded,
    WorkerRegistered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Message, Payload
    from grain.head.hub.state import Link, Outbox
    from grain.head.hub.tasks import Ledger

_WALLTIME_SLACK = 60.0  # batch systems end a job up to a minute early


class Staff:
    """Who works here.

    Args:
        ledger: the books, whose workers are kept here.
        outbox: takes the messages.
        grace: seconds for which a worker that is away is waited for.
        client: the mission of an id, made if it is not known.
    """

    def __init__(
        self, ledger: Ledger, outbox: Outbox, grace: float, client: Callable[[str, float], Client]
    ) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._grace = grace
        self._client = client
        self._last_number = 0
        self.links: dict[Link, Staffer] = {}
        # Whether no worker has functions that nobody wants.
        self.swept = False

    def on_message(self, link: Link, message: Message, payload: Payload, now: float) -> None:
        """A worker says something."""
        if isinstance(message, RegisterWorker):
            self._register(link, message, now)
            return
        worker = self.links.get(link)
        if worker is None or worker.link != link:
            return
        match message:
            case RunEnded():
                self._ledger.settle(worker, message, payload, now)
            case BegunCount():
                worker.took = max(worker.took, message.count)
            case Inventory():
                self._take_stock(worker, message, now)
            case InventoryEnd():
                self._reported(worker, now)
            case Draining():
                worker.draining = True
                self._ledger.scheduler.on_worker_draining(worker.number)
            case Leaving():
                self._remove(worker, None, now)
            case _:
                pass

    # ---- coming

    def _register(self, link: Link, message: RegisterWorker, now: float) -> None:
        if link in self.links:
            return
        worker = self._ledger.workers.get(message.worker)
        if worker is None:
            worker = self._new(message, now)
        elif message.connection <= worker.connection:
            return  # heard of late: another one has replaced it
        elif worker.link is not None:
            self.links.pop(worker.link, None)
        self._ledger.scheduler.on_worker_draining(worker.number)  # until it has reported
        for lease in worker.leases.values():
            if lease.begun:
                lease.index = 0  # what is counted from now on are others
        self.links[link] = worker
        worker.link = link
        worker.connection = message.connection
        worker.session += 1
        worker.sent = worker.took = 0
        worker.serving = False
        worker.draining = worker.draining or message.draining
        worker.functions = set(message.functions)
        worker.fronts.clear()
        worker.deadline = worker.gone_at = math.inf

    def _new(self, message: RegisterWorker, now: float) -> Staffer:
        self._last_number += 1
        worker = Staffer(message.worker, self._last_number)
        worker.name = message.name
        worker.host = message.host
        self._ledger.workers[worker.id] = self._ledger.by_number[worker.number] = worker
        total = from_data(message.total, unknown="keep")
        self._ledger.scheduler.on_worker_joined(worker.number, worker.name, total, now)
        return worker

    def _take_stock(self, worker: Staffer, message: Inventory, now: float) -> None:
        if worker.serving:
            return
        for held in message.runs:
            if held.attempt in worker.leases:
                self._ledger.confirm(worker, held, now)
            else:
                self._ledger.adopt(worker, held, self._client(held.mission, now), now)

    def _reported(self, worker: Staffer, now: float) -> None:
        if worker.serving:
            return
        worker.serving = True
        worker.fronts.clear()
        for lease in list(worker.leases.values()):
            if lease.session < worker.session:
                self._ledger.lose(lease, None, now)
        if not worker.draining and not worker.reserved:
            self._ledger.scheduler.on_worker_back(worker.number)
        self._outbox.post(worker.link, WorkerRegistered(self._ledger.epoch))
        if worker.retired is not None:
            self._outbox.post(worker.link, Retire(worker.retired))
        self.swept = False
        self._ledger.heard_of(worker.id, now)

    # ---- going

    def on_link_lost(self, link: Link, now: float) -> None:
        """The connection to a worker is lost."""
        worker = self.links.pop(link, None)
        if worker is not None and worker.link == link:
            worker.link = None
            worker.serving = False
            worker.gone_at = now
            worker.deadline = now + self._grace
            self._ledger.scheduler.on_worker_draining(worker.number)

    def _remove(self, worker: Staffer, how: str | None, now: float) -> None:
        # The last ones first, so that nobody is taken for begun who waited in line for another.
        for lease in list(reversed(worker.leases.values())):
            self._ledger.lose(lease, how, now)
        self._ledger.scheduler.on_worker_left(worker.number)
        del self._ledger.workers[worker.id], self._ledger.by_number[worker.number]
        if worker.link is not None:
            self.links.pop(worker.link, None)
        self._ledger.heard_of(worker.id, now)

    def on_tick(self, now: float) -> None:
        """Give up those who were away for too long."""
        for worker in [w for w in self._ledger.workers.values() if w.deadline <= now]:
            end = self._ledger.scheduler.workers[worker.number].end
            over = worker.draining or end - worker.gone_at < _WALLTIME_SLACK
            self._remove(worker, None if over else "its worker was lost", now)

    def postpone(self, seconds: float) -> None:
        """This process was stopped for so long: nobody could reach it meanwhile."""
        for worker in self._ledger.workers.values():
            worker.deadline += seconds

    def next_tick(self) -> float:
        """When `on_tick` has something to do."""
        return min((w.deadline for w in self._ledger.workers.values()), default=math.inf)

    def retire(self, worker: Staffer, *, at_once: bool) -> None:
        """A worker is to leave; one that is away is told when it is back."""
        worker.retired = at_once or worker.retired is True
        self._outbox.post(worker.link, Retire(at_once))

    def sweep(self, wanted: set[bytes]) -> None:
        """Have workers forget functions that no mission has any more."""
        for worker in self._ledger.workers.values():
            left = worker.functions - wanted
            if left and worker.serving:
                worker.functions -= left
                digests = tuple(left)
                for at in range(0, len(digests), FUNCTIONS):
                    self._outbox.post(worker.link, ForgetFunctions(digests[at : at + FUNCTIONS]))
