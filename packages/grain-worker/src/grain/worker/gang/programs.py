"""`MemberPrograms`: the programs that a member runs for the root of its gang."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import trio

from grain.worker.errors import ExternalError, ExternalStartError
from grain.worker.external import STDOUT, run_external
from grain.worker.gang.messages import OUTPUT
from grain.worker.processes.environment import DEVICES, THREADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.worker.gang.messages import ProgramOrder

MEMBER = "GRAIN_MEMBER"
"""The variable of a member's programs with what is its own: see `own_facts`."""

NOT_FOUND, CANNOT = 127, 255
"""The statuses of a program that is not there, as of a shell, and of one that cannot be run for
another reason, as of ssh."""

# Variables by which a batch system, or an MPI launcher on the root, speaks to its own children.
_NOT_PASSED = ("SLURM_", "PBS_", "PMI_", "PMIX_", "HYDI_", "SLURMD_")
# What each member has by itself: the root's would lead astray.
_OWN = frozenset((*DEVICES, *THREADS, "TMPDIR", "HOSTNAME", "CUDA_DEVICE_ORDER", MEMBER))


class MemberPrograms:
    """The programs of one member; each is started, perhaps ended, and reported once.

    Args:
        nursery: in which they run; its cancellation ends them.
        exited: called with number, status and the end of the output, when nothing of a program is
            left.
    """

    def __init__(self, nursery: trio.Nursery, exited: Callable[[int, int, bytes], object]) -> None:
        self._nursery = nursery
        self._exited = exited
        self._scopes: dict[int, trio.CancelScope] = {}

    def start(self, number: int, order: ProgramOrder) -> None:
        """Start a program."""
        self._scopes[number] = trio.CancelScope()
        self._nursery.start_soon(self._run, number, order)

    def end(self, number: int) -> None:
        """End a program, unless it has ended."""
        scope = self._scopes.get(number)
        if scope is not None:
            scope.cancel()

    async def _run(self, number: int, order: ProgramOrder) -> None:
        status, output = CANNOT, b""
        with self._scopes[number]:
            try:
                done = await run_external(
                    [os.fsdecode(word) for word in order.argv],
                    env=_environment(order),
                    cwd=os.fsdecode(order.cwd),
                    stderr=STDOUT,
                    check=False,
                )
            except ExternalStartError as error:
                status, output = NOT_FOUND, str(error).encode()
            except (ExternalError, OSError, ValueError) as error:
                output = str(error).encode()
            else:
                status, output = done.returncode, done.stdout or b""
        # On its own cancellation, too: nothing is left then.
        del self._scopes[number]
        self._exited(number, status, output[-OUTPUT:])


def own_facts() -> str:
    """Return what is a member's own, as JSON: the CPUs, and the variables of devices and threads.

    Some launchers give ranks the variables of the root over those of their member. They pass on
    variables that the root does not have: so ``rank`` finds these facts in one of them.
    """
    variables = {name: os.environ[name] for name in sorted(_OWN) if name in os.environ}
    return json.dumps({"cpus": sorted(os.sched_getaffinity(0)), "variables": variables})


def _environment(order: ProgramOrder) -> dict[str, str | None]:
    variables: dict[str, str | None] = {}
    for raw, value in order.environment:
        name = os.fsdecode(raw)
        if name not in _OWN and not name.startswith(_NOT_PASSED):
            variables[name] = os.fsdecode(value)
    variables[MEMBER] = own_facts()
    return variables
