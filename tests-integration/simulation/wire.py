"""A connection between a head and a peer: in order, but late, sometimes twice, and cut at times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grain.edge.messages import Message, Payload
    from grain.head.hub.hub import Hub
    from simulation.clock import Clock

    Mail = list[tuple[Message, Payload]]


class End(Protocol):
    """A process at one end of a wire."""

    def on_mail(self, wire: Wire, mail: Mail) -> None:
        """Handle messages that arrive together."""

    def on_cut(self, wire: Wire) -> None:
        """Handle the loss of the wire, as soon as this end notices it."""


class HeadEnd(End, Protocol):
    """A head at its end of a wire.

    Attributes:
        alive: True until its process ends.
        hub: its decisions.
        wires: those to it.
    """

    alive: bool
    hub: Hub
    wires: dict[Wire, None]


class Wire:
    """One connection.

    Args:
        clock: the time.
        head: the head's end.
        peer: the other end.
        number: ascends with each connection of the peer.
        slow: the longest that a message takes, in seconds.
        twice: how likely a message is delivered twice.
    """

    def __init__(
        self, clock: Clock, head: HeadEnd, peer: End, number: int, slow: float, twice: float
    ) -> None:
        self.head = head
        self.peer = peer
        self.number = number
        self.cut_off = False
        self.closed_for: set[int] = set()
        self._clock = clock
        self._slow = slow
        self._twice = twice
        self._next = {id(head): 0.0, id(peer): 0.0}
        # Messages under way, by the end that they are for; and how many of them a cut lets pass.
        self._under_way = {id(head): 0, id(peer): 0}
        self._passing = {id(head): 0, id(peer): 0}

    @property
    def held(self) -> bool:
        """True while messages wait on their way."""
        return False

    @property
    def under_way(self) -> int:
        """The number of messages that have yet to arrive, at both ends; of parts sent together."""
        return sum(self._under_way.values())

    def send(self, to: End, mail: Mail) -> None:
        """Send messages to one end; they may arrive in several pieces."""
        chance = self._clock.chance
        if self.cut_off:
            return
        while mail:
            size = len(mail) if chance.random() < 0.7 else chance.randint(1, len(mail))
            piece, mail = mail[:size], mail[size:]
            if chance.random() < self._twice:
                at = chance.randrange(len(piece))
                piece = [*piece[: at + 1], *piece[at:]]
            time = max(self._clock.now + self._slow * chance.random() ** 3, self._next[id(to)])
            self._next[id(to)] = time
            self._under_way[id(to)] += 1
            self._clock.at(time, lambda piece=piece: self._arrive(to, piece))  # type: ignore[misc]

    def _arrive(self, to: End, mail: Mail) -> None:
        self._under_way[id(to)] -= 1
        if self.cut_off:
            if self._passing[id(to)] <= 0:
                return
            self._passing[id(to)] -= 1
        if id(to) not in self.closed_for:
            to.on_mail(self, mail)

    def cut(self, *, at_once: bool = False) -> None:
        """Cut the connection: a part of what is under way arrives, and each end will notice."""
        if self.cut_off:
            return
        self.cut_off = True
        chance = self._clock.chance
        for end in (self.head, self.peer):
            self._passing[id(end)] = chance.randint(0, self._under_way[id(end)])
            # A wire that was cut is noticed after the last message that passes, or by silence.
            soon = 0.0 if at_once else chance.choice((0.0, 0.01, 1.0, 20.0))
            time = max(self._clock.now + soon, self._next[id(end)])
            self._clock.at(time, lambda end=end: self._notice(end))  # type: ignore[misc]

    def _notice(self, end: End) -> None:
        if id(end) not in self.closed_for:
            self.closed_for.add(id(end))
            end.on_cut(self)

    def close(self, end: End) -> None:
        """Close one end: its process has ended, or has no use for the wire any more."""
        self.closed_for.add(id(end))
        self.cut()
