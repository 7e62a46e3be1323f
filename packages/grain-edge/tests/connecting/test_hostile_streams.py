"""Streams of any bytes at any speed, each handed to an acceptor beside an honest member."""

from __future__ import annotations

import math
import os
import struct
import tracemalloc
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from grain.edge.connecting.accept import Acceptor, run_handler
from grain.edge.connecting.greeting import introduce, join
from grain.edge.connecting.handshake_limiter import HANDSHAKE
from grain.edge.framing.frames import HEADER, LARGE, greeting_frame
from grain.edge.messages import PROTOCOL, Bye, Hello, Join, Welcome, encode_greeting
from grain.edge.transports.heartbeat import Heartbeat
from grain_testkit.faulty_links import CODEC, Note
from grain_testkit.frames_wire import wire

if TYPE_CHECKING:
    from grain.edge import Peer

TIMES = float(os.environ.get("GRAIN_FUZZ", "1"))
LOST = 60.0
BEAT = Heartbeat(10.0, 30.0, LOST)
HELLO = Hello(PROTOCOL, "1", "worker", "w", "host", 1)
GREETING = greeting_frame(encode_greeting(HELLO))
JOIN = greeting_frame(encode_greeting(Join(PROTOCOL, "1")))
NOTE = wire([(Note("x"), None)])
CARGO = wire([(Note("large"), bytes(40_000))])
ANNOUNCED = CODEC.encode(Note("x"), 1 << 30)
GIGABYTE = HEADER.pack(len(ANNOUNCED), LARGE) + ANNOUNCED

good = st.sampled_from([GREETING, JOIN, NOTE, CARGO, GIGABYTE, wire([(Bye(), None)])])
headers = st.builds(
    struct.Struct("!II").pack,
    st.sampled_from([0, 1, 7, 4096, 4097, 2**20, 2**31, 2**32 - 1]),
    st.sampled_from([0, 1, 2, 3, 4, 2**32 - 1]),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a good frame that is cut short, or has a byte changed."""
    frame = bytearray(draw(good))
    at = draw(st.integers(0, min(len(frame), 300) - 1))
    if draw(st.booleans()):
        return bytes(frame[:at])
    frame[at] ^= draw(st.integers(1, 255))
    return bytes(frame)


pieces = st.one_of(good, damaged(), headers, st.binary(max_size=100))
# Most begin as a member does, so that what follows gets further than the greeting.
beginnings = st.sampled_from([[], [GREETING], [GREETING, JOIN], [GREETING, JOIN]])
pauses = st.sampled_from([0.0, 0.0, 0.0, 5.0, HANDSHAKE - 1, LOST - 1])
scripts = st.tuples(
    beginnings, st.lists(st.tuples(pieces, pauses), max_size=8), st.sampled_from(["close", "stay"])
)


async def echo(peer: Peer) -> None:
    while True:
        await peer.channel.send(await peer.channel.receive())


def new_acceptor() -> Acceptor:
    return Acceptor(
        Welcome(PROTOCOL, "1", "host", 1),
        CODEC,
        partial(run_handler, codec=CODEC, heartbeat=BEAT, handler=echo),
    )


async def serve_honest(acceptor: Acceptor) -> None:
    """Fail unless a member is greeted and has its message back within a second."""
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acceptor.greet, theirs, "memory", "honest")
        with trio.fail_after(1):
            _, decoder = await introduce(ours, HELLO, CODEC)
            await join(ours)
            await ours.send_all(NOTE)
            while not (got := decoder.feed(await ours.receive_some(4096))):
                pass
        assert (Note("x"), None) in got
        nursery.cancel_scope.cancel()


async def lie(acceptor: Acceptor, script: Any) -> None:
    """Send a script to an acceptor, which must be rid of it in time."""
    beginning, steps, end = script
    ours, theirs = memory_stream_pair()
    sent = 0.0

    async def attack() -> None:
        nonlocal sent
        try:
            for piece, pause in [*((piece, 0.0) for piece in beginning), *steps]:
                await ours.send_all(piece)
                sent = trio.current_time()
                await trio.sleep(pause)
            if end == "close":
                await ours.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it was cut off

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attack)
        nursery.start_soon(serve_honest, acceptor)
        await acceptor.greet(theirs, "memory", "hostile")
        # One beat more, as the channel counts beats.
        assert trio.current_time() <= sent + LOST + 2 * BEAT.interval
        nursery.cancel_scope.cancel()


@settings(max_examples=int(150 * TIMES), deadline=None)
@given(scripts)
def test_any_bytes_at_any_speed_end_only_their_own_connection(script: Any) -> None:
    """Tried: Any bytes at any speed, cut anywhere, with any length announced.
    Result: end only their own connection, in time.
    """
    trio.run(partial(lie, new_acceptor(), script), clock=MockClock(autojump_threshold=0.0))


@pytest.mark.parametrize("whole", [GREETING, GREETING + JOIN], ids=["hello", "join"])
async def test_a_greeting_byte_by_byte_has_the_time_of_a_handshake(
    whole: bytes, autojump_clock: MockClock
) -> None:
    """A peer that always sends just in time holds its place for ten seconds.

    Tried: A greeting byte by byte.
    Result: has ten seconds.
    """
    ours, theirs = memory_stream_pair()

    async def drip() -> None:
        with suppress(trio.BrokenResourceError):  # it was cut off
            for byte in whole[:-1]:
                await ours.send_all(bytes([byte]))
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip)
        with trio.fail_after(HANDSHAKE + 0.1):
            await new_acceptor().greet(theirs, "memory", "slow")
        nursery.cancel_scope.cancel()


async def test_a_hundred_members_that_announce_a_gigabyte_each_take_no_memory(
    autojump_clock: MockClock,
) -> None:
    """A member may announce the most that a message may have, and not send it.

    Tried: A hundred members that announce a gigabyte each.
    Result: takes no memory.
    """
    acceptor = new_acceptor()
    tracemalloc.start()
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                ours, theirs = memory_stream_pair()
                nursery.start_soon(acceptor.greet, theirs, "memory", "large")
                await ours.send_all(GREETING + JOIN + GIGABYTE)
            await trio.sleep(5)
            await serve_honest(acceptor)
            _, peak = tracemalloc.get_traced_memory()
            nursery.cancel_scope.cancel()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024**2


async def test_a_stranger_makes_the_head_store_no_more_than_a_greeting(
    autojump_clock: MockClock,
) -> None:
    """What follows an unfinished greeting is not read.

    Tried: Have more stored than a greeting.
    Result: not read.
    """
    ours, theirs = memory_stream_pair()
    greeted = trio.Event()

    async def greet() -> None:
        await new_acceptor().greet(theirs, "memory", "stranger")
        greeted.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(greet)
        tracemalloc.start()
        try:
            await ours.send_all(HEADER.pack(4096, 1) + bytes(4095))
            await trio.sleep(1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert not greeted.is_set()
        assert peak < 1024**2
        with trio.fail_after(HANDSHAKE):
            await greeted.wait()
    assert math.isclose(HANDSHAKE, trio.current_time(), abs_tol=0.5)
