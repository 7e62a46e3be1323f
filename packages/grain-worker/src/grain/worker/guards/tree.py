"""Wait until a tree of processes is gone; end it where necessary."""

from __future__ import annotations

import enum
import math
import os
import signal
import time

from .caller import Order
from .proc import signal_below
from .protocol import STUCK, UNKILLABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .caller import Caller
    from .meter import Meter

HURRY_GRACE = 0.3
"""Seconds of grace after Ctrl-C, when the caller may have other programs to end after this one."""


class TreePhase(enum.Enum):
    """The phases of the end of a tree of processes, in their order."""

    RUNNING = "the program runs, and was not asked to end"
    GRACE = "every process got SIGTERM and has the grace to obey"
    KILLING = "every process gets SIGKILL, again and again"
    REPORTED = "as before; the survivors were reported as stuck"


def wait_until_gone(
    caller: Caller, main: int, began: float, grace: float, meter: Meter | None = None
) -> tuple[int, float, bool, list[float]]:
    """Wait until nothing is left below this process, which is a subreaper.

    The tree ends by itself, or is ended: when the main process has ended and has left others
    behind, and on the caller's order.

    Args:
        caller: gives orders, and gets a report on processes that survive SIGKILL.
        main: the pid of the main process, a child of this one.
        began: the time of its start, by the monotonic clock.
        grace: seconds between SIGTERM and SIGKILL.
        meter: looks at the tree when it is due, until the tree is asked to end. A tree with more
            memory than it may have is ended.

    Returns:
        The wait status of the main process; the seconds it took; True if it ended before anything
        was told to end; and of the whole tree user seconds, system seconds, max RSS in KiB, and the
        blocks of 512 bytes read and written.
    """
    status: int | None = None
    seconds, by_itself, usage = 0.0, False, [0.0] * 5
    phase, kill_at, pause = TreePhase.RUNNING, 0.0, 0.01
    # First: a program that has just begun has hardly ended. If it has, this returns at once.
    caller.wait(until_look(meter, began))
    while True:
        # ECHILD, and only that, says that the tree is gone.
        try:
            pid, ended, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            assert status is not None  # the main process is a child, so it was reaped here
            return status, seconds, by_itself, usage
        if pid:
            usage[0] += used.ru_utime
            usage[1] += used.ru_stime
            usage[2] = max(usage[2], used.ru_maxrss)
            usage[3] += used.ru_inblock
            usage[4] += used.ru_oublock
            if pid == main:
                status, seconds = ended, time.monotonic() - began
                by_itself = phase is TreePhase.RUNNING
            continue
        now = time.monotonic()
        exceeded = False if meter is None else meter.exceeded
        if phase is TreePhase.RUNNING and (
            status is not None or exceeded or caller.order is not Order.RUN
        ):
            # A stopped process acts on SIGTERM only when it continues.
            signal_below(signal.SIGTERM, signal.SIGCONT)
            if caller.order is Order.HURRY or (
                meter is not None and exceeded and meter.is_scarce()
            ):
                grace = min(grace, HURRY_GRACE)  # or the kernel may end others in its place
            kill_at = now + grace
            phase = TreePhase.GRACE
        if phase is TreePhase.GRACE and (now >= kill_at or caller.order is Order.KILL):
            kill_at = min(kill_at, now)
            phase = TreePhase.KILLING
        if phase in (TreePhase.KILLING, TreePhase.REPORTED):
            # Again and again: a process may have been born behind the walk's back.
            left = signal_below(signal.SIGKILL) or []
            pause = min(2 * pause, 1.0)
            if phase is TreePhase.KILLING and now >= kill_at + UNKILLABLE:
                caller.report((STUCK, left))
                phase = TreePhase.REPORTED
        if phase is not TreePhase.RUNNING:
            caller.wait(1000 * max(kill_at - now, pause))
            continue
        # One that is over is ended now, unless it has ended meanwhile: the next look may be far.
        if not is_over(meter, now):
            caller.wait(until_look(meter, now))


def is_over(meter: Meter | None, now: float) -> bool:
    """Look at the tree if that is due; return True if it has more memory than it may have."""
    if meter is None:
        return False
    if now >= meter.due:
        meter.look(now)
    return meter.exceeded


def until_look(meter: Meter | None, now: float) -> float | None:
    """Return the milliseconds until the next look is due; None if none will be."""
    if meter is None or meter.due == math.inf:
        return None
    return 1000 * max(meter.due - now, 0.001)
