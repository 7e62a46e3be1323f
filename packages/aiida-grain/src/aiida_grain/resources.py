"""The resources of a job, as users of AiiDA write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from aiida.schedulers.datastructures import JobResource

_COUNTS = (
    "cores",
    "gpus",
    "num_machines",
    "num_mpiprocs_per_machine",
    "tot_num_mpiprocs",
    "num_cores_per_machine",
    "num_cores_per_mpiproc",
)


class GrainJobResource(JobResource):
    """Resources that a job asks for: cores, memory and GPUs; and the MPI processes that it starts.

    Attributes:
        cores: cores of each machine; by default one for each MPI process, or
            `num_cores_per_mpiproc`.
        memory: GB of each machine, of 10**9 bytes; by default as the option ``max_memory_kb`` says.
        memory_group: the group of which Grain learns the memory of its jobs; `memory` is then the
            most that a job gets.
        gpus: GPUs of each machine; none by default.
        num_machines: the number of workers that the job takes at once; 1 by default.
        num_mpiprocs_per_machine, tot_num_mpiprocs: MPI processes. By default one for each core, or
            for each `num_cores_per_mpiproc` of them; one if no cores are given either.
        num_cores_per_mpiproc: cores of each MPI process.
        num_cores_per_machine: the same as `cores`.
        explicit_mpiprocs: True if the user, or the computer, has said how many MPI processes.

    Raises:
        ValueError: a name is unknown, a value makes no sense, or two contradict each other.
    """

    _default_fields = (*_COUNTS, "memory", "memory_group")

    if TYPE_CHECKING:
        cores: int
        memory: float | None
        memory_group: str | None
        gpus: int
        num_machines: int
        num_mpiprocs_per_machine: int
        tot_num_mpiprocs: int
        num_cores_per_machine: int
        num_cores_per_mpiproc: int
        explicit_mpiprocs: bool

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(self.validate_resources(**kwargs))

    @classmethod
    def validate_resources(cls, **kwargs: Any) -> dict[str, Any]:
        """Return all fields; arguments and errors as of the class."""
        given = {name: value for name, value in kwargs.items() if value is not None}
        if unknown := given.keys() - set(cls._default_fields):
            raise ValueError(
                f"{', '.join(sorted(unknown))}: Grain knows {', '.join(cls._default_fields)}"
            )
        counts = {name: _count(name, given[name]) for name in _COUNTS if name in given}
        machines = counts.setdefault("num_machines", 1)
        cores = _same(counts, "cores", "num_cores_per_machine")
        total = counts.get("tot_num_mpiprocs")
        ranks = counts.get("num_mpiprocs_per_machine")
        if total is not None:
            if total % machines or (ranks or total // machines) * machines != total:
                raise ValueError(
                    f"tot_num_mpiprocs: {total} MPI processes are not "
                    f"{ranks or 'the same number'} on each of {machines} machines"
                )
            ranks = total // machines
        each = counts.get("num_cores_per_mpiproc")
        if cores is None:
            cores = (ranks or 1) * (each or 1)
        explicit = ranks is not None
        ranks = ranks or max(cores // (each or 1), 1)
        if ranks * (each or 1) > cores:
            raise ValueError(
                f"{cores} cores are not enough for {ranks} MPI processes"
                + (f" of {each} cores each" if each else "")
            )
        return {
            "cores": cores,
            "memory": None if "memory" not in given else _gigabytes(given["memory"]),
            "memory_group": None if "memory_group" not in given else _group(given["memory_group"]),
            "gpus": counts.get("gpus", 0),
            "num_machines": machines,
            "num_mpiprocs_per_machine": ranks,
            "tot_num_mpiprocs": ranks * machines,
            "num_cores_per_machine": cores,
            "num_cores_per_mpiproc": each or cores // ranks,
            "explicit_mpiprocs": explicit,
        }

    @classmethod
    def accepts_default_mpiprocs_per_machine(cls) -> bool:
        """Return True: the default of the computer counts where a job says nothing."""
        return True

    def get_tot_num_mpiprocs(self) -> int:
        """Return the number of MPI processes."""
        return self.tot_num_mpiprocs


def _count(name: str, value: object) -> int:
    least = 0 if name == "gpus" else 1
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: {value!r} is not a whole number from {least}")
    return value


def _same(counts: dict[str, int], name: str, other: str) -> int | None:
    """Return the value of two names that mean the same here; None if neither is given."""
    values = {counts[key] for key in (name, other) if key in counts}
    if len(values) > 1:
        raise ValueError(f"{name} and {other} are the same on one node, so give one of them")
    return values.pop() if values else None


def _group(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][\w.+-]*", value):
        raise ValueError(
            f"memory_group: {value!r} is not the name of a group: write letters, digits and . _ + -"
        )
    return value


def _gigabytes(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError(f"memory: {value!r} is not a number of GB, such as 4 or 0.5")
    return float(value)
