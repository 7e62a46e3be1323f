"""The offer of a local worker: the CPUs that it takes, of all that its process may use."""

from __future__ import annotations

import functools
import operator
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from grain.edge.machine.cpu_locks import CpuLocks
from grain.resource import Cores, GPUs, Resource, check_offer
from grain.worker.node.topology import read_cpu_groups, read_gpu_cpus, with_groups, with_near

if TYPE_CHECKING:
    from collections.abc import Iterator


class LocalOffer(NamedTuple):
    """The offer of a local worker.

    Attributes:
        resources: the resources, with the CPU ids that it has taken.
        bind: False if the ids are mere numbers: programs are bound to no CPUs.
        remark: why that is so; empty if it is not.
    """

    resources: Resource
    bind: bool = True
    remark: str = ""


@contextmanager
def local_offer(local: Resource) -> Iterator[LocalOffer]:
    """Take the CPUs of a local worker during the block.

    A number of cores becomes so many free CPUs of those that this process may use, and
    ``Cores("all")`` all of these. CPUs that were named by their ids are taken as they are, whoever
    else has them.

    Raises:
        ValueError: it is a part of a core, which no worker can offer.
    """
    cores = local.parts().get("Cores")
    if isinstance(cores, Cores) and cores.is_all:
        cores = Cores(len(os.sched_getaffinity(0)))
        local = _with_cores(local, cores)
    check_offer(local)
    if not isinstance(cores, Cores) or not cores.N:
        yield LocalOffer(local)
        return
    locks = CpuLocks()
    try:
        offer = _offer(local, cores, sorted(os.sched_getaffinity(0)), locks)
        if offer.bind:
            ids = getattr(offer.resources, "c", ())
            resources = with_groups(offer.resources, read_cpu_groups(ids))
            gpus = resources.get(GPUs)
            near = read_gpu_cpus() if isinstance(gpus, GPUs) else {}
            # Where it takes some of the GPUs only, a batch system may have given these numbers.
            if isinstance(gpus, GPUs) and len(gpus.g) == len(near):
                resources = with_near(resources, near)
            offer = offer._replace(resources=resources)
        yield offer
    finally:
        locks.close()


def _offer(local: Resource, cores: Cores, usable: list[int], locks: CpuLocks) -> LocalOffer:
    number = cores.N
    may_use = "this process may use " + _words(usable)
    unbound = "so programs are bound to no CPUs"
    if not cores.by_number:
        if not set(cores.c) <= set(usable):
            return LocalOffer(
                local, bind=False, remark=f"local=Cores({cores.c}): {may_use}, {unbound}"
            )
        for cpu in cores.c:
            locks.take(cpu)
        return LocalOffer(local)
    if number > len(usable):
        return LocalOffer(local, bind=False, remark=f"local=Cores({number}): {may_use}, {unbound}")
    taken: list[int] = []
    for cpu in usable:
        if locks.take(cpu):
            taken.append(cpu)
            if len(taken) == number:
                return LocalOffer(_with_cores(local, Cores(taken)))
    locks.close()
    if len(usable) == 1:
        why = f"{may_use}, and another mission or worker on this machine has it"
    else:
        free = "none" if not taken else f"only {len(taken)}"
        why = (
            f"{free} of the {len(usable)} CPUs that this process may use {_is(len(taken))} free, "
            "as other missions or workers on this machine have taken "
            f"{'the others' if taken else 'them'}"
        )
    return LocalOffer(
        _with_cores(local, Cores(usable[:number])),
        bind=False,
        remark=f"local=Cores({number}): {why}, {unbound} and compete with theirs",
    )


def _with_cores(local: Resource, cores: Cores) -> Resource:
    """Return a resource with other cores."""
    parts = {**local.parts(), "Cores": cores}
    return functools.reduce(operator.and_, parts.values())


def _is(number: int) -> str:
    return "is" if number < 2 else "are"  # 0 stands for none


def _words(cpus: list[int]) -> str:
    return f"only CPU {cpus[0]}" if len(cpus) == 1 else f"{len(cpus)} CPUs"
