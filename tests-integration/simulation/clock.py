"""Virtual time: a heap of events, and one source of chance."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """Events in the order of their time; those of equal time in the order of their making."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self.steps = 0
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def at(self, time: float, action: Callable[[], object]) -> None:
        """Call a function at a time."""
        self._count += 1
        heappush(self._heap, (max(time, self.now), self._count, action))

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Call a function later."""
        self.at(self.now + seconds, action)

    def step(self, until: float) -> bool:
        """Let the next event happen; return False if there is none before a time."""
        if not self._heap or self._heap[0][0] > until:
            self.now = max(self.now, until)
            return False
        self.now, _, action = heappop(self._heap)
        self.steps += 1
        action()
        return True
