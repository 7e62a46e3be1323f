"""Missions, Gnaw and workers as real processes, which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import outcome
import pytest
import trio

from grain import GVAR
from grain.edge import dial
from grain.edge.errors import ChannelBroken, DialError
from grain.edge.questions import StateAnswer, unpack
from grain.head import TaskCancelled
from grain.head.events import TaskOutlived
from grain.head.messages import Ask
from grain.head.service import CODEC
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores, GPUs
from grain.worker import Call
from grain.worker.external import run_external, run_on_members
from grain.worker.messages import TIME_OVER
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from grain.head.events import Event
    from grain_testkit.programs import Process


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
    """Leave a line in a file, then wait for another file."""
    import trio

    pid = await note(path, 0.0)
    while not os.path.exists(go):  # noqa: PTH110
        await trio.sleep(0.02)
    return pid


async def reversed_when(data: bytes, path: str, go: str) -> bytes:
    """Give back large bytes, when a file is there."""
    await note_and_wait(path, go)
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
def running(*words: str) -> AbstractContextManager[Process]:
    return terminated(start("-m", *words, stderr=subprocess.DEVNULL))


def worker(address: str, cores: int = 2, name: str = "w") -> Any:
    res = f'{{"Cores": {cores}}}'
    return running("grain.worker", "--url", address, "--res", res, "--name", name)


def gnaw(address: str) -> Any:
    # No run begins again because a busy machine lets a worker come back late.
    return running("grain.head", "--address", address, "--grace", "600")


def mission(address: str, name: str | None = None) -> RemoteExecutor:
    """A mission that starts no scheduler of its own.

    Where that of the test is slow to start it would: one that does not end with the test, and
    which no test kills.
    """
    return RemoteExecutor(address, name=name, connect=GnawConnector(address, start=False).connect)


async def until(address: str, true: Callable[[StateAnswer], object]) -> StateAnswer:
    """Ask the scheduler for its state until it is so, and return it."""
    async with dial(address, role="cli", codec=CODEC, patience=60) as peer:
        while True:
            await peer.channel.send([(Ask("state"), None)])
            [(_, payload)] = await peer.channel.receive()
            if true(state := unpack(payload, StateAnswer)):
                return state
            await trio.sleep(0.05)


async def until_running(address: str, count: int) -> None:
    """Wait until the scheduler knows of so many runs."""
    await until(address, lambda state: state.tasks.running >= count)


async def test_tasks_run_on_a_worker_elsewhere(address: str) -> None:
    """Arguments and results travel through Gnaw, an agent and its runner."""
    with gnaw(address), worker(address), trio.fail_after(120):
        async with mission(address) as executor:
            ids = [executor.submit(Cores(1), double, i) for i in range(20)]
            executor.close()
            values = {job: ended.unwrap() async for job, ended in executor.results}

    assert {job: 2 * i for i, job in enumerate(ids)} == values


async def greet_each(folder: str, after: str) -> list[tuple[str, str, str]]:
    """Run a program on each member that says its number; return name, address and word of each."""
    nodes = GVAR.res.nodes
    done = await run_on_members(
        lambda number: ["sh", "-c", f"touch {folder}/begun.{number}; {after}; echo {number}"]
    )
    return [
        (node.name, node.address, ended.stdout_text.strip())
        for node, ended in zip(nodes, done, strict=True)
    ]


async def test_a_task_on_two_workers_runs_a_program_on_each_and_frees_both_when_cancelled(
    address: str, tmp_path: Path
) -> None:
    workers = worker(address, 1, "a"), worker(address, 1, "b")
    with workers[0], workers[1], trio.fail_after(120), gnaw(address):
        async with mission(address) as executor:
            cancelled = executor.submit(2 * Cores(1), greet_each, str(tmp_path), "sleep 777")
            while len(list(tmp_path.glob("begun.*"))) < 2:
                await trio.sleep(0.05)
            executor.cancel(cancelled)
            last = executor.submit(2 * Cores(1), greet_each, str(tmp_path), ":")
            executor.close()
            ended = {job: outcome async for job, outcome in executor.results}

    with pytest.raises(TaskCancelled):
        ended[cancelled].unwrap()
    greeted = ended[last].unwrap()
    assert {"a", "b"} == {name for name, _, _ in greeted}
    assert ["0", "1"] == [word for _, _, word in greeted]
    assert all(address for _, address, _ in greeted)


async def seen(gate: str) -> tuple[Any, str]:
    """Return the allocation, and the GPUs that a program sees, once the file of a gate is there."""
    done = await run_external([sys.executable, "-c", VISIBLE])
    while not Path(gate).exists():
        await trio.sleep(0.02)
    return GVAR.res, done.stdout_text.strip()


VISIBLE = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"


async def test_a_real_worker_gives_parts_of_gpus_and_cores_that_are_near_them(
    address: str, tmp_path: Path
) -> None:
    """The topology travels from its command line through Gnaw; the parts survive another Gnaw."""
    offer = {
        "Cores": {"ids": 8, "groups": [["0,4", "1,5", "2,6", "3,7"], ["0-1,4-5", "2-3,6-7"]]},
        "GPUs": {"ids": 2, "near": ["0-1,4-5", "2-3,6-7"]},
    }
    gate = tmp_path / "gate"
    requests = [Cores(2) & GPUs(1), Cores(2) & GPUs(0.5), Cores(2) & GPUs(0.5)]
    words = ("grain.worker", "--url", address, "--res", json.dumps(offer))
    with running(*words), trio.fail_after(120):
        async with mission(address) as executor:
            with gnaw(address):
                ids = [executor.submit(request, seen, str(gate)) for request in requests]
                await until_running(address, 3)
            with gnaw(address):
                late = executor.submit(GPUs(0.25), seen, str(gate))
                executor.close()
                await until(address, lambda state: state.tasks.running == 3)
                gate.touch()
                values = {job: ended.unwrap() async for job, ended in executor.results}

    whole, first, second = (values[job] for job in ids)
    one, other = ({0, 1, 4, 5}, {2, 3, 6, 7})
    assert ([0], "0") == (whole[0].g, whole[1])
    assert [([1], "1")] * 2 == [(res.g, visible) for res, visible in (first, second)]
    assert set(whole[0].c) < one
    assert set(first[0].c) | set(second[0].c) == other
    assert values[late][0].g in ([0], [1])


async def test_runs_survive_that_gnaw_is_killed(address: str, tmp_path: Path) -> None:
    """Killed with SIGKILL amid runs: each goes on, none is started again, all resolve once."""
    path, go = str(tmp_path / "notes"), tmp_path / "go"
    got: list[Any] = []
    workers = worker(address, 4, "a"), worker(address, 4, "b")
    with workers[0], workers[1], trio.fail_after(120), gnaw(address) as first:
        async with mission(address, "one") as executor:
            for _ in range(12):
                call = Call(note_and_wait, (path, str(go)), {})
                executor.submit_call(Cores(1), call, got.append)
            while begun(path) < 8:
                await trio.sleep(0.05)
            first.kill()
            with gnaw(address):
                await until_running(address, 8)
                go.touch()
                await executor.join()

    assert 12 == len(got)
    assert all(isinstance(ended, outcome.Value) for ended in got)
    assert 12 == begun(path)


async def test_large_arguments_and_results_outlive_gnaw(address: str, tmp_path: Path) -> None:
    """They are sent without being copied; and again to the next one, after the first was killed."""
    path, go = str(tmp_path / "notes"), tmp_path / "go"
    data = os.urandom(1000) * 10_000
    got: list[Any] = []
    with worker(address), trio.fail_after(120), gnaw(address) as first:
        async with mission(address) as executor:
            for given in (data, bytearray(data), data[::-1]):
                call = Call(reversed_when, (given, path, str(go)), {})
                executor.submit_call(Cores(1), call, got.append)
            while begun(path) < 2:
                await trio.sleep(0.05)
            first.kill()
            with gnaw(address):
                await until_running(address, 2)
                go.touch()
                await executor.join()

    assert 3 == begun(path)
    values = sorted(bytes(ended.unwrap()) for ended in got)
    assert sorted([data[::-1], data[::-1], data]) == values


async def test_hundreds_of_tasks_of_two_missions_outlive_gnaw(address: str, tmp_path: Path) -> None:
    """Three workers; Gnaw is killed in the middle: each task resolves once, and ran once."""
    got: dict[int, list[Any]] = {1: [], 2: []}
    paths = {number: str(tmp_path / f"notes{number}") for number in got}

    async def half(number: int) -> None:
        async with mission(address, f"m{number}") as executor:
            call = Call(note, (paths[number], 0.2), {})
            for _ in range(150):
                executor.submit_call(Cores(1), call, got[number].append)

    a, b, c = (worker(address, 8, name) for name in "abc")
    with a, b, c, trio.fail_after(180), gnaw(address) as first:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(half, 1)
            nursery.start_soon(half, 2)
            while sum(map(begun, paths.values())) < 90:
                await trio.sleep(0.02)
            first.kill()
            with gnaw(address):
                while nursery.child_tasks:
                    await trio.sleep(0.05)

    assert [150, 150] == [len(ended) for ended in got.values()]
    assert all(isinstance(one, outcome.Value) for ended in got.values() for one in ended)
    assert [150, 150] == [begun(path) for path in paths.values()]


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
        killed = start(program)
        try:
            await until_running(address, 2)
        finally:
            killed.kill()
            killed.wait()
        await until(address, lambda state: not state.missions)
        await until(address, lambda state: not state.tasks.running)
        # The worker reports when nothing is left of a cancelled run.
        await until(address, lambda s: s.workers[0].free == s.workers[0].total)


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
        state = await until(address, lambda _: True)

    assert 5 == len(got)
    assert all(isinstance(ended.error, TaskCancelled) for ended in got)
    assert 0 == state.tasks.running


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
    idle = ("--idle-timeout", "12")

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


async def test_a_task_that_outlives_its_worker_is_reported_and_ends_on_a_longer_one(
    address: str, tmp_path: Path
) -> None:
    path, go = str(tmp_path / "notes"), tmp_path / "go"
    events: list[Event] = []
    connect = GnawConnector(address, start=False).connect
    words = ("grain.worker", "--url", address, "--drain", "0.5", "--name", "brief", "--res")
    life = 2
    with gnaw(address), ExitStack() as until_the_end, trio.fail_after(600):
        async with RemoteExecutor(
            address, name="m", connect=connect, on_event=events.append
        ) as executor:
            job = executor.submit(Cores(1), note_and_wait, path, str(go))
            while not any(isinstance(event, TaskOutlived) for event in events):
                life *= 2  # a slow machine takes its time until the task begins
                with running(*words, f'{{"Cores": 1, "WTime": {{"T": {life}}}}}') as one:
                    while one.poll() is None:
                        await trio.sleep(0.05)
            runs = begun(path)
            assert f"then {TIME_OVER}" in str(await executor.ask_why(job))
            until_the_end.enter_context(worker(address, 1, "endless"))
            while begun(path) == runs:
                await trio.sleep(0.05)
            go.touch()
            result = await executor.results.receive()

    assert isinstance(result.outcome, outcome.Value)
    [event] = [event for event in events if isinstance(event, TaskOutlived)]
    assert (f"m:{job}", "note_and_wait", life) == (event.task, event.function, event.life)
