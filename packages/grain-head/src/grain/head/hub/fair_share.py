"""Fair shares: the order of the tasks of several missions of equal priority.

Each task gets an age when it is submitted, and the scheduler serves lower ages first. Ages are in
*virtual time*, which advances by one round whenever every mission with waiting tasks has started
one: a mission's next task is one round behind its last, but never behind the task that was started
last. So a mission that comes late takes turns with the others from then on, however many tasks they
have queued, and none gathers claims while it has nothing to run (start-time fair queueing with
equal weights: P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996). It costs a few additions for each task.

A task that has run before had its turn then: it takes the present round and costs its mission none.
So a mission with much that runs does not wait for the others to have as much, when all of them come
to another head, or only it comes back to this one.

A task that leaves the queue without a start, since it was cancelled or a worker reports an earlier
run of it, had its turn: what waits behind it keeps its age, and starts no later than without that.
A lane gives its turn back, if nothing of its mission came later: missions ask for more of them than
they use.
"""

from __future__ import annotations

# Below the virtual time: the order of submission, which makes ages distinct. So many bits suffice
# for years of submissions, and leave the ages of most tasks small as integers of Python go.
_COUNT_BITS = 42


class Share:
    """The share of one mission: for each priority the rounds of its last task and last start."""

    __slots__ = ("_last", "_started")

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._started: dict[int, int] = {}

    def advance(self, priority: int, now: int) -> int:
        """Return the round of the mission's next task."""
        at = self._last.get(priority, -1) + 1
        if at < now:
            at = now
        self._last[priority] = at
        return at

    def started(self, priority: int, at: int) -> None:
        """Note that a task of the mission starts, of the round ``at``."""
        if at > self._started.get(priority, -1):
            self._started[priority] = at

    def return_turn(self, priority: int, at: int) -> None:
        """Give back the round of a task that waits no more, if it is the last one."""
        if self._last.get(priority) == at and at > self._started.get(priority, -1):
            self._last[priority] = at - 1

    def give_back(self) -> None:
        """Give back the rounds of all tasks that wait: the mission will submit them again."""
        self._last = self._started.copy()


class FairShare:
    """The virtual time of each priority: the round of the task that was started last."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._count = 0

    def age(self, share: Share, priority: int) -> int:
        """Return the age of a mission's next task: no two are equal, those of a mission ascend."""
        self._count += 1
        return share.advance(priority, self._now.get(priority, 0)) << _COUNT_BITS | self._count

    def age_again(self, priority: int) -> int:
        """Return the age of a task that has run before, in the present round; no two are equal."""
        self._count += 1
        return self._now.get(priority, 0) << _COUNT_BITS | self._count

    @staticmethod
    def return_turn(share: Share, age: int, priority: int) -> None:
        """Give back the turn of a mission's task of an age, if it is the last one."""
        share.return_turn(priority, age >> _COUNT_BITS)

    def started(self, share: Share, age: int, priority: int) -> None:
        """Advance the virtual time to that of a mission's task which starts."""
        at = age >> _COUNT_BITS
        share.started(priority, at)
        if at > self._now.get(priority, 0):
            self._now[priority] = at
