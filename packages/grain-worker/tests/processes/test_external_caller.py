"""Nothing of an external program survives its caller, which is killed or interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain.worker.external import run_external
from grain_testkit.local_processes import alive
from grain_testkit.program_trees import (
    PYTHON,
    TREE,
    descendants_named,
    marked,
    own_fork_server,
    own_supervisors,
    wait_for_count,
    wait_until_gone,
    wait_until_grown,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_allocation")


# One of three programs that end when two of them have got SIGTERM. The first does not count: it has
# 0.3 s of grace, which may be over before it gets a CPU.
TOGETHER = """
import os, signal, sys, time
from pathlib import Path
ready, done = Path(sys.argv[2], "ready"), Path(sys.argv[2], "done")
signal.signal(signal.SIGTERM, lambda *_: "first" in sys.argv or (done / str(os.getpid())).touch())
(ready / str(os.getpid())).touch()
while len(list(done.iterdir())) < 2:
    time.sleep(0.01)
"""

# A caller in a process of its own, to be killed or interrupted: it runs trees by `run_external`.
CALLER = f"""
import os, signal, sys, time, trio
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
from grain import GVAR
from grain.resource import Token
from grain.worker.external import run_external
async def main():
    if "forked" in sys.argv:
        await run_external(["true"])
        if os.fork() == 0:                           # holds copies of all sockets
            os.execvp("sleep", ["sleep", "1111.1"]) if "exec" in sys.argv else time.sleep(1000)
    def tree(*words):
        if "together" in sys.argv:
            code = {TOGETHER!r}
            return run_external([sys.executable, "-c", code, *sys.argv[1:], *words], grace=1000)
        return run_external([sys.executable, "-c", {TREE!r}, sys.argv[1], "deaf"], scratch=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree)
        nursery.start_soon(tree)
        await tree("first")                          # gets the KeyboardInterrupt itself
with GVAR.scope(Token("own")):
    trio.run(main)
"""


def start_caller(tmp_path: Path, marker: str, *options: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [PYTHON, "-c", CALLER, marker, *options]
    return subprocess.Popen(command, start_new_session=True, env=environment, stderr=-1)


@pytest.mark.parametrize("options", [(), ("forked",), ("forked", "exec")])
async def test_sigkill_of_the_caller_leaves_nothing(
    tmp_path: Path, marker: str, options: tuple[str, ...]
) -> None:
    """A process that was forked from the caller may still hold its files."""
    caller = start_caller(tmp_path, marker, *options)
    try:
        # The caller itself has the marker, and so does its fork.
        await wait_until_grown(3, marker, 1 + (options == ("forked",)))
        helpers = descendants_named("grain-supervise", caller.pid) + descendants_named(
            "grain-forkserv", caller.pid
        )
        assert len(helpers) == 4
        assert len(list(tmp_path.iterdir())) == 3

        os.kill(caller.pid, signal.SIGKILL)
        await trio.to_thread.run_sync(caller.wait)
        await wait_for_count(int(options == ("forked",)), marker)
        await wait_until_gone(helpers)
    finally:
        # The fork that is left, and whatever else there is of this session.
        with suppress(ProcessLookupError):
            os.killpg(caller.pid, signal.SIGKILL)
        caller.communicate()
    assert list(tmp_path.iterdir()) == []


async def test_ctrl_c_ends_programs_helpers_and_scratch_directories(
    tmp_path: Path, marker: str
) -> None:
    caller = start_caller(tmp_path, marker)
    await wait_until_grown(3, marker, 1)
    helpers = descendants_named("grain-supervise", caller.pid) + descendants_named(
        "grain-forkserv", caller.pid
    )
    programs = [pid for pid in marked(marker) if pid != caller.pid]
    os.killpg(caller.pid, signal.SIGINT)  # what a terminal does
    await trio.to_thread.run_sync(partial(caller.wait, 60))

    assert not any(map(alive, programs))
    await wait_until_gone(helpers)  # for which it has waited some seconds at most
    assert b"KeyboardInterrupt" in caller.communicate()[1]
    assert list(tmp_path.iterdir()) == []


async def test_ctrl_c_signals_all_programs_before_it_waits_for_any(
    tmp_path: Path, marker: str
) -> None:
    """Programs tidy up at the same time, not one after another."""
    ready, done = tmp_path / "ready", tmp_path / "done"
    ready.mkdir()
    done.mkdir()
    caller = start_caller(tmp_path, marker, str(tmp_path), "together")
    try:
        with trio.fail_after(60):
            while len(list(ready.iterdir())) < 3:
                await trio.sleep(0.01)
        os.killpg(caller.pid, signal.SIGINT)
        await trio.to_thread.run_sync(partial(caller.wait, 60))
    finally:
        caller.kill()

    assert b"KeyboardInterrupt" in caller.communicate()[1]
    assert 2 == len(list(done.iterdir()))
    assert marked(marker) == []


async def test_the_terminals_ctrl_c_does_not_reach_programs(marker: str) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_external, ["sleep", marker])
        await wait_for_count(1, marker)
        helpers = [*marked(marker), *own_supervisors(), own_fork_server()]
        assert os.getsid(0) not in map(os.getsid, helpers)
        (program,) = marked(marker)
        assert os.getsid(program) == program  # so its `kill 0` reaches nobody else, too
        nursery.cancel_scope.cancel()
