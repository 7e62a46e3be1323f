"""Both ends of a connection without I/O, and a message on its own."""

from __future__ import annotations

from typing import Any

from grain.edge.framing.frames_in import Inbox
from grain.edge.framing.frames_out import Outbox
from grain.edge.messages import Message
from grain.edge.testing import CODEC


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


class Loose(Message, frozen=True):
    """A message with a field of any type."""

    content: Any
