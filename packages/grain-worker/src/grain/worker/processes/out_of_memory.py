"""The evidence that a program ended for want of memory. Pure, but for the wait in `SharedKills`.

SIGKILL by itself proves nothing: a user may send it, and so may a batch system for another reason.
The first of these that holds decides:

1. The kernel says that it has killed processes of the program's own control group meanwhile, as
   memory ran out. That is proof, even if its main process has lived on and ended with 0.
2. Grain ended it, as it had more than its amount in two looks.
3. The kernel says so of a shared group, and the program ended by SIGKILL. Of two such programs it
   is the one near its amount: an operator may have killed the other one at the same time, or the
   kernel in its place, and more memory would not have helped it.
4. It ended by SIGKILL, and its memory was near what its task asked for, or near the limit of its
   control group: site and batch system may guard these by looks of their own.
5. It failed, and its last lines have one of the texts by which it says so.
"""

from __future__ import annotations

import signal
from collections import deque
from typing import TYPE_CHECKING

import trio

from grain.worker.guards.group import LATELY

if TYPE_CHECKING:
    from collections.abc import Iterable

NEAR = 0.9
"""The part of a request or a limit at which it counts as reached: looks miss the last moments."""

SETTLED = 1.0
"""Seconds within which what the kernel has killed together ends: memory is given back meanwhile."""

_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second as a shell says it of its last child


def evidence_of_memory(
    returncode: int,
    oom_kills: int,
    peak: float,
    bounds: Iterable[float | None],
    *,
    own_group: bool,
    exceeded: bool = False,
    said: str = "",
    other: bool = False,
) -> str:
    """Return by what a program is known to have ended for want of memory; "" if it is not.

    Args:
        peak: its largest memory, in GB.
        bounds: what it could have at most, in GB; None for what is not known.
        exceeded: True if Grain ended it for that reason.
        said: a text of its own that says so; "" for none.
        other: True if the kernel has killed another one meanwhile, as of `SharedKills`.
    """
    if own_group and oom_kills:
        return f"the kernel counts {oom_kills} kills for want of memory in its own control group"
    if exceeded:
        return "it had more than its amount in two looks, and Grain ended it"
    if returncode in _KILLED:
        bound = _reached(peak, bounds)
        if oom_kills and not (other and bound is None):
            return (
                f"the kernel counts {oom_kills} kills for want of memory in the worker's control "
                "group, and it ended by SIGKILL"
            )
        if bound is not None:
            return f"it ended by SIGKILL when it had {peak:.2f} of {bound:.2f} GB"
    if returncode and said:
        return f"it wrote '{said}'"
    return ""


def _reached(peak: float, bounds: Iterable[float | None]) -> float | None:
    """Return the first bound that a program was near; None for none."""
    return next((one for one in bounds if one is not None and peak >= NEAR * one), None)


class SharedKills:
    """The programs near their amount that ended by SIGKILL while the kernel killed in their group.

    One process has one of these, for its programs.
    """

    def __init__(self) -> None:
        self._noted: deque[float] = deque(maxlen=64)

    async def other(
        self, returncode: int, oom_kills: int, peak: float, bounds: Iterable[float | None]
    ) -> bool:
        """Return True if the kernel's kills in a shared group mean another program than this one.

        Which of two ends first is chance: so one that was not near its amount waits `SETTLED`
        seconds for the other, even if it is cancelled. Arguments as of `evidence_of_memory`.
        """
        if not oom_kills or returncode not in _KILLED:
            return False
        if _reached(peak, bounds) is not None:
            self._noted.append(trio.current_time())
            return False
        with trio.CancelScope(shield=True):
            await trio.sleep(SETTLED)
        since = trio.current_time() - LATELY
        return any(at >= since for at in self._noted)
