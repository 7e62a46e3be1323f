"""Errors of batch systems: their own words, and a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.cli.batch.base import BatchJob


class BatchError(Exception):
    """A batch system, or this machine in its place, refused a request or failed.

    Commands show its text as it is, without a traceback.

    Attributes:
        what: the failure in a few words, for instance ``sbatch failed (exit code 1)``.
        output: the output of the batch system, unchanged; may be empty.
        remedy: the change that helps; empty where none is known.
    """

    def __init__(self, what: str, output: str = "", remedy: str = "") -> None:
        # The arguments are kept as they are, so that the exception pickles.
        super().__init__(what, output, remedy)
        self.what = what
        self.output = output
        self.remedy = remedy

    def __str__(self) -> str:
        output = "".join(f"\n  {line}" for line in self.output.strip().splitlines())
        remedy = f"\n{self.remedy}" if self.remedy else ""
        return f"{self.what}{':' if output else ''}{output}{remedy}"


class BatchUnreachable(BatchError):
    """The batch system did not answer; the same request may succeed later."""


class BatchUnsupported(BatchError):
    """The question cannot be asked here, now or later."""


class BatchUnreadable(BatchError):
    """The batch system's answer is not in the expected form."""


class SubmissionUnknown(BatchError):
    """A submission has no answer, or none that can be read: perhaps there are jobs now.

    To submit them again without a look at the batch system's list could start them twice.
    """

    def __init__(self, what: str, output: str, jobs: Sequence[BatchJob], remedy: str = "") -> None:
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        names = ", ".join(job.name for job in jobs[:1]) + more
        look = (
            f"It is unknown whether the batch system has {names} now. `grain ls` shows what there "
            "is of it; look there before you submit again."
        )
        super().__init__(what, output, f"{look}\n{remedy}" if remedy else look)
        self.args = (what, output, jobs, remedy)
        self.jobs = tuple(jobs)
