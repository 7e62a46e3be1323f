"""The decision about a task that failed: whether, when and with which request it runs again.

1. There are at most `retries` attempts after the first.
2. A task that would fail again is not retried, whatever `retry_on` says: a task that was cancelled,
   whose request cannot be met, whose arguments or result cannot travel between processes, or that
   has lost its scheduler.
3. Without `retry_on`, neither a mistake in the program (TypeError, NameError, ...) is retried, nor
   a task that was given up because it crashed its worker again and again, or outlived too many.
4. `retry_with` gives up by returning None. If one of the user's functions raises itself, the task's
   own exception is still raised, with a note about the other.
5. An exception in groups around it counts as itself; several in a group count only if each of them
   would, or if `retry_on` names the type of the group.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.head import ExecutorClosed, TaskCancelled, collapsed, flattened
from grain.head.errors import TaskCrashed, TaskOutlivesWorkers, Unreachable
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
"""Seconds: the longest wait before a retry, unless the first wait is longer."""

# The note on an exception lists so many of the first attempts, and so many of the last ones.
_NOTED = 10
# So many retries of one kind are reported one by one.
_REPORTED = 3

_FINAL = (TaskCancelled, ExecutorClosed, Infeasible, PayloadError, Unreachable)
_MISTAKES = (
    TypeError, NameError, AttributeError, NotImplementedError, SyntaxError, TaskCrashed,
    TaskOutlivesWorkers,
)  # fmt: skip


class NextAttempt(NamedTuple):
    """The decision for another attempt: its request, and the seconds to wait before it.

    ``larger`` names what is larger in it, as the last one had too little; else it is empty.
    """

    request: Resource
    delay: float
    larger: str = ""


class GiveUp(NamedTuple):
    """The decision against another attempt, with a note for the user on a special reason."""

    note: str = ""


@dataclass(frozen=True)
class Retry:
    """The retry policy of one delayed function; `make_retry` makes it.

    Attributes:
        on: the exceptions to retry: types, or a predicate; None for rule 3.
        wait: seconds before the first retry; twice that before the second, and so on.
    """

    retries: int
    on: RetryOn | None = None
    escalate: RetryWith | None = None
    wait: float = 1.0

    def decide(
        self, attempt: int, request: Resource, error: Exception, random: Random
    ) -> NextAttempt | GiveUp:
        """Decide about a failed attempt.

        Args:
            request: what it had; of alternatives one.
            random: spreads the waits, so that tasks that failed together do not return together.
        """
        if attempt > self.retries:
            return GiveUp()
        errors = flattened(error)
        if any(isinstance(e, _FINAL) for e in errors):
            return GiveUp()
        try:
            if not self._names_group(error) and not all(
                isinstance(e, Exception) and self._wanted(e) for e in errors
            ):
                return GiveUp()
        except Exception as failed:
            return GiveUp(
                f"retry_on raised {type(failed).__name__}: {failed}; so it was not retried"
            )
        if self.escalate is not None:
            single = collapsed(error)
            try:
                asked = self.escalate(request, single)  # type: ignore[arg-type] # an Exception
            except Exception as failed:
                return GiveUp(
                    f"retry_with raised {type(failed).__name__}: {failed}; so it was not retried"
                )
            if asked is None:
                return GiveUp()
            if not isinstance(asked, Resource) or asked == ZERO:
                return GiveUp(
                    f"retry_with returned {asked!r}; so it was not retried. It returns the next "
                    "request, as Memory(8), or None to give up"
                )
            request = asked
        return NextAttempt(request, self.delay(attempt, random))

    def delay(self, attempt: int, random: Random) -> float:
        """Return the seconds to wait after an attempt: between half and all of the doubled wait."""
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


def make_retry(retries: Any, on: Any, escalate: Any, wait: Any) -> Retry | None:
    """Check the options of `delayed` on retries; return the policy, None for no retries.

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
                    f"retry_on={on!r}: give a type of exception, a tuple of types, or a predicate "
                    "of the exception"
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
    """The attempts of one task so far: the request of the present one, and the failures before."""

    __slots__ = ("_first", "_last", "_original", "count", "larger", "request")

    def __init__(self, request: Resource) -> None:
        self.request = self._original = request
        self.count = 1
        # So many of them followed one that had too little memory or time.
        self.larger = 0
        # A task may be retried very many times: only the first and the last failures are kept.
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_NOTED)

    def failed(self, error: Exception, next_: NextAttempt, by: Resource) -> None:
        """Add an attempt that failed and is followed by another.

        Args:
            by: what it had; of alternatives one.
        """
        needed = f"; it needed {next_.larger}" if next_.larger else ""
        line = f"  attempt {self.count}: {one_line(error)}{asking(by)}{needed}"
        (self._first if len(self._first) < _NOTED else self._last).append(line)
        self.request = next_.request
        self.count += 1

    @property
    def keeps_its_place(self) -> bool:
        """True if this is a further attempt, and goes before all that wait for the same.

        The first one had its turn before these. With another request it joins others, some of which
        were called before it.
        """
        return self.count > 1 and self.request == self._original

    def note(self, last: str = "", *, begun: bool = True) -> str:
        """Return the note for the exception of the last attempt; empty if it was the only one.

        Args:
            last: a sentence on the last attempt, which comes first.
            begun: False if the present attempt was refused, and the exception is of that before it.
        """
        lines = [last] if last else []
        before = [*self._first, *self._last]
        left_out = self.count - 1 - len(before)
        if left_out:
            before.insert(len(self._first), f"  and {left_out} more")
        if begun and before:
            lines += [f"This was attempt {self.count}{asking(self.request)}. Before:", *before]
        elif len(before) > 1:
            lines += ["The attempts:", *before]
        return "\n".join(lines)


class RetryLines:
    """The lines about the retries of one mission: the first few of a kind, the 10th, the 100th, ...

    A kind is a function and a type of exception, so a failure of a new kind is always reported. A
    thousand tasks that a licence server does not answer need no thousand lines.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, type[BaseException]]] = Counter()

    def line(self, function: str, error: BaseException, text: str) -> str | None:
        """Count a retry; return the line to report, None for none."""
        self._counts[function, type(error)] += 1
        count = self._counts[function, type(error)]
        if count < _REPORTED:
            return text
        if count == _REPORTED:
            return f"{text}; further ones like this are reported only at the 10th, 100th, ..."
        if str(count).strip("0") == "1":
            return f"{text}; {count} like this so far"
        return None


def one_line(error: BaseException) -> str:
    """Return the type and the message of an exception in one line."""
    try:
        first = (str(error).splitlines() or [""])[0]
    except Exception:  # a __str__ of the user's may raise anything
        first = ""
    if len(first) > 200:
        first = f"{first[:200]}..."
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def asking(request: Resource) -> str:
    """Return a request as the end of a sentence; empty if it asks for nothing."""
    return "" if request is ZERO else f", with {request.ask()}"
