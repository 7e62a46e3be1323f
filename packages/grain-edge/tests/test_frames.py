"""Frames and messages, without I/O."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.edge._frames import BATCH, CHUNK, HEADER, INLINE, OPEN, greeting_frame
from grain.edge._inbox import Inbox
from grain.edge._outbox import Outbox
from grain.edge.errors import LocalProtocolError, RemoteProtocolError, VersionMismatch
from grain.edge.messages import (
    MAX_GREETING,
    MAX_MESSAGE,
    ORDINARY,
    PROTOCOL,
    Codec,
    Hello,
    Message,
    Pieces,
    Refusal,
    decode_greeting,
    encode_greeting,
)
from grain.edge.testing import CODEC, Alarm, Cargo, Note

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


def inbox() -> Inbox:
    return Inbox(CODEC)


def wire(pairs: list[Any], chunk: int = 1000) -> bytes:
    outbox = Outbox(CODEC, chunk)
    outbox.push(pairs)
    out = b""
    while buffers := outbox.pull():
        out += b"".join(buffers)
    assert outbox.pending == 0
    return out


def lane(pairs: list[Any], number: int) -> list[Any]:
    return [(m, None if p is None else joined(p)) for m, p in pairs if m.lane == number]


def joined(payload: Any) -> bytes:
    return b"".join(payload.parts) if isinstance(payload, Pieces) else bytes(payload)


class Loose(Message, frozen=True):
    """A message with a field of any type."""

    content: Any


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


@pytest.mark.parametrize("count", [1, 15, 16, 4096, 4097, 70_000])
def test_however_many_messages_are_pushed_together(count: int) -> None:
    """They are encoded together, up to some number."""
    pairs = [(Note("x", n), bytes(n % 3) or None) for n in range(count)]

    assert pairs == inbox().feed(wire(pairs))


def test_a_frame_has_a_limit_however_its_messages_were_pushed() -> None:
    """The peer is asked in between whether something else is urgent."""
    outbox = Outbox(CODEC, 1000)
    for _ in range(10):
        outbox.push([(Note("x" * 100), bytes(200)) for _ in range(50)])
    waited = outbox.pending

    sizes = []
    while buffers := outbox.pull():
        sizes.append(sum(map(len, buffers)))

    assert 0 == outbox.pending
    assert waited == sum(sizes) - len(sizes) * (HEADER.size + 5)
    assert 1 < len(sizes)
    assert max(sizes) < 2 * 65536


@pytest.mark.parametrize("bad", [(Loose(1), None), (Alarm("x"), b"1"), (Note("x"), "text")])
def test_of_a_batch_with_a_bad_message_nothing_is_sent(bad: Any) -> None:
    """Wherever that is."""
    outbox = Outbox(CODEC, 1000)

    with pytest.raises(LocalProtocolError):
        outbox.push([(Note("good"), None), (Alarm("good"), None), bad])

    assert 0 == outbox.pending
    assert [] == outbox.pull()


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


def test_urgent_waits_for_one_chunk_at_most() -> None:
    """An alarm sent amid a large payload is in the very next write."""
    outbox = Outbox(CODEC, 256 * 1024)
    outbox.push([(Note("huge"), bytes(1 << 24))])
    outbox.pull()
    outbox.push([(Alarm("now"), None)])

    first = b"".join(outbox.pull())

    assert len(first) < 257 * 1024
    assert first.find(b"now") < 60


def test_pieces_are_sent_as_they_are() -> None:
    """Nothing is copied: the bytes of the very objects are handed to whoever writes."""
    large = bytes(100_000)
    outbox = Outbox(CODEC, 1 << 20)
    outbox.push([(Note("n"), Pieces([b"head", large, b"tail"]))])

    buffers = outbox.pull()

    assert [large] == [b.obj for b in buffers if isinstance(b, memoryview) and len(b) > 99_999]
    assert any(b.obj is large for b in buffers if isinstance(b, memoryview))
    assert (0, []) == (outbox.pending, outbox.pull())


def test_so_many_pieces_as_one_write_takes_are_in_one_frame() -> None:
    """However small they are."""
    outbox = Outbox(CODEC, 1 << 20)
    outbox.push([(Note("n"), Pieces([b"xy"] * 50_000))])
    out = []
    while buffers := outbox.pull():
        assert len(buffers) < 1024
        out += buffers

    (got,) = inbox().feed(b"".join(out))
    assert (Note("n"), b"xy" * 50_000) == (got[0], bytes(got[1]))


def test_pieces_have_the_limits_of_any_payload() -> None:
    """All of them together; and nothing is sent of what is refused."""
    outbox = Outbox(CODEC, 1000)
    with pytest.raises(LocalProtocolError, match="1048576 at most"):
        outbox.push([(Cargo("c"), Pieces([bytes(1 << 20), b"x"]))])
    with pytest.raises(LocalProtocolError, match="0 at most"):
        outbox.push([(Alarm("c"), Pieces([b"x"]))])
    assert (0, []) == (outbox.pending, outbox.pull())


@pytest.mark.parametrize("part", [bytearray(b"x"), memoryview(b"x"), bytearray(), "x", None])
def test_what_could_be_changed_is_no_piece(part: Any) -> None:
    """It would have to be copied, as nobody knows when it is sent."""
    with pytest.raises(TypeError, match=type(part).__name__):
        Pieces([b"a", part])


def test_lanes_take_turns() -> None:
    """A bulk payload and an ordinary one are sent alternately, so neither waits for the other."""
    outbox = Outbox(CODEC, 1000)
    outbox.push([(Note("n"), bytes(100_000)), (Cargo("c"), bytes(100_000))])
    order = [HEADER.unpack(bytes(outbox.pull()[0][-8:]))[2] for _ in range(6)]

    assert sorted(order[:2]) == [1, 2]
    assert order == order[:2] * 3


def test_large_payloads_are_not_copied_on_the_way_out() -> None:
    """What is written is a view of the caller's own memory."""
    payload = bytearray(1 << 20)
    outbox = Outbox(CODEC, 1 << 18)
    outbox.push([(Note("x"), payload)])
    view = outbox.pull()[-1]
    payload[0] = 7

    assert view[0] == 7


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


def test_nothing_but_greetings_before_the_greeting() -> None:
    """A peer that is not welcomed yet cannot have a message parsed."""
    with pytest.raises(RemoteProtocolError, match="greeting not over"):
        Inbox(CODEC, greetings=1).feed(wire([(Note("x"), None)]))


def test_messages_may_follow_the_last_greeting_directly() -> None:
    """In the same piece, as a dialler does not wait after it has joined."""
    box = Inbox(CODEC, greetings=2)
    join = greeting_frame(b"join")
    assert box.feed(greeting_frame(b"hello")) == []
    box.greeting = None

    assert box.feed(join + wire([(Note("x"), None)])) == [(Note("x"), None)]
    assert box.greeting == b"join"


def test_oversized_greeting_is_refused_by_its_header() -> None:
    """Before its body is stored."""
    with pytest.raises(RemoteProtocolError, match="4096 at most"):
        Inbox(CODEC, greetings=1).feed(HEADER.pack(MAX_GREETING + 1, 1, 0, 0))


@pytest.mark.parametrize(
    ("message", "payload", "naming"),
    [
        (Note("x" * (MAX_MESSAGE + 1)), None, "put large data into the payload"),
        (Cargo("x"), bytes((1 << 20) + 1), "1048576 at most"),
        (Alarm("x"), b"", None),
        (Alarm("x"), b"1", "0 at most"),
        (Note("x"), {"not": "bytes"}, "bytes-like"),
        (Hello(1, "1", "w", "n", "h", 1), None, "no message of this channel"),
    ],
)
def test_what_cannot_travel_fails_at_the_sender(
    message: Message, payload: object, naming: str | None
) -> None:
    """And nothing of its batch is sent."""
    outbox = Outbox(CODEC, 1000)
    if naming is None:
        outbox.push([(message, payload)])
        return
    with pytest.raises(LocalProtocolError, match=naming):
        outbox.push([(Note("fine"), None), (message, payload)])

    assert outbox.pending == 0
    assert outbox.pull() == []


GREETINGS = st.one_of(
    st.builds(
        Hello,
        protocol=st.just(PROTOCOL),
        package=st.text(max_size=10),
        role=st.text(max_size=10),
        name=st.text(max_size=10),
        host=st.text(max_size=10),
        pid=st.integers(0, 2**31),
    ),
    st.builds(Refusal, protocol=st.just(PROTOCOL), package=st.text(), reason=st.text()),
)


@given(GREETINGS)
def test_greeting_round_trip(greeting: Message) -> None:
    """Through the frame too."""
    box = Inbox(CODEC, greetings=1)
    body = encode_greeting(greeting)
    if len(body) <= MAX_GREETING:
        assert box.feed(greeting_frame(body)) == []
        assert box.greeting == body
    assert decode_greeting(body) == greeting


def test_other_protocol_is_named_whatever_else_changed() -> None:
    """A greeting of a later version, with fields unknown here, still tells both versions."""
    import msgspec

    later = msgspec.msgpack.encode(["Hello", PROTOCOL + 1, "9.9.9", {"new": 1}, None])
    with pytest.raises(VersionMismatch, match=rf"protocol {PROTOCOL + 1} \(Grain '9.9.9'\)"):
        decode_greeting(later)


@given(st.binary(max_size=100))
def test_greeting_noise(noise: bytes) -> None:
    """Never anything but the two errors."""
    try:
        decode_greeting(noise)
    except (RemoteProtocolError, VersionMismatch) as e:
        assert str(e)


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
