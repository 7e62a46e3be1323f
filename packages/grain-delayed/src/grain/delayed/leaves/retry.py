"""Whether a task that failed is tried again, when, and with which request. Decisions without I/O.

1. At most `retries` times after the first attempt.
2. What would fail again is not tried again, whatever `retry_on` says: a task that was cancelled,
   a request that cannot be met, what cannot travel between processes, a lost scheduler.
3. Without `retry_on`, neither what tells of a mistake in the program (TypeError, NameError, ...),
   nor a task that was given up because it crashed its worker again and again.
4. `retry_with` may give up by returning None. If one of the user's functions fails itself, the
   task's own exception stays what is raised, with a note of that.
5. An exception in groups around it counts as itself; several in a group only if each would, or if
   `retry_on` names the type of the group.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.head import Cancelled, ExecutorClosed, collapsed, flattened
from grain.head.errors import TaskCrashed, Unreachable
from grain.resource import ZERO, Infeasible, Resource
from grain.worker.errors import PayloadError

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
    RetryWith = Callable[[Resource, Exception], Resource | None]

LONGEST = 300.0
"""Seconds: the most that is waited before a retry, unless the first wait is longer."""

# How many attempts an exception tells of, of the first ones and of the last ones.
_NOTED = 10

_FINAL = (Cancelled, ExecutorClosed, Infeasible, PayloadError, Unreachable)
_MISTAKES = (
    TypeError, NameError, AttributeError, NotImplementedError, SyntaxError, TaskCrashed,
)  # fmt: skip


class Again(NamedTuple):
    """Another attempt: with which request, and after how many seconds."""

    request: Resource
    delay: float


class Final(NamedTuple):
    """No other attempt; and what there is to say of that."""

    note: str = ""


@dataclass(frozen=True)
class Retry:
    """The retries of one delayed function; `check` makes it.

    Attributes:
        retries: how many attempts there may be after the first.
        on: which exceptions: types, or a function that tells; None for rule 3.
        escalate: `retry_with`.
        wait: seconds before the first retry; twice that before the second, and so on.
    """

    retries: int
    on: RetryOn | None = None
    escalate: RetryWith | None = None
    wait: float = 1.0

    def decide(
        self, attempt: int, request: Resource, error: Exception, random: Random
    ) -> Again | Final:
        """What to do about a failed attempt.

        Args:
            attempt: which one it was, from 1.
            request: what it had asked for.
            error: what it raised.
            random: spreads the waits, so that tasks that failed together do not return together.
        """
        if attempt > self.retries:
            return Final()
        errors = flattened(error)
        if any(isinstance(e, _FINAL) for e in errors):
            return Final()
        try:
            if not self._names_group(error) and not all(
                isinstance(e, Exception) and self._wanted(e) for e in errors
            ):
                return Final()
        except Exception as failed:
            return Final(
                f"retry_on raised {type(failed).__name__}: {failed}; so it was not retried"
            )
        if self.escalate is not None:
            the_one = collapsed(error)
            try:
                asked = self.escalate(request, the_one)  # type: ignore[arg-type] # an Exception
            except Exception as failed:
                return Final(
                    f"retry_with raised {type(failed).__name__}: {failed}; so it was not retried"
                )
            if asked is None:
                return Final()
            if not isinstance(asked, Resource) or asked == ZERO:
                return Final(
                    f"retry_with returned {asked!r}; so it was not retried. It returns the next "
                    "request, as Memory(8), or None to give up"
                )
            request = asked
        return Again(request, self.delay(attempt, random))

    def delay(self, attempt: int, random: Random) -> float:
        """Seconds to wait after an attempt: doubled each time, and of that between half and all."""
        longest = max(LONGEST, self.wait)
        # Not 2.0 ** attempt, which overflows.
        whole = min(longest, self.wait * 2.0 ** min(attempt - 1, 60))
        return whole * random.uniform(0.5, 1.0)

    def _names_group(self, error: Exception) -> bool:
        types = self.on if isinstance(self.on, tuple) else (self.on,)
        groups = (t for t in types if isinstance(t, type) and issubclass(t, BaseExceptionGroup))
        return isinstance(error, tuple(groups))

    def _wanted(self, error: Exception) -> bool:
        if self.on is None:
            return not isinstance(error, _MISTAKES)
        if isinstance(self.on, type | tuple):
            return isinstance(error, self.on)
        return bool(self.on(error))


def check(retries: Any, on: Any, escalate: Any, wait: Any) -> Retry | None:
    """The options of `delayed` as a policy; None if there is nothing to retry.

    Raises:
        TypeError, ValueError: an option makes no sense.
    """
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise TypeError(f"retries={retries!r}: how many retries there may be is an int, 0 or more")
    if on is not None:
        types = on if isinstance(on, tuple) else (on,)
        for one in types:
            is_type = isinstance(one, type)
            if (is_type and not issubclass(one, Exception)) or not (
                is_type or (callable(one) and one is on)
            ):
                raise TypeError(
                    f"retry_on={on!r}: give a type of exception, a tuple of types, or a function "
                    "of the exception that tells whether to retry"
                )
    if escalate is not None and not callable(escalate):
        raise TypeError(
            f"retry_with={escalate!r}: give a function of the request and the exception that "
            "returns the next request, or None"
        )
    if isinstance(wait, bool) or not isinstance(wait, int | float):
        raise TypeError(f"retry_wait={wait!r}: the wait before a retry is a number of seconds")
    if not 0 <= wait < float("inf"):
        raise ValueError(f"retry_wait={wait!r}: the wait before a retry is 0 or more seconds")
    if not retries:
        if on is not None or escalate is not None:
            raise TypeError("retry_on and retry_with do nothing without retries=N")
        return None
    return Retry(retries, on, escalate, float(wait))


class Attempts:
    """The attempts of one task so far, for whoever sees the last of them fail."""

    __slots__ = ("_first", "_last", "count", "request")

    def __init__(self, request: Resource) -> None:
        self.request = request
        self.count = 1
        # Of very many attempts, the first and the last.
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_NOTED)

    def failed(self, error: Exception, again: Again) -> None:
        """An attempt failed, and another follows."""
        line = f"  attempt {self.count}: {told(error)}{asking(self.request)}"
        (self._first if len(self._first) < _NOTED else self._last).append(line)
        self.request = again.request
        self.count += 1

    def note(self, last: str = "") -> str:
        """What to add to the exception of the last attempt; nothing if it was the only one."""
        lines = [last] if last else []
        if self._first:
            lines.append(f"This was attempt {self.count}{asking(self.request)}. Before:")
            left_out = self.count - 1 - len(self._first) - len(self._last)
            lines += [*self._first, *[f"  and {left_out} more"] * bool(left_out), *self._last]
        return "\n".join(lines)


def told(error: BaseException) -> str:
    """An exception in one line."""
    try:
        first = (str(error).splitlines() or [""])[0]
    except Exception:  # a __str__ of the user's may raise anything
        first = ""
    if len(first) > 200:
        first = f"{first[:200]}..."
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def asking(request: Resource) -> str:
    """What a request asks for, as the end of a sentence."""
    return "" if request is ZERO else f", with {request.ask()}"
