"""Helpers for tests of frames: both ends of a connection without I/O, and a loose message."""

from __future__ import annotations

from typing import Any

from grain.edge.framing.frames import FrameDecoder, FrameEncoder
from grain.edge.messages import Message
from grain_testkit.faulty_links import CODEC


def decoder() -> FrameDecoder:
    return FrameDecoder(CODEC)


def wire(pairs: list[Any], size: int = 1000) -> bytes:
    encoder = FrameEncoder(CODEC, size)
    encoder.put(pairs)
    out = b""
    while buffers := encoder.take():
        out += b"".join(buffers)
    assert encoder.pending == 0
    return out


class Loose(Message, frozen=True):
    """A message with a field of any type."""

    content: Any
