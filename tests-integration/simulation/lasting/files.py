"""The files that the processes of a lasting mission share, and workers write.

As in a queue, the number of a task is in the files before it is submitted, and stays with it. A
worker says in the files that a run begins, and how it has ended; where another run of the task is
under way, or has ended, the run is refused instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.peers import Behaviour, SimulatedRun


class Files:
    """The files of a lasting mission.

    Args:
        name: the id of the mission.
        plan: what its tasks do, in the order of their numbers.

    Attributes:
        begun: the last run of each task that was not refused.
        ended: when runs have ended by themselves, or because their task was cancelled, by task.
        lost: tasks of which a run was refused, and the other has died since: a further attempt
            would be another task.
        cancelled: tasks that any process, or a command, has cancelled.
        over: True if no process is to come any more.
        processes: how many there were.
        expected: when the next process comes, if it is known.
    """

    def __init__(self, name: str, plan: list[Behaviour]) -> None:
        self.name = name
        self.plan = plan
        self.begun: dict[int, SimulatedRun] = {}
        self.ended: dict[int, float] = {}
        self.lost: set[int] = set()
        self.cancelled: set[int] = set()
        self.over = False
        self.processes = 0
        self.expected = -math.inf

    def begins(self, run: SimulatedRun) -> bool:
        """Take the receipt of a run that begins; return False if it is refused."""
        task = run.lease.task
        if task in self.ended or self.holds(task):
            return False
        self.begun[task] = run
        return True

    def holds(self, task: int) -> bool:
        """Return True if a run of a task is under way."""
        run = self.begun.get(task)
        return run is not None and run.worker.alive and run in run.worker.runs.values()

    def is_over(self, task: int) -> bool:
        """Return True if nothing is to be done for a task."""
        return task in self.ended or task in self.lost
