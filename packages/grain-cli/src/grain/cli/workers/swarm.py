"""The decisions of `grain scale`: how many jobs to submit, and when. Pure; time is an argument.

A job counts, whether it waits or runs, from its submission until the batch system has reported
twice that it is gone: so there are never more jobs than wanted. Jobs that fail as soon as they
start would be submitted for ever: so a failure begins a pause, twice as long as the last one; then
a single job is tried, and the others follow when it has proven itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.cli.batch import JobPhase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grain.cli.batch import JobState

PROVEN = 60.0
"""Seconds after which a running job has proven that it works."""

PAUSES = (30.0, 1800.0)
"""Seconds of the first pause and of the longest."""

UNLISTED = 30.0
"""Seconds for which a new job counts although the batch system does not list it yet."""


@dataclass
class _Kept:
    submitted: float
    listed: bool = False
    began: float | None = None
    proven: bool = False
    missed: bool = False


class Swarm:
    """The jobs of one `grain scale`.

    Args:
        size: The number of jobs to keep alive.

    Attributes:
        failures: The number of failures in a row. Jobs of one submission count once.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: dict[str, _Kept] = {}
        self._not_before = 0.0
        self._failed_at = -math.inf
        self.failures = 0

    @property
    def jobs(self) -> list[str]:
        """The ids of the jobs that wait or run."""
        return list(self._jobs)

    def submitted(self, jobs: Iterable[str], now: float) -> None:
        """Count jobs that the batch system has accepted."""
        for one in jobs:
            self._jobs[one] = _Kept(now)

    def refused(self, now: float) -> None:
        """Begin a pause, as the batch system has refused a job."""
        self._fail(now, new=True)

    def look(self, states: Mapping[str, JobState], now: float) -> list[str]:
        """Take in the states of `jobs`.

        Returns:
            The jobs that ended before they had proven themselves.
        """
        failed = []
        new = False
        for one, job in list(self._jobs.items()):
            state = states.get(one)
            if state is None or state.phase is JobPhase.UNKNOWN:
                continue  # the job may be alive
            if state.phase is JobPhase.GONE:
                if self._has_ended(one, job, now) and not job.proven:
                    failed.append(one)
                    new |= job.submitted > self._failed_at
                continue
            job.listed, job.missed = True, False
            if state.phase is JobPhase.PENDING:
                job.began = None  # new, or put back into the queue
                continue
            job.began = now if job.began is None else job.began
            if not job.proven and _proven(job, now):
                job.proven = True
                self.failures = 0
        if failed:
            self._fail(now, new=new)
        return failed

    def _has_ended(self, one: str, job: _Kept, now: float) -> bool:
        """Remove a job that was missed twice in a row: one that lost its node may be requeued."""
        if not job.listed and now - job.submitted < UNLISTED:
            return False
        if not job.missed:
            job.missed = True
            job.proven = job.proven or _proven(job, now)
            return False
        del self._jobs[one]
        return True

    def wanted(self, now: float) -> int:
        """Return the number of jobs to submit now."""
        missing = self._size - len(self._jobs)
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


def _proven(job: _Kept, now: float) -> bool:
    return job.began is not None and now - job.began >= PROVEN
