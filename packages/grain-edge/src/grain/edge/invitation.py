"""Invitations: direct connections between processes that a third one brings together.

    async with invite(CODEC) as door:               # in one process
        ...  door.invitation  ...                   # bytes, which travel to the guest by some way
        async with door.guest() as channel: ...

    async with accept(invitation, CODEC) as visit: ...     # in the other

The host makes an authority of its own for each invitation, as a head does for each leadership. So
a process that has the bytes may join, and only that host can answer it. Whoever carries the bytes
has to keep them secret: they hold a key. The way is TCP with TLS; and where that does not work, the
one by which both have met a head (`grain.edge.beside`).

Within one kernel a Unix socket is faster, and needs no key: both sides ask the kernel for the other
one's user. It is not the default: if programs that talk to each other over the network are to be
started by such a connection, it has to take the same way.
"""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from grain.edge.address import join_host
from grain.edge.connecting.accept import Acceptor
from grain.edge.connecting.greeting import introduced, join
from grain.edge.connecting.peer import GreetedStream
from grain.edge.connecting.race import Route, race
from grain.edge.errors import DialError, RemoteProtocolError
from grain.edge.messages import PROTOCOL, Hello, Welcome
from grain.edge.transports import tcp, unix
from grain.edge.transports.identity import (
    HEAD,
    Credential,
    dialling_context,
    listening_context,
    make_credentials,
)
from grain.edge.transports.interfaces import (
    interface_names,
    listening,
    local_addresses,
    reachable,
    wanted,
)
from grain.edge.transports.tls import TlsStream
from grain.edge.version import package_version
from grain.files.processes import this_process

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from grain.edge.errors import Attempt
    from grain.edge.framing.framed_channel import FramedChannel
    from grain.edge.messages import Codec
    from grain.edge.transports.heartbeat import Heartbeat

_ROLE = "guest"
_TRY = 5.0  # seconds for each address


class _Invitation(msgspec.Struct, array_like=True):
    """The content of an invitation.

    Attributes:
        boot: of the host's kernel; its loopback addresses and its name are for guests of the same
            one.
        authority, certificate, key: the guest's credential.
        place: the address of the host's place beside a meeting (`grain.edge.beside`); empty for
            none.
        name: of a Unix socket without a file (unix(7), "abstract"); empty for none.
    """

    addresses: tuple[tuple[str, int], ...]
    boot: str
    authority: str = ""
    certificate: str = ""
    key: str = ""
    place: str = ""
    name: str = ""


class Visit(NamedTuple):
    """The guest's side of an invitation.

    Attributes:
        channel: to the host.
        address: of this guest, in the network by which it has come; empty within one kernel.
        host: the address of the host there; likewise.
    """

    channel: FramedChannel
    address: str
    host: str


class Door:
    """The host's side of an invitation, which `invite` opens and closes.

    Attributes:
        invitation: the bytes for the guests, some 2 kB; secret.
    """

    def __init__(self, codec: Codec, heartbeat: Heartbeat | None) -> None:
        self._codec = codec
        self._heartbeat = heartbeat
        me = this_process()
        answer = Welcome(PROTOCOL, package_version(), me.host, me.pid)
        self._acceptor = Acceptor(answer, codec, self._hand_over)
        self._send, self._receive = trio.open_memory_channel[tuple[GreetedStream, trio.Event]](0)
        self._content = _Invitation((), me.boot)
        self._clean: Callable[[], Awaitable[object]] | None = None
        self.invitation = b""

    async def open(
        self, nursery: trio.Nursery, *, within: bool, network: bool, beside: str
    ) -> None:
        """Accept guests in a nursery; see `invite`."""
        content = self._content
        if network or beside:
            mine, theirs = make_credentials()
            content.authority = theirs.authority
            content.certificate, content.key = theirs.certificate, theirs.key
        if network:
            addresses = listening("", wanted()).addresses
            if addresses is None:
                listeners = await tcp.listen("", 0)
                targets = reachable(tcp.ports(listeners), *local_addresses())
            else:
                listeners = await tcp.listen_on(addresses)
                targets = tcp.targets(listeners)
            content.addresses = tuple(targets)
            context = listening_context(mine)
            for listener in listeners:
                nursery.start_soon(self._acceptor.accept_tcp, listener, context)
        if within:
            content.name = f"grain-{secrets.token_hex(16)}"
            listener = await unix.listen_by_name(content.name)
            nursery.start_soon(self._acceptor.accept_unix, listener)
        if beside:
            from grain.edge.beside import offer_beside  # seldom needed

            offer = await offer_beside(beside, self._acceptor, mine)
            if offer is not None:
                (content.place,), self._clean = offer.targets, offer.clean
                nursery.start_soon(offer.run)
        self.invitation = msgspec.msgpack.encode(content)

    async def close(self) -> None:
        """Leave nothing behind; the nursery has ended."""
        if self._clean is not None:
            await self._clean()

    async def _hand_over(self, greeted: GreetedStream) -> None:
        """Hand a guest to `guest`, and wait until that is over; closes it if no guest is wanted."""
        over = trio.Event()
        try:
            with trio.fail_after(_TRY):
                await self._send.send((greeted, over))
        except BaseException as error:
            await greeted.aclose()
            if not isinstance(error, trio.TooSlowError):
                raise
        else:
            # A mailbox counts a peer as there until then.
            await over.wait()

    @asynccontextmanager
    async def guest(self) -> AsyncIterator[FramedChannel]:
        """Wait for the next guest, and open a channel to it for the block."""
        greeted, over = await self._receive.receive()
        try:
            async with greeted.channel(self._codec, self._heartbeat) as channel:
                yield channel
        finally:
            over.set()


@asynccontextmanager
async def invite(
    codec: Codec,
    heartbeat: Heartbeat | None = None,
    *,
    within: bool = False,
    network: bool = True,
    beside: str = "",
) -> AsyncIterator[Door]:
    """Open a door for guests during the block.

    Args:
        codec: the messages of the channel.
        heartbeat: its times; those of `Heartbeat` by default.
        within: True to accept guests within this kernel by a Unix socket.
        network: False to accept none by TCP.
        beside: the address of a meeting, by whose directory or bridge those come who cannot
            connect; empty for none.

    Raises:
        OSError: this host cannot listen.
    """
    door = Door(codec, heartbeat)
    failed: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            # An error is kept from the nursery, which would make a group of it.
            try:
                await door.open(nursery, within=within, network=network, beside=beside)
                yield door
            except Exception as error:
                failed = error
            nursery.cancel_scope.cancel()
    finally:
        await door.close()
    if failed is not None:
        raise failed


def interface_of(address: str) -> str:
    """Return the name of the interface of this host that has an address; "" if none has it."""
    for name in interface_names():
        if any(address in found for found in local_addresses(name)):
            return name
    return ""


@asynccontextmanager
async def accept(
    invitation: bytes,
    codec: Codec,
    heartbeat: Heartbeat | None = None,
    *,
    patience: float = _TRY,
) -> AsyncIterator[Visit]:
    """Connect to the host of an invitation, and open a channel to it for the block.

    Args:
        patience: seconds for each of its addresses; the way beside a meeting has its own.

    Raises:
        DialError: it cannot be reached; says by which addresses it was tried, if by any.
        RemoteProtocolError: these bytes are not an invitation.
    """
    try:
        content = msgspec.msgpack.decode(invitation, type=_Invitation)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RemoteProtocolError(f"not an invitation: {error}") from error
    tried: list[Attempt] = []
    greeted = await race(_routes(content, codec, patience), tried)
    if greeted is None:
        raise DialError("the other host cannot be reached", tuple(tried))
    try:
        # Only now: of several connections that were tried, the host accepts one.
        await join(greeted.stream)
    except BaseException as error:
        await greeted.aclose()
        if isinstance(error, trio.BrokenResourceError):
            raise DialError("the other host has closed the connection", tuple(tried)) from error
        raise
    async with greeted.channel(codec, heartbeat) as channel:
        stream = greeted.stream
        own = host = ""
        if isinstance(stream, TlsStream):
            own, host = tcp.own_host(stream.transport) or "", tcp.peer_host(stream.transport)
        yield Visit(channel, own, host)


def _routes(
    content: _Invitation, codec: Codec, patience: float = _TRY
) -> Sequence[Route[GreetedStream]]:
    me = this_process()
    near = content.boot == me.boot
    hello = Hello(PROTOCOL, package_version(), _ROLE, _ROLE, me.host, me.pid)

    async def dial_within() -> GreetedStream:
        stream = await unix.dial_name(content.name)
        return await introduced(stream, hello, codec, "unix", content.name)

    async def dial(context: ssl.SSLContext, host: str, port: int) -> GreetedStream:
        secure = await tcp.secure_dialled(await tcp.connect(host, port), context, HEAD)
        return await introduced(secure, hello, codec, "tcp", join_host(host, port))

    routes: list[Route[GreetedStream]] = []
    credential = Credential(content.authority, content.certificate, content.key)
    if near and content.name:
        routes.append(Route("unix", content.name, dial_within, deadline=patience))
    if content.addresses:
        context = dialling_context(credential)
        routes += [
            Route(
                "tcp", join_host(host, port), partial(dial, context, host, port), deadline=patience
            )
            for host, port in content.addresses
            if near or not host.startswith(("127.", "::1"))
        ]
    if content.place:
        from grain.edge.beside import routes_beside  # seldom needed

        routes += routes_beside(content.place, credential, hello, codec)
    return routes
