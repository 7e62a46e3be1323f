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
from grain_testkit.local_processes import alive as running
from grain_testkit.program_trees import PYTHON, TREE, alive, gone, grown, named, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_allocation")


# One of three that end when those that have the time to say so were told to. Not the first: it has
# 0.3 s to obey, which may be over before it is its turn on a CPU.
TOGETHER = """
import os, signal, sys, time
from pathlib import Path
ready, told = Path(sys.argv[2], "ready"), Path(sys.argv[2], "told")
signal.signal(signal.SIGTERM, lambda *_: "first" in sys.argv or (told / str(os.getpid())).touch())
(ready / str(os.getpid())).touch()
while len(list(told.iterdir())) < 2:
    time.sleep(0.01)
"""

# A program of its own, to be killed or interrupted: runs a tree through the call.
CALLER = f"""
import os, signal, sys, time, types, trio
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
from grain import GVAR
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
with GVAR.scope(types.SimpleNamespace()):
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
    """Also while a process that was forked from the caller holds on to its files."""
    caller = start_caller(tmp_path, marker, *options)
    try:
        # The caller itself has the marker, and so does its fork.
        await grown(3, marker, 1 + (options == ("forked",)))
        helpers = named("grain-supervise", caller.pid) + named("grain-forkserv", caller.pid)
        assert len(helpers) == 4
        assert len(list(tmp_path.iterdir())) == 3

        os.kill(caller.pid, signal.SIGKILL)
        await trio.to_thread.run_sync(caller.wait)
        await until(int(options == ("forked",)), marker)
        await gone(helpers)
    finally:
        # The fork that is left, and whatever else there is of this session.
        with suppress(ProcessLookupError):
            os.killpg(caller.pid, signal.SIGKILL)
        caller.communicate()
    assert list(tmp_path.iterdir()) == []


async def test_ctrl_c_ends_everything(tmp_path: Path, marker: str) -> None:
    caller = start_caller(tmp_path, marker)
    await grown(3, marker, 1)
    helpers = named("grain-supervise", caller.pid) + named("grain-forkserv", caller.pid)
    programs = [pid for pid in alive(marker) if pid != caller.pid]
    os.killpg(caller.pid, signal.SIGINT)  # what a terminal does
    await trio.to_thread.run_sync(partial(caller.wait, 60))

    assert not any(map(running, programs))
    await gone(helpers)  # for which it has waited some seconds at most
    assert b"KeyboardInterrupt" in caller.communicate()[1]
    assert list(tmp_path.iterdir()) == []


async def test_ctrl_c_tells_all_before_it_waits_for_any(tmp_path: Path, marker: str) -> None:
    """The time that programs have for tidying up is not spent on one after another."""
    ready, told = tmp_path / "ready", tmp_path / "told"
    ready.mkdir()
    told.mkdir()
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
    assert 2 == len(list(told.iterdir()))
    assert alive(marker) == []


async def test_the_terminals_ctrl_c_does_not_reach_programs(marker: str) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_external, ["sleep", marker])
        await until(1, marker)
        helpers = [*alive(marker), *named("grain-supervise"), *named("grain-forkserv")]
        assert os.getsid(0) not in map(os.getsid, helpers)
        (program,) = alive(marker)
        assert os.getsid(program) == program  # so its `kill 0` reaches nobody else, too
        nursery.cancel_scope.cancel()
