"""Taking connections in, on the head's side: authenticate, greet, then hand over.

Each connection has a task of its own from its first moment, so none waits for another.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from grain.edge.connecting.greeting import welcome
from grain.edge.connecting.handshake_limiter import Guard
from grain.edge.connecting.peer import Opened, Peer
from grain.edge.errors import EdgeError
from grain.edge.transports import tcp, unix
from grain.edge.transports.listening import accept_forever

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from grain.edge.heartbeat import Heartbeat
    from grain.edge.meeting.host import Place
    from grain.edge.messages import Codec, Hello
    from grain.edge.transports.tls import TlsStream

_FAREWELL = 3.0
_log = logging.getLogger("grain.edge")


class Reception:
    """What a head does with whoever comes, by whatever transport.

    Args:
        place: the head.
        lineage: its meeting.
        epoch: its leadership.
        codec: what its channels speak.
        heartbeat: of its channels.
        handler: the program; its return closes the channel.
        admit: says why a dialler may not join, or "".
    """

    def __init__(
        self,
        place: Place,
        lineage: str,
        epoch: int,
        codec: Codec,
        heartbeat: Heartbeat | None,
        handler: Callable[[Peer], Awaitable[object]],
        admit: Callable[[Hello], str] | None,
    ) -> None:
        self._place = place
        self._lineage = lineage
        self._epoch = epoch
        self._codec = codec
        self._heartbeat = heartbeat
        self._handler = handler
        self._admit = admit
        self.guard = Guard()
        self._pending: dict[int, trio.CancelScope] = {}

    async def accept_unix(self, listener: trio.SocketListener) -> None:
        """Accept on a Unix socket, for ever."""

        async def take(stream: trio.SocketStream) -> None:
            # No `async with stream`: its end is a checkpoint, where a cancellation would replace
            # an error of the handler. What runs here closes the stream in every case.
            try:
                pid = unix.check_peer(stream.socket)
            except EdgeError as e:
                _log.warning("turned away: %s", e)
                await trio.aclose_forcefully(stream)
                return
            await self.greet(stream, "unix", f"pid {pid}")

        await accept_forever(listener, take)

    async def accept_tcp(self, listener: trio.SocketListener, context: ssl.SSLContext) -> None:
        """Accept TLS connections of members, for ever."""

        async def take(stream: trio.SocketStream) -> None:
            host = tcp.peer_host(stream)
            secure = await self._secured(stream, host, context) if host else None
            if secure is None:
                await trio.aclose_forcefully(stream)
            else:
                await self.greet(secure, "tcp", host)

        await accept_forever(listener, take)

    async def _secured(
        self, stream: trio.SocketStream, host: str, context: ssl.SSLContext
    ) -> TlsStream | None:
        ticket, out = self.guard.admit(host, trio.current_time())
        if out is not None:
            self._pending.pop(out).cancel()
        if ticket is None:
            return None
        with trio.move_on_after(tcp.HANDSHAKE) as scope:
            self._pending[ticket] = scope
            try:
                return await tcp.secure_accepted(stream, context, None)
            except EdgeError as e:
                _log.info("turned away %s: %s", host, e)
            finally:
                self._pending.pop(ticket, None)
                self.guard.leave(ticket)
        return None

    async def greet(
        self,
        stream: trio.abc.Stream,
        transport: str,
        target: str,
        heartbeat: Heartbeat | None = None,
        heard: Callable[[], float] | None = None,
        patience: float = tcp.HANDSHAKE,
    ) -> None:
        """Greet an authenticated peer and run the handler; closes the stream.

        What goes wrong with this peer ends here; an error of the handler's own does not.
        """
        try:
            with trio.move_on_after(patience) as scope:
                hello, decoder = await welcome(
                    stream, self._place, self._lineage, self._epoch, self._codec, self._admit
                )
            if scope.cancelled_caught:
                await trio.aclose_forcefully(stream)
                return
        except (EdgeError, trio.BrokenResourceError) as e:
            _log.info("%s peer %s did not join: %s", transport, target, e)
            # Not by force: it may still have to read why it was refused.
            with trio.move_on_after(_FAREWELL):
                await stream.aclose()
            return
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        opened = Opened(stream, hello, decoder, transport, target, heartbeat, heard)
        try:
            async with opened.channel(self._codec, self._heartbeat) as channel:
                await self._handler(Peer(channel, hello, transport, target))
        except (EdgeError, trio.EndOfChannel, trio.BrokenResourceError) as e:
            _log.info("%s peer %s is gone: %s", transport, target, str(e) or type(e).__name__)
