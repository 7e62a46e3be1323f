"""`WorkerSession`: the runs of a worker, and the messages to its head about them. No I/O."""

from __future__ import annotations

import math
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING

from grain.edge.mission_ids import lasts
from grain.edge.version import Versions
from grain.eventlog.soft_stops import STOPPED_SOFTLY, Interruption
from grain.eventlog.usage import LearnedAmount, Report, RunReport, encode_report, report_of
from grain.worker.agent.functions import FunctionStore
from grain.worker.agent.session.delayed import ArrivedLeases, PrintedLines
from grain.worker.agent.session.kept import KeptOutcomes
from grain.worker.agent.session.records import RunRecord, Wish
from grain.worker.agent.session.registration import WorkerRegistration
from grain.worker.messages import (
    FUNCTIONS,
    LANE,
    TIME_OVER,
    AckRuns,
    Attempt,
    BlockingCode,
    Cancel,
    CoresComputed,
    DefineFunction,
    Drain,
    Ended,
    ForgetFunctions,
    Inspect,
    Inspected,
    Inventory,
    InventoryEnd,
    InventoryRun,
    Lease,
    Leaving,
    LoopBlocked,
    MemberOpen,
    Outlived,
    Recall,
    RegisterWorker,
    Revoke,
    RunEnded,
    RunMessage,
    RunOver,
    StartRun,
    Status,
)
from grain.worker.messages import Draining as DrainingMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from grain.edge.messages import Message, Payload
    from grain.eventlog.causes import RunFailure
    from grain.resource import Resource
    from grain.worker.agent.functions import Order
    from grain.worker.agent.session.kept import Outcome

FLUSH = 20.0
"""Seconds that a worker which leaves waits until its results have arrived."""

EARLY = 60.0
"""Seconds, and a tenth of a worker's time at most, by which a batch system may end a job before its
time is over: what is handed back then has outlived the worker, too."""

_INVENTORY = 256  # runs in one `Inventory`
_SAME = 0.02  # cores, and the part of them, by which computing may change without a report


class SessionState(Enum):
    """The states of a worker, one after the other, with or without a connection."""

    WORKING = auto()
    DRAINING = auto()
    """It takes no more runs, and ends when its runs have ended and their outcomes have arrived."""
    FINISHED = auto()
    """It has nothing left to do and is to end."""


class WorkerSession:
    """The state of one worker, from its start to its end, whatever becomes of its connection.

    Args:
        id: a random name, which no other agent process has.
        total: its resources; time left counts from now.
        in_memory: bytes of outcomes beyond which others are spooled; inf where there is no spool.
        cluster: the name of its cluster; empty if it was not stated.
        job, system, listed: as `RegisterWorker` has them.

    Attributes:
        to_head: messages for the head, until `take_mail`; those taken while there is no
            connection are lost.
        to_runner: orders for the runner, in sequence, until `take_orders`; the payload of a
            `StartRun` is its arguments.
        lasting: how many runs of lasting missions have not ended.
        kept: the outcomes that are not acknowledged.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - its name
        name: str,
        host: str,
        total: Resource,
        now: float,
        versions: Versions = Versions(),  # noqa: B008 - it cannot change
        in_memory: float = math.inf,
        job: str = "",
        cluster: str = "",
        system: str = "",
        listed: str = "",
    ) -> None:
        self.registration = WorkerRegistration(
            RegisterWorker(
                id,
                name,
                host,
                {},
                versions=versions,
                job=job,
                cluster=cluster,
                system=system,
                listed=listed,
            ),
            total,
            now,
        )
        self.to_head: list[tuple[Message, Outcome]] = []
        self.to_runner: list[Order] = []
        self.functions = FunctionStore()
        self.runs: dict[Attempt, RunRecord] = {}
        self.lasting = 0
        self.kept = KeptOutcomes(in_memory)
        self.state = SessionState.WORKING
        self.connected = False
        self._arrived = ArrivedLeases()
        self._printed = PrintedLines()
        self._deadline = math.inf
        self._why = ""
        self._flush_until = math.inf
        # The last run that was reported to block the runner.
        self._blocking: Lease | None = None
        # On how many cores something is computed, as it was last reported.
        self._computing: float | None = None

    @property
    def id(self) -> str:
        """The worker's id, which changes if another process takes it."""
        return self.registration.message.worker

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.registration.message.name

    @property
    def draining(self) -> bool:
        """True if the worker takes no more runs, whether it has finished or not."""
        return self.state is not SessionState.WORKING

    @property
    def finished(self) -> bool:
        """True if it has nothing left to do and is to end."""
        return self.state is SessionState.FINISHED

    # ---- what the shell around takes away

    def take_mail(self) -> list[tuple[Message, Outcome]]:
        """Return the messages for the head, once."""
        mail, self.to_head = self.to_head, []
        return mail

    def take_orders(self) -> list[Order]:
        """Return the orders for the runner, once."""
        orders, self.to_runner = self.to_runner, []
        return orders

    # ---- the connection

    def on_connected(self, now: float) -> None:
        """Begin a connection: register with all that the worker has."""
        self.connected = True
        self._arrived.restart()
        self.to_head.clear()
        # A function that has no place in the message is sent again when it is called. But a
        # function that a run may be about to call is kept, as the lease of the run will not come
        # again.
        self.functions.forget_oldest(FUNCTIONS, {r.lease.function for r in self.runs.values()})
        functions = tuple(self.functions)[-FUNCTIONS:]
        self._send(self.registration.next(now, functions, draining=self.draining))
        held = [self._held(r.lease, now - r.began, over=r.over) for r in self.runs.values()]
        # Runs that have ended, too: a head takes it that a lease which is not in the inventory has
        # never arrived, and begins the run again.
        held += [self._held(lease, 0.0, ended=True) for *_, lease in self.kept.by_attempt.values()]
        for at in range(0, len(held), _INVENTORY):
            self._send(Inventory(tuple(held[at : at + _INVENTORY])))
        # Before the end of the inventory, at which a head begins to lease.
        if self.kept.paused:
            self._send(self.kept.backlog())
        self._send(InventoryEnd())
        for run in self.runs.values():
            if run.news is not None:
                self._send(run.news)
        if self._computing is not None:
            self._send(CoresComputed(self._computing))
        # Last: they may be many and large, and a head leases nothing before the inventory ends.
        for ended, payload, _ in self.kept.by_attempt.values():
            self._send(ended, payload)

    def rename(self, id: str) -> None:  # noqa: A002 - its name
        """Take another id from the next connection on: another process has registered under this.

        For the head it is another worker, which has runs already.
        """
        self.registration.rename(id)

    def on_disconnected(self) -> None:
        """End a connection; messages under way to the head may be lost."""
        self.connected = False
        self.to_head.clear()

    def on_message(self, message: Message, payload: Payload, now: float) -> None:
        """Handle one message of the head."""
        match message:
            case Lease():
                self._begin(message, payload, now)
            case DefineFunction():
                self.functions.define(message.digest, payload)
            case Revoke():
                self._revoke(message.attempt)
            case Recall():
                self._recall([r for r in [self.runs.get(message.attempt)] if r is not None])
            case AckRuns():
                self._acknowledge(message.attempts)
            case ForgetFunctions():
                self.functions.forget(message.digests)
                self.to_runner.append((message, None))
            case Inspect():
                self._inspect(message)
            case MemberOpen():
                if message.attempt in self.runs:
                    self.to_runner.append((message, None))
            case Drain():
                self.drain(now, now if message.at_once else math.inf)
            case _:
                pass  # WorkerRegistered concerns the agent

    def _inspect(self, message: Inspect) -> None:
        if message.attempt in self.runs:
            self.to_runner.append((message, None))
        else:
            self._send(Inspected(message.question, ()))

    def on_inspected(self, answer: Inspected) -> None:
        """Pass on the answer of the runner."""
        self._send(answer)

    def on_run_message(self, news: RunMessage) -> None:
        """Pass on what a run has to say, now and on each later connection."""
        run = self.runs.get(news.attempt)
        if run is None or (isinstance(news, RunOver) and _ends_matter(run.lease)):
            return
        run.news = news
        self._send(news)

    def on_computing(self, cores: float | None) -> None:
        """Report on how many cores something is computed, unless that has hardly changed."""
        before = self._computing
        if (
            cores is not None
            and before is not None
            and abs(cores - before) < _SAME + before * _SAME
        ):
            return
        if cores != before:
            self._computing = cores
            self._send(CoresComputed(cores))

    def _send_count(self) -> None:
        count = self._arrived.report()
        if count is not None:
            self._send(count)

    # ---- runs

    def _begin(self, lease: Lease, arguments: Payload, now: float) -> None:
        attempt = lease.attempt
        if not self._arrived.take(attempt, now):
            return
        if self.draining:
            # Handed back, and not ignored: the head would wait for its end.
            ended = RunEnded(lease.mission, lease.task, lease.attempt, "returned")
            self._report_end(lease, ended, None)
            return
        self.runs[attempt] = RunRecord(lease, now)
        self.lasting += lasts(lease.mission)
        order = StartRun(
            attempt,
            lease.res,
            lease.limit,
            lease.function,
            lease.task,
            lease.settings,
            lease.gang,
            lease.past,
        )
        self.to_runner.append((order, arguments))

    def _revoke(self, attempt: Attempt) -> None:
        run = self.runs.get(attempt)
        # Once: a head repeats what may be lost, and a run that is handed back ends anyway.
        if run is not None and run.wish is Wish.COMPLETE:
            run.wish = Wish.CANCEL
            self.to_runner.append((Cancel(attempt), None))

    def on_ended(self, ended: Ended, payload: Payload, now: float) -> None:
        """Take the end of a run from the runner."""
        run = self.runs.get(ended.attempt)
        if run is None:
            return
        report = report_of(ended.report)
        # A run that was to end anyway has not crashed when it dies.
        if ended.crash and run.wish is Wish.COMPLETE:
            # The receipts of a job say why, and how often it may run again.
            receipts = ended.interruption == "short" and lasts(run.lease.mission)
            status: Status = "returned" if receipts else "crashed"
            why = ended.interruption
            self._end(run, status, None, now, report, ended.crash, ended.lost, interruption=why)
        elif ended.status == "done" and not ended.crash:
            status = "error" if ended.failed else "value"
            self._end(run, status, payload, now, report, failure=ended.failure)
        else:
            returned = run.wish is Wish.RETURN or ended.status == "returned"
            status = "returned" if returned else "cancelled"
            # Here too if what it ran in died while it was to end: the loss of a gang's member, of
            # which the scheduler may know first, is not the outcome of the call.
            #
            # That it has not begun says nothing of the others if it was to end.
            absent = ended.absent if run.wish is Wish.COMPLETE else -1
            detail = "" if absent < 0 or ended.failure is None else ended.failure.message
            why = ended.interruption
            if why == "stopped":
                detail = STOPPED_SOFTLY
            self._end(run, status, None, now, report, detail, absent=absent, interruption=why)

    def on_blocking(self, attempt: Attempt, code: BlockingCode) -> None:
        """Report to the mission of a run that it blocks its runner; the run may just have ended."""
        run = self.runs.get(attempt)
        if run is not None:
            self._blocking = run.lease
        lease = self._blocking
        if lease is not None and lease.attempt == attempt:
            self._send(LoopBlocked(lease.mission, lease.task, code))

    def on_printed(self, attempt: Attempt, lines: tuple[str, ...], lost: int, now: float) -> None:
        """Take lines that a run has printed, whose mission wants them; soon it gets them."""
        run = self.runs.get(attempt)
        if run is not None:
            self._printed.add(run.lease.mission, lines, lost, now)

    def _send_printed(self) -> None:
        for message in self._printed.take():
            self._send(message)

    def on_runner_crashed(
        self,
        detail: str,
        now: float,
        attempts: Collection[Attempt] | None = None,
        wall: float = 0.0,
        *,
        begun: Mapping[Attempt, int] = MappingProxyType({}),
        out_of_memory: Callable[[float, bool], Payload] | None = None,
    ) -> None:
        """Take the death of a runner's process, and of all that ran in it.

        Args:
            attempts: the runs that it had; None for all, where no other runner has started yet.
            wall: the same time in Unix seconds; 0 if it is not asked when they began.
            begun: as of `RunnerDeath`.
            out_of_memory: if the kernel has killed it for want of memory, makes the outcome of a
                run with so many GB, and True if no worker had more. A run whose group learns, and
                beside which none ran, has that and asks for more.
        """
        lost = self.runs.keys() if attempts is None else self.runs.keys() & set(attempts)
        alone = len(lost) == 1
        for run in list(self.runs.values()):
            if attempts is not None and run.lease.attempt not in attempts:
                continue
            status: Status = "crashed"
            if run.wish is Wish.CANCEL:
                status = "cancelled"
            # A job may have no receipt of its end, as on a full disk: its dispatcher follows the
            # crash.
            elif run.wish is Wish.RETURN and not lasts(run.lease.mission):
                status = "returned"
            payload: Payload = None
            learned = _learned_amount(run.lease)
            # Lasting missions, as jobs are, have receipts, by which a crash is followed.
            told = status == "crashed" and alone and not lasts(run.lease.mission)
            if told and out_of_memory and learned is not None:
                last = run.lease.res["Memory"].get("last", False)
                status, payload = "error", out_of_memory(learned.amount, last)
            report: Report = b""
            if wall:
                # What its programs have used died with the runner.
                times = RunReport(
                    started=wall - (now - run.began), ended=wall,
                    host=self.registration.message.host, worker=self.name,
                    exceeded=payload is not None, learned=learned,
                )  # fmt: skip
                report = encode_report(times)
            call = begun.get(run.lease.attempt, 0)
            self._end(run, status, payload, now, report, detail, call=call)

    def _end(
        self,
        run: RunRecord,
        status: Status,
        payload: Payload,
        now: float,
        report: Report,
        detail: str = "",
        lost: str = "",
        absent: int = -1,
        failure: RunFailure | None = None,
        interruption: Interruption = "",
        call: int = 0,
    ) -> None:
        outlived = None
        # What has stopped softly goes on elsewhere from where it was.
        if status == "returned" and interruption != "stopped":
            outlived = self._outlived(run, now)
        part = run.lease.gang
        leads = part is not None and part.index == 0
        if leads and run.news is None and absent < 0 and status not in ("value", "error"):
            status, absent = "returned" if status == "crashed" else status, 0
        del self.runs[run.lease.attempt]
        self.lasting -= lasts(run.lease.mission)
        if outlived is not None:
            detail = TIME_OVER
        known = run.lease.mission, run.lease.task, run.lease.attempt
        ended = RunEnded(
            *known, status, detail, report, outlived, lost, absent, failure, interruption, call
        )
        self._report_end(run.lease, ended, payload)

    def _outlived(self, run: RunRecord, now: float) -> Outlived | None:
        """Return how long a run had run, if it has outlived this worker; else None."""
        time = self.registration.time(now)
        if time is None or run.lease.function == LANE:
            return None  # the calls of a lane are brief, however long it was there for them
        life, left = time
        return None if left > min(EARLY, life / 10) else Outlived(now - run.began, life)

    def _report_end(self, lease: Lease, ended: RunEnded, payload: Payload) -> None:
        # Before it is sent: if the connection is lost meanwhile, the next one begins with it.
        outcome = self.kept.add(ended, payload, lease)
        if self.connected:
            # The count goes along with what is sent anyway.
            self._send_count()
            self._send_printed()  # the mission may end when it has the outcome
            self._send(ended, outcome)
        self._review_backlog()

    def _acknowledge(self, attempts: tuple[Attempt, ...]) -> None:
        self.kept.forget(attempts)
        self._review_backlog()

    def _review_backlog(self) -> None:
        """Take no more runs while too many outcomes are kept, and report it."""
        if self.kept.review():
            self._send(self.kept.backlog())

    # ---- the end

    def drain(self, now: float, deadline: float = math.inf, why: str = "") -> None:
        """Take no more runs, and end when those there are have ended.

        Args:
            deadline: when what still runs is handed back.
            why: the reason, as text; the first one stays.
        """
        self._deadline = min(self._deadline, deadline)
        self._why = self._why or why
        if self.state is SessionState.WORKING:
            self.state = SessionState.DRAINING
            self._recall([run for run in self.runs.values() if run.lease.function == LANE])
            self._send(DrainingMessage(self._why))
        # Without runs it may be over now; and if the deadline is now, runs are cancelled now.
        self.on_tick(now)

    def on_tick(self, now: float) -> None:
        """Let time pass; call it at `next_tick` and after every event."""
        if self._arrived.due <= now:
            self._send_count()
        if self._printed.due <= now:
            self._send_printed()
        if self._deadline <= now:
            for attempt, run in self.runs.items():
                if run.wish is Wish.COMPLETE:
                    run.wish = Wish.RETURN
                    self.to_runner.append((Cancel(attempt), None))
            self._flush_until = min(self._flush_until, now + FLUSH)
            self._deadline = math.inf  # done; nothing begins any more
        if self.state is SessionState.DRAINING and not self.runs:
            self._flush_until = min(self._flush_until, now + FLUSH)
            if not self.kept.by_attempt or now >= self._flush_until:
                self.state = SessionState.FINISHED
                self._send(Leaving(self._why))

    def next_tick(self) -> float:
        """Return when `on_tick` is due if nothing happens before; inf if never."""
        due = self._deadline  # inf before `drain`
        if self.state is SessionState.DRAINING and not self.runs:
            due = min(due, self._flush_until)
        return min(due, self._arrived.due, self._printed.due)

    # ---- details

    def _recall(self, runs: list[RunRecord]) -> None:
        """Have the runner end lanes soon."""
        for run in runs:
            self.to_runner.append((Cancel(run.lease.attempt, waiting=True), None))

    def _send(self, message: Message, payload: Outcome = None) -> None:
        # Without a connection nothing is kept for later: the next one begins with all that is so.
        if self.connected:
            self.to_head.append((message, payload))

    def _held(
        self, lease: Lease, elapsed: float, *, ended: bool = False, over: bool = False
    ) -> InventoryRun:
        left = None if lease.limit is None else max(0.0, lease.limit - elapsed)
        return InventoryRun(
            lease.mission,
            lease.task,
            lease.attempt,
            lease.res,
            elapsed,
            left,
            lease.alone,
            ended,
            lease.gang,
            lease.function == LANE,
            over,
        )


def _ends_matter(lease: Lease) -> bool:
    """Return True if the head learns more from the end of a run than that its resources are free.

    The group of the run learns its use of memory, or a worker was emptied for it.
    """
    return lease.alone or _learned_amount(lease) is not None


def _learned_amount(lease: Lease) -> LearnedAmount | None:
    """Return the memory of a run on one worker whose group learns it; None for others."""
    memory = lease.res.get("Memory")
    if not isinstance(memory, dict) or "group" not in memory or lease.gang is not None:
        return None
    attempt, after = memory.get("tried", (1, 0.0))
    return LearnedAmount(
        group=memory["group"],
        amount=float(memory.get("M", 0.0)),
        attempt=attempt,
        size=memory.get("size", 0.0),
        after=after,
    )
