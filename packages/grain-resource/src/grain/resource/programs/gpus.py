"""From the variables of a worker to the GPUs that it offers, and back to those of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.programs import amd, intel, nvidia
from grain.resource.programs.lists import are_numbers, ids_of, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VENDORS = (nvidia, amd, intel)

GPU_LISTS = frozenset({nvidia.VISIBLE, amd.BELOW, amd.ABOVE, amd.OPENCL, intel.MASK})
"""The variables that list the GPUs of a node."""


def visible_gpus(environ: Mapping[str, str]) -> Sequence[str] | None:
    """Return the names of the GPUs that a process sees; None if its environment does not say.

    Slurm may set the variables of all vendors, whatever the node has (gres.conf(5), "Flags").
    """
    known = [names for vendor in _VENDORS if (names := vendor.visible(environ)) is not None]
    return max(known, key=len, default=None)


def gpu_ids(environ: Mapping[str, str]) -> list[int] | None:
    """Return the ids of the GPUs that a process sees, ascending; None if it is not known."""
    names = visible_gpus(environ)
    return None if names is None else sorted(ids_of(names))


def gpu_variables(ids: Sequence[int], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program that is to see only some GPUs of its worker.

    Args:
        ids: as `gpu_ids` of the worker has them.
        environ: that of the worker. If it names no devices, each vendor's numbers are the ids.
    """
    known = {vendor: vendor.visible(environ) for vendor in _VENDORS}
    says_nothing = not any(known.values())
    variables: dict[str, str] = {}
    for vendor, names in known.items():
        if says_nothing:
            variables |= vendor.variables([str(one) for one in ids], environ)
        elif names and (chosen := names_of(ids, names)) is not None:
            variables |= vendor.variables(chosen, environ)
    return variables


def named_by_numbers(environ: Mapping[str, str]) -> bool:
    """Return True unless GPUs have names, of which the ids are the places."""
    return are_numbers(visible_gpus(environ) or ())
