"""The room that a job has for its steps, from its allocation and its variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from grain.worker.processes.environment import THREADS, allocated
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
) -> StepJob:
    """Return what steps need to know of their job.

    Args:
        variables: of the job, before those of its allocation.
        environment: of its script.
        hosts: of its members.
        res: its allocation.
        bound: True if its script is bound to CPUs.
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
        has_gpus=any(allocated(one, "g") for one in _of_members(res)),
        threads=given,
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


def _room(res: object) -> MemberRoom:
    memory = getattr(res, "M", None)
    return MemberRoom(
        tuple(allocated(res, "c")) or (0,),
        tuple(map(str, allocated(res, "g"))),
        memory * _MB_IN_GB if memory else None,
    )
