"""The local worker of a mission that hosts a scheduler: an agent's shell in the same trio run."""

from __future__ import annotations

import logging
import math
import secrets
import socket
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

import trio
from msgspec.structs import replace

from grain.config import WorkerSettings
from grain.edge.channel import memory_channels
from grain.edge.version import own_versions
from grain.resource import WTime
from grain.worker import Computing, Runner
from grain.worker.errors import RunnerUnusable
from grain.worker.messages import Ended, Inspected, Leaving, RunMessage, StartRun
from grain.worker.payload import whole
from grain.worker.session import (
    LATE_SIGNAL,
    RunnerSettings,
    WireTranslation,
    WorkerSession,
    keep_looking,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.edge.channel import WireBatch, WireChannel
    from grain.edge.messages import Message, Payload, WireBytes
    from grain.resource import Resource
    from grain.worker.messages import (
        Attempt,
        BlockingCode,
        Cancel,
        EndOfWorker,
        ForgetFunctions,
        Inspect,
        MemberOpen,
    )
    from grain.worker.process import RunnerDeath

    _Orders = StartRun | Cancel | ForgetFunctions | Inspect | MemberOpen | EndOfWorker
    Order = tuple[_Orders, Payload]

_log = logging.getLogger("grain.worker")


class LocalWorker:
    """A worker whose agent is part of this process, and whose runner is, too, unless isolated.

    What a tasklet does to the process of the runner, as a crash, it does to ours if that is ours.

    Args:
        name: its display name, which tasklets see as ``GVAR.instance``.
        head: the channel to its head, which stays open when it has ended.
        bind: False to bind no program to CPUs.
        isolated: True for a runner in a process of its own.
        context: the context module of that process; "" for none.

    A `WTime` among its resources is how long it lasts: no run gets more time than is left of that.
    """

    def __init__(
        self,
        name: str,
        total: Resource,
        head: WireChannel,
        *,
        bind: bool = True,
        isolated: bool = False,
        context: str = "",
    ) -> None:
        self.name = name
        self._head = head
        self._bind = bind
        self._isolated = isolated
        self._context = context
        wtime = total.get(WTime)
        lasts = wtime.T if isinstance(wtime, WTime) else None
        self._ends = math.inf if lasts is None else trio.current_time() + lasts
        self._session = WorkerSession(
            secrets.token_hex(8),
            name,
            socket.gethostname(),
            total,
            trio.current_time(),
            versions=own_versions(),
        )
        self._order: Callable[[Sequence[Order]], object] = lambda _: None
        self._changed = trio.Event()
        self._looks_at = math.inf
        # Why no other runner can be started, when that is so.
        self._unusable = ""
        self._over = trio.Event()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run what the head sends, until its channel ends; cancelling it cancels the runs.

        Its start is over when the worker takes runs.

        Raises:
            RunnerUnusable: no runner can be started in a process of its own.
        """
        try:
            async with AsyncExitStack() as stack:
                if self._isolated:
                    await self._start_process(stack)
                nursery = await stack.enter_async_context(trio.open_nursery())
                if not self._isolated:
                    self._start_in_process(nursery)
                self._session.on_connected(trio.current_time())
                nursery.start_soon(self._let_time_pass)
                nursery.start_soon(self._receive)
                nursery.start_soon(
                    keep_looking,
                    Computing(with_self=not self._isolated),
                    lambda: bool(self._session.runs),
                    self._on_computing,
                )
                self._flush()
                task_status.started()
                await self._until_over()
                nursery.cancel_scope.cancel()
        except BaseException:
            # As Ctrl-C in a tasklet. Nothing runs here any more; a head that does not learn so
            # would wait for the ends of those runs, and only this worker can report them: the
            # channel stays open.
            self._post([(Leaving(), None)])
            raise

    async def _start_process(self, stack: AsyncExitStack) -> None:
        from grain.worker.process import RunnerProcess  # few missions need it

        # Its programs run where the mission was when it began, as those of any worker do that has
        # the same file system. It imports what the mission would, such as modules beside the
        # script; "" is the working directory, which the process searches if it trusts that.
        settings = RunnerSettings(
            WorkerSettings(contextmod=self._context),
            bind=self._bind,
            search=tuple(place for place in sys.path if isinstance(place, str) and place),
        )
        functions = self._session.functions
        runner = RunnerProcess(self.name, self, functions, settings=settings)
        await stack.enter_async_context(runner)
        self._order = runner.post

    def _start_in_process(self, nursery: trio.Nursery) -> None:
        to_runner: WireChannel
        of_runner: WireChannel
        to_runner, of_runner = memory_channels()
        settings = RunnerSettings(bind=self._bind)
        runner: Runner[WireBytes, WireBytes]
        runner = Runner(
            self.name, of_runner, WireTranslation(self.name, settings=settings, worker=self.name)
        )
        functions = self._session.functions.feed()
        nursery.start_soon(runner.serve)
        nursery.start_soon(to_runner.receive_into, self._on_ended)
        self._order = lambda orders: to_runner.post(functions.complete(orders))

    async def _until_over(self) -> None:
        await self._over.wait()
        if self._unusable:
            raise RunnerUnusable(f"no runner for the worker {self.name}: {self._unusable}")

    async def _receive(self) -> None:
        await self._head.receive_into(self._take)
        self._over.set()

    def _on_computing(self, cores: float | None) -> None:
        self._session.on_computing(cores)
        self._flush()

    async def _let_time_pass(self) -> None:
        while not self._session.finished:
            self._session.on_tick(trio.current_time())
            self._flush()
            self._changed = trio.Event()
            self._looks_at = self._session.next_tick()
            with trio.move_on_at(self._looks_at):
                await self._changed.wait()

    def _take(self, batch: WireBatch) -> None:
        now = trio.current_time()
        for message, payload in batch:
            self._session.on_message(message, payload, now)
        self._flush()

    def _on_ended(self, batch: WireBatch) -> None:
        for message, _ in batch:
            if isinstance(message, Inspected):
                self._session.on_inspected(message)
            elif isinstance(message, RunMessage):
                self.run_message(message)
        self.ended([(message, payload) for message, payload in batch if isinstance(message, Ended)])

    # ---- the reports of a runner; see `grain.worker.process.RunnerListener`

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        """Take the ends of runs."""
        now = trio.current_time()
        for message, payload in runs:
            # In one piece: the parts of a result would keep the whole of it alive beside what is
            # loaded from them.
            self._session.on_ended(message, payload and whole(payload), now)
        self._flush()

    def inspected(self, answer: Inspected) -> None:
        """Take the programs of a run, the answer to a question."""
        self._session.on_inspected(answer)
        self._flush()

    async def is_ending(self, signal: int) -> bool:
        """Return False: a signal that ends this worker ends its mission, which may have it soon."""
        if signal:
            await trio.sleep(LATE_SIGNAL)
        return False

    def warned(self) -> None:
        """Record nothing: this worker ends with its mission, and no program is warned of that."""

    def run_message(self, news: RunMessage) -> None:
        """Take what a run has to say, for its head."""
        self._session.on_run_message(news)
        self._flush()

    def replaced(self, why: str) -> bool:  # noqa: ARG002 - see `RunnerListener`
        """Return False: the mission has to be started again, and its user is to know why."""
        return False

    def died(self, death: RunnerDeath) -> None:
        """Take the death of the runner's process."""
        _log.warning("%s; runs lost: %d", death, len(death.runs))
        made = death.memory_outcome if death.for_want_of_memory else None
        now = trio.current_time()
        self._session.on_runner_crashed(
            str(death), now, death.runs, begun=death.begun, out_of_memory=made
        )
        self._flush()

    def blocked(self, seconds: float, runs: tuple[Attempt, ...]) -> None:
        """Record that a run has blocked the runner."""
        _log.warning(
            "the local worker has not answered for %.0f s: one of its %d runs does not let others "
            "run, as a long computation in Python does",
            seconds,
            len(runs),
        )

    def unblocked(self, seconds: float) -> None:
        """Record that the runner answers again."""
        _log.warning("the local worker answers again, after %.0f s", seconds)

    def blocking(self, attempt: Attempt | None, code: BlockingCode) -> None:
        """Take a report of the code that blocks the runner, which the mission shows."""
        if attempt is not None:
            self._session.on_blocking(attempt, code)
            self._flush()

    def printed(self, attempt: Attempt, lines: tuple[str, ...], lost: int) -> None:
        """Take lines that a run has printed; those of a local worker are on the terminal anyway."""

    def unusable(self, why: str) -> None:
        """Record that no other runner can be started."""
        self._unusable = why
        self._over.set()

    # ---- what follows

    def _flush(self) -> None:
        """Send the session's messages, to the runner and to the head."""
        if self._session.next_tick() < self._looks_at:
            self._changed.set()
        orders = self._session.take_orders()
        if orders:
            self._order([(self._in_time(order), payload) for order, payload in orders])
        mail = self._session.take_mail()
        if mail:
            # This worker has no spool: its outcomes stay in the memory of the mission.
            self._post(cast("list[tuple[Message, Payload]]", mail))

    def _in_time(self, order: _Orders) -> _Orders:
        """Return an order; that of a run with no more time than the worker has."""
        if self._ends == math.inf or not isinstance(order, StartRun):
            return order
        left = max(self._ends - trio.current_time(), 0.0)
        return replace(order, limit=left if order.limit is None else min(order.limit, left))

    def _post(self, mail: list[tuple[Message, Payload]]) -> None:
        try:
            self._head.post(mail)
        except trio.BrokenResourceError:
            pass  # the head has left, and needs none of it
