"""The rules of verdicts that `grain report` and `grain top` share: facts in, a sentence out. Pure.

Each rule says what is certain of the facts that it is given, and nothing otherwise. A report has
facts from a log, and `grain top` from the answers of a scheduler. docs/report.md has a table of the
rules with their limits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.verdict.texts import shortened
from grain.resource.figures import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grain.facts.amounts import Histogram
    from grain.facts.rows import Cause, Function

MOST = 3
"""Sentences of a verdict."""

ALIKE = 0.25
"""The part of all failures: one cause is worth a sentence if it has so many."""

MEASURED = 5
"""Runs whose cores were measured: with fewer, nothing is said of a request."""

LARGE = 0.1
"""The part of all core-hours: a request is worth a sentence if the function has so many."""

BUSY = 0.5
"""Cores that programs keep busy in the median run: with less, they are a small part of the runs."""

TIMES = 2.0
"""The request of a function is worth a sentence if so many times as many tasks would have room."""

_NAMED = 3  # workers
_LONG_NAME, _LONG_MESSAGE = 60, 140  # columns

_SLACK = 0.05  # cores: a program that computes on four at times uses 4.02 of them


def alike(
    causes: Sequence[Cause], number: Callable[[Cause], int], noun: str, of: str = ""
) -> tuple[str, Cause] | None:
    """Return a sentence on the most frequent cause, and that cause; None without such a one.

    Args:
        number: returns how many failures of a cause count.
        noun: what has failed, such as ``"task"``.
        of: stands before the number of all failures, as ``"the last "``.
    """
    total = sum(map(number, causes))
    most = max(causes, key=number, default=None)
    if most is None:
        return None
    count = number(most)
    if count < ALIKE * total or (count == 1 and total > 1):
        return None
    how = short_message(most.how)
    stop = "" if how.endswith((".", "!", "?")) else "."
    function = short_name(most.first.function)
    if total == 1:
        whose = f" of {function}" if function else ""
        return f"One {noun}{whose} failed: {how}{stop}", most
    whole = f"{of}{total:,} failed {noun}s"
    share = f"All {whole}" if count == total else f"{count:,} of {whole}"
    where = f", in {function}" if function else ""
    return f"{share} are alike{where}: {how}{stop}", most


def too_many_cores(
    functions: Iterable[Function], workers: Sequence[Mapping[str, float]], *, tense: str = "past"
) -> tuple[str, Function] | None:
    """Return a sentence on a function that asks for more cores than it uses, and the function.

    Args:
        workers: the amounts that each of them has.
        tense: ``"past"``, or ``"present"`` while tasks of it go on.
    """
    whole = 0.0
    functions = sorted(functions, key=lambda function: -function.core_seconds)
    whole = sum(function.core_seconds for function in functions)
    for one in functions:
        if not one.name or not whole or one.core_seconds < LARGE * whole:
            return None
        busy, request = one.busy_cores, one.request
        if not is_whole(busy, one) or busy.count < MEASURED or busy.quantile(0.5) < BUSY:
            continue
        asked = request.get("Cores", 0.0)
        enough = enough_cores(busy.most, asked)
        if not 0 < enough < asked:
            continue
        times = _more_room(request, {**request, "Cores": enough}, workers)
        if times >= TIMES:
            more = "twice" if times == 2 else f"{math.floor(10 * times) / 10:g} times"
            past = tense == "past"
            asks, kept = ("asked", "kept") if past else ("asks", "keep")
            would_have = "would have room" if past else "have room"
            return (
                f"{short_name(one.name)} {asks} for {asked:g} cores, and its programs {kept} "
                f"{enough:g} busy on average at most: with Cores({enough:g}), {more} as many "
                f"{would_have} at once."
            ), one
    return None


def is_whole(measured: Histogram, function: Function) -> bool:
    """Return True if what was measured of runs of a function says something about all of them.

    It does if at least as many runs were measured as ended with a value. Else often only failed
    runs were measured, and these say nothing about the others.
    """
    return 0 < measured.count >= function.valued


def enough_cores(busiest: float, asked: float) -> float:
    """Return the cores that the programs of the busiest run kept busy on average, rounded up."""
    busy = math.ceil(busiest - _SLACK)
    # More cores than it had cannot have been needed: others were free, or it was not bound.
    return min(float(max(1, busy)), asked) if asked >= 1 else asked


def _more_room(
    before: Mapping[str, float], after: Mapping[str, float], workers: Sequence[Mapping[str, float]]
) -> float:
    """Return how many times as many tasks have room on each worker, at least; 0 if none has."""
    rooms = [(_room(worker, before), _room(worker, after)) for worker in workers]
    return min((later / now for now, later in rooms if now), default=0.0)


def _room(worker: Mapping[str, float], request: Mapping[str, float]) -> int:
    shares = (worker.get(kind, 0.0) / amount for kind, amount in request.items() if amount > 0)
    return math.floor(min(shares, default=0.0) + 1e-9)


class Lost(NamedTuple):
    """A worker that was lost.

    Attributes:
        when: the end of "it was lost", such as ``"at 06:16"``; empty if that is not known.
        tasks: how many tasks had to start again.
    """

    name: str
    when: str
    tasks: int


def lost_workers(lost: Sequence[Lost]) -> str:
    """Return a sentence on workers that were lost with tasks; "" without any."""
    lost = [worker for worker in lost if worker.tasks]
    if not lost:
        return ""
    tasks = sum(worker.tasks for worker in lost)
    names = ", ".join(short_name(worker.name) for worker in lost[:_NAMED])
    if len(lost) == 1:
        [worker] = lost
        who, own = f"{names} was lost{worker.when and f' {worker.when}'}", "its tasks"
    else:
        others = f" and {len(lost) - _NAMED:,} others" if len(lost) > _NAMED else ""
        who, own = f"{len(lost):,} workers were lost ({names}{others})", "their tasks"
    return f"{who}: {tasks:,} of {own} had to start again."


def cannot_start(tasks: int, why: str) -> str:
    """Return a sentence on waiting tasks for which the workers have not enough.

    Args:
        why: the reason, as a clause.

    >>> cannot_start(6, "no worker has GPUs")
    '6 tasks cannot start: no worker has GPUs.'
    """
    return f"{counted(tasks, 'task')} cannot start: {why}."


def short_name(text: str) -> str:
    """Return a name without its middle if it is long."""
    return shortened(text, _LONG_NAME)


def short_message(text: str) -> str:
    """Return a message without its middle if it is long: beginning and end say most."""
    return shortened(text, _LONG_MESSAGE)
