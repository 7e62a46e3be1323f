"""Jobs of one sort: how many to submit, and when. Pure; time is an argument.

A job counts, whether it waits or runs, from its submission until the batch system has reported
twice that it is gone: so there are never more jobs than wanted. A job whose worker takes no more
tasks does not count: its successor is submitted before it ends. Nor does one that is reported gone
once, if its worker has left the scheduler: it has ended in good order.

Jobs that fail as soon as they start would be submitted without end. So a failure begins a pause,
twice as long as the last one. Then a single job is tried, and the others follow when it has proven
itself.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import TYPE_CHECKING

from grain.cli.batch import JobPhase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grain.cli.batch import JobState

PROVEN = 60.0
"""Seconds after which a running job has proven that it works, at most: see `proven_after`."""

PAUSES = (30.0, 1800.0)
"""Seconds of the first pause and of the longest."""

UNLISTED = 30.0
"""Seconds for which a new job counts although the batch system does not list it yet."""


def proven_after(seconds: float | None) -> float:
    """Return after how many seconds a running job has proven that it works.

    The worker of a short job, as in a debug queue, takes no more tasks when half of its time is
    over, and leaves in good order soon after.

    Args:
        seconds: the time that a job has; None or ``math.inf`` if that is not known.
    """
    return PROVEN if seconds is None else min(PROVEN, seconds / 4)


class PoolJobState(Enum):
    """The state of a job, by the last report of the batch system that names it.

    ========  =======================================================  =======================
    state     meaning                                                  left by
    ========  =======================================================  =======================
    NEW       submitted, and not listed yet                            each report; one that it
                                                                       is gone, after `UNLISTED`
    WAITING   in the queue, for the first time or again                each other report
    STUCK     in the queue, where it never starts by itself            each other report; one that
                                                                       it is gone: it is over
    RUNNING   running, or ending                                       each other report
    MISSED    reported gone once: if it has lost its node, the batch   each report; one that it
              system may have it back in the queue soon                is gone: it is over
    ========  =======================================================  =======================
    """

    NEW = auto()
    WAITING = auto()
    STUCK = auto()
    RUNNING = auto()
    MISSED = auto()


class PoolJob:
    """A job that counts, from its submission until it is over.

    Args:
        submitted: when it was submitted, in seconds of any clock.
        proven_after: the seconds for which it has to run.

    Attributes:
        proven: True once it has run for that long; also when it is in the queue again.
        failed: True once it was stuck, which is a failure that was counted.
        leaves: True once its workers take no more tasks.
    """

    def __init__(self, submitted: float, proven_after: float = PROVEN) -> None:
        self.submitted = submitted
        self._proven_after = proven_after
        self.proven = False
        self.failed = False
        self.leaves = False
        self._joined = False  # True once its worker was with the scheduler
        self._state = PoolJobState.NEW
        # Since when it runs, or ran when it was missed: a job that comes back has run all the time.
        self._began: float | None = None

    def on_waiting(self) -> None:
        """Note that it is in the queue: it is new, or was put back."""
        self._state = PoolJobState.WAITING
        self._began = None
        self._joined = self.leaves = False

    def on_workers(self, serves: bool | None) -> None:
        """Note that its workers take tasks, or no more, or (None) that none is with the scheduler.

        A worker that is away is with the scheduler until that gives it up, and a new scheduler
        knows none for a moment: so the batch system has to miss the job as well.
        """
        if serves is not None:
            self._joined, self.leaves = True, not serves
        elif self._joined and self._state is PoolJobState.MISSED:
            self.leaves = True

    def on_stuck(self) -> bool:
        """Note that it never starts by itself; return True if this is its first such report."""
        self._state = PoolJobState.STUCK
        self._began = None
        before, self.failed = self.failed, True
        return not before

    @property
    def stuck(self) -> bool:
        """True if it never starts by itself, by the last report."""
        return self._state is PoolJobState.STUCK

    def on_running(self, now: float) -> bool:
        """Note that it runs; return True if it has just proven itself."""
        self._state = PoolJobState.RUNNING
        if self._began is None:
            self._began = now
        before = self.proven
        self._prove(now)
        return self.proven and not before

    @property
    def begun(self) -> bool:
        """True if it runs by the last report, or has run and is missed."""
        return self._began is not None

    def on_unlisted(self, now: float) -> bool:
        """Note a report that it is gone; return True if it is over."""
        if self._state in {PoolJobState.MISSED, PoolJobState.STUCK}:
            return True
        if self._state is not PoolJobState.NEW or now - self.submitted >= UNLISTED:
            self._state = PoolJobState.MISSED
            self._prove(now)
        return False

    def _prove(self, now: float) -> None:
        if self._began is not None and now - self._began >= self._proven_after:
            self.proven = True


class JobPool:
    """The jobs of one `grain scale`.

    Args:
        proven_after: the seconds after which a running job has proven that it works.

    Attributes:
        failures: the number of failures in a row. Jobs of one submission count once.
    """

    def __init__(self, size: int, proven_after: float = PROVEN) -> None:
        self._size = size
        self._proven_after = proven_after
        self._jobs: dict[str, PoolJob] = {}
        self._not_before = 0.0
        self._failed_at = -math.inf
        self.failures = 0

    @property
    def jobs(self) -> list[str]:
        """The ids of the jobs that wait or run."""
        return list(self._jobs)

    @property
    def counted(self) -> int:
        """The number of the jobs that count."""
        return sum(not job.leaves for job in self._jobs.values())

    def look_at_workers(self, serving: Mapping[str, bool]) -> None:
        """Handle the workers of a scheduler that answers; after `look`.

        Args:
            serving: the jobs with a worker there: True while one of its workers takes tasks.
        """
        for one, job in self._jobs.items():
            job.on_workers(serving.get(one))

    def leaves(self, job: str) -> bool:
        """Return True if the workers of a job take no more tasks."""
        return job in self._jobs and self._jobs[job].leaves

    @property
    def stuck(self) -> list[str]:
        """The ids of the jobs to cancel, as they never start by themselves."""
        return [one for one, job in self._jobs.items() if job.stuck]

    def submitted(self, jobs: Iterable[str], now: float) -> None:
        """Count jobs that the batch system has accepted."""
        for one in jobs:
            self._jobs[one] = PoolJob(now, self._proven_after)

    def refused(self, now: float) -> None:
        """Begin a pause, as the batch system has refused a job."""
        self._fail(now, new=True)

    def look(self, states: Mapping[str, JobState], now: float) -> list[str]:
        """Record the states of `jobs`.

        Returns:
            The jobs that ended before they had proven themselves, and the jobs that are stuck.
        """
        failed = []
        new = False
        for one, job in list(self._jobs.items()):
            state = states.get(one)
            if state is None or state.phase is JobPhase.UNKNOWN:
                continue  # the job may be alive
            if state.phase is JobPhase.GONE:
                if job.on_unlisted(now):
                    del self._jobs[one]
                    if not job.proven and not job.failed:
                        failed.append(one)
                        new |= job.submitted > self._failed_at
            elif state.phase is JobPhase.PENDING:
                job.on_waiting()
            elif state.phase is JobPhase.STUCK:
                if job.on_stuck():
                    failed.append(one)
                    new |= job.submitted > self._failed_at
            elif job.on_running(now):
                self.failures = 0
        if failed:
            self._fail(now, new=new)
        return failed

    def excuse(self, job: str) -> None:
        """Take the end of a job, which was asked to end, for no failure."""
        if job in self._jobs:
            self._jobs[job].proven = True

    @property
    def begun(self) -> bool:
        """True if a job runs by the last report, or has run and is missed."""
        return any(job.begun for job in self._jobs.values())

    @property
    def unproven(self) -> set[str]:
        """The ids of the jobs that have not proven themselves."""
        return {one for one, job in self._jobs.items() if not job.proven}

    def __contains__(self, job: str) -> bool:
        """Return True if a job counts."""
        return job in self._jobs

    def wanted(self, now: float) -> int:
        """Return the number of jobs to submit now."""
        return self.allowed(self._size - self.counted, now)

    def allowed(self, missing: int, now: float) -> int:
        """Return how many of the jobs that are missing may be submitted now, after failures."""
        if missing <= 0 or now < self._not_before:
            return 0
        if not self.failures:
            return missing
        return 0 if any(not job.proven for job in self._jobs.values()) else 1

    def pause(self, now: float) -> float:
        """Return the seconds that remain of the pause after a failure; 0 if there is none."""
        return max(0.0, self._not_before - now)

    def _fail(self, now: float, *, new: bool) -> None:
        """Begin a pause; a longer one if a job failed that was submitted after the last pause."""
        first, longest = PAUSES
        if new or not self.failures:
            self.failures += 1
            self._failed_at = now
        self._not_before = now + min(first * 2 ** min(self.failures - 1, 20), longest)
