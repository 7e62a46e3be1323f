"""The ways of heads and peers to each other by way of a bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.bridge.leader import Listener
from grain.edge.bridge.wire import (
    BEAT,
    SILENCE,
    Beat,
    Incoming,
    Joined,
    LeaderRecord,
    MemberListens,
    MemberRefused,
)
from simulation.bridge.calls import Calling, CallingBack
from simulation.bridge.server import Line, RelayedWire

if TYPE_CHECKING:
    from grain.edge.bridge.leader import Leader
    from grain.edge.bridge.wire import AnyMessage
    from simulation.bridge.server import Bridge
    from simulation.heads import HeadProcess
    from simulation.peers import SimulatedPeer
    from simulation.wire import Wire

_ANSWER = 10.0  # seconds for an answer of the server
_HEAD_START = 0.25  # seconds by which a call begins before the way through the server


class HeadAtBridge:
    """A head's side: it leads, takes who wants to join, and connects to who calls.

    Args:
        bridge: where.
        head: its process.
        leader: its decisions.
    """

    def __init__(self, bridge: Bridge, head: HeadProcess, leader: Leader) -> None:
        self.leader = leader
        self.deaf = 0  # how many introductions are lost from now on
        self.line: Line | None = None
        self._world = bridge.world
        self._bridge = bridge
        self._head = head
        self._has_led = False
        self._record = str(bridge.world.heads.index(head)).encode()
        self._heard = self._beaten = 0.0
        self._taking: set[Taking] = set()
        self._calling_back: set[CallingBack] = set()
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
            if isinstance(message, LeaderRecord) and not message.epoch:
                line.close()
                self.line = Line(self._bridge, self, self._head, "lead")
                self.line.send(self.leader.on_connected())
            else:
                self._again()
            return
        if isinstance(message, MemberRefused):
            self._again()
            return
        if isinstance(message, LeaderRecord) and message.sealed:
            own = self._bridge.keys.unseal(message.sealed) == self._record
            law = "a head that connects again to a bridge is not turned away for itself"
            self._world.laws.demand(law, not own, message.epoch)
        to_send, member = self.leader.on_message(message)
        line.send(to_send)
        if isinstance(message, MemberListens):
            self._check_call(message, member)
        self._follow(member)
        if self.leader.higher:
            self._world.end_head(self._head)
        elif self.leader.leads and not self._has_led:
            self._has_led = True
            line.send(self.leader.publish(self._record))
        elif not self.leader.leads:
            self._again()

    def _follow(self, member: Incoming | Listener | None) -> None:
        if isinstance(member, Incoming):
            self._take(member)
        elif isinstance(member, Listener):
            one = CallingBack(self._bridge, self._head, member, self._on_called_back)
            self._calling_back.add(one)

    def _check_call(self, message: MemberListens, member: Incoming | Listener | None) -> None:
        calling = self._bridge.calls[message.sealed]
        expected = self.leader.leads and calling.epoch == self.leader.epoch
        reached = isinstance(member, Listener) and calling.address in member.addresses
        law = "a head that leads connects to who calls it, and to nobody else"
        self._world.laws.demand(law, reached if expected else member is None, calling.address)

    def _on_called_back(self, one: CallingBack) -> None:
        self._calling_back.remove(one)
        self.leader.calling -= 1

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
        leader = self.leader
        counted = (leader.taking, leader.calling) == (len(self._taking), len(self._calling_back))
        self._world.laws.demand("a head counts those that are about to join", counted)
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
        if not isinstance(message, Joined):
            line.close()

    def on_lost(self, _: Line) -> None:
        self._at.on_taken(self)


class PeerAtBridge:
    """A peer's way to the head that leads.

    Args:
        bridge: where.
        peer: its process.
        direct: it can connect to heads.
        back: heads can connect to it.
    """

    def __init__(self, bridge: Bridge, peer: SimulatedPeer, *, direct: bool, back: bool) -> None:
        self.direct = direct
        self.back = back
        # The connection that a head has made because of a call.
        self.called: Wire | None = None
        self._peer = peer
        self._bridge = bridge
        self._clock = bridge.clock
        self._line: Line | None = None
        self._race: Race | None = None

    def dial(self) -> None:
        """Look who leads, unless an attempt is under way."""
        if self._line is not None or self._race is not None:
            return
        line = self._line = Line(self._bridge, self, self._peer, "look")

        def give_up() -> None:
            if line is self._line:
                self.again()

        self._clock.after(_ANSWER, give_up)

    def again(self) -> None:
        """End the attempt, and let the peer begin another one after a while."""
        self.close()
        if self._peer.alive:
            self._clock.after(1.0 + 2.0 * self._bridge.chance.random(), self._peer.dial)

    def close(self) -> None:
        """End the attempt."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._race is not None:
            race, self._race = self._race, None
            race.end()

    def on_answer(self, line: Line, message: AnyMessage) -> None:
        peer = self._peer
        if not peer.alive or line is not self._line:
            line.close()
        elif peer.frozen:
            self._clock.at(peer.frozen_until, lambda: self.on_answer(line, message))
        elif isinstance(message, LeaderRecord) and message.sealed:
            self.close()
            head = self._bridge.world.heads[int(self._bridge.keys.unseal(message.sealed))]
            if self.direct and head.alive:
                peer.join(self._bridge.world.connect(head, peer))
            else:
                self._race = Race(self, self._bridge, peer, head, message.epoch)
        else:
            self.again()

    def on_lost(self, line: Line) -> None:
        if line is self._line:
            self.again()

    def on_reached(self, wire: Wire, *, called: bool) -> None:
        """Use the connection that an attempt has led to."""
        self.close()
        self.called = wire if called else None
        self._peer.join(wire)


class Race:
    """An attempt to reach one head: by a call, and a little later also through the server.

    The first that leads to a connection wins, as among the routes of the product.

    Args:
        way: gets the connection.
        bridge: where.
        peer: the process.
        head: the head.
        epoch: that of its record.
    """

    def __init__(
        self, way: PeerAtBridge, bridge: Bridge, peer: SimulatedPeer, head: HeadProcess, epoch: int
    ) -> None:
        self._way = way
        self._bridge = bridge
        self._peer = peer
        self._clock = bridge.clock
        self._left = {"call", "relay"}  # the routes that may still succeed
        self._line: Line | None = None
        self._calling = Calling(bridge, peer, head, epoch, self._on_called)
        self._clock.after(_HEAD_START, self._relay)

    def end(self) -> None:
        """Give up the routes that are left."""
        self._left.clear()
        self._calling.end()
        if self._line is not None:
            self._line.close()

    def _fail(self, route: str) -> None:
        if route not in self._left:
            return
        self._left.remove(route)
        if not self._left:
            self._way.again()
        elif route == "call":
            self._relay()

    def _on_called(self, wire: Wire | None) -> None:
        if wire is None:
            self._fail("call")
        else:
            self._way.on_reached(wire, called=True)

    def _relay(self) -> None:
        if "relay" in self._left and self._line is None:
            self._line = Line(self._bridge, self, self._peer, "join")
            self._clock.after(_ANSWER, lambda: self._fail("relay"))

    def on_answer(self, line: Line, message: AnyMessage) -> None:
        peer = self._peer
        if not peer.alive or "relay" not in self._left:
            line.close()
        elif peer.frozen:
            self._clock.at(peer.frozen_until, lambda: self.on_answer(line, message))
        elif isinstance(message, Joined):
            self._join(line)
        else:
            line.close()
            self._fail("relay")

    def on_lost(self, _: Line) -> None:
        self._fail("relay")

    def _join(self, line: Line) -> None:
        taker = next((t for t, member in line.server.pairs if member is line), None)
        if taker is None or not taker.here or not taker.of.alive or not line.here:
            line.close()
            self._fail("relay")
            return
        number = self._bridge.world.number_connection()
        wire = RelayedWire(self._bridge, taker, line, number)
        taker.wire = line.wire = wire
        wire.head.wires[wire] = None
        self._line = None  # it is the wire's
        self._way.on_reached(wire, called=False)
