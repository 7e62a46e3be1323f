"""What a runner's handle tells the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from grain.worker.errors import signal_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge.messages import Payload
    from grain.worker.messages import Ended


@dataclass(frozen=True)
class Crash:
    """A runner has died, and nothing is left of it.

    Attributes:
        runs: what it was running: task and attempt.
        returncode: its exit code, or the negative number of the signal; None if nobody saw it.
        out_of_memory: whether the kernel killed a process of our control group meanwhile, because
            memory ran out.
        blocked: seconds for which it had been blocked when last seen.
        max_rss: the largest resident memory of one of its processes, in GB.
        host: where that was.
        left: pids of processes that survive SIGKILL.
    """

    runs: tuple[tuple[int, int], ...]
    returncode: int | None
    out_of_memory: bool = False
    blocked: float = 0.0
    max_rss: float = 0.0
    host: str = ""
    left: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.returncode is None:
            how = "ended in an unknown way"
        elif self.returncode < 0:
            how = f"was ended by {signal_name(self.returncode)}"
        else:
            how = f"exited with code {self.returncode}"
        if self.out_of_memory:
            how += ", out of memory"
        if self.blocked:
            how += f", blocked for {self.blocked:.0f} s"
        how += f" (peak memory {self.max_rss:.2f} GB)"
        if self.left:
            how += f"; processes survive SIGKILL: {', '.join(map(str, self.left))}"
        return f"the runner on {self.host} {how}"


class Reports(Protocol):
    """Who is told what becomes of runs. Its methods return soon and raise nothing."""

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        """Runs have ended, nothing of them is left; the payload of each is its outcome."""

    def crashed(self, crash: Crash) -> None:
        """A runner has died. What it ran and is not in ``crash.runs`` was reported before."""

    def blocked(self, seconds: float, runs: tuple[tuple[int, int], ...]) -> None:
        """The runner has given no sign of life for some seconds: one of these runs blocks it."""

    def unblocked(self, seconds: float) -> None:
        """The runner lives again, after that many seconds."""

    def unusable(self, why: str) -> None:
        """No other runner can be had; what was handed to the handle since will not run."""
