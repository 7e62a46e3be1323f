"""Processes of a pool: when they leave, how they die, and what is left of them (nothing)."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain import GVAR
from grain.resource import Memory
from grain.subproc import (
    BrokenSubprocessError,
    SubprocessMemoryError,
    subprocess_pool_scope,
    subprocify,
)
from grain.worker.errors import TaskletError
from grain_testkit.local_processes import alive, descendants, stop
from grain_testkit.pool_scope import process_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.testing import MockClock


@subprocify
def linger(path: str, *, stubborn: bool = False) -> None:
    """Start a program, write the pids of this process and of the program, and stay."""
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    Path(path + "~").write_text(f"{os.getpid()} {child.pid}")
    Path(path + "~").rename(path)
    time.sleep(600)


@asynccontextmanager
async def pool(patience: float = 300.0, **arguments: Any) -> AsyncGenerator[None]:
    """Open a scope for 300 s at most, and check that no process is left of it."""
    before = set(descendants())
    with trio.fail_after(patience):
        async with subprocess_pool_scope(**arguments):
            yield
    assert set(descendants()) <= before


async def pids_in(path: Path) -> list[int]:
    """Return the pids that `linger` writes."""
    while not path.exists():
        await trio.sleep(0.02)
    return list(map(int, path.read_text().split()))


# ---- a process that dies


async def test_the_error_of_an_exit_has_code_and_stderr() -> None:
    """The next call gets another process."""

    @subprocify
    def leave() -> None:
        print("something bad happened", file=sys.stderr, flush=True)
        os._exit(7)

    @subprocify
    def say() -> None:
        print("earlier", file=sys.stderr)

    async with pool():
        pid = await process_id()
        with pytest.raises(BrokenSubprocessError, match="exited with code 7") as caught:
            await leave()
        assert pid != await process_id()
        # The tail of stderr is that of the call alone.
        await say()
        with pytest.raises(BrokenSubprocessError) as silent:
            await subprocify(os._exit)(1)
    assert "" == silent.value.stderr_tail
    error = caught.value
    assert isinstance(error, TaskletError)
    assert (7, None) == (error.returncode, error.signal)
    assert "leave" in error.function
    assert "something bad happened" == error.stderr_tail
    assert "something bad happened" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(error), 7) == (str(again), again.returncode)


async def test_the_error_of_a_segmentation_fault_has_signal_and_stack() -> None:
    @subprocify
    def crash() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    async with pool():
        with pytest.raises(BrokenSubprocessError, match="ended by SIGSEGV") as caught:
            await crash()
        assert isinstance(await process_id(), int)
    assert "SIGSEGV" == caught.value.signal
    assert -signal.SIGSEGV == caught.value.returncode
    assert "in crash" in caught.value.stderr_tail


@pytest.mark.parametrize(("amount", "kind"), [(1e-3, True), (1000.0, False)])
async def test_a_process_that_is_killed_near_its_memory_says_so(amount: float, kind: bool) -> None:
    """The same signal says nothing if it had much less."""

    @subprocify
    def killed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async with pool():
        with GVAR.scope(Memory(amount)), pytest.raises(BrokenSubprocessError) as caught:
            await killed()
    assert kind is isinstance(caught.value, SubprocessMemoryError)
    assert kind is isinstance(caught.value, MemoryError)
    assert kind is ("it ended by SIGKILL when it had" in str(caught.value))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(caught.value), str(caught.value)) == (type(again), str(again))


async def test_a_process_killed_while_idle_is_replaced() -> None:
    """Calls succeed, even one that was sent to a process that is about to end."""
    async with pool():
        for number in (signal.SIGKILL, signal.SIGTERM):
            pid = await process_id()
            os.kill(pid, number)
            assert pid != await process_id()
        # One that is stopped dies with the call in its socket.
        pid = await process_id()
        stop(pid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process_id)
            await trio.testing.wait_all_tasks_blocked()
            os.kill(pid, signal.SIGKILL)


async def test_the_death_of_a_process_fails_one_call_only(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    async with pool(grace=0.1), trio.open_nursery() as nursery:
        nursery.start_soon(linger, str(path))
        pid, _ = await pids_in(path)
        with pytest.raises(BrokenSubprocessError):
            await subprocify(os.abort)()
        assert alive(pid)
        nursery.cancel_scope.cancel()


# ---- a call that is cancelled


async def test_a_cancelled_call_ends_its_process_and_children(tmp_path: Path) -> None:
    """They are gone before the call returns, also if they ignore SIGTERM."""
    async with pool(grace=0.2):
        for stubborn in (False, True):
            path = tmp_path / f"pids-{stubborn}"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(linger, str(path), stubborn=stubborn))
                pids = await pids_in(path)
                assert [True, True] == list(map(alive, pids))
                nursery.cancel_scope.cancel()
            assert [False, False] == list(map(alive, pids))
            assert pids[0] != await process_id()


async def test_a_time_limit_ends_the_process(tmp_path: Path) -> None:
    """The limit's own error comes out."""
    path = tmp_path / "pids"

    async def expire(scope: trio.CancelScope) -> None:
        await pids_in(path)
        scope.deadline = trio.current_time()

    async with pool(grace=0.2), trio.open_nursery() as nursery:
        pid = await process_id()
        with pytest.raises(trio.TooSlowError), trio.fail_after(1000) as scope:
            nursery.start_soon(expire, scope)
            await linger(str(path))
        assert not alive(pid)


async def test_a_call_cancelled_before_it_begins_loses_no_process() -> None:
    """The process may be idle, or about to be started."""
    async with pool():
        for _ in range(2):
            with trio.move_on_after(0):
                await process_id()
            await process_id()


# ---- the scope


async def test_processes_leave_after_the_idle_timeout(mock_clock: MockClock) -> None:
    """A process that serves a call in time stays."""
    async with pool(1000.0, idle_timeout=60.0):
        pid = await process_id()
        mock_clock.jump(50)
        await trio.testing.wait_all_tasks_blocked()
        assert pid == await process_id()
        mock_clock.jump(50)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert alive(pid)
        mock_clock.jump(10)
        while alive(pid):
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert pid != await process_id()


async def test_an_idle_process_runs_its_exit_handlers(tmp_path: Path) -> None:
    path = tmp_path / "left"

    @subprocify
    def register() -> None:
        import atexit

        atexit.register(path.write_text, "yes")

    async with pool(grace=30.0):
        await register()
    assert "yes" == path.read_text()


async def test_leaving_the_scope_ends_calls_from_elsewhere(tmp_path: Path) -> None:
    """Calls that run and calls that wait raise an error with the reason."""
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
            pids = await pids_in(path)
        assert [False, False] == list(map(alive, pids))
    assert 3 == len(errors)


async def test_a_cancelled_scope_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    with trio.CancelScope() as scope:
        async with pool(grace=0.2), trio.open_nursery() as nursery:
            nursery.start_soon(linger, str(path))
            pids = await pids_in(path)
            scope.cancel()
    assert scope.cancelled_caught
    assert [False, False] == list(map(alive, pids))


async def test_a_cancelled_block_keeps_its_error() -> None:
    """An error that is raised during a cancellation is not lost."""
    with pytest.raises(ZeroDivisionError), trio.CancelScope() as scope:
        async with subprocess_pool_scope():
            await process_id()
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
def test_processes_end_with_their_owner_however_that_dies(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C comes out as KeyboardInterrupt, in no group."""
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
        _, output = owner.communicate(timeout=120)
    finally:
        owner.kill()
    until = time.monotonic() + 120
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)

    assert [False, False] == list(map(alive, pids))
    assert -number == owner.returncode
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" == output.split()[-1]
        assert "Group" not in output


@pytest.mark.parametrize("checkpoints", range(6))
async def test_a_pool_that_is_cancelled_while_it_opens_ends(checkpoints: int) -> None:
    """However far it has come."""

    async def enter() -> None:
        async with subprocess_pool_scope():
            await trio.sleep_forever()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter)
            for _ in range(checkpoints):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
