"""The hub: one scheduler for many missions and workers. Plain state, no I/O, no clock.

Peers are known by their links; the shell around calls `on_message` with what arrives on one,
`on_link_lost` when it breaks, `on_tick` at `next_tick`, and after each of them sends what `take`
returns. The same hub serves in Gnaw, in a mission's own process, and in the simulation.

It is *soft state*: missions own their unresolved tasks, workers their runs and outcomes, and both
tell of them on every connection. So a hub that knows nothing, put in the place of one that was
killed, ends up knowing the same. The rules are with what they rule: `_ledger` (one task and its
runs), `_staff` (workers), `_clients` (missions).
"""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from grain.edge.questions import pack
from grain.head.hub.missions import Clients
from grain.head.hub.prefetch import AHEAD
from grain.head.hub.snapshot import named, retired, snapshot
from grain.head.hub.state import Outbox
from grain.head.hub.tasks import Ledger
from grain.head.hub.workers import Staff
from grain.head.messages import MISSION, Answer, Ask, Started
from grain.head.scheduler.explain import Explanation, explain
from grain.head.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload
    from grain.head.hub.state import Link

GRACE = 60.0
"""Seconds for which workers and missions that are away are waited for."""

_STOPPED = 30.0  # a longer gap between two looks at the clock means that the process was stopped
_AT_ONCE = 65536  # tasks in one `Started`; at nine bytes each they fit a message
_PULSE = 10.0  # seconds between two looks at the clock while deadlines run


class Hub:
    """One scheduler for many missions and workers.

    Args:
        epoch: this head's number; no other head of these missions and workers has it.
        now: the time, in seconds of any clock that does not go back.
        grace: seconds for which workers and missions that are away are waited for.
        wall: the time now as seconds since Unix' epoch, for people.
        ahead: seconds of work that are sent ahead for each run, see `grain.head.hub.prefetch`.
        max_overtakes: see `Scheduler`.
    """

    # What it is made of; the simulation puts faulty parts here.
    ledger_class = Ledger
    staff_class = Staff
    clients_class = Clients

    def __init__(
        self,
        epoch: int,
        now: float,
        *,
        grace: float = GRACE,
        wall: float = 0.0,
        ahead: float = AHEAD,
        max_overtakes: int = 64,
    ) -> None:
        self.epoch = epoch
        self.scheduler = Scheduler(max_overtakes=max_overtakes)
        self._outbox = Outbox()
        self.ledger = self.ledger_class(epoch, self.scheduler, self._outbox, wall - now, ahead)
        self.clients = self.clients_class(self.ledger, self._outbox, grace, now)
        self.staff = self.staff_class(self.ledger, self._outbox, grace, self.clients.client)
        self.clients.staff = self.staff
        self._looked = now

    # ---- events

    def on_message(self, link: Link, message: Message, payload: Payload, now: float) -> None:
        """A peer says something; `dispatch` after all messages that arrived together."""
        self._look(now)
        if isinstance(message, Ask):
            self._answer(link, message, now)
        elif isinstance(message, MISSION) and link not in self.staff.links:
            self.clients.on_message(link, message, payload, now)
        else:
            self.staff.on_message(link, message, payload, now)

    def on_link_lost(self, link: Link, now: float) -> None:
        """The connection to a peer is lost or was closed."""
        self._look(now)
        self._outbox.drop(link)
        self.clients.on_link_lost(link, now)
        self.staff.on_link_lost(link, now)

    def on_tick(self, now: float) -> None:
        """Time has passed."""
        self._look(now)
        self.clients.on_tick(now)
        self.staff.on_tick(now)

    def _look(self, now: float) -> None:
        """Notice that this process was stopped: nobody could reach it meanwhile."""
        gap = now - self._looked
        if gap > _STOPPED:
            self.clients.postpone(self._looked, gap - _PULSE)
            self.staff.postpone(gap - _PULSE)
        self._looked = now

    def next_tick(self, now: float) -> float:
        """When `on_tick` is to be called at the latest."""
        due = min(self.clients.next_tick(), self.staff.next_tick())
        return due if due == math.inf else min(due, now + _PULSE)

    def dispatch(self, now: float) -> None:
        """Start what can start."""
        begun = self.ledger.start_suspects(now) if not self.ledger.quarantine.idle else []
        begun += [self.ledger.start(start, now) for start in self.scheduler.dispatch(now)]
        begun += self.ledger.send_ahead()
        started: dict[tuple[Link | None, str], list[int]] = {}
        for entry, lease in begun:
            key = (entry.client.link, lease.worker.id)
            tasks = started.get(key)
            if tasks is None:
                started[key] = [entry.number]
            else:
                tasks.append(entry.number)
        for (link, worker), tasks in started.items():
            for at in range(0, len(tasks), _AT_ONCE):
                self._outbox.post(link, Started(worker, tuple(tasks[at : at + _AT_ONCE])))

    def take(self) -> dict[Link, list[tuple[Message, Payload]]]:
        """What is to be sent, by link, and in this order: first to missions, then to workers.

        So a mission knows where its task runs before it does. If this head is killed in between,
        another one waits for word of that worker; the other way round it would start the task anew.
        """
        mail = self._outbox.take()
        if len(mail) > 1:
            missions = self.clients.links
            mail = {
                link: mail[link] for link in sorted(mail, key=lambda link: link not in missions)
            }
        return mail

    # ---- questions

    @property
    def idle(self) -> bool:
        """Whether no mission is here or waited for."""
        return not self.ledger.clients

    def snapshot(self, now: float) -> dict[str, Any]:
        """How things stand, as plain data."""
        return snapshot(self.ledger, now)

    def why(self, mission: str, task: int, now: float) -> Explanation:
        """Why a task is where it is."""
        client = named(self.ledger, mission)
        if client is None:
            there = ", ".join(sorted(one.name or id_ for id_, one in self.ledger.clients.items()))
            why = f"no mission, or more than one, goes by {mission!r}; here are: {there or 'none'}"
            return Explanation(task, "unknown", (why,))
        entry = client.entries.get(task)
        if entry is None:
            return Explanation(task, "unknown", ("it has ended, or was never submitted",))
        if entry.ending is not None:
            return Explanation(task, "ended", ("its outcome is on its way to the mission",))
        if entry.awaits:
            why = f"it ran on worker {entry.awaits}, which has yet to find this scheduler"
            return Explanation(task, "waiting", (why,))
        if entry.lease is not None and entry.lease.waits:
            why = f"it is among the next on {entry.lease.worker.name}, where others like it run"
            return Explanation(task, "waiting", (why,))
        ticket = entry.ticket if entry.lease is None else entry.lease.ticket
        found = explain(self.scheduler, -1 if ticket is None else ticket, now)
        crashes = [f"crashed on {crash.worker}: {crash.how}" for crash in entry.crashes]
        return Explanation(task, found.state, (*found.reasons, *crashes))

    def retire(self, pattern: str = "*", *, at_once: bool = False) -> list[dict[str, Any]]:
        """Ask workers to leave, those that are away when they are back.

        Returns:
            Of each its ``name``, ``host`` and ``state`` before, as in a snapshot, and how many
            tasks are ``running`` on it.
        """
        found = [w for w in self.ledger.workers.values() if fnmatchcase(w.name, pattern)]
        before = [retired(self.ledger, worker) for worker in found]
        for worker in found:
            self.staff.retire(worker, at_once=at_once)
        return before

    def _answer(self, link: Link, ask: Ask, now: float) -> None:
        answer: Any
        if ask.about == "state":
            answer = self.snapshot(now)
        elif ask.about == "retire":
            answer = self.retire(ask.pattern, at_once=ask.at_once)
        else:
            own = self.clients.links.get(link)
            mission = ask.mission or (own.id if own is not None else "")
            found = self.why(mission, ask.task, now)
            answer = {"task": found.task, "state": found.state, "reasons": list(found.reasons)}
        self._outbox.post(link, Answer(ask.about), pack(answer))
