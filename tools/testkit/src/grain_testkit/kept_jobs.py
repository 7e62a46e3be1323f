"""Jobs of an executor that never was, for those who write lines about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grain.head.run_log import RunLog
    from grain.resource import Resource


class KeptJob:
    """A `grain.head.base.JobRecord`."""

    def __init__(self, name: str, request: Resource, after: int, submitted: float | None) -> None:
        self.name = self.function = name
        self.request = request
        self.urgency = 0.0
        self.after = after
        self.submitted = submitted
        self.deliver = None


class KeptJobs:
    """The jobs of a mission with a log.

    Args:
        log: the log.
        request: what the jobs ask for that are not submitted by a test.
        count: their number.
    """

    def __init__(self, log: RunLog, request: Resource, count: int = 0) -> None:
        self._log = log
        self.jobs: dict[int, Any] = {}
        log.follow(self.jobs)
        for task in range(1, count + 1):
            self.jobs[task] = KeptJob("f", request, 0, None)
        self._last = count

    def submit(self, function: str, request: Resource, after: int = 0, retry_of: int = 0) -> int:
        """Submit a job, as an executor does; return its number."""
        self._last = task = self._last + 1
        self.jobs[task] = KeptJob(function, request, after, self._log.tick())
        if retry_of:
            self._log.retried(task, retry_of)
        return task

    def end(self, task: int, seconds: float = 0.0) -> None:
        """End a job with a value, after a brief run; as an executor does."""
        job = self.jobs.pop(task)
        self._log.tick()
        if job.submitted is not None and not self._log.room:
            self._log.count(job, 1, seconds, job.submitted)
        else:
            self._log.ended(task, None, job=job, report=seconds)
