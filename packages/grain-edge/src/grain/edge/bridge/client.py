"""Connections to a bridge's server, from the members' side."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from grain.edge.address import join_host
from grain.edge.bridge.wire import (
    CHALLENGE,
    VERSION,
    AnyMessage,
    BridgeMessage,
    Greeting,
    MemberRefused,
    MessageDecoder,
    Open,
    encode,
)
from grain.edge.errors import MeetingError, NotABridge, NotListed, OtherVersion, RemoteProtocolError
from grain.edge.transports import tcp

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.address import BridgeAddress
    from grain.edge.bridge.key import MeetingKeys
    from grain.edge.bridge.wire import Purpose

_Message = TypeVar("_Message", bound=BridgeMessage)

CONNECT = 10.0
"""Seconds until the server must have answered."""


class BridgeConnection:
    """A connection of a member to a server.

    Args:
        stream: owned.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._decoder = MessageDecoder()
        self._sending = trio.Lock()  # a head's signs of life and its record come from two tasks

    async def send(self, message: AnyMessage) -> None:
        """Send a message; a cancellation may leave half of it sent.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """
        async with self._sending:
            await self.stream.send_all(encode(message))

    async def receive(self) -> AnyMessage:
        """Receive a message, and no byte beyond it.

        After `Ready` come the bytes of the other member. It speaks first in TLS, so its first ones
        may be here already, and the code that takes the stream over has to find them there.

        Raises:
            RemoteProtocolError: it is none.
            trio.BrokenResourceError: the connection is lost, or has ended.
        """
        while (message := self._decoder.next()) is None:
            data = await self.stream.receive_some(self._decoder.missing)
            if not data:
                raise trio.BrokenResourceError("the other side has ended the connection")
            self._decoder.feed(data)
        return message


async def connect(
    address: BridgeAddress, keys: MeetingKeys, purpose: Purpose, token: bytes = b""
) -> BridgeConnection:
    """Connect to the server of a bridge, as a member.

    Cancellation closes the connection.

    Raises:
        MeetingError: it is not reached; `NotABridge` if it is none, `OtherVersion` if its protocol
            is another.
    """
    where = join_host(address.host, address.port)
    try:
        with trio.fail_after(CONNECT):
            stream = await tcp.connect(address.host, address.port)
            try:
                signed = partial(_signed, keys, purpose, token, bytes.fromhex(address.voucher))
                return await _opened(stream, signed, where)
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
    except trio.TooSlowError:
        raise MeetingError(f"the bridge at {where} does not answer") from None
    except OSError as error:
        # Of a failed connection trio's text has the address once more; others have no number.
        why = os.strerror(number) if (number := error.errno or 0) > 0 else error.strerror or error
        raise MeetingError(f"the bridge at {where} is not reached: {why}") from error
    except trio.BrokenResourceError as error:
        raise MeetingError(f"the bridge at {where} is not reached: {error}") from error
    except RemoteProtocolError as error:
        raise NotABridge(f"the bridge at {where} is not reached: {error}") from error


async def _opened(
    stream: trio.SocketStream, signed: Callable[[bytes], Open], where: str
) -> BridgeConnection:
    tcp.tune(stream)
    connection = BridgeConnection(stream)
    greeting = await connection.receive()
    if not isinstance(greeting, Greeting):
        raise RemoteProtocolError("what answers there is no bridge of Grain")
    if greeting.version != VERSION:
        raise OtherVersion(
            f"the bridge at {where} speaks version {greeting.version} of its protocol, this Grain "
            f"version {VERSION}: install the same version of Grain on both"
        )
    if len(greeting.challenge) != CHALLENGE:
        raise RemoteProtocolError("what answers there is no bridge of Grain")
    await connection.send(signed(greeting.challenge))
    return connection


def _signed(
    keys: MeetingKeys, purpose: Purpose, token: bytes, voucher: bytes, challenge: bytes
) -> Open:
    signature = keys.sign(challenge, purpose, token)
    return Open(VERSION, keys.public, signature, purpose, token, voucher)


async def answer(connection: BridgeConnection, where: str, *kinds: type[_Message]) -> _Message:
    """Receive the server's answer, which is of one of some kinds.

    Raises:
        MeetingError: it refuses, or the connection is lost; `NotListed` if it serves other meetings
            only.
    """
    try:
        with trio.fail_after(CONNECT):
            message = await connection.receive()
    except trio.TooSlowError:
        raise MeetingError(f"the bridge at {where} does not answer") from None
    except (trio.BrokenResourceError, RemoteProtocolError) as error:
        raise MeetingError(f"the bridge at {where} is not reached: {error}") from error
    if isinstance(message, MemberRefused):
        kind = NotListed if message.unlisted else MeetingError
        raise kind(f"the bridge at {where} refuses: {message.why}")
    if not isinstance(message, kinds):
        raise MeetingError(f"the bridge at {where} sends an answer without a question")
    return message
