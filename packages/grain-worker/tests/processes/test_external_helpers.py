"""The supervisors and the fork server of external programs: killed, replaced, or slow."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from grain.worker.external import ExternalLostError, run_external
from grain.worker.processes import fork_server_client
from grain.worker.processes.fork_server_client import ForkServerClient
from grain_testkit.local_processes import stop
from grain_testkit.program_trees import (
    PYTHON,
    TREE,
    marked,
    own_fork_server,
    own_supervisors,
    wait_until_gone,
    wait_until_grown,
)

pytestmark = pytest.mark.usefixtures("no_allocation")


async def test_a_killed_supervisor_takes_its_program_along(marker: str) -> None:
    """The fork server kills the orphans; when they are gone, the call raises."""
    async with trio.open_nursery() as nursery:

        async def expect() -> None:
            with pytest.raises(ExternalLostError, match="was killed, and the program with it"):
                await run_external([PYTHON, "-c", TREE, marker, "deaf"])
            assert marked(marker) == []

        nursery.start_soon(expect)
        await wait_until_grown(1, marker)
        (supervisor,) = own_supervisors()
        os.kill(supervisor, signal.SIGKILL)

    assert (await run_external(["echo", "next"])).stdout == b"next\n"


async def test_a_killed_fork_server_is_replaced(marker: str) -> None:
    """Programs that run go on and can still be ended; new calls get a new fork server."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_external, [PYTHON, "-c", TREE, marker])
        await wait_until_grown(1, marker)
        first = own_fork_server()
        os.kill(first, signal.SIGKILL)
        assert (await run_external(["echo", "next"])).stdout == b"next\n"
        assert len(marked(marker)) == 4
        assert own_fork_server() != first
        nursery.cancel_scope.cancel()

    assert marked(marker) == []


async def test_many_calls_at_once_wait_for_a_slow_fork_server() -> None:
    """Unread messages may fill its socket, while several calls want to start."""
    await run_external(["true"])
    fork_server = ForkServerClient.of_this_run()
    assert fork_server.pid is not None
    fork_server.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the least there is
    stop(fork_server.pid)
    async with trio.open_nursery() as nursery:
        try:
            for _ in range(40):
                nursery.start_soon(run_external, ["true"])
            await trio.testing.wait_all_tasks_blocked()
        finally:
            os.kill(fork_server.pid, signal.SIGCONT)


async def test_all_helpers_killed_while_idle_are_replaced() -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(run_external, ["true"])
    helpers = [*own_supervisors(), own_fork_server()]
    for pid in helpers:
        with suppress(ProcessLookupError):  # a supervisor beyond those that are kept leaves
            os.kill(pid, signal.SIGKILL)
    await wait_until_gone(helpers)

    assert (await run_external(["echo", "next"])).stdout == b"next\n"


async def test_idle_supervisors_of_a_killed_fork_server_begin_nothing(marker: str) -> None:
    """A program that begins afterwards is ended, too, if its supervisor is killed."""
    await run_external(["true"])
    first = own_fork_server()
    idle = own_supervisors()
    os.kill(first, signal.SIGKILL)
    await wait_until_gone([first])
    async with trio.open_nursery() as nursery:

        async def expect() -> None:
            with pytest.raises(ExternalLostError, match="was killed, and the program with it"):
                await run_external([PYTHON, "-c", TREE, marker, "deaf"])
            assert marked(marker) == []

        nursery.start_soon(expect)
        await wait_until_grown(1, marker)
        await wait_until_gone(idle)
        (supervisor,) = own_supervisors()
        os.kill(supervisor, signal.SIGKILL)


@pytest.mark.parametrize("virtual", [False, True], ids=["real time", "virtual time"])
def test_the_end_of_a_trio_run_leaves_no_zombie(virtual: bool) -> None:
    """Virtual time jumps ahead while a process ends."""
    clock = trio.testing.MockClock(autojump_threshold=0) if virtual else None
    pids: list[int] = []

    async def main() -> None:
        await run_external(["true"])
        pids.append(own_fork_server())

    trio.run(main, clock=clock)
    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)


async def test_a_fork_server_that_outlives_its_run_is_reaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stays as long as a process below it survives SIGKILL; this test has no patience."""
    monkeypatch.setattr(fork_server_client, "LINGER", 0.0)
    pids: list[int] = []

    async def main() -> None:
        await run_external(["true"])
        pids.append(own_fork_server())

    await trio.to_thread.run_sync(trio.run, main)
    with trio.fail_after(60):
        while Path(f"/proc/{pids[0]}").exists():
            await trio.sleep(0.01)
