"""The heartbeat of a connection: the times between signs of life, and of silence until a loss."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Heartbeat:
    """The times of a heartbeat, in seconds.

    Attributes:
        interval: between signs of life of an idle side.
        suspect: silence after which the peer is not to be relied upon: three beats.
        lost: silence after which the channel breaks. A network that is away for less is not
            noticed but for the delay.
        goodbye: how long closing waits for what is still to be sent.
    """

    interval: float = 10.0
    suspect: float = 30.0
    lost: float = 60.0
    goodbye: float = 5.0
