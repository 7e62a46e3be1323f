"""Frames that come in, without I/O: whole, in any pieces, damaged or against the rules."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.edge.errors import RemoteProtocolError
from grain.edge.framing.frames import BATCH, CHUNK, HEADER, INLINE, OPEN
from grain.edge.framing.frames_in import Inbox
from grain.edge.framing.frames_out import Outbox
from grain.edge.messages import ORDINARY, Codec, Pieces
from grain.edge.testing import CODEC, Alarm, Cargo, Note
from grain_testkit.frames_wire import Loose, inbox, wire

SMALL = st.one_of(st.none(), st.binary(max_size=40))
LARGE = st.integers(INLINE - 2, INLINE + 5000).map(lambda n: bytes(range(256)) * (n // 256 + 1))
PIECES = st.lists(st.one_of(st.binary(max_size=40), LARGE), max_size=5).map(Pieces)
PAIRS = st.one_of(
    st.tuples(st.builds(Note, text=st.text(max_size=20), number=st.integers(0, 2**40)), SMALL),
    st.tuples(st.builds(Alarm, text=st.text(max_size=5)), st.none()),
    st.tuples(st.builds(Cargo, text=st.text(max_size=5)), LARGE),
    st.tuples(st.builds(Note, text=st.just("large")), LARGE),
    st.tuples(st.builds(Note, text=st.just("pieces")), PIECES),
)


def lane(pairs: list[Any], number: int) -> list[Any]:
    return [(m, None if p is None else joined(p)) for m, p in pairs if m.lane == number]


def joined(payload: Any) -> bytes:
    return b"".join(payload.parts) if isinstance(payload, Pieces) else bytes(payload)


@given(st.lists(PAIRS, max_size=12), st.data())
@settings(deadline=None)
def test_any_chunking_gives_back_what_was_sent(pairs: list[Any], data: st.DataObject) -> None:
    """However the bytes are cut into pieces, each lane arrives complete and in order."""
    sent = wire(pairs, data.draw(st.integers(100, 70000)))
    cuts = data.draw(st.lists(st.integers(0, len(sent)), max_size=20).map(sorted))
    box, got = inbox(), []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        got += box.feed(sent[start:end])

    assert [lane(got, n) for n in range(4)] == [lane(pairs, n) for n in range(4)]
    assert box.clean


def test_byte_by_byte() -> None:
    """The smallest pieces there are."""
    pairs = [(Note("a", 1), b"x"), (Note("b"), b"y" * 40000), (Alarm("c"), None)]
    box, got = inbox(), []
    for byte in wire(pairs):
        got += box.feed(bytes([byte]))

    assert [lane(got, n) for n in range(4)] == [lane(pairs, n) for n in range(4)]


@given(st.lists(PAIRS, min_size=1, max_size=5), st.data())
@settings(deadline=None)
def test_truncated_is_a_prefix(pairs: list[Any], data: st.DataObject) -> None:
    """Of a stream that was cut, whole messages come out and nothing else."""
    sent = wire(pairs)
    box = inbox()
    got = box.feed(sent[: data.draw(st.integers(0, len(sent) - 1))])

    for number in range(4):
        assert lane(got, number) == lane(pairs, number)[: len(lane(got, number))]
    assert len(got) < len(pairs)


@given(st.lists(PAIRS, max_size=5), st.data())
@settings(deadline=None)
def test_flipped_bits_never_crash(pairs: list[Any], data: st.DataObject) -> None:
    """Damaged bytes give messages or a RemoteProtocolError, never anything else."""
    sent = bytearray(wire(pairs) + HEADER.pack(3, BATCH, 1, 0) + b"abc")
    for _ in range(data.draw(st.integers(1, 5))):
        sent[data.draw(st.integers(0, min(len(sent), 300) - 1))] ^= 1 << data.draw(
            st.integers(0, 7)
        )
    try:
        inbox().feed(bytes(sent))
    except RemoteProtocolError as e:
        assert str(e)


@given(st.binary(max_size=200))
def test_noise_never_crashes(noise: bytes) -> None:
    """Whatever comes, before the greeting and after it."""
    for box in (Inbox(CODEC, greetings=1), inbox()):
        try:
            box.feed(noise)
        except RemoteProtocolError as e:
            assert str(e)


def frame(kind: int, lane_: int, body: bytes, length: int | None = None, zero: int = 0) -> bytes:
    return HEADER.pack(len(body) if length is None else length, kind, lane_, zero) + body


@pytest.mark.parametrize(
    ("data", "naming"),
    [
        (frame(9, 1, b""), "unknown kind 9"),
        (frame(BATCH, 200, b""), "lane 200"),
        (frame(BATCH, 1, b"", zero=1), "unknown kind"),
        (frame(BATCH, 1, b"", length=2**31), "2147483648 bytes"),
        (frame(CHUNK, 1, b"x"), "no payload"),
        (frame(1, 0, b"x"), "greeting over"),
        (frame(BATCH, 1, b"\x91\x92\x91\xa4What\xc0"), "What"),
        (frame(BATCH, 1, b"\x91\x92\x94\xa4Note\xa1x\x01\x02\xc0"), "length"),
        (frame(BATCH, 1, b"\x91\x92\x93\xa4Note\x05\x01\xc0"), "str"),
        (frame(BATCH, 1, b"\x91\x92\x92\xa5Alarm\xa1x\xc0"), "lane 1, not 0"),
        (frame(BATCH, 0, b"\x91\x92\x92\xa5Alarm\xa1x\xc4\x01z"), "0 at most"),
        (frame(OPEN, 2, b"\x92\x92\xa5Cargo\xa1x\xce\x00\x20\x00\x00"), "1048576 at most"),
        (frame(OPEN, 2, b"\x92\x92\xa5Cargo\xa1x\x05"), "large payload of 5"),
        (
            frame(OPEN, 2, b"\x92\x92\xa5Cargo\xa1x\xce\x00\x0f\x00\x00")
            + frame(BATCH, 2, b"\x90"),
            "unfinished",
        ),
        (
            frame(OPEN, 2, b"\x92\x92\xa5Cargo\xa1x\xcd\x90\x00") + frame(CHUNK, 2, bytes(40000)),
            "lacks 36864",
        ),
    ],
)
def test_every_broken_rule_is_named(data: bytes, naming: str) -> None:
    """What a peer does wrong is a RemoteProtocolError that says what."""
    with pytest.raises(RemoteProtocolError, match=naming):
        inbox().feed(data)


@pytest.mark.parametrize("depth", [600, 5000, 500_000])
@pytest.mark.parametrize("kind", [BATCH, OPEN])
def test_nesting_is_no_way_to_crash_a_reader(kind: int, depth: int) -> None:
    """A field of any type takes what a peer nests, but not more than the interpreter bears."""
    nested = b"\x92\xa5Loose" + b"\x91" * depth + b"\xff"  # there is no such byte in MessagePack
    body = b"\x91\x92" + nested if kind == BATCH else b"\x92" + nested
    inbox = Inbox(Codec(Loose))
    with pytest.raises(RemoteProtocolError, match="not valid"):
        inbox.feed(HEADER.pack(len(body), kind, ORDINARY, 0) + body)


def test_an_announced_payload_costs_nothing_until_it_comes() -> None:
    """Neither memory nor the time to clear it."""
    opened = CODEC.encode(Note("x"), 1 << 30)
    inbox = Inbox(CODEC)
    tracemalloc.start()
    try:
        inbox.feed(HEADER.pack(len(opened), OPEN, Note.lane, 0) + opened)
        inbox.feed(HEADER.pack(64 * 1024, CHUNK, Note.lane, 0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert inbox.sink is not None
    assert peak < 1 << 20


def test_a_view_that_somebody_keeps_does_not_matter() -> None:
    """As a traceback may, of a read into it that was cancelled."""
    payload = bytes(range(256)) * 1024
    outbox = Outbox(CODEC, 64 * 1024)
    outbox.push([(Cargo("x"), payload)])
    inbox = Inbox(CODEC)
    kept, got = [], []
    while buffers := outbox.pull():
        for buffer in buffers:
            got += inbox.feed(buffer)
            kept.append(inbox.sink)

    assert got == [(Cargo("x"), payload)]
