"""The environment of a job: what it was submitted with, and what it may want to know."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from grain.files.batch_systems import BATCH_SYSTEMS
from grain.queue.selectors import plain_number
from grain.resource.figures import hostlist, repeated
from grain.worker.auto import batch_system
from grain.worker.gang.rsh import CALL
from grain.worker.processes.environment import ALLOCATED, MARKS, without_given
from grain.worker.processes.mpi import RSH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from grain.queue.records import Job

_MIB = 2**20

# Variables of the batch job in which one submits. A program that finds them takes that job for its
# own: it starts its ranks there, or names its files by that job's number. Elsewhere they are the
# user's, such as SGE_ROOT or SBATCH_ACCOUNT.
_OUTER = tuple(name for one in BATCH_SYSTEMS.values() for name in one.variables)
# By these a batch job is known whose number a program has removed, as for Open MPI.
_TRACES = ("SLURM_JOBID", "SLURM_NODELIST", "SLURM_JOB_NODELIST", "GRAIN_JOB_ID")
# Those of a job that submits another one, which may not be a task, and has no mission.
_OF_JOB = (
    "GRAIN_QUEUE", "GRAIN_JOB_ID", "GRAIN_JOB_NAME", "GRAIN_ATTEMPT", "GRAIN_NODES",
    "GRAIN_ARRAY_TASK_ID", "GRAIN_ENTRY", "GRAIN_MISSION", "GRAIN_MAP_DETACHED", "GRAIN_RESUMED",
    "GRAIN_MEMBER", "GRAIN_NODE", "GRAIN_GANG_DOORS", "GRAIN_STEPS", RSH, CALL, MARKS.decode(),
    ALLOCATED.decode(),
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """The place where an attempt runs.

    Attributes:
        host: name of the machine.
        cpus: CPUs of the task.
        queue: name of the queue.
        others: of a task on several workers, host and CPUs of each other one.
        gpus: ids of its GPUs on this worker.
        memory: GB that it asked for on each worker; 0 for none.
        user: numbers of the user and the group.
        nice: of its processes, as of nice(2).
    """

    host: str
    cpus: int
    queue: str
    others: tuple[tuple[str, int], ...] = ()
    gpus: tuple[int, ...] = ()
    memory: float = 0
    user: tuple[int, int] = (0, 0)
    nice: int = 0

    @property
    def hosts(self) -> list[str]:
        """The hosts of all workers."""
        return [self.host, *(host for host, _ in self.others)]

    @property
    def cpus_each(self) -> list[int]:
        """The CPUs on all workers."""
        return [self.cpus, *(cpus for _, cpus in self.others)]


class _Attempt(NamedTuple):
    job: Job
    number: int
    task: int | None
    attempt: int
    place: Place

    def option(self, name: str) -> str | None:
        return self.job.options.get(name)

    @property
    def tasks_each(self) -> list[int]:
        """The tasks of each node: as many as were stated, even for fewer in all, as of Slurm 22.05.

        Where no number is stated for a node, it is the ranks that each has room for.
        """
        stated = self.option("ntasks-per-node")
        hosts = self.place.hosts
        return ranks_each(self.job, self.place) if stated is None else [int(stated)] * len(hosts)

    @property
    def mebibytes(self) -> int | None:
        """The memory of a node in Slurm's units, unless it was stated for each CPU or GPU."""
        if any(self.option(name) for name in ("mem-per-cpu", "mem-per-gpu")):
            return None
        return int(round(self.place.memory * 1e6) * 1000 / _MIB) or None

    @property
    def ntasks(self) -> str | None:
        """The number of tasks, if it was asked for; one for each node is not."""
        return None if self.option("ntasks-implied") else self.option("ntasks")

    @property
    def array(self) -> tuple[tuple[int, int, int], ...] | None:
        """The ranges of its array: first, last and step."""
        return None if self.job.array is None or self.task is None else self.job.array.ranges


def _plain(name: str) -> Callable[[_Attempt], str | None]:
    return lambda attempt: attempt.option(name)


# sbatch(1), "Output environment variables", and what else a real batch script has. None: not set.
_SLURM: dict[str, Callable[[_Attempt], object]] = {
    "ENVIRONMENT": lambda _: "BATCH",
    "SLURMD_NODENAME": lambda a: a.place.host,
    "SLURM_ARRAY_JOB_ID": lambda a: a.array and a.number,
    "SLURM_ARRAY_TASK_COUNT": lambda a: a.array and sum(map(_count, a.array)),
    "SLURM_ARRAY_TASK_ID": lambda a: a.task if a.array else None,
    "SLURM_ARRAY_TASK_MAX": lambda a: a.array and max(
        first + (last - first) // step * step for first, last, step in a.array),
    "SLURM_ARRAY_TASK_MIN": lambda a: min(one[0] for one in a.array) if a.array else None,
    # sbatch sets it for every array; of several ranges only the first step is one.
    "SLURM_ARRAY_TASK_STEP": lambda a: a.array and a.array[0][2],
    "SLURM_CLUSTER_NAME": lambda _: "grain",
    "SLURM_CPUS_ON_NODE": lambda a: a.place.cpus,
    "SLURM_CPUS_PER_GPU": _plain("cpus-per-gpu"),
    "SLURM_CPUS_PER_TASK": _plain("cpus-per-task"),
    "SLURM_DISTRIBUTION": lambda a: (a.option("distribution") or "").partition("=")[0] or None,
    "SLURM_DIST_PLANESIZE": lambda a: (a.option("distribution") or "").partition("=")[2] or None,
    "SLURM_EXPORT_ENV": _plain("export"),
    "SLURM_GPUS": _plain("gpus"),
    "SLURM_GPUS_ON_NODE": lambda a: len(a.place.gpus) or None,
    "SLURM_GPUS_PER_NODE": _plain("gpus-per-node"),
    "SLURM_GPUS_PER_SOCKET": _plain("gpus-per-socket"),
    "SLURM_GPUS_PER_TASK": _plain("gpus-per-task"),
    "SLURM_GPU_BIND": _plain("gpu-bind"),
    "SLURM_GPU_FREQ": _plain("gpu-freq"),
    "SLURM_GTIDS": lambda _: 0,  # of a batch script, whatever its steps have
    "SLURM_JOBID": lambda a: plain_number(a.number, a.task),
    "SLURM_JOB_ACCOUNT": _plain("account"),
    "SLURM_JOB_CPUS_PER_NODE": lambda a: repeated(a.place.cpus_each),
    "SLURM_JOB_DEPENDENCY": _plain("dependency"),
    "SLURM_JOB_GID": lambda a: a.place.user[1],
    "SLURM_JOB_GPUS": lambda a: ",".join(map(str, a.place.gpus)) or None,
    "SLURM_JOB_ID": lambda a: plain_number(a.number, a.task),
    "SLURM_JOB_NAME": lambda a: a.job.name,
    "SLURM_JOB_NODELIST": lambda a: hostlist(a.place.hosts),
    "SLURM_JOB_NUM_NODES": lambda a: len(a.place.hosts),
    "SLURM_JOB_PARTITION": lambda a: a.job.options.get("partition", a.place.queue),
    "SLURM_JOB_QOS": _plain("qos"),
    "SLURM_JOB_UID": lambda a: a.place.user[0],
    "SLURM_JOB_USER": lambda a: a.job.user,
    "SLURM_LOCALID": lambda _: 0,
    "SLURM_MEM_PER_CPU": _plain("mem-per-cpu"),
    "SLURM_MEM_PER_GPU": _plain("mem-per-gpu"),
    "SLURM_MEM_PER_NODE": lambda a: a.mebibytes,
    "SLURM_NNODES": lambda a: len(a.place.hosts),
    "SLURM_NODEID": lambda _: 0,
    "SLURM_NODELIST": lambda a: hostlist(a.place.hosts),
    "SLURM_NODE_ALIASES": lambda _: "(null)",
    "SLURM_NPROCS": lambda a: a.ntasks,
    "SLURM_NTASKS": lambda a: a.ntasks,
    "SLURM_NTASKS_PER_CORE": _plain("ntasks-per-core"),
    "SLURM_NTASKS_PER_GPU": _plain("ntasks-per-gpu"),
    "SLURM_NTASKS_PER_NODE": _plain("ntasks-per-node"),
    "SLURM_NTASKS_PER_SOCKET": _plain("ntasks-per-socket"),
    "SLURM_HINT": lambda a: a.option("hint"),
    "SLURM_OVERCOMMIT": lambda a: None if a.option("overcommit") is None else 1,
    "SLURM_PRIO_PROCESS": lambda a: a.place.nice,
    "SLURM_PROCID": lambda _: 0,
    "SLURM_RESTART_COUNT": lambda a: a.attempt - 1 or None,
    "SLURM_SHARDS_ON_NODE": _plain("shards"),
    "SLURM_SUBMIT_DIR": lambda a: a.job.options.get("submit-dir", a.job.directory),
    "SLURM_SUBMIT_HOST": lambda a: a.job.host,
    "SLURM_TASKS_PER_NODE": lambda a: repeated(a.tasks_each),
    # The process itself sets it (`grain.worker.guards.program`). That takes a fork(2) and a
    # millisecond, so only jobs of sbatch have it.
    "SLURM_TASK_PID": lambda a: None if a.option("submit-dir") is None else "",
    "SLURM_THREADS_PER_CORE": _plain("threads-per-core"),
    "SLURM_TOPOLOGY_ADDR": lambda a: a.place.host,
    "SLURM_TOPOLOGY_ADDR_PATTERN": lambda _: "node",
}  # fmt: skip

_OF_TASK = ("SLURM_ARRAY_TASK_ID", "SLURM_JOBID", "SLURM_JOB_ID")

NOT_SET = {
    "SBATCH_MEM_BIND": "memory is not bound to CPUs",
    "SBATCH_MEM_BIND_LIST": "memory is not bound to CPUs",
    "SBATCH_MEM_BIND_PREFER": "memory is not bound to CPUs",
    "SBATCH_MEM_BIND_TYPE": "memory is not bound to CPUs",
    "SBATCH_MEM_BIND_VERBOSE": "memory is not bound to CPUs",
    "SLURM_*_HET_GROUP_#": "all nodes of a job have the same",
    "SLURM_HET_SIZE": "all nodes of a job have the same",
    "SLURM_CONF": "there is no such file; the system's commands would read it",
    "SLURM_CONTAINER": "containers are refused",
    "SLURM_JOB_RESERVATION": "Grain has no reservations",
    "SLURM_PROFILE": "nothing is profiled",
}
"""Variables that sbatch(1) lists and no job has, with the reason."""


def slurm_variables(
    job: Job, number: int, task: int | None, attempt: int, place: Place
) -> dict[str, str]:
    """Return the variables of a batch script under Slurm; arguments as of `own_variables`."""
    return _values(_SLURM, _Attempt(job, number, task, attempt, place))


def _values(names: Iterable[str], attempt: _Attempt) -> dict[str, str]:
    values = ((name, _SLURM[name](attempt)) for name in names)
    return {name: str(value) for name, value in values if value is not None}


def task_variables(
    job: Job, number: int, task: int | None, attempt: int, place: Place
) -> dict[str, str]:
    """Return those of `own_variables` that differ between tasks of an array; arguments as of it."""
    variables = _values(_OF_TASK, _Attempt(job, number, task, attempt, place))
    if task is not None:
        variables["GRAIN_ARRAY_TASK_ID"] = str(task)
    return variables


def submitted_variables(job: Job) -> dict[str, str]:
    """Return the variables of the submission that a job gets.

    They are without those of a batch job, or of a program of Grain's, in which that happened.
    """
    in_job = batch_system(job.environment) or any(name in job.environment for name in _TRACES)
    outer = ("PMI", *_OUTER) if in_job else ("PMI",)
    return {
        name: value
        for name, value in without_given(job.environment).items()
        if name not in _OF_JOB and not name.startswith(outer)
    }


def own_variables(
    job: Job,
    number: int,
    task: int | None,
    attempt: int,
    place: Place,
    submitted: Mapping[str, str],
) -> dict[str, str]:
    """Return the variables of an attempt, which win over those of the submission.

    A batch script has most of them under Slurm. The others are Grain's own, and their names begin
    with ``GRAIN_``.

    Args:
        task: the number of the task of an array; None for a job that is not one.
        attempt: from 1.
        submitted: as `submitted_variables` returns them.
    """
    variables = {"PWD": job.directory, "HOSTNAME": place.host}
    # A job of sbatch: measured on a real Slurm, on no page of its.
    if "submit-dir" in job.options and "TMPDIR" not in submitted:
        variables["TMPDIR"] = "/tmp"  # noqa: S108
    variables |= slurm_variables(job, number, task, attempt, place)
    variables |= {
        "GRAIN_QUEUE": place.queue,
        "GRAIN_JOB_ID": str(number),
        "GRAIN_JOB_NAME": job.name,
        "GRAIN_ATTEMPT": str(attempt),
        "GRAIN_NODES": ",".join(place.hosts),
    }
    return variables | task_variables(job, number, task, attempt, place)


def ranks_each(job: Job, place: Place) -> list[int]:
    """Return for how many ranks each worker has room.

    Without a number of tasks there is one on each of its cores, or on each ``--cpus-per-task`` of
    them. Tasks are spread evenly over workers, as ``--distribution=block`` does.
    """
    if "ntasks" not in job.options:
        each = int(job.options.get("cpus-per-task", "1"))
        return [max(cpus // each, 1) for cpus in place.cpus_each]
    nodes = len(place.hosts)
    each, more = divmod(max(int(job.options["ntasks"]), nodes), nodes)
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


def _count(part: tuple[int, int, int]) -> int:
    """Return the number of tasks of a range of an array."""
    first, last, step = part
    return (last - first) // step + 1
