"""A head's process: the real hub, and the wires to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grain.edge.mission_ids import lasts
from grain.head.errors import BadMessage
from grain.head.messages import AckTasks, Depart, LastAway, RegisterMission, Retract, Submit
from grain.worker.messages import (
    Backlog,
    Draining,
    Inventory,
    InventoryEnd,
    Leaving,
    RegisterWorker,
)
from simulation.peers import SimulatedMission
from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grain.edge.messages import Message
    from grain.edge.questions import Ask
    from grain.head.hub.hub import Hub
    from grain.head.hub.state import Link, MissionRecord
    from grain.worker.messages import Attempt
    from simulation.clock import Clock
    from simulation.nonsense import Nonsense
    from simulation.surroundings import Post
    from simulation.wire import End, Mail


class Observer(Protocol):
    """The observer of what heads take and send.

    Attributes:
        drained: when workers drained as heads know, by the clocks for people of these.
    """

    drained: dict[tuple[HeadProcess, object], float]

    def on_sent(self, head: HeadProcess, wire: Wire, message: Message) -> None:
        """Check a message that a head sends."""

    def on_retract(
        self, head: HeadProcess, mission: MissionRecord | None, message: Retract
    ) -> None:
        """Note what a mission retracts, before its head does.

        Args:
            mission: None if it is unknown there.
        """

    def on_taken(self, message: Message) -> None:
        """Check a message that a head has taken without complaint."""

    def on_refused(self, message: Message, error: BadMessage) -> None:
        """Check a message that a head has refused."""

    def on_disconnected(self, head: HeadProcess, wire: Wire) -> None:
        """Check that a peer that was disconnected is detached."""

    def on_given_up(self, peer: str, seconds: float) -> None:
        """Check that a peer that is given up was away for long, while its head could see that."""

    def on_confirmed(self, mission: MissionRecord, message: AckTasks) -> None:
        """Note the outcomes that a mission has, before its head forgets them."""

    def on_unclaimed(self, attempt: Attempt, seconds: float) -> None:
        """Check that an outcome is forgotten which no process of its lasting mission has wanted.

        Args:
            attempt: the run whose outcome it is.
            seconds: for how long no process has, as its head could see.
        """

    def on_inventory(self, head: HeadProcess, wire: Wire, message: Inventory) -> None:
        """Note the runs that a head learns of from a worker."""

    def on_mission_ended(self, head: HeadProcess, mission: str) -> None:
        """Check what a head has of a mission whose process has ended, as the head knows."""


class DispatchObserver(Protocol):
    """The observer of what one head starts."""

    def on_dispatched(self, mail: Iterable[tuple[Link, Mail]]) -> None:
        """Check what the head has started since the last call."""


class BridgeSide(Protocol):
    """A head's side of a bridge.

    Attributes:
        deaf: how many introductions are lost from now on.
    """

    deaf: int

    def tick(self) -> None:
        """Let time pass."""

    def end(self) -> None:
        """End all connections, as the death of the process does."""


class Surroundings(Protocol):
    """The world, as heads see it."""

    clock: Clock
    nonsense: Nonsense
    touched: set[HeadProcess]

    @property
    def laws(self) -> Observer:
        """The observer."""

    @property
    def faults(self) -> Post:
        """The office that carries messages."""


class HeadProcess:
    """The process of a head: a hub and the wires to it.

    Args:
        world: the world.
        hub: the decisions.
        offset: the time by its own clock when that of the world is 0.
    """

    def __init__(self, world: Surroundings, hub: Hub, offset: float) -> None:
        self.world = world
        self.hub = hub
        self.alive = True
        # Its side of a bridge, in a world that has one.
        self.at_bridge: BridgeSide | None = None
        self.offset = offset
        self.frozen_until = 0.0
        # The seconds in which it did not run, and what of them counts against its peers.
        self.stopped = 0.0
        self._counted = 0.0
        self.started = self.served
        # The time by `served` when the connection of a peer was lost, by its id.
        self._lost: dict[str, float] = {}
        self.ready: set[Wire] = set()
        self.wires: dict[Wire, None] = {}
        # What arrived while the process was frozen, as calls in their order.
        self._unread: list[Callable[[], object]] = []
        # The tasks that missions submitted or retracted, by wire.
        self.wanted: dict[Wire, set[int]] = {}
        # The connection of each lasting mission that is served, as its processes count.
        self._connections: dict[str, int] = {}
        # The newest connection on which each peer has registered.
        self.newest: dict[End, int] = {}
        # The wires whose peers have sent nonsense.
        self.refused: set[Wire] = set()
        # Those of workers that take no runs, as too many of their outcomes are not confirmed.
        self.paused: set[Wire] = set()
        # The workers, by id, that have left, as they have said.
        self.departed: set[str] = set()
        # The tasks, by mission and number, that a command has cancelled here.
        self.cancelled: set[tuple[str, int]] = set()
        # The missions that a command has cancelled here.
        self.cancelled_missions: set[str] = set()
        # The worker of each task as missions were informed from here, by the mission's record.
        self.informed: dict[tuple[MissionRecord, int], str] = {}
        # The workers of which missions have the facts, by wire.
        self.facts: dict[Wire, set[str]] = {}
        # The crashes of each task that missions were informed of from here, likewise: a mission
        # that was given up and comes back is a new one.
        self.crashes: dict[tuple[MissionRecord, int], set[Attempt]] = {}
        # The time by `served` since which no process wants an outcome of a lasting mission.
        self._unclaimed: dict[Attempt, float] = {}
        self.observers: Sequence[DispatchObserver] = ()

    @property
    def now(self) -> float:
        """The time by its own clock."""
        return self.world.clock.now + self.offset

    @property
    def served(self) -> float:
        """The real time, without that in which it did not run; differences alone have a meaning."""
        return self.world.clock.now + self._counted

    @property
    def frozen(self) -> bool:
        """True while its process is stopped; its connections stay open."""
        return self.frozen_until > self.world.clock.now

    def freeze(self, until: float) -> None:
        """Stop the process until a time."""
        if until > self.frozen_until:
            seconds = until - max(self.frozen_until, self.world.clock.now)
            self._stop(seconds)
            self._counted -= seconds
            self.frozen_until = until

    def jump(self, seconds: float) -> None:
        """Let its clock go forward, as if it had been stopped for a moment of the real time."""
        self.offset += seconds
        self._stop(seconds)

    def _stop(self, seconds: float) -> None:
        self.stopped += seconds
        self._counted += seconds if seconds <= 30.0 else 10.0

    def _later(self, action: Callable[[], object]) -> bool:
        """Keep a call for when the process goes on; return False if it runs."""
        if not self._unread and not self.frozen:
            return False
        self._unread.append(action)
        if len(self._unread) == 1:
            self.world.clock.at(self.frozen_until, self._thaw)
        return True

    def _thaw(self) -> None:
        if self.frozen:
            self.world.clock.at(self.frozen_until, self._thaw)
            return
        unread, self._unread = self._unread, []
        if self.world.clock.chance.random() < 0.5:  # the clock's turn may come first
            self.tick()
        for action in unread:
            action()

    def on_mail(self, wire: Wire, mail: Mail) -> None:
        if not self.alive or self._later(lambda: self.on_mail(wire, mail)):
            return
        if wire not in self.wires:
            return  # it was closed here
        self.world.touched.add(self)
        for message, payload in mail:
            self._note(wire, message)
            try:
                self.hub.on_message(wire, message, payload, self.now)
            except BadMessage as error:
                self._refuse(wire, message, error)
                return
            self.world.laws.on_taken(message)
            if isinstance(message, Inventory):
                self.world.laws.on_inventory(self, wire, message)
        self.flush()

    def _note(self, wire: Wire, message: Message) -> None:
        if isinstance(message, Submit):
            self.wanted.setdefault(wire, set()).add(message.task)
        elif isinstance(message, RegisterMission | RegisterWorker):
            self._note_registration(wire, message)
        elif isinstance(message, AckTasks) and wire in self.hub.missions.links:
            self.world.laws.on_confirmed(self.hub.missions.links[wire], message)
        elif isinstance(message, Retract):
            self.wanted.setdefault(wire, set()).update(message.tasks)
            self.world.laws.on_retract(self, self.hub.missions.links.get(wire), message)
        elif isinstance(message, InventoryEnd):
            self.ready.add(wire)
        elif isinstance(message, Leaving):
            self.ready.discard(wire)
            if wire in self.hub.workers.links:
                self.departed.add(self.hub.workers.links[wire].id)
        elif isinstance(message, Depart):
            if wire in self.hub.missions.links:  # what workers still report of it is given up
                self._lost.pop(self.hub.missions.links[wire].id, None)
        elif isinstance(message, Backlog):
            (self.paused.add if message.outcomes else self.paused.discard)(wire)
        elif isinstance(message, Draining):
            wall = self.hub.registry.wall_time(self.now)
            self.world.laws.drained.setdefault((self, wire.peer), wall)

    def _note_registration(self, wire: Wire, message: RegisterMission | RegisterWorker) -> None:
        if id(message) in self.world.nonsense.refusable:
            return
        if not isinstance(message, RegisterMission) or not lasts(message.mission):
            self.newest[wire.peer] = max(wire.number, self.newest.get(wire.peer, 0))
            return
        # Of several processes of one mission that with the larger connection is served.
        if message.connection < self._connections.get(message.mission, 0):
            self.newest.setdefault(wire.peer, -1)
            return
        self._connections[message.mission] = message.connection
        for peer in self.newest:
            if isinstance(peer, SimulatedMission) and peer.session.id == message.mission:
                self.newest[peer] = -1
        self.newest[wire.peer] = wire.number

    def _refuse(self, wire: Wire, message: Message, error: BadMessage) -> None:
        """Drop a peer that has sent nonsense, as the shell does."""
        self.world.laws.on_refused(message, error)
        self.refused.add(wire)
        self._note_loss(wire)
        self.hub.disconnect(wire, str(error), self.now, refused=True)
        self.world.laws.on_disconnected(self, wire)
        self.flush()
        self.wires.pop(wire, None)
        wire.close(self)

    def ask(self, ask: Ask) -> None:
        """Take a question from a command; the answer is dropped."""
        if self.frozen:
            return
        self.world.touched.add(self)
        self.hub.on_message("command", ask, None, self.now)
        self.hub.on_link_lost("command", self.now)
        mission = self.hub.registry.missions.get(ask.mission)
        if mission is not None and ask.task in mission.cancelled:
            self.cancelled.add((ask.mission, ask.task))
        if mission is not None and mission.cancelled_by:
            self.cancelled_missions.add(ask.mission)
        self.flush()

    def has_cancelled(self, mission_id: str) -> bool:
        """Return True if a command has cancelled a mission.

        The process of a lasting one may leave before it is told: then the next one goes on.
        """
        mission = self.hub.registry.missions.get(mission_id)
        goes_on = mission is not None and mission.lasts and not mission.cancelled_by
        return mission_id in self.cancelled_missions and not goes_on

    def on_cut(self, wire: Wire) -> None:
        if self.alive and self._later(lambda: self.on_cut(wire)):
            return
        self.wires.pop(wire, None)
        if self.alive:
            self.world.touched.add(self)
            self._note_loss(wire)
            self.hub.on_link_lost(wire, self.now)
            self.flush()
            if isinstance(wire.peer, SimulatedMission) and wire.peer.seen and not wire.peer.alive:
                self.hub.on_mission_ended(wire.peer.session.id, self.now)
                if wire.number == self.newest.get(wire.peer):  # else another end is to be noticed
                    self.world.laws.on_mission_ended(self, wire.peer.session.id)
                self.flush()

    def tick(self) -> None:
        """Let time pass, as its shell does once a second."""
        if self.alive and not self.frozen:
            self.world.touched.add(self)
            registry = self.hub.registry
            before = registry.workers.keys() | registry.missions.keys()
            self._unclaimed = {
                attempt: self._unclaimed.get(attempt, self.served)
                for attempt in self._find_unclaimed()
            }
            self.hub.on_tick(self.now)
            for attempt in self._unclaimed.keys() - self._find_unclaimed():
                seconds = self.served - self._unclaimed[attempt]
                self.world.laws.on_unclaimed(attempt, seconds)
            for peer in before - registry.workers.keys() - registry.missions.keys():
                if peer in self._lost:
                    self.world.laws.on_given_up(peer, self.served - self._lost[peer])
            self.flush()
            if self.at_bridge is not None:
                self.at_bridge.tick()

    def _find_unclaimed(self) -> set[Attempt]:
        """Return the runs whose outcomes are kept for a process of a lasting mission to come."""
        return {
            task.kept_by[1]
            for mission in self.hub.registry.missions.values()
            if mission.lasts
            for task in mission.tasks.values()
            if task.kept_by is not None and not task.claimed
        }

    def _note_loss(self, wire: Wire) -> None:
        peer = self.hub.workers.links.get(wire) or self.hub.missions.links.get(wire)
        if peer is not None and peer.link is wire:
            self._lost[peer.id] = self.served

    def flush(self) -> None:
        """Decide, and send what is to be sent."""
        self.hub.dispatch(self.now)
        to_send = self.hub.take()
        for observer in self.observers:
            observer.on_dispatched(to_send.items())
        for wire, letters in to_send.items():
            assert isinstance(wire, Wire)
            # A word for people changes nothing, and would make another story of each seed.
            mail = [one for one in letters if not isinstance(one[0], LastAway)]
            for message, _ in mail:
                self.world.laws.on_sent(self, wire, message)
            self.world.faults.post(self, wire, wire.peer, mail)
            if not self.alive:
                break  # it was killed while it sent: what is for others is lost

    def kill(self) -> None:
        self.alive = False
        if self.at_bridge is not None:
            self.at_bridge.end()
        for wire in list(self.wires):
            wire.close(self)
        self.wires.clear()
