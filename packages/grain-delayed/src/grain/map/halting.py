"""The decision to halt, and the exit status of the whole, as with GNU parallel.

The exit status is the number of jobs that failed, up to 100, and 101 for more. Where ``--halt``
ended the run, it is 0 for ``success=`` and ``done=`` reached, and for ``fail=1`` that of the job
that failed. (GNU parallel's manual, EXIT STATUS and ``--halt``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from grain.map.errors import MapError
from grain.map.failures import FailureGroups
from grain.resource.figures import counted

# Exit statuses for anything that goes wrong beside jobs.
TROUBLE = 255
INTERRUPTED = 130


@dataclass(frozen=True)
class Halt:
    """The policy to start no more jobs (soon), or to end running ones, too (now)."""

    when: Literal["never", "now", "soon"] = "never"
    why: Literal["fail", "success", "done"] = "fail"
    count: int = 0


NEVER = Halt()
_FORM = re.compile(r"(now|soon),(fail|success|done)=([1-9][0-9]{0,8})", re.ASCII)
_SHORT = {
    "1": "soon,fail=1",
    "2": "now,fail=1",
    "-1": "soon,success=1",
    "-2": "now,success=1",
}


def parse_halt(text: str) -> Halt:
    """Return the policy that a text states.

    Raises:
        MapError: the text states none.
    """
    text = _SHORT.get(text, text)
    if text in ("never", "0"):
        return NEVER
    if match := _FORM.fullmatch(text):
        when: Literal["now", "soon"] = "now" if match[1] == "now" else "soon"
        why: Literal["fail", "success", "done"] = (
            "fail" if match[2] == "fail" else "success" if match[2] == "success" else "done"
        )
        return Halt(when, why, int(match[3]))
    percent = " Percentages are not, as the inputs are a stream." if "%" in text else ""
    raise MapError(
        f"--halt {text}: understood are never, and now or soon with a number of jobs that fail, "
        f"succeed or are done, as in now,fail=1 or soon,fail=3.{percent}"
    )


class Tally:
    """The counts of jobs by their ends.

    Attributes:
        succeeded: jobs that ended with exit code 0.
        failed: jobs that ended otherwise.
        failed_before: jobs that failed in an earlier run, and were not run again.
        skipped: jobs that ended in an earlier run, those that failed among them.
        reason: the job whose end made it so, and that end, as part of a sentence.
        log: what `grain history` takes for the event log of this run, once it is closed.
    """

    def __init__(self, halt: Halt) -> None:
        self.halt = halt
        self.succeeded = 0
        self.failed = 0
        self.failures = FailureGroups()
        self.failed_before = 0
        self.skipped = 0
        self.halted = False
        self.reason = ""
        self.log = ""
        self._last_failure = 0

    def skip(self, *, failed: bool) -> None:
        """Count a job of an earlier run."""
        self.skipped += 1
        self.failed_before += failed

    def add(self, exitval: int, signal: int, description: str = "") -> None:
        """Count a job that ended.

        Args:
            signal: the number of the signal that ended it, 0 if none did.
            description: the job and its end, as in "job 3 (b.xyz) failed with exit status 1".
        """
        if self.halted:  # a job that ends thereafter was not the reason
            self.succeeded += not (exitval or signal)
            self.failed += bool(exitval or signal)
            return
        if exitval or signal:
            self.failed += 1
            # The exit status of a shell for a signal.
            self._last_failure = 128 + signal if signal else exitval % 256
        else:
            self.succeeded += 1
        if self.halt.when != "never":
            reached = {
                "fail": self.failed,
                "success": self.succeeded,
                "done": self.failed + self.succeeded,
            }
            self.halted = reached[self.halt.why] >= self.halt.count
            self.reason = description if self.halted else ""

    @property
    def total(self) -> int:
        """The number of jobs of this run and of the earlier run that it goes on with."""
        return self.succeeded + self.failed + self.skipped

    def exit_status(self) -> int:
        """Return the exit status of the whole."""
        if self.halted and self.halt.why != "fail":
            return 0
        if self.halted and self.halt.count == 1:
            return self._last_failure
        return min(self.failed + self.failed_before, 101)

    def summary(self) -> str:
        """Return one line for the user."""
        failures = self.failures.summary()
        # Of a single failure for which it halted, the end of the line has everything.
        if failures and not (self.failed == 1 and self.halt.why == "fail" and self.reason):
            failed = f"{self.failed} failed ({failures})"
        else:
            failed = f"{self.failed} failed"
        parts = [f"{counted(self.succeeded, 'job')} succeeded", failed]
        if self.skipped:
            parts.append(f"{self.skipped} had ended before")
        line = ", ".join(parts)
        if self.failed_before:
            line += (
                f" ({self.failed_before} of them by failing; --resume-failed runs these once more)"
            )
        if not self.halted:
            return line
        return f"{line}; halted, as {self.reason}" if self.reason else f"{line}; halted"
