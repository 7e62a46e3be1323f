"""Channels over sockets: when they write and how much they read."""

from __future__ import annotations

import socket
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from grain.edge.channel import FramedChannel
from grain.edge.errors import ChannelBroken, RemoteProtocolError
from grain.edge.framing.framed_channel import READ
from grain.edge.framing.frames import HEADER, FrameEncoder
from grain.edge.framing.writer import BLOCKED
from grain.edge.messages import Pieces
from grain_testkit.faulty_links import CODEC, Note

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.testing import MockClock

    from grain.edge.messages import Message, Payload


@asynccontextmanager
async def channels() -> AsyncGenerator[tuple[FramedChannel, FramedChannel, socket.socket]]:
    """A pair, and the socket of the second."""
    one, other = socket.socketpair()
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in (one, other)]
    async with FramedChannel(streams[0], CODEC) as a, FramedChannel(streams[1], CODEC) as b:
        yield a, b, other


def waiting(end: socket.socket) -> int:
    """Return the number of bytes that can be read."""
    try:
        return len(end.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return 0


async def test_a_single_message_is_written_at_once() -> None:
    """Without a pass through trio, which costs as much as the write."""
    async with channels() as (a, b, end):
        a.post([(Note("x", 1), None)])

        assert waiting(end)
        assert [(Note("x", 1), None)] == await b.receive()


async def test_what_is_posted_in_a_row_is_written_together(
    mock_clock: MockClock,  # time stands still
) -> None:
    """The first at once, those that follow from the same event in one piece."""
    async with channels() as (a, b, end):
        a.post([(Note("x", 0), None)])
        first = waiting(end)
        for n in range(1, 100):
            a.post([(Note("x", n), None)])
        assert first == waiting(end)

        got = [message for message, _ in await b.receive()]
        while len(got) < 100:
            got += [message for message, _ in await b.receive()]
        assert [Note("x", n) for n in range(100)] == got
        assert 2 == a._writer.writes


async def test_what_has_company_coming_waits_for_it() -> None:
    """As long as it takes trio to come by."""
    async with channels() as (a, b, end):
        a.post([(Note("x", 1), None)], more=True)
        assert not waiting(end)
        a.post([(Note("x", 2), None)])

        assert [(Note("x", 1), None), (Note("x", 2), None)] == await b.receive()


async def test_a_loop_that_never_waits_posts_as_much_as_the_kernel_takes() -> None:
    """Until it takes no more; the rest goes with a later post, and nothing overtakes."""
    batch = [(Note("x" * 100, n), None) for n in range(100)]
    async with channels() as (a, b, end):
        sent = 0
        while a.writes_through:
            time.sleep(0.0011)  # noqa: ASYNC251 - longer than a post waits for the writer's turn
            a.post(batch)
            sent += 1
        assert a._writer.state is BLOCKED
        read, kernel = b"", 0
        while a._writer.pending:
            kernel += len(more := end.recv(1 << 16, socket.MSG_DONTWAIT))
            read += more
            time.sleep(0.0011)  # noqa: ASYNC251
            a.post([(Note("last"), None)])
        assert kernel > 100_000
        got = [message for message, _ in b._decoder.feed(read)]
        while got[-1] != Note("last"):
            got += [message for message, _ in await b.receive()]

        assert [message for message, _ in batch] * sent == got[: 100 * sent]
        assert {Note("last")} == set(got[100 * sent :])


async def test_a_post_does_not_overtake() -> None:
    """Messages that were sent before go first."""
    async with channels() as (a, b, _):
        a.post([(Note("x", 1), None)], more=True)
        a.post([(Note("x", 2), None)])
        await a.send([(Note("x", 3), None)])

        got: list[object] = []
        while len(got) < 3:
            got += [message for message, _ in await b.receive()]
        assert [Note("x", 1), Note("x", 2), Note("x", 3)] == got


async def test_a_post_to_a_peer_that_is_gone_breaks_the_channel() -> None:
    """As a send does: the next one says so."""
    async with channels() as (a, b, _):
        await b.aclose()
        with pytest.raises(ChannelBroken):
            for n in range(100):
                a.post([(Note("x", n), None)])
                await trio.sleep(0.001)


@pytest.mark.parametrize(("error", "ended"), [(104, True), (32, True), (110, False), (113, False)])
async def test_a_connection_that_is_reset_has_ended_and_one_that_times_out_has_not(
    error: int, ended: bool
) -> None:
    class Failing(trio.abc.ReceiveStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes:  # noqa: ARG002
            raise trio.BrokenResourceError from OSError(error, "what the kernel says")

        async def aclose(self) -> None:
            pass

    sending, _ = trio.testing.memory_stream_one_way_pair()
    stream = trio.StapledStream(sending, Failing())
    async with FramedChannel(stream, CODEC) as channel:
        with pytest.raises(ChannelBroken) as first:
            await channel.receive()
        with pytest.raises(ChannelBroken) as again:
            await channel.send([(Note("x"), None)])

    assert [ended, ended] == [first.value.ended, again.value.ended]


async def test_a_flood_of_small_messages_comes_in_portions() -> None:
    """So that the receiver gets to its other peers in between."""
    async with channels() as (a, b, _), trio.open_nursery() as nursery:
        a._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # type: ignore[attr-defined]
        nursery.start_soon(a.send, [(Note("x", n), None) for n in range(200_000)])
        await wait_all_tasks_blocked()  # until a good part of it is there
        got = 0
        while got < 200_000:
            portion = len(await b.receive())
            assert portion <= 8192
            got += portion


async def test_large_payloads_arrive_whole() -> None:
    """Several, of sizes around those at which something changes."""
    sizes = [32 * 1024, 32 * 1024 + 1, 256 * 1024, 4 * 1024**2 - 1, 4 * 1024**2, 9_999_999]
    async with channels() as (a, b, _), trio.open_nursery() as nursery:
        sent: list[tuple[Message, Payload]]
        sent = [(Note("c", n), bytes([n]) * size) for n, size in enumerate(sizes)]
        nursery.start_soon(a.send, sent)
        got: list[bytes] = []
        while len(got) < len(sizes):
            batch: list[Any] = [*await b.receive()]
            got += [bytes(payload) for _, payload in batch]

        assert [payload for _, payload in sent] == got


async def test_a_large_payload_is_read_to_where_it_belongs() -> None:
    """But for what one read brings with its announcement; and what follows it loses nothing."""
    async with channels() as (a, b, _), trio.open_nursery() as nursery:
        feed, elsewhere = b._decoder.feed, 0

        def counting(data: bytes) -> list[Any]:
            nonlocal elsewhere
            elsewhere += len(data)
            return feed(data)

        b._decoder.feed = counting  # type: ignore[method-assign, assignment]
        large, pieces = bytes(20_000_000), Pieces([b"a" * 70_000, b"b", b"c" * 5_000_000])
        sent: list[tuple[Message, Payload]]
        sent = [(Note("l"), large), (Note("s"), b"x"), (Note("p"), pieces)]
        nursery.start_soon(a.send, sent)
        got: list[Any] = []
        while len(got) < 3:
            got += await b.receive()

        assert [large, b"x", b"".join(pieces.parts)] == [bytes(payload) for _, payload in got]
        assert elsewhere <= 3 * READ  # one for each payload, one for what is between them


async def test_nonsense_after_a_large_payload_breaks_the_channel_after_it() -> None:
    one, other = socket.socketpair()
    encoder = FrameEncoder(CODEC, 1 << 20)
    encoder.put([(Note("l"), bytes(100_000))])
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(one))
    async with FramedChannel(stream, CODEC) as channel:
        data = b"".join(encoder.take()) + HEADER.pack(1, 99) + b"more"
        assert len(data) == other.send(data)
        with pytest.raises(RemoteProtocolError, match="unknown kind 99"):
            while True:
                ((message, payload),) = await channel.receive()
                assert isinstance(payload, bytearray)
                assert (Note("l"), 100_000) == (message, len(payload))
    other.close()


async def test_unix_sockets_are_widened_and_others_left_alone() -> None:
    """As far as the system allows; also those that were made elsewhere, as a runner's."""
    one, other = socket.socketpair()
    usual = other.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    path = Path("/proc/sys/net/core/wmem_max")  # not seen within every network namespace
    limit = int(path.read_text()) if path.exists() else 0
    async with FramedChannel(trio.SocketStream(trio.socket.from_stdlib_socket(one)), CODEC):
        wide = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    assert wide >= max(usual, 2 * min(limit, 1 << 20))
    other.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        tcp = socket.create_connection(server.getsockname())
        usual = tcp.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        async with FramedChannel(trio.SocketStream(trio.socket.from_stdlib_socket(tcp)), CODEC):
            assert usual == tcp.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


async def test_a_socket_that_is_closed_already_is_told_of_by_its_first_use() -> None:
    """Not by the making of the channel."""
    one, other = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(one))
    await stream.aclose()
    async with FramedChannel(stream, CODEC) as channel:
        with pytest.raises((trio.ClosedResourceError, ChannelBroken)):
            await channel.receive()
    other.close()
