"""A leaf that is cared for: the state of its attempts, and the call that they make."""

from __future__ import annotations

import copy
import time
from types import FunctionType
from typing import TYPE_CHECKING, Any

from grain.delayed._graph import Source
from grain.delayed._retry import Attempts
from grain.worker import Call

if TYPE_CHECKING:
    import outcome

    from grain.delayed._care import Nurse
    from grain.delayed._key import Key
    from grain.delayed._retry import Retry
    from grain.resource import Resource

    Outcome = outcome.Value[Any] | outcome.Error


class Leaf:
    """A leaf until it is resolved; the executor calls it with the outcome of an attempt."""

    __slots__ = (
        "attempts", "began", "call", "copied", "ended", "error", "key", "nurse", "retry", "source",
    )  # fmt: skip

    def __init__(
        self,
        nurse: Nurse,
        res: Resource,
        call: Call,
        copied: bool,
        key: Key | None,
        retry: Retry | None,
    ) -> None:
        self.nurse = nurse
        self.call = call
        self.copied = copied
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
        return snapshot(self.call) if self.copied and self.retry is not None else self.call

    def __call__(self, ended: Outcome) -> None:
        self.nurse.ended(self, ended)


def snapshot(call: Call) -> Call:
    """A call that does not change with its arguments."""
    values: tuple[object, ...] = (*call.args, *call.kwargs.values())
    if isinstance(call.fn, FunctionType) and all(type(value) in _CONSTANT for value in values):
        return call
    try:
        return Call._make(copy.deepcopy(tuple(call)))
    except Exception:  # it cannot be copied, so it will hardly be pickled: which tells why
        return call


_CONSTANT = frozenset({int, float, complex, str, bytes, bool, type(None)})
