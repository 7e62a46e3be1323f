"""`RankDoor`: where a member accepts the ranks that srun starts.

srun has Slurm's daemons start ranks, which are then not below any process of Grain: nothing would
bind them, count them, or end them. So what it starts is ``srun``, a stand-in for the rank. That
asks at the door of its member for the program, passes its open files and its environment on, and
ends as the program ends. The program is one of the member's, as any other. It talks to the MPI
library's peers by the files that Slurm has opened for the stand-in.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import trio

from grain.worker.gang.control import ControlError, JsonLines, listen, serve
from grain.worker.gang.messages import ProgramOrder, RankOrder
from grain.worker.gang.programs import (
    CANNOT,
    NO_BOUND,
    CallUse,
    MemberPrograms,
    MemoryBound,
    Outcome,
    as_of_ssh,
)
from grain.worker.processes.environment import QUEUE

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTING = 5.0  # seconds for a stand-in to end after its program


class _Rank(NamedTuple):
    """A rank: its call, and the end of its program."""

    call: int
    over: trio.Event
    ended: list[Outcome]


class RankDoor:
    """The ranks of a member that srun has started.

    Args:
        nursery: in which they run; its cancellation ends them.
        bound: the memory that each may have.

    Attributes:
        name: at which stand-ins ask.
    """

    def __init__(self, nursery: trio.Nursery, bound: MemoryBound = NO_BOUND) -> None:
        self._nursery = nursery
        # They write to the files of their stand-ins.
        self._programs = MemberPrograms(nursery, lambda *_: None, self._on_exited, bound)
        self._ranks: dict[int, _Rank] = {}
        self._admitted: dict[int, tuple[int, trio.Event]] = {}
        self._number = 0
        self._used: defaultdict[int, CallUse] = defaultdict(CallUse)
        # Calls that have ended: a stand-in of theirs comes too late.
        self._ended: set[int] = set()
        self.name, self._listener = listen()

    async def serve(self) -> None:
        """Accept ranks until cancelled."""
        await serve(self._listener, self._admit)

    async def end_call(self, call: int) -> CallUse:
        """End all ranks of a call, wait until nothing of them is left, and return their use.

        No more are accepted.
        """
        self._ended.add(call)
        for number, rank in list(self._ranks.items()):
            if rank.call == call:
                self._programs.end(number)
        for of, gone in list(self._admitted.values()):
            if of == call:
                await gone.wait()
        return self._used.pop(call, None) or CallUse()

    async def _admit(self, lines: JsonLines) -> None:
        self._number += 1
        number = self._number
        try:
            asked = await lines.receive_as(RankOrder)
            call, argv = asked.call, tuple(map(os.fsencode, asked.words))
            order = ProgramOrder(argv, (), os.fsencode(asked.cwd), enforce=asked.enforce)
        except (ControlError, ValueError) as error:
            await _answer(lines, CANNOT, f"grain: {error}\n")
            return
        if call in self._ended:
            await _answer(lines, CANNOT, "grain: the program that asked for it has ended\n")
            return
        rank = self._ranks[number] = _Rank(call, trio.Event(), [])
        gone = trio.Event()
        self._admitted[number] = call, gone
        self._used[call].begin(number)
        try:
            self._programs.start(number, order)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_with, lines, number)
                await rank.over.wait()
                nursery.cancel_scope.cancel()
            await _answer(lines, *as_of_ssh(rank.ended[0]))
            with trio.move_on_after(_PARTING), suppress(ControlError):
                await lines.receive()
        finally:
            del self._admitted[number]
            gone.set()

    async def _end_with(self, lines: JsonLines, number: int) -> None:
        """End a program when its stand-in has gone."""
        with suppress(ControlError):
            while True:
                await lines.receive()
        self._programs.end(number)

    def _on_exited(self, number: int, outcome: Outcome) -> None:
        rank = self._ranks.pop(number)
        self._used[rank.call].end(number, outcome)
        rank.ended.append(outcome)
        rank.over.set()


def slurm_place(door: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return where a member is in Slurm: its job and its node, empty if in none; and its door.

    A job of Grain's queue, in which a worker may run, has such variables, too.
    """
    real = {} if QUEUE.decode() in environ else environ
    return {
        "job": real.get("SLURM_JOB_ID", ""),
        "node": real.get("SLURMD_NODENAME", ""),
        "door": door,
    }


async def _answer(lines: JsonLines, status: int, output: str) -> None:
    with suppress(ControlError):  # it has gone
        await lines.send(status=status, output=output)
