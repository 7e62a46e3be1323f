"""Greetings: their frames, what may come before and after them, other versions."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.edge.errors import RemoteProtocolError, VersionMismatch
from grain.edge.framing.frames import HEADER, FrameDecoder, greeting_frame
from grain.edge.messages import (
    MAX_GREETING,
    PROTOCOL,
    Codec,
    Hello,
    Message,
    Refusal,
    Welcome,
    decode_greeting,
    encode_greeting,
)
from grain_testkit.faulty_links import CODEC, Note
from grain_testkit.frames_wire import wire


def test_nothing_but_greetings_before_the_greeting() -> None:
    """A peer that is not welcomed yet cannot have a message parsed.

    Tried: A message before the greeting.
    Result: refused by its header.
    """
    with pytest.raises(RemoteProtocolError, match="greeting not over"):
        FrameDecoder(CODEC, greetings=1).feed(wire([(Note("x"), None)]))


def test_messages_may_follow_the_last_greeting_directly() -> None:
    """In the same piece, as a dialler does not wait after it has joined."""
    box = FrameDecoder(CODEC, greetings=2)
    join = greeting_frame(b"join")
    assert box.feed_greeting(greeting_frame(b"hello")) == b"hello"
    assert box.take_early() == []

    assert box.feed_greeting(join + wire([(Note("x"), None)])) == b"join"
    assert box.take_early() == [(Note("x"), None)]
    assert box.take_early() == []


def test_a_greeting_that_arrives_in_pieces_is_returned_with_the_last_of_them() -> None:
    box = FrameDecoder(CODEC, greetings=1)
    frame = greeting_frame(b"hello")

    assert [None, None] == [box.feed_greeting(frame[:5]), box.feed_greeting(frame[5:-1])]
    assert b"hello" == box.feed_greeting(frame[-1:])


def test_oversized_greeting_is_refused_by_its_header() -> None:
    """Before its body is stored."""
    with pytest.raises(RemoteProtocolError, match="4096 at most"):
        FrameDecoder(CODEC, greetings=1).feed(HEADER.pack(MAX_GREETING + 1, 1))


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
def test_a_greeting_is_read_as_written(greeting: Message) -> None:
    """Through the frame too."""
    box = FrameDecoder(CODEC, greetings=1)
    body = encode_greeting(greeting)
    if len(body) <= MAX_GREETING:
        assert box.feed_greeting(greeting_frame(body)) == body
        assert box.take_early() == []
    assert decode_greeting(body) == greeting


def test_other_protocol_is_named_whatever_else_changed() -> None:
    """A greeting of a later version, with fields unknown here, still yields both versions."""
    later = msgspec.msgpack.encode(["Hello", PROTOCOL + 1, "9.9.9", {"new": 1}, None])
    with pytest.raises(VersionMismatch, match=rf"protocol {PROTOCOL + 1} \(Grain '9.9.9'\)"):
        decode_greeting(later)


def test_a_greeting_with_other_fields_names_both_versions() -> None:
    later = msgspec.msgpack.encode(["Hello", PROTOCOL, "9.9.9", "worker", "n", "h", 1, *[0] * 20])
    with pytest.raises(VersionMismatch, match="The peer is Grain '9.9.9', this side Grain '1"):
        decode_greeting(later)


Word = Literal["a", "b"]


class Inner(msgspec.Struct):
    """A struct within a message."""

    x: int


class Outer(Message, frozen=True):
    """A message."""

    count: int
    inner: list[Inner]
    word: Word = "a"


def form_of(*lines: str, word: object = Word, inner: str = "x: int") -> bytes:
    """Return the form of a message `Outer` that has these fields."""
    text = "\n".join(
        [
            "from __future__ import annotations",
            "import msgspec",
            "from grain.edge.messages import Message",
            f"class Inner(msgspec.Struct):\n    {inner}",
            "class Outer(Message, frozen=True):",
            *(
                f"    {line}"
                for line in lines or ("count: int", "inner: list[Inner]", "word: Word")
            ),
        ]
    )
    module = ModuleType("made_for_a_test")
    module.Word = word  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    exec(text, vars(module))
    return Codec(module.Outer).forms


def test_the_form_of_a_message_is_the_same_on_all_pythons() -> None:
    """So its number is written down."""
    assert Codec(Outer).forms == form_of()
    assert "e3785ea3" in Codec(Outer).forms.hex()


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("a field more", {"lines": ("count: int", "inner: list[Inner]", "word: Word", "y: int")}),
        ("a field less", {"lines": ("count: int", "inner: list[Inner]")}),
        ("another order", {"lines": ("inner: list[Inner]", "count: int", "word: Word")}),
        ("another type", {"lines": ("count: float", "inner: list[Inner]", "word: Word")}),
        ("a field more within", {"inner": "x: int; y: int"}),
        ("another type within", {"inner": "x: float"}),
        ("another word", {"word": Literal["a", "b", "c"]}),
    ],
)
def test_the_form_of_a_message_changes_with(what: str, changed: dict[str, Any]) -> None:
    lines = changed.pop("lines", ())
    assert form_of(*lines, **changed) != form_of(), what


def test_a_dialler_may_have_fewer_messages_than_the_head_and_no_others() -> None:
    head, other = Codec(Outer, Hello), Codec(Outer, Welcome)

    assert head.mismatch(Codec(Outer).forms, "1.0.0") == ""
    assert head.mismatch(b"", "1.0.0") == ""
    assert "the peer is Grain '1.0.0' with messages" in head.mismatch(other.forms, "1.0.0")


@given(st.binary(max_size=100))
def test_noise_for_a_greeting_is_one_of_two_errors(noise: bytes) -> None:
    """Never anything but the two errors."""
    try:
        decode_greeting(noise)
    except (RemoteProtocolError, VersionMismatch) as e:
        assert str(e)
