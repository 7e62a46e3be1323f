"""The calls that failed for good, one in a line, to be copied or given to a new run. Pure.

Each cause begins with a comment, ``#``, which Python and shells skip. So the calls of delayed
functions can be put into a program, and the commands of `grain map` into a script. A call that the
log has not, or not whole, is a comment as well: nobody should run half a command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.cli.show import clean
from grain.eventlog.labels import LEFT_OUT
from grain.eventlog.runs import RunAssembly
from grain.eventlog.schema import TaskSubmitted
from grain.eventlog.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.schema import AnyLine
    from grain.eventlog.totals import FailedCall, Failures


def failures_of(lines: Iterable[AnyLine]) -> list[Failures]:
    """Return the failures of a log that ended their tasks, by cause, the most frequent first."""
    assembly, totals = RunAssembly(), Totals()
    for line in lines:
        run = assembly.feed(line)
        if run is not None:
            totals.ended(run)
        elif isinstance(line, TaskSubmitted):
            totals.submitted(line)
    ended = [one for one in totals.failures.values() if one.calls]
    return sorted(ended, key=lambda one: -len(one.calls))


def calls_text(failures: Iterable[Failures]) -> str:
    """Format calls by cause."""
    parts = []
    for one in failures:
        cause, count = one.cause, len(one.calls)
        why = ": ".join(part for part in (cause.error or cause.outcome, cause.pattern) if part)
        calls = "call" if count == 1 else "calls"
        parts.append(f"# {count} {calls} of {cause.function or '(unknown)'}: {why}")
        parts += map(_line, one.calls.values())
    return "".join(f"{clean(part)}\n" for part in parts)


def calls_data(failures: Iterable[Failures]) -> list[dict[str, Any]]:
    """Return calls by cause as plain data."""
    return [
        {
            "function": one.cause.function,
            "error": one.cause.error or one.cause.outcome,
            "pattern": one.cause.pattern,
            "calls": [{"task": call.task, "call": call.call} for call in one.calls.values()],
        }
        for one in failures
    ]


def _line(failed: FailedCall) -> str:
    if not failed.call:
        return f"# task {failed.task}, whose call is not in the log"
    if LEFT_OUT in failed.call:
        return f"# task {failed.task}, of whose call the log has a part: {failed.call}"
    return failed.call
