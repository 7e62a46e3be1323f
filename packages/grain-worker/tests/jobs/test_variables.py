"""The environment of a job."""

from __future__ import annotations

import os
from types import SimpleNamespace

import msgspec
import pytest

from grain.queue.records import ArraySpec, Job
from grain.queue.selectors import plain_number
from grain.worker.jobs.variables import Place, job_environment, threads_each
from grain.worker.processes.environment import MARKS, note_given
from grain.worker.processes.environment import environment as programs_environment

JOB = Job(name="opt", at=0.0, host="login1", user="ann", directory="/home/ann/work")
PLACE = Place(host="n07", cpus=4, queue="queue")


def environment(task: int | None = None, attempt: int = 1, **fields: object) -> dict[str, str]:
    job = msgspec.structs.replace(JOB, **fields)
    return job_environment(job, 12, task, attempt, PLACE)


def test_a_job_has_the_variables_that_scripts_for_slurm_use() -> None:
    found = environment()
    assert found == {
        "SLURM_JOB_ID": "12",
        "SLURM_JOBID": "12",
        "SLURM_JOB_NAME": "opt",
        "SLURM_JOB_USER": "ann",
        "SLURM_SUBMIT_DIR": "/home/ann/work",
        "SLURM_SUBMIT_HOST": "login1",
        "SLURM_CLUSTER_NAME": "grain",
        "SLURM_JOB_PARTITION": "queue",
        "SLURM_CPUS_ON_NODE": "4",
        "SLURM_JOB_CPUS_PER_NODE": "4",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_JOB_NODELIST": "n07",
        "SLURM_NODELIST": "n07",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_TASKS_PER_NODE": "4",
        "GRAIN_QUEUE": "queue",
        "GRAIN_JOB_ID": "12",
        "GRAIN_JOB_NAME": "opt",
        "GRAIN_ATTEMPT": "1",
        "GRAIN_NODES": "n07",
        "PWD": "/home/ann/work",
    }


def test_a_task_of_an_array_has_its_number_and_those_of_the_array() -> None:
    found = environment(task=7, array=ArraySpec(ranges=((1, 9, 2), (18, 21, 2))))
    assert found["SLURM_ARRAY_JOB_ID"] == "12"
    assert found["SLURM_ARRAY_TASK_ID"] == found["GRAIN_ARRAY_TASK_ID"] == "7"
    assert found["SLURM_ARRAY_TASK_COUNT"] == "7"
    assert found["SLURM_ARRAY_TASK_MIN"] == "1"
    assert found["SLURM_ARRAY_TASK_MAX"] == "20"  # not 21
    assert found["SLURM_ARRAY_TASK_STEP"] == "2"
    assert found["GRAIN_JOB_ID"] == "12"


def test_no_two_tasks_have_one_plain_number() -> None:
    numbers = [(12, None), (12, 0), (12, 1), (13, None), (1, 12)]
    assert len({plain_number(*one) for one in numbers}) == len(numbers)
    assert environment(task=7)["SLURM_JOB_ID"] == str(plain_number(12, 7))


def test_the_job_in_which_one_submits_does_not_leak_into_the_job() -> None:
    outer = {"SLURM_JOB_ID": "99", "SLURM_NTASKS": "64", "PMI_RANK": "3", "PBS_JOBID": "1.a"}
    found = environment(environment={**outer, "HOME": "/home/ann", "LC_ALL": "C"})
    assert found["SLURM_JOB_ID"] == "12"
    assert (found["HOME"], found["LC_ALL"]) == ("/home/ann", "C")
    assert not {"SLURM_NTASKS", "PMI_RANK", "PBS_JOBID"} & set(found)


@pytest.mark.parametrize("trace", ["SLURM_JOBID", "GRAIN_JOB_ID"])
def test_a_job_whose_number_was_removed_does_not_leak_either(trace: str) -> None:
    assert "SLURM_NTASKS" not in environment(environment={trace: "1", "SLURM_NTASKS": "64"})


def test_what_a_user_has_set_for_a_batch_system_reaches_the_job() -> None:
    chosen = {"SGE_ROOT": "/opt/sge", "SBATCH_ACCOUNT": "chem", "SLURM_MPI_TYPE": "pmix"}
    assert chosen.items() <= environment(environment=chosen).items()


def test_what_grain_has_given_to_an_outer_job_does_not_reach_an_inner_one() -> None:
    user = {"PATH": "/bin", "LANG": "C", "BASH_FUNC_module%%": "() {  echo\n}", "my.var": "1"}
    outer = environment(environment=user, task=3, array=ArraySpec(ranges=((1, 3, 1),)))
    program = programs_environment(
        SimpleNamespace(c=(4, 5), g=(3,)),
        {os.fsencode(name): os.fsencode(value) for name, value in outer.items()},
        {"MKL_NUM_THREADS": "2"},
    ) | {MARKS: b"mark:"}
    note_given(program, launched := {b"OMPI_MCA_plm": b"rsh", b"GRAIN_RSH": b"/tmp/rsh"})
    shell = {os.fsdecode(name): os.fsdecode(value) for name, value in (program | launched).items()}
    assert {"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "SLURM_ARRAY_TASK_ID"} <= shell.keys()

    inner = environment(environment=shell)

    assert environment(environment=user) == inner


def test_what_an_outer_job_has_changed_reaches_an_inner_one() -> None:
    given = "OMP_NUM_THREADS=8\nCUDA_VISIBLE_DEVICES=0\n"
    shell = {"GRAIN_GIVEN": given, "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "0"}
    inner = environment(environment=shell)
    assert "2" == inner["OMP_NUM_THREADS"]
    assert "CUDA_VISIBLE_DEVICES" not in inner


def test_a_task_of_an_array_that_submits_a_job_does_not_make_it_a_task() -> None:
    outer = {
        "GRAIN_ARRAY_TASK_ID": "7", "GRAIN_ENTRY": "H2O", "GRAIN_CONFIG": "grain.toml",
        "GRAIN_MISSION": "@m", "GRAIN_MAP_DETACHED": "1", "GRAIN_RESUMED": "1",
        "GRAIN_MEMBER": "m1", "GRAIN_NODE": "2", "GRAIN_GANG_DOORS": "1",
    }  # fmt: skip
    found = environment(environment=outer)
    assert {"GRAIN_CONFIG"} == outer.keys() & found.keys()
    assert found["GRAIN_CONFIG"] == "grain.toml"


def test_a_second_attempt_knows_that_it_is_one() -> None:
    assert environment(attempt=3)["SLURM_RESTART_COUNT"] == "2"


def test_counts_of_tasks_and_cpus_are_set_only_where_they_were_given() -> None:
    given = environment(options={"ntasks": "2", "cpus-per-task": "4"})
    assert (given["SLURM_NTASKS"], given["SLURM_NPROCS"]) == ("2", "2")
    assert given["SLURM_CPUS_PER_TASK"] == "4"


def test_open_mpi_finds_a_slot_for_each_rank() -> None:
    assert environment()["SLURM_TASKS_PER_NODE"] == "4"
    assert environment(options={"ntasks": "2"})["SLURM_TASKS_PER_NODE"] == "2"
    by_sbatch = environment(options={"submit-dir": "/home/ann"})
    assert by_sbatch["SLURM_TASKS_PER_NODE"] == "1"


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        ({}, 4),
        ({"ntasks": "1"}, 4),
        ({"ntasks": "2"}, 2),
        ({"ntasks": "3"}, 1),
        ({"ntasks": "8"}, 1),
    ],
)
def test_ranks_share_the_cpus_of_their_job(options: dict[str, str], threads: int) -> None:
    assert threads_each(msgspec.structs.replace(JOB, options=options), PLACE) == threads


# ---- on several workers

NODES = Place("n07", 4, "queue", (("n08", 4), ("n09", 4), ("gpu2", 2)))


def on_nodes(**options: str) -> dict[str, str]:
    job = msgspec.structs.replace(JOB, options=options)
    return job_environment(job, 12, None, 1, NODES)


def test_a_job_on_several_workers_knows_them_all() -> None:
    found = on_nodes()

    assert ("4", "4") == (found["SLURM_NNODES"], found["SLURM_JOB_NUM_NODES"])
    assert "n[07-09],gpu2" == found["SLURM_JOB_NODELIST"] == found["SLURM_NODELIST"]
    assert "n07,n08,n09,gpu2" == found["GRAIN_NODES"]
    assert ("4", "4(x3),2") == (found["SLURM_CPUS_ON_NODE"], found["SLURM_JOB_CPUS_PER_NODE"])


@pytest.mark.parametrize(
    ("options", "ranks", "threads"),
    [
        ({}, "4(x3),2", 1),
        ({"ntasks": "8"}, "2(x4)", 1),
        ({"ntasks": "4"}, "1(x4)", 3),
        ({"ntasks": "6"}, "2(x2),1(x2)", 2),
        ({"ntasks": "14"}, "4(x2),3(x2)", 1),
        ({"ntasks": "4", "submit-dir": "/"}, "1(x4)", 3),
        ({"ntasks": "2"}, "1(x4)", 7),
        ({"submit-dir": "/"}, "1(x4)", 1),
    ],
)
def test_ranks_are_spread_over_workers(options: dict[str, str], ranks: str, threads: int) -> None:
    job = msgspec.structs.replace(JOB, options=options)

    assert ranks == on_nodes(**options)["SLURM_TASKS_PER_NODE"]
    assert threads == threads_each(job, NODES)


def test_the_workers_of_the_job_in_which_one_submits_do_not_leak_into_the_job() -> None:
    given = {"OMPI_MCA_plm_rsh_agent": "/tmp/rsh", "HYDRA_HOST_FILE": "f"}
    noted = "".join(f"{name}={value}\n" for name, value in given.items())
    outer = {"GRAIN_RSH": "/tmp/rsh", **given, "GRAIN_GIVEN": noted}

    found = environment(environment=outer)
    assert not {"GRAIN_RSH", *given} & set(found)
    chosen = environment(environment={"OMPI_MCA_btl": "tcp,self"})
    assert "tcp,self" == chosen["OMPI_MCA_btl"]
