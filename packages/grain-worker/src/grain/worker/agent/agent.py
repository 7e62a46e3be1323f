"""The agent: a thin shell around the decisions of `WorkerSession` and `Life`.

Four parties speak to it: the head over a channel, the runner by `Reports`, the operating system
by signals, and the clock. Whatever happens is told to the session or to the life, and then
`_settle` carries out what follows from it.
"""

from __future__ import annotations

import logging
import math
import signal
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import AddressError, ChannelError, EdgeError
from grain.worker.agent.runner_process import RunnerProcess
from grain.worker.agent.signals import on_signals
from grain.worker.messages import Cancel, Ended, ForgetFunctions, Retire, Run, WorkerRegistered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from grain.edge import Peer
    from grain.edge.channel import Batch, Channel
    from grain.edge.messages import Payload
    from grain.worker.agent.lifecycle import Life
    from grain.worker.agent.listener import Crash
    from grain.worker.agent.session import WorkerSession

    Dial = Callable[[], AbstractAsyncContextManager[Peer]]

DONE, FAILED, USAGE, GAVE_UP = 0, 1, 2, 3
"""Exit codes: it left as it was asked to; it could not work; nonsense on its command line; there
was no scheduler."""

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
_AGAIN = 1.0  # seconds until the next attempt after a connection that was lost

_log = logging.getLogger("grain.worker")


class Agent:
    """One worker; `run` is its life.

    Args:
        session: what it remembers.
        life: when it ends.
        dial: connects to the head, and waits for one if there is none.
        context: the context module.
        grace: seconds for what is left when it ends.
    """

    def __init__(
        self,
        session: WorkerSession,
        life: Life,
        dial: Dial,
        context: str = "",
        grace: float = 10.0,
    ) -> None:
        self._session = session
        self._life = life
        self._dial = dial
        self._runner = RunnerProcess(session.name, self, context, grace)
        self._channel: Channel | None = None
        self._changed = trio.Event()
        self._looks_at = math.inf
        self._code = DONE

    async def run(self) -> int:
        """Serve until it is over; the exit code.

        Raises:
            RunnerUnusable: there is no runner to begin with.
        """
        with on_signals(self._on_signal, *SIGNALS):
            async with self._runner, trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_connected)
                await self._until_over()
                self._runner.leave_within(self._life.time_over(trio.current_time()))
                nursery.cancel_scope.cancel()
        return GAVE_UP if self._life.gave_up else self._code

    # ---- the operating system, and the clock

    def _on_signal(self, number: int) -> None:
        _log.info("%s received", signal.Signals(number).name)
        self._life.on_signal(number, trio.current_time())
        self._settle()

    async def _until_over(self) -> None:
        """Let time pass."""
        while True:
            now = trio.current_time()
            self._changed = trio.Event()
            self._life.on_time(now)
            self._carry_out(now)
            if self._life.killing(now):
                self._runner.kill()
            if self._is_over(now):
                await self._say_goodbye()
                return
            self._looks_at = self._look_again_at(now)
            with trio.move_on_at(self._looks_at):
                await self._changed.wait()

    def _is_over(self, now: float) -> bool:
        return self._session.finished or self._life.over(now, runs=not self._session.finished)

    def _look_again_at(self, now: float) -> float:
        return min(self._life.next_at(now), self._session.next_tick())

    async def _say_goodbye(self) -> None:
        if self._channel is not None:
            with trio.move_on_after(min(5.0, self._life.time_over(trio.current_time()))):
                await self._channel.aclose()

    # ---- the head

    async def _keep_connected(self) -> None:
        while True:
            try:
                async with self._dial() as peer:
                    _log.info("connected to %s (%s)", peer.target, peer.transport)
                    await self._serve(peer.channel)
            except trio.ClosedResourceError:
                return  # by us, as the worker leaves
            except (ChannelError, trio.BrokenResourceError) as error:
                if isinstance(error, EdgeError) and error.final:  # it was never there
                    self._fail(str(error))
                    return
                _log.info("the connection is lost: %s", error)
            except trio.EndOfChannel:
                _log.info("the scheduler has ended the connection")
            except AddressError as error:
                self._fail(str(error), USAGE)
                return
            except EdgeError as error:
                if error.final:
                    self._fail(str(error))
                    return
                _log.info("%s", error)
            await trio.sleep(_AGAIN)

    async def _serve(self, channel: Channel) -> None:
        self._channel = channel
        self._session.on_connected(trio.current_time())
        try:
            self._settle()
            while True:
                self._take(await channel.receive())
        finally:
            self._channel = None
            self._session.on_disconnected(trio.current_time())
            self._life.on_unlinked(trio.current_time())
            self._changed.set()

    def _take(self, batch: Batch) -> None:
        now = trio.current_time()
        for message, payload in batch:
            if isinstance(message, WorkerRegistered):
                self._life.on_linked()
            elif isinstance(message, ForgetFunctions):
                self._runner.drop(message.digests)
            elif isinstance(message, Retire):
                self._life.on_quit(now, force=message.at_once)
            self._session.on_message(message, payload, now)
        self._settle()

    # ---- the runner

    def ended(self, runs: Sequence[tuple[Ended, Payload]]) -> None:
        """See `Reports`."""
        now = trio.current_time()
        for ended, payload in runs:
            if ended.failed and self._life.interrupted:
                # The batch system signals every process of a job: the programs of this run have
                # died of that, and the task failed for no fault of its own.
                self._session.on_ended(Ended(ended.task, ended.attempt, "returned"), None, now)
            else:
                self._session.on_ended(ended, payload, now)
        self._settle()

    def crashed(self, crash: Crash) -> None:
        """See `Reports`."""
        _log.warning("%s; runs lost: %d", crash, len(crash.runs))
        now = trio.current_time()
        if self._life.interrupted:
            for task, attempt in crash.runs:
                self._session.on_ended(Ended(task, attempt, "returned"), None, now)
        else:
            self._session.on_runner_crashed(str(crash), now, [task for task, _ in crash.runs])
        self._settle()

    def blocked(self, seconds: float, runs: tuple[tuple[int, int], ...]) -> None:
        """See `Reports`."""
        _log.warning(
            "the runner has not answered for %.0f s: one of its %d runs does not let others run, "
            "as a long computation in Python does",
            seconds,
            len(runs),
        )

    def unblocked(self, seconds: float) -> None:
        """See `Reports`."""
        _log.warning("the runner answers again, after %.0f s", seconds)

    def unusable(self, why: str) -> None:
        """See `Reports`."""
        self._fail(f"no runner can be had: {why}")
        for task, attempt in self._runner.runs:
            self._runner.cancel(task, attempt)

    # ---- what follows

    def _fail(self, why: str, code: int = FAILED) -> None:
        _log.error("%s", why)
        self._code = code
        self._life.on_broken(why, trio.current_time())
        self._changed.set()

    def _settle(self) -> None:
        """Something has happened: carry out what follows."""
        now = trio.current_time()
        self._carry_out(now)
        # The deadlines are looked at when the next one is due. Only where that has moved forward
        # there is something to do earlier: a pass through trio for every run would cost much of it.
        if self._look_again_at(now) < self._looks_at or self._is_over(now):
            self._changed.set()

    def _carry_out(self, now: float) -> None:
        """Do what the session and the life have decided."""
        if self._life.draining:
            if not self._session.draining:
                left = self._life.left(now)
                until = "" if left == math.inf else f", runs are cancelled in {left:.0f} s"
                _log.info("taking no more runs: %s%s", self._life.reason, until)
            self._session.drain(now, now + self._life.left(now))
        else:
            self._session.on_tick(now)
        orders, self._session.to_runner = self._session.to_runner, []
        if orders:
            # A run that is to be cancelled was begun before, so it is known by then.
            runs = [(message, call) for message, call in orders if isinstance(message, Run)]
            if runs:
                self._runner.start_all(runs)
            for message, _ in orders:
                if isinstance(message, Cancel):
                    self._runner.cancel(message.task, message.attempt, waiting=message.waiting)
        mail, self._session.to_head = self._session.to_head, []
        if mail and self._channel is not None:
            try:
                self._channel.post(mail)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # whoever receives from it is about to see that
