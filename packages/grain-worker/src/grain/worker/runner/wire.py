"""The wire between an agent and its runner: the codec, the heartbeat, and reports of blocking.

A runner whose event loop is blocked cannot use its channel. Its watchdog, a thread, has a socket of
its own to the agent, on which each datagram is a `Report`: a `BlockingReport`; or a `PrintReport`,
since code prints in threads, too, and whether the event loop turns or not.
"""

from __future__ import annotations

import math

import msgspec

from grain.edge.channel import Heartbeat
from grain.edge.messages import Codec
from grain.worker.messages import (
    AskEnding,
    Attempt,
    BlockingCode,
    Cancel,
    DefineFunction,
    Ended,
    EndingTold,
    EndOfWorker,
    ForgetFunctions,
    GangBegun,
    Inspect,
    Inspected,
    JobBegins,
    MemberOpen,
    ProgramWarned,
    Ready,
    RunOver,
    SeatOpen,
    StartRun,
)

CODEC = Codec(
    StartRun,
    Cancel,
    Ended,
    AskEnding,
    EndingTold,
    EndOfWorker,
    ProgramWarned,
    DefineFunction,
    ForgetFunctions,
    Ready,
    Inspect,
    Inspected,
    GangBegun,
    SeatOpen,
    MemberOpen,
    RunOver,
    JobBegins,
)

HEARTBEAT = Heartbeat(interval=1.0, suspect=5.0, lost=math.inf)
"""A silent runner is blocked by a tasklet, and not dead: only the end of its process is a death."""

BLOCKED = HEARTBEAT.suspect
"""Seconds without a sign of life after which a runner counts as blocked."""


class BlockingReport(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="blocking"
):
    """A report of a runner's watchdog.

    Attributes:
        attempt: the run that blocks the event loop, if it is one.
    """

    attempt: Attempt | None
    code: BlockingCode


class PrintReport(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="printed"
):
    """Lines that a run has printed, for its mission.

    Attributes:
        lost: the number of lines of all runs that were left out before, as there were too many.
    """

    attempt: Attempt
    lines: tuple[str, ...]
    lost: int


Report = BlockingReport | PrintReport
"""A datagram on the socket for reports. What cannot be sent at once is lost."""

LARGEST_REPORT = 16384
"""Bytes that a `Report` may have."""
