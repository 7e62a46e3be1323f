"""`Computing`: how many cores all processes below this one compute on, from look to look.

The scheduler knows what tasks were *given*; only the kernel knows what they make of it. A look
adds up the CPU time of the processes below this one, with that of the children which they have
reaped. A process that ends between two looks is reaped by one of the others, and none is lost.

1. Parents are looked at before their children, so none counts twice. A process that ends during a
   look before its turn has come counts nowhere: the look is repeated.
2. What is started elsewhere by the name of a launcher (`LAUNCHERS`) is not below this process,
   though it computes for it. Then the number is not known; nor is it where processes may not be
   looked at, or are more than `MOST`.
3. A look takes some 40 microseconds for each process, and the next one comes `SHARE` later: the
   looks of a worker take half a percent of one core.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import trio

from grain.worker.guards.meter import of_process
from grain.worker.processes.usage_now import all_below

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 4096
"""Processes that one look goes through."""

FIRST, PAUSE = 2.0, 5.0
"""Seconds between the first two looks, and between any others; at least."""

SHARE = 0.005
"""The share of one core that looks may take."""

LAUNCHERS = frozenset(
    b"srun aprun jsrun lrun prun ssh rsh qrsh pbsdsh pbs_tmrsh blaunch docker kubectl".split()
)
"""Programs that have others started by processes which are not below them."""

_TICKS = os.sysconf("SC_CLK_TCK")
_OWN, _REAPED = slice(11, 13), slice(13, 15)  # utime, stime; cutime, cstime, behind the command
_AGAIN = 3  # looks during which a process has ended


class Computing:
    """The cores on which the processes below this one compute.

    Args:
        with_self: True if the tasks run in this process, too.

    Attributes:
        cores: in the mean between the last two looks; None where that is not known.
        due: when to look next, by the clock that looks are given.
    """

    def __init__(self, *, with_self: bool = False) -> None:
        self._with_self = with_self
        self._seen: tuple[float, float] | None = None
        self.cores: float | None = None
        self.due = 0.0

    def begin(self) -> None:
        """Forget what was seen: the next look is a first one."""
        self._seen = self.cores = None
        self.due = 0.0

    def look(self, now: float) -> float | None:
        """Look at the processes; return the cores, as the attribute.

        Args:
            now: the time in seconds, by any clock that does not go back.
        """
        began = time.thread_time()
        used = cpu_below(with_self=self._with_self)
        before, self._seen = self._seen, None if used is None else (now, used)
        if used is None:
            self.cores = None
        elif before is not None and now > before[0]:
            self.cores = max(used - before[1], 0.0) / (now - before[0])
        pause = FIRST if before is None else PAUSE
        self.due = now + max(pause, (time.thread_time() - began) / SHARE)
        return self.cores


async def keep_looking(
    computing: Computing,
    running: Callable[[], bool],
    report: Callable[[float | None], object],
) -> None:
    """Look again and again, in a thread, and report each result; until it is cancelled.

    Args:
        running: returns True while tasks run; else there is nothing to look at.
        report: takes the number of cores; None if that is not known, or nothing runs.
    """
    limiter = trio.CapacityLimiter(1)  # not one of the threads that tasks may all use
    while True:
        now = trio.current_time()
        if running():
            report(await trio.to_thread.run_sync(computing.look, now, limiter=limiter))
            await trio.sleep_until(computing.due)
        else:
            computing.begin()
            report(None)
            await trio.sleep(PAUSE)


def cpu_below(*, with_self: bool = False) -> float | None:
    """Return the CPU seconds of all processes below this one so far; None if they are not known."""
    me = os.getpid()
    for _ in range(_AGAIN):
        pids = all_below(me, MOST)
        own = _times(me)
        if pids is None or own is None:
            return None
        ticks, known = own[1] + with_self * own[0], True
        for pid in pids:
            times = _times(pid)
            if times is None:
                break  # it has just ended
            ticks += times[0] + times[1]
            known = known and not times[2]
        else:
            return ticks / _TICKS if known else None
    return None


def _times(pid: int) -> tuple[int, int, bool] | None:
    """Return the ticks of a process and of what it has reaped, and True if it is a launcher."""
    # The command, in parentheses, may itself have spaces and parentheses.
    head, _, rest = of_process(pid, "stat").rpartition(b")")
    fields = rest.split()
    if len(fields) < _REAPED.stop:
        return None
    launcher = head.partition(b"(")[2] in LAUNCHERS
    return sum(map(int, fields[_OWN])), sum(map(int, fields[_REAPED])), launcher
