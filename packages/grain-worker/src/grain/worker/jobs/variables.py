"""The environment of a job: what it was submitted with, and what it may want to know."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.queue.selectors import plain_number
from grain.resource.figures import hostlist, repeated
from grain.worker.auto import batch_system
from grain.worker.gang.rsh import CALL
from grain.worker.processes.environment import MARKS, without_given
from grain.worker.processes.mpi import RSH

if TYPE_CHECKING:
    from grain.queue.records import Job

# Variables of the batch job in which one submits. A program that finds them takes that job for its
# own: it starts its ranks there, or names its files by that job's number. Elsewhere they are the
# user's, such as SGE_ROOT or SBATCH_ACCOUNT.
_OUTER = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PBS_", "SGE_", "LSB_", "OAR_", "FLUX_")
# By these a batch job is known whose number a program has removed, as for Open MPI.
_TRACES = ("SLURM_JOBID", "SLURM_NODELIST", "SLURM_JOB_NODELIST", "GRAIN_JOB_ID")
# Those of a job that submits another one, which may not be a task, and has no mission.
_OF_JOB = (
    "GRAIN_QUEUE", "GRAIN_JOB_ID", "GRAIN_JOB_NAME", "GRAIN_ATTEMPT", "GRAIN_NODES",
    "GRAIN_ARRAY_TASK_ID", "GRAIN_ENTRY", "GRAIN_MISSION", "GRAIN_MAP_DETACHED", "GRAIN_RESUMED",
    "GRAIN_MEMBER", "GRAIN_NODE", "GRAIN_GANG_DOORS", "GRAIN_STEPS", RSH, CALL, MARKS.decode(),
)  # fmt: skip


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

    It has the variables of the submission, without those of a batch job, or of a program of
    Grain's, in which that happened, and the variables of sbatch(1), section "Output environment
    variables", as far as they mean something here. Each of these begins with ``SLURM_``; those that
    Grain's own documentation names begin with ``GRAIN_``.

    Args:
        task: the number of the task of an array; None for a job that is not one.
        attempt: from 1.
    """
    in_job = batch_system(job.environment) or any(name in job.environment for name in _TRACES)
    outer = ("PMI", *_OUTER) if in_job else ("PMI",)
    variables = {
        name: value
        for name, value in without_given(job.environment).items()
        if name not in _OF_JOB and not name.startswith(outer)
    }
    variables["PWD"] = job.directory
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


def soft_limits(job: Job) -> dict[int, int]:
    """Return the limits of a job by the numbers of `resource`, those that this host knows."""
    return {
        getattr(resource, f"RLIMIT_{name}"): limit
        for name, limit in job.limits.items()
        if hasattr(resource, f"RLIMIT_{name}")
    }


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
