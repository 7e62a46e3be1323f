"""`estimate`: the time until the tasks that were submitted so far have ended. Pure.

Tasks of one function take about as long as those of it that have ended, and tasks of another one
may take a thousand times as long. So there is a mean for each function, and none for all:

1. Work is core-seconds: for waiting tasks, tasks times cores times mean; for running ones, the rest
   of the mean. It cannot end sooner than in work divided by room, the cores that the tasks have.
2. Nor can one kind of tasks end sooner than it would if it had all the room. For equal tasks on
   equal workers that is exact, as the last round takes as long as the others.
3. A function without an ended run is left out, and so is a run that takes longer than any
   before it: nothing is known of the rest. The estimate is then a least time, and says so. If more
   tasks are left out than counted there is no estimate: a least time would be true, and useless.
4. Tasks that fit no worker are counted apart: the others end without them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grain.head.base import CallKindNow


class Estimate(NamedTuple):
    """The time until tasks have ended.

    Attributes:
        least: True if it may take longer, as nothing is known of some of the tasks.
        without: how many tasks are left out, as no run of their function has ended.
        function: the function that most of these call.
        functions: how many functions they call.
    """

    seconds: float
    least: bool = False
    without: int = 0
    function: str = ""
    functions: int = 0


class _Means:
    """The mean and the longest run of each function."""

    def __init__(self, kinds: Iterable[CallKindNow]) -> None:
        ended: dict[str, tuple[int, float]] = {}
        self._longest: dict[str, float] = {}
        # By function and cores, where runs with as many have ended; else by the function.
        self._means: dict[tuple[str, float] | str, float] = {}
        for one in kinds:
            if one.timed:
                count, seconds = ended.get(one.function, (0, 0.0))
                ended[one.function] = count + one.timed, seconds + one.seconds
                self._means[one.function, one.cores] = one.seconds / one.timed
                longest = self._longest.get(one.function, 0.0)
                self._longest[one.function] = max(longest, one.longest)
        for function, (count, seconds) in ended.items():
            self._means[function] = seconds / count

    def mean(self, function: str, cores: float | None = None) -> float | None:
        """Return the mean of a function's runs; None if none has ended."""
        mean = None if cores is None else self._means.get((function, cores))
        return self._means.get(function) if mean is None else mean

    def longest(self, function: str) -> float:
        """Return the longest run of a function."""
        return self._longest.get(function, 0.0)


def estimate(
    kinds: Sequence[CallKindNow],
    room: float,
    coming: Mapping[str, int] | None = None,
) -> Estimate | None:
    """Return the time until all tasks have ended; None if nothing is known of most of them.

    Args:
        room: the cores that they can have at one time.
        coming: how many calls of each function are yet to be submitted, as far as that is known.
    """
    means = _Means(kinds)
    work = longest_alone = 0.0
    least, counted = False, 0
    unseen: dict[str, int] = {}
    most_cores: dict[str, float] = {}
    for one in kinds:
        most_cores[one.function] = max(most_cores.get(one.function, 0.0), one.cores)
        if not (one.waiting or one.elapsed):
            continue
        mean = means.mean(one.function, one.cores)
        if mean is None:
            tasks = one.waiting + len(one.elapsed)
            unseen[one.function] = unseen.get(one.function, 0) + tasks
            continue
        counted += one.waiting + len(one.elapsed)
        rest, overdue = _rest(one.elapsed, mean, means.longest(one.function))
        least = least or overdue
        work += one.cores * (one.waiting * mean + sum(rest))
        longest_alone = max(longest_alone, _alone(one.waiting, rest, mean, one.cores, room))
    for function, calls in (coming or {}).items():
        mean = means.mean(function)
        if mean is None and calls > 0:
            unseen[function] = unseen.get(function, 0) + calls
        elif mean is not None and calls > 0:
            counted += calls
            cores = most_cores[function]
            work += cores * calls * mean
            longest_alone = max(longest_alone, _alone(calls, (), mean, cores, room))
    if not counted or sum(unseen.values()) > counted:
        return None
    if work > 0:
        by_work = work / room if room > 0 else math.inf
        if math.isinf(by_work):  # no room, or as good as none
            return None
        longest_alone = max(longest_alone, by_work)
    most = max(unseen, key=unseen.__getitem__, default="")
    least = least or bool(unseen)
    return Estimate(longest_alone, least, sum(unseen.values()), most, len(unseen))


def _rest(elapsed: Sequence[float], mean: float, longest: float) -> tuple[list[float], bool]:
    """Return what is left of runs, ascending; and True if one takes longer than any before it.

    Of a run that has taken longer than the mean, half of the way to the longest one is left.
    """
    rest = [
        mean - ran if ran <= mean else max(longest - ran, 0.0) / 2
        for ran in elapsed
    ]  # fmt: skip
    rest.sort()
    return rest, any(ran > longest for ran in elapsed)


def _alone(waiting: int, rest: Sequence[float], mean: float, cores: float, room: float) -> float:
    """Return the time until tasks of one kind have ended if nothing else has any room.

    Each place takes the next task when its last one has ended. All places take as many, and the
    first ones to be free one more.

    Args:
        rest: what is left of the running tasks, ascending.
        mean: how long each takes.
        cores: those of each.
        room: those of all.
    """
    if not waiting:
        return rest[-1] if rest else 0.0
    places = max(int(room // cores) if cores > 0 else 0, len(rest), 1)
    rounds, last = divmod(waiting - 1, places)
    free = places - len(rest)
    begins = rest[last - free] if last >= free else 0.0
    ends = rest[-1] if rest else 0.0
    return max(min(begins, mean) + (rounds + 1) * mean, ends)
