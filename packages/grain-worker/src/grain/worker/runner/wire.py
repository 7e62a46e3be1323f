"""The wire between an agent and its runner: the codec, and the pace of heartbeats."""

from __future__ import annotations

import math

from grain.edge.channel import Pace
from grain.edge.messages import Codec
from grain.worker.messages import Cancel, DefineFunction, Ended, ForgetFunctions, Ready, Run

CODEC = Codec(Run, Cancel, Ended, DefineFunction, ForgetFunctions, Ready)

PACE = Pace(heartbeat=1.0, suspect=5.0, lost=math.inf)
"""A silent runner is blocked by a tasklet, and not dead: only the end of its process is a death."""

BLOCKED = PACE.suspect
"""Seconds without a sign of life after which a runner counts as blocked."""
