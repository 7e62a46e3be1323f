"""The variables, and the CPUs, of an allocation: `Resource._variables` and `Resource._cpus`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.resource.base import Resource

# Read by every OpenMP runtime (OpenMP 5.2, section 21.2); Intel oneMKL; OpenBLAS; BLIS; FlexiBLAS;
# NumExpr; Numba; Julia. Without them each takes the whole machine.
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "FLEXIBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "JULIA_NUM_THREADS",
)

# For how many ranks Open MPI has room: one on each core of the machine by default. A task may have
# fewer, or more where a core has several CPUs.
SLOTS = ("OMPI_MCA_orte_set_default_slots", "PRTE_MCA_prte_set_default_slots")


def variables_of(res: Resource, worker: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables by which a program finds its allocation.

    Args:
        worker: the environment of the worker.

    Raises:
        TypeError: a kind returns something else than strings.
    """
    variables: dict[str, str] = {}
    for kind, part in res.parts().items():
        for name, value in part._variables(worker).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(
                    f"{kind}._variables() returns {name!r}: {value!r}, but a variable has a string "
                    f"as its name and as its value: write {str(name)!r}: {str(value)!r}"
                )
            variables[name] = value
    return variables


def cpus_of(res: Resource) -> list[int]:
    """Return the ids of the CPUs that an allocation holds, to which its programs are bound."""
    return [cpu for part in res.parts().values() for cpu in part._cpus()]
