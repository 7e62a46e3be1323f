"""Chains in the agent: its runs that wait for the end of another run. No I/O.

In the runner, the successors of a chain wait (`grain.worker.runner.chains`). The agent keeps their
order, as the first run of a chain that has not ended is the one under way: the run to blame for a
crash, and the run whose end the others wait for. A run that is not brief must not hold up others
which could begin elsewhere, so the agent recalls successors that wait for longer than `PATIENCE`.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.worker.messages import Attempt, GangNews, Lease

PATIENCE = 0.5
"""Seconds that a run may take while others wait for its end, and that a run may have to wait. A
head that prefetches expects runs to wait for less than half of that, also on a busy machine."""


class Wish(enum.Enum):
    """The intended end of a run that has not ended yet."""

    COMPLETE = enum.auto()
    """The run is to end by itself."""
    CANCEL = enum.auto()
    """The head has revoked the run."""
    RETURN = enum.auto()
    """The worker leaves, and hands the run back."""


class RunRecord:
    """A run that has not ended: under way, or waiting in a chain.

    Attributes:
        began: when it came, or when its predecessor ended.
        news: what it has said, if it is the part of a gang.
    """

    __slots__ = ("began", "chain", "lease", "news", "wish")

    def __init__(self, lease: Lease, began: float) -> None:
        self.lease = lease
        self.began = began
        self.wish = Wish.COMPLETE
        self.chain: Chain | None = None
        self.news: GangNews | None = None


class Chain:
    """The runs of a chain that have not ended, in their order; the first is under way.

    Attributes:
        recalled: True if the runner was asked to return those that wait.
    """

    __slots__ = ("key", "recalled", "runs")

    def __init__(self, key: Attempt) -> None:
        self.key = key
        self.runs: deque[RunRecord] = deque()
        self.recalled = False

    def append(self, run: RunRecord) -> None:
        """Add a run behind all others."""
        self.runs.append(run)
        run.chain = self


class Chains:
    """The chains of an agent, by the attempt that began each.

    Args:
        patience: seconds that a run may take while others wait for its end.

    Attributes:
        due: when to call `overdue`; inf if nothing waits.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._chains: dict[Attempt, Chain] = {}
        self.due = math.inf

    def join(self, key: Attempt, run: RunRecord, first: RunRecord | None, now: float) -> None:
        """Add a run to a chain.

        Args:
            first: the run of that attempt, if it has not ended.
        """
        chain = self._chains.get(key)
        if chain is None:
            chain = self._chains[key] = Chain(key)
            if first is not None:
                chain.append(first)
        chain.append(run)
        # A recall was for those that waited then; this one may have to be recalled as well.
        if len(chain.runs) > 1:
            chain.recalled = False
            self.due = min(self.due, now + self._patience)

    def leave(self, run: RunRecord, now: float) -> None:
        """Take a run that has ended out of its chain."""
        chain = run.chain
        if chain is None:
            return
        if chain.runs[0] is run:
            chain.runs.popleft()
            if chain.runs:
                # It begins now, and those behind it wait for it from now on.
                chain.runs[0].began = now
                chain.recalled = False
                if len(chain.runs) > 1:
                    self.due = min(self.due, now + self._patience)
            else:
                del self._chains[chain.key]
        # It was handed back, or revoked before it began: the run under way is another one.
        else:
            chain.runs.remove(run)

    def waiting(self) -> list[RunRecord]:
        """Return the runs that are not the first of their chain."""
        return [run for chain in self._chains.values() for run in list(chain.runs)[1:]]

    def overdue(self, now: float) -> list[RunRecord]:
        """Return the runs that have to wait for long, each once; call it when it is `due`."""
        overdue: list[RunRecord] = []
        self.due = math.inf
        for chain in self._chains.values():
            if len(chain.runs) < 2 or chain.recalled:
                continue
            # The first is under way, and the second waits: since when, whichever is earlier. So
            # many brief predecessors do not add up to a long wait.
            since = min(run.began for run in itertools.islice(chain.runs, 2))
            if since + self._patience <= now:
                overdue += list(chain.runs)[1:]
                chain.recalled = True
            else:
                self.due = min(self.due, since + self._patience)
        return overdue
