"""The tasks of a mission by function, as its scheduler shows them. Pure."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from grain.edge.questions import FunctionRow
from grain.head.log_words import amounts
from grain.head.messages import KINDS
from grain.resource import Either, Gang, to_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.head.base import CallKindNow

_NAME = 256  # characters of a function's name


def function_rows(kinds: Iterable[CallKindNow], most: int) -> tuple[tuple[FunctionRow, ...], int]:
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


def _row(function: str, kinds: Sequence[CallKindNow]) -> FunctionRow:
    counts = [one.of for one in kinds if one.of is not None]
    seconds = [ran for count in counts for ran in count.last]
    busy = [cores for count in counts for cores in count.busy]
    peaks = [count.peak for count in counts if count.peak is not None]
    request = counts[0].request if len(counts) == 1 and counts[0].alike else None
    if isinstance(request, Either | Gang):
        # Some have asked for one of them, some for another. Of a gang, what its programs use is
        # measured on the root only.
        request = None
    return FunctionRow(
        function=function[:_NAME],
        done=sum(count.done for count in counts),
        failed=sum(count.failed for count in counts),
        running=sum(len(one.elapsed) for one in kinds),
        waiting=sum(one.waiting + one.blocked for one in kinds),
        seconds=median(seconds) if seconds else None,
        memory=max(peaks, default=None),
        memory_asked=max((count.memory for count in counts), default=0.0),
        request={} if request is None else _limited(amounts(to_data(request))),
        measured=sum(count.measured for count in counts),
        busy=median(busy) if busy else 0.0,
        busiest=max((count.busiest for count in counts), default=0.0),
        core_seconds=sum(one.cores * one.seconds for one in kinds),
        peaks=sum(count.peaks for count in counts),
    )


def _limited(request: dict[str, float]) -> dict[str, float]:
    """Return a request without its time limit; nothing of one with very many kinds."""
    kinds = {kind: float(amount) for kind, amount in request.items() if kind != "WTime"}
    finite = len(kinds) <= KINDS and all(map(math.isfinite, kinds.values()))
    return kinds if finite else {}
