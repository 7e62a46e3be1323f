"""What was tried to reach a head, for `DialError` and `grain doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One way that was tried.

    Attributes:
        transport: "meeting", "unix", "tcp", "reverse" or "files".
        target: where to, for people: a path, or host and port.
        outcome: "ok", or why it failed.
        seconds: how long it took.
    """

    transport: str
    target: str
    outcome: str
    seconds: float

    @property
    def ok(self) -> bool:
        """It worked."""
        return self.outcome == "ok"

    def __str__(self) -> str:
        return f"{self.transport:8} {self.target}: {self.outcome} ({self.seconds:.1f} s)"
