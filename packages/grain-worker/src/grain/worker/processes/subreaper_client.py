"""A process below a subreaper: its start, its end; `grain.worker.guards` has the theory."""

from __future__ import annotations

import marshal
import math
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import trio

from grain.worker.errors import signal_name
from grain.worker.guards.protocol import END, HURRY, MEASURE, MEASURED, MOST, REST, STUCK
from grain.worker.node.cgroup import read_cgroups
from grain.worker.processes.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Mapping


class Figures(NamedTuple):
    """The figures that a subreaper has measured.

    Attributes:
        peak: the largest memory at one time of the process and all below it, in GB.
        exceeded: True if that was more than it may have in two looks, and it is ended therefore.
    """

    peak: float = 0.0
    exceeded: bool = False


class ProcessEnd(NamedTuple):
    """The end of a process, when nothing is left of what it started.

    Attributes:
        returncode: its exit code, or the negative number of the signal; None if that is unknown, as
            the subreaper was killed.
        max_rss: the largest resident memory of it or of one of its children, in GB.
        user: CPU seconds in user mode, of all processes.
        system: the same in the kernel.
        measured: the figures of what was measured last, see `SubreaperProcess.measure`.
        left: pids of processes that survive SIGKILL.
        out_of_memory: the kernel killed a process of our control group meanwhile, because memory
            ran out.
    """

    returncode: int | None
    max_rss: float = 0.0
    user: float = 0.0
    system: float = 0.0
    measured: Figures = Figures()
    left: tuple[int, ...] = ()
    out_of_memory: bool = False

    def describe(self, blocked: float = 0.0) -> str:
        """Return the verb and what follows, for a sentence about the process.

        >>> ProcessEnd(-11, 0.25).describe()
        'was ended by SIGSEGV (peak memory 0.25 GB)'

        Args:
            blocked: seconds for which it had been blocked when it ended, if that is known.
        """
        if self.returncode is None:
            how = "ended in an unknown way"
        elif self.returncode < 0:
            how = f"was ended by {signal_name(self.returncode)}"
        else:
            how = f"exited with code {self.returncode}"
        if self.out_of_memory:
            how += ", out of memory"
        if blocked:
            how += f", blocked for {blocked:.0f} s"
        how += f" (peak memory {self.max_rss:.2f} GB)"
        if self.left:
            how += f"; processes survive SIGKILL: {', '.join(map(str, self.left))}"
        return how


class Subreaper(Protocol):
    """The process of a subreaper, a child of this one."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def send_signal(self, sig: signal.Signals) -> None:
        """Send it a signal, unless it was waited for."""

    async def wait(self) -> object:
        """Wait until it has ended, and have the kernel forget it."""


class SubreaperProcess:
    """A process below a subreaper, which ends it and all that it started with this process.

    Get it by `start`; then `wait` until it has ended, whether `end` was called or not.

    Args:
        control: our end of the subreaper's control socket, which does not block.

    Attributes:
        socket: our end of a connection to the process, which has the other one as descriptor 3.
            The caller of `start` closes it.
    """

    def __init__(
        self,
        subreaper: Subreaper,
        control: socket.socket,
        channel: socket.socket,
        sweep: Sweep,
    ) -> None:
        self._subreaper = subreaper
        self._control = control
        self._sweep = sweep
        self._oom_kills = read_cgroups().oom_kills
        self._figures: Figures | None = None
        self._news = trio.lowlevel.ParkingLot()
        self._ended = False
        self.socket = channel

    @classmethod
    async def start(
        cls,
        argv: list[str],
        grace: float,
        *,
        kind: socket.SocketKind = socket.SOCK_STREAM,
        env: Mapping[bytes, bytes] | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        pass_fds: tuple[int, ...] = (),
    ) -> SubreaperProcess:
        """Start a process.

        Args:
            grace: seconds between SIGTERM and SIGKILL for what it leaves behind.

        Raises:
            OSError: no process can be started.
        """
        sweep = Sweep(grace)
        environment = sweep.environment(os.environb if env is None else env)
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = Path(__file__).parent.parent / "guards" / "main.py"
        guard = [sys.executable, "-I", "-S", str(script), "subreaper"]
        fds = (their_control.fileno(), theirs.fileno())
        try:
            subreaper = await trio.lowlevel.open_process(
                [*guard, *map(str, fds), str(grace), *argv],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
                pass_fds=(*fds, *pass_fds),
                # Ctrl-C at the terminal is for the caller, which then decides.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            control.close()
            raise
        finally:
            theirs.close()
            their_control.close()
        control.setblocking(False)
        return cls(subreaper, control, ours, sweep)

    @property
    def subreaper(self) -> int:
        """The pid of the subreaper."""
        return self._subreaper.pid

    def end(self, *, hurry: bool = False) -> None:
        """Have everything ended: SIGTERM now, SIGKILL after the grace, or after 0.3 s."""
        if hurry:
            self._sweep.hurry()
        with suppress(OSError):
            self._control.send(HURRY if hurry else END)
        # The process may have stopped the subreaper, which is its parent.
        self._subreaper.send_signal(signal.SIGCONT)

    def measure(self, most: float | None) -> None:
        """Begin to measure its memory by looks at its processes, until `measured` is called.

        Args:
            most: the KiB that it may have before it is ended, as `end` ends it; None for no limit.
        """
        with suppress(OSError):
            self._control.send(MEASURE + MOST.pack(math.inf if most is None else most))

    async def measured(self) -> Figures:
        """End what `measure` began, and return the figures; empty ones if the process is gone.

        `wait` has to run meanwhile.
        """
        self._figures = None
        with suppress(OSError):
            self._control.send(REST)
        self._subreaper.send_signal(signal.SIGCONT)  # as for `end`
        while self._figures is None and not self._ended:
            await self._news.park()
        return self._figures or Figures()

    async def wait_for_word(self) -> None:
        """Wait until `wait` has something to go by: a report, or the death of the subreaper."""
        await trio.lowlevel.wait_readable(self._control)

    async def wait(self) -> ProcessEnd:
        """Wait until nothing is left, or until what is left is known to survive SIGKILL.

        If the subreaper is killed, this does its work: its process dies with it, and so do the
        programs below their supervisors, but that takes a moment.

        To be called once. Cancellation has everything ended, as `end` does, and does not wait.
        """
        try:
            while True:
                await self.wait_for_word()
                report = self._receive()
                if not report or (words := marshal.loads(report))[0] != MEASURED:  # noqa: S302
                    break
                self._figures = figures_of(words)
                self._news.unpark_all()
        finally:
            self._control.close()
            self._ended = True
            self._news.unpark_all()
        end = end_of(report)
        if not end.left:
            await self._subreaper.wait()
        if not report:
            left = await trio.to_thread.run_sync(self._sweep.run, abandon_on_cancel=True)
            end = end._replace(left=left)
        return end._replace(out_of_memory=read_cgroups().oom_kills > self._oom_kills)

    def _receive(self) -> bytes:
        """Return the report; empty if the subreaper was killed."""
        # Twice: Linux reports once that the subreaper left one of our messages unread, and then
        # delivers what it sent before.
        for _ in range(2):
            try:
                return self._control.recv(65536)
            except ConnectionError:
                continue
            except BlockingIOError:
                break
        return b""


def end_of(data: bytes) -> ProcessEnd:
    """Return what a subreaper's report says; an empty one says nothing."""
    if not data:
        return ProcessEnd(None)
    report: tuple[Any, ...] = marshal.loads(data)  # noqa: S302 (our child)
    if report[0] == STUCK:
        return ProcessEnd(None, left=tuple(report[1]))
    _, status, _, user, system, max_rss, *_ = report
    returncode = os.waitstatus_to_exitcode(status)
    return ProcessEnd(returncode, max_rss * 1024 / 1e9, user, system, figures_of(report))


def figures_of(report: tuple[Any, ...]) -> Figures:
    """Return the figures of a report, which ends with them."""
    *_, peak, exceeded = report
    return Figures(peak / 1e9, exceeded)
