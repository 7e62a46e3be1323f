"""The resources that a worker offers, from a snapshot of its host. Pure functions.

    Cores   The CPUs of the affinity mask and the cpuset. If the batch system granted fewer than
            these, that many of them.
    Memory  The least of: the machine's memory, the limits of the control groups, the grants of
            Slurm and HTCondor.
    WTime   The time until the job's end, if the batch system states it.
    GPUs    The GPUs that the variables of their vendor let this process see (`grain.resource`), or
            the ones granted by Slurm. Without a batch system, all of NVIDIA's.
    Host    The name of the host, without its domain. It is offered only where that is asked for.

Sources: sched_getaffinity(2) and cpuset(7); cgroups(7); sbatch(1), "Output environment variables";
pbs_ijob and qsub(1B) for NCPUS and PBS_NODEFILE; Torque's qsub for PBS_NUM_PPN and PBS_WALLTIME;
Grid Engine's qsub(1) for NSLOTS; LSF's "Environment variables" for LSB_DJOB_NUMPROC; HTCondor's
manual for the machine ad; oarsub(1) for OAR_NODEFILE; flux-job(1) for the time left.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.files.batch_systems import BATCH_SYSTEMS, facts_of
from grain.resource import (
    Cores,
    GPUs,
    Resource,
    WTime,
    check_offer,
    from_data,
    gpu_ids,
    named_by_numbers,
)
from grain.worker.errors import UsageError
from grain.worker.node.cgroup import parse_ids
from grain.worker.node.topology import with_groups, with_near

if TYPE_CHECKING:
    from grain.worker.node.host_info import HostInfo

_MIB = 1024**2


class NodeOffer(NamedTuple):
    """The resources that a worker offers.

    Attributes:
        time: seconds for which the worker can run tasks; None if that is unlimited or unknown.
        remarks: sentences for the log, about what may surprise the user.
    """

    resources: Resource
    time: float | None
    remarks: tuple[str, ...] = ()


class Bounds(NamedTuple):
    """The part of a detected amount to offer: all but `less`, and `most` at most."""

    less: float = 0.0
    most: float = math.inf


AUTO: Mapping[str, Any] = {
    "Cores": "auto",
    "Memory": {"auto": {"less": 0.5}},
    "GPUs": "auto",
    "WTime": {"auto": {"less": 60}},
}
"""The offer by default: everything, less 0.5 GB and a minute for the worker itself."""


def batch_system(environ: Mapping[str, str]) -> str:
    """Return the batch system that runs this job, as in ``slurm``; ``""`` if none does."""
    found = [system for system, one in BATCH_SYSTEMS.items() if one.mark in environ]
    # A job of Flux may be within one of another batch system, which counts.
    return min(found, key=lambda system: system == "flux", default="")


def batch_job(environ: Mapping[str, str]) -> str:
    """Return this job as its batch system calls it; empty if there is none."""
    return environ.get(facts_of(batch_system(environ)).number, "")


def batch_id(environ: Mapping[str, str]) -> str:
    """Return this job as the commands of its batch system name it.

    Empty if there is none, or if its batch system lists no jobs that have ended.

    >>> batch_id({"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1"})
    '7_1'
    """
    system = batch_system(environ)
    if system == "slurm" and "SLURM_ARRAY_TASK_ID" in environ:
        return f"{environ.get('SLURM_ARRAY_JOB_ID')}_{environ['SLURM_ARRAY_TASK_ID']}"
    if system == "lsf" and environ.get("LSB_JOBINDEX", "0") != "0":
        return ""  # bjobs gives all tasks of an array the same number
    return environ.get(facts_of(system).listed, "")


def batch_cluster(environ: Mapping[str, str]) -> str:
    """Return the name of this job's cluster, as its batch system states it; empty if it does not.

    >>> batch_cluster({"PBS_JOBID": "1234[5].pbs01.example.org"})
    'pbs01'
    """
    system = batch_system(environ)
    if system == "pbs":  # the id ends with the name of the server
        return environ["PBS_JOBID"].partition(".")[2].partition(".")[0]
    return environ.get(facts_of(system).cluster, "")


def detect_resources(stated: Any, info: HostInfo, *, hyperthreads: bool = True) -> NodeOffer:
    """Return what a worker offers.

    Its CPUs and GPUs know which of them are near each other, as far as the host does.

    Args:
        stated: ``"auto"``, which stands for `AUTO`; or a dict from kind to its data. With
            ``"auto": True`` in it, `AUTO` holds for the kinds that it does not mention. The data
            may be ``"auto"``: the detected amount, if there is any; or ``{"auto": {"less": 0.5,
            "most": 8}}``: the detected amount less 0.5, and 8 at most (of cores and GPUs that many
            of the detected ones); or None: nothing of this kind.
        hyperthreads: False to detect one CPU of each core.

    Raises:
        UsageError: ``stated`` is none of these.
    """
    if stated == "auto":
        stated = AUTO
    if not isinstance(stated, Mapping):
        raise UsageError(
            f'resources {stated!r}: say "auto", or an object of kinds, as in '
            '{"Cores": 4, "Memory": 16} or {"auto": true, "Memory": 60}'
        )
    kinds = dict(stated)
    rest = kinds.pop("auto", False)
    if not isinstance(rest, bool):
        raise UsageError(f'resources: "auto" is true or false, not {rest!r}')
    remarks: list[str] = []
    offered = {}
    for kind, data in {**(AUTO if rest else {}), **kinds}.items():
        bounds = _bounds_of(kind, data)
        amount = data if bounds is None else _detect(kind, bounds, info, hyperthreads, remarks)
        if amount is not None:
            offered[kind] = amount
    try:
        resources = from_data(offered)
        check_offer(resources)
        resources = _with_topology(_stated_gpus(resources, info), info)
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"resources: {error}") from error
    time = resources.get(WTime)
    left = time.T if isinstance(time, WTime) else None
    return NodeOffer(resources, left, tuple(remarks))


def _with_topology(resources: Resource, info: HostInfo) -> Resource:
    """Return what a worker offers, with the groups of its CPUs, and the CPUs near its GPUs.

    There are none where the ids are mere numbers, because this process may not use such CPUs, or
    where GPUs have names, or a batch system may have given them other numbers.
    """
    cores, gpus = resources.get(Cores), resources.get(GPUs)
    ids = cores.c if isinstance(cores, Cores) else []
    if info.affinity.issuperset(ids):
        resources = with_groups(resources, info.groups)
    numbers = gpus.g if isinstance(gpus, GPUs) else []
    renumbered = not named_by_numbers(info.environ) or (
        batch_system(info.environ) and len(numbers) < len(info.devices)
    )
    return resources if renumbered else with_near(resources, info.near)


def _bounds_of(kind: str, data: Any) -> Bounds | None:
    """Return the bounds of a kind to detect; None for a kind whose amount is stated."""
    if data == "auto":
        return Bounds()
    if not isinstance(data, Mapping) or "auto" not in data:
        return None
    bounds = data["auto"] if len(data) == 1 else None
    if not isinstance(bounds, Mapping) or not bounds.keys() <= {"less", "most"}:
        raise UsageError(
            f'resources: {kind} {dict(data)!r}: say "auto", or as in '
            '{"auto": {"less": 0.5, "most": 8}}'
        )
    given = {name: value for name, value in bounds.items() if value is not None}
    for name, value in given.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value < math.inf
        ):
            raise UsageError(f'resources: {kind}: "{name}" is a number of 0 or more, not {value!r}')
    return Bounds(**given)


def _detect(
    kind: str, bounds: Bounds, info: HostInfo, hyperthreads: bool, remarks: list[str]
) -> Any:
    """Return the data of one kind within its bounds; None if there is nothing of it."""
    match kind:
        case "Cores":
            ids = cpu_ids(info, remarks)
            if len(ids) < bounds.most < math.inf:
                remarks.append(
                    f"{bounds.most:g} CPUs were asked for, and this process may use {len(ids)}: "
                    "no more are offered"
                )
            return _first(ids if hyperthreads else info.groups.one_of_each_core(ids), bounds)
        case "GPUs":
            return _first(detected_gpus(info), bounds) or None
        case "Memory":
            size = memory_bytes(info)
            return None if size is None else _within(size / 1e9, bounds)
        case "Host":
            return info.hostname.partition(".")[0] or None
        case "WTime":
            seconds = time_left(info)
            return None if seconds is None else {"T": _within(seconds, bounds), "countdown": True}
        case _:
            raise UsageError(f"resources: {kind} cannot be found out, state it")


def _first(ids: list[int], bounds: Bounds) -> list[int]:
    return ids[: max(0, min(len(ids) - int(bounds.less), int(min(bounds.most, len(ids)))))]


def _within(amount: float, bounds: Bounds) -> float:
    return max(0.0, min(amount - bounds.less, bounds.most))


# ---- kind by kind


def cpu_ids(info: HostInfo, remarks: list[str]) -> list[int]:
    """Return the CPUs to offer, ascending.

    Where the batch system granted fewer than the process may use, it does not bind processes, and
    nothing states which ones it means. Then these are consecutive CPUs whose first one depends on
    the job's id, so that two jobs on one node, which both follow this rule, rarely meet.
    """
    usable = info.affinity
    if info.cgroups.cpus and usable & info.cgroups.cpus:
        usable = usable & info.cgroups.cpus
    ids = sorted(usable)
    granted = cpus_granted(info)
    if granted is None or granted >= len(ids):
        return ids
    system = batch_system(info.environ)
    # The first of `2.server`, the last of `slot1_2`.
    digits = re.findall(r"\d+", batch_job(info.environ))
    number = int(digits[-1 if system == "htcondor" else 0][:18]) if digits else 0
    start = number * granted % len(ids)
    remarks.append(
        f"the batch system granted {granted} CPUs and lets this process use {len(ids)}: it does "
        "not bind jobs to CPUs. State the ids of the CPUs if jobs share the node"
    )
    return sorted((ids + ids)[start : start + granted])


def cpus_granted(info: HostInfo) -> int | None:
    """Return the number of CPUs of this node that the batch system granted; None if unknown."""
    environ = info.environ
    short = info.hostname.split(".")[0]
    system = batch_system(environ)
    if system == "slurm":
        nodes = expand_counts(environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
        which = _number(environ.get("SLURM_NODEID")) or 0
        if which < len(nodes):
            return nodes[which]
        return _number(environ.get("SLURM_CPUS_ON_NODE")) or _number(
            environ.get("SLURM_CPUS_PER_TASK")
        )
    facts = facts_of(system)
    # Grain asks for slots of one node.
    for name in facts.cpus:
        if number := _number(environ.get(name)):
            return number
    if system == "htcondor":
        return _number(info.machine_ad.get("Cpus"))
    if facts.node_file:
        # One line for each CPU (Torque, OAR) or for each chunk (OpenPBS, which sets NCPUS).
        return sum(line.split(".")[0] == short for line in info.node_file) or None
    return None


def expand_counts(text: str) -> list[int]:
    """Return the counts of each node from Slurm's list; empty for what is not such a list.

    >>> expand_counts("2(x3),4")
    [2, 2, 2, 4]
    """
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:\(x(\d{1,6})\))?", part.strip())
        if not match:
            return []
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def memory_bytes(info: HostInfo) -> int | None:
    """Return the memory that may be used, in bytes; None if unknown.

    Slurm's numbers are MiB, and 0 means all of the node's memory.
    """
    environ = info.environ
    limits = [info.memory, info.cgroups.memory]
    if batch_system(environ) == "slurm":
        per_node = _number(environ.get("SLURM_MEM_PER_NODE"))
        per_cpu = _number(environ.get("SLURM_MEM_PER_CPU"))
        if per_node:
            limits.append(per_node * _MIB)
        elif per_cpu:
            limits.append(per_cpu * _MIB * (cpus_granted(info) or len(info.affinity)))
    elif batch_system(environ) == "htcondor":
        limits.append((_number(info.machine_ad.get("Memory")) or 0) * _MIB)
    return min((limit for limit in limits if limit), default=None)


def time_left(info: HostInfo) -> float | None:
    """Return the seconds until the job's end, 0 if that has passed; None if unknown.

    PBS_WALLTIME (Torque) and OAR_JOB_WALLTIME_SECONDS count from now: a worker starts with its job.
    """
    system = batch_system(info.environ)
    if system == "flux":
        return info.flux_left
    facts = facts_of(system)
    if end := _number(info.environ.get(facts.end)):
        return max(0.0, end - info.now)
    seconds = _number(info.environ.get(facts.seconds))
    return float(seconds) if seconds else None


def detected_gpus(info: HostInfo) -> list[int]:
    """Return the ids of the GPUs to offer, as `grain.resource.gpu_ids` has them."""
    environ = info.environ
    seen = gpu_ids(environ)
    if seen is not None:
        return seen
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if ids := parse_ids(environ.get(name, "")):
            return sorted(ids)
    if batch_system(environ):
        return []  # the machine may have GPUs, but the job was granted none
    return sorted(info.devices)


def _stated_gpus(resources: Resource, info: HostInfo) -> Resource:
    """Return what a worker offers, with the ids of the GPUs that it sees, if it states a number.

    Raises:
        ValueError: it states more than it sees by names.
    """
    gpus, seen = resources.get(GPUs), gpu_ids(info.environ)
    if not isinstance(gpus, GPUs) or not seen:
        return resources
    if gpus.by_number and len(seen) >= gpus.N:
        parts = {**resources.parts(), "GPUs": GPUs(seen[: gpus.N])}
        return functools.reduce(operator.and_, parts.values())
    if not named_by_numbers(info.environ) and not set(gpus.g) <= set(seen):
        raise ValueError(f"{gpus!r}: this process sees {len(seen)} GPUs, by their names")
    return resources


def _number(text: str | None) -> int | None:
    """Return a whole number of a sensible length; None for anything else."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None
