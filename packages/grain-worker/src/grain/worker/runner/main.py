"""The runner's process: ``python -P -m grain.worker.runner.main NAME REPORTS BEGUN SETTINGS``.

Its channel is on the descriptor 3, its socket for reports of blocking on REPORTS, and the memory of
its `Beginnings` on BEGUN; SETTINGS are `RunnerSettings` as JSON.

It serves a `Runner` until its agent closes the channel, or dies. A subreaper starts it
(`grain.worker.guards`), and ends whatever it leaves behind.
"""

from __future__ import annotations

import io
import math
import os
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from grain.edge.channel import FramedChannel
from grain.edge.errors import ChannelError
from grain.files.trust import search_working_directory
from grain.worker.errors import sendable
from grain.worker.lanes.beginnings import Beginnings
from grain.worker.logs import Allowance
from grain.worker.messages import Ready
from grain.worker.processes.account import attempt_of
from grain.worker.processes.child_setup import set_up_child
from grain.worker.processes.fork_server_client import set_control_groups, set_last_resort
from grain.worker.runner.context import ContextError, user_context
from grain.worker.runner.output import RunnerOutput
from grain.worker.runner.runner import Runner
from grain.worker.runner.settings import RunnerSettings
from grain.worker.runner.watchdog import LoopWatchdog, task_on
from grain.worker.runner.wire import CODEC, HEARTBEAT, BlockingReport, PrintReport
from grain.worker.runner.wire_translation import WireTranslation

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from types import FrameType

    from grain.edge.messages import WireBytes
    from grain.worker.messages import Attempt, BlockingCode

CONTEXT_FAILED, AGENT_LOST, UNWATCHED = 3, 4, 5

_WITHOUT_EFFECT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_LINES, _SAVED = 100, 300  # lines a second that runs may report together, and how many at once
_LINES_AT_ONCE, _LONGEST_LINE = 10, 400  # they fit a `Report`, also as four bytes a character


def main() -> None:
    """Serve as the runner's process until its agent ends it."""
    told = EndNotice()
    sock = set_up_child(b"grain-runner", _WITHOUT_EFFECT, told)
    name, number, begun, word = sys.argv[1:]
    settings = RunnerSettings.from_word(word)
    reports = int(number)
    os.set_inheritable(reports, False)
    beginnings = Beginnings(int(begun))
    os.close(int(begun))
    sys.path[:] = settings.search or sys.path
    settings = msgspec.structs.replace(settings, unsearched=search_working_directory())
    if settings.worker.cwd:
        # Now, as it still imports from the directory in which it was started.
        os.chdir(settings.worker.cwd)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A crash loses no line, also where the output is a file.
        sys.stdout.reconfigure(line_buffering=True)
    # User code is not to see our command line.
    sys.argv[1:] = []
    socket_of_reports = socket.socket(fileno=reports)
    code = trio.run(partial(serve, sock, socket_of_reports, name, settings, told, beginnings))
    sys.stdout.flush()
    sys.exit(code)


async def serve(
    sock: socket.socket,
    reports: socket.socket,
    name: str,
    settings: RunnerSettings,
    told: EndNotice,
    beginnings: Beginnings,
) -> int:
    """Serve runs over a socket until its other end is closed; return the exit code."""
    set_last_resort(end_unwatched)
    set_control_groups(settings.groups)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    try:
        async with FramedChannel(stream, CODEC, HEARTBEAT) as channel:
            with reports, LoopWatchdog(BlockingReporter(reports, log=settings.labels)):
                printed = PrintReporter(reports)
                return await serve_in_context(channel, name, settings, printed, told, beginnings)
    finally:
        # The agent has what is left ended now, this process with it. Python would print that a
        # handler cannot wake trio, whose sockets close first. Nothing more is started from here,
        # so nothing inherits that the signals are ignored.
        for number in _WITHOUT_EFFECT:
            signal.signal(number, signal.SIG_IGN)


class EndNotice:
    """The handler of the signals that have no effect here: it notes the first SIGTERM.

    A batch system that ends a job sends it to every process, so the programs of runs have it, too.
    """

    def __init__(self) -> None:
        self._at = math.inf

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        if number == signal.SIGTERM:
            self._at = min(self._at, time.monotonic())

    def told_at(self) -> float:
        """Return when this process was told to end; inf if it was not."""
        return self._at


class PrintReporter:
    """The reporter of lines that runs print, in whichever thread they print."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._allowance = Allowance(_LINES, _SAVED)
        self._lost = 0

    def __call__(self, attempt: Attempt, lines: list[str]) -> None:
        """Report lines; lines beyond the limit are only counted."""
        kept = tuple(sendable(line)[:_LONGEST_LINE] for line in lines[:_LINES_AT_ONCE])
        if not self._allowance.take(len(kept), time.monotonic()):
            self._lost += len(lines)
            return
        lost = self._lost + len(lines) - len(kept)
        report = msgspec.msgpack.encode(PrintReport(attempt, kept, lost))
        try:
            self._socket.send(report, socket.MSG_DONTWAIT)
            self._lost = 0
        except OSError:  # the agent is gone, or does not read
            self._lost += len(lines)


def end_unwatched() -> None:
    """End this process, as a program goes on whose guards were killed: the subreaper ends both.

    The runs of this process are reported as crashed only then. Its other programs end, too, but to
    go on would give away cores that are in use.
    """
    print(
        "The fork server and the supervisor of a program were killed (SIGKILL). This runner ends "
        "with all its programs, and its tasks run again: no other process could end that program.",
        file=sys.stderr,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(UNWATCHED)


class BlockingReporter:
    """The reporter of blocking code, in the thread of the watchdog; made in that of the loop.

    Args:
        log: True if standard error is the worker's log, which has the stack as well. Else it is
            that of the mission, which says what is to be said in a sentence of its own.
    """

    def __init__(self, sock: socket.socket, *, log: bool) -> None:
        self._socket = sock
        self._log = log
        self._root = trio.lowlevel.current_root_task()
        self._attempt: Attempt | None = None  # the last one reported, for the report of its end

    def __call__(self, code: BlockingCode, frames: tuple[FrameType, ...]) -> None:
        """Take a report of a `LoopWatchdog`."""
        if not code.over:
            task = task_on(frames, self._root)
            self._attempt = None if task is None else attempt_of(task.context)
        if self._log and not code.over:
            sys.stderr.write(
                f"The event loop has been blocked for {code.seconds:.0f} s by {code.function}:\n"
                + "".join(traceback.format_list([_summary(frame) for frame in frames]))
            )
            sys.stderr.flush()
        report = msgspec.msgpack.encode(BlockingReport(self._attempt, code))
        with suppress(OSError):  # the agent is gone, or does not read
            self._socket.send(report, socket.MSG_DONTWAIT)


def _summary(frame: FrameType) -> traceback.FrameSummary:
    code = frame.f_code
    return traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name)


async def serve_in_context(
    channel: FramedChannel,
    name: str,
    settings: RunnerSettings,
    echo: PrintReporter,
    told: EndNotice,
    beginnings: Beginnings,
) -> int:
    """Enter the user's context, serve, leave it; return the exit code."""
    entered, code = False, None
    try:
        async with user_context(settings.worker.contextmod, settings.unsearched):
            entered = True
            await channel.send([(Ready(), None)])
            code = await serve_runs(channel, name, settings, echo, told, beginnings)
    except Exception as error:
        if entered and code is None:
            raise  # not the context's fault
        traceback.print_exc()
        if not entered:
            why = str(error) if isinstance(error, ContextError) else repr(error)
            await channel.send([(Ready(why[:4000]), None)])
        return CONTEXT_FAILED
    return code


async def serve_runs(
    channel: FramedChannel,
    name: str,
    settings: RunnerSettings,
    echo: PrintReporter,
    told: EndNotice,
    beginnings: Beginnings,
) -> int:
    """Serve runs; return the exit code."""
    where = f"{name} (host {socket.gethostname()}, pid {os.getpid()})"
    translation = WireTranslation(where, settings=settings, worker=name, interruptible=False)
    on_ended = RunnerOutput(echo).end if settings.labels else None
    runner: Runner[WireBytes, WireBytes] = Runner(
        *(name, channel, translation, on_ended),
        interruptible=False, told_at=told.told_at, beginnings=beginnings,
    )  # fmt: skip
    try:
        await runner.serve()
    except BaseExceptionGroup as group:
        if group.split(ChannelError)[1] is not None:
            raise
        return AGENT_LOST
    return 0


if __name__ == "__main__":
    main()
