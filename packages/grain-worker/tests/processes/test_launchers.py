"""Launchers of MPI that a program of a task calls itself, and libraries that choose CPUs."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from grain import GVAR
from grain.resource import Cores, Memory, Supply
from grain.subproc import subprocify
from grain.worker.errors import ExternalMemoryError
from grain.worker.external import run_external
from grain_testkit.pool_scope import pool

if TYPE_CHECKING:
    from pathlib import Path

    from grain.resource import Resource

USABLE = sorted(os.sched_getaffinity(0))
AS_ROOT = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
# Where mpirun has two slots on another node. There is no such node, nor a srun that works.
BATCH_JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOBID": "7",
    "SLURM_NODELIST": "elsewhere",
    "SLURM_NNODES": "1",
    "SLURM_TASKS_PER_NODE": "2",
}
SHOW = "grep -h Cpus_allowed_list /proc/self/status"
needs_two_cpus = pytest.mark.skipif(len(USABLE) < 2, reason="needs two CPUs")


@pytest.fixture(params=[{}, BATCH_JOB], ids=["no batch job", "batch job"])
def surroundings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (AS_ROOT | request.param).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["mpirun.openmpi", "mpiexec.mpich"])
def launcher(request: pytest.FixtureRequest, surroundings: None) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


def listed(cpus: list[int]) -> str:
    consecutive = len(cpus) > 1 and cpus[-1] - cpus[0] == len(cpus) - 1
    return f"{cpus[0]}-{cpus[-1]}" if consecutive else ",".join(map(str, cpus))


async def ranks_of(res: Resource, command: str) -> list[str]:
    """Return the CPUs that the ranks may use which a script of a task starts."""
    with GVAR.scope(res):
        done = await run_external(["sh", "-c", command], timeout=60)
    return done.stdout_text.replace("Cpus_allowed_list:", "").split()


@needs_two_cpus
async def test_ranks_of_two_tasks_side_by_side_are_on_the_cpus_of_their_tasks(
    launcher: str,
) -> None:
    found = {}

    async def task(cpu: int) -> None:
        found[cpu] = await ranks_of(Cores([cpu]), f"{launcher} -n 1 {SHOW}")

    async with trio.open_nursery() as nursery:
        for cpu in USABLE[-2:]:
            nursery.start_soon(task, cpu)
    assert found == {cpu: [str(cpu)] for cpu in USABLE[-2:]}


@needs_two_cpus
async def test_as_many_ranks_as_cores_can_be_started(launcher: str) -> None:
    pair = USABLE[-2:]
    assert [listed(pair)] * 2 == await ranks_of(Cores(pair), f"{launcher} -n 2 {SHOW}")
    part = Supply(Cores(pair)).alloc(Cores(0.5))
    (cpu,) = part.get(Cores).c  # type: ignore[union-attr]
    assert [str(cpu)] == await ranks_of(part, f"{launcher} -n 1 {SHOW}")


async def test_open_mpi_has_a_slot_for_each_core_of_the_task_and_no_more(launcher: str) -> None:
    if launcher != "mpirun.openmpi":
        pytest.skip("others have no slots")
    one = Cores(USABLE[-1:])
    assert USABLE[-1:] == list(map(int, await ranks_of(one, f"{launcher} {SHOW}")))
    assert ["slots"] == await ranks_of(one, f"{launcher} -n 2 {SHOW} 2>&1 | grep -om1 slots")


RANK = """
import os, time
if "1" in (os.environ.get("OMPI_COMM_WORLD_RANK"), os.environ.get("PMI_RANK")):
    kept = b"x" * 400_000_000
time.sleep(600)
"""


async def test_a_rank_with_more_than_the_amount_of_its_task_is_ended_with_all_others(
    launcher: str,
) -> None:
    words = [launcher, "-n", "2", sys.executable, "-c", RANK]
    ended = pytest.raises(ExternalMemoryError, match=r"of 0\.3 and was ended")
    with GVAR.scope(Cores(USABLE) & Memory(0.3)), ended as raised:
        await run_external(words, enforce=True)
    # The rank may still grow at the second look.
    assert 0.3 < raised.value.used < 0.6


@subprocify
def ranks_by_a_function(launcher: str) -> str:
    words = [launcher, "-n", "1", *SHOW.split()]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


async def test_a_launcher_that_a_function_in_a_process_calls_is_told_the_same(
    launcher: str,
) -> None:
    async with pool():
        for cpu in USABLE[-2:]:
            with GVAR.scope(Cores([cpu])):
                assert ["Cpus_allowed_list:", str(cpu)] == (
                    await ranks_by_a_function(launcher)
                ).split()


PINNED = """
import ctypes, os, sys
import trio
from grain import GVAR
from grain.resource import Cores
from grain.subproc import subprocess_pool_scope, subprocify
from grain.worker.external import run_external

@subprocify
def threads_of_a_team(library):
    ctypes.CDLL(library)
    return sorted(os.sched_getaffinity(0))

async def main(library, *cpus):
    ctypes.CDLL(library)  # as numpy may
    async with subprocess_pool_scope():
        for cpu in map(int, cpus):
            with GVAR.scope(Cores([cpu])):
                show = "import os; print(*os.sched_getaffinity(0))"
                print((await run_external([sys.executable, "-c", show])).stdout_text, end="")
                print(*await threads_of_a_team(library))

if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
"""


@needs_two_cpus
def test_a_library_that_binds_its_process_does_not_bind_the_programs_of_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this variable, libgomp binds the thread that loads it to the first CPU of its process.

    The process of a function has other CPUs with each call; a library in it keeps the first ones.
    """
    library = ctypes.util.find_library("gomp")
    if library is None:
        pytest.skip("libgomp is not installed")
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    (tmp_path / "program.py").write_text(PINNED)
    words = [sys.executable, str(tmp_path / "program.py"), library, *map(str, USABLE[-2:])]

    out = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout

    one, two = USABLE[-2:]
    assert f"{one}\n{one}\n{two}\n{two}\n" == out
