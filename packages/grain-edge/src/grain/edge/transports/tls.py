"""TLS over a trio socket, with the standard library's `ssl` doing all of TLS.

Why not `trio.SSLStream`: it serves any transport and any use, and takes two locks and several
passes through the scheduler for each message, half of a round trip. Here the transport is a
socket, and what is encrypted can be written without waiting (`write_now`).

Ciphertext must leave in the order in which it was made, by whichever task: a channel's writer, a
sender, or a receiver that answers a change of keys. Two rules ensure that. A task that encrypts
appends to `_waiting` without a checkpoint in between. And a task that writes gives the kernel the
beginning of `_waiting` and removes what the kernel took in the same moment. So a cancellation tears
no record: the rest goes with the next write of any task.
"""

from __future__ import annotations

import os
import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from grain.edge.transports.sockets import fd_of, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge.buffers import Buffer

_RECORD = 16 * 1024
_PIECE = 256 * 1024
_READ = 256 * 1024
_READ_LARGE = 1024 * 1024  # amid a large payload


class TlsStream(trio.abc.Stream):
    """An end of a TLS connection; `do_handshake` comes first.

    Args:
        transport: owned from now on, and closed with this stream.
        context: for this side; decides what the peer must show.
        name: the name in the peer's certificate, to dial; None to accept.
    """

    def __init__(
        self, transport: trio.SocketStream, context: ssl.SSLContext, name: str | None
    ) -> None:
        self.transport = transport
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=name is None, server_hostname=name
        )
        self._waiting: deque[memoryview] = deque()
        self._waiter = trio.Lock()  # as trio lets one task wait for a descriptor
        self._ready = False
        self._end: ssl.SSLError | None = None  # how reading has ended: OpenSSL says that once

    async def do_handshake(self) -> None:
        """Authenticate both sides.

        Raises:
            trio.BrokenResourceError: the peer did not pass, or has left; the cause says which.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._fetch(_READ)
            except ssl.SSLError as e:
                # OpenSSL has written an alert with the reason, for the peer.
                await self._flush()
                raise trio.BrokenResourceError(str(e)) from e
            else:
                await self._flush()
                self._ready = True
                return

    def names(self) -> list[str]:
        """Return the DNS names in the peer's certificate."""
        names = (self._tls.getpeercert() or {}).get("subjectAltName", ())
        return [str(pair[1]) for pair in names if pair[0] == "DNS"]

    def version(self) -> str | None:
        """Return the protocol, as in "TLSv1.3"."""
        return self._tls.version()

    async def send_all(self, data: Buffer) -> None:
        """See `trio.abc.SendStream`; encrypts and sends in pieces of 256 KiB."""
        view = memoryview(data)
        await trio.lowlevel.checkpoint_if_cancelled()
        for start in range(0, len(view), _PIECE):
            self._encrypt(view[start : start + _PIECE])
            await self._flush()

    @property
    def full(self) -> bool:
        """True if something that is encrypted waits until the kernel takes it."""
        return bool(self._waiting)

    def write_now(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt, and give to the kernel what it takes at once; see `DirectWriter.write_now`.

        Takes everything or, while the stream is full, nothing.
        """
        if self.full:
            self._write_waiting()
            if self.full:
                return 0
        for buffer in buffers:
            self._encrypt(memoryview(buffer))
        self._take_encrypted()
        self._write_waiting()
        return sum(map(len, buffers))

    def _take_encrypted(self) -> None:
        """Append what OpenSSL has encrypted to what waits."""
        if self._outgoing.pending:
            self._waiting.append(memoryview(self._outgoing.read()))

    def _write_waiting(self) -> None:
        """Write what waits, until the kernel takes no more."""
        while self._waiting:
            view = self._waiting[0]
            try:
                done = os.write(fd_of(self.transport.socket), view)
            except BlockingIOError:
                return
            except OSError as e:
                raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e
            if done < len(view):
                self._waiting[0] = view[done:]
            else:
                self._waiting.popleft()

    async def wait_writable(self) -> None:
        """See `DirectWriter.wait_writable`."""
        async with self._waiter:
            await trio.lowlevel.wait_writable(fd_of(self.transport.socket))

    def _encrypt(self, view: memoryview) -> None:
        if self.transport.socket.fileno() < 0:
            raise trio.ClosedResourceError
        try:
            while len(view):
                view = view[self._tls.write(view) :]
        except ssl.SSLError as e:
            raise trio.BrokenResourceError(str(e)) from e

    async def _flush(self) -> None:
        self._take_encrypted()
        await trio.lowlevel.checkpoint_if_cancelled()
        self._write_waiting()
        while self.full:
            await self.wait_writable()
            self._write_waiting()
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def _fetch(self, size: int) -> None:
        """Have OpenSSL get up to so many bytes, after its answer to a change of keys has left."""
        if self._outgoing.pending:
            await self._flush()
        data = await read(self.transport.socket, size)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """See `trio.abc.ReceiveStream`; empty also where the peer ended without TLS's goodbye.

        Channels say goodbye themselves, so a connection that was cut is not mistaken.
        """
        most = max_bytes or _READ
        while self._end is None:
            try:
                first = self._tls.read(most)
            except ssl.SSLWantReadError:
                await self._fetch(_READ)
            except ssl.SSLError as e:
                self._end = e
            else:
                return self._more(first, most)
        self._check_end(self._end)
        return b""

    async def receive_into(self, buffer: memoryview) -> int:
        """See `FillingReader.receive_into`; the end as of `receive_some`."""
        count = 0
        while self._end is None and not count:
            try:
                # OpenSSL reads one record at a time.
                while count < len(buffer) and (size := self._read_record(buffer[count:])):
                    count += size
                if not count:
                    return 0
            except ssl.SSLWantReadError:
                if not count:
                    await self._fetch(_READ_LARGE)
            except ssl.SSLError as e:
                self._end = e
        if not count and self._end is not None:
            self._check_end(self._end)
        return count

    def _read_record(self, buffer: memoryview) -> int:
        size = self._tls.read(len(buffer), buffer)
        assert isinstance(size, int)  # with a buffer; typeshed says bytes
        return size

    def _more(self, first: bytes, most: int) -> bytes:
        """Read all records that have arrived: OpenSSL reads one at a time."""
        if len(first) < _RECORD or not self._incoming.pending:
            return first
        pieces, size = [first], len(first)
        try:
            while size < most and (piece := self._tls.read(min(_RECORD, most - size))):
                pieces.append(piece)
                size += len(piece)
        except ssl.SSLWantReadError:
            pass  # no whole record is left
        except ssl.SSLError as e:
            self._end = e
        return b"".join(pieces)

    def _check_end(self, end: ssl.SSLError) -> None:
        """Raise if the stream has not just ended."""
        if not isinstance(end, (ssl.SSLZeroReturnError, ssl.SSLEOFError)):
            raise trio.BrokenResourceError(str(end)) from end

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await self.transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the socket; what the kernel has still goes out."""
        if self._ready and self.transport.socket.fileno() >= 0:
            self._ready = False
            with suppress(ssl.SSLError):  # it wants the peer's goodbye, which is not waited for
                self._tls.unwrap()
            self._take_encrypted()
            with suppress(trio.BrokenResourceError):
                self._write_waiting()
        await self.transport.aclose()
