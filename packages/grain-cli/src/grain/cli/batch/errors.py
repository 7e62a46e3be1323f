"""Errors of batch systems: their own words, and a remedy."""

from __future__ import annotations


class BatchError(Exception):
    """A batch system, or this machine in its place, refused a request or failed.

    Commands show its text as it is, without a traceback.

    Attributes:
        what: The failure in a few words, for instance ``sbatch failed (exit code 1)``.
        output: The output of the batch system, unchanged; may be empty.
        remedy: The change that helps; empty where none is known.
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


def unreadable(command: str, output: str) -> BatchError:
    """Make the error for an answer that is not in the expected form."""
    return BatchError(
        f"{command} printed what Grain does not understand",
        "\n".join(output.strip().splitlines()[:5]) or "(nothing)",
        "Its version may be one that Grain does not know: please report it, with this text.",
    )
