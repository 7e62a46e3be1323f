"""The tasks of a mission by function, as its scheduler shows them. Pure."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from grain.facts.rows import HISTOGRAMS, Function
from grain.head.log_words import amounts
from grain.head.messages import KINDS
from grain.resource import Either, Gang, to_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.facts.rows import Amounts
    from grain.head.base import CallKind, CallKindNow

_NAME = 256  # characters of a function's name


def function_rows(kinds: Iterable[CallKindNow], most: int) -> tuple[tuple[Function, ...], int]:
    """Return the functions that have the most tasks, in the order of their first calls.

    Args:
        kinds: in that order.

    Returns:
        The rows, and how many functions are left out.
    """
    by_function: dict[str, list[CallKindNow]] = {}
    for one in kinds:
        by_function.setdefault(one.function, []).append(one)
    functions = list(by_function)
    if len(functions) > most:
        largest = sorted(functions, key=lambda name: -_tasks(by_function[name]))[:most]
        kept = set(largest)
        functions = [name for name in functions if name in kept]
    rows = tuple(_row(name, by_function[name]) for name in functions)
    return rows, len(by_function) - len(rows)


def _tasks(kinds: Sequence[CallKindNow]) -> int:
    return sum(
        one.waiting
        + one.blocked
        + len(one.elapsed)
        + (one.of.done + one.of.failed if one.of else 0)
        for one in kinds
    )


def _row(name: str, kinds: Sequence[CallKindNow]) -> Function:
    row = Function(
        name=name[:_NAME],
        running=sum(len(one.elapsed) for one in kinds),
        waiting=sum(one.waiting + one.blocked for one in kinds),
    )
    last: list[float] = []
    for kind in (one.of for one in kinds if one.of is not None):
        row.add(kind)
        row.core_seconds += kind.cores * kind.seconds.total
        last += kind.last
        for request in _requests(kind):
            row.ask("", request)
    if last:
        row.seconds.least = min(last)
        row.seconds = row.seconds.thinned(median(last))
    for field in _MEASURED:
        setattr(row, field, getattr(row, field).thinned())
    return row


_MEASURED = [name for name in HISTOGRAMS if name != "seconds"]


def _requests(kind: CallKind) -> Iterator[Amounts]:
    """Yield the amounts for which tasks asked; further ones without any where these differ."""
    if kind.first is None:
        return
    # Of alternatives, some have asked for one, some for another. Of a gang, not all workers may be
    # measured.
    if kind.alike and not isinstance(kind.first, Either | Gang):
        yield _limited(amounts(to_data(kind.first)))
        return
    yield {"Memory": kind.memory_asked} if kind.memory_asked else {}
    yield {}


def _limited(request: dict[str, float]) -> dict[str, float]:
    """Return a request without its time limit; nothing of one with very many kinds."""
    kinds = {kind: float(amount) for kind, amount in request.items() if kind != "WTime"}
    finite = len(kinds) <= KINDS and all(map(math.isfinite, kinds.values()))
    return kinds if finite else {}
