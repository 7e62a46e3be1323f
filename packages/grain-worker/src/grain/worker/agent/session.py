"""What a worker remembers and answers, whatever becomes of its connection. Plain state, no I/O.

Events come in through the ``on_...`` methods, with the time in seconds of any clock that does not
go back. What is to be sent collects in `to_head` and `to_runner`, which the shell around empties.

1.  A run is begun once, however often its `Lease` arrives. The attempts of a head ascend, so one
    that does not was told before, or comes late from a connection that the head has given up.
2.  Whatever became of a run is kept, and told again on every connection, until the head says
    `AckRuns`, which it does when the *mission* has it.
3.  A connection begins with all that the worker has, so that a head which knows nothing can take
    over. Runs go on while there is no connection.
4.  A worker that drains begins nothing. At its deadline it hands back what still runs; it has
    *finished* when nothing runs and nothing is kept, or when the time for that is over.
5.  A run may be sent ahead of its time, and wait in line in the runner (`grain.worker.runner.chains`). It
    is handed back if that takes long, or if a crash comes first, which was none of its doing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grain.resource import WTime, to_data
from grain.worker.messages import (
    FUNCTIONS,
    AckRuns,
    Attempt,
    BegunCount,
    Cancel,
    DefineFunction,
    Ended,
    ForgetFunctions,
    HeldRun,
    Inventory,
    InventoryEnd,
    Lease,
    Leaving,
    RegisterWorker,
    Retire,
    Revoke,
    Run,
    RunEnded,
    Status,
)
from grain.worker.messages import Draining as DrainingMessage
from grain.worker.runner.chains import PATIENCE, Lines, Running

if TYPE_CHECKING:
    from collections.abc import Collection

    from grain.edge.messages import Message, Payload
    from grain.resource import Resource

FLUSH = 20.0
"""Seconds that a worker which leaves waits until its results have arrived."""

_TOOK = 0.1  # seconds by which `BegunCount` may wait for company: short runs end before
_AT_ONCE = 256  # runs in one `Inventory`


class WorkerSession:
    """One worker, from its start to its end.

    Args:
        id: random, no other agent process has it.
        name: what people call it.
        host: where it is.
        total: its resources; time left counts from now.
        now: the time.
        patience: seconds that it waits for a head before it gives up.
        line_patience: seconds that a run may take while others wait in line for its end.

    Attributes:
        to_head: messages for the head; dropped while there is no connection.
        to_runner: messages for the runner.
        draining: whether it takes no more runs.
        finished: whether it has nothing left to do and is to end.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - its name
        name: str,
        host: str,
        total: Resource,
        now: float,
        patience: float = math.inf,
        line_patience: float = PATIENCE,
    ) -> None:
        self.id = id
        self.name = name
        self.host = host
        self.total = total
        self.to_head: list[tuple[Message, Payload]] = []
        self.to_runner: list[tuple[Message, Payload]] = []
        self.runs: dict[Attempt, Running] = {}
        self.kept: dict[Attempt, tuple[RunEnded, Payload, Lease]] = {}
        self.functions: dict[bytes, Payload] = {}
        self.draining = False
        self.finished = False
        self.connected = False
        self.epoch = 0
        self._connections = 0
        self._by_number: dict[int, Running] = {}
        self._last_number = 0
        # The last attempt of each head, by its epoch.
        self._begun: dict[int, int] = {}
        self._took = 0
        self._took_due = math.inf
        self._deadline = math.inf
        self._flush_until = math.inf
        self._lines = Lines(line_patience)
        self._began = now
        self._alone_since = now
        self._patience = patience

    # ---- the connection

    def on_connected(self, now: float) -> None:
        """A head was reached."""
        self.connected = True
        self._connections += 1
        self._took = 0
        self._took_due = math.inf
        self.to_head.clear()
        while len(self.functions) > FUNCTIONS:  # the oldest are sent again when they are called
            del self.functions[next(iter(self.functions))]
        self._send(
            RegisterWorker(
                self.id,
                self.name,
                self.host,
                self._total_now(now),
                tuple(self.functions),
                self.draining,
                self._connections,
            )
        )
        held = [self._held(r.lease, now - r.began) for r in self.runs.values()]
        held += [self._held(lease, 0.0, ended=True) for *_, lease in self.kept.values()]
        for at in range(0, len(held), _AT_ONCE):
            self._send(Inventory(tuple(held[at : at + _AT_ONCE])))
        self._send(InventoryEnd())
        for settled, payload, _ in self.kept.values():
            self._send(settled, payload)

    def on_disconnected(self, now: float) -> None:
        """The head is away; what was under way to it may be lost."""
        self.connected = False
        self._alone_since = now
        self.to_head.clear()

    def on_message(self, message: Message, payload: Payload, now: float) -> None:
        """The head says something."""
        match message:
            case Lease():
                self._begin(message, payload, now)
            case DefineFunction():
                self.functions[message.digest] = payload
            case Revoke():
                self._revoke(message.attempt)
            case AckRuns():
                for attempt in message.attempts:
                    self.kept.pop(attempt, None)
            case ForgetFunctions():
                for digest in message.digests:
                    self.functions.pop(digest, None)
            case Retire():
                self.drain(now, now if message.at_once else math.inf)
            case _:  # WorkerRegistered
                self.epoch = getattr(message, "epoch", 0)

    def _tell_took(self) -> None:
        """Say how many leases were begun: it matters only if this worker should die."""
        if self._took_due != math.inf and self.connected:
            self._send(BegunCount(self._took))
        self._took_due = math.inf

    # ---- runs

    def _begin(self, lease: Lease, arguments: Payload, now: float) -> None:
        attempt = lease.attempt
        epoch, count = attempt
        if count <= self._begun.get(epoch, -1):
            return
        self._begun[epoch] = count
        if not lease.chain:
            self._took += 1
            self._took_due = min(self._took_due, now + _TOOK)
        if self.draining:
            self._settle(lease, "returned", None)
            return
        self._last_number = number = self._last_number + 1
        run = self.runs[attempt] = self._by_number[number] = Running(lease, number, now)
        line = 0
        if lease.chain:
            first = (epoch, lease.chain)
            line = self._lines.join(first, run, self.runs.get(first), now)
        order = Run(number, number, lease.res, lease.limit, lease.function, line)
        self.to_runner.append((order, (self.functions.get(lease.function), arguments)))

    def _revoke(self, attempt: Attempt) -> None:
        run = self.runs.get(attempt)
        if run is not None and not run.revoked:
            run.revoked = True
            self.to_runner.append((Cancel(run.number, run.number), None))

    def on_ended(self, ended: Ended, payload: Payload, now: float) -> None:
        """The runner says that a run has ended."""
        run = self._by_number.get(ended.task)
        if run is None:
            return
        if ended.status == "done":
            self._over_with(run, "error" if ended.failed else "value", payload, now)
        else:
            returned = run.returning or ended.status == "returned"
            self._over_with(run, "returned" if returned else "cancelled", None, now)

    def on_runner_crashed(
        self, detail: str, now: float, numbers: Collection[int] | None = None
    ) -> None:
        """The runner's process died, and everything that ran in it.

        Args:
            detail: how it died.
            now: the time.
            numbers: what ran in it; None for everything, which it was before the next one started.
        """
        waited = set(self._lines.waiting())
        for run in list(self.runs.values()):
            if numbers is not None and run.number not in numbers:
                continue
            status: Status = "crashed"
            if run.revoked:
                status = "returned" if run.returning else "cancelled"
            elif run in waited:
                status = "returned"
            self._over_with(run, status, None, now, detail)

    def _over_with(
        self, run: Running, status: Status, payload: Payload, now: float, detail: str = ""
    ) -> None:
        del self.runs[run.lease.attempt], self._by_number[run.number]
        self._lines.leave(run, now)
        self._settle(run.lease, status, payload, detail)

    def _settle(self, lease: Lease, status: Status, payload: Payload, detail: str = "") -> None:
        settled = RunEnded(lease.mission, lease.task, lease.attempt, status, detail)
        self.kept[lease.attempt] = (settled, payload, lease)
        if self.connected:
            self._tell_took()
            self._send(settled, payload)

    # ---- the end

    def drain(self, now: float, deadline: float = math.inf) -> None:
        """Take no more runs, and end when those there are have ended.

        Args:
            now: the time.
            deadline: when what still runs is handed back.
        """
        self._deadline = min(self._deadline, deadline)
        if not self.draining:
            self.draining = True
            self._hand_back(self._lines.waiting())
            if self.connected:
                self._send(DrainingMessage())
        self.on_tick(now)

    def on_tick(self, now: float) -> None:
        """Time has passed; to be called at `next_tick` and after every event."""
        if self._took_due <= now:
            self._tell_took()
        if self._lines.due <= now:
            self._hand_back(self._lines.overdue(now))
        if not self.connected and now - self._alone_since >= self._patience:
            self.draining = True
            self._deadline = self._flush_until = now
        if self._deadline <= now:
            for run in self.runs.values():
                if not run.revoked:
                    run.revoked = run.returning = True
                    self.to_runner.append((Cancel(run.number, run.number), None))
            self._flush_until = min(self._flush_until, now + FLUSH)
            self._deadline = math.inf  # done; nothing begins any more
        if self.draining and not self.finished and not self.runs:
            self._flush_until = min(self._flush_until, now + FLUSH)
            if not self.kept or now >= self._flush_until:
                self.finished = True
                if self.connected:
                    self._send(Leaving())

    def next_tick(self) -> float:
        """When `on_tick` is to be called at the latest."""
        due = self._deadline if self.draining else math.inf
        if self.draining and not self.runs and not self.finished:
            due = min(due, self._flush_until)
        due = min(due, self._took_due, self._lines.due)
        return due if self.connected else min(due, self._alone_since + self._patience)

    # ---- small things

    def _hand_back(self, runs: list[Running]) -> None:
        """Have the runner return runs that still wait in line."""
        for run in runs:
            self.to_runner.append((Cancel(run.number, run.number, waiting=True), None))

    def _send(self, message: Message, payload: Payload = None) -> None:
        self.to_head.append((message, payload))

    def _held(self, lease: Lease, elapsed: float, *, ended: bool = False) -> HeldRun:
        left = None if lease.limit is None else max(0.0, lease.limit - elapsed)
        return HeldRun(
            lease.mission,
            lease.task,
            lease.attempt,
            lease.res,
            elapsed,
            left,
            lease.alone,
            ended,
            lease.chain,
        )

    def _total_now(self, now: float) -> dict[str, Any]:
        wtime = self.total.get(WTime)
        if not isinstance(wtime, WTime) or wtime.T is None or wtime.countdown:
            return to_data(self.total)
        left = max(wtime.T - (now - self._began), 1.0)
        return {**to_data(self.total), **to_data(WTime(T=left))}
