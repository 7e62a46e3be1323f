"""The sorts of workers that a configuration describes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.cli.scaling.model import WorkerShape
    from grain.config import Config, Shape

ONE_SHAPE = "node"
"""The name of the only sort of worker, where the configuration has no ``[[shape]]``."""

# Slurm: --gres=gpu:2, --gres=gpu:a100:2, --gpus=2, --gpus-per-node=a100:2, -G 2. PBS: ngpus=2, and
# Torque's gpus=2. LSF: -gpu "num=2". HTCondor: request_gpus = 2. Flux: -g 2, --gpus-per-slot=2.
_GPUS = (
    re.compile(r"(?:^|[\s,=])(?:gres/)?gpu(?::[A-Za-z][\w.-]*)?[:=](\d+)"),
    re.compile(r"gpus(?:-per-(?:node|slot|task))?\s*[= ]\s*(?:[A-Za-z][\w.-]*:)?(\d+)"),
    re.compile(r"^-gpu\s.*?num=(\d+)"),
    re.compile(r"^-[gG]\s*(?:[A-Za-z][\w.-]*:)?(\d+)$"),
)
_ONE_GPU = re.compile(r"gres=(?:.*,)?gpu(?:$|[:,])")


def with_shape(config: Config, shape: Shape) -> Config:
    """Return the configuration in which workers are those of a shape."""
    from msgspec.structs import replace

    return replace(config, worker=replace(config.worker, script=shape, res=shape.res))


def worker_shape(config: Config, shape: Shape | None, sharing: int) -> WorkerShape:
    """Return what is known of the workers of a shape before one has joined.

    Args:
        shape: the shape; None where there is one sort only.
        sharing: without a batch system, the number of workers on this machine.

    Raises:
        click.ClickException: the resources of the configuration make no sense.
    """
    # Whoever only wants a shape by its name needs neither.
    from grain.cli.scaling.model import WorkerShape
    from grain.resource import from_data

    script, held = config.worker.script, config.worker.reserve
    gpus = gpus_asked(script.extra_args) if shape is None or shape.gpus is None else shape.gpus
    cores, memory = script.cores, script.memory
    if config.system == "local":
        cores = cores or max(1, len(os.sched_getaffinity(0)) // sharing)
        memory = memory or memory_share(sharing)
    data: dict[str, Any] = {"Cores": cores or "auto", "Memory": "auto"}
    if memory is not None:
        data["Memory"] = max(round(memory - held.memory, 6), 0)
    if gpus:
        data["GPUs"] = gpus
    data.update(config.worker.res)
    data.pop("WTime", None)
    unknown = frozenset(kind for kind, amount in data.items() if _detected(amount))
    stated = {kind: amount for kind, amount in data.items() if not _detected(amount)}
    try:
        total = from_data(stated, unknown="keep")
        total.parts()  # raises TypeError for alternatives
    except (ValueError, LookupError, TypeError) as error:
        raise click.ClickException(f"worker.res: {error}") from None
    return WorkerShape(
        ONE_SHAPE if shape is None else shape.name,
        total,
        unknown,
        float("inf") if script.walltime is None else script.walltime - held.walltime,
        float("inf") if shape is None or shape.max is None else shape.max,
        None if shape is None else shape.charge,
        nodes=script.nodes,
    )


def _detected(amount: object) -> bool:
    """Return True if a worker is to detect an amount, which is unknown before."""
    return amount is None or amount == "auto" or (isinstance(amount, dict) and "auto" in amount)


def memory_share(count: int) -> float:
    """Return an equal share of this machine's memory, in GB, without what is less than 0.01 GB."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return whole // (count * 10**7) / 100


def gpus_asked(extra_args: Iterable[str]) -> int:
    """Return the number of GPUs that options for a batch system ask for.

    >>> gpus_asked(["--account=chem", "--gres=gpu:a100:2"])
    2
    """
    for arg in extra_args:
        for pattern in _GPUS:
            if match := pattern.search(arg):
                return int(match[1])
        if _ONE_GPU.search(arg):
            return 1
    return 0
