"""`Leaf`: the state of a leaf that is cached or retried, and the call that its attempts make."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.delayed.cache.key import Key
    from grain.delayed.graph import Outcome, TaskNode
    from grain.delayed.leaves.retry import Attempts, Retry
    from grain.delayed.leaves.snapshot import Snapshot
    from grain.head.messages import FailedOn
    from grain.worker import Call
    from grain.worker.messages import PastAttempts


@dataclass(slots=True, eq=False, repr=False)
class Leaf:
    """A leaf until it is resolved; the executor calls it with the outcome of an attempt.

    Attributes:
        node: the node of the leaf, which is filled in when the leaf is resolved.
        call: the call, without its arguments if the snapshot has them: a leaf may wait for long.
        snapshot: the call as it was made; None if attempts run the call itself.
        key: the key of the result; None if it is not kept.
        began: the time of the call, by the monotonic clock.
        ended: the outcome, while the cache writes it.
        first: the number of the first attempt; 0 before it.
        failed_on: where attempts have failed.
        past: these attempts; None before the first failure.
    """

    node: TaskNode
    on_ended: Callable[[Leaf, Outcome], object]
    attempts: Attempts
    call: Call
    snapshot: Snapshot | None
    in_process: bool
    key: Key | None
    retry: Retry | None
    urgency: float
    began: float = field(default_factory=time.monotonic)
    error: Exception | None = None
    ended: Outcome | None = None
    first: int = 0
    failed_on: tuple[FailedOn, ...] = ()
    past: PastAttempts | None = None

    def submitted(self, task: int) -> None:
        """Take the number of an attempt that was submitted."""
        self.node.number = task
        self.first = self.first or task

    def attempt(self) -> Call:
        """Return the call of the next attempt."""
        if self.snapshot is None:
            return self.call
        return self.snapshot.call_in_process() if self.in_process else self.snapshot.call()

    def __call__(self, ended: Outcome) -> None:
        """Take the outcome of an attempt."""
        self.on_ended(self, ended)
