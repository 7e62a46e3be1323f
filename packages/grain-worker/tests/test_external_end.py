"""That nothing of an external program survives the call, whoever ends it and however."""

# Other processes cannot set an event here: one has to look. Paths are on a local disk.

from __future__ import annotations

import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.testing

from grain import GVAR
from grain.worker._shepherd import Shepherd
from grain.worker.external import (
    ExternalError,
    ExternalLostError,
    ExternalTimeoutError,
    run_external,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.resource import Resource

PYTHON = sys.executable

# A main process and three descendants that are hard to find or to end, all deaf to SIGTERM where
# that is said, and recognisable by the marker in their arguments.
TREE = """
import os, signal, sys, time
marker = sys.argv[1]
def sleep():
    os.execve("/bin/sleep", ["sleep", marker], {})   # its environment is empty
if os.fork() == 0:                                   # another session
    os.setsid()
    sleep()
if os.fork() == 0:                                   # a daemon: another session, an orphan
    os.setsid()
    if os.fork() == 0:
        sleep()
    os._exit(0)
os.wait()
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)    # inherited through exec
if os.fork() == 0:
    sleep()
if "leave" in sys.argv:
    sys.exit(0)
while True:
    time.sleep(1000)
"""

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


@pytest.fixture(autouse=True)
def no_allocation() -> Iterator[None]:
    with GVAR.scope(cast("Resource", SimpleNamespace())):
        yield


@pytest.fixture
def marker() -> Iterator[str]:
    """A duration for sleep that no other process has; whatever has it at the end is killed."""
    chosen = f"1000.{random.randrange(10**9)}1"
    yield chosen
    for pid in alive(chosen):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def alive(marker: str) -> list[int]:
    """The processes with this argument (a zombie has no arguments)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(path.parent.name))
    return found


async def until(count: int, marker: str) -> None:
    with trio.fail_after(60):
        while len(alive(marker)) != count:
            await trio.sleep(0.01)


async def grown(trees: int, marker: str, others: int = 0) -> None:
    """Until these trees are complete, with as many others that have the marker.

    Four processes are no tree yet: one that is to become a daemon has a parent for a moment.
    """
    with trio.fail_after(60):
        while (len(alive(marker)), len(asleep(marker))) != (4 * trees + others, 3 * trees):
            await trio.sleep(0.01)


def asleep(marker: str) -> list[int]:
    """Those that have become what they were to become."""
    return [pid for pid in alive(marker) if words_of(pid)[:2] == [b"sleep", marker.encode()]]


def words_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def named(name: str, top: int | None = None) -> list[int]:
    """The descendants of a process, by default of this one, that bear a name."""
    found = []
    waiting = [top or os.getpid()]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):  # gone meanwhile
            for path in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += map(int, path.read_text().split())
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


async def gone(pids: list[int]) -> None:
    with trio.fail_after(60):
        while any(running(pid) for pid in pids):
            await trio.sleep(0.01)


def running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.parametrize(("manner", "grace"), [("deaf", 1.0), ("obedient", 120.0)])
async def test_cancellation_ends_the_whole_tree_first(
    marker: str, manner: str, grace: float
) -> None:
    """SIGTERM suffices for those that obey it; the others get SIGKILL after the grace."""

    async def one() -> None:
        await run_external([PYTHON, "-c", TREE, marker, manner], grace=grace)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await grown(1, marker)
        began = trio.current_time()
        nursery.cancel_scope.cancel()

    assert alive(marker) == []
    took = trio.current_time() - began
    assert took < grace if manner == "obedient" else took >= grace


async def test_grace_is_how_long_a_program_may_tidy_up(tmp_path: Path) -> None:
    """SIGTERM comes first, and its handler has the time that it needs."""
    code = (
        "import signal, sys, time\n"
        "def tidy(*_): time.sleep(0.3); print('tidied', flush=True); sys.exit(9)\n"
        "signal.signal(signal.SIGTERM, tidy)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1)"
    )
    out = tmp_path / "out"
    async with trio.open_nursery() as nursery:

        async def one() -> None:
            await run_external([PYTHON, "-c", code], stdout=out, grace=60)

        nursery.start_soon(one)
        with trio.fail_after(60):
            while not out.exists() or not out.read_text():
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()

    assert out.read_text() == "ready\ntidied\n"


async def test_a_stopped_program_is_ended_within_the_grace(marker: str) -> None:
    async def one() -> None:
        await run_external(["sleep", marker], grace=120)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        await until(1, marker)
        os.kill(alive(marker)[0], signal.SIGSTOP)
        began = trio.current_time()
        nursery.cancel_scope.cancel()

    assert alive(marker) == []
    assert trio.current_time() - began < 120  # it would be killed then


async def test_time_limit_ends_the_whole_tree_first(marker: str) -> None:
    with pytest.raises(trio.TooSlowError, match=r"its time limit of 1\.5 s") as caught:
        await run_external([PYTHON, "-c", TREE, marker, "deaf"], timeout=1.5, grace=0.2)

    assert alive(marker) == []
    assert PYTHON in str(caught.value)


@pytest.mark.parametrize("to_file", [False, True])
async def test_time_limit_keeps_what_was_written(
    to_file: bool, tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Whoever ended a program at its limit wants to know how far it came."""
    line = f"echo so far; echo last words >&2; touch {tmp_path}/there; exec sleep 1000.5"
    files: dict[str, Any] = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}

    async def time_passes() -> None:
        """As soon as the program has come so far."""
        while not (tmp_path / "there").exists():
            await trio.to_thread.run_sync(time.sleep, 0.01)
        mock_clock.jump(3)
        mock_clock.rate = 1  # for its end

    async with trio.open_nursery() as nursery:
        nursery.start_soon(time_passes)
        with pytest.raises(ExternalTimeoutError) as caught:
            await run_external(["sh", "-c", line], timeout=2, **(files if to_file else {}))

    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, trio.TooSlowError)
    assert isinstance(error, ExternalError)
    assert (socket.gethostname(), None) == (error.host, error.returncode)
    assert error.elapsed is not None
    if to_file:
        assert (None, None) == (error.stdout, error.stderr)
        assert "so far\n" == (tmp_path / "out").read_text()
    else:
        assert (b"so far\n", b"last words\n") == (error.stdout, error.stderr)
    assert "last words" in str(error)


async def test_what_a_program_leaves_behind_is_ended(marker: str) -> None:
    """A normal end is not taken for the end: daemons go, too, then the result comes."""
    done = await run_external([PYTHON, "-c", TREE, marker, "leave", "deaf"], grace=0.1)

    assert done.returncode == 0
    assert alive(marker) == []


async def test_a_time_limit_that_is_met_changes_nothing() -> None:
    assert (await run_external(["echo", "x"], timeout=60)).stdout == b"x\n"


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
        helpers = named("grain-keeper", caller.pid) + named("grain-shepherd", caller.pid)
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
    helpers = named("grain-keeper", caller.pid) + named("grain-shepherd", caller.pid)
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
        helpers = [*alive(marker), *named("grain-keeper"), *named("grain-shepherd")]
        assert os.getsid(0) not in map(os.getsid, helpers)
        (program,) = alive(marker)
        assert os.getsid(program) == program  # so its `kill 0` reaches nobody else, too
        nursery.cancel_scope.cancel()


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


@pytest.mark.parametrize("end", ["normal", "failure", "time limit", "cancellation", "no start"])
async def test_scratch_directory_is_removed(tmp_path: Path, end: str) -> None:
    """With everything in it, also what cannot be entered, and links but not what they point to."""
    (tmp_path / "kept").write_text("x")
    (tmp_path / "below").mkdir()
    env = {"TMPDIR": str(tmp_path / "below")}
    script = (
        f'test "$PWD" = "$TMPDIR" && mkdir -p a/b && touch a/b/c && ln -s {tmp_path} link'
        " && chmod 000 a/b && chmod 500 a && pwd && "
    )
    last = {"normal": "true", "failure": "exit 3"}.get(end, "sleep 1000")
    argv = ["/no/program"] if end == "no start" else ["sh", "-c", script + last]
    limit = 0.3 if end == "time limit" else None
    seen: list[str] = []

    async def one() -> None:
        try:
            done = await run_external(argv, scratch=True, env=env, timeout=limit, check=False)
            seen.append(done.stdout_text.strip())
        except Exception:
            assert end in ("time limit", "no start")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        if end == "cancellation":
            with trio.fail_after(60):
                while not list(tmp_path.glob("below/grain-*/link")):
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    assert list((tmp_path / "below").iterdir()) == []
    assert (tmp_path / "kept").exists()
    for path in seen:
        assert path.startswith(str(tmp_path / "below" / "grain-"))


async def test_scratch_is_only_for_temporary_files_where_a_directory_is_given(
    tmp_path: Path,
) -> None:
    done = await run_external(
        ["sh", "-c", 'pwd; test -d "$TMPDIR" && echo "$TMPDIR"'], cwd=tmp_path, scratch=True
    )

    where, scratch = done.stdout_text.split()
    assert where == str(tmp_path)
    assert not Path(scratch).exists()
