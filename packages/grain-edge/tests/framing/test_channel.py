"""Channels over in-memory streams, with faults."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from grain.edge.channel import FramedChannel, Heartbeat, MemoryChannel, WireChannel, memory_channels
from grain.edge.errors import ChannelBroken, LocalProtocolError, RemoteProtocolError
from grain_testkit.faulty_links import CODEC, Alarm, Cargo, FaultyLink, Note


async def collect(channel: WireChannel, count: int) -> list[Any]:
    got: list[Any] = []
    while len(got) < count:
        got += await channel.receive()
    return [(m, None if p is None else bytes(p)) for m, p in got]


async def test_messages_and_payloads_travel_in_both_directions_at_once() -> None:
    """Messages and payloads, small and large, in both directions at once."""
    there = [(Note("x", n), bytes(n)) for n in range(0, 200_000, 37_777)]
    back = [(Note("y", n), None) for n in range(1000)]
    async with FaultyLink().channels() as (a, b), trio.open_nursery() as nursery:
        nursery.start_soon(a.send, there)
        nursery.start_soon(b.send, back)

        assert await collect(b, len(there)) == there
        assert await collect(a, len(back)) == back


async def test_messages_arrive_over_a_stream_that_delivers_single_bytes() -> None:
    """The stream may deliver as it likes."""
    link = FaultyLink()
    link.there.piece = 1
    async with link.channels() as (a, b):
        await a.send([(Note("slow", 3), b"payload")])

        assert await collect(b, 1) == [(Note("slow", 3), b"payload")]


async def test_what_is_sent_during_a_write_goes_out_together() -> None:
    """Also where it comes from several senders."""
    link = FaultyLink()
    writes = 0
    put = link.there.put

    async def counting(data: bytes) -> None:
        nonlocal writes
        writes += 1
        await put(data)

    link.there.put = counting  # type: ignore[method-assign]
    async with link.channels() as (a, b):
        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(a.send, [(Note("x", n), None)])
        assert len(await collect(b, 100)) == 100

        assert writes <= 3


async def test_a_goodbye_ends_the_channel_after_what_was_sent() -> None:
    link = FaultyLink()
    async with FramedChannel(link.b, CODEC) as b:
        async with FramedChannel(link.a, CODEC) as a:
            await a.send([(Cargo("c"), bytes(1 << 20)), (Note("n"), bytes(1 << 19))])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(a.aclose)
                assert len(await collect(b, 2)) == 2
        with pytest.raises(trio.EndOfChannel):
            await b.receive()
        with pytest.raises(trio.ClosedResourceError):
            await a.send([(Note(), None)])


@pytest.mark.parametrize("after", [0, 5, 100, 300_000])
async def test_a_cut_connection_breaks_senders_and_receivers(after: int) -> None:
    """A loss is an error for both, and no clean end."""
    link = FaultyLink()
    link.there.cut_after = after
    async with link.channels() as (a, b):
        await a.send([(Note("x"), bytes(400_000))])
        with pytest.raises(ChannelBroken):
            await b.receive()
        with pytest.raises(ChannelBroken):
            await a.receive()
        with pytest.raises(ChannelBroken):
            while True:
                await a.send([(Note("y"), None)])


async def test_an_end_without_a_goodbye_is_a_loss() -> None:
    """A killed process is not mistaken for one that has left."""
    link = FaultyLink()
    async with FramedChannel(link.b, CODEC) as b:
        await link.a.aclose()
        with pytest.raises(ChannelBroken, match="without a goodbye") as info:
            await b.receive()
        assert info.value.ended


async def test_a_peer_that_breaks_a_rule_is_named_and_cut_off() -> None:
    """The error says what the peer did, now and at the next attempt; the stream is closed."""
    link = FaultyLink()
    async with FramedChannel(link.b, CODEC) as b:
        await link.a.send_all(b"GET / HTTP/1.1\r\n\r\n")
        for _ in range(2):
            with pytest.raises(RemoteProtocolError, match="the peer sent a frame of unknown kind"):
                await b.receive()
        with pytest.raises(ChannelBroken):
            await b.send([(Note(), None)])

        assert await link.a.receive_some() == b""


async def test_heartbeats_keep_an_idle_channel_alive(autojump_clock: MockClock) -> None:
    """An hour of silence from the programs is no silence on the wire."""
    async with FaultyLink().channels() as (a, b):
        with trio.move_on_after(3600):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(a.receive)
                nursery.start_soon(b.receive)

        assert a.silent_for() <= 10
        assert b.silent_for() <= 10


async def test_a_minute_of_silence_breaks_the_channel(autojump_clock: MockClock) -> None:
    """On the side that receives nothing."""
    link = FaultyLink()
    async with link.channels() as (a, b), trio.open_nursery() as nursery:
        link.there.hold()
        nursery.start_soon(a.send, [(Note("x"), None)])
        start = trio.current_time()
        with pytest.raises(ChannelBroken, match="silent for [67]0 s") as info:
            await b.receive()

        assert not info.value.ended
        assert 60 <= trio.current_time() - start <= 80
        assert b.silent_for() > b.suspect_after


async def test_a_cut_of_20_seconds_is_survived(autojump_clock: MockClock) -> None:
    """Both directions dead for 20 s: late, suspected by a caller who asks, but not lost."""
    link = FaultyLink()
    async with link.channels() as (a, b), trio.open_nursery() as nursery:
        await trio.sleep(15)
        link.there.hold()
        link.back.hold()
        nursery.start_soon(a.send, [(Note("through"), None)])
        with trio.move_on_after(20):
            await b.receive()
        link.there.release()
        link.back.release()

        assert await collect(b, 1) == [(Note("through"), None)]


async def test_a_program_that_does_not_receive_loses_no_peer(autojump_clock: MockClock) -> None:
    """A program that is busy for ten minutes finds the channel as it left it."""
    async with FaultyLink().channels() as (a, b):
        await trio.sleep(600)
        await a.send([(Note("x"), None)])

        assert await collect(b, 1) == [(Note("x"), None)]


async def test_a_cancelled_receive_loses_nothing(autojump_clock: MockClock) -> None:
    """Even amid a frame."""
    link = FaultyLink()
    link.there.piece = 7
    link.there.delay = 1.0
    async with link.channels() as (a, b):
        await a.send([(Note("x", n), b"abc") for n in range(50)])
        got: list[Any] = []
        while len(got) < 50:
            with trio.move_on_after(0.001):
                got += await b.receive()
            await trio.sleep(0.3)

        assert [m.number for m, _ in got] == list(range(50))


async def test_a_cancelled_send_tears_no_frame(autojump_clock: MockClock) -> None:
    """A sender that gives up while the pipe is full leaves the channel whole."""
    async with FaultyLink().channels() as (a, b), trio.open_nursery() as nursery:
        await a.send([(Note("big"), bytes(1 << 23))])
        with trio.move_on_after(1) as scope:
            await a.send([(Note("never"), None)])
        nursery.start_soon(a.send, [(Note("after"), None)])
        got = await collect(b, 2)

        assert scope.cancelled_caught
        assert [m.text for m, _ in got] == ["big", "after"]


async def test_a_wrong_message_is_the_senders_error() -> None:
    """And the channel goes on."""
    async with FaultyLink().channels() as (a, b):
        with pytest.raises(LocalProtocolError):
            await a.send([(Alarm("x"), b"payload")])
        await a.send([(Alarm("x"), None)])

        assert await collect(b, 1) == [(Alarm("x"), None)]


async def test_exceptions_leave_the_channels_block_unwrapped() -> None:
    """The body's exception leaves the channel's block as it is, not within a group."""
    with pytest.raises(KeyError):
        async with FaultyLink().channels():
            raise KeyError("x")


async def test_two_receivers_are_refused() -> None:
    async with FaultyLink().channels() as (_, b), trio.open_nursery() as nursery:
        nursery.start_soon(b.receive)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await b.receive()
        nursery.cancel_scope.cancel()


async def test_a_memory_channel_passes_the_very_objects() -> None:
    """Any object may be a payload, and it is not copied."""
    a: MemoryChannel[object, object]
    b: MemoryChannel[object, object]
    a, b = memory_channels()
    payload = object()
    batch = [(Note("x"), payload)]
    async with a, b:
        await a.send(batch)
        got = await b.receive()

        assert got[0][1] is payload
        await a.aclose()
        with pytest.raises(trio.EndOfChannel):
            await b.receive()
        with pytest.raises(ChannelBroken):
            await b.send(batch)


async def test_the_heartbeat_is_a_parameter(autojump_clock: MockClock) -> None:
    """Tests of other packages may have shorter lives."""
    link = FaultyLink()
    heartbeat = Heartbeat(interval=1, lost=3)
    async with link.channels(CODEC, heartbeat) as (_, b):
        link.there.hold()
        with pytest.raises(ChannelBroken, match="silent for [34] s"):
            await b.receive()


async def test_a_memory_channel_receives_all_that_came_meanwhile() -> None:
    """Several batches arrive as one."""
    a: WireChannel
    b: WireChannel
    a, b = memory_channels()
    async with a, b:
        await a.send([(Note("x"), None)])
        a.post([(Note("y"), None), (Note("z"), None)])

        assert [Note("x"), Note("y"), Note("z")] == [message for message, _ in await b.receive()]


async def test_a_memory_channel_calls_its_receiver_at_once() -> None:
    """A function that receives is called before the sender goes on, in order, until the end."""
    a: WireChannel
    b: WireChannel
    a, b = memory_channels()
    got: list[object] = []
    async with a, b, trio.open_nursery() as nursery:
        a.post([(Note("early"), None)])
        nursery.start_soon(b.receive_into, lambda batch: got.extend(m for m, _ in batch))
        await trio.testing.wait_all_tasks_blocked()
        a.post([(Note("x"), None)])

        assert [Note("early"), Note("x")] == got
        with pytest.raises(trio.BusyResourceError):
            await b.receive()
        await a.aclose()  # ends receive_into, or this test would not


async def test_a_memory_channel_lets_senders_wait_while_too_much_waits() -> None:
    """A sender waits while more than the backlog is not received; posting does not."""
    a: WireChannel
    b: WireChannel
    a, b = memory_channels(backlog=1)
    async with a, b, trio.open_nursery() as nursery:
        a.post([(Note("x"), None), (Note("y"), None)])
        nursery.start_soon(a.send, [(Note("z"), None)])
        await trio.testing.wait_all_tasks_blocked()

        assert [Note("x"), Note("y")] == [message for message, _ in await b.receive()]
        assert [Note("z")] == [message for message, _ in await b.receive()]
