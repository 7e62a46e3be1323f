"""The decisions of a head that leads a meeting at a bridge, without I/O.

The head keeps one connection to the server. When that is lost it connects again and states its
claim and its record once more, as the server may have been started again and knows nothing. It
steps down for a larger epoch, if a member has claimed that: the server's word is not enough.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.edge.bridge.call import unpack_call
from grain.edge.bridge.wire import (
    Beat,
    Claim,
    Incoming,
    LeaderRecord,
    Leading,
    MemberListens,
    Publish,
)
from grain.edge.errors import RemoteProtocolError

if TYPE_CHECKING:
    from grain.edge.bridge.key import MeetingKeys
    from grain.edge.bridge.wire import AnyMessage

MOST_TAKEN = 1_000
"""Members that may be about to join at a time; the server introduces no more than that."""

MOST_CALLS = 1_000
"""Members to which a head may be about to connect at a time."""


@dataclass(frozen=True)
class Listener:
    """A member that listens for the head."""

    addresses: list[tuple[str, int]]


class Leader:
    """A head's side of its leadership.

    Attributes:
        leads: the server has let it lead, on the connection of now.
        higher: the epoch of a head that leads in the place of this one; 0 if there is none.
        incumbent: the server's word on who leads, where this head does not.
        taking: how many members are about to join, which the shell counts down.
        calling: to how many members the head is about to connect; also counted down there.
    """

    def __init__(self, keys: MeetingKeys, epoch: int) -> None:
        self.epoch = epoch
        self.leads = False
        self.higher = 0
        self.incumbent: LeaderRecord | None = None
        self.taking = 0
        self.calling = 0
        self._keys = keys
        self._who = secrets.token_bytes(16)
        self._sealed = b""

    def on_connected(self) -> list[AnyMessage]:
        """Return what is to be sent on a new connection."""
        self.leads, self.higher, self.incumbent = False, 0, None
        sealed = self._keys.seal_claim(self.epoch, self._who)
        return [Claim(self.epoch, self._who, sealed)]

    def on_message(
        self, message: AnyMessage
    ) -> tuple[list[AnyMessage], Incoming | Listener | None]:
        """Handle a message of the server.

        Returns:
            what is to be sent, and the member that is to be taken or called back, if any.

        Raises:
            RemoteProtocolError: no server sends that.
        """
        if isinstance(message, Leading):
            self.leads = True
            return ([Publish(self._sealed)] if self._sealed else []), None
        if isinstance(message, Incoming):
            if self.leads and self.taking < MOST_TAKEN:
                self.taking += 1
                return [], message
        elif isinstance(message, MemberListens):
            addresses = unpack_call(self._keys.unseal_call(message.sealed), self.epoch)
            if self.leads and addresses and self.calling < MOST_CALLS:
                self.calling += 1
                return [], Listener(addresses)
        elif isinstance(message, LeaderRecord):
            self.leads, self.incumbent = False, message
            if (epoch := self._keys.claimed_epoch(message.claim)) > self.epoch:
                self.higher = epoch
        elif not isinstance(message, Beat):
            raise RemoteProtocolError("the bridge sends an answer without a question")
        return [], None

    def on_lost(self) -> None:
        """Handle the loss of the connection."""
        self.leads = False

    def publish(self, record: bytes) -> list[AnyMessage]:
        """Show members a record, or none if it is empty; return what is to be sent."""
        self._sealed = self._keys.seal(record) if record else b""
        return [Publish(self._sealed)] if self.leads else []
