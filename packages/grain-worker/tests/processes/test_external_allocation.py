"""From an allocation to variables, CPU ids and MPI launchers."""

from __future__ import annotations

import functools
import json
import operator
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from grain import GVAR
from grain.resource import THREADS, ZERO, Cores, GPUs, Memory, Supply
from grain.worker.external import mpi_prefix, run_external
from grain.worker.gang import rank
from grain.worker.processes.environment import NOT_BATCH, binding, environment
from grain.worker.processes.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.resource import Resource


def allocation(c: Sequence[int] = (), g: Sequence[int] = ()) -> Resource:
    parts = [kind(ids) for kind, ids in ((Cores, c), (GPUs, g)) if ids]
    return functools.reduce(operator.and_, parts, ZERO)


def test_a_part_of_a_core_or_gpu_is_one_device_and_one_thread() -> None:
    supply = Supply(Cores([4, 6]) & GPUs([2, 3]))
    res = supply.alloc(Cores(0.25) & GPUs(0.5))
    env = environment(res, {}, {})

    assert {b"1"} == {env[name.encode()] for name in THREADS}
    assert b"2" == env[b"CUDA_VISIBLE_DEVICES"] == env[b"HIP_VISIBLE_DEVICES"]
    assert [4] == binding(res, {4, 5, 6})


def test_without_an_allocation_the_environment_is_inherited() -> None:
    inherited = {b"OMP_NUM_THREADS": b"3", b"HOME": b"/home/x"}

    assert environment(allocation(), inherited, {}) == inherited


def test_a_variable_without_a_name_which_ends_every_start_is_left_out() -> None:
    """A line of the environment like ``=C:=x``: Python reads it, but starts no program with it."""
    inherited = {b"": b"C:=x", b"HOME": b"/home/x"}

    assert environment(allocation(), inherited, {}) == {b"HOME": b"/home/x"}
    assert b"" not in Sweep(1.0).environment(inherited)


def test_a_process_with_such_a_variable_starts_programs() -> None:
    code = (
        "import trio; from grain.worker.external import run_external; "
        "print(trio.run(run_external, ['echo', 'it runs']).stdout_text)"
    )
    # Python 3.13 itself starts no program with such a variable.
    done = subprocess.run(
        ["/usr/bin/env", "=C:=x", sys.executable, "-c", code], capture_output=True, text=True
    )

    assert done.stdout.strip() == "it runs", done.stderr


def test_the_environment_of_this_process_is_the_one_of_this_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is copied by its dict, which is private to Python's library."""
    res = allocation()
    monkeypatch.delenv("GRAIN_SUBREAPERS", raising=False)
    monkeypatch.setenv("GRAIN_TEST", "a\udcff")
    first = environment(res, os.environb, {"B": "b"})
    monkeypatch.delenv("GRAIN_TEST")

    assert b"a\xff" == first[b"GRAIN_TEST"]
    assert first == {**dict(os.environb), b"GRAIN_TEST": b"a\xff", b"B": b"b"}
    assert environment(res, os.environb, {}) == dict(os.environb)
    assert "B" not in os.environ
    assert type(os.environb._data) is dict  # type: ignore[attr-defined]


def test_the_allocation_wins_over_what_is_inherited_and_the_caller_over_both() -> None:
    env = environment(
        allocation(c=[4, 5, 9], g=[0, 1]),
        {b"OMP_NUM_THREADS": b"64", b"GONE": b"x", b"CUDA_VISIBLE_DEVICES": b"7"},
        {"MKL_NUM_THREADS": "2", "GONE": None, "NEVER_WAS": None, "NAME": "\udcff"},
    )

    assert env[b"OMP_NUM_THREADS"] == b"3"
    assert env[b"MKL_NUM_THREADS"] == b"2"
    assert env[b"CUDA_VISIBLE_DEVICES"] == env[b"HIP_VISIBLE_DEVICES"] == b"0,1"
    assert env[b"CUDA_DEVICE_ORDER"] == b"PCI_BUS_ID"
    assert b"ROCR_VISIBLE_DEVICES" not in env
    assert env[b"NAME"] == b"\xff"
    assert b"GONE" not in env
    assert set(map(str.encode, THREADS)) <= set(env)


def test_launchers_are_told_to_leave_ranks_on_the_cpus_of_the_task_and_how_many_fit() -> None:
    env = environment(Cores([4, 5, 9]), {}, {}, threads=1)

    assert env[b"OMPI_MCA_hwloc_base_binding_policy"] == b"none"
    assert env[b"PRTE_MCA_hwloc_default_binding_policy"] == b"none"
    slots = b"OMPI_MCA_orte_set_default_slots", b"PRTE_MCA_prte_set_default_slots"
    assert [b"3"] * 2 == [env[name] for name in slots]
    assert not set(map(str.encode, NOT_BATCH)) & set(env)
    # Also where CPUs are not what a task asks for.
    unbound = environment(Memory(1), dict.fromkeys(slots, b"7"), {})
    assert unbound[b"OMPI_MCA_hwloc_base_binding_policy"] == b"none"
    assert unbound[slots[0]] == b"7"


def test_steps_that_a_task_starts_in_the_job_of_its_worker_have_the_cpus_of_the_task() -> None:
    cpu = max(os.sched_getaffinity(0))
    in_step = {b"SLURMD_NODENAME": b"n1", b"SLURM_CPU_BIND": b"quiet,mask_cpu:0xff"}

    env = environment(Cores([cpu]), in_step, {})

    assert env[b"SLURM_OVERLAP"] == b"1"
    assert env[b"SLURM_CPU_BIND"] == f"mask_cpu:{1 << cpu:#x}".encode()
    # The ids are mere numbers.
    assert environment(Cores([9999]), in_step, {})[b"SLURM_CPU_BIND"] == b"none"
    # A job of Grain's queue has variables of Slurm, too.
    of_queue = {b"SLURM_JOB_ID": b"7", b"SLURMD_NODENAME": b"n1", b"GRAIN_QUEUE": b"queue"}
    assert b"SLURM_OVERLAP" not in environment(Cores([cpu]), of_queue, {})


def test_a_binding_that_the_user_has_chosen_stays() -> None:
    chosen = {b"OMPI_MCA_hwloc_base_binding_policy": b"core", b"HYDRA_RMK": b"slurm"}

    env = environment(Cores([4]), {b"SLURM_JOB_ID": b"7", **chosen}, {})

    assert chosen == {name: env[name] for name in chosen}
    assert env[b"OMPI_MCA_ras"].startswith(b"^slurm")


@pytest.mark.parametrize("ours", [{}, {"GRAIN_SUBREAPERS": "ours:"}])
@pytest.mark.parametrize("inherited", [{}, {b"GRAIN_SUBREAPERS": b"a job's:"}])
def test_the_marks_of_subreapers_are_those_of_the_process_that_starts_a_program(
    ours: dict[str, str], inherited: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mission that runs in a task may pass on all of its environment, with other marks."""
    for name, marks in ours.items():
        monkeypatch.setenv(name, marks)
    for changed in ("theirs:", None):
        env = environment(allocation(), inherited, {"GRAIN_SUBREAPERS": changed})
        assert {os.fsencode(name): os.fsencode(marks) for name, marks in ours.items()} == env


def test_the_number_of_threads_can_differ_from_that_of_the_cpus() -> None:
    assert environment(allocation(c=[0, 1]), {}, {}, threads=1)[b"OMP_NUM_THREADS"] == b"1"


@pytest.mark.parametrize(
    ("cpus", "expected"), [([], None), ([2], [2]), ([1, 3], [1, 3]), ([3, 4], None)]
)
def test_a_program_is_bound_only_if_all_its_cpus_exist(
    cpus: list[int], expected: list[int] | None
) -> None:
    assert binding(allocation(c=cpus), {0, 1, 2, 3}) == expected


def test_the_prefix_for_open_mpi_leaves_binding_to_the_inherited_affinity() -> None:
    """It hides the batch system from mpirun."""
    prefix = mpi_prefix("openmpi", Cores([0, 2, 5, 7]), threads=2)

    assert prefix[0] == "env"
    assert "-u SLURM_JOBID -u SLURM_JOB_ID" in " ".join(prefix)
    command = "mpirun -n 2 --host localhost:2 --bind-to none -x OMP_NUM_THREADS=2"
    assert " ".join(prefix).endswith(command)


@pytest.mark.parametrize(
    ("flavour", "threads", "words"),
    [
        ("mpich", 1, "mpiexec OMP_NUM_THREADS 1 -n 4 -bind-to user:0,2,5,7"),
        ("mpich", 2, "mpiexec OMP_NUM_THREADS 2 -n 2 -bind-to user:0+2,5+7"),
        ("intel", 1, "mpiexec.hydra OMP_NUM_THREADS 1 I_MPI_PIN_PROCESSOR_LIST 0,2,5,7 -n 4"),
        ("intel", 2, "mpiexec.hydra OMP_NUM_THREADS 2 I_MPI_PIN_DOMAIN [5,a0] -n 2"),
        ("srun", 1, "srun --ntasks=4 --cpus-per-task=1 --cpu-bind=map_cpu:0,2,5,7"),
        ("srun", 2, "srun --ntasks=2 --cpus-per-task=2 --cpu-bind=mask_cpu:0x5,0xa0"),
    ],
)
def test_the_prefix_names_the_allocated_cpus(flavour: str, threads: int, words: str) -> None:
    prefix = mpi_prefix(flavour, Cores([0, 2, 5, 7]), threads=threads)  # type: ignore[arg-type]

    assert [word for word in prefix if word in words.split()] == words.split()


def test_a_part_of_a_core_is_too_little_for_mpi() -> None:
    with pytest.raises(ValueError) as raised:
        mpi_prefix("mpich", Supply(Cores(2) & Memory(1)).alloc(Cores(0.25) & Memory(1)))

    assert (
        "Cores(0.25) is a part of one core, and each rank of an MPI program needs a whole one: "
        "ask for Cores(1) or more"
    ) == str(raised.value)


def test_the_prefix_stays_on_this_node_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "node7")

    assert "--nodelist=node7" in mpi_prefix("srun", Cores([1]))


def test_the_prefix_takes_the_running_tasks_allocation_and_another_launcher() -> None:
    with GVAR.scope(Cores([3])):
        assert mpi_prefix("mpich", launcher="/opt/mpich/mpiexec")[0] == "/opt/mpich/mpiexec"


@pytest.mark.parametrize(
    ("cpus", "threads", "flavour"),
    [([], 1, "mpich"), ([1, 2, 3], 2, "mpich"), ([1], 0, "mpich"), ([1], 1, "lam")],
)
def test_a_prefix_without_fitting_cpus_or_flavour_is_refused(
    cpus: list[int], threads: int, flavour: str
) -> None:
    with pytest.raises(ValueError, match=r"cannot be shared|flavour must be"):
        mpi_prefix(flavour, Cores(cpus), threads=threads)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flavour", "launcher"), [("openmpi", "mpirun.openmpi"), ("mpich", "mpiexec.hydra")]
)
async def test_ranks_run_on_the_allocated_cpus(flavour: str, launcher: str) -> None:
    """The real launchers run, in an environment that looks like a small Slurm job."""
    if shutil.which(launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    cpus = sorted(os.sched_getaffinity(0), reverse=True)[:2]
    code = (  # one write(2) each: ranks share the output
        "import os; cpus = ','.join(map(str, os.sched_getaffinity(0)));"
        " os.write(1, f'{os.environ[\"OMP_NUM_THREADS\"]} {cpus}\\n'.encode())"
    )
    env = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "SLURM_JOB_ID": "1",
        "SLURM_JOBID": "1",
        "SLURM_NODELIST": "elsewhere",
        "SLURM_TASKS_PER_NODE": "1",
    }
    for allocated in (cpus, cpus[:1], cpus[1:]):
        if not allocated:
            continue
        with GVAR.scope(Cores(allocated)):
            prefix = mpi_prefix(flavour, launcher=launcher)  # type: ignore[arg-type]
            done = await run_external([*prefix, sys.executable, "-c", code], env=env, threads=1)

        everyone = f"1 {','.join(map(str, sorted(allocated)))}"
        expected = [everyone] * len(allocated)
        if flavour == "mpich":
            expected = [f"1 {cpu}" for cpu in sorted(allocated)]
        assert sorted(done.stdout_text.splitlines()) == expected


def test_a_rank_on_a_member_has_the_cpus_of_its_turn_and_threads_for_every_library() -> None:
    """By facts of the member, which win over what the launcher passes on from the root."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    variables = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "3"}
    environment = {
        "GRAIN_MEMBER": json.dumps({"cpus": cpus, "variables": variables}),
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMP_NUM_THREADS": "64",
    }
    ranks = len(cpus)
    shell = "echo $OMP_NUM_THREADS $MKL_NUM_THREADS $CUDA_VISIBLE_DEVICES; taskset -cp $$"
    command = [sys.executable, "-SEs", rank.__file__, str(ranks), "1", "sh", "-c", shell]
    if ranks < 2:
        pytest.skip("needs two CPUs")

    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )

    threads, affinity = done.stdout.splitlines()
    assert "1 1 3" == threads
    assert affinity.endswith(f": {cpus[1]}")
