"""NVIDIA.

CUDA C++ Programming Guide, "CUDA Environment Variables": numbers, or names as ``GPU-8f1...`` and
``MIG-11a...``. NVIDIA Multi-Instance GPU User Guide, "CUDA Visible Devices".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.programs.lists import names_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


def visible(environ: Mapping[str, str]) -> Sequence[str] | None:
    """Return the names of the GPUs that a process sees; None if its environment does not say."""
    return names_in(environ, VISIBLE)


def variables(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program that is to see only these.

    Numbers are those that nvidia-smi and batch systems use, unless the worker has another order;
    CUDA's default is the fastest first.
    """
    return {VISIBLE: ",".join(names), _ORDER: environ.get(_ORDER, "PCI_BUS_ID")}
