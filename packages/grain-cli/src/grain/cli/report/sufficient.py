"""The request that would have sufficed for all runs of a function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.verdict.rules import enough_cores, is_whole
from grain.resource import WTime
from grain.resource.figures import span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grain.facts.rows import Function

_MUCH = 0.75  # of what was asked for: what sufficed is worth a remark if it is less


class Sufficient(NamedTuple):
    """The request that would have sufficed.

    Attributes:
        text: the request, as it is written in a program; empty if nothing was asked for, or if
            nothing is known, as no run has ended.
        less: sentences on what it has less of than was asked for.
        more: sentences on what was used beyond that, and on time that was too short.
    """

    text: str
    less: list[str]
    more: list[str]


def sufficient(function: Function) -> Sufficient:
    """Return the smallest request with which no run would have lacked anything.

    Memory is rounded up to two digits and time to minutes, or to seconds below a minute; there is
    no margin. A kind whose use is not known of all runs that brought a value is as it was asked
    for, or more where a run is known to have used more. How long runs would have taken that their
    time limit ended is not known: more than that.
    """
    parts: list[str] = []
    less: list[str] = []
    more: list[str] = []
    if not function.runs:
        return Sufficient("", less, more)
    for kind, asked, enough in _kinds(function):
        if kind == "WTime":  # a limit, which keeps nothing from others
            parts.append(WTime(T=max(enough, function.time_limit) or 1.0).ask())
            continue
        parts.append(f"{kind}({enough:g})")
        unit = " GB of memory" if kind == "Memory" else f" {kind.lower()}"
        if enough < _MUCH * asked and not (kind == "Memory" and function.learned):
            less.append(f"asked for {asked:g}{unit}, needed {enough:g} at most")
        elif enough > asked:
            more.append(f"asked for {asked:g}{unit}, used up to {enough:g}")
    more += _partly_measured(function)
    if function.overtime:
        runs = "a run" if function.overtime == 1 else f"{function.overtime:,} runs"
        more.append(
            f"a time limit of {span(function.time_limit)} or less ended {runs}: more time is needed"
        )
        return Sufficient(f"more than {_of_all(parts, function)}", less, more)
    return Sufficient(_of_all(parts, function), less, more)


def _of_all(parts: Sequence[str], function: Function) -> str:
    """Return a request for all workers of a task, of what each of them needs."""
    members = max(function.workers, key=lambda count: (function.workers[count], count), default=1)
    if members == 1 or not parts:
        return " & ".join(parts)
    limits = [part for part in parts if part.startswith("WTime(")]
    own = " & ".join(part for part in parts if part not in limits)
    own = f"({own})" if " & " in own else own
    return " & ".join([f"{members} * {own}", *limits] if own else limits)


def _kinds(function: Function) -> Iterator[tuple[str, float, float]]:
    """Yield each kind with what most tasks asked for, and what would have sufficed for all."""
    for kind, asked in function.asked.items():
        enough = asked.usual
        if kind == "Cores" and function.busy_cores.count:
            enough = busy_cores(function)
            if not is_whole(function.busy_cores, function):
                enough = max(enough, asked.usual)
        elif kind == "Memory" and function.memory.count:
            enough = two_digits_up(function.memory.most)
            if not is_whole(function.memory, function):
                enough = max(enough, asked.usual)
        elif kind == "WTime" and function.seconds.count:
            longest = function.seconds.most
            step = 60 if longest > 60 else 1
            enough = float(math.ceil(longest / step)) * step
        yield kind, asked.usual, enough


def _partly_measured(function: Function) -> Iterator[str]:
    """Yield sentences on what was measured in some runs only."""
    kinds: dict[int, list[str]] = {}
    for kind, measured in (("Cores", function.busy_cores), ("Memory", function.memory)):
        if kind in function.asked and measured.count and not is_whole(measured, function):
            kinds.setdefault(measured.count, []).append(kind.lower())
    for count, names in kinds.items():
        what = " and ".join(names)
        verb = "was" if names == ["memory"] else "were"
        known = f"{count:,} of {function.runs:,} runs"
        yield f"{what} {verb} measured in {known} only: the others may need what they asked for"


def busy_cores(function: Function) -> float:
    """Return the cores that the programs of the busiest run kept busy on average, rounded up."""
    return enough_cores(function.busy_cores.most, function.asked["Cores"].most)


def two_digits_up(amount: float) -> float:
    """Round up to two digits; at least 0.01."""
    if amount <= 0.01:
        return 0.01
    power = math.floor(math.log10(amount)) - 1
    up = math.ceil(round(amount / 10.0**power, 6))
    return round(up * 10.0**power, 10)
