"""The decisions of a bridge's server, without I/O: who leads, who waits for whom, and limits.

Rules:

1. One head leads a meeting. Another one may not, unless its epoch is larger: the clock of its host
   says that it has begun later, and two that cannot see each other have to be told apart.
2. A member that joins waits for the head to take it, for `WAIT` seconds.
3. No meeting takes the room of another: each has its own limits of connections, of members that
   wait, and of connections per second. Where the server as a whole is full, newcomers are refused.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

WAIT = 15.0
"""Seconds for which a member that joins waits for the head to take it."""


@dataclass(frozen=True)
class Limits:
    """What one meeting may have.

    Attributes:
        connections: of all meetings together.
        each: of one meeting.
        waiting: members that wait to be taken.
        burst: connections at once; after that ``rate`` in a second.
        rate: see there.
    """

    connections: int = 20_000
    each: int = 5_000
    waiting: int = 1_000
    burst: int = 5_000
    rate: float = 100.0


@dataclass
class MeetingState:
    """One meeting.

    Attributes:
        leader: the connection of its head; None if nobody leads.
        epoch: the number of that leadership.
        sealed: the head's record.
        connections: how many it has.
        waiting: the connections that wait to be taken, by their tokens.
        credit: connections that it may open at once.
        at: when that was counted.
    """

    leader: int | None = None
    epoch: int = 0
    sealed: bytes = b""
    connections: int = 0
    waiting: dict[bytes, int] = field(default_factory=dict)
    credit: float = 0.0
    at: float = 0.0


class Refused(Exception):
    """A member does not get what it wants; the text is a sentence for it."""


class Switchboard:
    """All meetings of a server.

    Args:
        limits: what each may have.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._meetings: dict[bytes, MeetingState] = {}
        self._connections: dict[int, bytes] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def meetings(self) -> int:
        """The number of meetings."""
        return len(self._meetings)

    def enter(self, meeting: bytes, now: float) -> int:
        """Count a connection of a member; return its number.

        Raises:
            Refused: the meeting, or the server, has too many.
        """
        limits = self._limits
        if len(self._connections) >= limits.connections:
            raise Refused("the bridge has no room for further connections")
        state = self._meetings.get(meeting)
        if state is None:
            state = self._meetings[meeting] = MeetingState(credit=limits.burst, at=now)
        state.credit = min(limits.burst, state.credit + (now - state.at) * limits.rate)
        state.at = now
        if state.connections >= limits.each:
            raise Refused(f"this meeting has {limits.each} connections, the most on this bridge")
        if state.credit < 1:
            raise Refused("this meeting opens connections faster than this bridge allows")
        state.credit -= 1
        state.connections += 1
        self._next += 1
        self._connections[self._next] = meeting
        return self._next

    def leave(self, connection: int, now: float) -> None:
        """Count a connection no more; its meeting has no head any more if it was the head's."""
        meeting = self._connections.pop(connection)
        state = self._meetings[meeting]
        state.connections -= 1
        if state.leader == connection:
            state.leader, state.epoch, state.sealed = None, 0, b""
        for token in [t for t, waits in state.waiting.items() if waits == connection]:
            del state.waiting[token]
        full = state.credit + (now - state.at) * self._limits.rate >= self._limits.burst
        # A meeting that has spent its credit is remembered until it would have it again.
        if not state.connections and full:
            del self._meetings[meeting]

    def forget(self, now: float) -> None:
        """Forget meetings without connections whose credit is whole again."""
        for meeting, state in list(self._meetings.items()):
            full = state.credit + (now - state.at) * self._limits.rate >= self._limits.burst
            if not state.connections and full:
                del self._meetings[meeting]

    def of(self, connection: int) -> MeetingState:
        """Return the meeting of a connection."""
        return self._meetings[self._connections[connection]]

    def lead(self, connection: int, epoch: int) -> tuple[bool, int | None]:
        """Let a head lead its meeting.

        Returns:
            True if it leads; and the connection of the head in whose place it is, or None.
        """
        state = self.of(connection)
        if state.leader is not None and state.leader != connection and epoch <= state.epoch:
            return False, None
        replaced = state.leader if state.leader != connection else None
        state.leader, state.epoch, state.sealed = connection, epoch, b""
        return True, replaced

    def publish(self, connection: int, sealed: bytes) -> None:
        """Take a head's record; one of a head that leads no more is ignored."""
        state = self.of(connection)
        if state.leader == connection:
            state.sealed = sealed

    def join(self, connection: int) -> tuple[int, bytes]:
        """Have a member wait for the head; return the head's connection, and a token.

        Raises:
            Refused: nobody leads, or too many wait.
        """
        state = self.of(connection)
        if state.leader is None:
            raise Refused("no scheduler is connected to the bridge")
        if len(state.waiting) >= self._limits.waiting:
            raise Refused("too many wait for the scheduler, which takes nobody")
        token = secrets.token_bytes(16)
        state.waiting[token] = connection
        return state.leader, token

    def take(self, connection: int, token: bytes) -> int:
        """Return the connection of a member that waits, for the head.

        Raises:
            Refused: it waits no more.
        """
        waiting = self.of(connection).waiting.pop(token, None)
        if waiting is None:
            raise Refused("who wanted to join waits no more")
        return waiting
