"""An attempt to reach a head, for `DialError` and `grain doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """A route to a head that was tried.

    Attributes:
        transport: "meeting", "unix", "tcp", "relay", "reverse" or "files".
        target: the address tried, for display: a path, or host and port.
        outcome: "ok", or why the attempt failed.
        unusable: True if the meeting itself cannot be used; False also if it names no living head.
    """

    transport: str
    target: str
    outcome: str
    seconds: float
    unusable: bool = False

    @property
    def ok(self) -> bool:
        """True if the attempt succeeded."""
        return self.outcome == "ok"

    def __str__(self) -> str:
        return f"{self.transport:8} {self.target}: {self.outcome} ({self.seconds:.1f} s)"
