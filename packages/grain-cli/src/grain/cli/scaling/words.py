"""The reasons of decisions, a line each: rule 9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.figures import counted, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.cli.scaling.plan import PlannedWorkers


def demand(parts: Sequence[PlannedWorkers]) -> str:
    """Return the tasks for which workers are wanted: ``31 tasks of Cores(8) wait, 4 h of work``.

    Where the duration of some is a guess, the work is not stated.
    """
    first, *others = parts
    verb = "waits" if first.waiting == 1 and not others else "wait"
    more = sum(part.waiting for part in others)
    also = f" and {more} of other kinds" if more else ""
    waiting = f"{counted(first.waiting, 'task')} of {first.ask}{also} {verb}"
    if not all(part.known for part in parts):
        return f"{waiting}; how long they take is not known yet"
    return f"{waiting}, {span(sum(part.seconds for part in parts))} of work"
