"""TCP in reverse: the dialler listens, and the head connects to it.

For sites where a compute node may not open connections to the head's host, but the other way
round. The dialler announces the addresses on which it listens, by a note in the meeting file's
directory (see `grain.edge.connecting.mailbox`) or by a call through the server of a bridge (see
`grain.edge.bridge`), and accepts only the head of this meeting: a connection is authenticated
as strictly as by a head, and the listener is closed as soon as the head has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from grain.edge.connecting.greeting import introduced
from grain.edge.connecting.handshake_limiter import Handshakes
from grain.edge.errors import EdgeError, Refused
from grain.edge.transports import tcp
from grain.edge.transports.identity import HEAD, listening_context
from grain.edge.transports.interfaces import reachable
from grain.edge.transports.listening import accept_forever

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from grain.edge.connecting.peer import GreetedStream
    from grain.edge.messages import Codec, Hello
    from grain.edge.transports.identity import Credential


async def await_head(
    announce: Callable[[list[tuple[str, int]]], AbstractAsyncContextManager[object]],
    hosts: tuple[list[str], list[str]],
    credential: Credential,
    hello: Hello,
    codec: Codec,
) -> GreetedStream:
    """Listen until the head has come; cancellation closes everything.

    Args:
        announce: called with hosts and ports; the head gets them while its result is entered.
        hosts: the IPv4 and the IPv6 addresses to announce, the best first.

    Raises:
        EdgeError: the addresses could not be announced, or the head refused.
    """
    listeners = await tcp.listen("", 0)
    waiting = HeadListener(credential, hello, codec)
    try:
        async with announce(reachable(tcp.ports(listeners), *hosts)):
            await waiting.accept(listeners)
    except BaseException:
        for greeted in waiting.won:
            await greeted.aclose()
        raise
    finally:
        for listener in listeners:
            listener.socket.close()
    if waiting.failed is not None:
        raise waiting.failed
    return waiting.won[0]


class HeadListener:
    """A dialler that waits for its head to connect; the first connection of the head wins."""

    def __init__(self, credential: Credential, hello: Hello, codec: Codec) -> None:
        self._context = listening_context(credential)
        self._handshakes = Handshakes()
        self._hello = hello
        self._codec = codec
        self._over = trio.CancelScope()
        self.won: list[GreetedStream] = []
        self.failed: EdgeError | None = None

    async def accept(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Accept connections until one is the head's; closes the listeners."""
        with self._over:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(accept_forever, listener, self._take)

    async def _take(self, stream: trio.SocketStream) -> None:
        host = tcp.peer_host(stream)
        if not host:
            await trio.aclose_forcefully(stream)
            return
        with self._handshakes.limited(host) as admitted:
            if not admitted:
                await trio.aclose_forcefully(stream)
                return
            try:
                greeted = await self._greeted(stream, host)
            except Refused as e:
                self.failed = e
                self._over.cancel()
            except (EdgeError, trio.BrokenResourceError):
                pass  # not the head, or cut off: the next one may be
            else:
                if self.won:
                    await greeted.aclose()
                else:
                    self.won.append(greeted)
                    self._over.cancel()

    async def _greeted(self, stream: trio.SocketStream, host: str) -> GreetedStream:
        secure = await tcp.secure_accepted(stream, self._context, HEAD)
        return await introduced(secure, self._hello, self._codec, "reverse", host)
