"""Channels: typed messages with opaque payloads, to one peer.

`Channel` is the interface. `FramedChannel` speaks over any trio stream, `memory_channels` makes a
pair within one process. `grain.edge.dial` and `grain.edge.serve` make them over whatever the site
allows; the transport is not seen from here on.
"""

from grain.edge._channel import Batch as Batch
from grain.edge._channel import Channel as Channel
from grain.edge._framed import FramedChannel as FramedChannel
from grain.edge._framed import Pace as Pace
from grain.edge._memory import MemoryChannel as MemoryChannel
from grain.edge._memory import memory_channels as memory_channels
