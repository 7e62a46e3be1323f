"""Calls of an `Executor` that are cancelled, and the end of the executor itself."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain_testkit.quiet_executor import executor

if TYPE_CHECKING:
    from pathlib import Path


def test_a_cancelled_call_that_waits_never_runs_and_one_that_runs_goes_on() -> None:
    begun, go = threading.Event(), threading.Event()
    ran: list[int] = []

    def hold() -> str:
        begun.set()
        go.wait()
        return "held"

    with executor(local=1) as pool:
        first = pool.submit(hold)
        second, third = pool.submit(ran.append, 2), pool.submit(ran.append, 3)
        assert begun.wait(120)
        assert second.cancel()
        assert not first.cancel()
        waited: list[futures.Future[Any]] = [first, second]
        assert {second} == futures.wait(waited, return_when="FIRST_COMPLETED").done
        go.set()
        assert "held" == first.result()
        third.result()
    assert [3] == ran


def test_a_call_cancelled_at_once_is_cancelled_or_has_a_result() -> None:
    """Begun by then or not, the call ends, and its future says how."""
    with executor(local=1) as pool:
        submitted: list[futures.Future[int]] = []
        for _ in range(200):
            submitted.append(future := pool.submit(int))
            if not future.cancel():
                assert 0 == future.result()
        assert set() == futures.wait(submitted, timeout=120).not_done
        assert 0 == pool.submit(int).result()


def test_shutdown_cancels_what_waits() -> None:
    begun, go = threading.Event(), threading.Event()

    def hold() -> str:
        begun.set()
        go.wait()
        return "held"

    pool = executor(local=1)
    first, *others = pool.submit(hold), pool.submit(int), pool.submit(int)
    assert begun.wait(120)
    pool.shutdown(wait=False, cancel_futures=True)
    assert [True, True] == [f.cancelled() for f in others]
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        pool.submit(int)
    go.set()
    pool.shutdown()
    assert "held" == first.result(timeout=0)


def test_ctrl_c_in_the_block_cancels_running_and_waiting_calls() -> None:
    began = threading.Event()

    async def long() -> None:
        began.set()
        await trio.sleep(20)  # or for days: it is not waited for

    called: list[futures.Future[Any]] = []
    with pytest.raises(KeyboardInterrupt), executor(local=1) as pool:
        called += [pool.submit(long), pool.submit(long), pool.submit(int)]
        began.wait()
        raise KeyboardInterrupt

    for future in called:
        assert isinstance(future.exception(timeout=0), futures.BrokenExecutor)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)


def test_an_executor_without_references_ends() -> None:
    """Its calls are computed, and its thread ends."""
    pool = executor()
    results = pool.map(abs, range(-5, 5))
    thread = pool._engine._thread
    del pool
    gc.collect()
    thread.join(120)
    assert not thread.is_alive()
    assert [5, 4, 3, 2, 1, 0, 1, 2, 3, 4] == list(results)


PROGRAM = """
import atexit, sys, threading
from grain.delayed import Executor
from grain.resource import Cores

def later():
    try:
        pool.submit(int)
    except RuntimeError as error:
        print(error)

started, go = threading.Event(), threading.Event()

def work(x):
    started.set()
    go.wait()
    print(x, flush=True)

atexit.register(later)
pool = Executor(local=Cores(1), config_file=False, progress=False)
pool.submit(work, "apple")
pool.submit(work, "pear")
{end}
"""


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 3),
    reason="this Python starts no thread after the end of the main one (CPython's gh-113964)",
)
@pytest.mark.parametrize(
    ("end", "printed"),
    [
        ("go.set()", ["apple", "pear"]),
        ("pool.shutdown(wait=False); go.set()", ["apple", "pear"]),
        (
            "started.wait(); pool.shutdown(wait=False, cancel_futures=True); go.set()",
            ["apple"],
        ),
        ("go.set(); raise SystemExit(0)", ["apple", "pear"]),
    ],
)
def test_the_end_of_the_program(end: str, printed: list[str], tmp_path: Path) -> None:
    """It waits for what was submitted, as with the executors of Python, and then ends."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(end=end)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=True,
    )
    assert [*printed, "cannot schedule new futures after shutdown"] == done.stdout.splitlines()
    assert "Traceback" not in done.stderr
