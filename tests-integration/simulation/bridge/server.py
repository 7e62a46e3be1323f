"""The server of a bridge around the real switchboard, and connections to it.

The server holds connections of members (`Line`), and pairs of them between which it copies, which
are wires (`RelayedWire`). All of them are lost when it is killed, and wait while it is frozen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grain.edge.bridge.key import MeetingKeys
from grain.edge.bridge.wire import SILENCE, Called, Incoming, LeaderRecord, MemberListens, Publish
from grain.edge.relay.switchboard import Close, MeetingLimits, Send
from simulation.surroundings import Passing
from simulation.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain.edge.bridge.wire import AnyMessage, Purpose
    from grain.edge.relay.switchboard import Splice, Switchboard
    from simulation.clock import Clock
    from simulation.heads import HeadProcess
    from simulation.peers import SimulatedPeer
    from simulation.surroundings import Judge
    from simulation.wire import End, HeadEnd, Mail

MEETING = b"meeting"


class Member(Protocol):
    """A process that has a connection to the server."""

    def on_answer(self, line: Line, message: AnyMessage) -> None:
        """Handle a message of the server."""

    def on_lost(self, line: Line, /) -> None:
        """Handle the loss of the connection, as soon as this side notices it."""


class Listener(Protocol):
    """A member that listens for one head.

    Attributes:
        peer: its process.
        epoch: that of the head's record.
        address: where it listens.
    """

    peer: SimulatedPeer
    epoch: int
    address: tuple[str, int]

    def on_head(self, head: HeadProcess) -> bool:
        """Take a connection of a head; return False if that is not the one it listens for."""


class Surroundings(Protocol):
    """The world, as a bridge and those who meet there see it."""

    clock: Clock
    heads: list[HeadProcess]
    slow: float
    twice: float

    @property
    def calm(self) -> bool:
        """True when nothing goes wrong any more."""

    @property
    def laws(self) -> Judge:
        """The observer."""

    def connect(self, head: HeadEnd, peer: SimulatedPeer) -> Wire:
        """Return a new wire between the two."""

    def number_connection(self) -> int:
        """Return the number of the next connection, which ascend."""

    def end_head(self, head: HeadProcess) -> None:
        """End a head; start one if it was the one that is there."""


class Line:
    """A connection of a member to the server: in order, but late, and lost at times.

    Args:
        bridge: which.
        member: its process.
        of: the head or the peer whose process that is.
        purpose: what it is for.
        token: of the member that is to be taken; or the sealed call.
    """

    def __init__(
        self,
        bridge: Bridge,
        member: Member,
        of: HeadProcess | SimulatedPeer,
        purpose: Purpose,
        token: bytes = b"",
    ) -> None:
        self.of = of
        self.purpose: Purpose = purpose
        self.token = token
        self.number = 0  # with the switchboard
        self.here = True  # the member has not closed it, nor noticed its loss
        self.there = True  # nor has the server
        self.heard = bridge.clock.now  # when something arrived at the server
        self.wire: RelayedWire | None = None
        self.server = bridge.server
        self._member = member
        self._bridge = bridge
        self._clock = bridge.clock
        self._next_there = self._next_here = 0.0
        if self.server.alive:
            self._to_server(lambda: self.server.enter(self))
        else:
            self.there = False
            self._clock.after(0.1, self.lose_here)

    def send(self, messages: list[AnyMessage]) -> None:
        """Send messages to the server."""
        for message in messages:
            self._to_server(lambda message=message: self.server.on_message(self, message))  # type: ignore[misc]

    def deliver(self, message: AnyMessage) -> None:
        """Send a message to the member."""
        self._next_here = max(self._clock.now + self._bridge.delay(), self._next_here)

        def arrive() -> None:
            if self.here:
                self._member.on_answer(self, message)

        self._clock.at(self._next_here, arrive)

    def _to_server(self, action: Callable[[], object]) -> None:
        self._next_there = max(self._clock.now + self._bridge.delay(), self._next_there)

        def arrive() -> None:
            if self.there:
                self.server.later(action)

        self._clock.at(self._next_there, arrive)

    def close(self) -> None:
        """Close the member's side; its host may die with it, so that the server learns nothing."""
        if self.here:
            self.here = False
            self._clock.after(self._bridge.chance.choice((0.0, 0.0, 1.0, 60.0)), self.lose_there)

    def cut(self) -> None:
        """Cut the connection; each side will notice, sooner or later."""
        chance = self._bridge.chance
        self._clock.after(chance.choice((0.0, 0.01, 1.0, 20.0)), self.lose_here)
        self._clock.after(chance.choice((0.0, 0.01, 1.0, 60.0)), self.lose_there)

    def lose_here(self) -> None:
        """Let the member notice that the connection is lost."""
        if not self.here:
            return
        self.here = False
        if self.wire is not None:
            self.wire.lose(self.of)
        else:
            self._member.on_lost(self)
        self._clock.after(self._bridge.delay(), self.lose_there)

    def lose_there(self) -> None:
        """Let the server notice that the connection is lost."""
        if self.there:
            self.server.later(lambda: self.server.lose(self))


class Server:
    """The process of the server, from its start to its death.

    Args:
        bridge: which.
        board: its decisions.
    """

    def __init__(self, bridge: Bridge, board: Switchboard) -> None:
        self.alive = True
        self.frozen_until = 0.0
        self.fragile = False  # it is to die at the next introduction
        self._bridge = bridge
        self._board = board
        self.lines: dict[int, Line] = {}
        self._unread: list[Callable[[], object]] = []
        # The member that each introduction is for, and the heads that have shown each record.
        self._introduced: dict[bytes, Line] = {}
        self._shown: dict[bytes, Line] = {}
        self._passed_on: set[bytes] = set()  # sealed calls
        self._entering: Line | None = None
        self.pairs: list[tuple[Line, Line]] = []

    @property
    def frozen(self) -> bool:
        """True while the process is stopped; its connections stay open."""
        return self.frozen_until > self._bridge.clock.now

    def later(self, action: Callable[[], object]) -> None:
        """Do something when the process runs."""
        if not self.alive:
            return
        if not self._unread and not self.frozen:
            action()
            return
        self._unread.append(action)
        if len(self._unread) == 1:
            self._bridge.clock.at(self.frozen_until, self._thaw)

    def _thaw(self) -> None:
        if self.frozen:
            self._bridge.clock.at(self.frozen_until, self._thaw)
            return
        unread, self._unread = self._unread, []
        for action in unread:
            self.later(action)

    def kill(self) -> None:
        """End the process, and with it all connections."""
        self.alive = False
        lines, self.lines = self.lines, {}
        self.pairs.clear()
        for line in lines.values():
            line.there = False
            if line.wire is not None:
                line.wire.cut(at_once=self._bridge.chance.random() < 0.5)
            self._bridge.clock.after(self._bridge.chance.choice((0.0, 1.0, 20.0)), line.lose_here)

    def enter(self, line: Line) -> None:
        """Take a connection of a member."""
        self._entering = line
        number = self._board.enter(MEETING, line.purpose, line.token, "host", self._now)
        line.number, self._entering = number, None
        self.lines[number] = line
        line.heard = self._now
        self._carry_out(line)

    def on_message(self, line: Line, message: AnyMessage) -> None:
        """Handle a message of a member."""
        line.heard = self._now
        if isinstance(message, Publish):
            self._shown[message.sealed] = line
        self._board.on_message(line.number, message, self._now)
        self._carry_out()

    def lose(self, line: Line) -> None:
        """Notice that a connection is lost, or has been closed."""
        if line.number in self.lines:
            line.there = False
            del self.lines[line.number]
            self._board.on_lost(line.number, self._now)
            self._carry_out()

    def tick(self) -> None:
        """Let time pass, as its shell does once a second."""
        if self.alive and not self.frozen:
            self._board.on_tick(self._now)
            self._carry_out()

    @property
    def _now(self) -> float:
        return self._bridge.clock.now

    def _carry_out(self, entered: Line | None = None) -> None:
        while effects := self._board.take_effects():
            for effect in effects:
                if not self.alive:
                    return
                if isinstance(effect, Send):
                    self._send(effect, entered)
                elif isinstance(effect, Close):
                    self._close(self.lines.get(effect.connection))
                else:
                    self._splice(effect)

    def _send(self, effect: Send, entered: Line | None) -> None:
        line = self.lines.get(effect.connection)
        law = "a bridge sends to those that are connected"
        self._bridge.world.laws.demand(law, line, effect)
        assert line is not None
        self._check(line, effect.message, entered)
        if (
            isinstance(effect.message, MemberListens | Incoming)
            and self.fragile
            and not self._bridge.calm
        ):
            if self._bridge.chance.random() < 0.5:
                line.deliver(effect.message)
            self.kill()
            self._bridge.clock.after(self._bridge.chance.choice((0.0, 20.0)), self._bridge.restart)
        elif isinstance(effect.message, MemberListens):
            self._bridge.pass_on(line, effect.message)
        else:
            line.deliver(effect.message)

    def _check(self, line: Line, message: AnyMessage, entered: Line | None) -> None:
        """Check a message that the server is about to send."""
        demand = self._bridge.world.laws.demand
        if isinstance(message, Incoming):
            law = "a bridge introduces members to a head"
            demand(law, line.purpose == "lead", message)
            if entered is not None:
                self._introduced[message.token] = entered
        elif isinstance(message, MemberListens):
            demand("a bridge passes calls on to a head", line.purpose == "lead", message)
            self._passed_on.add(message.sealed)
        elif isinstance(message, Called):
            law = "a bridge has passed on the call of whom it answers so"
            demand(law, line.token in self._passed_on, line.number)
        elif isinstance(message, LeaderRecord) and message.sealed:
            head = self._shown[message.sealed]
            here = any(one.of is head.of for one in self.lines.values() if one.purpose == "lead")
            law = "a bridge does not show the record of a head that it has lost"
            demand(law, here, message.epoch)

    def _close(self, line: Line | None) -> None:
        if line is None:
            return
        line.there = False
        clock = self._bridge.clock
        clock.at(max(clock.now + self._bridge.delay(), line._next_here), line.lose_here)
        # Its shell waits until the member has read the last word.
        clock.after(self._bridge.chance.uniform(0, 2), lambda: self.later(lambda: self.lose(line)))

    def _splice(self, effect: Splice) -> None:
        taker, member = self.lines[effect.one], self.lines[effect.other]
        law = "a bridge brings together who was introduced"
        self._bridge.world.laws.demand(law, self._introduced[taker.token] is member, effect)
        self.pairs.append((taker, member))


class RelayedWire(Wire):
    """A connection through the server.

    Args:
        bridge: which.
        taker: the head's connection to the server.
        member: the peer's.
        number: as of `Wire`.
    """

    def __init__(self, bridge: Bridge, taker: Line, member: Line, number: int) -> None:
        world = bridge.world
        head, peer = taker.of, member.of
        super().__init__(world.clock, head, peer, number, world.slow, world.twice)  # type: ignore[arg-type]
        self._lines = {id(head): taker, id(peer): member}
        self._server = taker.server
        self.held_until = 0.0
        self._waiting: list[tuple[End, Mail]] = []

    @property
    def held(self) -> bool:
        """True while messages wait in the server."""
        return self._held_until > self._clock.now

    @property
    def _held_until(self) -> float:
        return max(self.held_until, self._server.frozen_until)

    def _arrive(self, to: End, mail: Mail) -> None:
        if not self._waiting and not self.held:
            super()._arrive(to, mail)
            return
        self._waiting.append((to, mail))
        if len(self._waiting) == 1:
            self._clock.at(self._held_until, self._go_on)

    def _go_on(self) -> None:
        if self.held:
            self._clock.at(self._held_until, self._go_on)
            return
        waiting, self._waiting = self._waiting, []
        for to, mail in waiting:
            super()._arrive(to, mail)

    def _notice(self, end: End) -> None:
        super()._notice(end)
        self._lines[id(end)].close()

    def lose(self, end: End) -> None:
        """Let one end notice that its connection to the server is lost."""
        self.cut()
        self._notice(end)

    def cut(self, *, at_once: bool = False) -> None:
        """See `Wire.cut`; the server notices what has become of one side, and ends the other."""
        if not self.cut_off:
            super().cut(at_once=at_once)
            line = self._clock.chance.choice(list(self._lines.values()))
            self._clock.after(self._clock.chance.choice((0.0, 1.0, 60.0)), line.lose_there)

    def close(self, end: End) -> None:
        """See `Wire.close`."""
        super().close(end)
        self._lines[id(end)].close()


class Bridge:
    """The address of a bridge, at which a server is, or none for a while.

    Args:
        world: the world.
        make: makes the switchboard of a server.
    """

    def __init__(self, world: Surroundings, make: Callable[[MeetingLimits], Switchboard]) -> None:
        self.world = world
        self.clock = world.clock
        self.chance = world.clock.chance
        self.keys = MeetingKeys(bytes(32))
        # How likely a peer reaches heads directly.
        self.directly = self.chance.choice((0.0, 0.5, 1.0))
        # How likely heads reach a peer directly.
        self.back = self.chance.choice((0.0, 0.5, 1.0, 1.0))
        # The members that listen for a head, by address; and all that ever did, by sealed call.
        self.listening: dict[tuple[str, int], Listener] = {}
        self.calls: dict[bytes, Listener] = {}
        # How many calls are to be lost, repeated and late from now on.
        self.lost_calls = self.repeated_calls = self.late_calls = 0
        self._make = make
        self.server = Server(self, make(MeetingLimits()))

    @property
    def calm(self) -> bool:
        """True when nothing goes wrong any more."""
        return self.world.calm

    def delay(self) -> float:
        """Return the seconds that a message takes."""
        return self.world.slow * self.chance.random() ** 3

    def listen(self, calling: Listener) -> tuple[str, int]:
        """Return the address at which a member listens from now on; no other one ever did."""
        number = len(self.calls) + 1
        address = f"10.0.{number >> 8}.{number & 255}", 4000
        self.listening[address] = calling
        return address

    def pass_on(self, head: Line, call: MemberListens) -> None:
        """Pass a call on to a head; or not, or twice, or later to whoever is connected then."""
        if self.calm:
            head.deliver(call)
        elif self.lost_calls:
            self.lost_calls -= 1
        elif self.late_calls:
            self.late_calls -= 1
            self.clock.after(self.chance.choice((1.0, 6.0, 20.0, 60.0)), lambda: self._late(call))
        else:
            head.deliver(call)
            if self.repeated_calls:
                self.repeated_calls -= 1
                head.deliver(call)

    def _late(self, call: MemberListens) -> None:
        for line in self.server.lines.values():
            if line.purpose == "lead" and line.there:
                line.deliver(call)

    def restart(self) -> None:
        """Start a server unless there is one."""
        if not self.server.alive:
            self.server = Server(self, self._make(MeetingLimits()))

    def tick(self) -> None:
        """Let time pass, once a second."""
        self.server.tick()
        if self.calm:
            self.restart()

    def passing(self) -> Iterator[Passing]:
        """List what is not to last in the server."""
        server = self.server
        if not server.alive or server.frozen:
            return
        own = (id(server), server.frozen_until)
        for taker, member in server.pairs:
            if taker.there != member.there:
                law = "of a pair neither outlives the other at a bridge"
                yield Passing(law, 3.0, (*own, taker.number))
        for line in server.lines.values():
            if line.purpose in ("look", "call") and line.there:
                law = "a bridge keeps no connection of whom it has answered"
                yield Passing(law, 3.0, (*own, line.number))
            # Time in which the server was stopped does not count.
            silent = self.clock.now - max(line.heard, server.frozen_until)
            if line.purpose == "lead" and line.there and silent > SILENCE:
                yield Passing("a head that is silent is lost to a bridge", 3.0, (*own, line.number))
