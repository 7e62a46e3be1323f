"""The report of code that blocks an event loop: which line, for how long, what to write instead."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio

from grain.edge.channel import memory_channels
from grain.resource import ZERO
from grain.worker import Call, LoopWatchdog, MemoryTranslation, Runner, look_at
from grain.worker.messages import StartRun
from grain.worker.runner.main import BlockingReporter
from grain.worker.runner.watchdog import BlockedTime, _instead, was_stopped
from grain.worker.runner.wire import LARGEST_REPORT, BlockingReport
from grain_testkit.local_processes import stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

    from grain.edge.channel import MemoryChannel
    from grain.worker.messages import BlockingCode


class Reports:
    """The reports of a watchdog, and an event that is set once there is one."""

    def __init__(self) -> None:
        self.codes: list[BlockingCode] = []
        self.came = threading.Event()

    def __call__(self, code: BlockingCode, frames: tuple[FrameType, ...]) -> None:
        assert frames or code.over
        self.codes.append(code)
        self.came.set()


def wait(came: threading.Event) -> bool:
    return came.wait(120)


async def relax(came: threading.Event, waits: Callable[[threading.Event], bool] = wait) -> None:
    assert waits(came)


async def in_a_task(fn: Callable[..., Awaitable[None]], *args: object) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fn, *args)


async def test_the_function_and_the_innermost_line_that_block_are_reported() -> None:
    reports = Reports()
    with LoopWatchdog(reports, 0.2, 0.05):
        await in_a_task(relax, reports.came)

    (code,) = reports.codes
    line = wait.__code__.co_firstlineno + 1
    path = os.path.relpath(__file__)
    assert ("relax", "return came.wait(120)") == (code.function, code.line)
    assert code.where in (f"{path}:{line}", f"{__file__}:{line}")
    assert 0.2 <= code.seconds < 100
    assert "in_thread" in code.instead
    assert not code.over


async def test_a_function_is_reported_once_in_a_while() -> None:
    reports = Reports()
    with LoopWatchdog(reports, 0.1, 0.02):
        for _ in range(5):
            await relax(reports.came)
            threading.Event().wait(0.2)
            await trio.lowlevel.checkpoint()

    assert 1 == len(reports.codes)


async def test_many_short_stalls_are_reported_as_one_long_one_is() -> None:
    reports = Reports()

    async def brief() -> None:
        reports.came.wait(0.3)

    with trio.fail_after(120), LoopWatchdog(reports, 0.5, 0.05):
        while not reports.came.is_set():
            await in_a_task(brief)

    assert reports.codes[0].function.endswith("brief")


async def test_a_loop_that_waits_or_takes_turns_is_not_reported() -> None:
    """And leaving ends the thread."""
    reports = Reports()
    before = set(threading.enumerate())  # some of which may end meanwhile
    with LoopWatchdog(reports, 60.0, 0.001):
        for _ in range(20):
            await trio.sleep(0.005)
            hashlib.sha256(b"x" * 100_000).hexdigest()
        (thread,) = set(threading.enumerate()) - before

    assert [] == reports.codes
    assert not thread.is_alive()


async def test_code_that_runs_below_no_coroutine_is_nobodys() -> None:
    """As that of another thread."""
    looks: list[Any] = []
    thread = threading.Thread(target=lambda: looks.append(look_at(threading.get_ident())))
    thread.start()
    thread.join()

    assert [None] == looks


def test_a_stack_that_changes_while_it_is_looked_at_is_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython before 3.11.5 returns anything as the caller of a frame that its thread has left."""
    left = SimpleNamespace(f_globals={"__name__": "opt"}, f_back={"not": "a frame"})
    monkeypatch.setattr(sys, "_current_frames", lambda: {1: left})

    assert look_at(1) is None


async def test_a_package_that_grain_imports_is_nobodys() -> None:
    """On a busy machine an import takes seconds, and no code of the user has begun."""
    looks: list[Any] = []
    look = "looks.append(look_at(get_ident()))"
    package = {
        "__name__": "slow", "looks": looks, "look_at": look_at, "get_ident": threading.get_ident
    }  # fmt: skip
    exec(compile(f"def function(): {look}", "/lib/site-packages/slow.py", "exec"), package)
    module = compile(look, "/lib/site-packages/slow.py", "exec")
    grain: dict[str, Any] = {"__name__": "grain.x", "run": exec, "module": module, "slow": package}
    exec("async def imports(): run(module, slow)\nasync def calls(): slow['function']()", grain)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grain["imports"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(grain["calls"])

    assert looks[0] is None
    assert "function" == looks[1].function


async def test_the_look_names_the_user_function_and_skips_the_library() -> None:
    """`subprocess.run` waits with selectors, as the loop of asyncio does."""
    looks: list[Any] = []

    def peek() -> None:
        while not looks or "subprocess.run" not in looks[-1].line:
            look = look_at(loop)
            if look is not None:
                looks.append(look)

    loop = threading.get_ident()
    thread = threading.Thread(target=peek)
    thread.start()
    while thread.is_alive():
        subprocess.run([sys.executable, "-c", ""], check=True, capture_output=True)  # noqa: ASYNC221
    thread.join()

    look = looks[-1]
    assert "test_the_look_names_the_user_function_and_skips_the_library" == look.function
    assert look.line.startswith("subprocess.run(")
    assert (
        "run the program with `await run_external([...])` (grain.worker.external)" == look.instead
    )


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("time.sleep(3)", "await trio.sleep(...)"),
        ("sleep(3)", "await trio.sleep(...)"),
        ("os.system('xtb a.xyz')", "run_external"),
        ("out = subprocess.check_output(words)", "run_external"),
        ("requests.get(url)", "in_thread"),
        ("energy = np.linalg.eigh(matrix)", "subprocify"),
    ],
)
def test_the_advice_fits_the_line(line: str, word: str) -> None:
    assert word in _instead(line, [], own=False)


def test_a_loop_that_submits_tasks_has_more_patience_and_advice_of_its_own() -> None:
    account = BlockedTime(1.5)

    assert 0.0 == account.charge("main", 9.0, 10.0, own=True)
    assert 0.0 < account.charge("main", 1.5, 11.5, own=True)
    assert "QueueLimiter" in _instead("ts = [f(i) for i in range(10**6)]", [], own=True)


def test_the_account_adds_up_forgets_and_repeats_itself_after_a_minute() -> None:
    account = BlockedTime(1.5)

    assert 0.0 == account.charge("f", 1.0, 0.0)
    assert 0.0 == account.charge("f", 0.5, 300.0), "the first second is forgotten"
    assert 0.0 == account.charge("g", 1.4, 300.0), "each function has its own account"
    assert 1.5 < account.charge("f", 1.2, 301.0) < 1.7
    assert 0.0 == account.charge("f", 5.0, 310.0)
    assert 5.0 <= account.charge("f", 5.0, 362.0)


@pytest.mark.parametrize("own_nursery", [False, True], ids=["directly", "in a nursery of its own"])
async def test_the_report_names_the_run_whose_code_blocks(*, own_nursery: bool) -> None:
    reports, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    got: list[BlockingReport] = []

    async def blocks() -> None:
        got.append(msgspec.msgpack.decode(reports.recv(LARGEST_REPORT), type=BlockingReport))

    async def leaf() -> None:
        await (in_a_task(blocks) if own_nursery else blocks())

    head: MemoryChannel[Any, Any]
    theirs: MemoryChannel[Any, Any]
    head, theirs = memory_channels()
    reports.settimeout(120)
    with reports, ours, LoopWatchdog(BlockingReporter(ours, log=False), 0.2, 0.05):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Runner("w", theirs, MemoryTranslation()).serve)
            await head.send(
                [(StartRun((1, n), ZERO), Call(trio.sleep_forever, (), {})) for n in (1, 2)]
            )
            await head.send([(StartRun((1, 3), ZERO), Call(leaf, (), {}))])
            await head.receive()
            nursery.cancel_scope.cancel()
        await blocks()

    assert [(1, 3), None] == [report.attempt for report in got]
    assert "blocks" in got[0].code.function or "leaf" in got[0].code.function


STOPPED = """
import threading, time, sys, trio
from grain.worker import LoopWatchdog

reports = []
async def computes(seconds):
    end = time.process_time() + seconds  # which does not pass while it is stopped
    while time.process_time() < end:
        deep(50)

def deep(n):
    return deep(n - 1) if n else [str(i) for i in range(50)]

async def main():
    began = time.monotonic()
    with LoopWatchdog(lambda code, frames: reports.append(code), 0.02, 0.01):
        print("ready", flush=True)
        await computes(0.3)
    return time.monotonic() - began  # the two seconds for which it is stopped are in this

took = trio.run(main)
assert reports[0].function == "main", reports
assert all(code.seconds < took - 1 for code in reports), (took, reports)
print("reported")
"""


def test_a_process_survives_that_it_is_looked_at_while_it_runs() -> None:
    """Also after it was stopped; the time for which it was stopped is not charged."""
    busy = subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert busy.stdout is not None
    assert busy.stdout.readline() == "ready\n"
    stop(busy.pid)
    time.sleep(2)
    os.kill(busy.pid, signal.SIGCONT)
    output, errors = busy.communicate(timeout=60)

    assert "" == errors
    assert (0, "reported\n") == (busy.returncode, output)


@pytest.mark.parametrize(
    ("late", "used", "stopped"),
    [(0.5, 0.0, False), (30.0, 0.01, True), (30.0, 29.0, False), (30.0, 10.0, False)],
)
def test_a_thread_that_wakes_late_was_stopped_or_waited_for_the_lock(
    late: float, used: float, stopped: bool
) -> None:
    """By the time that the process computed; a busy machine gives it a part of a processor."""
    assert stopped == was_stopped(late, used)
