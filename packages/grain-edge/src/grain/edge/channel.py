"""Channels: typed messages with opaque payloads, to one peer.

`Channel` is the interface. `FramedChannel` speaks over any trio stream, `memory_channels` makes a
pair within one process. `grain.edge.dial` and `grain.edge.serve` make them over whatever the site
allows; the transport is not seen from here on.
"""

from typing import TYPE_CHECKING

from grain.edge.framing.channel import Batch as Batch
from grain.edge.framing.channel import Channel as Channel
from grain.edge.framing.memory_channel import MemoryChannel as MemoryChannel
from grain.edge.framing.memory_channel import MemoryDirection as MemoryDirection
from grain.edge.framing.memory_channel import memory_channels as memory_channels

if TYPE_CHECKING:
    from grain.edge.framing.framed_channel import FramedChannel as FramedChannel
    from grain.edge.heartbeat import Heartbeat as Heartbeat
else:
    # As in the package itself: who stays in memory does not pay for the wire.
    def __getattr__(name: str) -> object:
        if name not in ("FramedChannel", "Heartbeat"):
            raise AttributeError(f"module 'grain.edge.channel' has no attribute {name!r}")
        from grain.edge.framing import framed_channel

        return getattr(framed_channel, name)
