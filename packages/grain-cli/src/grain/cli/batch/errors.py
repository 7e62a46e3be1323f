"""What a batch system can refuse, with its own words and what to do about them."""

from __future__ import annotations


class BatchError(Exception):
    """A batch system, or this machine in its place, did not do what it was asked.

    Its text is meant to be shown as it is, without a traceback.

    Attributes:
        what: What failed, in a few words, for instance ``sbatch failed (exit code 1)``.
        told: What the batch system said, unchanged; may be empty.
        remedy: What to change, or empty where nobody knows.
    """

    def __init__(self, what: str, told: str = "", remedy: str = "") -> None:
        # The arguments are kept as they are, so that the exception pickles.
        super().__init__(what, told, remedy)
        self.what = what
        self.told = told
        self.remedy = remedy

    def __str__(self) -> str:
        told = "".join(f"\n  {line}" for line in self.told.strip().splitlines())
        return f"{self.what}{':' if told else ''}{told}" + (
            f"\n{self.remedy}" if self.remedy else ""
        )


class BatchUnreachable(BatchError):
    """The batch system did not answer; the same request may succeed later."""


class BatchUnsupported(BatchError):
    """The question cannot be asked here, now or later."""
