"""The records of a hub: missions and their tasks, workers and the leases on them."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from grain.head.hub.fair_share import Share
from grain.worker.messages import AckRuns

if TYPE_CHECKING:
    from collections.abc import Hashable

    from grain.edge.messages import Message, Payload
    from grain.head.messages import Crash, Ending
    from grain.head.scheduler.state import TaskQueue
    from grain.resource import Resource
    from grain.worker.messages import Attempt

    Link = Hashable


_AT_ONCE = 1024  # attempts in one `AckRuns`


class Outbox:
    """What is to be sent, by link; the hub's only way to the outside."""

    def __init__(self) -> None:
        self.mail: dict[Link, list[tuple[Message, Payload]]] = {}
        self._released: dict[Link, list[Attempt]] = {}

    def post(self, link: Link | None, message: Message, payload: Payload = None) -> None:
        """Send to a peer; to one that is away nothing is sent, it will tell what it has."""
        if link is not None:
            mail = self.mail.get(link)
            if mail is None:
                self.mail[link] = [(message, payload)]
            else:
                mail.append((message, payload))

    def release(self, link: Link | None, attempt: Attempt) -> None:
        """Let a worker forget what became of a run; all of a batch in one message."""
        if link is not None:
            self._released.setdefault(link, []).append(attempt)

    def take(self) -> dict[Link, list[tuple[Message, Payload]]]:
        """What is to be sent since the last time."""
        for link, attempts in self._released.items():
            for at in range(0, len(attempts), _AT_ONCE):
                self.post(link, AckRuns(tuple(attempts[at : at + _AT_ONCE])))
        if self._released:
            self._released = {}
        mail, self.mail = self.mail, {}
        return mail

    def drop(self, link: Link) -> None:
        """A link is lost: what is for it has no way to go."""
        self.mail.pop(link, None)
        self._released.pop(link, None)


class Client:
    """A mission, as the hub knows it.

    It is *attached* while it has a link, and *synced* once it has told of all its tasks on it.
    """

    __slots__ = (
        "connection",
        "deadline",
        "entries",
        "functions",
        "host",
        "id",
        "last_task",
        "link",
        "name",
        "number",
        "reported",
        "requests",
        "share",
        "synced",
    )

    def __init__(self, id: str, number: int) -> None:  # noqa: A002 - its name
        self.id = id
        self.number = number
        self.name = ""
        self.host = ""
        self.link: Link | None = None
        self.connection = 0
        self.synced = False
        # When a mission that is away is given up.
        self.deadline = math.inf
        self.entries: dict[int, Entry] = {}
        self.functions: dict[bytes, Payload] = {}
        # By their number on this link: the resources and the queue for them.
        self.requests: dict[int, tuple[Resource, TaskQueue]] = {}
        self.reported: set[int] = set()
        self.last_task = -1
        self.share = Share()


class Entry:
    """A task. It is in exactly one of these states:

    ==========  ==========================================================================
    waiting     ``ticket`` is its place in the scheduler's queue
    suspect     ``suspect`` is set; it waits for a worker of its own
    held back   ``awaits`` is the worker that it ran on, which has not come back yet
    leased      ``lease`` is its current run
    resolved    ``ending`` is set; kept until the mission has it
    ==========  ==========================================================================

    One that a worker told of before its mission did is not ``claimed``: it is leased or resolved.
    """  # noqa: D415

    __slots__ = (
        "age",
        "arguments",
        "awaits",
        "claimed",
        "client",
        "crashes",
        "ending",
        "function",
        "lease",
        "number",
        "outcome",
        "queue",
        "request",
        "retracted",
        "source",
        "suspect",
        "ticket",
    )

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        self.claimed = False
        self.queue: TaskQueue | None = None
        self.request = 0
        self.age = 0
        self.function = b""
        self.arguments: Payload = None
        self.crashes: tuple[Crash, ...] = ()
        self.ticket: int | None = None
        self.suspect = False
        self.awaits = ""
        self.lease: LeaseRecord | None = None
        self.retracted = False
        self.ending: Ending | None = None
        self.outcome: Payload = None
        # Who keeps the outcome: a worker's id, and the run.
        self.source: tuple[str, Attempt] | None = None

    def __repr__(self) -> str:
        return f"<Entry {self.client.id}:{self.number}>"


class LeaseRecord:
    """A run on a worker. It holds resources as long as it has a ticket.

    It is its entry's current one, or a stale one whose success would still be welcome, or, without
    an entry, one that nobody wants.
    """

    __slots__ = (
        "alone",
        "attempt",
        "began",
        "entry",
        "index",
        "line",
        "revoked",
        "session",
        "ticket",
        "worker",
    )

    def __init__(
        self, attempt: Attempt, entry: Entry | None, worker: Staffer, ticket: int | None
    ) -> None:
        self.attempt = attempt
        self.entry = entry
        self.worker = worker
        self.ticket = ticket
        self.began = 0.0
        self.revoked = False
        self.alone = False
        # In which of the worker's connections it was sent or last confirmed, and as which; 0 if the
        # worker is known to have begun it.
        self.session = worker.session
        self.index = 0
        # The line that it is in front of, or waits in.
        self.line: Line | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits on its worker for the end of another run, whose place it takes."""
        return self.line is not None and self.line.front is not self

    @property
    def current(self) -> bool:
        """Whether it is the run that its task is waiting for."""
        return self.entry is not None and self.entry.lease is self

    @property
    def begun(self) -> bool:
        """Whether the worker is known to have begun it."""
        if self.waits:
            return False
        took = self.worker.took if self.session == self.worker.session else 0
        return self.index <= took

    def __repr__(self) -> str:
        return f"<LeaseRecord {self.attempt} of {self.entry} on {self.worker.name}>"


class Line:
    """A run, and those that take its place one after the other: see `grain.head.hub.prefetch`."""

    __slots__ = ("front", "number", "resources", "waiting")

    def __init__(self, front: LeaseRecord, number: int, resources: dict[str, Any]) -> None:
        # By which the worker knows it; 0 if another head began it, which has other numbers.
        self.number = number
        self.front = front
        self.waiting: deque[LeaseRecord] = deque()
        # What all of them may use, as plain data.
        self.resources = resources


class Staffer:
    """A worker, as the hub knows it.

    It *serves* once it has reported what it has on its present link. Without a link it is suspect:
    nothing new goes there, and nothing of what it has is done elsewhere.
    """

    __slots__ = (
        "connection",
        "deadline",
        "draining",
        "fronts",
        "functions",
        "gone_at",
        "host",
        "id",
        "leases",
        "link",
        "name",
        "number",
        "reserved",
        "retired",
        "sent",
        "serving",
        "session",
        "took",
    )

    def __init__(self, id: str, number: int) -> None:  # noqa: A002 - its name
        self.id = id
        self.number = number
        self.name = ""
        self.host = ""
        self.link: Link | None = None
        self.connection = 0
        self.serving = False
        self.draining = False
        # Kept free for a task that is to run alone, or running it.
        self.reserved = False
        # Whether it was told to leave, and if so, whether at once.
        self.retired: bool | None = None
        self.session = 0
        # How many leases were sent in this session, and how many of them it has begun.
        self.sent = 0
        self.took = 0
        self.leases: dict[Attempt, LeaseRecord] = {}
        self.functions: set[bytes] = set()
        # While it reports: the runs that it has, by the attempt that began their line.
        self.fronts: dict[Attempt, LeaseRecord] = {}
        # When its link was lost, and when it is given up.
        self.gone_at = math.inf
        self.deadline = math.inf
