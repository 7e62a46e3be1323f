"""The runner: executes the runs that a head or an agent orders, and reports their ends.

The same code serves at the end of a channel in memory, in the mission's process (the local
worker), and in a process of its own. They differ by a `Translation`.
"""

from __future__ import annotations

import math
import signal
import sys
from contextlib import ExitStack, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import outcome
import trio
from msgspec.structs import replace

from grain import GVAR
from grain.edge.version import code_at_start, replaced_code
from grain.eventlog.causes import RunFailure
from grain.resource import Memory
from grain.worker.call import run_call
from grain.worker.errors import (
    CodeReplaced,
    ExternalLostError,
    MemberLost,
    PayloadError,
    all_behind,
    command_line,
    failure_of,
    note_memory,
    printable,
)
from grain.worker.lanes.beginnings import Beginnings
from grain.worker.messages import (
    LANE,
    AskEnding,
    Cancel,
    DefineFunction,
    Ended,
    EndingTold,
    EndOfWorker,
    ForgetFunctions,
    GangBegun,
    Inspect,
    Inspected,
    JobBegins,
    MemberOpen,
    ProgramWarned,
    RunMessage,
    RunOver,
    SeatOpen,
    StartRun,
)
from grain.worker.node.library_threads import library_threads
from grain.worker.node.shortage import RoomReader
from grain.worker.processes.account import RunAccount, RunnersPrograms, WorkerEnd, never_told
from grain.worker.runner.services import open_nursery_of_runs, services_of

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from grain.edge.channel import Batch, Channel
    from grain.eventlog.soft_stops import Interruption
    from grain.resource import Resource
    from grain.worker.call import Call, Outcome, RunSettings
    from grain.worker.gang.part import RootPart
    from grain.worker.lanes.run import LaneRun
    from grain.worker.messages import Attempt, GangPart
    from grain.worker.node.shortage import MemoryRoom
    from grain.worker.runner.translation import Translation

Arriving = TypeVar("Arriving")
Departing = TypeVar("Departing")

_FAILURE = 200  # characters of the text about an exception
_TURN = 0.001
"""Seconds for which brief runs may follow each other before other tasks of the runner have a turn:
the one that takes orders is among them."""

_MOST_WHY = 200  # characters of the reason why a gang has not begun

_SENT = frozenset(
    {
        signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGUSR1,
        signal.SIGUSR2, signal.SIGTERM, signal.SIGXCPU,
    }
)  # fmt: skip
"""Signals by which batch systems end jobs. Others are mistakes of the program, mostly."""


class Runner(Generic[Arriving, Departing]):
    """The runner of one worker: it executes runs, each in a trio task.

    It receives the payloads of runs as `Arriving`, and reports outcomes as `Departing`.

    Args:
        name: the worker's name, which tasklets see as ``GVAR.instance``.
        channel: the channel to the head or the agent. The runner does not close it.
        on_ended: called when a run that had begun has ended, before that is reported.
        interruptible: False in a process that Ctrl-C has no effect on, see `run_call`.
        told_at: as of `WorkerEnd`.
        rooms: reads the memory of the node; by default as it is.
        replaced: as `grain.edge.version.replaced_code`.
        beginnings: where it notes the calls of lanes; by default for itself.
    """

    def __init__(
        self,
        name: str,
        channel: Channel[Departing | None, Arriving | None],
        translation: Translation[Arriving, Departing],
        on_ended: Callable[[Attempt], object] | None = None,
        *,
        interruptible: bool = True,
        told_at: Callable[[], float] = never_told,
        rooms: Callable[[], list[MemoryRoom]] | None = None,
        replaced: Callable[[], str] = replaced_code,
        beginnings: Beginnings | None = None,
    ) -> None:
        code_at_start()
        self.name = name
        self.channel = channel
        self.translation = translation
        self.on_ended = on_ended
        self.interruptible = interruptible
        self.told_at = told_at
        self.rooms = rooms
        self.replaced = replaced
        self.beginnings = beginnings or Beginnings()

    async def serve(self) -> None:
        """Take runs from the channel until its other end is closed, then until they have ended.

        Cancelling it cancels the runs, and it returns when nothing of them is left.
        """
        with ExitStack() as afterwards:
            async with open_nursery_of_runs() as nursery:
                execution = _Execution(self, nursery)
                services_of(nursery).ask_ending = execution.ask_ending
                services_of(nursery).end_use = execution.end_use
                services_of(nursery).job_begins = execution.job_begins
                afterwards.callback(execution.end_claims)
                await self.channel.receive_into(execution.take)
                execution.leave()


class PooledNursery:
    """A nursery for one run at a time; cancelling the nursery cancels that run.

    A cancel scope for each run would do, and is what the first runs get; but opening and closing
    one costs as much as the rest of a short run. This nursery is opened once and serves many runs.
    """

    __slots__ = ("_nursery", "cancelled")

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.cancelled = False

    def start(
        self,
        execute: Callable[..., Awaitable[None]],
        run: StartRun,
        call: Call,
        res: Resource,
        settings: RunSettings | None,
    ) -> None:
        """Start a run; the nursery is used by no other meanwhile."""
        self._nursery.start_soon(execute, run, call, res, settings, self, name=call.fn)

    def cancel(self) -> None:
        """Cancel the run, and use the nursery no more."""
        self.cancelled = True
        self._nursery.cancel_scope.cancel()


class _Question:
    """A question if the worker is being ended, until it is answered."""

    def __init__(self, signal: int) -> None:
        # An agent that is gone itself answers no question; it was ended, with all that it had.
        self.ends = signal > 0
        self.answered = trio.Event()


class _Execution(Generic[Arriving, Departing]):
    """The runs of a runner while it serves."""

    def __init__(self, runner: Runner[Arriving, Departing], nursery: trio.Nursery) -> None:
        self._interruptible = runner.interruptible
        self._rooms = runner.rooms
        self._replaced = runner.replaced
        self._on_ended = runner.on_ended
        self._name = runner.name
        self._channel = runner.channel
        self._translation = runner.translation
        self._nursery = nursery
        # The runs under way, and what cancels each.
        self._runs: dict[Attempt, PooledNursery | trio.CancelScope] = {}
        self._idle: list[PooledNursery] = []
        # Each run begins with these variables, whatever the one before it has set: a trio task
        # copies the context that starts it, which is that of the channel or this one.
        self._context = copy_context()
        self._threads = library_threads()
        # By run: the cores that count for numeric libraries.
        self._cores: dict[Attempt, int] = {}
        self._leaving = False
        # The gangs of which a run here is the root; and the runs that are a part of one.
        self._gangs: dict[Attempt, RootPart] = {}
        self._parts: set[Attempt] = set()
        # The runs of the calls of each have its attempt, one at a time.
        self._lanes: dict[Attempt, LaneRun] = {}
        self._beginnings = runner.beginnings
        self._questions: dict[Attempt, _Question] = {}
        self._end_of_worker = WorkerEnd(self._report_warned, runner.told_at)
        self._programs = RunnersPrograms(self._on_program)
        # Of the watch over the node's memory, if there is one.
        self._watch: trio.CancelScope | None = None

    # ---- orders

    def take(self, batch: Batch[Arriving | None]) -> None:
        """Carry out the messages of a head or an agent."""
        for message, payload in batch:
            if type(message) is StartRun:
                self._start(message, payload)
            elif type(message) is Cancel:
                self._cancel(message)
            elif isinstance(message, (DefineFunction, ForgetFunctions)):
                self._translation.learn(message, payload)
            elif isinstance(message, Inspect):
                self._inspect(message)
            elif isinstance(message, MemberOpen) and message.attempt in self._gangs:
                self._gangs[message.attempt].add(message)
            elif isinstance(message, EndingTold) and message.attempt in self._questions:
                question = self._questions[message.attempt]
                question.ends = message.ends
                question.answered.set()
            elif isinstance(message, EndOfWorker):
                left = math.inf if message.left is None else message.left
                at = trio.current_time() + left
                self._end_of_worker.announce(at, now=message.now)

    def _report_warned(self) -> None:
        """Report that a program was warned of the end of the worker."""
        with suppress(trio.BrokenResourceError):  # the other end has left
            self._channel.post([(ProgramWarned(), None)])

    def _inspect(self, message: Inspect) -> None:
        # Later: over a channel in memory the answer would come before the question was sent.
        self._nursery.start_soon(self._answer, message)

    async def _answer(self, message: Inspect) -> None:
        from grain.worker.runner.programs import programs_of  # seldom asked for

        answer = Inspected(message.question, await programs_of(message.attempt))
        with suppress(trio.BrokenResourceError):  # the other end has left
            self._channel.post([(answer, None)])

    def _on_program(self) -> None:
        """Watch the memory of the node, as a program begins."""
        if self._watch is None:
            self._watch = trio.CancelScope()
            self._nursery.start_soon(self._watch_memory, self._watch)

    async def _watch_memory(self, scope: trio.CancelScope) -> None:
        from grain.worker.runner.programs import watch_memory  # many runners have no programs

        with scope:
            self._rooms = self._rooms or RoomReader().read
            await watch_memory(self._programs.running, self._may_end, self._end_now, self._rooms)
        self._watch = None

    def _may_end(self, attempt: Attempt) -> bool:
        """Return True for a run of a task on one worker."""
        return attempt in self._runs and attempt not in self._lanes and attempt not in self._parts

    def _end_now(self, attempt: Attempt) -> None:
        if attempt in self._runs:
            self._runs[attempt].cancel()

    def leave(self) -> None:
        """Begin nothing any more; the nursery ends when the runs under way have ended."""
        self._leaving = True
        self._end_watch()
        for lane in self._lanes.values():
            lane.recall()
        for pooled in self._idle:
            pooled.cancel()
        for question in self._questions.values():
            question.answered.set()

    def end_claims(self) -> None:
        """End what an interrupt has left of the runs, so that libraries have their threads back."""
        for cores in self._cores.values():
            self._threads.end_run(cores)
        self._cores.clear()

    def _start(self, run: StartRun, payload: Arriving | None) -> None:
        if run.function == LANE:
            self._open_lane(run, payload)
            return
        decoded = self._decoded(run, payload)
        if decoded is None:
            return
        if self._idle:
            pooled = self._runs[run.attempt] = self._idle.pop()
            in_lane = self._lanes and run.attempt in self._lanes
            execute = self._run_calls if in_lane else self._run_one
            pooled.start(execute, run, *decoded)
        else:
            scope = self._runs[run.attempt] = trio.CancelScope()
            self._nursery.start_soon(self._run_in_scope, run, *decoded, scope, name=decoded[0].fn)
            # For a later run, which then need not wait for a nursery.
            self._nursery.start_soon(self._open_pooled)

    def _decoded(
        self, run: StartRun, payload: Arriving | None
    ) -> tuple[Call, Resource, RunSettings | None] | None:
        """Return the call of a run that is to begin, with its surroundings; None if it does not."""
        attempt = run.attempt
        if attempt in self._runs:
            return None  # delivered twice
        try:
            call, res, settings = self._translation.decode(run, payload)
        except PayloadError as error:
            # Reported later: over a channel in memory the answer is there before this returns, and
            # would find the rest of the batch not taken yet.
            self._runs[attempt] = trio.CancelScope()
            self._nursery.start_soon(self._refuse, run, error)
            return None
        if run.gang is not None:
            self._parts.add(attempt)
            call = self._part_of(run.gang, attempt, call)
        return call, res, settings

    def _open_lane(self, run: StartRun, invitation: Any) -> None:
        attempt = run.attempt
        if attempt in self._lanes or attempt in self._runs:
            return  # delivered twice
        from grain.worker.lanes.calls import LaneCalls  # many runners have none
        from grain.worker.lanes.run import LaneRun

        def cancel() -> None:
            if (under_way := self._runs.get(attempt)) is not None:
                under_way.cancel()

        def start(first: StartRun, payload: Arriving | None) -> None:
            self._context.run(self._start, first, payload)

        begun = self._beginnings.enter(attempt)
        calls = LaneCalls(run, start, cancel, self._translation.learn_once, begun)
        lane = self._lanes[attempt] = LaneRun(calls)
        self._nursery.start_soon(self._run_lane, attempt, lane, invitation)

    async def _run_lane(self, attempt: Attempt, lane: LaneRun, invitation: Any) -> None:
        kept: Any = await lane.serve(invitation)
        del self._lanes[attempt]
        self._beginnings.leave(attempt)
        if kept is None:
            self._send(Ended(attempt, "cancelled"), None)
        else:
            self._send(Ended(attempt), kept)

    def _part_of(self, gang: GangPart, attempt: Attempt, call: Call) -> Call:
        """Return the call of a part of a gang."""
        from grain.worker.gang.part import RootPart, seat_call  # seldom needed

        if gang.index:
            ends = partial(self.ask_ending, attempt, signal.SIGTERM)
            return seat_call(lambda invitation: self._tell(SeatOpen(attempt, invitation)), ends)
        part = RootPart(call, gang.size, lambda: self._tell(GangBegun(attempt)))
        self._gangs[attempt] = part
        return part.call()

    def _tell(self, news: RunMessage | JobBegins) -> None:
        with suppress(trio.BrokenResourceError):  # the other end has left
            self._channel.post([(news, None)])

    def _pop_successor(self, run: StartRun) -> tuple[StartRun, Any] | None:
        """Return the call that begins when this one has ended, in its lane; None if none does."""
        lane = self._lanes.get(run.attempt)
        return None if lane is None else lane.pop_next()

    def _start_successor(self, run: StartRun) -> None:
        """Start the run that waits for the end of this one, if there is one."""
        successor = self._pop_successor(run)
        if successor is not None:
            self._context.run(self._start, *successor)

    def _cancel(self, message: Cancel) -> None:
        lane = self._lanes.get(message.attempt)
        if lane is not None:
            lane.recall() if message.waiting else lane.revoke()
            return
        under_way = self._runs.get(message.attempt)
        if under_way is not None and not message.waiting:
            under_way.cancel()

    # ---- runs; each is a task of its own

    async def _refuse(self, run: StartRun, error: PayloadError) -> None:
        replaced = await self._replaced_behind(error)
        ends = replaced != "" and await self.ask_ending(run.attempt, 0, replaced)
        self._end(run, outcome.Error(error), None, returned="" if ends else None)
        self._start_successor(run)

    async def _open_pooled(self) -> None:
        async with trio.open_nursery() as nursery:
            self._idle.append(PooledNursery(nursery))
            await trio.sleep_forever()

    async def _run_calls(
        self,
        run: StartRun,
        call: Call,
        res: Resource,
        settings: RunSettings | None,
        pooled: PooledNursery,
    ) -> None:
        """Execute a call of a lane, then the calls that follow it there.

        A trio task for each would cost more than a brief call itself.
        """
        context, given = copy_context(), GVAR.surroundings
        until = trio.current_time() + _TURN
        while True:
            await self._run_one(run, call, res, settings, pooled, followed=True)
            # One that has set variables for itself is the last here.
            as_before = GVAR.is_all_but(context) and GVAR.surroundings is (settings or given)
            if not as_before or pooled.cancelled or self._leaving:
                break
            if trio.current_time() >= until:
                await trio.lowlevel.checkpoint()
                until = trio.current_time() + _TURN
            successor = self._pop_successor(run)
            decoded = None if successor is None else self._decoded(*successor)
            if successor is None or decoded is None:
                self._rest(pooled)
                return
            run = successor[0]
            call, res, settings = decoded
            self._runs[run.attempt] = pooled
        self._rest(pooled)
        self._start_successor(run)

    def _rest(self, pooled: PooledNursery) -> None:
        """Keep a nursery for a later run, if there is to be one."""
        if self._leaving:
            # `leave` has cancelled only the idle ones; this one would never end.
            pooled.cancel()
        elif not pooled.cancelled:
            self._idle.append(pooled)

    async def _run_one(
        self,
        run: StartRun,
        call: Call,
        res: Resource,
        settings: RunSettings | None,
        pooled: PooledNursery,
        *,
        followed: bool = False,
    ) -> None:
        """Execute a run; its nursery is for a later one then, unless it is followed at once."""
        ended: Outcome | None = None
        returned: Interruption | None = None
        account = RunAccount(res, run.attempt, run.past, self._end_of_worker, self._programs)
        try:
            ended = await self._call(run, call, res, settings, None, account)
            # Not for a brief call that has returned a value: to ask costs a part of it.
            if account.ran is not None or type(ended) is not outcome.Value or account.stopped:
                returned = await self._handed_back(account, ended)
        except BaseException as error:
            # The outcome of a cancelled run is dropped, but Ctrl-C must end more than the run.
            if not pooled.cancelled or has_interrupt(error):
                raise
        self._end(run, ended, call, account, returned=returned)
        if not followed:
            self._rest(pooled)

    async def _run_in_scope(
        self,
        run: StartRun,
        call: Call,
        res: Resource,
        settings: RunSettings | None,
        scope: trio.CancelScope,
    ) -> None:
        account = RunAccount(res, run.attempt, run.past, self._end_of_worker, self._programs)
        ended = await self._call(run, call, res, settings, scope, account)
        returned = await self._handed_back(account, ended)
        self._end(run, ended, call, account, returned=returned)
        self._start_successor(run)

    def _call(
        self,
        run: StartRun,
        call: Call,
        res: Resource,
        settings: RunSettings | None,
        scope: trio.CancelScope | None,
        account: RunAccount,
    ) -> Coroutine[Any, Any, Outcome | None]:
        limit = math.inf if run.limit is None else run.limit
        if cores := self._threads.begin_run(res):
            self._cores[run.attempt] = cores
        return run_call(
            call,
            res,
            self._name,
            limit,
            scope,
            settings,
            account,
            interruptible=self._interruptible,
        )

    async def _handed_back(self, account: RunAccount, ended: Outcome | None) -> Interruption | None:
        """Return the interruption of a run that failed as its worker, or one of a gang, is ended.

        Also of one that has a value, if one of its programs had the end of the worker as its reason
        to end: what a program computes that a batch system tells to end is not known to be whole.
        None is for an end of its own.
        """
        assert account.attempt is not None
        replaced = ""
        if account.stopped and ended is not None:
            return "stopped"
        if type(ended) is outcome.Error:
            if isinstance(ended.error, MemberLost) and ended.error.ends:
                return ""
            sent = signal_behind(ended.error)
            replaced = await self._replaced_behind(ended.error)
        elif (
            ended is None
            or account.ran is None
            or account.ran.last_end < self._end_of_worker.told_at()
        ):
            return None
        else:
            sent = signal.SIGTERM
        return "" if await self.ask_ending(account.attempt, sent, replaced) else None

    async def _replaced_behind(self, error: BaseException) -> str:
        """Return that the code of Grain was replaced, if a run may have failed for that; else "".

        Then a helper cannot be started, or a module of Grain's that is first used now is gone.
        """
        kinds = ImportError, PayloadError, CodeReplaced
        if self._interruptible or not any(isinstance(one, kinds) for one in all_behind(error)):
            return ""
        return await trio.to_thread.run_sync(self._replaced)

    async def ask_ending(self, attempt: Attempt, signal: int, replaced: str = "") -> bool:
        """Ask the agent if the worker is being ended, as a run has failed; see `worker_ends`."""
        if self._interruptible:
            return False  # what ends this worker ends its mission
        question = self._questions[attempt] = _Question(signal)
        try:
            self._channel.post([(AskEnding(attempt, signal, replaced), None)])
            await question.answered.wait()
        except trio.BrokenResourceError:
            pass  # the other end has left
        finally:
            del self._questions[attempt]
        return question.ends

    def end_use(self, attempt: Attempt) -> None:
        """Report that a run uses its resources no more; see `services.end_use`."""
        # A local worker has no agent to tell, and a gang ends as a whole.
        if not self._interruptible and attempt not in self._parts:
            self._tell(RunOver(attempt))

    def job_begins(self, job: JobBegins) -> None:
        """Tell the agent what to note if this process dies; see `services.job_begins`."""
        if not self._interruptible:
            self._tell(job)

    # ---- ends

    def _end(
        self,
        run: StartRun,
        ended: Outcome | None,
        call: Call | None,
        account: RunAccount | None = None,
        *,
        returned: Interruption | None = None,
    ) -> None:
        """Report the end of a run that had begun; None for an outcome if it was cancelled.

        Args:
            returned: as `_handed_back` returns it; None for an end of its own.
        """
        attempt = run.attempt
        del self._runs[attempt]
        if self._leaving:
            self._end_watch()
        if run.gang is not None:
            self._gangs.pop(attempt, None)
            self._parts.discard(attempt)
        if attempt in self._cores:
            self._threads.end_run(self._cores.pop(attempt))
        lost = ended.error if type(ended) is outcome.Error else None
        if lost is not None and isinstance(lost, MemberLost) and not lost.joined:
            # It has never begun.
            if self._on_ended is not None:
                self._on_ended(attempt)
            # The first line: the others are one for each address that was tried.
            why = lost.why.partition("\n")[0][:_MOST_WHY]
            absent = RunFailure(message=why)
            self._send(Ended(attempt, "returned", failure=absent, absent=lost.index), None)
            return
        report: object = b""
        short = ""
        if account is not None:
            account.close()
            short = account.short
            memory = account.res.get(Memory) if lost is not None else None
            if isinstance(memory, Memory) and lost is not None:
                note_memory(lost, memory.M, last=memory.last)
            report = self._translation.encode_report(account, ended)
        if self._on_ended is not None:
            self._on_ended(attempt)
        if short and type(ended) is not outcome.Value:
            ends = Ended(attempt, "cancelled", crash=short, report=report, interruption="short")
            self._send(ends, None)
        elif ended is None or returned is not None:
            status = "cancelled" if returned is None else "returned"
            self._send(Ended(attempt, status, report=report, interruption=returned or ""), None)
        else:
            payload, failed = self._translation.encode(ended, call)
            crash = worker = ""
            failure = None
            if type(ended) is outcome.Error:
                crash, failure = crash_behind(ended.error), failure_in_short(ended.error)
                worker = lost_worker(ended.error)
            self._send(Ended(attempt, "done", failed, crash, report, failure, worker), payload)

    def _end_watch(self) -> None:
        """End what would keep a runner that leaves from its end."""
        if not self._runs and self._watch is not None:
            self._watch.cancel()

    def _send(self, ended: Ended, payload: Departing | None) -> None:
        """Send an end, or hand it to the lane whose call it was."""
        if self._lanes and ended.attempt in self._lanes:
            outcome: Any = payload
            self._lanes[ended.attempt].end_call(ended, outcome)
            return
        try:
            # Runs that were started together mostly end together.
            self._channel.post([(ended, payload)], more=bool(self._runs))
        except trio.BrokenResourceError:
            pass  # the other end has left: the outcomes are not wanted


def crash_behind(error: BaseException) -> str:
    """Return why a run that raised an exception counts as crashed; "" if it does not.

    It does if the supervisor of its program was killed: by the kernel when memory ran out, or by a
    person; or if a member of its gang was lost; not by a mistake of the task.
    """
    if isinstance(error, BaseExceptionGroup):
        crashes = [crash_behind(one) for one in error.exceptions]
        return crashes[0] if all(crashes) else ""
    if isinstance(error, MemberLost):
        return str(error)
    if isinstance(error, ExternalLostError) and error.unwatched:
        return f"the process that watched over {printable(command_line(error.argv))} was killed"
    return ""


def lost_worker(error: BaseException) -> str:
    """Return the name of the worker whose loss has ended a gang; "" if none has."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(lost_worker, error.exceptions)), "")
    return error.worker if isinstance(error, MemberLost) else ""


def signal_behind(error: BaseException) -> int:
    """Return the signal by which a process ended that an exception tells of; 0 for none.

    Only signals count that batch systems send. Exceptions of `run_external`, `subprocify` and
    `subprocess` tell of them, also in a group and as a cause. A shell tells of the signal of its
    program by an exit code, as 143 for SIGTERM.
    """
    for one in all_behind(error):
        # The class may be the user's, and an attribute anything.
        with suppress(Exception):
            code = getattr(one, "returncode", None)
            number = -code if code < 0 else code - 128  # type: ignore[operator]
            if number in _SENT:
                return int(number)
    return 0


def failure_in_short(error: BaseException) -> RunFailure:
    """Return why a run failed, with the first line of the message, and the line that says why.

    Schedulers show it: they cannot read an outcome, which is of the mission's classes.
    """
    failure = failure_of(error)
    first = failure.message.partition("\n")[0]
    why = f": {failure.line}" if failure.line and not first.endswith(failure.line) else ""
    if len(first) + len(why) > _FAILURE:
        # How a program ended stands behind its command, which may be long.
        half = (_FAILURE - len(why) - 3) // 2
        first = f"{first[:half]}...{first[-half:]}"
    return replace(failure, message=f"{first}{why}")


def has_interrupt(error: BaseException) -> bool:
    """Return True if an exception is, or holds, an interrupt from the keyboard."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)
