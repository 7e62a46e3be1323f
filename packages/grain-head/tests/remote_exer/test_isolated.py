"""A local worker with a process of its own."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.head import TaskCancelled
from grain.head.errors import TaskCrashed
from grain.head.events import TaskBlocks, WorkerCleaning, WorkerJoined, WorkerLeft
from grain.remote_exer import HostingExecutor
from grain.resource import Cores, Infeasible, Resource, WTime
from grain.worker.errors import RunnerUnusable
from grain.worker.external import run_external

if TYPE_CHECKING:
    from pathlib import Path

    from grain.head.events import Event


def isolated(local: Resource, **options: Any) -> HostingExecutor:
    return HostingExecutor(local, address=None, isolated=True, name="m", **options)


async def process() -> tuple[int, str]:
    return os.getpid(), GVAR.instance


async def crash() -> None:
    ctypes.string_at(0)


async def start_and_wait(path: str) -> None:
    """Leave the pid of a program, and wait for the program."""
    await run_external(
        ["sh", "-c", f"echo $$ > '{path}.new'; mv '{path}.new' '{path}'; exec sleep 1000"]
    )


async def variable(name: str) -> str:
    return (await run_external(["sh", "-c", f"echo ${name}"])).stdout_text.strip()


async def wait_for(path: Path) -> int:
    with trio.fail_after(120):
        while not path.exists():
            await trio.sleep(0.01)
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def result_of(executor: HostingExecutor, job: int) -> Any:
    async for number, ended in executor.results:
        if number == job:
            return ended.unwrap()
    raise AssertionError("the job has no result")


async def test_leaves_run_in_a_process_that_ends_with_the_mission() -> None:
    events: list[Event] = []
    async with isolated(Cores(1), on_event=events.append) as executor:
        pid, instance = await result_of(executor, executor.submit(Cores(1), process))

        assert pid != os.getpid()
        assert is_alive(pid)
    assert "m(local)" == instance
    assert not is_alive(pid)
    assert [WorkerJoined, WorkerCleaning, WorkerLeft] == [
        type(event) for event in events if "Worker" in type(event).__name__
    ]


async def test_a_run_gets_no_more_time_than_is_left_of_the_workers() -> None:
    async with isolated(Cores(1) & WTime(T=0.1)) as executor:
        with pytest.raises(trio.TooSlowError, match="exceeded its hard time limit of 0"):
            await result_of(executor, executor.submit(Cores(1), trio.sleep, 1000.0))


async def test_a_process_that_is_killed_is_replaced_and_a_crash_is_the_error_of_its_task() -> None:
    """And the mission goes on."""
    async with isolated(Cores(1)) as executor:
        first, _ = await result_of(executor, executor.submit(Cores(1), process))
        os.kill(first, signal.SIGKILL)
        second, _ = await result_of(executor, executor.submit(Cores(1), process))
        assert first != second
        with pytest.raises(TaskCrashed) as caught:
            await result_of(executor, executor.submit(Cores(1), crash))
        pid, _ = await result_of(executor, executor.submit(Cores(1), process))

    assert all("SIGSEGV" in one.how for one in caught.value.crashes)
    assert pid != os.getpid()


async def test_a_request_that_its_worker_can_never_meet_is_refused_at_once() -> None:
    async with isolated(Cores(1)) as executor:
        with pytest.raises(Infeasible, match=r"asks for Cores\(2\) can never run here .* no other"):
            executor.submit(Cores(2), process)


async def test_a_cancelled_leaf_leaves_no_program_behind(tmp_path: Path) -> None:
    async with isolated(Cores(1)) as executor:
        job = executor.submit(Cores(1), start_and_wait, str(tmp_path / "pid"))
        pid = await wait_for(tmp_path / "pid")
        executor.cancel(job)
        with pytest.raises(TaskCancelled):
            await result_of(executor, job)
        assert not is_alive(pid)


async def test_a_mission_that_is_left_by_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    class Stop(Exception):
        """Ends the mission."""

    with pytest.raises(Stop):
        async with isolated(Cores(1)) as executor:
            executor.submit(Cores(1), start_and_wait, str(tmp_path / "pid"))
            pid = await wait_for(tmp_path / "pid")
            raise Stop
    assert not is_alive(pid)


async def test_a_mission_that_is_cancelled_while_the_process_starts_ends_soon() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with isolated(Cores(1)):
            raise AssertionError("it began")


async def test_the_context_and_the_mission_s_variables_surround_the_leaves_in_their_process(
    tmp_path: Path,
) -> None:
    module = tmp_path / "surrounding.py"
    module.write_text(
        "import os\nfrom contextlib import asynccontextmanager\n"
        "@asynccontextmanager\nasync def grain_context():\n"
        "    os.environ['OF_CONTEXT'] = str(os.getpid())\n    yield\n"
    )
    options: dict[str, Any] = {"context": str(module), "env": {"OF_MISSION": "m"}}
    async with isolated(Cores(1), **options) as executor:
        pid, _ = await result_of(executor, executor.submit(Cores(1), process))
        seen = await result_of(executor, executor.submit(Cores(1), variable, "OF_CONTEXT"))
        job = executor.submit(Cores(1), variable, "OF_MISSION")
        assert "m" == await result_of(executor, job)

    assert str(pid) == seen
    assert "OF_CONTEXT" not in os.environ


async def test_the_process_ignores_the_signals_of_its_end_once_it_ends_by_itself(
    tmp_path: Path,
) -> None:
    """A handler that wakes trio, while trio closes, would print that it cannot."""
    module = tmp_path / "leaving.py"
    module.write_text(
        "import atexit, signal\nfrom contextlib import asynccontextmanager\n"
        "from pathlib import Path\n"
        "def note():\n"
        "    numbers = signal.SIGTERM, signal.SIGINT, signal.SIGHUP\n"
        "    ignored = all(signal.getsignal(n) is signal.SIG_IGN for n in numbers)\n"
        f"    Path({str(tmp_path / 'noted')!r}).write_text(str(ignored))\n"
        "@asynccontextmanager\nasync def grain_context():\n"
        "    atexit.register(note)\n    yield\n"
    )
    async with isolated(Cores(1), context=str(module)) as executor:
        await result_of(executor, executor.submit(Cores(1), process))

    assert "True" == (tmp_path / "noted").read_text()


async def test_a_module_that_the_mission_finds_beside_its_script_is_found_in_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "beside_the_script"
    (tmp_path / f"{name}.py").write_text("async def answer():\n    return 42\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), tmp_path, *sys.path, ""])
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    async with isolated(Cores(1)) as executor:
        assert 42 == await result_of(executor, executor.submit(Cores(1), module.answer))
    del sys.modules[name]


async def test_a_context_that_fails_is_the_error_of_the_mission() -> None:
    with pytest.raises(RunnerUnusable, match="context module /nowhere.py is not a file"):
        async with isolated(Cores(1), context="/nowhere.py"):
            raise AssertionError("it began")


async def naps(path: str) -> None:
    open(path).close()  # noqa: ASYNC230, PTH123 - a pipe, which blocks until it is written to


async def test_code_that_blocks_is_reported_to_the_mission_and_its_stack_is_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The process of the leaves writes to the mission's standard error."""
    events: list[Event] = []
    os.mkfifo(tmp_path / "pipe")
    async with isolated(Cores(1), on_event=events.append) as executor:
        job = executor.submit(Cores(1), naps, str(tmp_path / "pipe"))
        with trio.fail_after(120):
            while not any(isinstance(event, TaskBlocks) for event in events):
                await trio.sleep(0.01)
        os.close(os.open(tmp_path / "pipe", os.O_RDWR))  # which waits for nobody
        await result_of(executor, job)

    [blocks] = [event for event in events if isinstance(event, TaskBlocks)]
    assert ("m(local)", "naps") == (blocks.worker, blocks.code.function)
    assert blocks.code.line.startswith("open(path).close()")
    assert "" == capfd.readouterr().err
