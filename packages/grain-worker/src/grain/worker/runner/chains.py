"""Chains in the runner: runs that wait for the end of another run. No I/O.

A *chain* is a succession of runs on one worker with the same resources, one after the other. A
head sends the successors of a run before that run has ended (`grain.head.hub.tasks.prefetch`), so
that the worker need not wait for the head between brief runs. Only the runner knows at once when a
run has ended, so the successors wait here; `grain.worker.agent.chains` is the agent's view of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from grain.worker.messages import chain_of

if TYPE_CHECKING:
    from grain.worker.messages import Attempt, StartRun

Beside = TypeVar("Beside")


class WaitingRuns(Generic[Beside]):
    """The runs that wait in a chain, each with its payload (`Beside`) as it came over the channel.

    Attributes:
        chains: the waiting runs by chain. A chain has an entry, which may be empty, from the
            arrival of its first successor until its last run has ended.
    """

    def __init__(self) -> None:
        self.chains: dict[Attempt, deque[tuple[StartRun, Beside]]] = {}
        self.count = 0

    def admit(self, run: StartRun, payload: Beside, *, first_runs: bool) -> bool:
        """Return True if a run begins at once; otherwise it waits for `pop_successor`.

        Args:
            first_runs: True if the run that began the chain is under way.
        """
        chain = chain_of(run)
        waiting = self.chains.get(chain)
        if waiting is None:
            # The entry says from now on that this run occupies the chain.
            waiting = self.chains[chain] = deque()
            if not first_runs:
                return True
        waiting.append((run, payload))
        self.count += 1
        return False

    def pop_successor(self, run: StartRun) -> tuple[StartRun, Beside] | None:
        """Return the run that begins when this one has ended, if one waits for that."""
        chain = chain_of(run)
        waiting = self.chains.get(chain)
        if waiting is None:
            return None
        if waiting:
            self.count -= 1
            return waiting.popleft()
        del self.chains[chain]
        return None

    def withdraw(self, attempt: Attempt) -> bool:
        """Take a waiting run out of its chain; return False if it does not wait."""
        for waiting in self.chains.values():
            for delivery in waiting:
                if delivery[0].attempt == attempt:
                    waiting.remove(delivery)
                    self.count -= 1
                    return True
        return False

    def clear(self) -> None:
        """Forget all waiting runs: none of them is to begin."""
        self.chains.clear()
        self.count = 0
