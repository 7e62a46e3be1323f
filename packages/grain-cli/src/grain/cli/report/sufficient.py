"""The request that would have sufficed for all runs of a function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.eventlog.totals import FunctionTotals

_SLACK = 0.05  # cores: a program that computes on four at times uses 4.02 of them

_MUCH = 0.75  # of what was asked for: what sufficed is worth a remark if it is less


class Sufficient(NamedTuple):
    """The request that would have sufficed.

    Attributes:
        text: the request, as it is written in a program; empty if nothing was asked for.
        less: sentences on what it has less of than was asked for, and on what was used beyond.
    """

    text: str
    less: list[str]


def sufficient(function: FunctionTotals) -> Sufficient:
    """Return the smallest request with which no run would have lacked anything.

    Memory is rounded up to two digits and time to minutes; there is no margin. A kind whose use is
    not measured is as it was asked for.
    """
    parts: list[str] = []
    less: list[str] = []
    for kind, asked, enough in _kinds(function):
        parts.append(_written(kind, enough))
        if kind == "WTime":
            continue  # a limit, which keeps nothing from others
        unit = " GB of memory" if kind == "Memory" else f" {kind.lower()}"
        if enough < _MUCH * asked:
            less.append(f"asked for {asked:g}{unit}, needed {enough:g} at most")
        elif enough > asked:
            less.append(f"asked for {asked:g}{unit}, used up to {enough:g}")
    return Sufficient(" & ".join(parts), less)


def _kinds(function: FunctionTotals) -> Iterator[tuple[str, float, float]]:
    """Yield each kind with what most tasks asked for, and what would have sufficed for all."""
    for kind, asked in function.asked.items():
        enough = asked.usual
        if kind == "Cores" and function.busy_cores.count:
            busy = math.ceil(function.busy_cores.most - _SLACK)
            # More cores than it had cannot have been needed: others were free, or it was not bound.
            enough = min(max(1, busy), asked.most) if asked.most >= 1 else asked.most
        elif kind == "Memory" and function.memory.count:
            enough = two_digits_up(function.memory.most)
        elif kind == "WTime" and function.seconds.count:
            enough = float(math.ceil(function.seconds.most / 60)) * 60
        yield kind, asked.usual, enough


def two_digits_up(amount: float) -> float:
    """Round up to two digits; at least 0.01."""
    if amount <= 0.01:
        return 0.01
    power = math.floor(math.log10(amount)) - 1
    up = math.ceil(round(amount / 10.0**power, 6))
    return round(up * 10.0**power, 10)


def _written(kind: str, amount: float) -> str:
    if kind == "WTime":
        minutes = round(amount / 60)
        return f'WTime(T="{minutes // 60}:{minutes % 60:02}:00")'
    return f"{kind}({amount:g})"
