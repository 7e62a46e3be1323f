"""The TLS stream itself: pairs of sockets in one process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from grain.edge.buffers import Buffer
from grain.edge.channel import FramedChannel
from grain.edge.transports import tcp
from grain.edge.transports.identity import (
    HEAD,
    dialling_context,
    listening_context,
    make_credentials,
)
from grain_testkit.faulty_links import CODEC, Note

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from grain.edge.transports.tls import TlsStream

    Read = Callable[..., Awaitable[bytes]]

HEAD_SIDE, MEMBER_SIDE = make_credentials()
MUCH = 30_000_000


async def some(stream: TlsStream, most: int = 100_000) -> bytes:
    """Read by `receive_some`."""
    return await stream.receive_some(most)


async def filled(stream: TlsStream, most: int = 100_000) -> bytes:
    """Read by `receive_into`."""
    buffer = bytearray(most)
    return bytes(buffer[: await stream.receive_into(memoryview(buffer))])


both_ways = pytest.mark.parametrize("read", [some, filled])


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


@both_ways
async def test_a_cancelled_receiver_loses_no_byte(read: Read) -> None:
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
                        got += await read(theirs, 777)

    assert got == data


async def _cancel(scope: trio.CancelScope) -> None:
    scope.cancel()


@both_ways
@pytest.mark.parametrize("change", ["flip", "repeat"])
async def test_an_altered_record_breaks_the_stream(change: str, read: Read) -> None:
    """A record that was changed, or came twice, breaks the stream; nothing of it is delivered.

    Tried: Alter one record of a connection.
    Result: the connection breaks.
    """
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
                got += await read(theirs)

    assert got == expected


@both_ways
async def test_of_a_record_that_was_cut_nothing_is_delivered(read: Read) -> None:
    """The end of the stream, and no part of the record."""
    async with pair() as (ours, theirs):
        ours._encrypt(memoryview(b"secret"))
        await ours.transport.send_all(ours._outgoing.read()[:-1])
        await ours.transport.aclose()

        assert await read(theirs) == b""


@both_ways
async def test_damage_behind_good_records_breaks_the_stream_once_they_were_read(read: Read) -> None:
    async with pair() as (ours, theirs):
        ours._encrypt(memoryview(bytes(60_000)))
        ours._encrypt(memoryview(b"secret"))
        damaged = bytearray(ours._outgoing.read())
        damaged[-1] ^= 1
        await ours.transport.send_all(damaged)
        got = bytearray()
        with pytest.raises(trio.BrokenResourceError), trio.fail_after(60):
            while True:
                got += await read(theirs)
        with pytest.raises(trio.BrokenResourceError):
            await read(theirs)

    assert got == bytes(60_000)


@both_ways
@pytest.mark.parametrize("most", [1, 16_384, 16_385, 10_000_000])
async def test_what_is_read_ends_with_the_stream(most: int, read: Read) -> None:
    """A read takes all that has arrived, and no more than was asked for."""
    data = bytes(range(256)) * (4 if most == 1 else 4000)
    async with pair() as (ours, theirs):

        async def send() -> None:
            await ours.send_all(data)
            await ours.aclose()

        got = [b"-"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            with trio.fail_after(60):
                while got[-1]:
                    got.append(await read(theirs, most))

    assert data == b"".join(got[1:])
    assert max(map(len, got)) <= most


async def test_what_the_kernel_does_not_take_is_written_before_what_follows() -> None:
    """By writes that wait for nothing; while something waits, they take nothing."""
    async with pair() as (ours, theirs):
        taken: list[int] = []
        got = bytearray()
        while not ours.full:
            taken.append(ours.write_now([bytes([len(taken) % 251]) * 300_000, b"end"]))
        refused = ours.write_now([b"refused"])
        with trio.fail_after(60):
            while len(got) < sum(taken):
                got += await filled(theirs)
                ours.write_now([])
        ours.write_now([b"the end"])
        last = await some(theirs)

    assert (0, False) == (refused, ours.full)
    assert {300_003} == set(taken)
    assert got == b"".join(bytes([n % 251]) * 300_000 + b"end" for n in range(len(taken)))
    assert b"the end" == last


async def test_channels_over_tls_fill_each_other_at_the_same_time() -> None:
    """Neither stops to read while what it sends waits; large payloads among small ones."""
    payloads = [bytes([number]) * 8_000_000 for number in range(3)]
    received: list[list[bytes]] = []

    async def both(channel: FramedChannel) -> None:
        async def send() -> None:
            for payload in payloads:
                await channel.send([(Note("small"), b"small"), (Note("large"), payload)])

        got: list[bytes] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            while len(got) < 2 * len(payloads):
                for _, payload in await channel.receive():
                    assert isinstance(payload, Buffer)
                    got.append(bytes(payload))
        received.append(got)

    with trio.fail_after(60):
        async with pair() as (ours, theirs):  # noqa: SIM117
            async with FramedChannel(ours, CODEC) as a, FramedChannel(theirs, CODEC) as b:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(both, a)
                    nursery.start_soon(both, b)

    expected = [part for payload in payloads for part in (b"small", payload)]
    assert [expected, expected] == received
