"""`Leaf`: the state of a leaf that is cached or retried, and the call that its attempts make."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from grain.delayed.graph import TaskNode
from grain.delayed.leaves.copies import OnCopies, copy_of
from grain.delayed.leaves.retry import Attempts
from grain.worker import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.delayed.cache.key import Key
    from grain.delayed.graph import MissionTasks, Outcome
    from grain.delayed.leaves.copies import Snapshot
    from grain.delayed.leaves.retry import Retry
    from grain.resource import Resource


class Leaf:
    """A leaf until it is resolved; the executor calls it with the outcome of an attempt.

    Attributes:
        node: the node of the leaf, which is filled in when the leaf is resolved.
        attempts: the attempts so far.
        began: the time of the call, by the monotonic clock.
        error: the exception of the last attempt, while another one is under way.
        ended: the outcome, while the cache writes it.
    """

    __slots__ = (
        "_on_ended", "attempts", "began", "by_reference", "call", "copied", "ended", "error", "key",
        "node", "retry", "shared",
    )  # fmt: skip

    def __init__(
        self,
        tasks: MissionTasks,
        on_ended: Callable[[Leaf, Outcome], object],
        res: Resource,
        call: Call,
        copied: Snapshot | None,
        by_reference: bool,
        key: Key | None,
        retry: Retry | None,
    ) -> None:
        self._on_ended = on_ended
        self.call = call if copied is None else copied.call
        self.copied = copied is not None
        self.shared: tuple[Any, ...] = () if copied is None else copied.shared
        self.by_reference = by_reference
        self.key = key
        self.retry = retry
        self.node = TaskNode(tasks)
        self.attempts = Attempts(res)
        self.began = time.monotonic()
        self.error: Exception | None = None
        self.ended: Outcome | None = None

    def attempt(self) -> Call:
        """Return the call of the next attempt, which does not see what another did to arguments."""
        if self.by_reference and self.shared:
            return Call(OnCopies(self.call), (), {})
        if self.by_reference and self.copied and self.retry is not None:
            return copy_of(self.call) or self.call
        return self.call

    def __call__(self, ended: Outcome) -> None:
        """Take the outcome of an attempt."""
        self._on_ended(self, ended)
