"""The evidence that a program ended for want of memory. Pure, but for the limits at hand.

SIGKILL by itself proves nothing: a user may send it, and so may a batch system for another reason.
The first of these that holds decides:

1. The kernel says that it has killed processes of the program's own control group meanwhile, as
   memory ran out. That is proof, even if its main process has lived on and ended with 0.
2. Grain ended it, as it had more than its amount in two looks.
3. The kernel says so of a shared group, and the program ended by SIGKILL.
4. It ended by SIGKILL, and its memory was near what its task asked for, or near the limit of its
   control group: site and batch system may guard these by looks of their own.
5. It failed, and its last lines have one of the texts by which it says so.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NEAR = 0.9
"""The part of a request or a limit at which it counts as reached: looks miss the last moments."""

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
) -> str:
    """Return by what a program is known to have ended for want of memory; "" if it is not.

    Args:
        peak: its largest memory, in GB.
        bounds: what it could have at most, in GB; None for what is not known.
        exceeded: True if Grain ended it for that reason.
        said: a text of its own that says so; "" for none.
    """
    if own_group and oom_kills:
        return f"the kernel counts {oom_kills} kills for want of memory in its own control group"
    if exceeded:
        return "it had more than its amount in two looks, and Grain ended it"
    if returncode in _KILLED:
        if oom_kills:
            return (
                f"the kernel counts {oom_kills} kills for want of memory in the worker's control "
                "group, and it ended by SIGKILL"
            )
        for bound in bounds:
            if bound is not None and peak >= NEAR * bound:
                return f"it ended by SIGKILL when it had {peak:.2f} of {bound:.2f} GB"
    if returncode and said:
        return f"it wrote '{said}'"
    return ""
