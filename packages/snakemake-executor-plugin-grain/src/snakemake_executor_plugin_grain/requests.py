"""Threads and resources of a rule become what a job of Grain's queue asks for."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from grain.resource import from_data, from_text, to_data

if TYPE_CHECKING:
    from collections.abc import Mapping

FREE = "grain_request"
"""The resource of a rule that is a request in Grain's own words, such as ``"Capacity=2"``."""

GROUP = "grain_memory_group"
"""The resource of a rule that names the group of which Grain learns the memory of its jobs."""

_GPUS = ("gpu", "gpus", "nvidia_gpu", "amd_gpu")
_GRES = re.compile(r"gpu(?::[A-Za-z][\w.-]*)?(?::(\d+))?")
_MIB_IN_GB = 2**20 / 1e9


class BadResource(ValueError):
    """A resource of a rule that makes no sense here; the message says what to write."""


class Need(NamedTuple):
    """The request of a job.

    Attributes:
        request: kinds and amounts as plain data, as `grain.resource.to_data` makes them.
        timeout: seconds after which it is ended; it begins only where so much time is left. 0 for
            no limit.
    """

    request: dict[str, object]
    timeout: float


def need_of(threads: int, resources: Mapping[str, object]) -> Need:
    """Return what a job asks for.

    Resources that mean nothing here are left to Snakemake, which limits them by ``--resources``.

    Args:
        threads: of the rule; of a group, as Snakemake adds them up.
        resources: by their names, as in the rule.

    Raises:
        BadResource: one has a value that it cannot have.
    """
    nodes = max(math.ceil(_number(resources, "nodes", 1)), 1)
    # As Slurm does it: tasks are those of all nodes, and a node without one is not needed.
    tasks = math.ceil(max(_number(resources, "tasks", 1), nodes) / nodes)
    cores = _number(resources, "cpus_per_task", threads) * tasks
    request: dict[str, object] = {"Cores": max(math.ceil(cores), 1)}
    if memory := _memory(resources, cores):
        request["Memory"] = math.ceil(round(memory * 1e6, 3)) / 1e6
    if (group := resources.get(GROUP)) is not None:
        most = {"M": request["Memory"]} if memory else {}
        request["Memory"] = {**most, "group": group}
    if gpus := _gpus(resources, nodes):
        request["GPUs"] = gpus
    text = resources.get(FREE)
    if text is not None:
        request |= _free(text)
    if nodes > 1:
        request = {"Gang": {"count": nodes, "of": request}}
    try:
        from_data(request)
    except (TypeError, ValueError) as error:
        raise BadResource(str(error)) from None
    return Need(request, 60 * _number(resources, "runtime", 0))


def _number(resources: Mapping[str, object], name: str, default: float) -> float:
    """Return a number that is not negative; the default where there is none."""
    value = resources.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise BadResource(f"{name} is {value!r}: write a number")
    return value


def _memory(resources: Mapping[str, object], cores: float) -> float:
    """Return the memory in GB; 0 if the rule says nothing of it."""
    if each := _number(resources, "mem_mb_per_cpu", 0):
        return each * cores / 1000
    if whole := _number(resources, "mem_mb", 0):
        return whole / 1000
    return _number(resources, "mem_mib", 0) * _MIB_IN_GB


def _gpus(resources: Mapping[str, object], nodes: int) -> int:
    """Return the GPUs of a node."""
    found = max(_number(resources, name, 0) for name in _GPUS) / nodes
    match = _GRES.fullmatch(str(resources.get("gres", "")))
    return max(math.ceil(found), int(match[1] or 1) if match else 0)


def _free(text: object) -> dict[str, object]:
    try:
        request = dict(to_data(from_text(str(text))))
    except ValueError as error:
        raise BadResource(f"{FREE}: {error}") from None
    if "WTime" in request:
        raise BadResource(f"{FREE} is {text!r}: give the time as runtime, in minutes")
    return request
