"""`GangMembers`: the members of a gang, as the programs of the root's tasklet use them."""

from __future__ import annotations

import base64
import os
import pickle
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from grain import GVAR
from grain.worker.errors import ExternalError
from grain.worker.gang.control import ControlError
from grain.worker.gang.messages import ProgramOrder
from grain.worker.gang.rsh import CALL, ENFORCE
from grain.worker.processes.account import RunAccount
from grain.worker.processes.mpi import SlurmPlace, launcher_variables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from grain.eventlog.usage import Usage
    from grain.worker.errors import ExternalMemoryError
    from grain.worker.external import Completed
    from grain.worker.gang.control import JsonLines
    from grain.worker.processes.warning import Cause, EarlyWarning


class GangMembers:
    """The members, through the process of the root.

    Args:
        lines: to that process.

    Attributes:
        cpus, rsh, address, places, uses_doors: see `grain.worker.processes.mpi.Members`.
    """

    def __init__(
        self, lines: JsonLines, rsh: str, cpus: Sequence[int], place: Mapping[str, str]
    ) -> None:
        self._lines = lines
        self._numbers = count(1)
        self._calls: dict[int, GangCall] = {}
        self._is_lost = False
        self.rsh = rsh
        self.address = "127.0.0.1"  # unless there are other members
        self.cpus = cpus
        self.places = {0: SlurmPlace(**place)}
        self.uses_doors = False
        self._variables: dict[str, str] = {}

    def allow(self, ranks: Sequence[int]) -> None:
        """See `grain.worker.processes.mpi.Members`."""
        # Its directory is removed with the process of the root.
        self._variables = launcher_variables(self, ranks, Path(self.rsh).parent)

    @asynccontextmanager
    async def call(
        self,
        enforce: bool | None = None,
        memory_signs: Sequence[str] = (),
        warning: EarlyWarning | None = None,
    ) -> AsyncIterator[GangCall]:
        """See `grain.worker.processes.mpi.Members`."""
        number = next(self._numbers)
        call = GangCall(self._lines, number, self._variables, enforce, memory_signs, warning)
        self._calls[number] = call
        account = GVAR.account
        programs = account.programs.on_each if isinstance(account, RunAccount) else ()
        for one in programs:
            one.begin(call, time.monotonic())
        try:
            with call.scope:
                yield call
        finally:
            with trio.CancelScope(shield=True):
                await self._settle(call)
            for index, one in enumerate(programs):
                one.end(call, time.monotonic(), (call.used or {}).get(index))
        if call.failed:
            # Perhaps since a member was lost: then this is not the end of the run.
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _settle(self, call: GangCall) -> None:
        # It takes some 20 s at most, as a lost member cancels the run. When one is lost, it does
        # not wait: the end of the run ends all seats.
        if not self._is_lost:
            # If the process has gone, seats end all by themselves, and the run is cancelled.
            with suppress(ControlError):
                ended = {"call": call.number, "doors": self.uses_doors, "failed": call.failed}
                await self._lines.send(settle=True, **ended)
            await call.settled.wait()
        del self._calls[call.number]

    def on_line(self, line: dict[str, Any]) -> None:
        """Handle a line of the process; one that is not about a call has no effect."""
        call = self._calls.get(line.get("call", 0))
        if call is None:  # or it has ended
            return
        if "run" in line:
            call.on_outcome(line["run"], line["outcome"])
        elif "refused" in line:
            call.refused = call.refused or line["refused"]
            call.scope.cancel()
        elif "settled" in line:
            call.on_settled(line["used"])

    def on_lost(self) -> None:
        """Record that no more answers will come."""
        self._is_lost = True
        for call in self._calls.values():
            call.settled.set()


class GangCall:
    """See `grain.worker.processes.mpi.MembersCall`.

    Attributes:
        scope: of its block.
        failed, refused, used, exceeded: see there.
        settled: set when nothing of it is left.
    """

    def __init__(
        self,
        lines: JsonLines,
        number: int,
        launchers: Mapping[str, str],
        enforce: bool | None = None,
        memory_signs: Sequence[str] = (),
        warning: EarlyWarning | None = None,
    ) -> None:
        self._lines = lines
        self._warn = None if warning is None else (warning.way, warning.before)
        self._enforce = enforce
        self._memory_signs = tuple(memory_signs)
        self._ended: list[trio.Event] = []
        self._outcomes: dict[int, Completed | ExternalError] = {}
        self.number = number
        stated = "" if enforce is None else str(int(enforce))
        self.variables: Mapping[str, str] = {CALL: str(number), ENFORCE: stated, **launchers}
        self.refused = ""
        self.failed = False
        self.used: Mapping[int, Usage] | None = None
        self.exceeded: ExternalMemoryError | None = None
        self.scope = trio.CancelScope()
        self.settled = trio.Event()

    async def run(
        self,
        index: int,
        *,
        argv: Sequence[bytes],
        cwd: bytes,
        changes: Mapping[str, str | None],
        stdout: bytes | None,
        timeout: float | None,  # noqa: ASYNC109 (it bounds the program, not the waiting)
        grace: float,
        threads: int | None,
    ) -> Completed:
        """See `grain.worker.processes.mpi.MembersCall`."""
        changed = tuple(
            (os.fsencode(name), None if value is None else os.fsencode(value))
            for name, value in {**changes, CALL: str(self.number)}.items()
        )
        inherited = tuple(os.environb.items())
        order = ProgramOrder(
            tuple(argv), inherited, cwd, changed, stdout, timeout, grace, threads,
            enforce=self._enforce, memory_signs=self._memory_signs, warn=self._warn,
        )  # fmt: skip
        number, ended = len(self._ended), trio.Event()
        self._ended.append(ended)
        content = base64.b85encode(msgspec.msgpack.encode(order)).decode()
        with suppress(ControlError):  # the process has gone, and the whole run is cancelled
            await self._lines.send(run=number, call=self.number, on=index, order=content)
        await ended.wait()
        outcome = self._outcomes[number]
        if isinstance(outcome, ExternalError):
            self.failed = True
            raise type(outcome)(replace(outcome.failure, member=index))
        return outcome

    async def warn(self, cause: Cause) -> None:
        """See `grain.worker.processes.mpi.MembersCall`."""
        with suppress(ControlError):  # the process has gone, and the whole run is cancelled
            await self._lines.send(warn=self.number, worker=cause == "worker")

    def on_outcome(self, number: int, outcome: str) -> None:
        """Record how a program has ended."""
        self._outcomes[number] = pickle.loads(base64.b85decode(outcome))  # noqa: S301 (our child)
        self._ended[number].set()

    def on_settled(self, used: str) -> None:
        """Record that nothing is left, and what the programs have used."""
        self.used, self.exceeded = pickle.loads(base64.b85decode(used))  # noqa: S301 (our child)
        self.settled.set()
