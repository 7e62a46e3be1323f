"""The wire between an agent and its runner: the codec, and the heartbeat."""

from __future__ import annotations

import math

from grain.edge.channel import Heartbeat
from grain.edge.messages import Codec
from grain.worker.messages import (
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
