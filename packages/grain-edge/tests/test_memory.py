"""Memory for large payloads."""

from __future__ import annotations

import resource
from pathlib import Path

from grain.edge._frames import CHUNK, HEADER, OPEN, Inbox
from grain.edge.memory import room
from grain.edge.messages import ORDINARY, Codec, Message


class Large(Message, frozen=True):
    """May bring a gigabyte."""

    max_payload = 1024**3


def resident() -> int:
    """Bytes that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_room_is_zeros_that_can_be_written_to() -> None:
    """Of the size that was asked for."""
    view = room(5_000_000)
    assert (5_000_000, 0, 0) == (len(view), view[0], view[-1])

    view[-3:] = b"end"

    assert b"end" == bytes(view[-3:])


def test_an_announced_gigabyte_takes_no_memory() -> None:
    """Only what has come of it."""
    codec = Codec(Large)
    inbox = Inbox(codec)
    before = resident()
    opened = codec.encode(Large(), 1024**3)
    inbox.feed(HEADER.pack(len(opened), OPEN, ORDINARY, 0) + opened)
    inbox.feed(HEADER.pack(1_000_000, CHUNK, ORDINARY, 0) + bytes(1_000_000))

    assert resident() - before < 20_000_000
