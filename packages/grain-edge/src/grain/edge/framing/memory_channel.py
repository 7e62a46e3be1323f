"""Two ends in one process: messages pass through as they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from grain.edge.errors import ChannelBroken
from grain.edge.framing.channel import Batch, Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Message

Sent = TypeVar("Sent")
Received = TypeVar("Received")


class MemoryDirection(Generic[Sent]):
    """A direction of a pair of channels.

    A mailbox rather than a queue of batches: the receiver gets all that came meanwhile, so that
    runs which end in the same instant cost their head one wake-up and not one each.

    Args:
        backlog: messages that may wait before `send` does.

    Attributes:
        handle: gets messages in the sender's task instead, if the receiver has one.
        changed: wakes those who wait, with every change.
    """

    def __init__(self, backlog: int) -> None:
        self._backlog = backlog
        self.mail: list[tuple[Message, Sent]] = []
        self.handle: Callable[[Batch[Sent]], object] | None = None
        self.closed = False
        self.changed = trio.lowlevel.ParkingLot()

    @property
    def congested(self) -> bool:
        """True if a sender had better wait."""
        return len(self.mail) > self._backlog and not self.closed

    def put(self, batch: Batch[Sent]) -> None:
        """Deliver a batch."""
        if self.handle is not None:
            self.handle(batch)
        else:
            self.mail.extend(batch)
            self.changed.unpark_all()

    def take(self) -> Batch[Sent]:
        """Return all that came."""
        mail, self.mail = self.mail, []
        self.changed.unpark_all()
        return mail

    def close(self) -> None:
        """Take no more."""
        self.closed = True
        self.changed.unpark_all()


class MemoryChannel(Channel[Sent, Received]):
    """One end of a pair; see `memory_channels`."""

    def __init__(
        self, outgoing: MemoryDirection[Sent], incoming: MemoryDirection[Received]
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._receiving = False
        self._closed = False

    async def send(self, batch: Batch[Sent]) -> None:
        """See `Channel.send`; the very objects reach the peer."""
        await trio.lowlevel.checkpoint()
        while self._outgoing.congested:
            await self._outgoing.changed.park()
        self.post(batch)

    def post(self, batch: Batch[Sent], *, more: bool = False) -> None:  # noqa: ARG002 - needs no hint
        """See `Channel.post`."""
        if self._closed:
            raise trio.ClosedResourceError("this channel was closed")
        if self._outgoing.closed:
            raise ChannelBroken("the other end of this channel is closed")
        self._outgoing.put(batch)

    @property
    def congested(self) -> bool:
        """See `Channel.congested`."""
        return self._outgoing.congested

    @property
    def writes_through(self) -> bool:
        """See `Channel.writes_through`; always False."""
        return False

    async def receive(self) -> Batch[Received]:
        """See `Channel.receive`; all that was sent meanwhile."""
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this channel")
        self._receiving = True
        try:
            if self._incoming.mail:
                await trio.lowlevel.checkpoint()
            while not self._incoming.mail:
                if self._closed:
                    raise trio.ClosedResourceError("this channel was closed")
                if self._incoming.closed:
                    raise trio.EndOfChannel
                await self._incoming.changed.park()
        finally:
            self._receiving = False
        return self._incoming.take()

    async def receive_into(self, handle: Callable[[Batch[Received]], object]) -> None:
        """See `Channel.receive_into`; called by the sender's task."""
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this channel")
        if self._incoming.mail:
            handle(await self.receive())
        self._receiving = True
        self._incoming.handle = handle
        try:
            while not self._incoming.closed:
                await self._incoming.changed.park()
        finally:
            self._incoming.handle = None
            self._receiving = False
        if self._closed:
            raise trio.ClosedResourceError("this channel was closed")

    def silent_for(self) -> float:
        """Return 0: a peer in the same process lives."""
        return 0.0

    @property
    def suspect_after(self) -> float:
        """See `Channel.suspect_after`; never."""
        return math.inf

    async def aclose(self) -> None:
        """Close this end; the peer receives what was sent before, then `trio.EndOfChannel`."""
        self._closed = True
        self._incoming.close()
        self._outgoing.close()
        await trio.lowlevel.checkpoint()


def memory_channels(
    backlog: int = 1024,
) -> tuple[MemoryChannel[Sent, Received], MemoryChannel[Received, Sent]]:
    """Return a pair of channels within one process, for a worker that lives beside its head.

    Nothing is encoded or copied, so a payload may be any object: the caller annotates the two ends
    with the types that travel. Limits of size do not apply.

    Args:
        backlog: messages that may wait in one direction before `send` does.
    """
    there: MemoryDirection[Sent] = MemoryDirection(backlog)
    back: MemoryDirection[Received] = MemoryDirection(backlog)
    return MemoryChannel(there, back), MemoryChannel(back, there)
