"""Connections to a dialler that waits for its head, before anything is authenticated."""

from __future__ import annotations

import socket
import struct

import trio
import trio.testing

from grain.edge.connecting.reverse import HeadListener
from grain.edge.messages import CORE, Hello
from grain.edge.transports import tcp
from grain.edge.transports.identity import make_credentials

HELLO = Hello(1, "0", "worker", "w", "host", 1)


def reset(port: int) -> None:
    """Connect, and be gone without a goodbye before the head looks."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_a_connection_reset_before_it_is_accepted_does_not_end_the_wait() -> None:
    """A scan of the port does no harm."""
    _, member = make_credentials()
    waiting = HeadListener(member, HELLO, CORE)
    (listener,) = await tcp.listen("127.0.0.1", 0)
    port = listener.socket.getsockname()[1]
    for _ in range(3):
        reset(port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.accept, [listener])
        await trio.testing.wait_all_tasks_blocked(0.05)
        still_listens = await trio.open_tcp_stream("127.0.0.1", port)
        await still_listens.aclose()
        nursery.cancel_scope.cancel()

    assert waiting.failed is None
    assert not waiting.won


async def test_silent_connections_to_a_dialler_make_way(mock_clock: trio.testing.MockClock) -> None:
    """As for a head: a connection that is driven out is closed, so the limit is one.

    Tried: Silent connections to a worker that listens.
    Result: make way.
    """
    _, member = make_credentials()
    waiting = HeadListener(member, HELLO, CORE)
    (listener,) = await tcp.listen("127.0.0.1", 0)
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.accept, [listener])
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(16)]
        await trio.testing.wait_all_tasks_blocked(0.05)
        mock_clock.jump(2)
        one_more = await trio.open_tcp_stream("127.0.0.1", port)

        assert await silent[0].receive_some(1) == b""
        await trio.testing.wait_all_tasks_blocked(0.05)
        for stream in (*silent, one_more):
            await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()
