"""`Scenario`: what is different in a replay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grain.resource import Either, from_text
from grain.whatif.errors import WhatIfError
from grain.whatif.workload import changed, one_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.resource import Resource
    from grain.whatif.workload import Stay, Workload

_CHANGE = re.compile(
    r"(?P<function>.+?):(?P<request>\s*(?:[^:=(*]*\*)*\s*\(?[A-Za-z_]\w*\s*[=(].*)", re.DOTALL
)
_COUNTS = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_MOST_COUNTS = 64
_LISTED = 8


class WorkerGroup(NamedTuple):
    """Workers that are alike, each replaced by another one when its job ends.

    Attributes:
        resources: what each offers.
        joins: when the first ones join, in seconds since the log began.
        walltime: the seconds after which the job of each ends; None if it has no end.
        queued: the seconds that a job waits in the batch system.
    """

    number: int
    resources: Resource
    joins: float = 0.0
    walltime: float | None = None
    queued: float = 0.0


class Scenario(NamedTuple):
    """The conditions of a replay.

    Attributes:
        workers: the workers; None for those of the log, as they came and went.
        requests: by function the kinds of its request that are different.
        max_overtakes: how often a task may be overtaken, see `grain.head.Scheduler`.
    """

    workers: WorkerGroup | None = None
    requests: dict[str, Resource] = {}  # noqa: RUF012 - it is never changed
    max_overtakes: int | None = None

    def request(self, function: str, request: Resource) -> Resource:
        """Return what a task of a function asks for here."""
        change = self.requests.get(function)
        if change is None:
            return request
        some = [
            changed(one, other) for one in request.alternatives() for other in change.alternatives()
        ]
        first = change if isinstance(change, Either) else request
        return one_of(some, first.prefer if isinstance(first, Either) else 0.0)


def parse_counts(text: str) -> list[int]:
    """Return the numbers of a text as ``1,2,4-8``, ascending.

    Raises:
        WhatIfError: it is none such.
    """
    counts: set[int] = set()
    for part in text.split(","):
        match = _COUNTS.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 0 < first <= last:
            raise WhatIfError(f"--workers {text}: write numbers of workers, as in 1,2,4-8")
        if last - first >= _MOST_COUNTS:
            raise WhatIfError(f"--workers {text}: that is more than {_MOST_COUNTS} replays")
        counts.update(range(first, last + 1))
    if len(counts) > _MOST_COUNTS:
        raise WhatIfError(f"--workers {text}: that is more than {_MOST_COUNTS} replays")
    return sorted(counts)


def parse_change(text: str, workload: Workload) -> tuple[list[str], Resource]:
    """Return the functions and the different kinds of a text as ``opt:Memory=4,Cores=2``.

    A function goes by its name, or by the last part of that.

    Raises:
        WhatIfError: it is none such, or no function of the workload has the name.
    """
    match = _CHANGE.fullmatch(text)
    if match is None:
        raise WhatIfError(
            f"--request {text}: write a function and what it asks for, as in opt:Memory=4,Cores=2"
        )
    wanted = match["function"].strip()
    names = sorted({task.function for task in workload.tasks})
    functions = [n for n in names if n == wanted] or [
        n for n in names if n.endswith((f".{wanted}", f":{wanted}"))
    ]
    if not functions:
        listed = ", ".join(names[:_LISTED]) + (" ..." if len(names) > _LISTED else "")
        raise WhatIfError(f"--request {text}: no task calls {wanted!r}; there are: {listed}")
    try:
        return functions, from_text(match["request"])
    except ValueError as error:
        raise WhatIfError(f"--request {text}: {error}") from None


def usual_worker(stays: Iterable[Stay]) -> Resource:
    """Return what most workers offered; of equals, the first one."""
    counts: dict[Resource, int] = {}
    for stay in stays:
        counts[stay.resources] = counts.get(stay.resources, 0) + 1
    return max(counts, key=lambda resources: counts[resources])


def most_at_once(stays: Iterable[Stay]) -> int:
    """Return the largest number of workers that were there at one time."""
    changes = []
    for stay in stays:
        changes.append((stay.joins, 1))
        if stay.leaves is not None:
            changes.append((stay.leaves, -1))
    count = most = 0
    for _, change in sorted(changes, key=lambda one: (one[0], -one[1])):
        count += change
        most = max(most, count)
    return most


def usual_counts(workers: int) -> list[int]:
    """Return the numbers of workers to try: from a quarter of what there was to four times that."""
    steps = {2**k for k in range(20)} | {3 * 2**k for k in range(20)} | {workers}
    return sorted(n for n in steps if workers <= 4 * n and n <= 4 * workers)
