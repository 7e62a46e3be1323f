"""Reports that wait for company: `ArrivedLeases` and `PrintedLines`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.worker.messages import PRINTED, ArrivedCount, TasksPrinted

if TYPE_CHECKING:
    from grain.worker.messages import Attempt

_COUNT_DELAY = 0.1  # seconds by which `ArrivedCount` may wait for company: short runs end before
_PRINT_DELAY = 0.2  # seconds by which lines that tasks print wait for company


class ArrivedLeases:
    """The leases that have arrived.

    The count matters only if this worker dies: a lease that never arrived has no part in that. So
    it may wait.

    Attributes:
        last: the last attempt of each head, by its epoch.
        count: how many have arrived on this connection.
        due: when the head is to be told; inf if it knows.
    """

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.count = 0
        self.due = math.inf

    def take(self, attempt: Attempt, now: float) -> bool:
        """Count a lease; return False if it has come before.

        The runs and the outcomes that are here do not tell: the outcome may have been acknowledged,
        and forgotten, when the lease comes once more. But the attempts of a head ascend.
        """
        epoch, number = attempt
        if number <= self.last.get(epoch, -1):
            return False
        self.last[epoch] = number
        self.count += 1
        self.due = min(self.due, now + _COUNT_DELAY)
        return True

    def restart(self) -> None:
        """Count from the beginning: a head counts those that it sends on a connection."""
        self.count = 0
        self.due = math.inf

    def report(self) -> ArrivedCount | None:
        """Return the message for the head, once; None if it knows."""
        known, self.due = self.due == math.inf, math.inf
        return None if known else ArrivedCount(self.count)


class _Lines:
    """Lines of one mission: as many as fit one message.

    Attributes:
        lines: each with its end.
        lost: the number of lines that do not fit, or were lost before.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.lost = 0
        self._room = PRINTED

    def add(self, lines: tuple[str, ...], lost: int) -> None:
        self.lost += lost
        for line in lines:
            if len(line) >= self._room:
                self.lost += 1
            else:
                self._room -= len(line) + 1
                self.lines.append(f"{line}\n")


class PrintedLines:
    """Lines that runs have printed, by the missions that want them.

    Attributes:
        due: when they are to be sent; inf if there are none.
    """

    def __init__(self) -> None:
        self._missions: dict[str, _Lines] = {}
        self.due = math.inf

    def add(self, mission: str, lines: tuple[str, ...], lost: int, now: float) -> None:
        """Add lines, after some that were lost."""
        self._missions.setdefault(mission, _Lines()).add(lines, lost)
        self.due = min(self.due, now + _PRINT_DELAY)

    def take(self) -> list[TasksPrinted]:
        """Return the messages for the head, once."""
        missions, self._missions, self.due = self._missions, {}, math.inf
        return [
            TasksPrinted(mission, "".join(one.lines), one.lost) for mission, one in missions.items()
        ]
