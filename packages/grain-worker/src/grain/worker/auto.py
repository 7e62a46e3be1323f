"""The resources that a worker really has, from a snapshot of its surroundings. Pure functions.

    Cores   The CPUs of the affinity mask and the cpuset. If the batch system granted fewer than
            these, that many of them.
    Memory  The least of: what the machine has, what the control groups allow, what Slurm granted.
    WTime   What is left until the job's end, if the batch system tells.
    GPUs    Those of CUDA_VISIBLE_DEVICES, or that Slurm granted; without a batch system all.

Sources: sbatch(1), "Output environment variables"; pbs_ijob and qsub(1B) for NCPUS and
PBS_NODEFILE; Torque's qsub for PBS_NUM_PPN and PBS_WALLTIME; CUDA C++ Programming Guide, "CUDA
Environment Variables".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.resource import Resource, WTime, from_data
from grain.worker.errors import UsageError
from grain.worker.node.cgroup import parse_ids

if TYPE_CHECKING:
    from grain.worker.node.host_info import Surroundings

_MIB = 1024**2


class Found(NamedTuple):
    """What a worker has.

    Attributes:
        resources: what it offers.
        time: seconds for which it can run tasks, None if that is not limited or not known.
        remarks: what a person should know about how that was found.
    """

    resources: Resource
    time: float | None
    remarks: tuple[str, ...] = ()


AUTO: Mapping[str, Any] = {
    "Cores": "auto",
    "Memory": {"auto": {"less": 0.5}},
    "GPUs": "auto",
    "WTime": {"auto": {"less": 60}},
}
"""What a worker offers unless told otherwise: all, but 0.5 GB and a minute for itself."""


def batch_system(environ: Any) -> str:
    """Which batch system runs this job: ``slurm``, ``pbs``, or ``""``."""
    if "SLURM_JOB_ID" in environ:
        return "slurm"
    return "pbs" if "PBS_JOBID" in environ else ""


def find_resources(stated: Any, around: Surroundings) -> Found:
    """The resources of a worker.

    Args:
        stated: ``"auto"``, which stands for `AUTO`; or a dict from kind to its data. With
            ``"auto": True`` in it, `AUTO` holds for the kinds that it does not mention. The data
            may be ``"auto"``: what is found, if there is any; or ``{"auto": {"less": 0.5, "most":
            8}}``: what is found, less 0.5, and 8 at most (of cores and GPUs so many of those that
            were found); or None: there is none.
        around: where the worker runs.

    Raises:
        UsageError: it is no such thing.
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
    found = {
        kind: _resolve(kind, data, around, remarks)
        for kind, data in {**(AUTO if rest else {}), **kinds}.items()
    }
    try:
        resources = from_data({kind: data for kind, data in found.items() if data is not None})
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"resources: {error}") from error
    time = resources.get(WTime)
    left = time.T if isinstance(time, WTime) else None
    return Found(resources, left, tuple(remarks))


def _resolve(kind: str, data: Any, around: Surroundings, remarks: list[str]) -> Any:
    """The data of one kind, found if it is to be; None for none."""
    bounds: Any = {} if data == "auto" else None
    if isinstance(data, Mapping) and "auto" in data:
        bounds = data["auto"] if len(data) == 1 else None
        if not isinstance(bounds, Mapping) or not bounds.keys() <= {"less", "most"}:
            raise UsageError(
                f'resources: {kind} {dict(data)!r}: say "auto", or as in '
                '{"auto": {"less": 0.5, "most": 8}}'
            )
    if bounds is None:
        return data
    less, most = (_bound(kind, bounds, name) for name in ("less", "most"))
    if kind in ("Cores", "GPUs"):
        ids = (cpu_ids if kind == "Cores" else gpu_ids)(around, remarks)
        if kind == "Cores" and most is not None and len(ids) < most:
            remarks.append(
                f"{most:g} CPUs were asked for, and this process may use {len(ids)}: no more are "
                "offered"
            )
        end = len(ids) - int(less or 0)
        ids = ids[: max(0, end if most is None else min(end, int(most)))]
        return ids or (None if kind == "GPUs" else [])
    if kind not in ("Memory", "WTime"):
        raise UsageError(f"resources: {kind} cannot be found out, state it")
    amount: float | None = time_left(around)
    if kind == "Memory":
        size = memory_bytes(around)
        amount = None if size is None else size / 1e9
    if amount is None:
        return None
    amount = max(0.0, min(amount - (less or 0), math.inf if most is None else most))
    return amount if kind == "Memory" else {"T": amount, "countdown": True}


def _bound(kind: str, bounds: Mapping[str, Any], name: str) -> float | None:
    value = bounds.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f'resources: {kind}: "{name}" is a number of 0 or more, not {value!r}')
    return value


# ---- kind by kind


def cpu_ids(around: Surroundings, remarks: list[str]) -> list[int]:
    """The CPUs to offer, ascending.

    Where the batch system granted fewer than the process may use, it does not bind processes, and
    nothing tells which ones are meant. A run of CPUs that begins at a place that depends on the
    job's id is taken, so that two jobs on one node, which both follow this rule, rarely meet.
    """
    usable = around.affinity
    if around.cgroups.cpus and usable & around.cgroups.cpus:
        usable = usable & around.cgroups.cpus
    ids = sorted(usable)
    granted = cpus_granted(around)
    if granted is None or granted >= len(ids):
        return ids
    job = around.environ.get("SLURM_JOB_ID") or around.environ.get("PBS_JOBID", "")
    digits = re.match(r"\d+", job)
    start = (int(digits[0]) if digits else 0) * granted % len(ids)
    remarks.append(
        f"the batch system granted {granted} CPUs and lets this process use {len(ids)}: it does "
        "not bind jobs to CPUs. State the ids of the CPUs if jobs share the node"
    )
    return sorted((ids + ids)[start : start + granted])


def cpus_granted(around: Surroundings) -> int | None:
    """How many CPUs of this node the batch system granted to the job; None if it does not tell."""
    environ = around.environ
    if batch_system(environ) == "slurm":
        nodes = expand_counts(environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
        which = _number(environ.get("SLURM_NODEID")) or 0
        if which < len(nodes):
            return nodes[which]
        return _number(environ.get("SLURM_CPUS_ON_NODE")) or _number(
            environ.get("SLURM_CPUS_PER_TASK")
        )
    if batch_system(environ) == "pbs":
        for name in ("NCPUS", "PBS_NUM_PPN"):
            if number := _number(environ.get(name)):
                return number
        # One line for each CPU (Torque) or for each chunk (OpenPBS, which sets NCPUS).
        short = around.host.split(".")[0]
        return sum(line.split(".")[0] == short for line in around.node_file) or None
    return None


def expand_counts(text: str) -> list[int]:
    """Slurm's counts for each node; empty for what is none.

    >>> expand_counts("2(x3),4")
    [2, 2, 2, 4]
    """
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,7})(?:\(x(\d{1,6})\))?", part.strip())
        if not found:
            return []
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def memory_bytes(around: Surroundings) -> int | None:
    """The memory that may be used, in bytes; None if nothing tells.

    Slurm's numbers are MiB, and 0 means all of the node's.
    """
    environ = around.environ
    limits = [around.memory, around.cgroups.memory]
    if batch_system(environ) == "slurm":
        per_node = _number(environ.get("SLURM_MEM_PER_NODE"))
        per_cpu = _number(environ.get("SLURM_MEM_PER_CPU"))
        if per_node:
            limits.append(per_node * _MIB)
        elif per_cpu:
            limits.append(per_cpu * _MIB * (cpus_granted(around) or len(around.affinity)))
    return min((limit for limit in limits if limit), default=None)


def time_left(around: Surroundings) -> float | None:
    """Seconds until the job's end, 0 if that has passed; None if nothing tells.

    PBS_WALLTIME (Torque) is counted from now: a worker starts with its job.
    """
    end = _number(around.environ.get("SLURM_JOB_END_TIME"))
    if end and batch_system(around.environ) == "slurm":
        return max(0.0, end - around.now)
    seconds = _number(around.environ.get("PBS_WALLTIME"))
    if seconds and batch_system(around.environ) == "pbs":
        return float(seconds)
    return None


def gpu_ids(around: Surroundings, remarks: list[str]) -> list[int]:
    """The GPUs to offer, by the numbers that CUDA_VISIBLE_DEVICES takes in this process."""
    environ = around.environ
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # CUDA itself stops at the first word that names no device.
        words = visible.replace(" ", "").split(",")
        if words[0] in ("", "-1", "NoDevFiles"):
            return []
        ids = parse_ids(visible)
        if not ids:
            remarks.append(
                f"CUDA_VISIBLE_DEVICES={visible} does not name GPUs by their numbers: none are "
                'offered. State them, as in {"auto": true, "GPUs": [0, 1]}'
            )
        return sorted(ids)
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if ids := parse_ids(environ.get(name, "")):
            return sorted(ids)
    if batch_system(environ):
        return []  # the machine may have some, this job has not
    return sorted(around.devices)


def _number(text: str | None) -> int | None:
    """A whole number, not absurdly long; None for anything else."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None
