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
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

from grain.resource import LAST_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_EQUAL = 1 + 1e-9
"""Costs that differ by this factor differ only in the order of their sums."""
MOST_NEEDS = 16
"""Amounts among which rungs are chosen."""
STEP = 1.25
"""The next amount after a failure is larger by this factor at least."""
NEAR = 1.1
"""A first rung stays where another costs the same, but not if it is larger by more than this."""
DOUBLED = 2.0
"""The factor where no rung is known above the amount that failed."""


def ladder(
    needs: Iterable[tuple[float, float]],
    share: float,
    maximum: float,
    worker: float = math.inf,
    before: float = 0.0,
) -> tuple[float, ...]:
    """Return the rungs in GB, ascending; empty if there are no needs.

    Args:
        needs: of the runs so far: an amount in GB, and for how many seconds. Amounts above the
            maximum count as the maximum.
        share: GB of a worker that belong to the cores of the task.
        maximum: no rung is above it. The last rung covers all needs, not necessarily the maximum.
        worker: GB of a worker; infinite to count each amount as it is.
        before: the first rung so far, in GB; 0 if there is none. It stays if no other costs less,
            and it is at most `NEAR` times as large as the new one.
    """
    taken: defaultdict[float, float] = defaultdict(float)  # seconds of runs, by their need
    for need, seconds in needs:
        taken[maximum if need > maximum else need] += seconds  # noqa: FURB136 - a call is slower
    if not taken:
        return ()
    amounts = sorted(taken)
    # The seconds of the runs that need this amount or more.
    behind = list(accumulate(map(taken.__getitem__, reversed(amounts)), initial=0.0))
    behind.reverse()
    candidates, attempt, left = _candidates(amounts, behind, share, worker)
    # best[j]: the least cost of the runs that need candidate j or more, if all smaller rungs have
    # failed them. Candidate i as the next rung costs all of them one attempt; those that need more
    # go on from candidate i + 1. The more runs there are, the more a large amount costs: so the
    # best i for j is not above that for j + 1, and the search ends there. It ends, too, where one
    # attempt costs as much as all attempts of another choice.
    count = len(candidates)
    best = [math.inf] * count + [0.0]
    chosen = list(range(count))  # each itself, as no cost is less than one beyond all floats
    top = count - 1
    for j in range(top, -1, -1):
        least, those = math.inf, left[j]
        for i in range(j, top + 1):
            own = attempt[i] * those
            if own >= least:
                break
            cost = own + best[i + 1]
            if cost < least:
                least, chosen[j] = cost, i
        best[j] = least
        top = chosen[j]
    rungs, j = [], 0
    if 0 < before <= NEAR * candidates[chosen[0]]:
        cost = (in_effect(before, worker) + share) * left[0]
        above, i = behind[bisect_right(amounts, before)], count
        if above:
            ways = range(bisect_right(candidates, before), count)
            rest, i = min((attempt[k] * above + best[k + 1], k) for k in ways)
            cost += rest
        if cost <= best[0] * _EQUAL:
            rungs, j = [before, *candidates[i : i + 1]], i + 1
    while j < count:
        rungs.append(candidates[chosen[j]])
        j = chosen[j] + 1
    return tuple(rungs)


def alike_ladder(
    least: float,
    most: float,
    runs: int,
    share: float,
    maximum: float,
    worker: float,
    before: float = 0.0,
) -> tuple[float, ...]:
    """Return what `ladder` does if as many runs fit on a worker with the least as with the most.

    Between these needs, it would find the same cost for each. So there is nothing to choose but
    whether all runs ask at once for what the imaginary one needs.

    Args:
        least, most: what runs need, in GB.
        runs: their number. With them there is one imaginary run of mean length that needs twice
            the most, as `LearningGroup` has it.
        share, maximum, worker, before: as of `ladder`.

    Returns:
        Nothing if the needs are not alike, or some of them are above the first rung so far.
    """
    least, most, top = (min(amount, maximum) for amount in (least, most, DOUBLED * most))
    cost, dearest = in_effect(most, worker), in_effect(top, worker) + share
    if in_effect(least, worker) != cost or least <= before < most:
        return ()
    cost += share
    # Either one attempt more for all, or a dearer one.
    rungs = (most, top) if cost < dearest and cost * (runs + 1) <= dearest * runs else (top,)
    first, *others = rungs
    if first < before <= NEAR * first and in_effect(before, worker) == in_effect(first, worker):
        return (before, *(amount for amount in others if amount > before))
    return rungs


def next_amount(
    rungs: Sequence[float], failed: float, attempt: int, maximum: float, worker: float = math.inf
) -> float | None:
    """Return the amount to ask for after an attempt that needed more than it had.

    What is above every worker can only wait. So a whole worker comes before it, and early enough
    for another attempt to have the maximum.

    Args:
        rungs: the ladder as it is now.
        failed: what the attempt had, in GB.
        attempt: the number of the attempt to come; the second is 2.
        maximum: the largest amount, in GB.
        worker: GB of the largest worker; infinite if none is here.

    Returns:
        GB, more than ``failed``; None if that was the maximum already.
    """
    if failed >= maximum:
        return None
    whole = failed < worker < maximum
    most = worker if whole else maximum
    if attempt >= LAST_ATTEMPT - whole:
        return most
    at = bisect_left(rungs, STEP * failed)
    amount = rungs[at] if at < len(rungs) else DOUBLED * failed
    return min(amount, most)


def in_effect(amount: float, worker: float) -> float:
    """Return the part of a worker that a task with an amount takes, if all others have as much."""
    if not 0 < amount <= worker < math.inf:
        return amount
    return worker / math.floor(worker / amount)


def _candidates(
    amounts: Sequence[float], behind: Sequence[float], share: float, worker: float
) -> tuple[list[float], list[float], list[float]]:
    """Return the amounts among which the rungs are, ascending.

    They are so many of the needs, evenly by rank, and the largest among them. If these are not all,
    the largest part of a worker below each of them is another.

    Beside them: what a second of an attempt costs with each, and the seconds of the runs that need
    it or more, as the smaller ones do not cover them.

    Args:
        behind: the seconds of the runs that need an amount or more, for each of them.
        amounts, share, worker: as of `ladder`.
    """
    count = len(amounts)
    some = min(count, MOST_NEEDS)
    among: list[tuple[float, float, int]] = []  # amounts, their cost, how many needs they cover
    covered = 0
    for k in range(1, some + 1):
        covers = k * count // some
        amount = amounts[covers - 1]
        cost = amount
        if amount > 0 and worker < math.inf:
            tasks = math.floor(worker / amount)
            cost = worker / tasks if tasks else amount
            if 0 < covered < covers - 1 and worker / (tasks + 1) >= amounts[covered]:
                part = _part(worker, tasks + 1)
                among.append((part, worker / (tasks + 1), bisect_right(amounts, part)))
        among.append((amount, cost, covers))
        covered = covers
    candidates: list[float] = []
    costs: list[float] = []
    left: list[float] = []
    covered = 0
    for amount, cost, covers in among:
        if covers == covered:  # as a part of a worker may, when it is rounded
            continue
        if costs and cost + share == costs[-1]:  # covers more at the same cost
            candidates[-1] = amount
        else:
            candidates.append(amount)
            costs.append(cost + share)
            left.append(behind[covered])
        covered = covers
    return candidates, costs, left


def _part(worker: float, tasks: int) -> float:
    """Return the GB of which a worker has so many; its resolution is that of `Memory`, 1 kB."""
    return math.floor(worker / tasks * 1e6) / 1e6
