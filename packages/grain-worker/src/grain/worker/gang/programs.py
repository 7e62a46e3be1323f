"""`MemberPrograms`: the programs that a member runs for the root of its gang."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import trio

from grain.worker.errors import ExternalError, ExternalStartError, Failure
from grain.worker.external import CAPTURE, STDOUT, Completed, run_external
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


Outcome: TypeAlias = Completed | ExternalError
"""The end of a program: its result, or its error."""


class MemberPrograms:
    """The programs of one member; each is started, perhaps ended, and reported once.

    Args:
        nursery: in which they run; its cancellation ends them.
        exited: called with number and outcome, when nothing of a program is left. Of its output
            there is the end.
    """

    def __init__(self, nursery: trio.Nursery, exited: Callable[[int, Outcome], object]) -> None:
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
        argv = tuple(map(os.fsdecode, order.argv))
        facts = Failure(argv, socket.gethostname(), os.fsdecode(order.cwd))
        outcome: Outcome = ExternalError(replace(facts, reason="ended, as its call has ended"))
        with self._scopes[number]:
            try:
                outcome = await run_external(
                    argv,
                    env=_environment(order),
                    cwd=facts.cwd,
                    stdout=CAPTURE if order.stdout is None else os.fsdecode(order.stdout),
                    stderr=STDOUT,
                    timeout=order.timeout,
                    grace=order.grace,
                    threads=order.threads,
                )
            except ExternalError as error:
                outcome = error
            except (OSError, ValueError) as error:
                outcome = ExternalError(replace(facts, reason=str(error)))
        # On its own cancellation, too: nothing is left then.
        del self._scopes[number]
        self._exited(number, _cut(outcome))


def as_of_ssh(outcome: Outcome) -> tuple[int, str]:
    """Return the status and the output of a program, as ssh would have them."""
    if isinstance(outcome, ExternalStartError):
        return NOT_FOUND, str(outcome)
    if outcome.returncode is None:
        return CANNOT, str(outcome)
    return outcome.returncode, (outcome.stdout or b"").decode(errors="replace")


def own_facts() -> str:
    """Return what is a member's own, as JSON: the CPUs, and the variables of devices and threads.

    Some launchers give ranks the variables of the root over those of their member. They pass on
    variables that the root does not have: so ``rank`` finds these facts in one of them.
    """
    variables = {name: os.environ[name] for name in sorted(_OWN) if name in os.environ}
    return json.dumps({"cpus": sorted(os.sched_getaffinity(0)), "variables": variables})


def _cut(outcome: Outcome) -> Outcome:
    """Return an outcome with the end of its output."""
    if isinstance(outcome, Completed):
        return replace(outcome, stdout=outcome.stdout and outcome.stdout[-OUTPUT:])
    failure = outcome.failure
    return type(outcome)(replace(failure, stdout=failure.stdout and failure.stdout[-OUTPUT:]))


def _environment(order: ProgramOrder) -> dict[str, str | None]:
    variables: dict[str, str | None] = {}
    for raw, value in order.environment:
        name = os.fsdecode(raw)
        if name not in _OWN and not name.startswith(_NOT_PASSED):
            variables[name] = os.fsdecode(value)
    variables[MEMBER] = own_facts()
    for raw, change in order.changes:
        variables[os.fsdecode(raw)] = None if change is None else os.fsdecode(change)
    return variables
