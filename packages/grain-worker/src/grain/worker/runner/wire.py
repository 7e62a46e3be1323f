"""The wire between an agent and its runner: the codec, the heartbeat, and reports of blocking.

A runner whose event loop is blocked cannot use its channel. Its watchdog, a thread, has a socket of
its own to the agent, on which each datagram is a `BlockingReport`.
"""

from __future__ import annotations

import math

import msgspec

from grain.edge.channel import Heartbeat
from grain.edge.messages import Codec
from grain.worker.messages import (
    Attempt,
    BlockingCode,
    Cancel,
    DefineFunction,
    Ended,
    ForgetFunctions,
    Inspect,
    Inspected,
    Ready,
    Run,
)

CODEC = Codec(Run, Cancel, Ended, DefineFunction, ForgetFunctions, Ready, Inspect, Inspected)

HEARTBEAT = Heartbeat(interval=1.0, suspect=5.0, lost=math.inf)
"""A silent runner is blocked by a tasklet, and not dead: only the end of its process is a death."""

BLOCKED = HEARTBEAT.suspect
"""Seconds without a sign of life after which a runner counts as blocked."""


class BlockingReport(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A report of a runner's watchdog.

    Attributes:
        attempt: the run that blocks the event loop, if it is one.
        code: where, and for how long.
    """

    attempt: Attempt | None
    code: BlockingCode


LARGEST_REPORT = 16384
"""Bytes that a `BlockingReport` may have."""
