"""`LaneTally`: what a mission has to report of the calls in its lanes. No I/O.

1.  Nothing is reported of a call that ends soon, but that it is counted.
2.  A failure waits for `SETTLED` seconds: by then the mission has said whether it tries again.
3.  A report that was not sent is put back. One that was sent and lost with its connection cannot be
    told from one that has arrived: it is not sent again, so that nothing is counted twice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grain.head.messages import FAILURES, LANES, LaneCount, LaneFailure, LaneReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.head.messages import HeldCalls, LaneCall

SETTLED = 0.1
"""Seconds after which it is known of a failure whether it is tried again."""


class _Count(msgspec.Struct):
    done: int = 0
    failed: int = 0
    retried: int = 0
    seconds: float = 0.0


class _Failure(NamedTuple):
    """A failure, and when it happened; its `ago` is set in the report."""

    failure: LaneFailure
    at: float


class LaneTally:
    """The calls that have ended in lanes since the last report, and the last calls reported."""

    def __init__(self) -> None:
        self._counts: dict[bytes, _Count] = {}
        # The failures that may still be tried again, by task; the oldest first.
        self._unsettled: dict[int, _Failure] = {}
        self._failures: deque[_Failure] = deque(maxlen=FAILURES)
        # The lanes with the calls that the head was last told of on this connection, and those
        # that are held.
        self._told: list[tuple[int, int]] = []
        self._held: tuple[HeldCalls, ...] = ()

    @property
    def empty(self) -> bool:
        """True if no call has ended since the last report."""
        return not (self._counts or self._unsettled)

    def on_value(self, function: bytes, seconds: float) -> None:
        """Count a call that has ended with a value."""
        count = self._counts.get(function)
        if count is None:
            count = self._counts[function] = _Count()
        count.done += 1
        count.seconds += seconds

    def on_error(self, failure: LaneFailure, now: float) -> None:
        """Handle a call that has failed."""
        self._unsettled[failure.task] = _Failure(failure, now)

    def retry(self, task: int) -> bool:
        """Note that a failed call is tried again; return False if it is not one in a lane."""
        unsettled = self._unsettled.get(task)
        if unsettled is None:
            return False
        again = msgspec.structs.replace(unsettled.failure, retried=True)
        self._unsettled[task] = unsettled._replace(failure=again)
        return True

    def settle(self, until: float) -> None:
        """Count the failures up to a time."""
        for task, unsettled in list(self._unsettled.items()):
            failure, at = unsettled
            if at > until:
                return
            del self._unsettled[task]
            self._failures.append(unsettled)
            count = self._counts.setdefault(failure.function, _Count())
            count.failed += not failure.retried
            count.retried += failure.retried
            count.seconds += failure.seconds

    def take(
        self, calls: Sequence[LaneCall], last: int, now: float, held: tuple[HeldCalls, ...] = ()
    ) -> list[LaneReport]:
        """Return the reports to be sent, if there is news.

        Args:
            calls: the calls in lanes that displays are to show.
            last, held: as of `LaneReport`.
        """
        shown = [(call.lane, call.task) for call in calls]
        if not self._counts and shown == self._told and held == self._held:
            return []
        counts = [
            LaneCount(function, one.done, one.failed, one.retried, one.seconds)
            for function, one in self._counts.items()
        ]
        failures = tuple(
            msgspec.structs.replace(failure, ago=max(now - at, 0.0))
            for failure, at in self._failures
        )
        self._counts.clear()
        self._failures.clear()
        self._told, self._held = shown, held
        parts = [tuple(counts[at : at + LANES]) for at in range(0, len(counts), LANES)] or [()]
        return [
            LaneReport(tuple(calls), part, () if number else failures, last, held)
            for number, part in enumerate(parts)
        ]

    def put_back(self, report: LaneReport, now: float) -> None:
        """Record again a report that was not sent."""
        for part in report.counts:
            count = self._counts.setdefault(part.function, _Count())
            count.done += part.done
            count.failed += part.failed
            count.retried += part.retried
            count.seconds += part.seconds
        self._failures.extend(_Failure(failure, now - failure.ago) for failure in report.failures)

    def on_connection(self) -> None:
        """Have the calls reported again that lanes have: the head has none at its beginning."""
        self._told, self._held = [], ()
