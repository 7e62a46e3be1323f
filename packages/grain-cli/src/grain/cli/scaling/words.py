"""The reasons of decisions, a line each: rule 9."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.cli.scaling.plan import Part


def span(seconds: float) -> str:
    """Return a span of time in round numbers.

    >>> span(45), span(600), span(5400), span(200000)
    ('45 s', '10 min', '1.5 h', '2.3 d')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.2g} h" if hours < 48 else f"{hours / 24:.2g} d"


def tasks(count: int) -> str:
    """Return a number of tasks.

    >>> tasks(1), tasks(31)
    ('1 task', '31 tasks')
    """
    return "1 task" if count == 1 else f"{count} tasks"


def demand(parts: Sequence[Part]) -> str:
    """Return the tasks for which workers are wanted: ``31 tasks of Cores(8) wait, 4 h of work``.

    Where the duration of some is a guess, the work is not stated.
    """
    first, *others = parts
    verb = "waits" if first.waiting == 1 and not others else "wait"
    more = sum(part.waiting for part in others)
    also = f" and {more} of other kinds" if more else ""
    waiting = f"{tasks(first.waiting)} of {first.ask}{also} {verb}"
    if not all(part.known for part in parts):
        return f"{waiting}; how long they take is not known yet"
    return f"{waiting}, {span(sum(part.seconds for part in parts))} of work"
