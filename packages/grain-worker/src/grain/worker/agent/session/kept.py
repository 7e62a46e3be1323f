"""`KeptOutcomes`: the outcomes of a worker that missions have yet to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.worker.agent.spool import SpooledOutcome
from grain.worker.messages import Backlog

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from grain.edge.messages import Payload
    from grain.worker.messages import Attempt, Lease, RunEnded

    Outcome: TypeAlias = Payload | SpooledOutcome

MAX_KEPT = 500_000
"""Outcomes that may wait to be confirmed before the worker takes no more runs."""

MAX_KEPT_BYTES = 4 * 1024**3
"""Bytes of them, likewise. Both are more than one mission may leave unconfirmed, so that a mission
which does not take its outcomes keeps no other from this worker."""

IN_MEMORY = 256 * 1024**2
"""Bytes of them that stay in memory, where there is a spool for the others."""


class KeptOutcomes:
    """The outcomes that are sent on every connection until the head acknowledges them.

    Args:
        in_memory: bytes beyond which others are spooled; inf where there is no spool.

    Attributes:
        by_attempt: the end of each run, the outcome and the lease.
        paused: True if so many are kept that the worker takes no more runs.
        bytes: those of all.
        most, most_bytes: of so many, and of so many bytes, it is paused.
        spooled: how many of them are on the disk, or are to be written.
        to_spool: those that are to be written, until `take_to_spool`.
    """

    def __init__(self, in_memory: float) -> None:
        self.by_attempt: dict[Attempt, tuple[RunEnded, Outcome, Lease]] = {}
        self.paused = False
        self.most = MAX_KEPT
        self.most_bytes = MAX_KEPT_BYTES
        self._in_memory = in_memory
        self.bytes = self._bytes_in_memory = self.spooled = 0
        self.to_spool: list[SpooledOutcome] = []

    def add(self, ended: RunEnded, payload: Payload, lease: Lease) -> Outcome:
        """Keep an outcome; return what goes to the head."""
        outcome: Outcome = payload
        if payload is not None:
            size = len(payload)
            self.bytes += size
            # The newest goes to the disk: missions mostly confirm outcomes in the order in which
            # they came, so those in memory are the first to go.
            if self._bytes_in_memory + size > self._in_memory:
                outcome = SpooledOutcome(payload)
                self.spooled += 1
                self.to_spool.append(outcome)
            else:
                self._bytes_in_memory += size
        self.by_attempt[lease.attempt] = (ended, outcome, lease)
        return outcome

    def forget(self, attempts: Iterable[Attempt]) -> None:
        """Forget outcomes that are acknowledged, maybe not for the first time."""
        for attempt in attempts:
            _, outcome, _ = self.by_attempt.pop(attempt, (None, None, None))
            if isinstance(outcome, SpooledOutcome):
                self.bytes -= outcome.size
                self.spooled -= 1
                outcome.release()
            elif outcome is not None:
                self.bytes -= len(outcome)
                self._bytes_in_memory -= len(outcome)

    def review(self) -> bool:
        """Return True if the worker is paused from now on, or is not any more.

        It takes runs again when half of too many is left: with one limit for both, it would change
        with each outcome.
        """
        parts = 2 if self.paused else 1
        many = len(self.by_attempt) * parts > self.most or self.bytes * parts > self.most_bytes
        before, self.paused = self.paused, many
        return many != before

    def backlog(self) -> Backlog:
        """Return the message on it."""
        return Backlog(len(self.by_attempt), self.bytes) if self.paused else Backlog()

    def take_to_spool(self) -> list[SpooledOutcome]:
        """Return the outcomes that are to be written to the disk, once."""
        spooled, self.to_spool = self.to_spool, []
        return spooled
