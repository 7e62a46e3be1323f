"""The environment of a job."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import msgspec
import pytest

from grain.queue.records import ArraySpec, Job
from grain.queue.selectors import plain_number
from grain.resource import Cores, GPUs, Memory
from grain.worker.jobs.variables import (
    NOT_SET,
    Place,
    own_variables,
    slurm_variables,
    submitted_variables,
    task_variables,
    threads_each,
)
from grain.worker.processes.environment import MARKS, note_given
from grain.worker.processes.environment import environment as programs_environment

JOB = Job(name="opt", at=0.0, host="login1", user="ann", directory="/home/ann/work")
PLACE = Place(host="n07", cpus=4, queue="queue")


def environment(task: int | None = None, attempt: int = 1, **fields: object) -> dict[str, str]:
    job = msgspec.structs.replace(JOB, **fields)
    submitted = submitted_variables(job)
    return submitted | own_variables(job, 12, task, attempt, PLACE, submitted)


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
        "SLURM_JOB_UID": "0",
        "SLURM_JOB_GID": "0",
        "SLURM_GTIDS": "0",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_TOPOLOGY_ADDR": "n07",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURMD_NODENAME": "n07",
        "ENVIRONMENT": "BATCH",
        "HOSTNAME": "n07",
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


def test_a_job_of_sbatch_has_a_directory_for_temporary_files_as_under_slurm() -> None:
    def of(options: dict[str, str], **variables: str) -> str | None:
        return environment(options=options, environment=variables).get("TMPDIR")

    assert ("/tmp", "/scr", None) == (
        of({"submit-dir": "/d"}), of({"submit-dir": "/d"}, TMPDIR="/scr"), of({}),
    )  # fmt: skip


def test_what_grain_has_given_to_an_outer_job_does_not_reach_an_inner_one() -> None:
    user = {"PATH": "/bin", "LANG": "C", "BASH_FUNC_module%%": "() {  echo\n}", "my.var": "1"}
    outer = environment(environment=user, task=3, array=ArraySpec(ranges=((1, 3, 1),)))
    program = programs_environment(
        Cores([4, 5]) & GPUs([3]) & Memory(1),
        {os.fsencode(name): os.fsencode(value) for name, value in outer.items()},
        {"MKL_NUM_THREADS": "2"},
    ) | {MARKS: b"mark:"}
    launched = {b"OMPI_MCA_plm": b"rsh", b"GRAIN_RSH": b"/tmp/rsh", b"HOSTS": b"n1\nn2"}
    note_given(program, launched)
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
    by_sbatch = environment(options={"cpus-per-task": "4", "submit-dir": "/home/ann"})
    assert by_sbatch["SLURM_TASKS_PER_NODE"] == "1"


# By the manual of 22.05.8, section "Output environment variables"; the last two, and SLURM_CONF,
# are not there, but a real job has them.
_LISTED = """
    SBATCH_MEM_BIND SBATCH_MEM_BIND_LIST SBATCH_MEM_BIND_PREFER SBATCH_MEM_BIND_TYPE
    SBATCH_MEM_BIND_VERBOSE SLURM_*_HET_GROUP_# SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_COUNT
    SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_MAX SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_STEP
    SLURM_CLUSTER_NAME SLURM_CPUS_ON_NODE SLURM_CPUS_PER_GPU SLURM_CPUS_PER_TASK SLURM_CONTAINER
    SLURM_DIST_PLANESIZE SLURM_DISTRIBUTION SLURM_EXPORT_ENV SLURM_GPU_BIND SLURM_GPU_FREQ
    SLURM_GPUS SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE SLURM_GPUS_PER_SOCKET SLURM_GPUS_PER_TASK
    SLURM_GTIDS SLURM_HET_SIZE SLURM_JOB_ACCOUNT SLURM_JOB_GPUS SLURM_JOB_ID
    SLURM_JOB_CPUS_PER_NODE SLURM_JOB_DEPENDENCY SLURM_JOB_NAME SLURM_JOB_NODELIST
    SLURM_JOB_NUM_NODES SLURM_JOB_PARTITION SLURM_JOB_QOS SLURM_JOB_RESERVATION SLURM_JOBID
    SLURM_LOCALID SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE SLURM_NNODES
    SLURM_NODE_ALIASES SLURM_NODEID SLURM_NODELIST SLURM_NPROCS SLURM_NTASKS
    SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_NODE SLURM_NTASKS_PER_SOCKET
    SLURM_OVERCOMMIT SLURM_PRIO_PROCESS SLURM_PROCID SLURM_PROFILE SLURM_RESTART_COUNT
    SLURM_SHARDS_ON_NODE SLURM_SUBMIT_DIR SLURM_SUBMIT_HOST SLURM_TASK_PID SLURM_TASKS_PER_NODE
    SLURM_THREADS_PER_CORE SLURM_TOPOLOGY_ADDR SLURM_TOPOLOGY_ADDR_PATTERN SLURMD_NODENAME
    SLURM_JOB_UID SLURM_JOB_GID SLURM_JOB_USER ENVIRONMENT SLURM_CONF
"""
MANUAL = _LISTED.split()

RIGHT = {
    "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_ID": "5",
    "SLURM_ARRAY_TASK_MAX": "5", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_STEP": "2",
    "SLURM_CLUSTER_NAME": "grain", "SLURM_CPUS_ON_NODE": "4", "SLURM_CPUS_PER_GPU": "2",
    "SLURM_CPUS_PER_TASK": "2", "SLURM_DIST_PLANESIZE": "2", "SLURM_DISTRIBUTION": "plane",
    "SLURM_EXPORT_ENV": "ALL,FOO=1", "SLURM_GPU_BIND": "closest", "SLURM_GPU_FREQ": "low",
    "SLURM_GPUS": "a100:2", "SLURM_GPUS_ON_NODE": "2", "SLURM_GPUS_PER_NODE": "2",
    "SLURM_GPUS_PER_SOCKET": "3", "SLURM_GPUS_PER_TASK": "1", "SLURM_GTIDS": "0",
    "SLURM_JOB_ACCOUNT": "chem",
    "SLURM_SHARDS_ON_NODE": "2",
    "SLURM_JOB_GPUS": "4,6", "SLURM_JOB_ID": "12000005", "SLURM_JOB_CPUS_PER_NODE": "4,2",
    "SLURM_JOB_DEPENDENCY": "afterok:9", "SLURM_JOB_NAME": "opt",
    "SLURM_JOB_NODELIST": "n[07-08]", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_PARTITION": "long",
    "SLURM_JOB_QOS": "high", "SLURM_JOBID": "12000005", "SLURM_LOCALID": "0",
    "SLURM_MEM_PER_CPU": "200", "SLURM_MEM_PER_GPU": "300", "SLURM_MEM_PER_NODE": "400",
    "SLURM_NNODES": "2", "SLURM_NODE_ALIASES": "(null)", "SLURM_NODEID": "0",
    "SLURM_NODELIST": "n[07-08]", "SLURM_NPROCS": "3", "SLURM_NTASKS": "3",
    "SLURM_NTASKS_PER_CORE": "1", "SLURM_NTASKS_PER_GPU": "1", "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_NTASKS_PER_SOCKET": "2", "SLURM_OVERCOMMIT": "1", "SLURM_PRIO_PROCESS": "4",
    "SLURM_PROCID": "0", "SLURM_RESTART_COUNT": "1", "SLURM_SUBMIT_DIR": "/home/ann/in",
    "SLURM_SUBMIT_HOST": "login1", "SLURM_TASK_PID": "", "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_THREADS_PER_CORE": "1", "SLURM_TOPOLOGY_ADDR": "n07",
    "SLURM_TOPOLOGY_ADDR_PATTERN": "node", "SLURMD_NODENAME": "n07", "SLURM_JOB_UID": "1001",
    "SLURM_JOB_GID": "100", "SLURM_JOB_USER": "ann", "ENVIRONMENT": "BATCH",
}  # fmt: skip

ASKED = {
    "cpus-per-gpu": "2", "cpus-per-task": "2", "distribution": "plane=2", "export": "ALL,FOO=1",
    "gpu-bind": "closest", "gpu-freq": "low", "gpus": "a100:2", "gpus-per-node": "2",
    "gpus-per-socket": "3", "gpus-per-task": "1", "account": "chem", "dependency": "afterok:9",
    "partition": "long", "qos": "high", "ntasks": "3", "ntasks-per-core": "1",
    "ntasks-per-gpu": "1", "ntasks-per-node": "2", "ntasks-per-socket": "2", "overcommit": "",
    "threads-per-core": "1", "submit-dir": "/home/ann/in", "shards": "2",
}  # fmt: skip


def batch_script(**options: str) -> dict[str, str]:
    array = ArraySpec(ranges=((3, 6, 2),))
    job = msgspec.structs.replace(JOB, options=ASKED | options, array=array)
    place = Place("n07", 4, "queue", (("n08", 2),), (4, 6), 0.419431, (1001, 100), 4)
    return slurm_variables(job, 12, 5, 2, place)


@pytest.mark.parametrize("name", MANUAL)
def test_each_variable_of_the_manual_has_its_right_value_or_a_reason_to_be_absent(
    name: str,
) -> None:
    stated = {"SLURM_MEM_PER_CPU": "mem-per-cpu", "SLURM_MEM_PER_GPU": "mem-per-gpu"}.get(name)
    found = batch_script(**({stated: RIGHT[name]} if stated else {}))

    if name in NOT_SET:
        assert NOT_SET[name]
        assert name not in found
    else:
        assert RIGHT[name] == found[name]
    if stated:  # memory is stated in one of three ways
        assert "SLURM_MEM_PER_NODE" not in found


def test_a_batch_script_has_no_other_variables() -> None:
    assert set(MANUAL) == NOT_SET.keys() | RIGHT.keys()
    assert batch_script().keys() <= RIGHT.keys()


def test_tasks_of_an_array_differ_in_few_variables() -> None:
    array = ArraySpec(ranges=((3, 6, 2), (8, 9, 1)))
    job = msgspec.structs.replace(JOB, options=ASKED, array=array)
    place = Place("n07", 4, "queue", (("n08", 2),), (4, 6), 0.419431, (1001, 100), 4)
    first, other = (own_variables(job, 12, task, 2, place, {}) for task in (3, 8))

    assert first != other
    assert first | task_variables(job, 12, 8, 2, place) == other


def test_the_manual_that_is_installed_has_no_variable_that_is_not_in_the_list() -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    text = subprocess.run(
        ["man", "sbatch"], capture_output=True, text=True, check=False, env={**os.environ, **PLAIN}
    ).stdout
    section = text.partition("OUTPUT ENVIRONMENT VARIABLES")[2].partition("\nEXAMPLES")[0]
    if not section:
        pytest.skip("the manual of sbatch is not installed")
    named = re.findall(r"^       (S(?:LURM|BATCH)\S*)$", section, re.MULTILINE)

    assert set(named) <= set(MANUAL)
    assert len(named) > 50


PLAIN = {"MANWIDTH": "80", "MANPAGER": "cat", "MAN_KEEP_FORMATTING": "", "GROFF_NO_SGR": "1"}


def test_a_job_on_several_nodes_without_a_number_of_tasks_has_none() -> None:
    found = on_nodes(**{"ntasks": "4", "ntasks-implied": "yes", "cpus-per-task": "2"})

    assert not {"SLURM_NTASKS", "SLURM_NPROCS"} & found.keys()
    assert "1(x4)" == found["SLURM_TASKS_PER_NODE"]


@pytest.mark.parametrize(
    ("memory", "mebibytes"),
    [(0.419431, "400"), (0.001049, "1"), (1, "953"), (1.073742, "1024"), (0, None)],
)
def test_memory_is_shown_in_units_of_slurm(memory: float, mebibytes: str | None) -> None:
    place = Place("n07", 4, "queue", memory=memory)

    assert mebibytes == slurm_variables(JOB, 1, None, 1, place).get("SLURM_MEM_PER_NODE")


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
    return own_variables(job, 12, None, 1, NODES, {})


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
        ({"submit-dir": "/"}, "4(x3),2", 1),
        ({"submit-dir": "/", "cpus-per-task": "2"}, "2(x3),1", 1),
    ],
)
def test_ranks_are_spread_over_workers(options: dict[str, str], ranks: str, threads: int) -> None:
    job = msgspec.structs.replace(JOB, options=options)

    assert ranks == on_nodes(**options)["SLURM_TASKS_PER_NODE"]
    assert threads == threads_each(job, NODES)


@pytest.mark.parametrize(
    ("nodes", "ntasks", "per_node", "tasks"),
    [
        (2, "2", None, "1(x2)"),
        (2, "3", None, "2,1"),
        (1, "2", "2", "2"),
        (2, "4", "2", "2(x2)"),
        (2, "2", "1", "1(x2)"),
        (2, "3", "2", "2(x2)"),
        (2, "2", "2", "2(x2)"),
        (1, "1", "2", "2"),
        (1, "3", "3", "3"),
    ],
)
def test_tasks_of_each_node_are_those_of_a_real_slurm(
    nodes: int, ntasks: str, per_node: str | None, tasks: str
) -> None:
    """As Slurm 22.05.8 had them, with --nodes, --ntasks and --ntasks-per-node."""
    options = {"submit-dir": "/", "ntasks": ntasks}
    if per_node is not None:
        options["ntasks-per-node"] = per_node
    job = msgspec.structs.replace(JOB, options=options)
    place = Place("n07", 4, "queue", NODES.others[: nodes - 1])

    assert tasks == own_variables(job, 12, None, 1, place, {})["SLURM_TASKS_PER_NODE"]


def test_the_workers_of_the_job_in_which_one_submits_do_not_leak_into_the_job() -> None:
    given = {"OMPI_MCA_plm_rsh_agent": "/tmp/rsh", "HYDRA_HOST_FILE": "f"}
    noted = "".join(f"{name}={value}\n" for name, value in given.items())
    outer = {"GRAIN_RSH": "/tmp/rsh", **given, "GRAIN_GIVEN": noted}

    found = environment(environment=outer)
    assert not {"GRAIN_RSH", *given} & set(found)
    chosen = environment(environment={"OMPI_MCA_btl": "tcp,self"})
    assert "tcp,self" == chosen["OMPI_MCA_btl"]
