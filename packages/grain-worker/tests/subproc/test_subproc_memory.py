"""What a call uses: measured, in the run's account, and held to what its task asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from grain import GVAR
from grain.resource import ZERO, Memory, Resource
from grain.subproc import BrokenSubprocessError, SubprocessMemoryError, subprocify
from grain.subproc.child import ProcessUse
from grain.worker.call import RunSettings
from grain.worker.processes.account import RunAccount
from grain_testkit.pool_scope import pool, process_id

HELD = "import sys; kept = b'x' * 50_000_000; print(flush=True); sys.stdin.read()"


def run_with(res: Resource, *, enforce: bool = False) -> RunAccount:
    """Enter the surroundings of a run, and return its account."""
    account = RunAccount(res)
    GVAR.enter(res, "w", RunSettings(enforce=enforce), account)
    return account


def wait_for_looks() -> None:
    """Return when the subreaper of this process has looked at it twice, from begin to end."""
    for _ in range(3):
        before = reads()
        while reads() == before:
            time.sleep(0.01)
        steady = False
        while not steady:
            before = reads()
            time.sleep(0.02)
            steady = before == reads()


def reads() -> int:
    return int(Path(f"/proc/{os.getppid()}/io").read_text().split("syscr: ")[1].split()[0])


@subprocify
def fill(size: int, *, looks: bool = False) -> int:
    kept = b"x" * size
    if looks:
        wait_for_looks()
    return len(kept)


@subprocify
def grow() -> None:
    kept = b"x" * 250_000_000
    time.sleep(600)
    del kept


async def test_a_brief_call_tells_its_own_peak() -> None:
    """Not that of an earlier call of its process, which is larger."""
    account = run_with(ZERO)
    async with pool():
        await fill(200_000_000)
        large = account.usage
        assert 0.2 < large.peak_memory < 0.4
        assert 1 == large.programs
        # On a busy machine it takes so long that the subreaper looks at it.
        assert large.measured_by in {"rusage", "polling"}
        account = run_with(ZERO)
        await fill(1000)
    assert 0.005 < account.usage.peak_memory < 0.15


@pytest.mark.parametrize(("idle", "counts"), [(0.0, True), (1.0, False)])
def test_threads_that_a_call_has_left_count_for_no_call_long_after_it(
    idle: float, counts: bool
) -> None:
    """For the next one if it comes soon: to count again at its beginning would take it longer."""
    use = ProcessUse()
    use.begin(1.0)
    use.end()
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    use.begin(idle)
    user, system, *_ = use.end()
    assert (user + system > 0.2) is counts


async def test_calls_add_up_their_cpu_time_and_keep_the_largest_peak() -> None:
    def compute() -> float:
        while (used := time.process_time() - began) < 0.05:
            pass
        return used

    began = 0.0
    account = run_with(ZERO)
    async with pool():
        await fill(100_000_000)
        began = await subprocify(time.process_time)()
        used = await subprocify(compute)()
    usage = GVAR.usage
    assert usage == account.usage
    assert used <= usage.cpu < 60
    assert usage.peak_memory > 0.1
    assert 3 == usage.programs


async def test_the_processes_that_a_function_starts_count_together() -> None:
    def with_others() -> None:
        programs = [
            subprocess.Popen(
                [sys.executable, "-S", "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(2)
        ]
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()
        wait_for_looks()
        for program in programs:
            program.communicate()

    account = run_with(ZERO)
    async with pool():
        await subprocify(with_others)()
    assert "polling" == account.usage.measured_by
    assert account.usage.peak_memory > 0.12


@pytest.mark.parametrize("learned", [False, True])
async def test_a_function_with_more_than_its_amount_is_ended_and_says_so(learned: bool) -> None:
    res = Memory(8, group="opt").given(0.2) if learned else Memory(0.2)
    account = run_with(res, enforce=not learned)
    async with pool():
        pid = await process_id()
        with pytest.raises(SubprocessMemoryError, match="had more than its amount in two looks"):
            await grow()
        assert pid != await process_id()
    assert account.usage.peak_memory > 0.2
    assert {-signal.SIGTERM: 1} == account.usage.exit_statuses


@pytest.mark.parametrize("amount", [0.05, 0])
async def test_no_function_is_ended_that_is_not_held_to_its_amount(amount: float) -> None:
    """An amount of 0 is not a limit."""
    run_with(Memory(amount), enforce=not amount)
    async with pool():
        assert 200_000_000 == await fill(200_000_000, looks=True)


async def test_a_function_within_its_amount_is_not_ended_for_an_earlier_call() -> None:
    run_with(Memory(0.2))
    async with pool():
        pid = await process_id()
        await fill(300_000_000)
        run_with(Memory(0.2), enforce=True)
        await fill(1000, looks=True)
        assert pid == await process_id()


async def test_what_a_function_answers_while_it_is_ended_for_its_memory_does_not_count() -> None:
    def stubborn() -> str:
        kept = b"x" * 200_000_000
        told: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
        while not told:
            time.sleep(0.01)
        return f"{len(kept)} bytes are in the way"

    run_with(Memory(0.1), enforce=True)
    async with pool(grace=60):
        with pytest.raises(SubprocessMemoryError, match="Grain ended it"):
            await subprocify(stubborn)()


async def test_a_call_whose_process_dies_tells_what_it_has_used() -> None:
    """The largest peak of the process is that of an earlier call."""
    run_with(ZERO)
    async with pool():
        await fill(200_000_000)
        account = run_with(ZERO)
        with pytest.raises(BrokenSubprocessError):
            await subprocify(signal.raise_signal)(signal.SIGKILL)
    assert {-signal.SIGKILL: 1} == account.usage.exit_statuses
    assert account.usage.peak_memory < 0.2


async def test_a_cancelled_call_tells_what_it_has_used(tmp_path: Path) -> None:
    def stay() -> None:
        kept = b"x" * 100_000_000
        marker.touch()
        time.sleep(600)
        del kept

    marker = tmp_path / "begun"
    account = run_with(ZERO)
    async with pool(), trio.open_nursery() as nursery:
        nursery.start_soon(subprocify(stay))
        while not marker.exists():
            await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert {-signal.SIGTERM: 1} == account.usage.exit_statuses
    assert account.usage.peak_memory > 0.1
