"""Programs that stop their supervisor or the fork server: neither hangs, nor what is cancelled."""

from __future__ import annotations

import itertools
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from grain.worker.external import run_external
from grain.worker.processes import fork_server_client
from grain.worker.processes.fork_server_client import ForkServerClient
from grain.worker.processes.supervisor_client import SupervisorClient
from grain_testkit.local_processes import stop, wait_for_file
from grain_testkit.program_trees import PYTHON, marked

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_allocation")

# Arguments: a marker, a file to make, the generations of ancestors to stop, and "again" to do so
# without end, or "leave" to end with status 3. It is deaf to SIGTERM.
STOPS = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
parent = os.getppid()
grandparent = int(pathlib.Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
while True:
    for pid in (grandparent, parent)[-int(sys.argv[3]):]:
        os.kill(pid, signal.SIGSTOP)
    pathlib.Path(sys.argv[2]).touch()
    if sys.argv[4:] == ["leave"]:
        sys.exit(3)
    if sys.argv[4:] != ["again"]:
        break
    time.sleep(0.01)
time.sleep(1000)
"""


@pytest.mark.parametrize("words", [["1"], ["2"], ["2", "again"]])
async def test_a_cancelled_program_that_stops_its_parents_is_ended(
    marker: str, tmp_path: Path, words: list[str]
) -> None:
    """Tried: Program that stops, hides or outlives its supervisor.
    Result: ended within the grace period.
    """
    async with trio.open_nursery() as nursery:
        argv = [PYTHON, "-c", STOPS, marker, str(tmp_path / "stopped"), *words]

        async def one() -> None:
            await run_external(argv, grace=0.1)

        nursery.start_soon(one)
        await wait_for_file(tmp_path / "stopped")
        nursery.cancel_scope.cancel()

    assert [] == marked(marker)
    assert (await run_external(["echo", "next"])).stdout == b"next\n"


async def test_a_program_that_stops_its_supervisor_is_awaited() -> None:
    """The supervisor's parent continues it."""
    with trio.fail_after(60):
        done = await run_external(["sh", "-c", "kill -STOP $PPID; exit 3"], check=False)

    assert done.returncode == 3


async def test_a_program_that_stops_its_supervisor_and_the_fork_server_is_awaited(
    marker: str, tmp_path: Path
) -> None:
    argv = [PYTHON, "-c", STOPS, marker, str(tmp_path / "stopped"), "2", "leave"]

    with trio.fail_after(60):
        done = await run_external(argv, check=False)

    assert done.returncode == 3


async def test_a_program_begins_although_the_fork_server_is_stopped() -> None:
    """No supervisor is idle; the one of the first call has not ended its program."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_external, ["sleep", "1000"])
        while not [p for p in ForkServerClient.programs_of_this_run() if p.supervisor.pid]:
            await trio.sleep(0.01)
        pid = ForkServerClient.of_this_run().pid
        assert pid is not None
        stop(pid)

        with trio.fail_after(60):
            done = await run_external(["echo", "next"])
        nursery.cancel_scope.cancel()

    assert done.stdout == b"next\n"


async def test_a_trio_run_ends_beside_a_stopped_fork_server(tmp_path: Path) -> None:
    """The fork server leaves, too."""
    script = tmp_path / "program.py"
    script.write_text(
        "import os, signal, trio\n"
        "from grain import GVAR\n"
        "from grain.resource import Token\n"
        "from grain.worker.external import run_external\n"
        "from grain.worker.processes.fork_server_client import ForkServerClient\n"
        "async def main():\n"
        "    await run_external(['true'])\n"
        "    pid = ForkServerClient.of_this_run().pid\n"
        "    os.kill(pid, signal.SIGSTOP)\n"
        "    return pid\n"
        "with GVAR.scope(Token('own')):\n"
        "    pid = trio.run(main)\n"
        "try:\n"
        "    os.kill(pid, 0)\n"
        "except ProcessLookupError:\n"
        "    print('left')\n"
    )

    done = await trio.run_process([PYTHON, script], capture_stdout=True)

    assert done.stdout == b"left\n"


async def test_a_supervisor_that_does_not_end_its_program_in_time_is_killed_with_all_below_it(
    marker: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """This test plays one that is deaf; the time is the system's, which the test sets, too."""
    del autojump_clock
    await run_external(["true"])
    fork_server = ForkServerClient.of_this_run()
    fork_server.idle.pop().close()
    supervisor = SupervisorClient(1000)
    fork_server.idle.append(supervisor)
    deaf = subprocess.Popen(  # noqa: ASYNC220
        ["sh", "-c", f"sleep {marker} & wait"], pass_fds=[supervisor.theirs.fileno()]
    )
    supervisor.theirs.close()
    supervisor.pid = deaf.pid
    seconds = itertools.chain([0.0], itertools.repeat(60.0))
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(fork_server_client, "time", clock)

    with trio.move_on_after(1) as scope:
        await run_external(["sleep", "1000"])

    assert scope.cancelled_caught
    assert -9 == await trio.to_thread.run_sync(deaf.wait)
    assert [] == marked(marker)
