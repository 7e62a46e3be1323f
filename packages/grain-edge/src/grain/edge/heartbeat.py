"""When a connection shows that it lives, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How a connection keeps itself alive.

    Attributes:
        heartbeat: seconds between signs of life of an idle side.
        suspect: seconds of silence after which the peer is not to be relied upon: three beats.
        lost: seconds of silence after which the channel breaks. A network that is away for less
            is not noticed but for the delay.
        goodbye: seconds that closing waits for what is still to be sent.
        chunk: bytes of a large payload in one frame: 1 ms or less on the wire, so that an urgent
            message waits no longer than that. Unix sockets have a larger one of their own.
    """

    heartbeat: float = 10.0
    suspect: float = 30.0
    lost: float = 60.0
    goodbye: float = 5.0
    chunk: int = 256 * 1024
