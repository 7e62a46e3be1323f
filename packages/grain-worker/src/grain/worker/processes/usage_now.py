"""The use of programs that run: one look at their processes in /proc, on request.

The supervisors look for the peak, at a pace that they can afford, and report it at the end. A
question before that is about the present. The asking process does the work, which costs the
supervisors nothing, and has an end: what is behind the first `MOST` processes stays unknown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from grain.worker.guards.meter import kibibytes, of_process, proportional
from grain.worker.guards.proc import children

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 256
"""Processes that one look goes through: some ten milliseconds."""

_TICKS = os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 15)  # utime, stime, cutime and cstime (proc(5)), counted from behind the command


class UsageNow(NamedTuple):
    """The use of a program that runs, with all processes below it.

    Attributes:
        cpu: seconds of CPU time so far, without those of orphans that have ended.
        memory: what its processes have now, in GB. What they share counts once; but pages that
            processes have in common since they were forked count for each.
    """

    cpu: float
    memory: float


def usages_now(supervisors: Iterable[int | None]) -> list[UsageNow | None]:
    """Return what the programs of some supervisors use; None for those that cannot be looked at."""
    left = MOST
    usages: list[UsageNow | None] = []
    for supervisor in supervisors:
        pids = (None if supervisor is None else all_below(supervisor, left)) or ()
        left -= len(pids)
        usages.append(usage_of(pids))
    return usages


def memory_of(supervisors: Iterable[int | None], *, exact: bool) -> float:
    """Return the GB that the programs of some supervisors have, as far as they can be looked at.

    Args:
        exact: True to count what processes share once, which is dear: see `guards.meter`.
    """
    used = 0.0
    for supervisor in supervisors:
        pids = (None if supervisor is None else all_below(supervisor, MOST)) or ()
        if exact:
            used += sum(map(proportional, pids)) * 1024 / 1e9
        elif (usage := usage_of(pids)) is not None:
            used += usage.memory
    return used


def all_below(top: int, most: int) -> list[int] | None:
    """Return the pids of all processes below one, each after its parent.

    None if one of them may not be looked at, or if they are more than so many.
    """
    pids: list[int] = []
    try:
        waiting = children(top)
        while waiting:
            pids.append(waiting.pop())
            if len(pids) + len(waiting) > most:
                return None
            waiting += children(pids[-1])
    except OSError:
        return None
    return pids


def usage_of(pids: Iterable[int]) -> UsageNow | None:
    """Return what processes use; None if none of them is there any more."""
    ticks, privates, others = 0, 0.0, [0.0]
    seen = False
    for pid in pids:
        # The command, in parentheses, may itself have spaces and parentheses.
        fields = of_process(pid, "stat").rpartition(b")")[2].split()
        if len(fields) < _TIMES.stop:
            continue
        seen = True
        ticks += sum(map(int, fields[_TIMES]))
        status = of_process(pid, "status")
        private = kibibytes(status, b"\nRssAnon:")
        privates += private
        others.append(kibibytes(status, b"\nVmRSS:") - private)
    return UsageNow(ticks / _TICKS, (privates + max(others)) * 1024 / 1e9) if seen else None
