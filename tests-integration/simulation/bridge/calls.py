"""Calls: members that listen for a head, and heads that connect to them.

The calls themselves, and the decision which of them to follow, are the product's. The connections
to listening members stand here for the product's shells: TCP, authentication and the greeting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.bridge.call import pack_call
from grain.edge.bridge.wire import Called
from simulation.bridge.server import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.bridge.leader import Listener
    from grain.edge.bridge.wire import AnyMessage
    from simulation.bridge.server import Bridge
    from simulation.heads import HeadProcess
    from simulation.peers import SimulatedPeer
    from simulation.wire import Wire

LISTEN = 10.0
"""Seconds for which a member listens."""

_CONNECT = 5.0  # seconds that a head takes to connect, at most
_TRIPS = 3  # messages until the two have greeted each other
_NOWHERE = ("192.0.2.1", 9)  # an address of the member that the head does not reach (RFC 5737)


class Calling:
    """A member that listens for one head, until that has come or this is over.

    Args:
        bridge: by which it calls.
        peer: its process.
        head: the head whose record it has.
        epoch: that of the record.
        on_over: called once: with the connection of the head, or with None.
    """

    def __init__(
        self,
        bridge: Bridge,
        peer: SimulatedPeer,
        head: HeadProcess,
        epoch: int,
        on_over: Callable[[Wire | None], object],
    ) -> None:
        self.peer = peer
        self.head = head
        self.epoch = epoch
        self.address = bridge.listen(self)
        self._bridge = bridge
        self._on_over = on_over
        self._over = False
        addresses = [_NOWHERE] * bridge.chance.randint(0, 1) + [self.address]
        sealed = bridge.keys.seal_call(pack_call(epoch, addresses))
        bridge.calls[sealed] = self
        self._line = Line(bridge, self, peer, "call", sealed)
        bridge.clock.after(LISTEN, self.end)

    def on_answer(self, line: Line, message: AnyMessage) -> None:
        """Go on listening if the head was sent the call."""
        line.close()
        if not isinstance(message, Called):
            self.end()

    def on_lost(self, _: Line) -> None:
        self.end()

    def on_head(self, head: HeadProcess) -> bool:
        """Take a connection of a head; return False if that is not the one it listens for."""
        if head is not self.head:
            return False  # it has not the credential of the record
        self.end(self._bridge.world.connect(head, self.peer))
        return True

    def end(self, wire: Wire | None = None) -> None:
        """Stop listening."""
        if not self._over:
            self._over = True
            del self._bridge.listening[self.address]
            self._line.close()
            self._on_over(wire)


class CallingBack:
    """A head that connects to a member which has called it.

    Args:
        bridge: by which it was called.
        head: its process.
        caller: the member, as the head knows it.
        on_over: called once.
    """

    def __init__(
        self,
        bridge: Bridge,
        head: HeadProcess,
        caller: Listener,
        on_over: Callable[[CallingBack], object],
    ) -> None:
        self._bridge = bridge
        self._head = head
        self._addresses = caller.addresses
        self._on_over = on_over
        self._over = False
        seconds = sum(bridge.delay() for _ in range(_TRIPS))
        bridge.clock.after(seconds, self._connect)
        bridge.clock.after(_CONNECT, self._end)

    def _connect(self) -> None:
        if self._over or not self._head.alive or self._head._later(self._connect):
            return
        for address in self._addresses:
            calling = self._bridge.listening.get(address)
            if calling is None or not calling.peer.alive:
                continue  # nobody listens there
            peer = calling.peer
            assert peer.way is not None
            if not peer.way.back:
                continue
            if peer.frozen:
                self._bridge.clock.at(peer.frozen_until, self._connect)
                return
            if calling.on_head(self._head):
                break
        self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._on_over(self)
