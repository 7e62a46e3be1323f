"""The reports of a runner's handle to its agent."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import outcome

from grain.worker.errors import RunnerMemoryError, note_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.edge.messages import Payload
    from grain.worker.messages import (
        Attempt,
        BlockingCode,
        Ended,
        Inspected,
        JobBegins,
        RunMessage,
    )
    from grain.worker.processes.subreaper_client import ProcessEnd


@dataclass(frozen=True)
class RunnerDeath:
    """The death of a runner's process that has left nothing behind.

    Attributes:
        blocked: seconds for which it had been blocked when last seen.
        begun: for each lane among the runs, the call that it began last, if that is known.
        jobs: the attempts of jobs among the runs.
    """

    runs: tuple[Attempt, ...]
    end: ProcessEnd
    blocked: float = 0.0
    host: str = ""
    begun: Mapping[Attempt, int] = field(default_factory=dict)
    jobs: tuple[JobBegins, ...] = ()

    @property
    def for_want_of_memory(self) -> bool:
        """True if the kernel has killed it, as memory ran out."""
        return self.end.out_of_memory and self.end.returncode == -signal.SIGKILL

    def memory_outcome(self, amount: float, last: bool) -> Payload:
        """Return the outcome of a run that died with it; arguments as of `note_memory`."""
        from grain.worker.payload import Payloads  # the agent needs it seldom

        error = RunnerMemoryError(str(self), amount)
        note_memory(error, amount, last=last)
        return Payloads(self.host).dump_outcome(outcome.Error(error))

    def __str__(self) -> str:
        return f"the runner on {self.host} {self.end.describe(self.blocked)}"


class RunnerListener(Protocol):
    """The receiver of a runner's reports. Its methods return soon and raise nothing."""

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        """Take the ends of runs that have left nothing behind; each payload is an outcome."""

    def inspected(self, answer: Inspected) -> None:
        """Take the programs of a run, the answer to a question."""

    async def is_ending(self, signal: int) -> bool:
        """Return True if the worker is being ended, so that a run which fails may do so for that.

        Args:
            signal: as of `AskEnding`.
        """

    def warned(self) -> None:
        """Record that a program was warned of the end of this worker."""

    def run_message(self, news: RunMessage) -> None:
        """Take what a run has to say, for its head."""

    def replaced(self, why: str) -> bool:
        """Record that no other runner is started, as it would run other code of Grain.

        Returns:
            True if the runs are handed back that come to nothing because of that.
        """

    def died(self, death: RunnerDeath) -> None:
        """Take the death of a runner; the ends of its runs not in ``death.runs`` came before."""

    def blocked(self, seconds: float, runs: tuple[Attempt, ...]) -> None:
        """Record that one of these runs has blocked the runner for so many seconds."""

    def unblocked(self, seconds: float) -> None:
        """Record that the runner answers again, after so many seconds."""

    def blocking(self, attempt: Attempt | None, code: BlockingCode) -> None:
        """Take a report of the runner's watchdog: the code that blocks it, of a run if known."""

    def printed(self, attempt: Attempt, lines: tuple[str, ...], lost: int) -> None:
        """Take lines that a run has printed, after a number of others that were left out."""

    def unusable(self, why: str) -> None:
        """Record that no other runner can be started: what was ordered since will not run."""
