"""The agent: a thin shell around the decisions of `WorkerSession` and `Lifecycle`.

It has four parties: the head at a channel, the runner as a `RunnerListener`, the operating system
by signals, and the clock. Every event goes to the session or the lifecycle, and then `_settle`
carries out what follows from it.
"""

from __future__ import annotations

import logging
import math
import secrets
import signal
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec
import trio

from grain.edge.errors import AddressError, ChannelError, EdgeError
from grain.worker.agent.lifecycle import LATE_SIGNAL, LifecyclePhase
from grain.worker.agent.runner_process import RunnerProcess
from grain.worker.agent.spool import Spool, SpooledOutcome
from grain.worker.messages import Cancel, Disconnect, Drain, Ended, RunEnded, WorkerRegistered
from grain.worker.node.signals import on_signals, signals_handled
from grain.worker.processes.computing import Computing, keep_looking
from grain.worker.runner.settings import RunnerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from grain.edge import DirectWaySeeker, Peer
    from grain.edge.channel import WireBatch, WireChannel
    from grain.edge.messages import Message, Payload
    from grain.worker.agent.first_runner import FirstRunner
    from grain.worker.agent.lifecycle import Lifecycle
    from grain.worker.agent.listener import RunnerDeath
    from grain.worker.agent.session import WorkerSession
    from grain.worker.agent.session.kept import Outcome
    from grain.worker.messages import Attempt, BlockingCode, Inspected, RunMessage

    Dial = Callable[[], AbstractAsyncContextManager[Peer]]

DONE, FAILED, USAGE, GAVE_UP = 0, 1, 2, 3
"""Exit codes: it left as it was asked to; it could not work; a mistake on its command line; there
was not a scheduler."""

_LOST = (ChannelError, trio.BrokenResourceError, trio.ClosedResourceError)
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
_AT_ONCE = 256  # messages that wait and are sent together
_RECONNECT = 1.0  # seconds until the next attempt after a connection that was lost

_log = logging.getLogger("grain.worker")


class Agent:
    """The agent of one worker, which `run` serves until the worker leaves.

    Args:
        dial: connects to the head, and waits for one if there is none.
        direct: looks for a direct way to the head, which ``dial`` would find, while the connection
            goes over files or a relay.
        first: becomes the first runner.
    """

    def __init__(
        self,
        session: WorkerSession,
        lifecycle: Lifecycle,
        dial: Dial,
        settings: RunnerSettings = RunnerSettings(),  # noqa: B008 - it is frozen
        direct: DirectWaySeeker | None = None,
        first: FirstRunner | None = None,
    ) -> None:
        self._session = session
        self._direct = direct
        self._lifecycle = lifecycle
        self._dial = dial
        self._runner = RunnerProcess(
            session.name, self, session.functions, settings=settings, first=first
        )
        self._channel: WireChannel | None = None
        # Messages for the head that wait until it reads, or until they are read from the spool;
        # those of this connection.
        self._outbox: deque[tuple[Message, Outcome]] = deque()
        self._outbox_filled = trio.Event()
        self._spool = Spool()
        self._changed = trio.Event()
        self._signalled = trio.lowlevel.ParkingLot()  # parks who asks if the worker is being ended
        self._looks_at = math.inf
        self._code = DONE

    async def run(self) -> int:
        """Serve until it is over; return the exit code.

        Raises:
            RunnerUnusable: no runner can be started.
        """
        with on_signals(self.on_signal, *SIGNALS):
            async with self._runner, trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_connected)
                nursery.start_soon(self._spool.run)
                nursery.start_soon(
                    keep_looking, Computing(), lambda: bool(self._session.runs), self._on_computing
                )
                await self._until_over()
                self._runner.leave_within(self._lifecycle.time_over(trio.current_time()))
                nursery.cancel_scope.cancel()
        return GAVE_UP if self._lifecycle.gave_up else self._code

    def _on_computing(self, cores: float | None) -> None:
        self._session.on_computing(cores)
        self._settle()

    # ---- the operating system, and the clock

    def on_signal(self, number: int) -> None:
        """Take a signal of the operating system."""
        _log.info("%s received", signal.Signals(number).name)
        self._lifecycle.on_signal(number, trio.current_time())
        self._signalled.unpark_all()
        self._settle()

    async def _until_over(self) -> None:
        """Let time pass."""
        while True:
            now = trio.current_time()
            self._changed = trio.Event()
            self._lifecycle.on_time(now)
            self._carry_out(now)
            if self._lifecycle.phase(now) >= LifecyclePhase.KILLING:
                self._runner.kill()
            if self._is_over(now):
                await self._close_channel()
                return
            self._looks_at = self._look_again_at(now)
            with trio.move_on_at(self._looks_at):
                await self._changed.wait()

    def _is_over(self, now: float) -> bool:
        return self._session.finished or self._lifecycle.over(now, runs=not self._session.finished)

    def _look_again_at(self, now: float) -> float:
        return min(self._lifecycle.next_at(now), self._session.next_tick())

    async def _close_channel(self) -> None:
        if self._channel is not None:
            with trio.move_on_after(min(5.0, self._lifecycle.time_over(trio.current_time()))):
                await self._channel.aclose()

    # ---- the head

    async def _keep_connected(self) -> None:
        while True:
            try:
                async with self._dial() as peer:
                    _log.info("connected to %s (%s)", peer.target, peer.transport)
                    await self._serve(peer.channel, peer.transport)
            except trio.ClosedResourceError:
                return  # this side has closed it, as the worker leaves
            except trio.EndOfChannel:
                _log.info("the scheduler has ended the connection")
            except (EdgeError, trio.BrokenResourceError) as error:
                if isinstance(error, AddressError):
                    self._fail(str(error), USAGE)
                    return
                if isinstance(error, EdgeError) and error.final:  # waiting cannot help
                    self._refuse(str(error))
                    return
                lost = isinstance(error, trio.BrokenResourceError | ChannelError)
                _log.info("the connection is lost: %s" if lost else "%s", error)
            await trio.sleep(_RECONNECT)

    async def _serve(self, channel: WireChannel, transport: str) -> None:
        """Serve on a connection, until it ends or there is a better one."""
        failed: Exception | None = None
        self._channel = channel
        self._session.on_connected(trio.current_time())
        try:
            self._settle()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_outbox, channel)
                nursery.start_soon(self._seek_direct, transport, nursery.cancel_scope)
                # Kept from the nursery, which would make a group of it.
                try:
                    while True:
                        self._take(await channel.receive())
                except (*_LOST, trio.EndOfChannel) as error:
                    failed = error
                nursery.cancel_scope.cancel()
        finally:
            self._channel = None
            self._outbox.clear()  # the session sends it again
            self._session.on_disconnected()
            self._lifecycle.on_unlinked(trio.current_time())
            self._changed.set()
        if failed is not None:
            raise failed

    async def _send_outbox(self, channel: WireChannel) -> None:
        """Send what waits, as fast as the head reads it; spooled outcomes one at a time."""
        while True:
            if not self._outbox:
                self._outbox_filled = trio.Event()
                await self._outbox_filled.wait()
            batch: list[tuple[Message, Payload]] = []
            for message, outcome in islice(self._outbox, _AT_ONCE):
                if not isinstance(outcome, SpooledOutcome):
                    batch.append((message, outcome))
                    continue
                if not batch:
                    batch.append(await self._load(message, outcome))
                break
            try:
                await channel.send(batch)
            except (ChannelError, trio.ClosedResourceError):
                return  # `_serve` is about to notice
            for _ in batch:
                self._outbox.popleft()
            # So that no reference to an outcome is left while this waits for the next.
            del batch, message, outcome

    async def _load(self, message: Message, outcome: SpooledOutcome) -> tuple[Message, Payload]:
        """Read an outcome from the spool; its run is handed back if that fails."""
        assert isinstance(message, RunEnded)
        if not outcome.wanted:  # acknowledged since, as it arrived on an earlier connection
            return msgspec.structs.replace(message, status="returned"), None
        try:
            return message, await self._spool.load(outcome)
        except OSError as error:
            _log.error("an outcome is lost, and its task runs again: %s", error)
            return msgspec.structs.replace(message, status="returned"), None

    async def _seek_direct(self, transport: str, connection: trio.CancelScope) -> None:
        """End a connection over files or a relay when there is a direct way for the next one.

        The switch is a connection lost and made again: what is under way then is sent again.
        """
        if self._direct is not None:
            await self._direct.until_direct(transport)
            _log.info("there is a direct way to the scheduler: leaving this one")
            connection.cancel()

    def _take(self, batch: WireBatch) -> None:
        now = trio.current_time()
        for message, payload in batch:
            if isinstance(message, WorkerRegistered):
                _log.info("registered at the scheduler, which runs %s", message.versions)
                self._lifecycle.on_linked()
            elif isinstance(message, Disconnect):
                _log.error("the scheduler has ended the connection: %s", message.why)
                if message.because == "replaced":
                    self._session.rename(secrets.token_hex(8))
            elif isinstance(message, Drain):
                self._lifecycle.on_drain(now, force=message.at_once)
            self._session.on_message(message, payload, now)
        self._settle()

    # ---- the runner

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        """See `RunnerListener`."""
        now = trio.current_time()
        for ended, payload in runs:
            self._session.on_ended(ended, payload, now)
        self._settle()

    async def is_ending(self, signal: int) -> bool:
        """See `RunnerListener`.

        Whoever ends a job signals all of its processes, so a program may die of it before this
        process has the same signal.
        """
        if signal:
            with trio.move_on_after(LATE_SIGNAL):
                while not self._lifecycle.explains(signal):
                    await self._signalled.park()
        await signals_handled()
        return self._lifecycle.explains(signal)

    def warned(self) -> None:
        """See `RunnerListener`."""
        self._lifecycle.on_warned()
        self._settle()

    def inspected(self, answer: Inspected) -> None:
        """See `RunnerListener`."""
        self._session.on_inspected(answer)
        self._settle()

    def run_message(self, news: RunMessage) -> None:
        """See `RunnerListener`."""
        self._session.on_run_message(news)
        self._settle()

    def replaced(self, why: str) -> bool:
        """See `RunnerListener`."""
        self._lifecycle.on_replaced(why)
        self._settle()
        return True

    def died(self, death: RunnerDeath) -> None:
        """See `RunnerListener`."""
        _log.warning("%s; runs lost: %d", death, len(death.runs))
        now = trio.current_time()
        if self._lifecycle.interrupted or self._lifecycle.replaced:
            for attempt in death.runs:
                self._session.on_ended(Ended(attempt, "returned"), None, now)
        else:
            self._session.on_runner_crashed(
                str(death), now, death.runs, time.time(), begun=death.begun,
                out_of_memory=death.memory_outcome if death.for_want_of_memory else None,
            )  # fmt: skip
        self._settle()

    def blocked(self, seconds: float, runs: tuple[Attempt, ...]) -> None:
        """See `RunnerListener`."""
        _log.warning(
            "the runner has not answered for %.0f s: one of its %d runs does not let others run, "
            "as a long computation in Python does",
            seconds,
            len(runs),
        )

    def unblocked(self, seconds: float) -> None:
        """See `RunnerListener`."""
        _log.warning("the runner answers again, after %.0f s", seconds)

    def blocking(self, attempt: Attempt | None, code: BlockingCode) -> None:
        """See `RunnerListener`."""
        line = f" `{code.line}`" if code.line else ""
        verb = "blocked" if code.over else "blocks"
        _log.warning(
            "%s %s the event loop, %.0f s, at %s%s; %s instead",
            code.function, verb, code.seconds, code.where, line, code.instead,
        )  # fmt: skip
        if attempt is not None:
            self._session.on_blocking(attempt, code)
            self._settle()

    def printed(self, attempt: Attempt, lines: tuple[str, ...], lost: int) -> None:
        """See `RunnerListener`."""
        self._session.on_printed(attempt, lines, lost, trio.current_time())
        self._settle()

    def unusable(self, why: str) -> None:
        """See `RunnerListener`."""
        self._fail(f"no runner can be had: {why}")
        self._runner.post([(Cancel(attempt), None) for attempt in self._runner.runs])

    # ---- what follows

    def _fail(self, why: str, code: int = FAILED) -> None:
        _log.error("%s", why)
        self._code = code
        self._lifecycle.on_broken(why, trio.current_time())
        self._changed.set()

    def _refuse(self, why: str) -> None:
        _log.error("%s", why)
        self._code = FAILED
        self._lifecycle.on_refused(why, trio.current_time())
        self._changed.set()

    def _settle(self) -> None:
        """Carry out what follows from an event."""
        now = trio.current_time()
        lasting = self._session.lasting > 0
        if lasting is not self._lifecycle.lasting:
            # The time to give up may have come while there were such runs.
            self._lifecycle.lasting = lasting
            self._changed.set()
        self._carry_out(now)
        # The deadlines are looked at when the next one is due. Only where that has moved forward
        # there is something to do earlier: a pass through trio for every run would cost much of it.
        if self._look_again_at(now) < self._looks_at or self._is_over(now):
            self._changed.set()

    def _carry_out(self, now: float) -> None:
        """Carry out what the session and the lifecycle have decided."""
        if self._lifecycle.draining:
            if not self._session.draining:
                left = self._lifecycle.left(now)
                until = "" if left == math.inf else f", runs are cancelled in {left:.0f} s"
                _log.info("taking no more runs: %s%s", self._lifecycle.reason, until)
            until_cancelled = self._lifecycle.left(now)
            self._session.drain(now, now + until_cancelled, self._lifecycle.reason)
        else:
            self._session.on_tick(now)
        self._runner.announce_end(self._lifecycle.cancel_at, now=self._lifecycle.warns)
        orders = self._session.take_orders()
        if orders:
            self._runner.post(orders)
        if self._session.kept.to_spool:
            self._spool.put(self._session.kept.take_to_spool())
        mail = self._session.take_mail()
        if mail and self._channel is not None:
            if self._outbox or self._session.kept.spooled or self._channel.congested:
                self._outbox.extend(mail)
                self._outbox_filled.set()
                return
            try:
                # Nothing is spooled, so all of it can travel as it is.
                self._channel.post(cast("list[tuple[Message, Payload]]", mail))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # `_serve` is about to notice, and the session sends it all again
