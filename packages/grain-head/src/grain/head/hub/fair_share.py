"""Fair shares: the order of the tasks of several missions of equal priority.

Each task gets an age when it is submitted, and the scheduler serves lower ages first. Ages are in
*virtual time*, which advances by one round whenever every mission with waiting tasks has started
one: a mission's next task is one round behind its last, but never behind the task that was started
last. So a mission that comes late takes turns with the others from then on, however many tasks they
have queued, and none gathers claims while it has nothing to run (start-time fair queueing with
equal weights: P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996). It costs a few additions for each task.
"""

from __future__ import annotations

_COUNT_BITS = 44  # below the virtual time: the order of submission, which makes ages distinct


class Share:
    """The share of one mission: the round of its last task, for each priority."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def advance(self, priority: int, now: int) -> int:
        """Return the round of the mission's next task."""
        at = max(now, self._last.get(priority, -1) + 1)
        self._last[priority] = at
        return at


class FairShare:
    """The virtual time of each priority: the round of the task that was started last."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._count = 0

    def age(self, share: Share, priority: int) -> int:
        """Return the age of a mission's next task: no two are equal, those of a mission ascend."""
        self._count += 1
        return share.advance(priority, self._now.get(priority, 0)) << _COUNT_BITS | self._count

    def started(self, age: int, priority: int) -> None:
        """Advance the virtual time to that of a task which starts."""
        at = age >> _COUNT_BITS
        if at > self._now.get(priority, 0):
            self._now[priority] = at
