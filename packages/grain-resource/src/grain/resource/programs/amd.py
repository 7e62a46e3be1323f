"""AMD.

ROCm documentation, "GPU isolation techniques": ROCR_VISIBLE_DEVICES acts below all else, by numbers
or names as ``GPU-8f1...``. HIP_VISIBLE_DEVICES, and GPU_DEVICE_ORDINAL for OpenCL, number what that
leaves from 0. Without HIP_VISIBLE_DEVICES, HIP takes CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.resource.programs import nvidia
from grain.resource.programs.lists import are_numbers, names_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BELOW, ABOVE, OPENCL = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"


def visible(environ: Mapping[str, str]) -> Sequence[str] | None:
    """Return the names of the GPUs that a process sees; None if its environment does not say."""
    below, above = names_in(environ, BELOW), names_in(environ, ABOVE)
    if below is None:
        return names_in(environ, nvidia.VISIBLE) if above is None else above
    if above is None:
        return below
    if not are_numbers(above):
        return [name for name in above if name in below]
    return [below[int(place)] for place in above if int(place) < len(below)]


def variables(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program that is to see only these."""
    own: dict[str, str] = {}
    above = ",".join(names)
    if BELOW in environ:
        own[BELOW] = above
        above = ",".join(str(place) for place, _ in enumerate(names))
    own[ABOVE] = above
    if OPENCL in environ:
        own[OPENCL] = above
    return own
