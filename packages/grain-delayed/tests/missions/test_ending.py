"""The end of a mission from outside: SIGTERM and SIGHUP with real processes, and `grain cancel`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.delayed import MissionCancelled, delayed, mission
from grain.delayed.missions.ending import ended_from_outside
from grain.head import events
from grain.resource import Cores
from grain_testkit.local_processes import processes_with, wait_until_idle

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import asyncio, os, signal, sys, threading, time, trio
from grain.delayed import delayed, mission, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def external():
    # The program reports, a while after its start, that it has begun: a signal amid the lines that
    # start it may drop a coroutine, of which Python warns.
    begins = f"sleep 0.2; echo begins > /proc/{{os.getpid()}}/fd/1; exec sleep 1000.5"
    await run_external(["sh", "-c", begins], grace=1000)

@delayed
async def computes():
    print("begins", flush=True)
    while True:
        pass

async def main():
    await (external @ Cores(1))()

async def busy():
    await (computes @ Cores(1))()

async def opened(main=main):
    async with mission(Cores(2), config_file=False):
        await main()

try:
    {program}
finally:
    print("finally", flush=True)
"""
PROGRAMS = {
    "run": "run(main, Cores(2), config_file=False)",
    "several": "run([main, main], Cores(2), config_file=False)",
    "computing": "run(busy, Cores(2), config_file=False)",
    "trio": "trio.run(opened)",
    "nested": "trio.run(opened, opened)",
    "asyncio": "asyncio.run(opened())",
    "Ctrl-C ignored": (
        "signal.signal(signal.SIGINT, signal.SIG_IGN); run(main, Cores(2), config_file=False)"
    ),
}
STATUS = {signal.SIGTERM: 143, signal.SIGHUP: 129}
ENDS = [
    # Each program, and each signal, once; all pairs at night.
    pytest.param(
        program,
        number,
        marks=() if (row + column) % len(STATUS) == 0 else pytest.mark.nightly,
    )
    for row, program in enumerate(PROGRAMS)
    for column, number in enumerate(STATUS)
]


def processes_of(folder: Path) -> dict[int, str]:
    """The processes of the program and of its tasks, by their environment; and their names."""
    return processes_with(f"GRAIN_TESTED_IN={folder}")


def start(text: str, folder: Path) -> subprocess.Popen[str]:
    program = folder / "program.py"
    program.write_text(text)
    return subprocess.Popen(
        [sys.executable, "-W", "error", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GRAIN_TESTED_IN": str(folder)},
        text=True,
        start_new_session=True,
    )


def end(
    process: subprocess.Popen[str],
    number: signal.Signals,
    *,
    tasks: int = 1,
    computes: bool = False,
) -> tuple[str, str]:
    """Send a signal once so many tasks have begun; return what the program wrote after that."""
    assert process.stdout is not None
    try:
        assert ["begins\n"] * tasks == [process.stdout.readline() for _ in range(tasks)]
        if not computes:
            wait_until_idle(process.pid)
        process.send_signal(number)
        return process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("program", "number"), ENDS)
def test_a_signal_ends_a_mission_in_good_order(
    program: str, number: signal.Signals, tmp_path: Path
) -> None:
    """``finally`` runs, no process is left, and no traceback is shown."""
    process = start(HEAD.format(program=PROGRAMS[program]), tmp_path)
    tasks = 2 if program == "several" else 1
    out, err = end(process, number, tasks=tasks, computes=program == "computing")

    assert STATUS[number] == process.returncode, err
    assert out.endswith("finally\n")
    assert "Traceback" not in err
    assert f"{number.name} received: the mission ends." in err
    assert "\ninterrupted: 0 tasks ended, " in err
    assert {} == processes_of(tmp_path)


FORKS = """
import math, multiprocessing, signal, sys, time, trio
from grain.delayed import Executor, delayed, run
from grain.resource import Cores

def pools():
    # A pool ends its processes by SIGTERM, and waits for them without end. They wait for work.
    for _ in range(3):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(math.sqrt, range(4))

async def here():
    pools()

async def main():
    await (delayed(here) @ Cores(1))()
    pools()

run(main, Cores(2), config_file=False)
with Executor(Cores(1), Cores(2), config_file=False) as executor:
    executor.submit(here).result()
    pools()
print("done")
"""


def test_a_pool_of_multiprocessing_ends_in_a_mission_on_a_worker_and_beside_an_executor(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(FORKS)
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert (0, "done\n") == (done.returncode, done.stdout), done.stderr
    assert "Traceback" not in done.stderr
    assert "received" not in done.stderr


EXECUTOR = """
from grain.delayed import Executor

def call():
    print("begins", flush=True)
    return run_external(["sleep", "1000.5"], grace=1000)

async def calls():
    await call()

with Executor(Cores(1), Cores(2), config_file=False) as executor:
    future = executor.submit(calls)
    {wait}
"""
WAITS = {
    "result": "future.result()",
    "leaving": "pass",
}


@pytest.mark.parametrize(
    ("wait", "number"),
    [
        ("result", signal.SIGTERM),
        ("leaving", signal.SIGHUP),
        ("leaving", signal.SIGINT),
        *(
            pytest.param(*pair, marks=pytest.mark.nightly)
            for pair in (
                ("leaving", signal.SIGTERM),
                ("result", signal.SIGHUP),
                ("result", signal.SIGINT),
            )
        ),
    ],
)
def test_a_signal_ends_the_block_of_an_executor(
    wait: str, number: signal.Signals, tmp_path: Path
) -> None:
    program = EXECUTOR.format(wait=WAITS[wait])
    process = start(HEAD.format(program=indented(program)), tmp_path)
    out, err = end(process, number)

    assert STATUS.get(number, -number) == process.returncode, err
    assert out.endswith("finally\n")
    assert {} == processes_of(tmp_path)


@pytest.mark.parametrize("wait", WAITS)
def test_a_signal_that_does_not_end_the_wait_is_handled(wait: str, tmp_path: Path) -> None:
    """As one that arrives just before Python begins to wait for a lock."""
    # The kernel gives it to the thread of the executor, and the main thread waits on.
    blocked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])"
    program = EXECUTOR.format(wait=WAITS[wait]).replace(
        "future = executor", f"{blocked}\n    future = executor"
    )
    process = start(HEAD.format(program=indented(program)), tmp_path)
    out, err = end(process, signal.SIGTERM)

    assert STATUS[signal.SIGTERM] == process.returncode, err
    assert out.endswith("finally\n")
    assert {} == processes_of(tmp_path)


OWN = """
def mine(number, frame):
    print("mine", flush=True)
    os._exit(7)

signal.signal(signal.SIGTERM, mine)
run(main, Cores(2), config_file=False)
"""
IGNORED = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
async def main():
    print("begins", flush=True)
    await trio.to_thread.run_sync(sys.stdin.read)
run(main, Cores(2), config_file=False)
"""
THREAD = """
thread = threading.Thread(target=run, args=(main, Cores(2)), kwargs=dict(config_file=False))
thread.start()
thread.join()
"""
AFTER = """
async def nothing(): pass
run(nothing, Cores(2), config_file=False)
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
print("begins", flush=True)
time.sleep(1000)
"""


def indented(text: str) -> str:
    return text.strip().replace("\n", "\n    ")


@pytest.mark.parametrize(
    ("program", "number", "status"),
    [
        (OWN, signal.SIGTERM, 7),
        (IGNORED, signal.SIGHUP, 0),
        (THREAD, signal.SIGTERM, -signal.SIGTERM),
        (AFTER, signal.SIGTERM, -signal.SIGTERM),
    ],
    ids=["its own handler", "ignored, as under nohup", "not the main thread", "after the mission"],
)
def test_what_the_program_does_with_a_signal_stays(
    program: str, number: signal.Signals, status: int, tmp_path: Path
) -> None:
    process = start(HEAD.format(program=indented(program)), tmp_path)
    _, err = end(process, number)

    assert status == process.returncode, err
    assert "received: the mission ends." not in err


def test_ipython_is_ended_by_the_signal_itself(tmp_path: Path) -> None:
    """It survives `SystemExit`, as its users may call exit() in a cell without an end."""
    program = """
from types import SimpleNamespace
sys.modules["IPython"] = SimpleNamespace(get_ipython=lambda: object())
run(main, Cores(2), config_file=False)
"""
    process = start(HEAD.format(program=indented(program)), tmp_path)
    _, err = end(process, signal.SIGTERM)

    assert -signal.SIGTERM == process.returncode, err
    assert {} == processes_of(tmp_path)


# The signal comes while trio waits: code that is interrupted by it ends by KeyboardInterrupt, which
# counts more than what fails because of it.
FAILING = """
class Announcing(trio.abc.Instrument):
    def before_io_wait(self, timeout):
        if timeout:  # no task has anything to do
            print("begins", flush=True)
            trio.lowlevel.remove_instrument(self)
async def failing():
    try:
        trio.lowlevel.add_instrument(Announcing())
        await trio.sleep_forever()
    finally:
        raise ValueError("of the clean-up")
run(failing, Cores(2), config_file=False)
"""


def test_an_error_of_the_clean_up_is_shown(tmp_path: Path) -> None:
    process = start(HEAD.format(program=indented(FAILING)), tmp_path)
    _, err = end(process, signal.SIGTERM)

    assert 1 == process.returncode, err
    assert "ValueError: of the clean-up" in err


@pytest.mark.parametrize("run", [trio.run, asyncio.run], ids=["trio", "asyncio"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_cancelled_mission_raises_who_has_cancelled_it(run: Any, waits: bool) -> None:
    """Whatever its block does meanwhile; and the program goes on."""

    @delayed
    async def forever() -> None:
        await trio.sleep_forever()

    async def main() -> str:
        with pytest.raises(MissionCancelled, match="^the mission was cancelled by me on n1 with"):
            async with mission(Cores(1), config_file=False, progress=False) as active:
                r_ = (forever @ Cores(1))()
                active.executor._on_event(events.CancelRequested("me on n1"))
                if waits:
                    await r_
        return "goes on"

    assert "goes on" == (run(main) if run is trio.run else run(main()))


def test_to_cancel_a_mission_that_has_ended_well_changes_nothing() -> None:
    """So that no list calls interrupted what another calls done."""
    said: list[str] = []

    async def main() -> None:
        with ended_from_outside(said.append) as ending:
            ending.settle()
            ending.cancel("me on n1")
            assert ending.cause is None
            await trio.lowlevel.checkpoint()

    trio.run(main)
    assert [] == said
