"""The keepers and the shepherd of external programs: killed, replaced, or slow."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

import pytest
import trio
import trio.testing

from grain.worker.external import ExternalLostError, run_external
from grain.worker.processes.fork_server_client import Shepherd
from grain_testkit.program_trees import PYTHON, TREE, alive, gone, grown, named

pytestmark = pytest.mark.usefixtures("no_allocation")


async def test_a_keeper_that_is_killed_takes_its_program_along(marker: str) -> None:
    """The shepherd ends the orphans; the call says what happened once they are gone."""
    async with trio.open_nursery() as nursery:

        async def expect() -> None:
            with pytest.raises(ExternalLostError, match="was killed, and the program with it"):
                await run_external([PYTHON, "-c", TREE, marker, "deaf"])
            assert alive(marker) == []

        nursery.start_soon(expect)
        await grown(1, marker)
        (keeper,) = named("grain-keeper")
        os.kill(keeper, signal.SIGKILL)

    assert (await run_external(["echo", "next"])).stdout == b"next\n"


async def test_a_killed_shepherd_is_replaced(marker: str) -> None:
    """Programs that run go on and are still minded; new calls get a new shepherd."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_external, [PYTHON, "-c", TREE, marker])
        await grown(1, marker)
        (first,) = named("grain-shepherd")
        os.kill(first, signal.SIGKILL)
        assert (await run_external(["echo", "next"])).stdout == b"next\n"
        assert len(alive(marker)) == 4
        assert named("grain-shepherd") != [first]
        nursery.cancel_scope.cancel()

    assert alive(marker) == []


async def test_many_calls_at_once_wait_for_a_slow_shepherd() -> None:
    """What it has not read yet may fill its socket, while several calls want to be started."""
    await run_external(["true"])
    shepherd = Shepherd.of_this_run()
    shepherd.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the least there is
    os.kill(shepherd.pid, signal.SIGSTOP)
    async with trio.open_nursery() as nursery:
        try:
            for _ in range(40):
                nursery.start_soon(run_external, ["true"])
            await trio.testing.wait_all_tasks_blocked()
        finally:
            os.kill(shepherd.pid, signal.SIGCONT)


async def test_all_helpers_killed_while_idle_are_replaced() -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(run_external, ["true"])
    helpers = named("grain-keeper") + named("grain-shepherd")
    for pid in helpers:
        with suppress(ProcessLookupError):  # a keeper that nobody needs leaves
            os.kill(pid, signal.SIGKILL)
    await gone(helpers)

    assert (await run_external(["echo", "next"])).stdout == b"next\n"
