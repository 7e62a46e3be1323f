"""The ladder: the amounts of memory to ask for, one after the other, at the least cost.

A task asks for the first amount, the *rung*. If it needs more, its run is lost, and it asks for the
next one. Few and high rungs waste memory in each run; many and low ones waste runs. Which rungs
cost least follows exactly from the runs so far, by dynamic programming over their needs. Tovar et
al. (IEEE TPDS 29, 2018, "A Job Sizing Strategy for High-Throughput Scientific Workflows") choose a
first allocation by the same cost, with one retry at the maximum; the ladder has any number of them.

Memory is not the whole cost. An attempt keeps cores busy as well, so each counts as if it also had
the *share*: the memory of a worker that belongs to the cores of the task. And what is left of a
worker may be too little for one more task: of 8 GB, tasks with 4.7 GB take all. So an amount counts
as the part of a worker that it is in effect, and the parts 1/2, 1/3, ... are among the rungs.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from grain.resource import LAST_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_NEEDS = 16
"""Amounts among which rungs are chosen."""
STEP = 1.25
"""The next amount after a failure is larger by this factor at least."""
DOUBLED = 2.0
"""The factor where no rung is known above the amount that failed."""


def ladder(
    needs: Iterable[tuple[float, float]], share: float, maximum: float, worker: float = math.inf
) -> tuple[float, ...]:
    """Return the rungs in GB, ascending; empty if there are no needs.

    Args:
        needs: of the runs so far: an amount in GB, and for how many seconds. Amounts above the
            maximum count as the maximum.
        share: GB of a worker that belong to the cores of the task.
        maximum: no rung is above it. The last rung covers all needs, not necessarily the maximum.
        worker: GB of a worker; infinite to count each amount as it is.
    """
    taken: dict[float, float] = {}  # the seconds of the runs that need an amount
    for need, seconds in needs:
        amount = maximum if need > maximum else need  # noqa: FURB136 - a call takes longer
        taken[amount] = taken.get(amount, 0.0) + seconds
    if not taken:
        return ()
    amounts = sorted(taken)
    # The seconds of the runs that need this amount or more.
    behind = list(accumulate((taken[amount] for amount in reversed(amounts)), initial=0.0))
    behind.reverse()
    candidates, attempt, left = _candidates(amounts, behind, share, worker)
    # best[j]: the least cost of the runs that need candidate j or more, if all smaller rungs have
    # failed them. Candidate i as the next rung costs all of them one attempt; those that need more
    # go on from candidate i + 1. The more runs there are, the more a large amount costs: so the
    # best i for j is not above that for j + 1, and the search ends there. It ends, too, where one
    # attempt costs as much as all attempts of another choice.
    best = [math.inf] * len(candidates) + [0.0]
    chosen = [0] * len(candidates)
    top = len(candidates) - 1
    for j in reversed(range(len(candidates))):
        for i in range(j, top + 1):
            own = attempt[i] * left[j]
            if own >= best[j]:
                break
            cost = own + best[i + 1]
            if cost < best[j]:
                best[j], chosen[j] = cost, i
        top = chosen[j]
    rungs, j = [], 0
    while j < len(candidates):
        rungs.append(candidates[chosen[j]])
        j = chosen[j] + 1
    return tuple(rungs)


def alike_ladder(
    least: float, most: float, runs: int, share: float, maximum: float, worker: float
) -> tuple[float, ...]:
    """Return what `ladder` does if as many runs fit on a worker with the least as with the most.

    Between these needs, it would find the same cost for each. So there is nothing to choose but
    whether all runs ask at once for what the imaginary one needs.

    Args:
        least, most: what runs need, in GB.
        runs: their number. With them there is one imaginary run of mean length that needs twice
            the most, as `LearningGroup` has it.
        share, maximum, worker: as of `ladder`.

    Returns:
        Nothing if the needs are not alike.
    """
    least, most, top = (min(amount, maximum) for amount in (least, most, DOUBLED * most))
    cost, dearest = in_effect(most, worker), in_effect(top, worker) + share
    if in_effect(least, worker) != cost:
        return ()
    cost += share
    # Either one attempt more for all, or a dearer one.
    return (most, top) if cost < dearest and cost * (runs + 1) <= dearest * runs else (top,)


def next_amount(
    rungs: Sequence[float], failed: float, attempt: int, maximum: float
) -> float | None:
    """Return the amount to ask for after an attempt that needed more than it had.

    Args:
        rungs: the ladder as it is now.
        failed: what the attempt had, in GB.
        attempt: the number of the attempt to come; the second is 2.
        maximum: the largest amount, in GB.

    Returns:
        GB, more than ``failed``; None if that was the maximum already.
    """
    if failed >= maximum:
        return None
    if attempt >= LAST_ATTEMPT:
        return maximum
    at = bisect_left(rungs, STEP * failed)
    amount = rungs[at] if at < len(rungs) else DOUBLED * failed
    return min(amount, maximum)


def in_effect(amount: float, worker: float) -> float:
    """Return the part of a worker that a task with an amount takes, if all others have as much."""
    if not 0 < amount <= worker < math.inf:
        return amount
    return worker / math.floor(worker / amount)


def _candidates(
    amounts: list[float], behind: Sequence[float], share: float, worker: float
) -> tuple[list[float], list[float], list[float]]:
    """Return the amounts among which the rungs are, ascending.

    Beside them: what a second of an attempt costs with each, and the seconds of the runs that need
    it or more, as the smaller ones do not cover them.

    Args:
        behind: the seconds of the runs that need an amount or more, for each of them.
        amounts, share, worker: as of `ladder`.
    """
    among = _thinned(amounts)
    if worker < math.inf and len(among) < len(amounts):
        among = _with_parts(among, worker)
    candidates: list[float] = []
    costs: list[float] = []
    left: list[float] = []
    covered = 0  # amounts that need no more than the last candidate
    for amount in among:
        covers = bisect_right(amounts, amount)
        if covers == covered:  # as a part of a worker may, and costs more
            continue
        cost = in_effect(amount, worker) + share
        if costs and cost == costs[-1]:  # covers more at the same cost
            candidates[-1] = amount
        else:
            candidates.append(amount)
            costs.append(cost)
            left.append(behind[covered])
        covered = covers
    return candidates, costs, left


def _with_parts(candidates: list[float], worker: float) -> list[float]:
    """Return ascending amounts with the largest part of a worker below each of them."""
    parts = {_part(worker, math.floor(worker / amount) + 1) for amount in candidates if amount > 0}
    return sorted({*candidates, *(part for part in parts if part > candidates[0])})


def _part(worker: float, tasks: int) -> float:
    """Return the GB of which a worker has so many; its resolution is that of `Memory`, 1 kB."""
    return math.floor(worker / tasks * 1e6) / 1e6


def _thinned(amounts: list[float]) -> list[float]:
    """Return so many of ascending amounts, evenly by rank, and the largest among them."""
    count = len(amounts)
    if count <= MOST_NEEDS:
        return amounts
    return [amounts[(k + 1) * count // MOST_NEEDS - 1] for k in range(MOST_NEEDS)]
