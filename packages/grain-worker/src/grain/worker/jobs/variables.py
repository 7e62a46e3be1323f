"""The environment of a job: what it was submitted with, and what it may want to know."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.queue.selectors import plain_number
from grain.resource.figures import hostlist, repeated
from grain.worker.gang.rsh import CALL
from grain.worker.processes.mpi import RSH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.queue.records import Job

# Variables of the batch job in which the worker runs. A program that finds them takes the job of
# the worker for its own: it starts its ranks there, or names its files by that job's number.
_OUTER = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PBS_", "SGE_", "LSB_", "OAR_", "FLUX_", "PMI")
# Those of a task of an array that submits a job: the job may be no task, and has other inputs.
_OF_TASK = ("GRAIN_ARRAY_TASK_ID", "GRAIN_ENTRY")

_LAUNCHERS = ("OMPI_MCA_", "PRTE_MCA_", "HYDRA_", "I_MPI_", RSH, CALL)


@dataclass(frozen=True)
class Place:
    """The place where an attempt runs.

    Attributes:
        host: name of the machine.
        cpus: CPUs of the task.
        queue: name of the queue.
        others: of a task on several workers, host and CPUs of each other one.
    """

    host: str
    cpus: int
    queue: str
    others: tuple[tuple[str, int], ...] = ()

    @property
    def hosts(self) -> list[str]:
        """The hosts of all workers."""
        return [self.host, *(host for host, _ in self.others)]

    @property
    def cpus_each(self) -> list[int]:
        """The CPUs on all workers."""
        return [self.cpus, *(cpus for _, cpus in self.others)]


def job_environment(
    job: Job, number: int, task: int | None, attempt: int, place: Place
) -> dict[str, str]:
    """Return the whole environment of an attempt.

    It has the variables of the submission, without those of a batch job in which that happened,
    and the variables of sbatch(1), section "Output environment variables", as far as they mean
    something here. Each begins with ``SLURM_``; the ones that Grain's own documentation names
    begin with ``GRAIN_``.

    Args:
        task: the number of the task of an array; None for a job that is not one.
        attempt: from 1.
    """
    variables = {
        name: value
        for name, value in job.environment.items()
        if not name.startswith(_OUTER)
        and name not in _OF_TASK
        # Those of a job on several workers, in which this one was submitted, lead to those.
        and not (RSH in job.environment and name.startswith(_LAUNCHERS))
    }
    own = str(plain_number(number, task))
    nodes, nodelist = str(len(place.hosts)), hostlist(place.hosts)
    facts = {
        "JOB_ID": own,
        "JOBID": own,
        "JOB_NAME": job.name,
        "JOB_USER": job.user,
        "SUBMIT_DIR": job.options.get("submit-dir", job.directory),
        "SUBMIT_HOST": job.host,
        "CLUSTER_NAME": "grain",
        "JOB_PARTITION": job.options.get("partition", place.queue),
        "CPUS_ON_NODE": str(place.cpus),
        "JOB_CPUS_PER_NODE": repeated(place.cpus_each),
        "JOB_NUM_NODES": nodes,
        "NNODES": nodes,
        "JOB_NODELIST": nodelist,
        "NODELIST": nodelist,
        "NODEID": "0",
        "PROCID": "0",
        "LOCALID": "0",
    }
    tasks = job.options.get("ntasks")
    if tasks is not None:
        facts |= {"NTASKS": tasks, "NPROCS": tasks}
    facts["TASKS_PER_NODE"] = repeated(ranks_each(job, place))
    each = job.options.get("cpus-per-task")
    if each is not None:
        facts["CPUS_PER_TASK"] = each
    if attempt > 1:
        facts["RESTART_COUNT"] = str(attempt - 1)
    if job.array is not None and task is not None:
        facts |= {"ARRAY_JOB_ID": str(number), "ARRAY_TASK_ID": str(task)}
        facts |= _array_facts(job.array.ranges)
    variables |= {f"SLURM_{name}": value for name, value in facts.items()}
    variables |= {
        "GRAIN_QUEUE": place.queue,
        "GRAIN_JOB_ID": str(number),
        "GRAIN_JOB_NAME": job.name,
        "GRAIN_ATTEMPT": str(attempt),
        "GRAIN_NODES": ",".join(place.hosts),
    }
    if task is not None:
        variables["GRAIN_ARRAY_TASK_ID"] = str(task)
    return variables


def ranks_each(job: Job, place: Place) -> list[int]:
    """Return for how many ranks each worker has room.

    sbatch has one task where it was told of no others; a job of ``grain submit`` may have a rank on
    each of its cores. Tasks are spread evenly over workers, as ``--distribution=block`` does.
    """
    if "ntasks" not in job.options and "submit-dir" not in job.options:
        return place.cpus_each
    nodes = len(place.hosts)
    each, more = divmod(max(int(job.options.get("ntasks", "1")), nodes), nodes)
    return [each + (index < more) for index in range(nodes)]


def threads_each(job: Job, place: Place) -> int:
    """Return the threads of each process of a job: its ranks, if it has several, share its CPUs.

    A job on several workers has a rank on each CPU, if it does not say how many.
    """
    if place.others and "ntasks" not in job.options:
        return 1
    return max(sum(place.cpus_each) // int(job.options.get("ntasks", "1")), 1)


def inherited(variables: Mapping[str, str], mark: bytes) -> dict[bytes, bytes]:
    """Return the environment as bytes, with what this process needs to find its descendants.

    Args:
        mark: the name of the variable with the marks of subreapers.
    """
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    if mark in os.environb:
        encoded[mark] = os.environb[mark]
    return encoded


def _array_facts(ranges: tuple[tuple[int, int, int], ...]) -> dict[str, str]:
    lasts = [first + (last - first) // step * step for first, last, step in ranges]
    count = sum((last - first) // step + 1 for first, last, step in ranges)
    facts = {
        "ARRAY_TASK_COUNT": str(count),
        "ARRAY_TASK_MIN": str(min(first for first, _, _ in ranges)),
        "ARRAY_TASK_MAX": str(max(lasts)),
    }
    # sbatch sets it for every array; of several ranges only the first step is one.
    return facts | {"ARRAY_TASK_STEP": str(ranges[0][2])}
