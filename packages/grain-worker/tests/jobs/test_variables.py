"""The environment of a job."""

from __future__ import annotations

import msgspec
import pytest

from grain.queue.records import ArraySpec, Job
from grain.queue.selectors import plain_number
from grain.worker.jobs.variables import Place, job_environment, threads_each

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
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "GRAIN_QUEUE": "queue",
        "GRAIN_JOB_ID": "12",
        "GRAIN_JOB_NAME": "opt",
        "GRAIN_ATTEMPT": "1",
    }


def test_a_task_of_an_array_has_its_number_and_those_of_the_array() -> None:
    found = environment(task=7, array=ArraySpec(ranges=((1, 9, 2), (20, 20, 1))))
    assert found["SLURM_ARRAY_JOB_ID"] == "12"
    assert found["SLURM_ARRAY_TASK_ID"] == found["GRAIN_ARRAY_TASK_ID"] == "7"
    assert found["SLURM_ARRAY_TASK_COUNT"] == "6"
    assert found["SLURM_ARRAY_TASK_MIN"] == "1"
    assert found["SLURM_ARRAY_TASK_MAX"] == "20"
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


def test_a_binding_that_the_user_has_chosen_stays() -> None:
    chosen = {"OMPI_MCA_hwloc_base_binding_policy": "core"}
    assert environment(environment=chosen)["OMPI_MCA_hwloc_base_binding_policy"] == "core"


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
    assert threads_each(msgspec.structs.replace(JOB, options=options), 4) == threads
