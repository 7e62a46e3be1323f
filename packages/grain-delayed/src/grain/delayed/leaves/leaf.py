"""`Leaf`: the state of a leaf that is cached or retried, and the call that its attempts make."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from grain.delayed.graph import TaskNode
from grain.delayed.leaves.retry import Attempts
from grain.worker import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.delayed.cache.key import Key
    from grain.delayed.graph import MissionTasks, Outcome
    from grain.delayed.leaves.retry import Retry
    from grain.delayed.leaves.snapshot import Snapshot
    from grain.resource import Resource


class Leaf:
    """A leaf until it is resolved; the executor calls it with the outcome of an attempt.

    Args:
        snapshot: the call as it was made; None if attempts run the call itself.
        key: the key of the result; None if it is not kept.

    Attributes:
        node: the node of the leaf, which is filled in when the leaf is resolved.
        began: the time of the call, by the monotonic clock.
        ended: the outcome, while the cache writes it.
        first: the number of the first attempt; 0 before it.
    """

    __slots__ = (
        "_on_ended", "_snapshot", "attempts", "began", "call", "ended", "error", "first",
        "in_process", "key", "node", "retry", "urgency",
    )  # fmt: skip

    def __init__(
        self,
        tasks: MissionTasks,
        on_ended: Callable[[Leaf, Outcome], object],
        res: Resource,
        call: Call,
        snapshot: Snapshot | None,
        in_process: bool,
        key: Key | None,
        retry: Retry | None,
        urgency: float,
    ) -> None:
        self._on_ended = on_ended
        self._snapshot = snapshot
        # Without the arguments, if the snapshot has them: a leaf may wait for long.
        self.call = call if snapshot is None else Call(call.fn, (), {})
        self.in_process = in_process
        self.key = key
        self.retry = retry
        self.urgency = urgency
        self.node = TaskNode(tasks, call.fn)
        self.attempts = Attempts(res)
        self.began = time.monotonic()
        self.error: Exception | None = None
        self.ended: Outcome | None = None
        self.first = 0

    def submitted(self, task: int) -> None:
        """Take the number of an attempt that was submitted."""
        self.node.number = task
        self.first = self.first or task

    def attempt(self) -> Call:
        """Return the call of the next attempt."""
        if self._snapshot is None:
            return self.call
        return self._snapshot.call_in_process() if self.in_process else self._snapshot.call()

    def __call__(self, ended: Outcome) -> None:
        """Take the outcome of an attempt."""
        self._on_ended(self, ended)
