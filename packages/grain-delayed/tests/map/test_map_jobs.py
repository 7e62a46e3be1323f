"""Jobs of ``grain map`` that were started: how many wait."""

from __future__ import annotations

from pathlib import Path

import trio

from grain.delayed import mission
from grain.map.halting import Tally, parse_halt
from grain.map.inputs.splitting import Columns
from grain.map.jobs import WAITING, Jobs, MapJob
from grain.map.output import OutputPrinter
from grain.map.plan import Plan
from grain.resource import Capacity


class Leaving(Exception):
    """Ends a mission whose jobs would not end."""


async def started(halt: str, at_once: int | None, most: int, least: int) -> int:
    """Return the number of endless jobs that are started where two run at a time.

    It waits until at least ``least`` have started, then looks whether more follow, up to ``most``.
    """
    policy = parse_halt(halt)
    plan = Plan((), (), Columns(), Capacity(1), at_once=at_once, halt=policy)
    count = 0
    try:
        async with mission(Capacity(2), config_file=False, progress=False) as active:
            async with trio.open_nursery() as nursery:
                with OutputPrinter() as output:
                    jobs = Jobs(plan, active, nursery, Tally(policy), None, output)

                    async def feed() -> None:
                        nonlocal count
                        while count < most:
                            await jobs.wait_for_room()
                            count += 1
                            jobs.start(MapJob(count, ["sleep", "1000.25"], "", Path.cwd(), None))

                    nursery.start_soon(feed)
                    with trio.fail_after(300):
                        while count < least or active.executor.statistics().running < 2:
                            await trio.sleep(0.01)
                    # Many sleeps rather than a long one: however slow all is, `room` has its turn
                    # between them, and looks again.
                    for _ in range(50):
                        await trio.sleep(0.02)
                    nursery.cancel_scope.cancel()
            raise Leaving
    except Leaving:
        return count


async def test_few_jobs_wait() -> None:
    """However long the input is, few jobs wait, so memory stays flat."""
    assert WAITING <= await started("never", None, 3 * WAITING, WAITING) <= WAITING + 2


async def test_fewer_wait_if_a_policy_says_soon() -> None:
    """Jobs that the worker has already would run all the same."""
    assert 3 == await started("soon,fail=1", None, 50, 3)
    assert 2 == await started("soon,fail=1", 2, 50, 2)
