"""What `serve` and `dial` hand to the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from grain.edge.framing.framed_channel import FramedChannel

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.attempt import Attempt
    from grain.edge.framing.channel import Channel
    from grain.edge.framing.frames import FrameDecoder
    from grain.edge.heartbeat import Heartbeat
    from grain.edge.messages import Codec, Hello, Welcome

ALL_TRANSPORTS = frozenset({"unix", "tcp", "reverse", "files"})
"""What may be tried; in this order."""


@dataclass(frozen=True)
class Peer:
    """Somebody at the other end of an open channel.

    Attributes:
        channel: to talk; closed by `serve` or `dial`, or earlier by the program.
        greeting: how the other side introduced itself: a dialler with Hello, a head with Welcome.
        transport: "unix", "tcp", "reverse" or "files".
        target: the other end's address, for people.
        tried: what a dialler tried before; empty on the head's side.
    """

    channel: Channel
    greeting: Hello | Welcome
    transport: str
    target: str
    tried: tuple[Attempt, ...] = ()


@dataclass
class Opened(trio.abc.AsyncResource):
    """An authenticated and greeted stream that is not a channel yet.

    Attributes:
        stream: owned.
        greeting: of the other side.
        decoder: continues where the greeting ended.
        transport: as in `Peer`.
        target: as in `Peer`.
        heartbeat: what the transport needs, or None for the usual.
        heard: as in `FramedChannel`.
    """

    stream: trio.abc.Stream
    greeting: Hello | Welcome
    decoder: FrameDecoder
    transport: str
    target: str
    heartbeat: Heartbeat | None = None
    heard: Callable[[], float] | None = None

    async def aclose(self) -> None:
        """Close without a word."""
        await trio.aclose_forcefully(self.stream)

    def channel(self, codec: Codec, heartbeat: Heartbeat | None) -> FramedChannel:
        """The channel, to be entered by the caller."""
        return FramedChannel(
            self.stream, codec, self.heartbeat or heartbeat, self.decoder, self.heard
        )
