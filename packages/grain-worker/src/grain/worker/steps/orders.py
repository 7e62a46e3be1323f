"""The question of srun for a step of a job, and the answer, as plain data."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grain.queue import patterns
from grain.resource import gpu_variables, named_by_numbers
from grain.resource.figures import hostlist, repeated
from grain.worker.steps.shares import StepImpossible, StepWish, of_process, places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from grain.worker.steps.shares import MemberShare

# What srun sets again if its caller has removed it, as far as the job has it.
_AGAIN = (
    "JOB_ID", "JOBID", "JOB_NAME", "JOB_USER", "JOB_UID", "JOB_GID", "JOB_PARTITION",
    "JOB_NODELIST", "JOB_GPUS", "NODELIST", "CLUSTER_NAME",
)  # fmt: skip


ANSWER = 2
"""The form of `answer`, to be changed with it: srun may be of another Grain than the worker."""

GPUS = "GRAIN_STEP_GPUS"
"""The variable of a process on another member with its GPUs: see `grain.worker.gang.rank`."""


class StepOrder(msgspec.Struct, frozen=True):
    """A step that srun asks for, the first line that it sends.

    Attributes:
        name: of the step.
        directory: where its processes run.
        environment: the variables of srun that begin with ``SLURM_``.
        tasks, nodes: numbers; 0 for that of the job.
        tasks_per_node: at most; 0 for any number.
        each: CPUs of each process; 0 for one.
        hosts: of the members to take; empty for all.
        excluded: hosts of members that are not to be taken.
        relative: the first member to take.
        exact, overlap, overcommit, memory, memory_per_cpu, gpus_per_task: as of
            `grain.worker.steps.shares.StepWish`.
        distribution: as ``cyclic:block`` or ``plane=2``; "" for that of srun.
        gpus: on each member; None for all.
        gpus_in_all: in all; 0 for no such wish.
        immediate: True to be refused instead of waiting.
        quiet: True not to be told of the waiting.
        limit: seconds after which it is ended; 0 for none.
        stdin, stdout, stderr: patterns of files; "" for none.
    """

    name: str = ""
    directory: str = ""
    environment: dict[str, str] = {}
    tasks: int = 0
    nodes: int = 0
    tasks_per_node: int = 0
    each: int = 0
    hosts: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    relative: int = 0
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    distribution: str = ""
    memory: float | None = None
    memory_per_cpu: float | None = None
    gpus: int | None = None
    gpus_per_task: int = 0
    gpus_in_all: int = 0
    immediate: bool = False
    quiet: bool = False
    limit: float = 0.0
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""


class StepTold(msgspec.Struct, frozen=True):
    """A report of srun on its step.

    Attributes:
        started: pids of its processes.
        ended: exit statuses of all, or negative signals; None as long as they have not.
        cpu: CPU seconds of those on this host.
        memory: the peak of one of these, in GB.
        cancelled: True if srun has ended the step upon a signal.
    """

    started: tuple[int, ...] = ()
    ended: tuple[int, ...] | None = None
    cpu: float = 0.0
    memory: float = 0.0
    cancelled: bool = False


class StepJob(NamedTuple):
    """The job of steps.

    Attributes:
        variables: those of its script that Slurm knows, by their names without ``SLURM_``.
        hosts: of its members.
        bound: True for each member whose programs are bound to CPUs.
        seen_by: the environment of the worker, by which its GPUs are named; None if the job has
            none.
        gpus: the ids of the GPUs of each member, where the job has any.
        threads: the variables with numbers of threads that Grain has given to the script.
        address: of the first member, by which the others reach it.
    """

    variables: Mapping[str, str]
    hosts: Sequence[str]
    bound: Sequence[bool]
    seen_by: Mapping[str, str] | None = None
    threads: Mapping[str, str] = {}
    gpus: Sequence[Sequence[str]] = ()
    address: str = "127.0.0.1"

    @property
    def number(self) -> str:
        """Its number, which no other job or task has."""
        return self.variables["JOB_ID"]

    @property
    def names(self) -> list[str]:
        """The names of its members, as Slurm has them."""
        return [host.partition(".")[0] for host in self.hosts]


def wish_of(order: StepOrder, job: StepJob) -> StepWish:
    """Return what a step needs, with the defaults of its job.

    Raises:
        StepImpossible: the job has no such members.
    """
    chosen = list(range(len(job.hosts)))
    if order.hosts:
        wanted = {host.partition(".")[0] for host in order.hosts}
        if not wanted <= set(job.names):
            raise StepImpossible("Requested node configuration is not available")
        chosen = [place for place in chosen if job.names[place] in wanted]
    elif order.relative:
        chosen = chosen[order.relative :]
    excluded = {host.partition(".")[0] for host in order.excluded}
    chosen = [place for place in chosen if job.names[place] not in excluded]
    if excluded and not chosen:
        raise StepImpossible("Hostlist is empty!  Can't run job.")
    tasks = order.tasks or order.tasks_per_node * (order.nodes or len(chosen))
    nodes = order.nodes or min(len(chosen), tasks or len(chosen))
    if order.relative and not order.hosts and nodes > len(chosen):
        count = f"({order.relative}+{nodes}>{len(job.hosts)})"
        raise StepImpossible(
            "--relative and --nodes option incompatible with count of allocated nodes " + count
        )
    if nodes > len(chosen):
        raise StepImpossible(f"Only allocated {len(chosen)} nodes asked for {nodes}")
    tasks = tasks or nodes
    gpus = order.gpus
    nodes = min(nodes, tasks)
    if order.gpus_in_all:
        gpus = -(-order.gpus_in_all // nodes)
    return StepWish(
        tasks=tasks,
        nodes=nodes,
        each=order.each or 1,
        most=order.tasks_per_node,
        members=tuple(chosen),
        whole=not order.exact,
        overlap=order.overlap,
        overcommit=order.overcommit,
        memory=_unlike(order.memory, job.variables.get("MEM_PER_NODE")),
        memory_per_cpu=_unlike(order.memory_per_cpu, job.variables.get("MEM_PER_CPU")),
        gpus=gpus,
        gpus_per_task=order.gpus_per_task,
        plane=_plane(order.distribution),
    )


def _unlike(asked: float | None, told: str | None) -> float | None:
    """Return an amount of memory; None if it is what the job was told, as srun read it there.

    The job may have a part of a MB more.
    """
    return None if asked is not None and f"{asked:.0f}" == told else asked


def _plane(distribution: str) -> int:
    """Return how many processes follow each other on a member; 0 for as many as it has."""
    word, _, size = distribution.partition("=")
    if word == "plane":
        return int(size.partition(",")[0])
    return int(word.startswith("cyclic"))


def answer(
    step: int, order: StepOrder, wish: StepWish, shares: Sequence[MemberShare], job: StepJob
) -> dict[str, Any]:
    """Return what srun needs to start the processes of a step.

    Its ``variables`` are for all processes. Each of the ``ranks`` has its ``member`` and the name
    of that, its own ``variables``, the ``cpus`` to bind it to, and the paths of its files. Its
    number of ``threads`` is for variables that still have the values of the answer's ``threads``.
    """
    names = [job.names[share.member] for share in shares]
    counts = [share.tasks for share in shares]
    nodelist, each_node = hostlist(names), repeated(counts)
    missing = {
        f"SLURM_{name}": job.variables[name]
        for name in _AGAIN
        if name in job.variables and f"SLURM_{name}" not in order.environment
    }
    if "SLURM_JOB_NAME" in missing:
        missing["SLURM_JOB_NAME"] = order.name
    usual = "block" if wish.tasks > len(shares) else "cyclic"
    facts = {
        "LAUNCH_NODE_IPADDR": job.address,  # srun runs on the first member
        "SRUN_COMM_HOST": job.address,
        "NNODES": str(len(shares)),
        "NPROCS": str(wish.tasks),
        "NTASKS": str(wish.tasks),
        "TASKS_PER_NODE": each_node,
        "DISTRIBUTION": order.distribution.partition("=")[0] or usual,
        "STEPID": str(step),
        "STEP_ID": str(step),
        "STEP_NODELIST": nodelist,
        "STEP_NUM_NODES": str(len(shares)),
        "STEP_NUM_TASKS": str(wish.tasks),
        "STEP_TASKS_PER_NODE": each_node,
    }
    if order.each:
        facts["CPUS_PER_TASK"] = str(order.each)
    if order.tasks_per_node:
        facts["NTASKS_PER_NODE"] = str(order.tasks_per_node)
    if order.distribution.startswith("plane"):
        facts["DIST_PLANESIZE"] = str(wish.plane)
    common = missing | {f"SLURM_{name}": value for name, value in facts.items()}
    spots = places(shares, wish.plane)
    of_node: dict[int, list[str]] = {}
    for rank, (node, _) in enumerate(spots):
        of_node.setdefault(node, []).append(str(rank))
    ranks = []
    for rank, (node, local) in enumerate(spots):
        share = shares[node]
        cpus, gpus = of_process(share, local, wish)
        own = {
            "PROCID": str(rank),
            "NODEID": str(node),
            "LOCALID": str(local),
            "GTIDS": ",".join(of_node[node]),
            "CPUS_ON_NODE": str(len(share.cpus)),
        }
        if share.gpus:
            own |= {"STEP_GPUS": ",".join(share.gpus), "GPUS_ON_NODE": str(len(share.gpus))}
        own |= {name: names[node] for name in ("TOPOLOGY_ADDR",) if name in job.variables}
        variables = {f"SLURM_{name}": value for name, value in own.items()}
        if "SLURMD_NODENAME" in order.environment:
            variables["SLURMD_NODENAME"] = names[node]
        # The job's devices are all that it sees, so none means none of them.
        if job.seen_by is not None:
            variables |= _devices(share.member, gpus, job, job.seen_by)
        ranks.append(
            {
                "member": share.member,
                "name": names[node],
                "variables": variables,
                "threads": str(max(len(share.cpus) // share.tasks, 1)),
                "cpus": cpus if job.bound[share.member] else (),
                "stdin": _path(order.stdin, order, job, step, rank, node, names[node]),
                "stdout": _path(order.stdout, order, job, step, rank, node, names[node]),
                "stderr": _path(order.stderr, order, job, step, rank, node, names[node]),
            }
        )
    return {
        "form": ANSWER,
        "step": step,
        "job": job.number,
        "variables": common,
        "threads": job.threads,
        "ranks": ranks,
    }


def _devices(
    member: int, gpus: Sequence[str], job: StepJob, seen_by: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of devices of a process.

    Names are this worker's. Another one knows its own, so a process there is told which of the
    job's GPUs it has, for `grain.worker.gang.rank`.
    """
    numbered = named_by_numbers(seen_by)
    variables: dict[str, str] = {}
    if not member or numbered:
        variables = gpu_variables([int(gpu) for gpu in gpus], seen_by)
    if member:
        places = ",".join(str(job.gpus[member].index(gpu)) for gpu in gpus)
        variables[GPUS] = f"{places}:{'' if numbered else ','.join(gpus)}"
    return variables


def _path(
    pattern: str, order: StepOrder, job: StepJob, step: int, rank: int, node: int, host: str
) -> str:
    """Return the path of a file of a process; "" for none.

    Its pattern is as srun(1) has it, section "filename pattern".
    """
    if not pattern:
        return ""
    number = job.number
    array, task = job.variables.get("ARRAY_JOB_ID", number), job.variables.get("ARRAY_TASK_ID")
    # %A is the number of the array, and %j that of the task, which differ here.
    shown = pattern
    if "\\" not in pattern:
        shown = pattern.replace("%j", number).replace("%J", f"{number}.{step}")
    facts = patterns.Facts(
        number=int(array) if array.isdecimal() else 0,
        task=int(task) if task is not None and task.isdecimal() else None,
        name=order.environment.get("SLURM_JOB_NAME") or job.variables.get("JOB_NAME", ""),
        user=job.variables.get("JOB_USER", ""),
        host=host,
        node=node,
        rank=rank,
        step=step,
    )
    return posixpath.normpath(str(patterns.path(shown, facts, order.directory)))
