"""`StepDesk`: where the srun of a job asks for its steps."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import trio

from grain.files.processes import start_time
from grain.queue.notes.steps import StepRecord
from grain.worker.gang.control import ControlError
from grain.worker.guards.proc import send_signal
from grain.worker.processes.mpi import rank_words
from grain.worker.processes.usage_now import MOST, all_below, usage_of
from grain.worker.steps.orders import StepOrder, StepTold, answer, wish_of
from grain.worker.steps.shares import StepImpossible

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from grain.worker.gang.control import JsonLines
    from grain.worker.processes.usage_now import UsageNow
    from grain.worker.steps.orders import StepJob
    from grain.worker.steps.shares import MemberShare, StepShares, StepWish

DESK = "GRAIN_STEPS"
"""The variable of a job's programs with the name at which its srun asks."""

GRACE = 30.0  # seconds between SIGTERM and SIGKILL, as ``KillWait`` of Slurm
_LOOK = 0.1  # seconds between two looks whether the processes of a lost srun are gone


@dataclass(eq=False)
class _Step:
    """A step that waits or runs.

    Attributes:
        may_begin: set when it has its share.
        over: set when its processes have ended.
        processes: pids, with the start of each.
        line: what was noted of it last; None as long as it waits.
    """

    wish: StepWish
    lines: JsonLines
    may_begin: trio.Event = field(default_factory=trio.Event)
    over: trio.Event = field(default_factory=trio.Event)
    shares: tuple[MemberShare, ...] = ()
    processes: list[tuple[int, int]] = field(default_factory=list)
    state: str = ""
    line: StepRecord | None = None

    def signal(self, number: int) -> bool:
        """Send a signal to what is left of it; return False if nothing is."""
        left = self.left()
        if left:
            with suppress(OSError):
                send_signal(left, number)
        return bool(left)

    def left(self) -> list[int]:
        """Return the pids of its processes that have not ended."""
        return [pid for pid, began in self.processes if _began(pid) == began]

    def usages(self) -> list[UsageNow]:
        """Return what each of its processes uses, with all below it; this takes some time."""
        found = [usage_of([pid, *(all_below(pid, MOST) or ())]) for pid in self.left()]
        return [usage for usage in found if usage is not None]


def _began(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if it is gone."""
    try:
        return start_time(pid)
    except OSError:
        return None


class StepDesk:
    """The steps of a job, one connection each.

    srun asks with a `StepOrder`. It is told that it waits (``wait``), that it may start (``step``),
    or that it cannot (``refused``). It says which processes it has ``started``, and with which
    statuses they have ``ended``; that is confirmed, so that the next srun finds the room free. If
    its connection ends without that, what it has started is ended first.

    Args:
        shares: of the job.
        job: the job.
        note: called with each step that begins or ends.
    """

    def __init__(
        self, shares: StepShares, job: StepJob, note: Callable[[StepRecord], object]
    ) -> None:
        self._shares = shares
        self._job = job
        self._note = note
        self._steps: dict[int, _Step] = {}  # by tickets
        self._running: dict[int, _Step] = {}  # by numbers
        self._next = 0

    def signal(self, step: int, number: int, state: str = "") -> bool:
        """Send a signal to the processes of a step; return False if it does not run."""
        found = self._running.get(step)
        if found is None:
            return False
        found.state = state or found.state
        return found.signal(number)

    async def end_step(self, step: int, state: str) -> None:
        """End a step: SIGTERM, and SIGKILL to what is left after a while."""
        found = self._running.get(step)
        if found is not None:
            found.state = state
            await _tell(found.lines, over="TIME LIMIT" if state == "TIMEOUT" else "")
            found.signal(signal.SIGTERM)
            with trio.move_on_after(GRACE):
                await found.over.wait()
            found.signal(signal.SIGKILL)

    async def measure(self) -> None:
        """Note what the steps that run use now, on this host."""
        running = list(self._running.values())
        for step in running:
            usages = await trio.to_thread.run_sync(step.usages)
            if step.line is not None and usages and not step.over.is_set():
                step.line = msgspec.structs.replace(
                    step.line,
                    cpu=max(step.line.cpu, sum(one.cpu for one in usages)),
                    memory=max(step.line.memory, *(one.memory for one in usages)),
                )
                self._note(step.line)

    async def admit(self, lines: JsonLines) -> None:
        """Serve one srun until its step has ended."""
        try:
            order = await lines.receive_as(StepOrder)
        except ControlError as error:
            await _tell(lines, refused=f"(Grain) {error}")
            return
        try:
            wish = wish_of(order, self._job)
            ticket = self._shares.ask(wish)
        except StepImpossible as impossible:
            await _tell(lines, refused=self._refusal(str(impossible)))
            return
        step = self._steps[ticket] = _Step(wish, lines)
        self._begin()
        try:
            if await self._may_begin(lines, order, step):
                await self._run(lines, order, step)
        finally:
            del self._steps[ticket]
            self._shares.end(ticket)
            self._begin()
        await _tell(lines, noted=True)

    async def _may_begin(self, lines: JsonLines, order: StepOrder, step: _Step) -> bool:
        if step.may_begin.is_set():
            return True
        if order.immediate:
            await _tell(lines, refused=self._refusal("Requested nodes are busy"))
            return False
        number = self._job.number
        if not order.quiet:
            await _tell(
                lines,
                wait=f"srun: Job {number} step creation temporarily disabled, retrying "
                "(Requested nodes are busy)",
            )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_gone, lines, nursery.cancel_scope)
            await step.may_begin.wait()
            nursery.cancel_scope.cancel()
        if not step.may_begin.is_set():
            return False
        if not order.quiet:
            await _tell(lines, wait=f"srun: Step created for job {number}")
        return True

    async def _run(self, lines: JsonLines, order: StepOrder, step: _Step) -> None:
        number, self._next = self._next, self._next + 1
        self._running[number] = step
        step.line = StepRecord(
            number,
            order.name,
            step.wish.tasks,
            sum(len(share.cpus) for share in step.shares),
            tuple(self._job.names[share.member] for share in step.shares),
            time.time(),
        )
        self._note(step.line)
        told: StepTold | None = None
        try:
            await _tell(
                lines, rank=rank_words(), **answer(number, order, step.wish, step.shares, self._job)
            )
            async with trio.open_nursery() as nursery:
                if order.limit:
                    nursery.start_soon(self._limit, number, order.limit)
                told = await _ended(lines, step)
                nursery.cancel_scope.cancel()
            if told is None:
                while step.signal(signal.SIGKILL):  # noqa: ASYNC110 - nothing tells of it
                    await trio.sleep(_LOOK)
        finally:
            del self._running[number]
            step.over.set()
            if told is None:  # srun is lost, or the job is over
                told, step.state = StepTold(ended=(-signal.SIGKILL,)), step.state or "CANCELLED"
            ended = msgspec.structs.replace(
                step.line,
                ended=time.time(),
                statuses=told.ended or (),
                state=step.state,
                cpu=max(told.cpu, step.line.cpu),
                memory=max(told.memory, step.line.memory),
            )
            self._note(ended)

    async def _limit(self, number: int, seconds: float) -> None:
        await trio.sleep(seconds)
        await self.end_step(number, "TIMEOUT")

    def _begin(self) -> None:
        for ticket, shares in self._shares.begin():
            self._steps[ticket].shares = shares
            self._steps[ticket].may_begin.set()

    def _refusal(self, text: str) -> str:
        if text.startswith(("Only allocated", "--relative", "Hostlist")):
            return text
        return f"Unable to create step for job {self._job.number}: {text}"


async def _ended(lines: JsonLines, step: _Step) -> StepTold | None:
    """Wait until srun says how a step has ended, and return that; None if it has gone."""
    with suppress(ControlError):
        while True:
            told = await lines.receive_as(StepTold)
            found = [(pid, _began(pid)) for pid in told.started]
            step.processes += [(pid, began) for pid, began in found if began is not None]
            if told.ended is not None:
                return told
    return None


async def _until_gone(lines: JsonLines, scope: trio.CancelScope) -> None:
    """Cancel a scope when the other side has gone."""
    with suppress(ControlError):
        await lines.receive()
    scope.cancel()


async def _tell(lines: JsonLines, **content: Any) -> None:
    with suppress(ControlError):  # it has gone, which is seen where it is read from
        await lines.send(**content)
