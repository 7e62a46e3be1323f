"""The guards of a worker are killed, one or two of them: nothing is reported that may live."""

from __future__ import annotations

import os
import signal
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import pytest
import trio

from grain_testkit.program_trees import TREE, descendants_named, marked, wait_until_grown
from grain_testkit.runner_station import station

if TYPE_CHECKING:
    from grain_testkit.runner_station import Station

GUARDS = ("grain-subreaper", "grain-forkserv", "grain-supervise", "grain-runner")


async def tree(code: str, marker: str) -> None:
    import sys

    from grain.worker.external import run_external

    await run_external([sys.executable, "-c", code, marker, "deaf"], grace=0.5)


async def start_tree(s: Station, marker: str) -> int:
    """Start a program with daemons, in a run; return the run's number."""
    number = s.start(tree, TREE, marker)
    await wait_until_grown(1, marker)
    return number


# Which of two is killed first matters little; the other order is tried at night.
ORDERS = [
    *combinations(GUARDS, 2),
    ("grain-subreaper",),
    *(
        pytest.param(pair, marks=pytest.mark.nightly)
        for pair in permutations(GUARDS, 2)
        if pair not in combinations(GUARDS, 2)
    ),
]


@pytest.mark.parametrize("guards", ORDERS, ids="-".join)
async def test_a_run_is_reported_as_ended_when_nothing_of_its_program_is_left(
    marker: str, guards: tuple[str, ...]
) -> None:
    """Whichever two of its guards are killed: its successor would run beside it."""
    async with station(grace=1.0) as s:
        number = await start_tree(s, marker)
        pids = [pid for name in guards for pid in descendants_named(name)]
        assert len(guards) == len(pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        await s.witness.until(lambda: s.witness.deaths or number in s.witness.outcomes)
        left = marked(marker)
        crashes = [run for death in s.witness.deaths for run in death.runs]
        if number in s.witness.outcomes:
            ended, _ = s.witness.outcomes[number]
            assert "the process that watched over" in ended.crash
        else:
            assert [(1, number)] == crashes

    assert [] == left


async def test_a_program_that_was_left_by_all_its_guards_is_ended_if_its_environment_is_whole(
    marker: str,
) -> None:
    """The variable with the names of its subreapers leads to it."""

    async def sleep(marker: str) -> None:
        from grain.worker.external import run_external

        await run_external(["sleep", marker])

    async with station(grace=1.0) as s:
        number = s.start(sleep, marker)
        with trio.fail_after(60):
            while not marked(marker):
                await trio.sleep(0.01)
        for name in ("grain-subreaper", "grain-forkserv", "grain-supervise"):
            for pid in descendants_named(name):
                os.kill(pid, signal.SIGKILL)
        await s.witness.until(lambda: s.witness.deaths)
        left = marked(marker)

    assert ((1, number),) == s.witness.deaths[0].runs
    assert [] == left


async def test_what_the_runner_leaves_is_ended_without_its_subreaper(marker: str) -> None:
    """Also if it began behind Grain's back; and with its whole grace."""

    async def leave(marker: str) -> None:
        import subprocess

        program = f"trap '' TERM; sleep {marker} & wait; wait"
        subprocess.Popen(["setsid", "sh", "-c", program])  # noqa: ASYNC220
        await trio.sleep_forever()

    async with station(grace=0.5) as s:
        s.start(leave, marker)
        with trio.fail_after(60):
            while not marked(marker):
                await trio.sleep(0.01)
        (subreaper,) = descendants_named("grain-subreaper")
        os.kill(subreaper, signal.SIGKILL)
        await s.witness.until(lambda: s.witness.deaths)
        left = marked(marker)

    assert [] == left
