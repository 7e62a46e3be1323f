"""The worker as a process: how it serves a head, and goes on without one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import trio

from grain.worker.messages import (
    AckRuns,
    Drain,
    Draining,
    Inventory,
    InventoryEnd,
    Leaving,
    RegisterWorker,
    Revoke,
    RunEnded,
)
from grain_testkit.head_by_hand import code, head, worker
from grain_testkit.local_processes import descendants_of


async def test_a_worker_registers_runs_and_leaves_on_sigterm_with_exit_code_0(
    tmp_path: Path,
) -> None:
    async def double(x: int) -> int:
        return 2 * x

    res = '{"Cores": [0], "Memory": 3}'
    async with head(tmp_path) as h, worker("--url", h.address, "--res", res) as process:
        registered, _ = await h.get(RegisterWorker)
        await h.get(InventoryEnd)
        status, ended = await h.settled(await h.lease(double, 21))
        process.send_signal(signal.SIGTERM)
        await h.get(Draining)
        await h.get(Leaving)
        assert 0 == await code(process)

    assert ("w1", {"Cores": [0], "Memory": 3}) == (registered.name, dict(registered.total)) or (
        registered.total == {"Cores": 1, "Memory": 3}
    )
    assert ("value", 42) == (status, ended.unwrap())


async def test_a_worker_states_its_cluster_and_its_job(tmp_path: Path) -> None:
    words = ("--res", '{"Cores": 1}', "--cluster", "two")
    array = {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1"}
    async with head(tmp_path) as h, worker("--url", h.address, *words, env=array):
        registered, _ = await h.get(RegisterWorker)

    assert ("two", "slurm") == (registered.cluster, registered.system)
    assert ("8", "7_1") == (registered.job, registered.listed)


async def test_a_crash_is_reported_with_its_signal_and_the_worker_serves_on(tmp_path: Path) -> None:
    async def dies() -> None:
        import os

        os.kill(os.getpid(), 9)

    async def fine() -> int:
        return 1

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        number = await h.lease(dies)
        crashed, _ = await h.get(RunEnded, number)
        await h.send((AckRuns((crashed.attempt,)), None))
        status, ended = await h.settled(await h.lease(fine))
        await h.send((Drain(), None))
        assert 0 == await code(process)

    assert "crashed" == crashed.status
    assert "SIGKILL" in crashed.detail
    assert ("value", 1) == (status, ended.unwrap())


async def test_runs_go_on_while_there_is_no_head_and_the_next_one_gets_the_results(
    tmp_path: Path,
) -> None:
    async def slow(path: str) -> str:
        from pathlib import Path

        while not Path(path).exists():
            await trio.sleep(0.02)
        return "done"

    async def quick() -> int:
        return 3

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 2}') as process:
        await h.get(InventoryEnd)
        first = await h.lease(slow, str(tmp_path / "go"))
        second = await h.lease(quick)
        await h.get(RunEnded, second)  # and never release it
        assert h.peer is not None
        await h.peer.channel.aclose()
        held, _ = await h.get(Inventory)
        await h.get(InventoryEnd)
        (tmp_path / "go").touch()
        status, ended = await h.settled(first)
        again, _ = await h.get(RunEnded, second)
        await h.send((AckRuns((again.attempt,)), None), (Drain(), None))
        assert 0 == await code(process)

    assert {first: False, second: True} == {run.attempt[1]: run.ended for run in held.runs}
    assert ("value", "done") == (status, ended.unwrap())


async def test_the_head_revokes_a_run_and_its_end_is_confirmed(tmp_path: Path) -> None:
    async def sleeps() -> None:
        await trio.sleep_forever()

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        number = await h.lease(sleeps)
        await h.send((Revoke((1, number)), None))
        assert ("cancelled", None) == await h.settled(number)
        await h.send((Drain(at_once=True), None))
        assert 0 == await code(process)


async def test_an_idle_worker_takes_a_hundredth_of_a_cpu_at_most(tmp_path: Path) -> None:
    async def fine() -> None: ...

    async with head(tmp_path) as h, worker("--url", h.address, "--res", '{"Cores": 1}') as process:
        await h.get(InventoryEnd)
        await h.settled(await h.lease(fine))
        cpu = seconds = 1.0
        with trio.fail_after(120):
            while cpu > 0.05 * seconds:  # what comes after a run may take a while
                began, before = trio.current_time(), used(process.pid)
                await trio.sleep(1)
                seconds = trio.current_time() - began
                cpu = sum(now - before.get(pid, 0) for pid, now in used(process.pid).items())
        await h.send((Drain(), None))
        assert 0 == await code(process)


def used(pid: int) -> dict[int, float]:
    """Seconds of CPU time of a process and its children, by pid, see proc(5)."""
    seconds = {}
    for one in descendants_of(pid):
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            seconds[one] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


async def test_a_worker_process_without_a_scheduler_gives_up_with_exit_code_3(
    tmp_path: Path,
) -> None:
    async with worker("--url", f"unix://{tmp_path}/none", "--give-up", "0.5") as process:
        assert 3 == await code(process)
