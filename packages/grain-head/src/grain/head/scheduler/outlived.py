"""Tasks that crash, or outlive their workers: how often they may, before they fail. No state.

A task crashes if its process or its worker dies; after `SOLO` crashes it runs by itself on a
worker, or after one for which its worker has ended it, as the node was short of memory. After
`CRASHES` it fails. It *outlives* a worker if it still runs when the time of that is over:

1. A run that has outlived its worker is not a crash: it is not the task's fault, and the task needs
   no worker to itself afterwards. It is kept beside the crashes, as it has to reach the next head
   like them.
2. From then on the task waits for a worker that has more time left than it was seen to run for. If
   the workers here never had quite so much, one will do that has most of its time left: see
   `grain.head.scheduler.Scheduler.queue`.
3. After `RUNS` of these runs, each with most of its worker's time, no worker lasts long enough, and
   the task fails. A run that began late in the life of its worker does not count for that; but
   after `RUNS_IN_ALL` the task fails in any case.
4. A run whose program has stopped softly, before the time was over, goes on elsewhere from where it
   was. So it is not kept with the others; but after `SOFT_STOPS` in a row the last one is, and the
   task fails.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.head.messages import Crash
    from grain.worker.messages import Attempt, Outlived

# None is a setting: a task takes its runs along to the next head, which must judge them alike.
SOLO = 2
"""Crashes after which a task runs by itself."""

CRASHES = 5
"""Crashes after which a task fails."""

RUNS = 3
"""Runs with most of the time of a worker each, after which a task fails."""

RUNS_IN_ALL = 10
"""Runs that outlive their worker, however late they began, after which a task fails."""

GANGS = 5
"""Gangs of which a member did not join, or died before all had, after which a task fails. Meanwhile
workers that did not reach each other are kept apart, see `grain.head.scheduler.apart`."""

MOST = 0.75
"""The part of its worker's time that a run has to have for rule 3."""

_STEP = 1.05  # times seen are rounded up to its powers, so that tasks alike share a queue


def blamed(crashes: Iterable[Crash]) -> int:
    """Return the number of crashes in the proper sense: the ones that may be the task's fault."""
    return sum(crash.blamed for crash in crashes)


def wants_worker(crashes: Iterable[Crash]) -> bool:
    """Return True for a task that runs by itself on a worker, after these crashes."""
    counted = [crash for crash in crashes if crash.blamed]
    return len(counted) >= SOLO or any(crash.interruption == "short" for crash in counted)


def never_began(crashes: Iterable[Crash], attempt: Attempt) -> bool:
    """Return True if a run is the root of a gang of which a member did not join."""
    return any(crash.absent and crash.attempt == attempt for crash in crashes)


def unreached(crashes: Iterable[Crash]) -> bool:
    """Return True if the members of so many gangs of a task did not join that it fails."""
    return sum(crash.absent != "" for crash in crashes) >= GANGS


def had_most(outlived: Outlived) -> bool:
    """Return True if a run had most of the time of its worker."""
    return outlived.ran >= MOST * outlived.life


def lasts_too_long(crashes: Iterable[Crash]) -> bool:
    """Return True if a task has outlived so many workers that it fails."""
    runs = [crash.outlived for crash in crashes if crash.outlived is not None]
    many = len(runs) >= RUNS_IN_ALL or sum(map(had_most, runs)) >= RUNS
    return many or any(crash.stopped_softly for crash in crashes)


def given_up(crashes: Sequence[Crash]) -> bool:
    """Return True if a task fails, as there were too many crashes, or too many of another kind."""
    return bool(crashes) and (
        blamed(crashes) >= CRASHES or lasts_too_long(crashes) or unreached(crashes)
    )


def seen(crashes: Iterable[Crash]) -> float:
    """Return the seconds that a task needs at least, as it was seen to run for nearly as long.

    They are 0 for a task that has outlived no worker.

    >>> seen(())
    0.0
    """
    runs = [crash.outlived.ran for crash in crashes if crash.outlived is not None]
    if not runs:
        return 0.0
    return _STEP ** (math.floor(math.log(max(*runs, 1.0), _STEP)) + 1)
