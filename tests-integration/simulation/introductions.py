"""The ways of heads and peers to each other by way of a bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.bridge.wire import BEAT, SILENCE, Beat, Incoming, Ready, Record, Refusal
from simulation.bridge import Line, RelayedWire

if TYPE_CHECKING:
    from grain.edge.bridge.leader import Leader
    from grain.edge.bridge.wire import AnyMessage
    from simulation.bridge import Bridge
    from simulation.heads import HeadProcess
    from simulation.peers import SimulatedPeer
    from simulation.world import World

_ANSWER = 10.0  # seconds for an answer of the server


class HeadAtBridge:
    """A head's side: it leads, and takes who wants to join.

    Args:
        world: the world.
        head: its process.
        leader: its decisions.
    """

    def __init__(self, world: World, head: HeadProcess, leader: Leader) -> None:
        assert world.bridge is not None
        self.leader = leader
        self.deaf = 0  # how many introductions are lost from now on
        self.line: Line | None = None
        self._world = world
        self._bridge = world.bridge
        self._head = head
        self._has_led = False
        self._record = str(world.heads.index(head)).encode()
        self._heard = self._beaten = 0.0
        self._taking: set[Taking] = set()
        self.dial()

    def dial(self) -> None:
        """Connect to the server; look first, as whoever leads is not disturbed."""
        if not self._head.alive or self.line is not None:
            return
        if self._head._later(self.dial):
            return
        self._heard = self._world.clock.now
        purpose = "lead" if self._has_led else "look"
        self.line = Line(self._bridge, self, self._head, purpose)  # type: ignore[arg-type]
        if purpose == "lead":
            self.line.send(self.leader.on_connected())

    def on_answer(self, line: Line, message: AnyMessage) -> None:
        if not self._head.alive or self._head._later(lambda: self.on_answer(line, message)):
            return
        if line is not self.line:
            return
        self._heard = self._world.clock.now
        if line.purpose == "look":
            if isinstance(message, Record) and not message.epoch:
                line.close()
                self.line = Line(self._bridge, self, self._head, "lead")
                self.line.send(self.leader.on_connected())
            else:
                self._again()
            return
        if isinstance(message, Refusal):
            self._again()
            return
        if isinstance(message, Record) and message.sealed:
            own = self._bridge.keys.unseal(message.sealed) == self._record
            law = "a head that connects again to a bridge is not turned away for itself"
            self._world.laws.demand(law, not own, message.epoch)
        to_send, incoming = self.leader.on_message(message)
        line.send(to_send)
        if isinstance(incoming, Incoming):
            self._take(incoming)
        if self.leader.higher:
            self._world.end_head(self._head)
        elif self.leader.leads and not self._has_led:
            self._has_led = True
            line.send(self.leader.publish(self._record))
        elif not self.leader.leads:
            self._again()

    def _take(self, incoming: Incoming) -> None:
        if self.deaf:
            self.deaf -= 1
            self.leader.taking -= 1
            return
        self._taking.add(Taking(self, self._bridge, self._head, incoming.token))

    def on_taken(self, taking: Taking) -> None:
        """Count a member no more that was about to join."""
        if taking in self._taking:
            self._taking.remove(taking)
            self.leader.taking -= 1

    def on_lost(self, line: Line) -> None:
        if not self._head.alive or self._head._later(lambda: self.on_lost(line)):
            return
        if line is self.line:
            self._again()

    def tick(self) -> None:
        """Let time pass, as its shell does."""
        now = self._world.clock.now
        if self.line is None:
            return
        if now - self._heard > (SILENCE if self.leader.leads else _ANSWER):
            self._again()
        elif self.leader.leads and now - self._beaten >= BEAT:
            self._beaten = now
            self.line.send([Beat()])

    def _again(self) -> None:
        self.close()
        self._world.clock.after(0.5 + 2.0 * self._bridge.chance.random(), self.dial)

    def close(self) -> None:
        """End the connection."""
        if self.line is not None:
            self.line.close()
            self.line = None
            self.leader.on_lost()

    def end(self) -> None:
        """End all connections, as the death of the process does."""
        self.close()
        for taking in self._taking:
            taking.line.close()


class Taking:
    """A connection by which a head takes a member.

    Args:
        at: the head's side, which counts it.
        bridge: where.
        head: its process.
        token: of the member.
    """

    def __init__(self, at: HeadAtBridge, bridge: Bridge, head: HeadProcess, token: bytes) -> None:
        self._at = at
        self.line = Line(bridge, self, head, "take", token)

    def on_answer(self, line: Line, message: AnyMessage) -> None:
        """Handle the answer of the server; if it is ready, the peer's side makes the wire."""
        self._at.on_taken(self)
        if not isinstance(message, Ready):
            line.close()

    def on_lost(self, _: Line) -> None:
        self._at.on_taken(self)


class PeerAtBridge:
    """A peer's attempt to reach the head that leads.

    Args:
        peer: its process.
        direct: it reaches heads without the server.
    """

    def __init__(self, peer: SimulatedPeer, *, direct: bool) -> None:
        assert peer.world.bridge is not None
        self.direct = direct
        self._peer = peer
        self._bridge = peer.world.bridge
        self._clock = peer.world.clock
        self._line: Line | None = None

    def dial(self) -> None:
        """Look who leads, unless an attempt is under way."""
        if self._line is None:
            self._open("look")

    def _open(self, purpose: str) -> None:
        line = self._line = Line(self._bridge, self, self._peer, purpose)  # type: ignore[arg-type]

        def give_up() -> None:
            if line is self._line:
                self._again()

        self._clock.after(_ANSWER, give_up)

    def _again(self) -> None:
        self.close()
        self._clock.after(1.0 + 2.0 * self._bridge.chance.random(), self._peer.dial)

    def close(self) -> None:
        """End the attempt."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def on_answer(self, line: Line, message: AnyMessage) -> None:
        peer = self._peer
        if not peer.alive or line is not self._line:
            line.close()
            return
        if peer.frozen:
            self._clock.at(peer.frozen_until, lambda: self.on_answer(line, message))
        elif isinstance(message, Record) and message.sealed:
            self._reach(int(self._bridge.keys.unseal(message.sealed)))
        elif isinstance(message, Ready):
            self._line = None
            self._join(line)
        else:
            self._again()

    def _reach(self, number: int) -> None:
        assert self._line is not None
        self._line.close()
        self._line = None
        head = self._peer.world.heads[number]
        if self.direct and head.alive:
            self._peer.join(self._peer.world.connect(head, self._peer))
        else:
            self._open("join")

    def _join(self, line: Line) -> None:
        taker = next((t for t, member in line.server.pairs if member is line), None)
        if taker is None or not taker.here or not taker.of.alive or not line.here:
            line.close()
            self._again()
            return
        world = self._peer.world
        wire = RelayedWire(self._bridge, taker, line, world.number_connection())
        taker.wire = line.wire = wire
        wire.head.wires[wire] = None
        self._peer.join(wire)

    def on_lost(self, line: Line) -> None:
        if line is self._line:
            self._line = None
            if self._peer.alive:
                self._clock.after(1.0 + 2.0 * self._bridge.chance.random(), self._peer.dial)
