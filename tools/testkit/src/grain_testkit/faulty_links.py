"""In-memory connections with scripted faults, for the tests of every package.

    link = FaultyLink()
    link.there.delay = 0.2              # seconds; with trio's mock clock no real time passes
    link.back.cut_after = 1000          # both directions break after 1000 bytes of this one
    async with link.channels() as (a, b):
        await a.send(batch)

`there` is the direction from a to b, `back` the other. `memory_channels` (without faults, nothing
encoded) is in `grain.edge.channel`.
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

import trio

from grain.edge.framing.framed_channel import FramedChannel
from grain.edge.messages import Codec, Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grain.edge.transports.heartbeat import Heartbeat

_CAPACITY = 1024 * 1024


class Note(Message, frozen=True):
    """An ordinary message to test with; may have a payload of 1 GiB."""

    max_payload: ClassVar[int] = 1 << 30
    text: str = ""
    number: int = 0


class Alarm(Message, frozen=True):
    """A message without a payload to test with."""

    text: str = ""


class Cargo(Message, frozen=True):
    """A message to test with whose payload has 1 MiB at most."""

    max_payload: ClassVar[int] = 1 << 20
    text: str = ""


CODEC = Codec(Note, Alarm, Cargo)
"""Understands the messages above."""


class Direction:
    """A direction of a link; its attributes may be changed at any time.

    Attributes:
        delay: seconds from sending to arrival, for what is sent from now on.
        piece: the most bytes that one read delivers, or None.
        cut_after: after this many bytes in all the link breaks in both directions, or None.
        carried: bytes sent so far.
        changed: wakes those who wait.
    """

    def __init__(self, link: FaultyLink) -> None:
        self.delay = 0.0
        self.piece: int | None = None
        self.cut_after: int | None = None
        self.carried = 0
        self._link = link
        self._queue: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._held = False
        self._ended = False
        self.changed = trio.lowlevel.ParkingLot()

    def hold(self) -> None:
        """Deliver nothing until `release`, as when a cable is pulled; nothing is lost."""
        self._held = True

    def release(self) -> None:
        """Deliver again, first what was kept."""
        self._held = False
        self.changed.unpark_all()

    async def put(self, data: bytes) -> None:
        """Take bytes from the sending end; waits while 1 MiB is under way.

        Raises:
            trio.BrokenResourceError: the link is cut.
        """
        while self._size >= _CAPACITY and not self._link.broken:
            await self.changed.park()
        if self._link.broken:
            raise trio.BrokenResourceError("the link was cut")
        if self.cut_after is not None:
            data = data[: max(0, self.cut_after - self.carried)]
        if data:
            self._queue.append((trio.current_time() + self.delay, data))
        self._size += len(data)
        self.carried += len(data)
        if self.cut_after is not None and self.carried >= self.cut_after:
            self._link.cut()
        self.changed.unpark_all()
        await trio.lowlevel.checkpoint()

    async def get(self, max_bytes: int | None, reader: LinkStream) -> bytes:
        """Return bytes to the receiving end; none at the end.

        Raises:
            trio.BrokenResourceError: the link is cut, and what came before was read.
            trio.ClosedResourceError: the receiving end was closed.
        """
        await trio.lowlevel.checkpoint()
        while (
            reader.closed
            or self._held
            or not self._queue
            or self._queue[0][0] > trio.current_time()
        ):
            if reader.closed:
                raise trio.ClosedResourceError
            if not self._held and not self._queue:
                if self._link.broken:
                    raise trio.BrokenResourceError("the link was cut")
                if self._ended:
                    return b""
            due = trio.current_time() + 3600.0
            if self._queue and not self._held:
                due = self._queue[0][0]
            with trio.move_on_at(due):
                await self.changed.park()
        at, data = self._queue.popleft()
        most = min(n for n in (self.piece, max_bytes, len(data)) if n is not None)
        if most < len(data):
            self._queue.appendleft((at, data[most:]))
        self._size -= most
        self.changed.unpark_all()
        return data[:most]

    def end(self) -> None:
        """Take no more: the sending end was closed."""
        self._ended = True
        self.changed.unpark_all()


class LinkStream(trio.abc.Stream):
    """An end of a link, as a trio stream."""

    def __init__(self, outgoing: Direction, incoming: Direction) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self.closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send; see `Direction.put`."""
        if self.closed:
            raise trio.ClosedResourceError
        await self._outgoing.put(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        """Do not wait: this is allowed, if not helpful."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive; see `Direction.get`."""
        return await self._incoming.get(max_bytes, self)

    async def aclose(self) -> None:
        """Close this end; the other one reads what is under way and then the end."""
        self.closed = True
        self._outgoing.end()
        self._incoming.changed.unpark_all()
        await trio.lowlevel.checkpoint()


class FaultyLink:
    """Two connected streams, `a` and `b`, whose directions take orders.

    Attributes:
        there: the direction from a to b.
        back: the direction from b to a.
    """

    def __init__(self) -> None:
        self.broken = False
        self.there = Direction(self)
        self.back = Direction(self)
        self.a = LinkStream(self.there, self.back)
        self.b = LinkStream(self.back, self.there)

    def cut(self) -> None:
        """Break both directions: what is under way arrives, then both ends see a reset."""
        self.broken = True
        self.there.release()
        self.back.release()

    @asynccontextmanager
    async def channels(
        self, codec: Codec = CODEC, heartbeat: Heartbeat | None = None
    ) -> AsyncIterator[tuple[FramedChannel, FramedChannel]]:
        """Open both ends as channels; close them, with goodbyes, at the end."""
        async with (
            FramedChannel(self.b, codec, heartbeat) as b,
            FramedChannel(self.a, codec, heartbeat) as a,
        ):
            yield a, b
