"""The TLS stream itself: pairs of sockets in one process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from grain.edge.transports import tcp
from grain.edge.transports.identity import (
    HEAD,
    dialling_context,
    listening_context,
    make_credentials,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.transports.tls import TlsStream

HEAD_SIDE, MEMBER_SIDE = make_credentials()
MUCH = 30_000_000


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[TlsStream, TlsStream]]:
    """A dialler and an accepter, both past their handshake."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        a = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        b = await listener.accept()
    ends: list[TlsStream] = []

    async def accept() -> None:
        ends.append(await tcp.secure_accepted(b, listening_context(HEAD_SIDE), None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        dialled = await tcp.secure_dialled(a, dialling_context(MEMBER_SIDE), HEAD)
    async with dialled, ends[0]:
        yield dialled, ends[0]


async def test_a_cancelled_sender_tears_no_record() -> None:
    """The peer is slow, the sender gives up; what is sent next is still understood."""
    async with pair() as (ours, theirs):
        got = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_all, b"a" * MUCH)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()

        async def send() -> None:
            await ours.send_all(b"the end")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            with trio.fail_after(60):
                while not got.endswith(b"the end"):
                    got += await theirs.receive_some()

    assert 0 < got.count(b"a") < MUCH
    assert len(got) == got.count(b"a") + len(b"the end")


async def test_a_cancelled_receiver_loses_no_byte() -> None:
    data = bytes(range(256)) * 400
    async with pair() as (ours, theirs):
        got = bytearray()

        async def send() -> None:
            for start in range(0, len(data), 1000):
                await ours.send_all(data[start : start + 1000])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            with trio.fail_after(60):
                while len(got) < len(data):
                    with trio.CancelScope() as scope:
                        nursery.start_soon(_cancel, scope)
                        got += await theirs.receive_some(777)

    assert got == data


async def _cancel(scope: trio.CancelScope) -> None:
    scope.cancel()


@pytest.mark.parametrize("change", ["flip", "repeat"])
async def test_an_altered_record_breaks_the_stream(change: str) -> None:
    """A record that was changed, or came twice, breaks the stream; nothing of it is delivered."""
    async with pair() as (ours, theirs):
        tampered = bytearray()
        ours._encrypt(memoryview(b"secret"))
        tampered += ours._outgoing.read()
        if change == "flip":
            tampered[-1] ^= 1
            expected = b""
        else:
            tampered = tampered * 2
            expected = b"secret"
        await ours.transport.send_all(tampered)
        got = bytearray()
        with pytest.raises(trio.BrokenResourceError), trio.fail_after(60):
            while True:
                got += await theirs.receive_some()

    assert got == expected


async def test_of_a_record_that_was_cut_nothing_is_delivered() -> None:
    """The end of the stream, and no part of the record."""
    async with pair() as (ours, theirs):
        ours._encrypt(memoryview(b"secret"))
        await ours.transport.send_all(ours._outgoing.read()[:-1])
        await ours.transport.aclose()

        assert await theirs.receive_some() == b""
