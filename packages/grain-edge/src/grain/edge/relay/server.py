"""The server of a bridge: connections in, decisions of the `Switchboard`, bytes across."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import trio

from grain.edge.bridge.client import BridgeConnection
from grain.edge.bridge.key import is_signed
from grain.edge.bridge.meeting import SILENCE
from grain.edge.bridge.wire import (
    VERSION,
    Beat,
    Claim,
    Greeting,
    Incoming,
    Leading,
    Open,
    Publish,
    Ready,
    Record,
    Refusal,
)
from grain.edge.connecting.handshake_limiter import Handshakes
from grain.edge.errors import RemoteProtocolError
from grain.edge.relay.switchboard import WAIT, Limits, Refused, Switchboard
from grain.edge.transports import tcp
from grain.edge.transports.listening import accept_forever

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE = 256 * 1024  # bytes that are copied at once
_FORGET = 60.0
_LOST = (trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError, OSError)
_log = logging.getLogger("grain.bridge")


async def serve_bridge(
    host: str,
    port: int,
    *,
    limits: Limits | None = None,
    task_status: trio.TaskStatus[list[tuple[str, int]]] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve a bridge until cancelled, which closes all connections; for `nursery.start`.

    Args:
        host: the address on which it listens; empty for all.
        port: the port; 0 for any.
        limits: what each meeting may have.
        task_status: gets the addresses and ports.

    Raises:
        OSError: it cannot listen there.
    """
    listeners = await tcp.listen(host, port)
    server = _Server(limits or Limits())
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(accept_forever, listener, server.serve)
        nursery.start_soon(server.forget)
        task_status.started([one.socket.getsockname()[:2] for one in listeners])
        await trio.sleep_forever()
    raise AssertionError


class _Waiting:
    """A member that waits until the head takes it.

    Args:
        connection: its connection.
    """

    def __init__(self, connection: BridgeConnection) -> None:
        self.connection = connection
        self.taken = trio.Event()
        self.over = trio.Event()


class _Server:
    def __init__(self, limits: Limits) -> None:
        self._switchboard = Switchboard(limits)
        self._handshakes = Handshakes()
        self._leaders: dict[int, BridgeConnection] = {}
        self._waiting: dict[int, _Waiting] = {}

    async def forget(self) -> NoReturn:
        while True:
            await trio.sleep(_FORGET)
            self._switchboard.forget(trio.current_time())

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection; closes it."""
        connection = BridgeConnection(stream)
        try:
            opened = await self._opened(connection)
            if opened is not None:
                await self._entered(connection, opened)
        except _LOST:
            pass
        finally:
            # No checkpoint, where a cancellation would replace an error.
            stream.socket.close()

    async def _opened(self, connection: BridgeConnection) -> Open | None:
        """Greet; return what a member wants, and None for anybody else, who learns nothing."""
        source = tcp.peer_host(connection.stream)
        if not source:
            return None
        with self._handshakes.limited(source) as admitted:
            if not admitted:
                return None
            challenge = secrets.token_bytes(32)
            await connection.send(Greeting(VERSION, challenge))
            message = await connection.receive()
            if not isinstance(message, Open) or message.version != VERSION:
                return None
            signed = is_signed(
                message.public, message.signature, challenge, message.purpose, message.token
            )
            tcp.tune(connection.stream)
            return message if signed else None
        return None  # it was driven out, or took too long

    async def _entered(self, connection: BridgeConnection, opened: Open) -> None:
        try:
            number = self._switchboard.enter(opened.public, trio.current_time())
        except Refused as error:
            await connection.send(Refusal(str(error)))
            return
        try:
            match opened.purpose:
                case "look":
                    state = self._switchboard.of(number)
                    await connection.send(Record(state.epoch, state.sealed))
                case "lead":
                    await self._lead(number, connection)
                case "join":
                    await self._join(number, connection)
                case "take":
                    await self._take(number, connection, opened.token)
        except Refused as error:
            await connection.send(Refusal(str(error)))
        finally:
            self._switchboard.leave(number, trio.current_time())

    async def _lead(self, number: int, connection: BridgeConnection) -> None:
        claim = await self._heard(connection)
        if not isinstance(claim, Claim):
            return
        state = self._switchboard.of(number)
        leads, replaced = self._switchboard.lead(number, claim.epoch)
        if not leads:
            await connection.send(Record(state.epoch, state.sealed))
            return
        self._leaders[number] = connection
        try:
            if replaced is not None:
                await self._replace(replaced, claim.epoch)
            await connection.send(Leading())
            while True:
                message = await self._heard(connection)
                if isinstance(message, Publish):
                    self._switchboard.publish(number, message.sealed)
                elif isinstance(message, Beat):
                    await connection.send(Beat())
                else:
                    return
        finally:
            del self._leaders[number]

    async def _replace(self, number: int, epoch: int) -> None:
        """Tell a head that another one leads; it ends the connection."""
        other = self._leaders.get(number)
        if other is not None:
            with suppress(*_LOST), trio.move_on_after(1):
                await other.send(Record(epoch, b""))

    async def _heard(self, connection: BridgeConnection) -> object:
        with trio.move_on_after(SILENCE):
            return await connection.receive()
        return None

    async def _join(self, number: int, connection: BridgeConnection) -> None:
        leader, token = self._switchboard.join(number)
        waiting = self._waiting[number] = _Waiting(connection)
        try:
            head = self._leaders[leader]
            source = tcp.peer_host(connection.stream)
            with trio.move_on_after(WAIT):
                await head.send(Incoming(token, source))
                await waiting.taken.wait()
            if not waiting.taken.is_set():
                raise Refused("the scheduler did not take the connection")
            # The head's connection copies in both directions.
            await waiting.over.wait()
        finally:
            del self._waiting[number]

    async def _take(self, number: int, connection: BridgeConnection, token: bytes) -> None:
        member = self._switchboard.take(number, token)
        waiting = self._waiting[member]
        waiting.taken.set()
        try:
            await waiting.connection.send(Ready())
            await connection.send(Ready())
            await _copy_both(connection, waiting.connection)
        finally:
            waiting.over.set()


async def _copy_both(one: BridgeConnection, other: BridgeConnection) -> None:
    """Copy bytes both ways, until both sides have ended or either is lost.

    Each direction reads no more before the other side has taken what was read: so a slow reader
    slows its writer, and nothing piles up here.
    """
    async with trio.open_nursery() as nursery:
        lost: Callable[[], None] = nursery.cancel_scope.cancel
        nursery.start_soon(partial(_copy, one, other, lost))
        nursery.start_soon(partial(_copy, other, one, lost))


async def _copy(
    source: BridgeConnection, target: BridgeConnection, lost: Callable[[], None]
) -> None:
    try:
        data: bytes | bytearray = source.rest()
        while True:
            if data:
                await target.stream.send_all(data)
            data = await source.stream.receive_some(_PIECE)
            if not data:
                await target.stream.send_eof()
                return
    except _LOST:
        lost()
