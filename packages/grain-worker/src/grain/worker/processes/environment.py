"""The environment and the CPUs of a program, from an allocation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from grain import GVAR
from grain.resource import SLOTS, THREADS, ZERO, Resource, cpus_of, variables_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

# What follows is for a launcher that a program of a task calls, as ORCA calls ``mpirun``. Options
# of the command line go before it. A task on several members has more variables: see
# `grain.worker.processes.mpi`.

UNBOUND = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}
"""Defaults of variables. mpirun of Open MPI 4 and 5 binds its ranks from core 0 on, whatever it is
bound to itself, so the ranks of all tasks of a node would crowd there. Without that, they have the
CPUs of their task, as those of MPICH and Intel MPI do."""

_NOT_BATCH = "^slurm,tm,lsf,gridengine,alps,pals"

NOT_BATCH = {
    "OMPI_MCA_ras": _NOT_BATCH,
    "OMPI_MCA_plm": _NOT_BATCH,
    "PRTE_MCA_ras": _NOT_BATCH,
    "PRTE_MCA_plm": _NOT_BATCH,
    # MPICH: "Using the Hydra Process Manager", "Environment Settings".
    "HYDRA_RMK": "user",
    # Intel MPI has no such word, but hosts in a file go before those of a batch job (Developer
    # Reference for Linux, "Hydra Environment Variables").
    "I_MPI_HYDRA_HOST_FILE": str(Path(__file__).with_name("this_host")),
}
"""Defaults of variables in a batch job. Launchers that find themselves in one start ranks on its
nodes, by its means, and count its slots. But the job is the worker's, and a task has cores on this
node."""

BATCH = ("SLURM_JOBID", "SLURM_JOB_ID", "SLURM_NODELIST", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")
"""Variables by which Open MPI recognises Slurm, PBS, LSF and Grid Engine."""

USABLE = frozenset(os.sched_getaffinity(0))
"""The CPUs of this process when it began. Later the main thread may have fewer: with OMP_PROC_BIND
set, libgomp binds it to one when a tasklet loads a library that uses OpenMP."""

PINNED_BY = frozenset((b"OMP_PROC_BIND", b"OMP_PLACES", b"KMP_AFFINITY", b"GOMP_CPU_AFFINITY"))
"""Variables by which a process chooses CPUs for its threads once, of those that it has then. OpenMP
5.2, section 21.1; Intel compiler and oneMKL; GNU libgomp."""

MARKS = b"GRAIN_SUBREAPERS"
"""The variable with the marks of all subreapers above a process (`grain.worker.processes.sweep`),
with a colon behind each."""


GIVEN = b"GRAIN_GIVEN"
"""The variable with the names and values of what Grain has given to a program, a line for each, so
that a job which the program submits does not get it. What the program has changed is its own."""


QUEUE = b"GRAIN_QUEUE"
"""The variable with the name of the queue of a job."""

ALLOCATED = b"GRAIN_ALLOCATED"
"""The variable with the names of those that tell a program its allocation, with commas: each member
of a gang has its own."""


def allocated(res: object) -> list[int]:
    """Return the CPU ids that an allocation holds; empty if none."""
    return cpus_of(res) if isinstance(res, Resource) else []


def environment(
    res: object,
    inherited: Mapping[bytes, bytes],
    changes: Mapping[str, str | None],
    threads: int | None = None,
    *,
    worker: Mapping[bytes, bytes] | None = None,
) -> dict[bytes, bytes]:
    """Return the environment of a program: of a leaf, of a job's script, or on a gang's member.

    Args:
        res: the allocation, of which each kind says its variables. Without any resource, there are
            none for launchers.
        inherited: that of this process, or that with which a job was submitted.
        changes: the caller's changes, which override everything else; None removes a variable.
        threads: the number of threads; that of the allocated CPUs by default.
        worker: that of the worker, which says how it sees its devices; by default `inherited`.

    Raises:
        ValueError: a name or a value is not possible in an environment (see environ(7)).
        TypeError: a variable of a kind is not a string.
    """
    variables = dict(_plain(inherited))
    variables.pop(b"", None)  # a name that Python can read, but start no program with
    given: dict[bytes, bytes] = {}
    seen = _Text(inherited if worker is None else worker)
    if isinstance(res, Resource) and (own := variables_of(res, seen)):
        given.update(_encoded(name, value) for name, value in own.items())
        given[ALLOCATED] = b",".join(given)
    if threads:
        given.update(dict.fromkeys(_THREADS, b"%d" % threads))
    if res is not ZERO:
        in_batch_job = not _BATCH.isdisjoint(variables)
        defaults = _IN_BATCH_JOB if in_batch_job else _UNBOUND
        given.update({name: text for name, text in defaults.items() if name not in variables})
    # A job of Grain's queue has another srun.
    if b"SLURMD_NODENAME" in variables and QUEUE not in variables and allocated(res):
        given[b"SLURM_OVERLAP"] = b"1"
        given[b"SLURM_CPU_BIND"] = _cpu_bind(binding(res, USABLE))
    variables.update(given)
    for name, value in changes.items():
        raw, _ = _encoded(name, value or "")
        if value is None:
            variables.pop(raw, None)
        else:
            variables[raw] = os.fsencode(value)
    note_given(variables, given)
    # Whatever it inherits, as a job does its submitter's: the descendants of this process are found
    # by its marks, and those of a mission lead elsewhere.
    variables.pop(MARKS, None)
    if marks := os.environb.get(MARKS):
        variables[MARKS] = marks
    return variables


class _Text(Mapping[str, str]):
    """An environment as text; few variables of it are read."""

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = _plain(raw)

    def __getitem__(self, name: str) -> str:
        return os.fsdecode(self._raw[os.fsencode(name)])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and os.fsencode(name) in self._raw

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return the value of a variable; that of Mapping handles an error for each absent one."""
        value = self._raw.get(os.fsencode(name))
        return default if value is None else os.fsdecode(value)

    def __iter__(self) -> Iterator[str]:
        return map(os.fsdecode, self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def _encoded(name: str, value: str) -> tuple[bytes, bytes]:
    if "\0" in value:
        raise ValueError(f"a null character in the value of {name}")
    # Most names are among these few, and most values are plain.
    known = _KNOWN.get(name)
    return known or _encoded_name(name), value.encode() if value.isascii() else os.fsencode(value)


def _encoded_name(name: str) -> bytes:
    if not name or "=" in name or "\0" in name:
        raise ValueError(f"not a name of an environment variable: {name!r}")
    return os.fsencode(name)


def note_given(variables: dict[bytes, bytes], given: Mapping[bytes, bytes]) -> None:
    """Note in the environment of a program what Grain has given to it, beside what is noted."""
    lines = b"".join(
        b"%b=%b\n" % (name, value.replace(b"\n", b"\\n")) for name, value in given.items()
    )
    if lines:
        variables[GIVEN] = variables.get(GIVEN, b"") + lines


def without_given(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what Grain has given to a program that has it."""
    given = variables.get(GIVEN.decode(), "").split("\n")
    noted = {(name, value) for name, _, value in (line.partition("=") for line in given)}
    return {
        name: value
        for name, value in variables.items()
        if (name, value.replace("\n", "\\n")) not in noted and name != GIVEN.decode()
    }


def _cpu_bind(cpus: list[int] | None) -> bytes:
    """Return the binding for the steps of srun that a program of a task starts.

    They are steps of the worker's job. By themselves they would wait for the step in which the
    worker runs, and for each other, and all have the first CPUs of the job. So they overlap, and
    each rank has the CPUs of the task: srun(1), "SLURM_OVERLAP" and "SLURM_CPU_BIND".
    """
    return b"none" if cpus is None else b"mask_cpu:%#x" % sum(1 << cpu for cpu in cpus)


def _plain(variables: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    # Of `os.environb` the dict within, which has the same bytes: a copy of the mapping itself calls
    # two functions for each variable, which is a tenth of what a brief program costs this process.
    data: Mapping[bytes, bytes] = getattr(variables, "_data", variables)
    return data


def binding(res: object, available: Collection[int]) -> list[int] | None:
    """Return the CPUs to bind a program to; None for no binding.

    A program is not bound if the allocation names CPUs that this process may not use, as where a
    user offers ``Cores(64)`` on a laptop to try things out. Rejected: to bind it to the cores that
    exist, as all tasks would then crowd on these few. Nor is it bound on a worker that binds none,
    as its CPU ids are mere numbers.
    """
    cpus = allocated(res) if getattr(GVAR.surroundings, "bind", True) else []
    return cpus if cpus and set(cpus) <= set(available) else None


_THREADS = tuple(map(str.encode, THREADS))
_KNOWN = {name: name.encode() for name in (*THREADS, *SLOTS)}
_BATCH = frozenset(map(str.encode, BATCH))
_UNBOUND = {name.encode(): value.encode() for name, value in UNBOUND.items()}
_IN_BATCH_JOB = _UNBOUND | {name.encode(): os.fsencode(v) for name, v in NOT_BATCH.items()}
