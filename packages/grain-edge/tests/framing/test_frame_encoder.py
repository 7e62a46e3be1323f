"""Frames that go out, without I/O: how messages and payloads are put into them."""

from __future__ import annotations

from typing import Any

import pytest

from grain.edge.errors import LocalProtocolError
from grain.edge.framing.frames import HEADER, FrameEncoder
from grain.edge.messages import MAX_MESSAGE, Hello, Message, Pieces
from grain_testkit.faulty_links import CODEC, Alarm, Cargo, Note
from grain_testkit.frames_wire import Loose, decoder, wire


@pytest.mark.parametrize("count", [1, 15, 16, 4096, 4097, 70_000])
def test_however_many_messages_are_pushed_together(count: int) -> None:
    """They are encoded together, up to some number."""
    pairs = [(Note("x", n), bytes(n % 3) or None) for n in range(count)]

    assert pairs == decoder().feed(wire(pairs))


@pytest.mark.parametrize("payload", [None, b"x", b"x" * 100_000])
def test_what_is_not_utf_8_in_a_text_arrives_as_a_question_mark(payload: bytes | None) -> None:
    pairs = [(Note("a", 1), None), (Note("\udcff\ud800 \u00e9", 2), payload)]

    assert [pairs[0], (Note("?? \u00e9", 2), payload)] == decoder().feed(wire(pairs))


def test_a_frame_has_a_limit_however_its_messages_were_pushed() -> None:
    """And one write has about the size that was asked for, so that other tasks get their turn."""
    encoder = FrameEncoder(CODEC, 1000)
    for _ in range(10):
        encoder.put([(Note("x" * 100), bytes(200)) for _ in range(50)])
    waited = encoder.pending

    sizes = []
    while buffers := encoder.take():
        sizes.append(sum(map(len, buffers)))

    assert 0 == encoder.pending
    assert waited == sum(sizes) - len(sizes) * (HEADER.size + 5)
    assert 1 < len(sizes)
    assert max(sizes) < 2 * 65536


@pytest.mark.parametrize("bad", [(Loose(1), None), (Alarm("x"), b"1"), (Note("x"), "text")])
def test_of_a_batch_with_a_bad_message_nothing_is_sent(bad: Any) -> None:
    """Wherever in the batch that message is."""
    encoder = FrameEncoder(CODEC, 1000)

    with pytest.raises(LocalProtocolError):
        encoder.put([(Note("good"), None), (Alarm("good"), None), bad])

    assert 0 == encoder.pending
    assert [] == encoder.take()


def test_messages_keep_their_order_whatever_their_size() -> None:
    """A message put amid a large payload follows it."""
    encoder = FrameEncoder(CODEC, 256 * 1024)
    encoder.put([(Note("huge"), bytes(1 << 20))])
    data = b"".join(encoder.take())
    assert len(data) <= 257 * 1024
    encoder.put([(Alarm("after"), None), (Cargo("last"), bytes(40_000))])
    while buffers := encoder.take():
        data += b"".join(buffers)

    got = [message for message, _ in decoder().feed(data)]
    assert [Note("huge"), Alarm("after"), Cargo("last")] == got


def test_one_write_takes_several_frames() -> None:
    """A hundred kilobytes of messages leave together, as a mission's first tasks do."""
    encoder = FrameEncoder(CODEC, 512 * 1024)
    encoder.put([(Note("x" * 100), bytes(300)) for _ in range(256)])

    written = b"".join(encoder.take())

    assert 256 == len(decoder().feed(written))
    assert (0, []) == (encoder.pending, encoder.take())


def test_pieces_are_sent_as_they_are() -> None:
    """Nothing is copied: the bytes of the very objects are handed to whoever writes."""
    large = bytes(100_000)
    encoder = FrameEncoder(CODEC, 1 << 20)
    encoder.put([(Note("n"), Pieces([b"head", large, b"tail"]))])

    buffers = encoder.take()

    assert [large] == [b.obj for b in buffers if isinstance(b, memoryview) and len(b) > 99_999]
    assert any(b.obj is large for b in buffers if isinstance(b, memoryview))
    assert (0, []) == (encoder.pending, encoder.take())


def test_so_many_pieces_as_one_write_takes_are_in_one_frame() -> None:
    encoder = FrameEncoder(CODEC, 1 << 20)
    encoder.put([(Note("n"), Pieces([b"xy"] * 50_000))])
    out = []
    while buffers := encoder.take():
        assert len(buffers) < 1024
        out += buffers

    (got,) = decoder().feed(b"".join(out))
    assert (Note("n"), b"xy" * 50_000) == got


def test_pieces_have_the_limits_of_any_payload() -> None:
    """All of them together; and nothing is sent of what is refused."""
    encoder = FrameEncoder(CODEC, 1000)
    with pytest.raises(LocalProtocolError, match="1048576 at most"):
        encoder.put([(Cargo("c"), Pieces([bytes(1 << 20), b"x"]))])
    with pytest.raises(LocalProtocolError, match="0 at most"):
        encoder.put([(Alarm("c"), Pieces([b"x"]))])
    assert (0, []) == (encoder.pending, encoder.take())


@pytest.mark.parametrize("part", [bytearray(b"x"), memoryview(b"x"), bytearray(), "x", None])
def test_what_could_be_changed_is_no_piece(part: Any) -> None:
    """It would have to be copied, as it is unknown when it is sent."""
    with pytest.raises(TypeError, match=type(part).__name__):
        Pieces([b"a", part])


def test_large_payloads_are_not_copied_on_the_way_out() -> None:
    """A view of the caller's own memory is written."""
    payload = bytearray(1 << 20)
    encoder = FrameEncoder(CODEC, 1 << 18)
    encoder.put([(Note("x"), payload)])
    view = encoder.take()[-1]
    payload[0] = 7

    assert view[0] == 7


@pytest.mark.parametrize(
    ("message", "payload", "naming"),
    [
        (Note("x" * (MAX_MESSAGE + 1)), None, "put large data into the payload"),
        (Cargo("x"), bytes((1 << 20) + 1), "1048576 at most"),
        (Alarm("x"), b"", None),
        (Alarm("x"), b"1", "0 at most"),
        (Note("x"), {"not": "bytes"}, "bytes-like"),
        (Hello(1, "1", "w", "n", "h", 1), None, "not a message of this channel"),
    ],
)
def test_what_cannot_travel_fails_at_the_sender(
    message: Message, payload: Any, naming: str | None
) -> None:
    """And nothing of its batch is sent."""
    encoder = FrameEncoder(CODEC, 1000)
    if naming is None:
        encoder.put([(message, payload)])
        return
    with pytest.raises(LocalProtocolError, match=naming):
        encoder.put([(Note("fine"), None), (message, payload)])

    assert encoder.pending == 0
    assert encoder.take() == []
