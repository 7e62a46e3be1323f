"""From an allocation to the environment and the CPUs of a program. Pure functions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Who reads them: every OpenMP runtime (OpenMP 5.2, section 21.2); Intel oneMKL; OpenBLAS; BLIS;
# FlexiBLAS; NumExpr; Numba; Julia. All of them take the whole machine if told nothing.
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


def allocated(res: object, kind: str) -> list[int]:
    """The ids that an allocation holds: ``c`` for CPUs, ``g`` for GPUs; empty if none."""
    return list(getattr(res, kind, None) or ())


def environment(
    res: object,
    inherited: Mapping[bytes, bytes],
    changes: Mapping[str, str | None],
    threads: int | None = None,
) -> dict[bytes, bytes]:
    """The environment of a program.

    Args:
        res: The allocation. Without CPUs, or without GPUs, nothing is said about those.
        inherited: The environment to start from.
        changes: What the caller wants, which always wins; None removes a variable.
        threads: The number of threads; that of the allocated CPUs by default.

    Raises:
        ValueError: If a name or a value is not possible in an environment (see environ(7)).
    """
    made = dict(inherited)
    count = threads or len(allocated(res, "c"))
    if count:
        made.update(dict.fromkeys(_THREADS, b"%d" % count))
    if gpus := allocated(res, "g"):
        made.update(dict.fromkeys(_DEVICES, ",".join(map(str, gpus)).encode()))
        # The numbers that nvidia-smi and batch systems use; CUDA's default is the fastest first.
        made.setdefault(b"CUDA_DEVICE_ORDER", b"PCI_BUS_ID")
    for name, value in changes.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"not a name of an environment variable: {name!r}")
        if value is None:
            made.pop(os.fsencode(name), None)
        elif "\0" in value:
            raise ValueError(f"a null character in the value of {name}")
        else:
            made[os.fsencode(name)] = os.fsencode(value)
    return made


def binding(res: object, available: Collection[int]) -> list[int] | None:
    """The CPUs to bind a program to; None for no binding.

    There is none for an allocation that names CPUs which this process may not use, as where
    somebody offers ``Cores(64)`` on a laptop to try things out: part of the set would be worse,
    as tasks would then crowd on the few CPUs that exist.
    """
    cpus = allocated(res, "c")
    return cpus if cpus and set(cpus) <= set(available) else None


_THREADS = tuple(map(str.encode, THREADS))
_DEVICES = tuple(map(str.encode, DEVICES))
