"""TCP with mutual TLS 1.3, in either direction."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Any

import trio

from grain.edge.errors import NotAuthenticated
from grain.edge.transports.tls import TlsStream

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

_BACKLOG = 1024
_log = logging.getLogger("grain.edge")
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 9))


async def listen(host: str, port: int) -> list[trio.SocketListener]:
    """Listen on an address, or with an empty host on all, IPv4 and IPv6.

    Raises:
        OSError: the port is taken, or the host is not this one.
    """
    if host:
        return await trio.open_tcp_listeners(port, host=host, backlog=_BACKLOG)
    listeners = await trio.open_tcp_listeners(port, host="0.0.0.0", backlog=_BACKLOG)  # noqa: S104
    port = port or listeners[0].socket.getsockname()[1]  # the same one on both
    try:
        listeners += await trio.open_tcp_listeners(port, host="::", backlog=_BACKLOG)
    except OSError:
        pass  # no IPv6 here, or another process has that port of it
    except BaseException:
        for listener in listeners:
            listener.socket.close()
        raise
    return listeners


async def listen_on(addresses: Iterable[str]) -> list[trio.SocketListener]:
    """Listen on some addresses of this host, at one port where it is free on all of them.

    An address that is not there, or not any more, is passed over.
    """
    listeners: list[trio.SocketListener] = []
    port = 0
    for address in addresses:
        for at in dict.fromkeys((port, 0)):
            try:
                listeners += await trio.open_tcp_listeners(at, host=address, backlog=_BACKLOG)
            except OSError as e:
                _log.debug("%s port %d: cannot listen there: %s", address, at, e)
            except BaseException:
                for listener in listeners:
                    listener.socket.close()
                raise
            else:
                port = port or int(listeners[0].socket.getsockname()[1])
                break
    return listeners


def targets(listeners: Iterable[trio.SocketListener]) -> list[tuple[str, int]]:
    """Return host and port of each listener."""
    return [(str(s.socket.getsockname()[0]), int(s.socket.getsockname()[1])) for s in listeners]


def ports(listeners: Iterable[trio.SocketListener]) -> list[tuple[bool, int]]:
    """Return for each listener whether it is an IPv6 one, and its port."""
    return [(s.socket.family == socket.AF_INET6, s.socket.getsockname()[1]) for s in listeners]


async def secure_accepted(
    stream: trio.SocketStream, context: ssl.SSLContext, name: str | None
) -> TlsStream:
    """Authenticate a peer that connected to this side.

    Args:
        stream: owned from now on; closed on failure.
        name: the role that the peer must have, or None for any member of the meeting.

    Raises:
        NotAuthenticated: no TLS, no certificate, one of another meeting or role; or the
            connection is lost.
    """
    return await _secure(stream, TlsStream(stream, context, None), name)


async def secure_dialled(
    stream: trio.SocketStream, context: ssl.SSLContext, name: str
) -> TlsStream:
    """Authenticate a peer that this side connected to; otherwise as `secure_accepted`."""
    return await _secure(stream, TlsStream(stream, context, name), name)


async def _secure(stream: trio.SocketStream, secure: TlsStream, name: str | None) -> TlsStream:
    try:
        tune(stream)
        await secure.do_handshake()
        _check_name(secure, name)
    except (trio.BrokenResourceError, trio.ClosedResourceError) as e:
        await trio.aclose_forcefully(secure)
        raise NotAuthenticated(f"the peer is not of this meeting: {e}") from e
    except BaseException:
        await trio.aclose_forcefully(secure)
        raise
    return secure


def _check_name(secure: TlsStream, name: str | None) -> None:
    if name is not None and name not in secure.names():
        raise NotAuthenticated(f"the peer's certificate is not that of a {name}")


def peer_host(stream: trio.SocketStream) -> str:
    """Return the peer's address, for messages and limits; empty if it has reset the connection."""
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""


def own_host(stream: trio.SocketStream) -> str | None:
    """Return this side's address; None if the peer has reset the connection."""
    try:
        return str(stream.socket.getsockname()[0])
    except OSError:
        return None


def tune(stream: trio.SocketStream) -> None:
    """Have the kernel notice a peer that vanished, as soon as the heartbeats would."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        stream.setsockopt(socket.IPPROTO_TCP, option, value)
    # Milliseconds; without it, unacknowledged data is retried for a quarter of an hour.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)


async def connect(host: str, port: int) -> trio.SocketStream:
    """Open a bare connection; `secure_dialled` must follow.

    Raises:
        OSError: refused, no route, no such host.
    """
    try:
        return await trio.open_tcp_stream(host, port)
    except OSError as e:
        # With a single address the cause is more precise than "all attempts failed"; so it is
        # where all addresses of a host fail alike, as both of "localhost" do.
        causes: tuple[Any, ...] = getattr(e.__cause__, "exceptions", (e.__cause__,))
        first = causes[0]
        if isinstance(first, OSError) and all(first.errno == one.errno for one in causes):
            raise first from None
        raise
