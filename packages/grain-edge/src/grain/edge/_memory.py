"""Two ends in one process: batches pass through as they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio
from grain.edge._channel import Batch, Channel
from grain.edge.errors import ChannelBroken

if TYPE_CHECKING:
    from trio import MemoryReceiveChannel, MemorySendChannel


class MemoryChannel(Channel):
    """One end of a pair; see `memory_channels`."""

    def __init__(
        self, outgoing: MemorySendChannel[Batch], incoming: MemoryReceiveChannel[Batch]
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming

    async def send(self, batch: Batch) -> None:
        """See `Channel.send`; the very objects reach the peer."""
        if not batch:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._outgoing.send(batch)
        except trio.ClosedResourceError:
            raise
        except trio.BrokenResourceError as e:
            raise ChannelBroken("the other end of this channel is closed") from e

    async def receive(self) -> Batch:
        """See `Channel.receive`; one batch as it was sent."""
        return await self._incoming.receive()

    def silent_for(self) -> float:
        """Always 0: a peer in the same process lives."""
        return 0.0

    @property
    def suspect_after(self) -> float:
        """Never."""
        return math.inf

    async def aclose(self) -> None:
        """Close this end; the peer receives what was sent before, then `trio.EndOfChannel`."""
        self._outgoing.close()
        self._incoming.close()
        await trio.lowlevel.checkpoint()


def memory_channels(backlog: int = 64) -> tuple[MemoryChannel, MemoryChannel]:
    """A pair of channels within one process, for a worker that lives beside its head.

    Nothing is encoded or copied, so a payload may be any object; limits of size do not apply.

    Args:
        backlog: batches that may wait in one direction before `send` does.
    """
    to_b, from_a = trio.open_memory_channel[Batch](backlog)
    to_a, from_b = trio.open_memory_channel[Batch](backlog)
    return MemoryChannel(to_b, from_b), MemoryChannel(to_a, from_a)
