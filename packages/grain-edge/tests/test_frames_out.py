"""Frames that go out, without I/O: how messages and payloads are put into them."""

from __future__ import annotations

from typing import Any

import pytest

from grain.edge.errors import LocalProtocolError
from grain.edge.framing.frames import HEADER
from grain.edge.framing.frames_out import Outbox
from grain.edge.messages import MAX_MESSAGE, Hello, Message, Pieces
from grain.edge.testing import CODEC, Alarm, Cargo, Note
from grain_testkit.frames_wire import Loose, inbox, wire


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
