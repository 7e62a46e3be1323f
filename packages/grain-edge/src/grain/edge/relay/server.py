"""The server of a bridge: connections in, decisions of the `Switchboard`, bytes across.

Rules:

1. Nothing of a connection reaches the `Switchboard` before its signature is checked, so strangers
   are all answered alike: by the end of their connection.
2. What is to be sent goes to the kernel at once. What that does not take waits, up to `_UNSENT`
   bytes; who reads less is lost.
3. Of two members between which bytes are copied, nothing more is read from one while the kernel has
   not taken what is for the other. So a slow reader slows its writer, and no more than `_PIECE`
   bytes of a connection wait here. Where `MeetingLimits.copied` bytes of all wait, the kernel has
   to have room for what is read next, and no more than `_SMALL` bytes are: so slow readers fill no
   memory further, and others are copied as before, in smaller pieces.
4. In each pass of the event loop one connection of each meeting has its turn, so a busy meeting
   with many connections delays another one as much as one with a single connection.
5. Where memory for messages is short, nothing is read from who does not read.
"""

from __future__ import annotations

import logging
import os
import resource
import secrets
import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakValueDictionary

import trio

from grain.edge.bridge.key import is_signed, vouched_by
from grain.edge.bridge.wire import CHALLENGE, VERSION, Greeting, MessageDecoder, Open, encode
from grain.edge.connecting.handshake_limiter import Handshakes
from grain.edge.errors import RemoteProtocolError
from grain.edge.relay.switchboard import Close, MeetingLimits, Send, Switchboard
from grain.edge.transports import tcp
from grain.edge.transports.listening import accept_forever
from grain.edge.transports.sockets import fd_of

if TYPE_CHECKING:
    from grain.edge.bridge.wire import AnyMessage

_PIECE = 256 * 1024  # bytes that are copied at once
_SMALL = 16 * 1024  # bytes that are copied at once while memory is short
_READ = 4 * 1024  # bytes that are read at once of messages
_UNSENT = 256 * 1024
_LINGER = 2.0  # seconds in which a member reads the last word
_REFUSED = 64  # connections beyond the limits that may read why, at a time
_RESERVED = 128  # descriptors for what is not authenticated yet, and for the process itself
_LOST = (trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError, OSError)
_log = logging.getLogger("grain.bridge")


async def serve_bridge(
    host: str,
    port: int,
    *,
    memory: int | None = None,
    listed: frozenset[bytes] | None = None,
    limits: MeetingLimits | None = None,
    task_status: trio.TaskStatus[list[tuple[str, int]]] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve a bridge until cancelled, which closes all connections; for `nursery.start`.

    Lets this process open as many files as the system allows, and takes no more connections than
    that, nor than its limit of memory has place for.

    Args:
        host: the address on which it listens; empty for all.
        port: the port; 0 for any.
        memory: bytes for all connections and meetings together, beside those of the process; None
            for those of the limits.
        listed: the bytes of the ids of the meetings that it serves, as in `meeting_id`; None for
            all.
        limits: what each meeting may have, and all together.
        task_status: gets the addresses and ports.

    Raises:
        OSError: it cannot listen there.
    """
    limits = limits or MeetingLimits()
    if memory is not None:
        limits = replace(limits, memory=memory)
    most = max(_open_files() - _RESERVED, 64)
    if most < min(2 * limits.each, limits.connections):
        _log.warning(
            "the system lets this process open %d files, so the bridge takes %d connections and "
            "not %d. Raise the limit (LimitNOFILE= in a systemd unit, or ulimit -n)",
            most + _RESERVED,
            most,
            limits.connections,
        )
    limits = replace(limits, connections=min(limits.connections, most, limits.lines))
    listeners = await tcp.listen(host, port)
    async with trio.open_nursery() as nursery:
        server = _Server(limits, listed, nursery)
        for listener in listeners:
            nursery.start_soon(accept_forever, listener, server.serve)
        nursery.start_soon(server.tick)
        task_status.started([one.socket.getsockname()[:2] for one in listeners])
        await trio.sleep_forever()
    raise AssertionError


def _open_files() -> int:
    """Return how many files this process may open, which is as many as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


class _Turn:
    """The turn of a meeting, which one of its connections has until the event loop's next pass."""

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def __aenter__(self) -> None:
        try:
            self._lock.acquire_nowait()  # without a pass of its own
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *exc: object) -> None:
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._lock.release()


class _Link:
    """A connection to the server.

    Args:
        stream: owned by the task that serves it.

    Attributes:
        flushing: set once the kernel has taken that, or never will; None if nothing waits.
        over: an end that both sides of a pair wait for.
    """

    __slots__ = ("decoder", "ended", "flushing", "over", "partner", "source", "stream", "unsent")

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.source = tcp.peer_host(stream)
        self.decoder: MessageDecoder | None = MessageDecoder()
        self.unsent = b""
        self.flushing: trio.Event | None = None
        self.partner: _Link | None = None
        self.ended = False
        self.over: trio.Event | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Give bytes to the kernel; keep what it does not take.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """
        taken = 0
        if not self.unsent:
            try:
                taken = os.write(fd_of(self.stream.socket), data)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error
        if taken < len(data):
            self.unsent += bytes(data[taken:])

    async def flush(self) -> None:
        """Wait until the kernel has taken everything.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """
        while self.unsent:
            await trio.lowlevel.wait_writable(fd_of(self.stream.socket))
            unsent, self.unsent = self.unsent, b""
            self.write(unsent)

    async def writable(self) -> None:
        """Wait until the kernel has room, or the connection has ended."""
        await trio.lowlevel.wait_writable(fd_of(self.stream.socket))

    async def readable(self) -> None:
        """Wait until something has arrived, or the connection has ended."""
        await trio.lowlevel.wait_readable(fd_of(self.stream.socket))

    def read(self, buffer: memoryview) -> int:
        """Read what has arrived; return the number of bytes, 0 at the end, and -1 if it is nothing.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """
        try:
            return os.readv(fd_of(self.stream.socket), (buffer,))
        except BlockingIOError:
            return -1
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    def end(self) -> None:
        """Send nothing more, after what was written."""
        with suppress(OSError):
            self.stream.socket.shutdown(socket.SHUT_WR)

    def drop(self) -> None:
        """End the connection at once, also for tasks that read from it or wait for it."""
        with suppress(OSError):
            self.stream.socket.shutdown(socket.SHUT_RDWR)
        if self.over is not None:
            self.over.set()


class _Server:
    def __init__(
        self, limits: MeetingLimits, listed: frozenset[bytes] | None, nursery: trio.Nursery
    ) -> None:
        self._switchboard = Switchboard(limits, listed)
        self._listed = listed
        self._copied_most = limits.copied
        self._copied = 0  # bytes that wait on their way between two members
        self._nursery = nursery
        self._handshakes = Handshakes()
        self._refused = 0
        self._links: dict[int, _Link] = {}
        self._turns: WeakValueDictionary[bytes, _Turn] = WeakValueDictionary()
        # One for all, as nothing stays in it from one moment to the next.
        self._buffer = memoryview(bytearray(_PIECE))

    async def tick(self) -> NoReturn:
        while True:
            await trio.sleep(1)
            self._switchboard.on_tick(trio.current_time())
            self._carry_out()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection; closes it."""
        link = _Link(stream)
        try:
            opened = await self._opened(link)
            if opened is not None:
                await self._entered(link, opened)
        except _LOST:
            pass
        except Exception:
            # A mistake of ours that one connection has found is not to end all others.
            _log.exception("a connection from %s has ended by an error of the bridge", link.source)
        finally:
            # No checkpoint, where a cancellation would replace an error.
            stream.socket.close()

    async def _opened(self, link: _Link) -> Open | None:
        """Greet; return what a member wants. Others get None, and learn nothing."""
        if not link.source:
            return None
        with self._handshakes.limited(link.source) as admitted:
            if not admitted:
                return None
            challenge = secrets.token_bytes(CHALLENGE)
            link.write(encode(Greeting(VERSION, challenge)))
            message = await self._first(link)
            if not isinstance(message, Open) or message.version != VERSION:
                return None
            signed = is_signed(
                message.public, message.signature, challenge, message.purpose, message.token
            )
            return message if signed else None
        return None  # it was driven out, or took too long

    async def _first(self, link: _Link) -> AnyMessage:
        assert link.decoder is not None
        while (message := link.decoder.next()) is None:
            await link.readable()
            count = link.read(self._buffer[:_READ])
            if not count:
                raise trio.BrokenResourceError("it has ended")
            link.decoder.feed(bytes(self._buffer[: max(count, 0)]))
        return message

    async def _entered(self, link: _Link, opened: Open) -> None:
        tcp.tune(link.stream)
        turn = self._turns.setdefault(opened.public, _Turn())
        public, now = opened.public, trio.current_time()
        sponsor = b""
        if self._listed is not None and opened.voucher and public not in self._listed:
            sponsor = vouched_by(opened.voucher, public)
        number = self._switchboard.enter(
            public, opened.purpose, opened.token, link.source, now, sponsor
        )
        self._links[number] = link
        try:
            self._carry_out()
            await self._listen(link, number, turn)
            if link.partner is not None:
                link.decoder = None
                await self._copy(link, link.partner, turn)
        finally:
            link.ended = True
            del self._links[number]
            self._switchboard.on_lost(number, trio.current_time())
            self._carry_out()

    async def _listen(self, link: _Link, number: int, turn: _Turn) -> None:
        """Handle messages, until the connection ends or bytes are to be copied."""
        decoder = link.decoder
        assert decoder is not None
        while True:
            decoder.most = self._switchboard.longest(number)
            if (message := decoder.next()) is not None:
                self._switchboard.on_message(number, message, trio.current_time())
                self._carry_out()
                continue
            if link.flushing is not None and self._switchboard.is_full_for(number):
                await link.flushing.wait()
            await link.readable()
            if link.partner is not None:
                return
            # Nothing may stay in the buffer, which all share, when the turn ends.
            async with turn:
                if link.partner is not None:
                    return
                count = link.read(self._buffer[:_READ])
                # Who is about to be closed is read to its end: with something unread the kernel
                # would reset the connection, and the last word would be lost.
                if count > 0 and not link.ended:
                    decoder.feed(bytes(self._buffer[:count]))
            if not count:
                return

    def _carry_out(self) -> None:
        """Do what the `Switchboard` has decided."""
        while effects := self._switchboard.take_effects():
            for effect in effects:
                if isinstance(effect, Send):
                    self._send(effect.connection, effect.message)
                elif isinstance(effect, Close):
                    self._close(effect.connection)
                else:
                    self._splice(self._links[effect.one], self._links[effect.other])

    def _send(self, number: int, message: AnyMessage) -> None:
        link = self._links.get(number)
        if link is None:
            return
        try:
            link.write(encode(message))
        except _LOST:
            link.drop()
            return
        if link.unsent:
            self._switchboard.on_unsent(number, len(link.unsent))
        if len(link.unsent) > _UNSENT:
            link.drop()
        elif link.unsent and link.flushing is None:
            link.flushing = trio.Event()
            self._nursery.start_soon(self._flush, link, number, link.flushing)

    async def _flush(self, link: _Link, number: int, done: trio.Event) -> None:
        try:
            await link.flush()
        except _LOST:
            link.drop()
        finally:
            link.flushing = None
            done.set()
            self._switchboard.on_unsent(number, len(link.unsent))

    def _close(self, number: int) -> None:
        link = self._links.get(number)
        if link is None:
            return
        link.ended = True
        refused = number not in self._switchboard
        # What no limit counts has a limit of its own. The kernel has the last word, most likely.
        if link.partner is not None or (refused and self._refused >= _REFUSED):
            link.drop()
        else:
            self._refused += refused
            self._nursery.start_soon(self._linger, link, refused)

    async def _linger(self, link: _Link, refused: bool) -> None:
        """Let a member read the last word, for a while."""
        try:
            with suppress(*_LOST), trio.move_on_after(_LINGER):
                if link.flushing is None:
                    await link.flush()
                    link.end()
                await trio.sleep_forever()
        finally:
            self._refused -= refused
        link.drop()

    def _splice(self, one: _Link, other: _Link) -> None:
        one.over = other.over = trio.Event()
        one.partner, other.partner = other, one
        for link in (one, other):
            # No member speaks before it is ready, nor leaves so little unread.
            early = link.decoder is not None and link.decoder.rest
            if early or link.unsent:
                link.drop()

    async def _copy(self, source: _Link, target: _Link, turn: _Turn) -> None:
        """Copy bytes until the connection ends; then wait for the end of the other direction."""
        buffer = self._buffer
        while True:
            await source.readable()
            if self._copied >= self._copied_most and not target.ended:
                await target.writable()
            async with turn:
                is_short = self._copied >= self._copied_most
                count = source.read(buffer[:_SMALL] if is_short else buffer)
                if count > 0:
                    target.write(buffer[:count])
            if not count:
                break
            if waiting := len(target.unsent):
                self._copied += waiting
                try:
                    await target.flush()
                finally:
                    self._copied -= waiting
        target.end()
        source.ended = True
        assert source.over is not None
        if target.ended:
            source.over.set()
        await source.over.wait()
