"""`Peer`, which `serve` and `dial` hand to the program, and the stream that it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from grain.edge.framing.framed_channel import FramedChannel

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.errors import Attempt
    from grain.edge.framing.channel import WireChannel
    from grain.edge.framing.frames import FrameDecoder
    from grain.edge.messages import Codec, Hello, Welcome
    from grain.edge.transports.heartbeat import Heartbeat
    from grain.edge.transports.liveness import Presence
    from grain.files.processes import PeerProcess


@dataclass(frozen=True)
class Peer:
    """The other end of an open channel.

    Attributes:
        channel: messages to and from it; closed by `serve` or `dial`, or earlier by the program.
        greeting: its introduction: a dialler's Hello, a head's Welcome.
        transport: "unix", "tcp", "reverse" or "files".
        target: its address, for display.
        tried: the dialler's attempts, this one included; empty on the head's side.
        process: its process, if that is on this host.
    """

    channel: WireChannel
    greeting: Hello | Welcome
    transport: str
    target: str
    tried: tuple[Attempt, ...] = ()
    process: PeerProcess | None = None


@dataclass
class GreetedStream(trio.abc.AsyncResource):
    """An authenticated and greeted stream that is not a channel yet.

    Attributes:
        stream: owned.
        decoder: continues where the greeting ended.
    """

    stream: trio.abc.Stream
    greeting: Hello | Welcome
    decoder: FrameDecoder
    transport: str
    target: str
    heartbeat: Heartbeat | None = None
    alive_at: Callable[[], float] | None = None
    presence: Presence | None = None

    async def aclose(self) -> None:
        """Close at once, without a goodbye."""
        await trio.aclose_forcefully(self.stream)

    def channel(self, codec: Codec, heartbeat: Heartbeat | None) -> FramedChannel:
        """Return the channel over this stream, to be entered by the caller."""
        return FramedChannel(
            self.stream,
            codec,
            self.heartbeat or heartbeat,
            self.decoder,
            self.alive_at,
            self.presence,
        )
