"""One process of a runner, from its start until nothing of it is left."""

from __future__ import annotations

import enum
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from grain.edge.channel import FramedChannel
from grain.edge.errors import ChannelError
from grain.files.trust import python_command
from grain.worker.agent.listener import RunnerDeath
from grain.worker.lanes.beginnings import Beginnings, open_beginnings
from grain.worker.messages import (
    AskEnding,
    Ended,
    EndingTold,
    Inspected,
    JobBegins,
    ProgramWarned,
    Ready,
    RunMessage,
    StartRun,
)
from grain.worker.processes.subreaper_client import ProcessEnd, SubreaperProcess
from grain.worker.runner.wire import (
    BLOCKED,
    CODEC,
    HEARTBEAT,
    LARGEST_REPORT,
    PrintReport,
    Report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.edge.channel import WireBatch
    from grain.edge.messages import Message
    from grain.worker.agent.first_runner import FirstRunner
    from grain.worker.agent.functions import FunctionFeed, Order
    from grain.worker.agent.listener import RunnerListener
    from grain.worker.messages import Attempt
    from grain.worker.runner.settings import RunnerSettings


_REPORTS_AT_ONCE = 1000

_REPORTS: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


class InstanceState(enum.Enum):
    """The states of a runner instance, in the order in which it passes them."""

    STARTING = enum.auto()
    """Its process starts, or enters the context. It takes no orders."""
    READY = enum.auto()
    """It takes orders."""
    CLOSED = enum.auto()
    """Its channel has ended: the process is dead or about to end. Its runs are lost."""


class RunnerInstance:
    """A process of a runner, its channel and its runs.

    Args:
        grace: seconds between SIGTERM and SIGKILL for what the process leaves behind.
        replaced: as `grain.edge.version.replaced_code`.
        first: becomes the process, if there is one; else a process is started.

    Attributes:
        failure: why it did not become ready, if it reported a reason.
        runs: the runs that it has; those that it died with until their loss is reported.
    """

    def __init__(
        self,
        name: str,
        grace: float,
        listener: RunnerListener,
        functions: FunctionFeed,
        settings: RunnerSettings,
        replaced: Callable[[], str],
        first: FirstRunner | None = None,
    ) -> None:
        self._first = first
        self._name = name
        self._replaced = replaced
        self._settings = settings.to_word()
        self._grace = grace
        self._listener = listener
        self._functions = functions
        self._channel: FramedChannel | None = None
        self._process: SubreaperProcess | None = None
        self._blocked = 0.0
        self._closing = False
        self._killed = False
        self._beginnings = Beginnings()
        self.state = InstanceState.STARTING
        self.failure = ""
        self.runs: dict[Attempt, StartRun] = {}
        self._jobs: dict[Attempt, JobBegins] = {}  # those among the runs
        self.served = False

    # ---- orders

    def post(self, orders: Sequence[Order]) -> bool:
        """Send orders, and the functions that they need; return False if it takes none."""
        if self._channel is None or self.state is not InstanceState.READY:
            return False
        try:
            self._channel.post(self._functions.complete(orders))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False  # `live` is about to notice
        for message, _ in orders:
            if isinstance(message, StartRun):
                self.runs[message.attempt] = message
                self.served = True
        return True

    async def close(self) -> None:
        """Have it leave once its runs have ended, or once it is there."""
        self._closing = True
        if self._channel is not None:
            await self._channel.aclose()

    def kill(self) -> None:
        """End the process, and all that it started, now, or once it is there."""
        self._killed = True
        if self._process is not None:
            self._process.end(hurry=True)

    # ---- its process

    async def live(self, on_ready: Callable[[], object], on_ended: Callable[[], object]) -> None:
        """Start the process and receive from it until its channel ends.

        Args:
            on_ended: called when runs have ended, after they were reported.

        Raises:
            OSError: no process can be started.
        """
        reports, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with theirs, reports, os.fdopen(open_beginnings(), "rb", buffering=0) as memory:
            self._beginnings = Beginnings(memory.fileno())
            fds = theirs.fileno(), memory.fileno()
            command = python_command("grain.worker.runner.main")
            argv = [*command, self._name, *map(str, fds), self._settings]
            if self._first is not None:
                self._process = self._first.start(argv, self._grace, fds)
            if self._process is None:
                self._process = await SubreaperProcess.start(argv, self._grace, pass_fds=fds)
            theirs.close()
            if self._killed:  # ordered while it was being started
                self._process.end(hurry=True)
            await self._receive(self._process, reports, on_ready, on_ended)

    async def _receive(
        self,
        process: SubreaperProcess,
        reports: socket.socket,
        on_ready: Callable[[], object],
        on_ended: Callable[[], object],
    ) -> None:
        connection = trio.socket.from_stdlib_socket(process.socket)
        stream = trio.SocketStream(connection)

        def take(batch: WireBatch) -> None:
            ended = []
            for message, payload in batch:
                if isinstance(message, Ended):
                    self._jobs.pop(message.attempt, None)
                    if self.runs.pop(message.attempt, None) is not None:
                        ended.append((message, payload))
                elif isinstance(message, AskEnding):
                    nursery.start_soon(self._tell_ending, channel, message)
                elif isinstance(message, Ready):
                    # Both agree only if it has loaded what this process has.
                    self.failure = message.error or self._replaced()
                    if self.failure and not message.error:
                        self.kill()
                    elif not self.failure:
                        self.state = InstanceState.READY
                        on_ready()
                else:
                    self._pass_on(message)
            if ended:
                self._drain(reports)  # what they have printed comes before
                self._listener.ended(ended)
                on_ended()

        async with (
            FramedChannel(stream, CODEC, HEARTBEAT) as channel,
            trio.open_nursery() as nursery,
        ):
            self._channel = channel
            if self._closing:  # asked for while the process was starting, without a channel
                await channel.aclose()
            nursery.start_soon(self._watch, channel)
            nursery.start_soon(self._take_reports, reports)
            nursery.start_soon(self._end_with_guard, process, connection)
            try:
                await channel.receive_into(take)
            except (ChannelError, trio.ClosedResourceError):
                pass
            self.state = InstanceState.CLOSED
            nursery.cancel_scope.cancel()

    def _pass_on(self, message: Message) -> None:
        if isinstance(message, Inspected):
            self._listener.inspected(message)
        elif isinstance(message, RunMessage):
            self._listener.run_message(message)
        elif isinstance(message, JobBegins):
            self._jobs[message.attempt] = message
        elif isinstance(message, ProgramWarned):
            self._listener.warned()

    async def _tell_ending(self, channel: FramedChannel, question: AskEnding) -> None:
        ends = bool(question.replaced) and self._listener.replaced(question.replaced)
        ends = ends or await self._listener.is_ending(question.signal)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            channel.post([(EndingTold(question.attempt, ends), None)])

    async def _watch(self, channel: FramedChannel) -> None:
        """Report when a tasklet blocks the event loop, by the heartbeats that do not come."""
        misses = 0
        while True:
            await trio.sleep(HEARTBEAT.interval)
            silent = channel.silent_for()
            # Twice: after a stop of this process itself, what has come is yet to be read.
            misses = misses + 1 if silent > BLOCKED else 0
            if misses > 1 and self.state is InstanceState.READY:
                if not self._blocked:
                    self._listener.blocked(silent, tuple(self.runs))
                self._blocked = silent
            elif not misses and self._blocked:
                self._listener.unblocked(self._blocked)
                self._blocked = 0.0

    async def _end_with_guard(
        self, process: SubreaperProcess, connection: trio.socket.SocketType
    ) -> None:
        """End the channel when the subreaper has died, and the process with it.

        A process that a task has forked may hold the other end. What the dead one has sent is read
        before the end of file.
        """
        await process.wait_for_word()
        with suppress(OSError):  # it has ended by itself
            connection.shutdown(socket.SHUT_RD)

    async def _take_reports(self, reports: socket.socket) -> None:
        """Pass on what the process reports by other ways than its channel."""
        while True:
            await trio.lowlevel.wait_readable(reports)
            self._drain(reports)

    def _drain(self, reports: socket.socket) -> None:
        """Take the reports that are there."""
        for _ in range(_REPORTS_AT_ONCE):
            try:
                data = reports.recv(LARGEST_REPORT, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            try:
                report = _REPORTS.decode(data)
            except msgspec.MsgspecError:
                continue  # user code of that process has written to the descriptor
            if isinstance(report, PrintReport):
                self._listener.printed(report.attempt, report.lines, report.lost)
            elif report.attempt is None or report.attempt in self.runs or report.code.over:
                self._listener.blocking(report.attempt, report.code)

    async def bury(self, *, leaving: bool) -> RunnerDeath:
        """Wait until nothing of it is left.

        Args:
            leaving: True if it ends by itself; otherwise it is ended.
        """
        if self._process is None:
            return RunnerDeath((), ProcessEnd(None))
        if not leaving:
            self._process.end()
        try:
            end = await self._process.wait()
        except trio.Cancelled:
            self.kill()
            raise
        begun, jobs = self._beginnings.read(), tuple(self._jobs.values())
        return RunnerDeath(tuple(self.runs), end, self._blocked, socket.gethostname(), begun, jobs)
