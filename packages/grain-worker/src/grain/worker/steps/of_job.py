"""The room that a job has for its steps, from its allocation and its variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from grain.resource import THREADS, GPUs, Resource
from grain.worker.processes.environment import allocated
from grain.worker.steps.orders import StepJob
from grain.worker.steps.shares import MemberRoom, StepShares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MB_IN_GB = 1e9 / 2**20


def step_job(
    variables: Mapping[str, str],
    environment: Mapping[bytes, bytes],
    hosts: Sequence[str],
    res: object,
    *,
    bound: bool,
    worker: Mapping[str, str],
    address: str,
) -> StepJob:
    """Return what steps need to know of their job.

    Args:
        variables: of the job, before those of its allocation.
        environment: of its script.
        hosts: of its members.
        res: its allocation.
        bound: True if its script is bound to CPUs.
        worker: the environment of the worker.
        address: of the first member.
    """
    given = {
        name: os.fsdecode(environment[name.encode()])
        for name in THREADS
        if name not in variables and name.encode() in environment
    }
    return StepJob(
        variables={
            name.removeprefix("SLURM_"): value
            for name, value in variables.items()
            if name.startswith("SLURM_")
        },
        hosts=hosts,
        # Other members compare with what they have.
        bound=[bound, *(True for _ in hosts[1:])],
        seen_by=worker if any(map(_gpus, _of_members(res))) else None,
        threads=given,
        gpus=[_room(one).gpus for one in _of_members(res)],
        address=address,
    )


def shares_of(job: StepJob, res: object) -> StepShares:
    """Return what the steps of a job share."""
    per_cpu = job.variables.get("MEM_PER_CPU", "")
    return StepShares(
        [_room(one) for one in _of_members(res)],
        memory_per_cpu=float(per_cpu) if per_cpu.isdecimal() else None,
        # As Slurm does, where a job was told how much it has.
        default_memory="MEM_PER_NODE" in job.variables,
    )


def _of_members(res: object) -> list[object]:
    others: Sequence[object] = [node.res for node in getattr(res, "nodes", ())[1:]]
    return [res, *others]


def _gpus(res: object) -> Sequence[int]:
    parts = res.parts().values() if isinstance(res, Resource) else ()
    return next((part.g for part in parts if isinstance(part, GPUs)), ())


def _room(res: object) -> MemberRoom:
    memory = getattr(res, "M", None)
    return MemberRoom(
        tuple(allocated(res)) or (0,),
        tuple(map(str, _gpus(res))),
        memory * _MB_IN_GB if memory else None,
    )
