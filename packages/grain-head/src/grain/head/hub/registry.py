"""The state that the parts of a hub share: records, the scheduler, messages to be sent."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from grain.edge.questions import Answer
from grain.head.hub.fair_share import FairShare
from grain.worker.messages import AckRuns, Disconnect, Revoke

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload
    from grain.edge.questions import Ask
    from grain.edge.version import Versions
    from grain.facts.rows import Worker
    from grain.head.hub.state import (
        EndedMission,
        EndedTask,
        FailedTask,
        LeaseRecord,
        Link,
        MissionRecord,
        WorkerRecord,
    )
    from grain.head.scheduler.scheduler import Scheduler
    from grain.worker.messages import Attempt


_AT_ONCE = 1024  # attempts in one `AckRuns`


class Outgoing:
    """The messages to be sent, by link: a hub's only way to the outside."""

    def __init__(self) -> None:
        self._mail: dict[Link, list[tuple[Message, Payload]]] = {}
        self._acknowledged: dict[Link, list[Attempt]] = {}

    def post(self, link: Link | None, message: Message, payload: Payload = None) -> None:
        """Queue a message for a peer.

        Nothing is queued for a peer that is away (None): on its next connection it reports what it
        has, and gets its messages by that.
        """
        if link is not None:
            mail = self._mail.get(link)
            if mail is None:
                self._mail[link] = [(message, payload)]
            else:
                mail.append((message, payload))

    def acknowledge(self, link: Link | None, attempt: Attempt) -> None:
        """Let a worker forget the outcome of a run; all those of a batch leave in one message."""
        if link is not None:
            self._acknowledged.setdefault(link, []).append(attempt)

    def revoke(self, lease: LeaseRecord) -> None:
        """Have an unwanted run ended; it keeps its resources until its worker reports.

        With the root of a gang go its seats.
        """
        lease.revoked = True
        self.post(lease.worker.link, Revoke(lease.attempt))
        if lease.gang is not None and not lease.member:
            for seat in lease.gang.seats.values():
                if not seat.revoked:
                    self.revoke(seat)

    def replace(self, link: Link, what: str) -> None:
        """Disconnect a connection whose peer's id is in use on another one.

        That is most often the peer itself, which has left the old connection: then no process
        reads this. Otherwise two processes have one id, and this one is to take another.
        """
        # First: what was queued is for a peer that has most likely left this connection.
        self.drop(link)
        why = f"another connection is in use for this {what}: another process may have its id"
        self.post(link, Disconnect(why, "replaced"))

    def take(self) -> dict[Link, list[tuple[Message, Payload]]]:
        """Return the messages queued since the last call, by link."""
        for link, attempts in self._acknowledged.items():
            for at in range(0, len(attempts), _AT_ONCE):
                self.post(link, AckRuns(tuple(attempts[at : at + _AT_ONCE])))
        if self._acknowledged:
            self._acknowledged = {}
        mail, self._mail = self._mail, {}
        return mail

    def drop(self, link: Link) -> None:
        """Discard the messages for a link that is lost."""
        self._mail.pop(link, None)
        self._acknowledged.pop(link, None)


_NOBODY = None, Answer("")
_QUESTIONS = 1000  # without an answer, at most
_ENDED_MISSIONS = 10
_ENDED_TASKS = 1000
_FAILED_TASKS = 50
_LEFT_WORKERS = 10_000
_LOST_WORKERS = 20


class Registry:
    """The missions and the workers of a hub, those that are away included, and what they share.

    Args:
        wall: the difference between the clock of Unix and that of the hub, in seconds.

    Attributes:
        epoch: as the argument, like `versions` and `scheduler`.
        shares: the turns of missions.
        scheduler_ids: the next ids for tasks of the scheduler.
        troubles: those that keep this head from working as it should, by where they are.
        numbered: the workers by the number that the scheduler has for each.
        left: the last workers that have left or were lost: the last connection of each, by id.
        ended_missions: the last ones that left, for display.
        ended_tasks: the last ones that were resolved, for display: some 300 bytes each.
        failed_tasks: the last ones of those that have failed.
        lost_workers: the last ones that were lost, for display.
        lanes: the runs of lanes that hold resources, each with its mission.
    """

    def __init__(
        self,
        epoch: int,
        wall: float,
        versions: Versions,
        scheduler: Scheduler,
    ) -> None:
        self.epoch = epoch
        self.versions = versions
        self.scheduler = scheduler
        self.outgoing = Outgoing()
        self.shares = FairShare()
        self.scheduler_ids = count(1)
        self.troubles: dict[str, str] = {}
        self._wall = wall
        self.ended_missions: deque[EndedMission] = deque(maxlen=_ENDED_MISSIONS)
        self.ended_tasks: deque[EndedTask] = deque(maxlen=_ENDED_TASKS)
        self.failed_tasks: deque[FailedTask] = deque(maxlen=_FAILED_TASKS)
        self.lost_workers: deque[Worker] = deque(maxlen=_LOST_WORKERS)
        self.missions: dict[str, MissionRecord] = {}
        self.workers: dict[str, WorkerRecord] = {}
        self.numbered: dict[int, WorkerRecord] = {}
        self.left: dict[str, int] = {}
        self.lanes: dict[LeaseRecord, MissionRecord] = {}

    def wall_time(self, now: float) -> float:
        """Return a time as seconds since Unix' epoch."""
        return self._wall + now

    def all_troubles(self) -> list[str]:
        """Return sentences on what keeps this head, or places, from working as they should."""
        aside = (
            f"{what} is {why}"
            for one in self.missions.values()
            for what, why in self.set_aside(one)
        )
        return list(dict.fromkeys((*self.troubles.values(), *aside)))

    def set_aside(self, mission: MissionRecord) -> list[tuple[str, str]]:
        """Return the places that are set aside for a mission now, each with a clause on how."""
        places = self.scheduler.places
        return [
            (what, why)
            for what, (place, why) in mission.set_aside.items()
            if places.is_aside(place, mission.number)
        ]

    def remove_worker(self, worker: WorkerRecord) -> None:
        """Remove a worker, and remember that it was here."""
        del self.workers[worker.id], self.numbered[worker.number]
        # A registration on an earlier connection may come late, and must not bring it back.
        self.left[worker.id] = worker.connection
        if len(self.left) > _LEFT_WORKERS:
            del self.left[next(iter(self.left))]


class Questions:
    """The questions that a hub passes on to peers, each with the link of who asked."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Link, Answer]] = {}
        self._last = 0

    def add(self, link: Link, ask: Ask) -> int:
        """Note a question; return its number. The oldest of too many is forgotten."""
        self._last += 1
        self._asked[self._last] = link, Answer(ask.about, ask.number)
        # A peer that leaves answers none of them.
        if len(self._asked) > _QUESTIONS:
            del self._asked[next(iter(self._asked))]
        return self._last

    def pop(self, number: int) -> tuple[Link | None, Answer]:
        """Return who asked a question, and the answer without its data; None if it is unknown."""
        return self._asked.pop(number, _NOBODY)
