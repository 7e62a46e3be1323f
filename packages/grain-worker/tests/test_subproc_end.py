"""Processes of a pool: when they leave, how they die, and what is left of them (nothing)."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain.subproc import BrokenSubprocessError, subprocess_pool_scope, subprocify
from grain.worker.errors import TaskletError
from grain_testkit.local_processes import alive, descendants

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.testing import MockClock


@subprocify
def where() -> int:
    return os.getpid()


@subprocify
def linger(path: str, *, stubborn: bool = False) -> None:
    """Start a program, tell its pid and the own one, and stay."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    Path(path + "~").write_text(f"{os.getpid()} {child.pid}")
    Path(path + "~").rename(path)
    time.sleep(600)


@asynccontextmanager
async def pool(patience: float = 300.0, **arguments: Any) -> AsyncGenerator[None]:
    """A scope; no test waits for ever, and nothing is left of it."""
    before = set(descendants())
    with trio.fail_after(patience):
        async with subprocess_pool_scope(**arguments):
            yield
    assert set(descendants()) <= before


async def told(path: Path) -> list[int]:
    """The pids that `linger` tells."""
    while not path.exists():
        await trio.sleep(0.02)
    return list(map(int, path.read_text().split()))


# ---- a process that dies


async def test_exit_code() -> None:
    """The error has the code and what was said last; the next call gets another process."""

    @subprocify
    def leave() -> None:
        print("something bad happened", file=sys.stderr, flush=True)
        os._exit(7)

    async with pool():
        pid = await where()
        with pytest.raises(BrokenSubprocessError, match="exited with code 7") as caught:
            await leave()
        assert pid != await where()
    error = caught.value
    assert isinstance(error, TaskletError)
    assert (7, None) == (error.returncode, error.signal)
    assert "leave" in error.function
    assert "something bad happened" == error.stderr_tail
    assert "something bad happened" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(error), 7) == (str(again), again.returncode)


async def test_segmentation_fault() -> None:
    """The signal is named; the stack of Python is among the last lines of stderr."""

    @subprocify
    def crash() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    async with pool():
        with pytest.raises(BrokenSubprocessError, match="ended by SIGSEGV") as caught:
            await crash()
        assert isinstance(await where(), int)
    assert "SIGSEGV" == caught.value.signal
    assert -signal.SIGSEGV == caught.value.returncode
    assert "in crash" in caught.value.stderr_tail


async def test_the_tail_is_of_this_call() -> None:
    """What an earlier call said is none of it."""

    @subprocify
    def say() -> None:
        print("earlier", file=sys.stderr)

    async with pool():
        await say()
        with pytest.raises(BrokenSubprocessError) as caught:
            await subprocify(os._exit)(1)
    assert "" == caught.value.stderr_tail


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_killed_while_idle(number: signal.Signals) -> None:
    """No call notices, even if it is sent to a process that is about to end."""
    async with pool():
        pid = await where()
        os.kill(pid, number)
        assert pid != await where()
        # One that is stopped dies with the call in its socket.
        pid = await where()
        os.kill(pid, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(where)
            await trio.testing.wait_all_tasks_blocked()
            os.kill(pid, signal.SIGKILL)


async def test_a_death_concerns_one_call(tmp_path: Path) -> None:
    """Another process of the pool goes on."""
    path = tmp_path / "pids"
    async with pool(grace=0.1), trio.open_nursery() as nursery:
        nursery.start_soon(linger, str(path))
        pid, _ = await told(path)
        with pytest.raises(BrokenSubprocessError):
            await subprocify(os.abort)()
        assert alive(pid)
        nursery.cancel_scope.cancel()


# ---- a call that is cancelled


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_cancelled_call_ends_its_process(tmp_path: Path, *, stubborn: bool) -> None:
    """And what that started, before the call is over, also if it ignores SIGTERM."""
    path = tmp_path / "pids"
    async with pool(grace=0.2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: linger(str(path), stubborn=stubborn))
            pids = await told(path)
            assert [True, True] == list(map(alive, pids))
            nursery.cancel_scope.cancel()
        assert [False, False] == list(map(alive, pids))
        assert pids[0] != await where()


async def test_time_limit(tmp_path: Path) -> None:
    """The error of the limit comes out, and the process is gone."""
    path = tmp_path / "pids"

    async def expire(scope: trio.CancelScope) -> None:
        await told(path)
        scope.deadline = trio.current_time()

    async with pool(grace=0.2), trio.open_nursery() as nursery:
        pid = await where()
        with pytest.raises(trio.TooSlowError), trio.fail_after(1000) as scope:
            nursery.start_soon(expire, scope)
            await linger(str(path))
        assert not alive(pid)


async def test_cancelled_before_it_began() -> None:
    """No process is lost, whether it was there or was to be started."""
    async with pool():
        for _ in range(2):
            with trio.move_on_after(0):
                await where()
            await where()


# ---- the scope


async def test_idle_processes_leave(mock_clock: MockClock) -> None:
    """After the time given, not before; one that is used stays."""
    async with pool(1000.0, idle_timeout=60.0):
        pid = await where()
        mock_clock.jump(50)
        await trio.testing.wait_all_tasks_blocked()
        assert pid == await where()
        mock_clock.jump(50)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert alive(pid)
        mock_clock.jump(10)
        while alive(pid):
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert pid != await where()


async def test_an_idle_process_leaves_properly(tmp_path: Path) -> None:
    """Its exit handlers run."""
    path = tmp_path / "left"

    @subprocify
    def register() -> None:
        import atexit

        atexit.register(path.write_text, "yes")

    async with pool(grace=30.0):
        await register()
    assert "yes" == path.read_text()


async def test_leaving_the_scope_ends_calls_from_elsewhere(tmp_path: Path) -> None:
    """Those that run and those that wait; they are told why."""
    path = tmp_path / "pids"
    errors: list[BrokenSubprocessError] = []

    async def call() -> None:
        with pytest.raises(BrokenSubprocessError, match="subprocess_pool_scope.* was left") as got:
            await linger(str(path))
        errors.append(got.value)

    async with trio.open_nursery() as nursery:
        async with pool(grace=0.2, limit=1):
            for _ in range(3):
                nursery.start_soon(call)
            pids = await told(path)
        assert [False, False] == list(map(alive, pids))
    assert 3 == len(errors)


async def test_a_cancelled_scope_leaves_nothing(tmp_path: Path) -> None:
    """The call within ends, too."""
    path = tmp_path / "pids"
    with trio.CancelScope() as scope:
        async with pool(grace=0.2), trio.open_nursery() as nursery:
            nursery.start_soon(linger, str(path))
            pids = await told(path)
            scope.cancel()
    assert scope.cancelled_caught
    assert [False, False] == list(map(alive, pids))


async def test_a_cancelled_block_keeps_its_error() -> None:
    """An error that is raised amid a cancellation is not lost to it."""
    with pytest.raises(ZeroDivisionError), trio.CancelScope() as scope:
        async with subprocess_pool_scope():
            await where()
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError


# ---- the program around it

PROGRAM = """
import signal, sys, time, trio, subprocess, os
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
from grain.subproc import subprocess_pool_scope, subprocify

@subprocify
def linger():
    child = subprocess.Popen(["sleep", "600"])
    print(os.getpid(), child.pid, flush=True)
    time.sleep(600)

async def main():
    async with subprocess_pool_scope(grace=1.0):
        await linger()

trio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_processes_end_with_their_owner(tmp_path: Path, number: signal.Signals) -> None:
    """However that ends; Ctrl-C comes out as such."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    owner = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pids = list(map(int, owner.stdout.readline().split()))
    assert [True, True] == list(map(alive, pids))
    owner.send_signal(number)
    try:
        _, said = owner.communicate(timeout=120)
    finally:
        owner.kill()
    until = time.monotonic() + 120
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)

    assert [False, False] == list(map(alive, pids))
    assert -number == owner.returncode
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" == said.split()[-1]
        assert "Group" not in said
