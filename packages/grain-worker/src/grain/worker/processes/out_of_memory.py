"""The evidence that a program was killed for want of memory. Pure, but for the limits at hand.

SIGKILL by itself proves nothing: a user may send it, and so may a batch system for another reason.
It counts as want of memory if something else speaks for it:

1. the kernel says that it has killed processes of the control group meanwhile, as memory ran out.
   In a group of the program's own that is proof, even if its main process has lived on and reports
   by an exit code what became of the others; in a shared group it needs the signal;
2. its memory was near what its task asked for, or near the limit of its control group: site and
   batch system may guard these by looks of their own.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NEAR = 0.95
"""The part of a request or a limit at which it counts as reached: looks miss the last moments."""

_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second as a shell says it of its last child


def ran_out_of_memory(
    returncode: int,
    oom_kills: int,
    peak: float,
    bounds: Iterable[float | None],
    *,
    own_group: bool,
) -> bool:
    """Return True if a program that has failed was killed for want of memory.

    Args:
        peak: its largest memory, in GB.
        bounds: what it could have at most, in GB; None for what is not known.
    """
    if own_group and oom_kills:
        return True
    if returncode not in _KILLED:
        return False
    return bool(oom_kills) or any(one is not None and peak >= NEAR * one for one in bounds)
