"""Channels: typed messages with opaque payloads, to one peer.

`Channel` is the interface, `WireChannel` that of channels whose payloads are bytes. A
`FramedChannel` speaks over any trio stream, `memory_channels` makes a pair within one process.
`grain.edge.dial` and `grain.edge.serve` make channels over whatever the site allows; nothing above
sees the transport.
"""

from grain.edge.framing.channel import Batch as Batch
from grain.edge.framing.channel import Channel as Channel
from grain.edge.framing.channel import WireBatch as WireBatch
from grain.edge.framing.channel import WireChannel as WireChannel
from grain.edge.framing.framed_channel import FramedChannel as FramedChannel
from grain.edge.framing.memory_channel import MemoryChannel as MemoryChannel
from grain.edge.framing.memory_channel import MemoryDirection as MemoryDirection
from grain.edge.framing.memory_channel import memory_channels as memory_channels
from grain.edge.transports.heartbeat import Heartbeat as Heartbeat
