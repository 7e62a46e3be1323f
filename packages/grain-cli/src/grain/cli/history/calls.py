"""The calls that failed for good, one in a line, to be copied or given to a new run. Pure.

Each cause begins with a comment, ``#``, which Python and shells skip. So the calls of delayed
functions can be put into a program, and the commands of `grain map` into a script. A call that the
log lacks, or has only in part, is a comment as well: half a command must not be run.

The inputs are the first arguments of the same calls, without quotes: lines that programs read.
There is no comment among them, as such a line would be taken for an input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.cli.history.text import cause_data
from grain.cli.show import clean
from grain.eventlog.schema import LEFT_OUT
from grain.facts.fold import Fold
from grain.facts.totals import Totals

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable

    from grain.eventlog.schema import AnyLine
    from grain.facts.rows import Cause, FailedCall


def failures_of(lines: Iterable[AnyLine]) -> list[Cause]:
    """Return the failures of a log that ended their tasks, by cause, the most frequent first."""
    fold, totals = Fold(), Totals()
    for line in lines:
        totals.feed(line, fold.feed(line))
    ended = [one for one in totals.causes if one.calls]
    return sorted(ended, key=lambda one: -len(one.calls))


def calls_text(failures: Iterable[Cause]) -> str:
    """Format calls by cause."""
    parts = []
    for one in failures:
        count = len(one.calls)
        calls = "call" if count == 1 else "calls"
        parts.append(f"# {count} {calls} of {one.first.function or '(unknown)'}: {one.how}")
        parts += map(_line, one.calls.values())
    return "".join(f"{clean(part)}\n" for part in parts)


def inputs_of(failures: Iterable[Cause]) -> tuple[list[str], int]:
    """Return the first argument of each call, once, and how many calls have none that is a line.

    Texts and paths are without quotes, numbers as they are; anything else is not a line.
    """
    inputs: dict[str, None] = {}
    others = 0
    for one in failures:
        for failed in one.calls.values():
            text = _input(failed.call)
            if text is None:
                others += 1
            else:
                inputs[text] = None
    return list(inputs), others


def _input(call: str) -> str | None:
    """Return the first argument of a call as a line; None if it is not known, or is none.

    >>> _input("optimise('mol7.xyz', level=2)"), _input("scan(Path('a b'), 3)"), _input("f([1])")
    ('mol7.xyz', 'a b', None)
    """
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a text of the user's may have odd backslashes
            found = ast.parse(call, mode="eval").body
        arguments = _arguments(found)
        if arguments and _name(arguments[0]) == "Path":
            arguments = _arguments(arguments[0])
        value = ast.literal_eval(arguments[0]) if arguments else None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        text = str(value)  # Python refuses to write a number of thousands of digits
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return text if text.strip() and text.isprintable() and LEFT_OUT not in text else None


def _arguments(found: ast.expr) -> list[ast.expr]:
    """Return the arguments of a call in their order; none of anything else."""
    import ast

    if not isinstance(found, ast.Call):
        return []
    return [*found.args, *(keyword.value for keyword in found.keywords)]


def _name(found: ast.expr) -> str:
    """Return the name of the function of a call; "" of anything else."""
    import ast

    if isinstance(found, ast.Call) and isinstance(found.func, ast.Name):
        return found.func.id
    return ""


def calls_data(failures: Iterable[Cause]) -> list[dict[str, Any]]:
    """Return calls by cause as plain data."""
    keys = ("function", "error", "pattern", "calls")
    return [{key: data[key] for key in keys} for data in map(cause_data, failures)]


def _line(failed: FailedCall) -> str:
    if not failed.call:
        return f"# task {failed.task}, whose call is not in the log"
    # With a question mark for what controls a terminal, it would be another call.
    if LEFT_OUT in failed.call or clean(failed.call) != failed.call:
        return f"# task {failed.task}, of whose call the log has a part: {failed.call}"
    return failed.call
