"""Two ends in one process: messages pass through as they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import ChannelBroken
from grain.edge.framing.channel import Batch, Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Message, Payload


class MemoryChannel(Channel):
    """One end of a pair; see `memory_channels`.

    A mailbox rather than a queue of batches: whoever receives gets all that has come meanwhile, so
    that runs which end in the same instant cost their head one wake-up and not one each.
    """

    def __init__(self, backlog: int) -> None:
        self._backlog = backlog
        self._mail: list[tuple[Message, Payload]] = []
        self._arrived = trio.Event()
        self._room = trio.Event()
        self._receiving = False
        self._closed = False
        self._peer = self
        self._handle: Callable[[Batch], object] | None = None

    async def send(self, batch: Batch) -> None:
        """See `Channel.send`; the very objects reach the peer."""
        await trio.lowlevel.checkpoint()
        while len(self._peer._mail) > self._backlog and not self._peer._closed:
            self._peer._room = trio.Event()
            await self._peer._room.wait()
        self.post(batch)

    def post(self, batch: Batch, *, more: bool = False) -> None:  # noqa: ARG002 - needs no hint
        """See `Channel.post`."""
        peer = self._peer
        if self._closed:
            raise trio.ClosedResourceError("this channel was closed")
        if peer._closed:
            raise ChannelBroken("the other end of this channel is closed")
        if peer._handle is not None:
            peer._handle(batch)
            return
        peer._mail.extend(batch)
        peer._arrived.set()

    async def receive(self) -> Batch:
        """See `Channel.receive`; all that was sent meanwhile."""
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this channel")
        self._receiving = True
        try:
            if self._mail:
                await trio.lowlevel.checkpoint()
            while not self._mail:
                if self._closed:
                    raise trio.ClosedResourceError("this channel was closed")
                if self._peer._closed:
                    raise trio.EndOfChannel
                self._arrived = trio.Event()
                await self._arrived.wait()
        finally:
            self._receiving = False
        mail, self._mail = self._mail, []
        self._room.set()
        return mail

    async def receive_into(self, handle: Callable[[Batch], object]) -> None:
        """See `Channel.receive_into`; called by the sender's task."""
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this channel")
        if self._mail:
            handle(await self.receive())
        self._receiving = True
        self._handle = handle
        try:
            while not (self._closed or self._peer._closed):
                self._arrived = trio.Event()
                await self._arrived.wait()
        finally:
            self._handle = None
            self._receiving = False
        if self._closed:
            raise trio.ClosedResourceError("this channel was closed")

    def silent_for(self) -> float:
        """Always 0: a peer in the same process lives."""
        return 0.0

    @property
    def suspect_after(self) -> float:
        """Never."""
        return math.inf

    async def aclose(self) -> None:
        """Close this end; the peer receives what was sent before, then `trio.EndOfChannel`."""
        self._closed = True
        for end in (self, self._peer):
            end._arrived.set()
            end._room.set()
        await trio.lowlevel.checkpoint()


def memory_channels(backlog: int = 1024) -> tuple[MemoryChannel, MemoryChannel]:
    """A pair of channels within one process, for a worker that lives beside its head.

    Nothing is encoded or copied, so a payload may be any object; limits of size do not apply.

    Args:
        backlog: messages that may wait in one direction before `send` does.
    """
    a, b = MemoryChannel(backlog), MemoryChannel(backlog)
    a._peer, b._peer = b, a
    return a, b
