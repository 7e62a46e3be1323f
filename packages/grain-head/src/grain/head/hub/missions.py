"""The missions of a hub: how they come, are missed, come back, and leave. Plain state, no I/O.

1.  A mission tells of all its unresolved tasks on every connection, ascending; after `Synced` no
    other task of it is wanted. So within a connection a task that does not ascend was told twice.
2.  When its connection is lost, its waiting tasks are forgotten, as it will tell of them again.
    Its runs go on, and what became of them is kept until it has it.
3.  After the grace period it is gone: what runs is revoked, what is kept is released.
4.  A task that ran on a worker, as the mission was told by this head's predecessor, is held back
    until that worker has reported, or until the grace period of this head's start is over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.head.errors import BadMessage
from grain.head.hub.state import Client, Entry
from grain.head.messages import (
    AckTasks,
    Depart,
    MissionRegistered,
    RegisterMission,
    Request,
    Retract,
    Submit,
    Synced,
)
from grain.resource import from_data
from grain.worker.messages import DefineFunction

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload
    from grain.head.hub.state import Link, Outbox
    from grain.head.hub.tasks import Ledger
    from grain.head.hub.workers import Staff


class Clients:
    """Whose tasks are run.

    Args:
        ledger: the books, whose missions are kept here.
        outbox: takes the messages.
        grace: seconds for which a mission that is away is waited for.
        now: the time, from which workers have the grace period to come over.
    """

    def __init__(self, ledger: Ledger, outbox: Outbox, grace: float, now: float) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._grace = grace
        self._limbo = now + grace
        self._last_number = 0
        self.staff: Staff
        self.links: dict[Link, Client] = {}

    def client(self, mission: str, now: float) -> Client:
        """The mission of an id; one that has not come yet is waited for."""
        client = self._ledger.clients.get(mission)
        if client is None:
            self._last_number += 1
            client = self._ledger.clients[mission] = Client(mission, self._last_number)
            client.deadline = now + self._grace
        return client

    def on_message(self, link: Link, message: Message, payload: Payload, now: float) -> None:
        """A mission says something."""
        if isinstance(message, RegisterMission):
            self._enrol(link, message, now)
            return
        client = self.links.get(link)
        if client is None or client.link != link:
            return
        match message:
            case Submit():
                self._submit(client, message, payload, now)
            case AckTasks():
                for task in message.tasks:
                    self._ledger.received(client, task)
            case Request():
                resources = from_data(message.resources, unknown="keep")
                queue = self._ledger.scheduler.queue(resources, message.priority, client.number)
                client.requests[message.number] = (resources, queue)
            case DefineFunction():
                client.functions[message.digest] = payload
            case Retract():
                for task in message.tasks:
                    self._ledger.retract(client, task)
            case Synced():
                self._synced(client)
            case Depart():
                self._remove(client)
            case _:
                pass

    def _enrol(self, link: Link, message: RegisterMission, now: float) -> None:
        if link in self.links:
            return
        client = self.client(message.mission, now)
        if message.connection <= client.connection:
            return  # heard of late: another one has replaced it
        client.connection = message.connection
        if client.link is not None:
            self.links.pop(client.link, None)
            self._detach(client)
        client.name = message.name
        client.host = message.host
        client.link = link
        client.deadline = math.inf
        client.last_task = -1
        client.requests.clear()
        client.reported.clear()
        self.links[link] = client

    def _submit(self, client: Client, message: Submit, arguments: Payload, now: float) -> None:
        if message.task <= client.last_task:
            return
        if message.request not in client.requests or message.function not in client.functions:
            raise BadMessage(f"task {message.task} names a request or a function that never came")
        client.last_task = message.task
        entry = client.entries.get(message.task)
        if entry is None:
            entry = client.entries[message.task] = Entry(client, message.task)
        # The queue is looked up again: one without tasks may have been retired meanwhile.
        resources, queue = client.requests[message.request]
        entry.queue = self._ledger.scheduler.queue(resources, queue.priority, client.number)
        entry.request = message.request
        entry.age = self._ledger.shares.age(client.share, queue.priority)
        entry.function = message.function
        entry.arguments = arguments
        if message.crashes:
            known = {crash.attempt for crash in message.crashes}
            more = [crash for crash in entry.crashes if crash.attempt not in known]
            entry.crashes = (*message.crashes, *more)
        elsewhere = message.worker
        here = self._ledger.workers.get(elsewhere)
        if now >= self._limbo or (here is not None and here.serving):
            elsewhere = ""
        self._ledger.claim(entry, elsewhere, now)

    def _synced(self, client: Client) -> None:
        if client.synced:
            return
        client.synced = True
        for entry in [e for e in client.entries.values() if not e.claimed]:
            self._ledger.discard(entry)
        self._outbox.post(client.link, MissionRegistered(self._ledger.epoch))

    # ---- going

    def on_link_lost(self, link: Link, now: float) -> None:
        """The connection to a mission is lost."""
        client = self.links.pop(link, None)
        if client is not None and client.link == link:
            client.link = None
            client.deadline = now + self._grace
            self._detach(client)

    def _detach(self, client: Client) -> None:
        client.synced = False
        # The youngest first: the scheduler's queues then only lose their ends.
        for entry in list(reversed(client.entries.values())):
            entry.claimed = False
            self._ledger.withdraw(entry)
            if entry.lease is None and entry.ending is None and not entry.crashes:
                del client.entries[entry.number]

    def _remove(self, client: Client) -> None:
        """A mission is over: nothing of it is wanted any more."""
        if client.link is not None:
            self.links.pop(client.link, None)
            client.link = None
        for entry in list(reversed(client.entries.values())):
            self._ledger.discard(entry)
        del self._ledger.clients[client.id]
        self.staff.swept = False

    def on_tick(self, now: float) -> None:
        """Give up those who were away for too long."""
        for client in [c for c in self._ledger.clients.values() if c.deadline <= now]:
            self._remove(client)
        if self._limbo > now:
            return
        for worker in list(self._ledger.awaiting):
            self._ledger.heard_of(worker, now)
        known = self._ledger.clients.values()
        if not self.staff.swept and all(client.synced for client in known):
            self.staff.swept = True
            self.staff.sweep({digest for client in known for digest in client.functions})

    def postpone(self, since: float, seconds: float) -> None:
        """This process was stopped for so long: nobody could reach it meanwhile."""
        if self._limbo > since:
            self._limbo += seconds
        for client in self._ledger.clients.values():
            client.deadline += seconds

    def next_tick(self) -> float:
        """When `on_tick` has something to do."""
        due = [client.deadline for client in self._ledger.clients.values()]
        if self._ledger.awaiting:
            due.append(self._limbo)
        return min(due, default=math.inf)
