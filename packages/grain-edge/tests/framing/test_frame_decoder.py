"""Frames that come in, without I/O: whole, in any pieces, damaged or against the rules."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.edge.errors import RemoteProtocolError
from grain.edge.framing.frames import BATCH, HEADER, INLINE, LARGE, FrameDecoder, FrameEncoder
from grain.edge.messages import Codec, Pieces
from grain_testkit.faulty_links import CODEC, Alarm, Cargo, Note
from grain_testkit.frames_wire import Loose, decoder, wire

SMALL = st.one_of(st.none(), st.binary(max_size=40))
LONG = st.integers(INLINE - 2, INLINE + 5000).map(lambda n: bytes(range(256)) * (n // 256 + 1))
PIECES = st.lists(st.one_of(st.binary(max_size=40), LONG), max_size=5).map(Pieces)
PAIRS = st.one_of(
    st.tuples(st.builds(Note, text=st.text(max_size=20), number=st.integers(0, 2**40)), SMALL),
    st.tuples(st.builds(Alarm, text=st.text(max_size=5)), st.none()),
    st.tuples(st.builds(Cargo, text=st.text(max_size=5)), LONG),
    st.tuples(st.builds(Note, text=st.just("large")), LONG),
    st.tuples(st.builds(Note, text=st.just("pieces")), PIECES),
)


def plain(pairs: list[Any]) -> list[Any]:
    return [(m, None if p is None else joined(p)) for m, p in pairs]


def joined(payload: Any) -> bytes:
    return b"".join(payload.parts) if isinstance(payload, Pieces) else bytes(payload)


@given(st.lists(PAIRS, max_size=12), st.data())
@settings(deadline=None)
def test_messages_arrive_in_order_however_the_bytes_are_cut(
    pairs: list[Any], data: st.DataObject
) -> None:
    sent = wire(pairs, data.draw(st.integers(100, 70000)))
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=20).map(sorted))
    box, got = decoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        got += box.feed(sent[start:end])

    assert plain(pairs) == plain(got)
    assert box.clean


def test_messages_arrive_byte_by_byte() -> None:
    pairs = [(Note("a", 1), b"x"), (Note("b"), b"y" * 40000), (Alarm("c"), None)]
    box, got = decoder(), []
    for byte in wire(pairs):
        got += box.feed(bytes([byte]))

    assert plain(pairs) == plain(got)


@given(st.lists(PAIRS, min_size=1, max_size=5), st.data())
@settings(deadline=None)
def test_of_a_stream_that_was_cut_only_whole_messages_come_out(
    pairs: list[Any], data: st.DataObject
) -> None:
    sent = wire(pairs)
    box = decoder()
    got = box.feed(sent[: data.draw(st.integers(0, len(sent) - 1))])

    assert plain(pairs)[: len(got)] == plain(got)
    assert len(got) < len(pairs)


@given(st.lists(PAIRS, max_size=5), st.data())
@settings(deadline=None)
def test_flipped_bits_never_crash(pairs: list[Any], data: st.DataObject) -> None:
    """Damaged bytes give messages or a RemoteProtocolError, never anything else."""
    sent = bytearray(wire(pairs) + HEADER.pack(3, BATCH) + b"abc")
    for _ in range(data.draw(st.integers(1, 5))):
        sent[data.draw(st.integers(0, min(len(sent), 300) - 1))] ^= 1 << data.draw(
            st.integers(0, 7)
        )
    try:
        decoder().feed(bytes(sent))
    except RemoteProtocolError as e:
        assert str(e)


@given(st.binary(max_size=200))
def test_noise_never_crashes(noise: bytes) -> None:
    """Neither before the greeting nor after it."""
    for box in (FrameDecoder(CODEC, greetings=1), decoder()):
        try:
            box.feed(noise)
        except RemoteProtocolError as e:
            assert str(e)


def frame(kind: int, body: bytes, length: int | None = None) -> bytes:
    return HEADER.pack(len(body) if length is None else length, kind) + body


@pytest.mark.parametrize(
    ("data", "naming"),
    [
        (frame(9, b""), "unknown kind 9"),
        (frame(BATCH + (1 << 8), b""), "unknown kind 258"),
        (frame(BATCH, b"", length=2**31), "2147483648 bytes"),
        (frame(1, b"x"), "greeting over"),
        (frame(BATCH, b"\x91\x92\x91\xa4What\xc0"), "What"),
        (frame(BATCH, b"\x91\x92\x94\xa4Note\xa1x\x01\x02\xc0"), "length"),
        (frame(BATCH, b"\x91\x92\x93\xa4Note\x05\x01\xc0"), "str"),
        (frame(BATCH, b"\x91\x92\x92\xa5Alarm\xa1x\xc4\x01z"), "0 at most"),
        (frame(LARGE, b"\x92\x92\xa5Cargo\xa1x\xce\x00\x20\x00\x00"), "1048576 at most"),
        (frame(LARGE, b"\x92\x92\xa5Cargo\xa1x\x05"), "large payload of 5"),
        (frame(LARGE, b"\x92\x92\xa5Cargo\xa1x\xff"), "0 at most|1048576 at most"),
        (frame(LARGE, b"\x92\x91\xa4What\xcd\x90\x00"), "What"),
        (
            # The payload is followed by what is not a frame.
            frame(LARGE, b"\x92\x92\xa5Cargo\xa1x\xcd\x90\x00") + bytes(36864) + frame(7, b""),
            "unknown kind 7",
        ),
    ],
)
def test_every_broken_rule_is_named(data: bytes, naming: str) -> None:
    with pytest.raises(RemoteProtocolError, match=naming):
        decoder().feed(data)


@pytest.mark.parametrize("depth", [600, 5000, 500_000])
@pytest.mark.parametrize("kind", [BATCH, LARGE])
def test_nesting_is_no_way_to_crash_a_reader(kind: int, depth: int) -> None:
    """A field of any type takes what a peer nests, but not more than the interpreter bears.

    Tried: Data that is nested 500,000 deep.
    Result: refused.
    """
    nested = b"\x92\xa5Loose" + b"\x91" * depth + b"\xff"  # there is no such byte in MessagePack
    body = b"\x91\x92" + nested if kind == BATCH else b"\x92" + nested
    decoder = FrameDecoder(Codec(Loose))
    with pytest.raises(RemoteProtocolError, match="not valid"):
        decoder.feed(HEADER.pack(len(body), kind) + body)


def test_an_announced_payload_costs_nothing_until_it_comes() -> None:
    """Neither memory nor the time to clear it."""
    announced = CODEC.encode(Note("x"), 1 << 30)
    decoder = FrameDecoder(CODEC)
    tracemalloc.start()
    try:
        decoder.feed(HEADER.pack(len(announced), LARGE) + announced)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert decoder.sink is not None
    assert peak < 1 << 20


def test_a_view_that_is_kept_does_not_matter() -> None:
    """As a traceback may, of a read into it that was cancelled."""
    payload = bytes(range(256)) * 1024
    encoder = FrameEncoder(CODEC, 64 * 1024)
    encoder.put([(Cargo("x"), payload)])
    decoder = FrameDecoder(CODEC)
    kept, got = [], []
    while buffers := encoder.take():
        for buffer in buffers:
            got += decoder.feed(buffer)
            kept.append(decoder.sink)

    assert got == [(Cargo("x"), payload)]


def test_a_payload_can_be_read_straight_to_where_it_belongs() -> None:
    payload = bytes(range(256)) * 1024
    sent = wire([(Cargo("x"), payload)])
    decoder = FrameDecoder(CODEC)
    assert [] == decoder.feed(sent[: -len(payload) + 5])
    at, got = 5, []
    while decoder.sink is not None:
        count = min(1000, len(decoder.sink))
        decoder.sink[:count] = payload[at : at + count]
        got += decoder.filled(count)
        at += count

    assert [(Cargo("x"), payload)] == got
    assert decoder.clean
