"""The decisions of a bridge's server, without I/O: who leads, who waits for whom, and limits.

What happens to connections goes in by `enter`, `on_message`, `on_lost` and `on_tick`; what is to be
done comes out of `take_effects`: messages to send, connections to close, and pairs of connections
between which bytes are copied from then on.

Rules:

1. One head leads a meeting. Another one may not, unless its epoch is larger: the clock of its host
   says that it has begun later, and two that cannot see each other have to be told apart. A head
   that connects again takes the place of its own connection, which may be dead.
2. A member that joins waits for the head to take it, for `WAIT` seconds, or until the head is lost.
3. A head that is silent for `SILENCE` seconds is lost, and so is a head that does not claim. Time
   in which the server itself was stopped does not count: what came meanwhile has yet to be read.
4. A connection that breaks the protocol is closed, without a word.
5. No meeting takes the room of another: each has its own limits of connections, of members that
   wait, and of connections per second; and an address has a limit for all its meetings together,
   at most half of what the server takes. Where the server as a whole is full, the address with the
   most connections loses its youngest to an address that has fewer, and its heads last. Meetings do
   not count there: any user can make any number of them. With IPv6, whose hosts have as many
   addresses as they like, a network of 64 bits counts as one address.
6. A call is passed on and forgotten. Between two signs of life of a head no more than `CALLS` are:
   with the members that wait they fit in what the server keeps for a head that reads slowly.
7. A connection counts until it is reported as lost, so what is being closed has its place still.
8. All memory together has a limit. Half of it is for connections, whose number follows from that; a
   quarter is for bytes that are copied, which the server counts itself; and a quarter is for
   meetings, with the messages that wait for their heads. While all of the last is in use, no
   further meeting is let in, nor is one of an address that has half of it; and no member is
   introduced to a head that reads slowly. Meetings that are there go on.
9. Where the operator has listed meetings, the members of others are refused, but for meetings that
   members of a listed one have made beside it, as they say for it by their signature.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grain.edge.bridge.wire import (
    CALL,
    MOST,
    SILENCE,
    Beat,
    Called,
    Claim,
    Incoming,
    Joined,
    LeaderRecord,
    Leading,
    MemberListens,
    MemberRefused,
    Publish,
)
from grain.edge.connecting.handshake_limiter import host_of

if TYPE_CHECKING:
    from grain.edge.bridge.wire import AnyMessage, Purpose

WAIT = 15.0
"""Seconds for which a member that joins waits for the head to take it."""

CALLS = 500
"""Calls that are passed on between two signs of life of a head."""

CONNECTION = 8 * 1024
"""Bytes of memory that a connection takes, without messages that wait for a head."""

MEETING = 40 * 1024
"""Bytes of memory that a meeting may take: its record, and a message of its head that is not whole.

They count from the first connection of a meeting to its last one, so that a meeting that is let in
can have them.
"""

_STATEMENT = 1024  # bytes of a message of a peer that does not lead, such as a claim
_STOPPED = 5.0  # seconds between two ticks, of one each second, after which it was stopped


@dataclass(frozen=True)
class MeetingLimits:
    """The limits of one meeting.

    Attributes:
        connections: of all meetings together.
        source: of one address, in all meetings together; half of ``connections`` if that is less.
        waiting: members that wait to be taken.
        burst: connections at once; after that ``rate`` in a second.
        rate: see there.
        memory: bytes for all connections and meetings together, and for what is copied.
    """

    connections: int = 20_000
    each: int = 5_000
    source: int = 10_000
    waiting: int = 1_000
    burst: int = 5_000
    rate: float = 100.0
    memory: int = 512 * 1024**2

    @property
    def of_source(self) -> int:
        """The connections of one address."""
        return min(self.source, max(self.connections // 2, 1))

    @property
    def copied(self) -> int:
        """Bytes that may wait on their way from one member to another."""
        return self.memory // 4

    @property
    def kept(self) -> int:
        """Bytes for meetings, and for messages that wait for their heads."""
        return self.memory // 4

    @property
    def lines(self) -> int:
        """The number of connections for which there is memory."""
        return self.memory // 2 // CONNECTION


_NOBODY = Claim(0, b"", b"")


@dataclass(frozen=True, slots=True)
class Send:
    """A message is to be sent on a connection."""

    connection: int
    message: AnyMessage


@dataclass(frozen=True, slots=True)
class Close:
    """A connection is to be closed, after what was sent on it."""

    connection: int


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes are to be copied between two connections, after what was sent on them."""

    one: int
    other: int


@dataclass(slots=True)
class RelayedConnection:
    """A connection at the switchboard.

    Attributes:
        charged: the address that it counts for.
        since: when it was heard last, if it is a head's; else when it came.
        token: by which it is taken, while it waits.
        partner: the connection between which and this one bytes are copied.
        unsent: bytes of messages that wait for it in the server.
    """

    meeting: MeetingState
    purpose: Purpose
    source: str
    charged: SourceState
    since: float
    token: bytes = b""
    partner: int = 0
    over: bool = False
    unsent: int = 0


@dataclass(eq=False)
class SourceState:
    """An address, or a network of IPv6.

    Attributes:
        lines: its connections by number, the oldest first.
        used: how many of them are not about to be closed.
        kept: bytes of its meetings, and of messages that wait for its connections.
    """

    name: str
    lines: dict[int, RelayedConnection] = field(default_factory=dict)
    used: int = 0
    kept: int = 0


@dataclass(eq=False)
class MeetingState:
    """A meeting at the switchboard.

    Attributes:
        calls: how many calls were passed on since the last sign of life of the head.
        lines: its connections by number, the oldest first.
        waiting: the connections that wait to be taken, by their tokens.
        credit: connections that it may open at once.
        charged: the address for which its memory counts.
    """

    name: bytes
    leader: int | None = None
    claim: Claim = _NOBODY
    sealed: bytes = b""
    calls: int = 0
    lines: dict[int, RelayedConnection] = field(default_factory=dict)
    waiting: dict[bytes, int] = field(default_factory=dict)
    credit: float = 0.0
    at: float = 0.0
    charged: SourceState | None = None

    @property
    def record(self) -> LeaderRecord:
        """The record that members are shown."""
        return LeaderRecord(self.claim.epoch, self.sealed, self.claim.sealed)


class NotGranted(Exception):
    """A member does not get what it wants; the text is a sentence for it."""


class Unlisted(NotGranted):
    """A member is of a meeting that the operator has not listed."""


class Switchboard:
    """All meetings of a server.

    Args:
        listed: the names of the meetings that are served; None for all.
    """

    def __init__(self, limits: MeetingLimits, listed: frozenset[bytes] | None = None) -> None:
        self._limits = limits
        self._listed = listed
        self._meetings: dict[bytes, MeetingState] = {}
        self._lines: dict[int, RelayedConnection] = {}
        self._sources: dict[str, SourceState] = {}
        self._kept = 0  # bytes for meetings and messages
        # The connections whose time is limited: heads, and members that wait.
        self._timed: dict[int, RelayedConnection] = {}
        self._effects: list[Send | Close | Splice] = []
        self._next = 0
        self._ticked = 0.0

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, connection: int) -> bool:
        """Return True if a connection counts; a connection that was refused as it came does not."""
        return connection in self._lines

    @property
    def meetings(self) -> int:
        """The number of meetings."""
        return len(self._meetings)

    def take_effects(self) -> list[Send | Close | Splice]:
        """Return, once and in their order, what is to be done."""
        effects, self._effects = self._effects, []
        return effects

    # ---- what happens

    def enter(
        self,
        meeting: bytes,
        purpose: Purpose,
        token: bytes,
        source: str,
        now: float,
        sponsor: bytes = b"",
    ) -> int:
        """Take a connection of a member, which has proved that it is one; return its number.

        Args:
            token: of the member that is to be taken; or the sealed call.
            source: the address from which it has connected; it counts for `host_of` that.
            now: seconds, of any clock.
            sponsor: the meeting that has vouched for this one; empty for none.
        """
        self._next += 1
        number = self._next
        name = host_of(source)
        charged = self._sources.get(name) or SourceState(name)
        try:
            state = self._admit(meeting, charged, now, sponsor)
        except NotGranted as error:
            refusal = MemberRefused(str(error), isinstance(error, Unlisted))
            self._effects += [Send(number, refusal), Close(number)]
            return number
        self._sources[name] = charged
        if state.charged is None:
            state.charged = charged
            self._keep(charged, MEETING)
        line = RelayedConnection(state, purpose, source, charged, now)
        self._lines[number] = state.lines[number] = charged.lines[number] = line
        charged.used += 1
        try:
            if purpose == "look":
                self._effects.append(Send(number, state.record))
                self._end(number, line)
            elif purpose == "lead":
                self._timed[number] = line
            elif purpose == "call":
                self._call(number, line, token)
            elif purpose == "join":
                self._join(number, line)
            else:
                self._take(number, line, token)
        except NotGranted as error:
            self._refuse(number, line, str(error))
        return number

    def on_message(self, connection: int, message: AnyMessage, now: float) -> None:
        """Handle a message of a member; only heads have something to say."""
        line = self._lines.get(connection)
        if line is None or line.over:
            return
        line.since = now
        leads = line.meeting.leader == connection
        if leads:
            line.meeting.calls = 0
        if line.purpose == "lead" and not leads and isinstance(message, Claim):
            self._claim(connection, line, message)
        elif leads and isinstance(message, Publish):
            line.meeting.sealed = message.sealed
        elif leads and isinstance(message, Beat):
            self._effects.append(Send(connection, Beat()))
        else:
            self._end(connection, line)

    def on_unsent(self, connection: int, size: int) -> None:
        """Count the bytes of messages that wait for a connection in the server."""
        line = self._lines.get(connection)
        if line is not None:
            more, line.unsent = size - line.unsent, size
            self._keep(line.charged, more)

    def is_full_for(self, connection: int) -> bool:
        """Return True if messages for a connection are not to become more, as memory is short."""
        line = self._lines.get(connection)
        return line is not None and line.unsent > 0 and self._is_full(line.charged)

    def longest(self, connection: int) -> int:
        """Return how many bytes a message of a connection may have."""
        line = self._lines.get(connection)
        leads = line is not None and line.meeting.leader == connection
        return MOST if leads else _STATEMENT

    def on_lost(self, connection: int, now: float) -> None:
        """Count a connection no more: it is closed, by whichever side."""
        line = self._lines.get(connection)
        if line is None:
            return
        self._detach(connection, line)
        self.on_unsent(connection, 0)
        del self._lines[connection]
        state = line.meeting
        del state.lines[connection], line.charged.lines[connection]
        self._release(line.charged)
        if not state.lines and state.charged is not None:
            self._keep(state.charged, -MEETING)
            self._release(state.charged)
            state.charged = None
        partner = self._lines.get(line.partner)
        if partner is not None and not partner.over:
            self._end(line.partner, partner)
        self._forget(state, now)

    def on_tick(self, now: float) -> None:
        """Let time pass, about once a second."""
        gap, self._ticked = now - self._ticked, now
        if gap > _STOPPED:
            for line in self._timed.values():
                line.since = min(line.since + gap, now)
            return
        for number, line in list(self._timed.items()):
            if line.purpose == "join" and now - line.since >= WAIT:
                self._refuse(number, line, "the scheduler did not take the connection")
            elif line.purpose == "lead" and now - line.since >= SILENCE:
                self._end(number, line)
        for state in list(self._meetings.values()):
            self._forget(state, now)

    # ---- what follows

    def _admit(
        self, meeting: bytes, charged: SourceState, now: float, sponsor: bytes
    ) -> MeetingState:
        """Return the meeting of a newcomer.

        Raises:
            Refused: the meeting, the address or the server has too many.
            Unlisted: the operator has not listed the meeting.
        """
        if self._listed is not None and not {meeting, sponsor} & self._listed:
            raise Unlisted(
                "its operator lists the meetings that it serves, and this is none of them. Send "
                "the operator what `grain bridge id` prints"
            )
        limits = self._limits
        state = self._meetings.get(meeting)
        if state is None:
            state = MeetingState(meeting, credit=limits.burst, at=now)
        state.credit = min(limits.burst, state.credit + (now - state.at) * limits.rate)
        state.at = now
        if len(state.lines) >= limits.each:
            raise NotGranted(f"this meeting has {limits.each} connections, the most on this bridge")
        if len(charged.lines) >= limits.of_source:
            raise NotGranted(
                f"your host has {limits.of_source} connections, the most on this bridge"
            )
        if state.credit < 1:
            raise NotGranted("this meeting opens connections faster than this bridge allows")
        if not state.lines and self._is_full(charged, MEETING):
            raise NotGranted("the bridge has no memory left for further meetings; try again later")
        if len(self._lines) >= limits.connections:
            self._make_room(charged)
        state.credit -= 1
        self._meetings[meeting] = state
        return state

    def _make_room(self, newcomer: SourceState) -> None:
        """Close the youngest connection of the address with the most; a head only if all are.

        Raises:
            Refused: no address has more connections than the newcomer's.
        """
        largest = max(self._sources.values(), key=lambda state: state.used, default=newcomer)
        if largest.used <= newcomer.used + 1:
            raise NotGranted("the bridge has no room for further connections")
        # Of two that are alike, `min` returns the first.
        used = ((n, line) for n, line in reversed(largest.lines.items()) if not line.over)
        self._end(*min(used, key=lambda item: item[0] == item[1].meeting.leader))

    def _keep(self, charged: SourceState, more: int) -> None:
        """Count bytes for meetings and messages; fewer, if the number is negative."""
        self._kept += more
        charged.kept += more

    def _release(self, charged: SourceState) -> None:
        """Forget an address that has nothing any more."""
        if not charged.lines and not charged.kept:
            self._sources.pop(charged.name, None)

    def _is_full(self, charged: SourceState, more: int = 1) -> bool:
        """Return True if there is no memory for so many bytes more of an address."""
        most = self._limits.kept
        return self._kept + more > most or charged.kept + more > most // 2

    def _check_reads(self, head: int) -> None:
        """Check that a head may be sent one message more.

        Raises:
            Refused: it reads slowly, and there is no memory left for what waits for it.
        """
        if self.is_full_for(head):
            raise NotGranted("the scheduler reads slowly, and the bridge has no memory left")

    def _claim(self, number: int, line: RelayedConnection, claim: Claim) -> None:
        state = line.meeting
        before = state.leader
        again = claim.who == state.claim.who and claim.epoch == state.claim.epoch
        if before is not None and not again and claim.epoch <= state.claim.epoch:
            self._effects.append(Send(number, state.record))
            self._end(number, line)
            return
        state.leader, state.claim, state.calls = number, claim, 0
        if not again:
            state.sealed = b""
        if before is not None:
            replaced = self._lines[before]
            if not again:
                self._effects.append(Send(before, state.record))
            self._end(before, replaced)
        self._effects.append(Send(number, Leading()))
        # Who waits may have been announced on a connection that was dead already.
        for token, member in state.waiting.items():
            self._effects.append(Send(number, Incoming(token, self._lines[member].source)))

    def _call(self, number: int, line: RelayedConnection, sealed: bytes) -> None:
        state = line.meeting
        if state.leader is None:
            raise NotGranted("no scheduler is connected to the bridge")
        if state.calls >= CALLS:
            raise NotGranted("too many call the scheduler")
        self._check_reads(state.leader)
        if len(sealed) == CALL:
            state.calls += 1
            self._effects += [Send(state.leader, MemberListens(sealed)), Send(number, Called())]
        self._end(number, line)

    def _join(self, number: int, line: RelayedConnection) -> None:
        state = line.meeting
        if state.leader is None:
            raise NotGranted("no scheduler is connected to the bridge")
        if len(state.waiting) >= self._limits.waiting:
            raise NotGranted("too many wait for the scheduler, which takes no member")
        self._check_reads(state.leader)
        line.token = secrets.token_bytes(16)
        state.waiting[line.token] = number
        self._timed[number] = line
        self._effects.append(Send(state.leader, Incoming(line.token, line.source)))

    def _take(self, number: int, line: RelayedConnection, token: bytes) -> None:
        member = line.meeting.waiting.pop(token, None)
        if member is None:
            raise NotGranted("the process that wanted to join does not wait any longer")
        other = self._lines[member]
        del self._timed[member]
        line.partner, other.partner, other.token = member, number, b""
        self._effects += [Send(member, Joined()), Send(number, Joined()), Splice(number, member)]

    def _refuse(self, number: int, line: RelayedConnection, why: str) -> None:
        self._effects.append(Send(number, MemberRefused(why)))
        self._end(number, line)

    def _end(self, number: int, line: RelayedConnection) -> None:
        """Close a connection; it counts until it is lost."""
        self._detach(number, line)
        self._effects.append(Close(number))

    def _detach(self, number: int, line: RelayedConnection) -> None:
        """Take from a connection what it is in its meeting."""
        if line.over:
            return
        line.over = True
        state = line.meeting
        line.charged.used -= 1
        self._timed.pop(number, None)
        state.waiting.pop(line.token, None)
        if state.leader == number:
            state.leader, state.claim, state.sealed = None, _NOBODY, b""
            for member in list(state.waiting.values()):
                self._refuse(member, self._lines[member], "the scheduler is lost")

    def _forget(self, state: MeetingState, now: float) -> None:
        """Forget a meeting without connections, once it has its credit again."""
        full = state.credit + (now - state.at) * self._limits.rate >= self._limits.burst
        if not state.lines and full and self._meetings.get(state.name) is state:
            del self._meetings[state.name]
