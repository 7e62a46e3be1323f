"""The acceptor of a head: each connection is authenticated and greeted, then handed over.

Each connection has a task of its own from its first moment, so none waits for another.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio

from grain.edge.address import join_host
from grain.edge.connecting.greeting import welcome
from grain.edge.connecting.handshake_limiter import HANDSHAKE, Handshakes
from grain.edge.connecting.peer import GreetedStream, Peer
from grain.edge.connecting.race import Route, race
from grain.edge.errors import Attempt, EdgeError
from grain.edge.meeting.block import process_here
from grain.edge.transports import tcp, unix
from grain.edge.transports.identity import MEMBER, dialling_context
from grain.edge.transports.listening import accept_forever
from grain.edge.transports.liveness import Presence, acknowledges

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    from grain.edge.messages import Codec, Hello, Welcome
    from grain.edge.transports.heartbeat import Heartbeat
    from grain.edge.transports.identity import Credential
    from grain.edge.transports.tls import TlsStream

_FAREWELL = 3.0
_log = logging.getLogger("grain.edge")


class Detours:
    """The addresses of a head that members had to do without, each reported once.

    Theory of operation. A head that listens only on some of its addresses
    (`grain.edge.transports.interfaces`) learns from its members which others are needed. A member
    for which no address was good listens itself and has the head connect to it: the address from
    which the head does so is on a network that members use. A member that has come over files has
    found no way at all: then the head listens on all of its addresses, and this member finds it
    when it looks again for a direct way. Members that only try the routes, and do not join, show
    nothing. Nor do members of this host, which have the Unix socket and came late to it because the
    host was busy.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._new: list[str] = []
        self._more = trio.Event()

    def report(self, address: str) -> None:
        """Report a member that has come by a detour.

        Args:
            address: from which the head has connected to it; empty if no address is known, so that
                all are missing.
        """
        if address not in self._seen:
            self._seen.add(address)
            self._new.append(address)
            self._more.set()

    async def next(self) -> str:
        """Wait for an address that is missing, or for "", which is every one."""
        await self._more.wait()
        address = self._new.pop(0)
        if not self._new:
            self._more = trio.Event()
        return address


async def run_handler(
    greeted: GreetedStream,
    codec: Codec,
    heartbeat: Heartbeat | None,
    handler: Callable[[Peer], Awaitable[object]],
) -> None:
    """Open a channel to a peer that has joined, and run a head's handler with it."""
    hello, process = greeted.greeting, process_here(greeted.greeting)
    async with greeted.channel(codec, heartbeat) as channel:
        await handler(Peer(channel, hello, greeted.transport, greeted.target, process=process))


class Acceptor:
    """The way from an accepted connection to the program of a head or host, by every transport.

    Args:
        serve: called with each peer that has joined, whose stream it closes; see `run_handler`.
        admit: returns why a dialler may not join, or "".
        patience: returns for how many seconds a dialler may be silent while its process or its
            kernel is there; None for no longer than the heartbeat allows.
    """

    def __init__(
        self,
        welcome: Welcome,
        codec: Codec,
        serve: Callable[[GreetedStream], Awaitable[object]],
        admit: Callable[[Hello], str] | None = None,
        patience: Callable[[Hello], float] | None = None,
        detours: Detours | None = None,
    ) -> None:
        self._welcome = welcome
        self._codec = codec
        self._serve = serve
        self._admit = admit
        self._patience = patience
        self._detours = detours
        self._handshakes = Handshakes()

    async def accept_unix(self, listener: trio.SocketListener) -> None:
        """Accept connections of this user on a Unix socket, until cancelled."""

        async def take(stream: trio.SocketStream) -> None:
            # No `async with stream`: its end is a checkpoint, where a cancellation would replace
            # an error of the handler. What runs here closes the stream in every case.
            try:
                pid = unix.check_peer(stream.socket)
            except EdgeError as e:
                _log.warning("turned away: %s", e)
                await trio.aclose_forcefully(stream)
                return
            # Its kernel is ours, which ends the connection with the process.
            await self.greet(stream, "unix", f"pid {pid}", held_open=lambda: True)

        await accept_forever(listener, take)

    async def accept_tcp(self, listener: trio.SocketListener, context: ssl.SSLContext) -> None:
        """Accept TLS connections of members, until cancelled."""

        async def take(stream: trio.SocketStream) -> None:
            host = tcp.peer_host(stream)
            secure = None
            if host:
                with self._handshakes.limited(host) as admitted:
                    if admitted:
                        try:
                            secure = await tcp.secure_accepted(stream, context, None)
                        except EdgeError as e:
                            _log.info("turned away %s: %s", host, e)
            if secure is None:
                await trio.aclose_forcefully(stream)
            else:
                held_open = partial(acknowledges, stream.socket)
                await self.greet(secure, "tcp", host, held_open=held_open)

        await accept_forever(listener, take)

    async def secure_relayed(
        self, stream: trio.SocketStream, source: str, context: ssl.SSLContext
    ) -> trio.abc.Stream | None:
        """Authenticate a member that comes by way of a bridge; None if it is none."""
        try:
            with trio.fail_after(HANDSHAKE):
                return await tcp.secure_accepted(stream, context, None)
        except (EdgeError, trio.TooSlowError) as e:
            _log.info("turned away %s by way of the bridge: %s", source, e)
            await trio.aclose_forcefully(stream)
            return None

    async def dial_back(
        self, addresses: Sequence[tuple[str, int]], credential: Credential
    ) -> TlsStream | None:
        """Connect to a dialler that listens, and authenticate it; None if it is not reached."""
        context = dialling_context(credential)

        async def connect(host: str, port: int) -> TlsStream:
            stream = await tcp.connect(host, port)
            return await tcp.secure_dialled(stream, context, MEMBER)

        tried: list[Attempt] = []
        routes = [
            Route("reverse", join_host(host, port), partial(connect, host, port), deadline=5)
            for host, port in addresses
        ]
        try:
            return await race(routes, tried)
        except EdgeError as e:
            _log.info("%s", e)
            return None
        finally:
            for attempt in tried:
                _log.debug("%s", attempt)

    async def greet_back(self, stream: TlsStream) -> None:
        """Greet a dialler to which this head has connected; closes the stream."""
        host = tcp.peer_host(stream.transport)
        held_open = partial(acknowledges, stream.transport.socket)
        mine = tcp.own_host(stream.transport)
        await self.greet(stream, "reverse", host, held_open=held_open, detour=mine)

    async def greet(
        self,
        stream: trio.abc.Stream,
        transport: str,
        target: str,
        heartbeat: Heartbeat | None = None,
        alive_at: Callable[[], float] | None = None,
        patience: float = HANDSHAKE,
        held_open: Callable[[], bool] | None = None,
        detour: str | None = None,
    ) -> None:
        """Greet an authenticated peer and serve it, which closes the stream.

        Errors of this peer end here; an error of the program's own does not.

        Args:
            heartbeat: for a transport that needs another than usual.
            patience: seconds for the greeting.
            held_open: returns True if the peer's kernel holds the connection open, although its
                process may be silent; None where no kernel does.
            detour: as in `Detours.report`; None if the peer has come by no detour.
        """
        try:
            with trio.move_on_after(patience) as scope:
                hello, decoder = await welcome(stream, self._welcome, self._codec, self._admit)
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
        process = process_here(hello)
        if self._detours is not None and detour is not None and process is None:
            self._detours.report(detour)
        presence = None
        if self._patience is not None:
            presence = Presence(process, held_open, self._patience(hello))
        greeted = GreetedStream(
            stream, hello, decoder, transport, target, heartbeat, alive_at, presence
        )
        try:
            await self._serve(greeted)
        except (EdgeError, trio.EndOfChannel, trio.BrokenResourceError) as e:
            _log.info("%s peer %s has left: %s", transport, target, str(e) or type(e).__name__)
