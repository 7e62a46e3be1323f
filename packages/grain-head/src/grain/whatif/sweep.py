"""Replays for several numbers of workers, and the knee."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from grain.whatif.replay import Outcome, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grain.whatif.scenario import Scenario, WorkerGroup
    from grain.whatif.workload import Workload


class SweepRow(NamedTuple):
    """A replay with some number of workers."""

    workers: int
    outcome: Outcome


def sweep(
    workload: Workload,
    scenario: Scenario,
    workers: WorkerGroup,
    counts: Iterable[int],
    on_row: Callable[[int], object] = lambda _: None,
) -> list[SweepRow]:
    """Replay a workload with several numbers of workers.

    Args:
        scenario: the conditions of all replays but for the workers.
        workers: the workers, whose number is replaced.
        counts: the numbers.
        on_row: called with each number before its replay, which may take a minute.
    """
    rows = []
    for count in counts:
        on_row(count)
        conditions = scenario._replace(workers=workers._replace(number=count))
        rows.append(SweepRow(count, replay(workload, conditions)))
    return rows


def knee(rows: Iterable[SweepRow]) -> int | None:
    """Return the number of workers beyond which more of them gain less than they cost.

    It is where the ratio of efficiency to makespan is largest, and so the product of core-hours and
    makespan smallest (D. L. Eager, J. Zahorjan, E. D. Lazowska, "Speedup versus efficiency in
    parallel systems", IEEE Transactions on Computers 38, 1989). None if no replay ends, or if there
    is only one.
    """
    ended = [row for row in rows if row.outcome.makespan != math.inf]
    if len(ended) < 2:
        return None
    products = [row.outcome.makespan * _cost(row.outcome) for row in ended]
    # Of equal ones the smallest; amounts of a log are not exact to more than a thousandth.
    return next(
        row.workers
        for row, product in zip(ended, products, strict=True)
        if product <= 1.001 * min(products)
    )


def _cost(outcome: Outcome) -> float:
    """Return the core-hours, or the hours of workers that have no cores."""
    return outcome.core_hours or outcome.worker_hours
