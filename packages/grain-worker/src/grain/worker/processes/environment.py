"""The environment and the CPUs of a program, from an allocation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from grain import GVAR

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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

# NVIDIA: CUDA C++ Programming Guide, "CUDA Environment Variables". AMD: ROCm documentation, "GPU
# isolation techniques": HIP takes either name. ROCR_VISIBLE_DEVICES stays as inherited: it acts
# below HIP, which numbers what that leaves from 0, so the same list on both levels hides GPUs.
DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")

MARKS = b"GRAIN_SUBREAPERS"
"""The variable with the marks of all subreapers above a process (`grain.worker.processes.sweep`),
with a colon behind each."""


GIVEN = b"GRAIN_GIVEN"
"""The variable with the names and values of what Grain has given to a program, a line for each, so
that a job which the program submits does not get it. What the program has changed is its own."""


def allocated(res: object, kind: str) -> list[int]:
    """Return the ids that an allocation holds: ``c`` for CPUs, ``g`` for GPUs; empty if none."""
    return list(getattr(res, kind, None) or ())


def environment(
    res: object,
    inherited: Mapping[bytes, bytes],
    changes: Mapping[str, str | None],
    threads: int | None = None,
) -> dict[bytes, bytes]:
    """Return the environment of a program.

    Args:
        res: the allocation. Without CPUs, or without GPUs, it sets no variables for them.
        changes: the caller's changes, which override everything else; None removes a variable.
        threads: the number of threads; that of the allocated CPUs by default.

    Raises:
        ValueError: a name or a value is not possible in an environment (see environ(7)).
    """
    variables = _copy(inherited)
    count = threads or len(allocated(res, "c"))
    given: dict[bytes, bytes] = {}
    if count:
        given.update(dict.fromkeys(_THREADS, b"%d" % count))
    if gpus := allocated(res, "g"):
        given.update(dict.fromkeys(_DEVICES, ",".join(map(str, gpus)).encode()))
        # The numbers that nvidia-smi and batch systems use; CUDA's default is the fastest first.
        if b"CUDA_DEVICE_ORDER" not in variables:
            given[b"CUDA_DEVICE_ORDER"] = b"PCI_BUS_ID"
    variables.update(given)
    for name, value in changes.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"not a name of an environment variable: {name!r}")
        if value is None:
            variables.pop(os.fsencode(name), None)
        elif "\0" in value:
            raise ValueError(f"a null character in the value of {name}")
        else:
            variables[os.fsencode(name)] = os.fsencode(value)
    note_given(variables, given)
    if MARKS in inherited:  # a mission's own, as in all of its environment, lead elsewhere
        variables[MARKS] = inherited[MARKS]
    else:
        variables.pop(MARKS, None)
    return variables


def note_given(variables: dict[bytes, bytes], given: Mapping[bytes, bytes]) -> None:
    """Note in the environment of a program what Grain has given to it, beside what is noted."""
    lines = b"".join(b"%b=%b\n" % pair for pair in given.items())
    if lines:
        variables[GIVEN] = variables.get(GIVEN, b"") + lines


def without_given(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what Grain has given to a program that has it."""
    given = variables.get(GIVEN.decode(), "").split("\n")
    noted = {(name, value) for name, _, value in (line.partition("=") for line in given)}
    return {
        name: value
        for name, value in variables.items()
        if (name, value) not in noted and name != GIVEN.decode()
    }


def _copy(variables: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    # Of `os.environb` the dict within, which has the same bytes: a copy of the mapping itself calls
    # two functions for each variable, which is a tenth of what a brief program costs this process.
    return dict(getattr(variables, "_data", variables))


def binding(res: object, available: Collection[int]) -> list[int] | None:
    """Return the CPUs to bind a program to; None for no binding.

    A program is not bound if the allocation names CPUs that this process may not use, as where a
    user offers ``Cores(64)`` on a laptop to try things out. Rejected: to bind it to the cores that
    exist, as all tasks would then crowd on these few. Nor is it bound on a worker that binds none,
    as its CPU ids are mere numbers.
    """
    cpus = allocated(res, "c") if getattr(GVAR.surroundings, "bind", True) else []
    return cpus if cpus and set(cpus) <= set(available) else None


_THREADS = tuple(map(str.encode, THREADS))
_DEVICES = tuple(map(str.encode, DEVICES))
