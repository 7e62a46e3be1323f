"""What a runner's handle tells the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge.messages import Payload
    from grain.worker.messages import Ended
    from grain.worker.processes.subreaper_client import ProcessEnd


@dataclass(frozen=True)
class Crash:
    """A runner has died, and nothing is left of it.

    Attributes:
        runs: what it was running: task and attempt.
        end: how its process ended.
        blocked: seconds for which it had been blocked when last seen.
        host: where that was.
    """

    runs: tuple[tuple[int, int], ...]
    end: ProcessEnd
    blocked: float = 0.0
    host: str = ""

    def __str__(self) -> str:
        return f"the runner on {self.host} {self.end.describe(self.blocked)}"


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
