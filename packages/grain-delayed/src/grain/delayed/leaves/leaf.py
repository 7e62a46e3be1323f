"""A leaf that is cared for: the state of its attempts, and the call that they make."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from grain.delayed.graph import Source
from grain.delayed.leaves.copies import OnCopies, copy_of
from grain.delayed.leaves.retry import Attempts
from grain.worker import Call

if TYPE_CHECKING:
    import outcome

    from grain.delayed.cache.key import Key
    from grain.delayed.leaves.copies import Snapshot
    from grain.delayed.leaves.manager import Nurse
    from grain.delayed.leaves.retry import Retry
    from grain.resource import Resource

    Outcome = outcome.Value[Any] | outcome.Error


class Leaf:
    """A leaf until it is resolved; the executor calls it with the outcome of an attempt."""

    __slots__ = (
        "attempts", "began", "by_reference", "call", "copied", "ended", "error", "key", "nurse",
        "retry", "shared", "source",
    )  # fmt: skip

    def __init__(
        self,
        nurse: Nurse,
        res: Resource,
        call: Call,
        copied: Snapshot | None,
        by_reference: bool,
        key: Key | None,
        retry: Retry | None,
    ) -> None:
        self.nurse = nurse
        self.call = call if copied is None else copied.call
        self.copied = copied is not None
        self.shared = () if copied is None else copied.shared
        self.by_reference = by_reference
        self.key = key
        self.retry = retry
        self.attempts = Attempts(res)
        self.began = time.monotonic()
        self.source = Source(nurse.mission)
        # The exception of the last attempt, while another is under way.
        self.error: Exception | None = None
        # The outcome, while it is kept.
        self.ended: Outcome | None = None

    def attempt(self) -> Call:
        """What to run now: what an attempt does to its arguments is not seen by the next one."""
        if self.by_reference and self.shared:
            return Call(OnCopies(self.call), (), {})
        if self.by_reference and self.copied and self.retry is not None:
            return copy_of(self.call) or self.call
        return self.call

    def __call__(self, ended: Outcome) -> None:
        self.nurse.ended(self, ended)
