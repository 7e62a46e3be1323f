"""The messages to and from a bridge's server: a length of four bytes, then MessagePack.

The server speaks first. After `Joined` a connection carries the bytes of two members, which the
server copies.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from grain.edge.errors import RemoteProtocolError

VERSION = 2
"""The version of this protocol, of the server and of its clients."""

MOST = 16 * 1024
"""Bytes of a message."""

CHALLENGE = 32
"""Bytes of a challenge."""

BEAT = 5.0
"""Seconds between two signs of life of a head to the server."""

SILENCE = 20.0
"""Seconds without a sign of life after which the other side counts as lost."""

CALL = 180
"""Bytes of a sealed call, whatever it says."""

_LENGTH = 4

# Text of the other side, which is not authenticated, goes to logs and terminals.
_Sentence = Annotated[str, msgspec.Meta(max_length=300, pattern=r"\A[ -~]*\Z")]
_Source = Annotated[str, msgspec.Meta(max_length=64, pattern=r"\A[0-9A-Za-z.:/%_-]*\Z")]

Purpose = Literal["lead", "look", "call", "join", "take"]
"""The purpose of a connection: to be the head; to read its record; to have it connect to a member
that listens; to reach it through the server; to take who joins.
"""


class BridgeMessage(msgspec.Struct, frozen=True, tag_field="is", forbid_unknown_fields=True):
    """The base of all messages."""


class Greeting(BridgeMessage, frozen=True, forbid_unknown_fields=False):
    """The server's first word; each version of the protocol has it, so that others can name it.

    Attributes:
        challenge: `CHALLENGE` random bytes, to be signed.
    """

    version: int
    challenge: bytes = b""


class Open(BridgeMessage, frozen=True):
    """A client's first word.

    Attributes:
        signature: of the challenge, the purpose and the token.
        token: of the one to be taken; or the sealed call.
        voucher: of the meeting beside which this one is; empty for a meeting by itself. See
            `grain.edge.bridge.key.MeetingKeys.vouch`.
    """

    version: int
    public: bytes
    signature: bytes
    purpose: Purpose
    token: bytes = b""
    voucher: bytes = b""


class MemberRefused(BridgeMessage, frozen=True):
    """The server's last word to a member.

    Attributes:
        why: a sentence, of printable ASCII characters.
        unlisted: the server serves other meetings only, so that trying again does not help.
    """

    why: _Sentence
    unlisted: bool = False


class Claim(BridgeMessage, frozen=True):
    """A head wants to lead.

    Attributes:
        epoch: the number of its leadership; the largest leads.
        who: random bytes of this leadership, by which a head that connects again is known.
        sealed: both, as only members write it.
    """

    epoch: int
    who: bytes
    sealed: bytes


class Leading(BridgeMessage, frozen=True):
    """The head leads."""


class LeaderRecord(BridgeMessage, frozen=True):
    """The record of the head that leads.

    Attributes:
        epoch: the number of its leadership; 0 if no head leads.
        sealed: its record, which only members read; empty if it has published none.
        claim: `Claim.sealed` of that head: a head steps down for nothing less.
    """

    epoch: int
    sealed: bytes
    claim: bytes = b""


class Publish(BridgeMessage, frozen=True):
    """The head's record."""

    sealed: bytes


class Incoming(BridgeMessage, frozen=True):
    """A member wants to reach the head, which is to take it.

    Attributes:
        source: the address from which the member has connected to the server.
    """

    token: bytes
    source: _Source


class MemberListens(BridgeMessage, frozen=True):
    """A member listens for the head, which may connect to it.

    Attributes:
        sealed: its addresses, as only members read them.
    """

    sealed: bytes


class Called(BridgeMessage, frozen=True):
    """The head has been sent the call."""


class Joined(BridgeMessage, frozen=True):
    """The last message of the server: the bytes of the other member follow."""


class Beat(BridgeMessage, frozen=True):
    """A sign of life of a head, which the server answers by the same."""


AnyMessage = (
    Greeting
    | Open
    | MemberRefused
    | Claim
    | Leading
    | LeaderRecord
    | Publish
    | Incoming
    | MemberListens
    | Called
    | Joined
    | Beat
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


def encode(message: AnyMessage) -> bytes:
    """Return a message as bytes."""
    data = _ENCODER.encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


class MessageDecoder:
    """Bytes to messages.

    Attributes:
        most: bytes of a message; a longer one is none.
    """

    def __init__(self) -> None:
        self.rest = bytearray()
        self.most = MOST

    @property
    def missing(self) -> int:
        """The bytes that the next message lacks; of its length, while that is unknown.

        A reader that asks for no more of them leaves what follows a message unread.
        """
        if len(self.rest) < _LENGTH:
            return _LENGTH - len(self.rest)
        length = int.from_bytes(self.rest[:_LENGTH], "big")
        return max(_LENGTH + min(length, self.most) - len(self.rest), 1)

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        self.rest += data

    def next(self) -> AnyMessage | None:
        """Return the next message; None if it is not whole yet.

        Raises:
            RemoteProtocolError: what has arrived is none.
        """
        if len(self.rest) < _LENGTH:
            return None
        length = int.from_bytes(self.rest[:_LENGTH], "big")
        if length > self.most:
            raise RemoteProtocolError("what answers there is no bridge of Grain")
        if len(self.rest) < _LENGTH + length:
            return None
        data = bytes(self.rest[_LENGTH : _LENGTH + length])
        del self.rest[: _LENGTH + length]
        try:
            return _DECODER.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            # Names that the other side has chosen may stand in the text.
            why = f": {text}" if (text := str(error)[:200]).isprintable() else ""
            raise RemoteProtocolError(f"what answers there is no bridge of Grain{why}") from None
