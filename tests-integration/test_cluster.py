"""Missions, Gnaw and workers as real processes, which are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import outcome
import pytest
import trio

from grain.edge import dial
from grain.edge.errors import ChannelBroken, DialError
from grain.edge.questions import unpack
from grain.head import Cancelled
from grain.head.messages import Ask
from grain.head.service import CODEC
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


async def double(x: int) -> int:
    return 2 * x


async def note(path: str, seconds: float) -> int:
    """Leave a line in a file, then take a while."""

    import trio

    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, b"begun\n")
    os.close(fd)
    await trio.sleep(seconds)
    return os.getpid()


async def note_and_wait(path: str, go: str) -> int:
    """Leave a line in a file, then wait for another one."""
    import trio

    pid = await note(path, 0.0)
    while not os.path.exists(go):  # noqa: PTH110
        await trio.sleep(0.02)
    return pid


async def reversed_in(data: bytes, path: str, seconds: float) -> bytes:
    """Give back large bytes, after a while."""
    await note(path, seconds)
    return data[::-1]


def begun(path: str) -> int:
    """Return the number of runs of `note` that have begun."""
    try:
        return Path(path).read_text().count("begun")
    except FileNotFoundError:
        return 0


@pytest.fixture
def address(tmp_path: Path) -> str:
    folder = tmp_path / "edge"
    folder.mkdir(mode=0o700)
    return f"edge://{folder}/meeting"


# Not that of `command_site`: the workers import this module, and find none beside it.
@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def spawn(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words)


def worker(address: str, cores: int = 2, name: str = "w") -> Any:
    res = f'{{"Cores": {cores}}}'
    return running("grain.worker", "--url", address, "--res", res, "--name", name)


def gnaw(address: str) -> Any:
    return running("grain.head", "--address", address, "--grace", "20")


def mission(address: str, name: str | None = None) -> RemoteExecutor:
    """A mission that starts no scheduler of its own.

    Where that of the test is slow to start it would: one that does not end with the test, and
    which no test kills.
    """
    return RemoteExecutor(address, name=name, connect=GnawConnector(address, start=False).connect)


async def ask(address: str, about: Any, **more: Any) -> Any:
    async with dial(address, role="cli", codec=CODEC, patience=60) as peer:
        await peer.channel.send([(Ask(about, **more), None)])
        return unpack((await peer.channel.receive())[0][1])


async def test_tasks_run_on_a_worker_elsewhere(address: str) -> None:
    """Arguments and results travel through Gnaw, an agent and its runner."""
    with gnaw(address), worker(address), trio.fail_after(120):
        async with mission(address) as executor:
            ids = [executor.submit(Cores(1), double, i) for i in range(20)]
            executor.close()
            values = {job: ended.unwrap() async for job, ended in executor.results}

    assert {job: 2 * i for i, job in enumerate(ids)} == values


async def test_runs_survive_that_gnaw_is_killed(address: str, tmp_path: Path) -> None:
    """Killed with SIGKILL amid runs: each goes on, none is started again, all resolve once."""
    path = str(tmp_path / "notes")
    got: list[Any] = []
    workers = worker(address, 4, "a"), worker(address, 4, "b")
    with workers[0], workers[1], trio.fail_after(120), gnaw(address) as first:
        async with mission(address, "one") as executor:
            for _ in range(12):
                executor.submit_call(Cores(1), Call(note, (path, 8.0), {}), got.append)
            while begun(path) < 8:
                await trio.sleep(0.05)
            first.kill()
            with gnaw(address):
                await executor.join()

    assert 12 == len(got)
    assert all(isinstance(ended, outcome.Value) for ended in got)
    assert 12 == begun(path)


async def test_large_arguments_and_results_outlive_gnaw(address: str, tmp_path: Path) -> None:
    """They are sent without being copied; and again to the next one, after the first was killed."""
    path = str(tmp_path / "notes")
    data = os.urandom(1000) * 40_000
    got: list[Any] = []
    with worker(address), trio.fail_after(120), gnaw(address) as first:
        async with mission(address) as executor:
            for given in (data, bytearray(data), data[::-1]):
                executor.submit_call(
                    Cores(1), Call(reversed_in, (given, path, 4.0), {}), got.append
                )
            while begun(path) < 2:
                await trio.sleep(0.05)
            first.kill()
            with gnaw(address):
                await executor.join()

    assert 3 == begun(path)
    values = sorted(bytes(ended.unwrap()) for ended in got)
    assert sorted([data[::-1], data[::-1], data]) == values


async def test_a_thousand_tasks_of_two_missions_outlive_gnaw(address: str, tmp_path: Path) -> None:
    """Three workers; Gnaw is killed in the middle: each task resolves once, and ran once."""
    got: dict[int, list[Any]] = {1: [], 2: []}
    paths = {number: str(tmp_path / f"notes{number}") for number in got}

    async def half(number: int) -> None:
        async with mission(address, f"m{number}") as executor:
            call = Call(note, (paths[number], 0.2), {})
            for _ in range(500):
                executor.submit_call(Cores(1), call, got[number].append)

    a, b, c = (worker(address, 8, name) for name in "abc")
    with a, b, c, trio.fail_after(180), gnaw(address) as first:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(half, 1)
            nursery.start_soon(half, 2)
            while sum(map(begun, paths.values())) < 300:
                await trio.sleep(0.02)
            first.kill()
            with gnaw(address):
                while nursery.child_tasks:
                    await trio.sleep(0.05)

    assert [500, 500] == [len(ended) for ended in got.values()]
    assert all(isinstance(one, outcome.Value) for ended in got.values() for one in ended)
    assert [500, 500] == [begun(path) for path in paths.values()]


async def test_a_mission_that_is_killed_leaves_nothing(address: str, tmp_path: Path) -> None:
    """Its runs are ended and their resources free, when its grace period is over."""
    program = tmp_path / "mission.py"
    program.write_text(
        "import trio\n"
        "from grain.remote_exer import GnawConnector, RemoteExecutor\n"
        "from grain.resource import Cores\n"
        "async def long():\n    import trio\n    await trio.sleep(1000)\n"
        "async def main():\n"
        f"    connect = GnawConnector({address!r}, start=False).connect\n"
        f"    async with RemoteExecutor({address!r}, connect=connect) as executor:\n"
        "        for _ in range(5): executor.submit(Cores(1), long)\n"
        "trio.run(main)\n"
    )
    short = running("grain.head", "--address", address, "--grace", "2")
    with short, worker(address), trio.fail_after(120):
        killed = spawn(sys.executable, str(program))
        try:
            while (await ask(address, "state"))["tasks"]["running"] < 2:
                await trio.sleep(0.1)
        finally:
            killed.kill()
            killed.wait()
        while (await ask(address, "state"))["missions"]:
            await trio.sleep(0.1)
        while (await ask(address, "state"))["tasks"]["running"]:
            await trio.sleep(0.1)
        # The worker reports when nothing is left of a cancelled run.
        while (one := (await ask(address, "state"))["workers"][0])["free"] != one["total"]:
            await trio.sleep(0.1)


async def test_cancelled_jobs_end_before_the_executor_is_left(address: str) -> None:
    """A block that raises cancels its jobs, and waits for their end."""
    got: list[Any] = []
    with gnaw(address), worker(address), trio.fail_after(120):

        async def block() -> None:
            async with mission(address) as executor:
                call = Call(trio.sleep, (1000.0,), {})
                for _ in range(5):
                    executor.submit_call(Cores(1), call, got.append)
                while executor.statistics().running < 2:
                    await trio.sleep(0.05)
                raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            await block()
        state = await ask(address, "state")

    assert 5 == len(got)
    assert all(isinstance(ended.error, Cancelled) for ended in got)
    assert 0 == state["tasks"]["running"]


async def somebody_serves(address: str) -> bool:
    try:
        async with dial(address, role="cli", codec=CODEC, patience=1):
            return True
    except DialError:
        return False
    except ChannelBroken:
        return True  # it has just left


async def test_two_missions_that_start_gnaw_at_once_end_up_with_one(
    address: str, tmp_path: Path
) -> None:
    """Both find the same, which leaves when there has been no mission for a while."""
    log = tmp_path / "gnaw.log"
    # A mission looks for it now and then, some seconds apart if it is long in starting. One that
    # leaves before would take the worker with it.
    idle = ("--idle-quit", "20")

    connected = {1: trio.Event(), 2: trio.Event()}

    async def one(number: int) -> None:
        connect = GnawConnector(address, log_file=str(log), arguments=idle).connect
        async with RemoteExecutor(address, name=f"m{number}", connect=connect) as executor:
            executor.submit(Cores(1), double, number)
            await executor.ask_why(0)
            connected[number].set()
            for both in connected.values():
                await both.wait()

    with worker(address), trio.fail_after(150):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, 1)
            nursery.start_soon(one, 2)
    text = log.read_text()
    assert 1 == text.count("serving at")

    with trio.fail_after(120):
        while "leaving" not in log.read_text():
            await trio.sleep(0.1)
        # Before it goes, its workers do.
        while await somebody_serves(address):
            await trio.sleep(0.1)


async def test_a_worker_that_is_killed_has_its_tasks_run_elsewhere(
    address: str, tmp_path: Path
) -> None:
    """After its grace period; the task resolves once."""
    path = str(tmp_path / "notes")
    short = running("grain.head", "--address", address, "--grace", "2")
    with short, trio.fail_after(150), worker(address, 1, "first") as first:
        async with mission(address) as executor:
            job = executor.submit(Cores(1), note_and_wait, path, f"{path}.go")
            while not begun(path):
                await trio.sleep(0.05)
            first.send_signal(signal.SIGKILL)
            with worker(address, 1, "second"):
                while begun(path) < 2:
                    await trio.sleep(0.05)
                Path(f"{path}.go").touch()
                async for resolved, ended in executor.results:
                    assert job == resolved
                    assert isinstance(ended, outcome.Value)
                    break

    assert 2 == begun(path)
