"""A head's process: the real hub, and the wires to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.head.messages import RegisterMission, Retract, Submit
from grain.worker.messages import Draining, Inventory, InventoryEnd, Leaving, RegisterWorker
from simulation.peers import SimulatedMission
from simulation.wire import Wire

if TYPE_CHECKING:
    from grain.edge.questions import Ask
    from grain.head.hub.hub import Hub
    from simulation.wire import End, Mail
    from simulation.world import World


class HeadProcess:
    """The process of a head: a hub and the wires to it."""

    def __init__(self, world: World, hub: Hub, offset: float) -> None:
        self.world = world
        self.hub = hub
        self.alive = True
        self.offset = offset
        self.ready: set[Wire] = set()
        self.wires: dict[Wire, None] = {}
        # The tasks that missions submitted or retracted, by wire.
        self.wanted: dict[Wire, set[int]] = {}
        # The newest connection on which each peer has registered.
        self.newest: dict[End, int] = {}
        # The tasks, by mission and number, that a command has cancelled here.
        self.cancelled: set[tuple[str, int]] = set()

    @property
    def now(self) -> float:
        """The time by its own clock."""
        return self.world.clock.now + self.offset

    def on_mail(self, wire: Wire, mail: Mail) -> None:
        if not self.alive:
            return
        for message, payload in mail:
            if isinstance(message, Submit):
                self.wanted.setdefault(wire, set()).add(message.task)
            elif isinstance(message, RegisterMission | RegisterWorker):
                self.newest[wire.peer] = max(wire.number, self.newest.get(wire.peer, 0))
            elif isinstance(message, Retract):
                self.wanted.setdefault(wire, set()).update(message.tasks)
            elif isinstance(message, InventoryEnd):
                self.ready.add(wire)
            elif isinstance(message, Leaving):
                self.ready.discard(wire)
            elif isinstance(message, Draining):
                self.world.laws.drained.add((self, wire.peer))
            self.hub.on_message(wire, message, payload, self.now)
            if isinstance(message, Inventory):
                self.world.laws.on_inventory(self, wire, message)
        self.flush()

    def ask(self, ask: Ask) -> None:
        """Take a question from a command; the answer is dropped."""
        self.hub.on_message("command", ask, None, self.now)
        self.hub.on_link_lost("command", self.now)
        mission = self.hub.registry.missions.get(ask.mission)
        if mission is not None and ask.task in mission.cancelled:
            self.cancelled.add((ask.mission, ask.task))
        self.flush()

    def on_cut(self, wire: Wire) -> None:
        self.wires.pop(wire, None)
        if self.alive:
            self.hub.on_link_lost(wire, self.now)
            self.flush()
            if isinstance(wire.peer, SimulatedMission) and wire.peer.seen and not wire.peer.alive:
                self.hub.on_mission_ended(wire.peer.session.id, self.now)
                if wire.number == self.newest.get(wire.peer):  # else another end is to be noticed
                    self.world.laws.on_mission_ended(self, wire.peer.session.id)
                self.flush()

    def tick(self) -> None:
        """Let time pass, as its shell does once a second."""
        if self.alive:
            self.hub.on_tick(self.now)
            self.flush()

    def flush(self) -> None:
        """Decide, and send what is to be sent."""
        self.hub.dispatch(self.now)
        for wire, mail in self.hub.take().items():
            assert isinstance(wire, Wire)
            for message, _ in mail:
                self.world.laws.on_sent(self, wire, message)
            wire.send(wire.peer, mail)

    def kill(self) -> None:
        self.alive = False
        for wire in list(self.wires):
            wire.close(self)
        self.wires.clear()
