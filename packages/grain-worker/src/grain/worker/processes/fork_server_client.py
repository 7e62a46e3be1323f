"""The caller's side of the fork server; `grain.worker.guards` has the theory.

A trio run has one `ForkServerClient`, which the first call starts and the end of the run closes. It
has the idle supervisors, which serve one call after another.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from grain.edge.machine.copies import Origin, ending_copies
from grain.worker.errors import CodeReplaced
from grain.worker.guards.protocol import AWAIT, FORK, STUCK, UNKILLABLE
from grain.worker.processes.out_of_memory import SharedKills
from grain.worker.processes.supervisor_client import (
    ProgramExit,
    StartFailure,
    StuckError,
    SupervisorClient,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from grain.worker.guards.protocol import ProgramRequest

LINGER = 5.0
"""Seconds that the end of a trio run waits for the last of these processes."""

RESUME = 1.0
"""Seconds between signals to continue helpers that may be stopped, where their work is awaited."""

_OF_THIS_RUN: trio.lowlevel.RunVar[ForkServerClient] = trio.lowlevel.RunVar(
    "grain.worker.processes.fork_server_client"
)

_LAST_RESORT: trio.lowlevel.RunVar[Callable[[], object]] = trio.lowlevel.RunVar("last resort")


def set_last_resort(action: Callable[[], object]) -> None:
    """Set what is done in this trio run when a program may go on without a guard.

    A process below a subreaper ends itself: then the subreaper ends the program.
    """
    _LAST_RESORT.set(action)


_GROUPS: trio.lowlevel.RunVar[str] = trio.lowlevel.RunVar("control groups")


def set_control_groups(directory: str) -> None:
    """Set the directory in which this trio run makes a control group for each supervisor.

    It is for the first call of a program and those after it; empty for no groups.
    """
    _GROUPS.set(directory)


class LostError(Exception):
    """A supervisor was killed while its program ran.

    Attributes:
        nothing_left: True if nothing of the program is left; False if something may be.
    """

    def __init__(self, *, nothing_left: bool) -> None:
        super().__init__(nothing_left)
        self.nothing_left = nothing_left


class ProgramResult(NamedTuple):
    """A supervisor's report on a program, and what the program wrote where that was captured."""

    report: ProgramExit | StartFailure
    stdout: bytes
    stderr: bytes


class RunningProgram(NamedTuple):
    """A program under way.

    Attributes:
        began: when it began, by trio's clock.
    """

    request: ProgramRequest
    began: float
    task: trio.lowlevel.Task
    supervisor: SupervisorClient

    @property
    def context(self) -> Context:
        """The context of the task that waits for it."""
        return self.task.context

    @property
    def top(self) -> int | None:
        """The pid of the supervisor; None until it is known."""
        return self.supervisor.pid

    def kill(self) -> None:
        """Have it ended without a grace."""
        self.supervisor.cancel_now()


class ForkServerClient:
    """The fork server of one trio run, and the run's idle supervisors.

    Get it by `of_this_run`. A system task continues it, should a program stop it; when the main
    task of the run has ended, the task closes it, and waits until the process is gone.

    Raises:
        OSError: no process can be started.
        CodeReplaced: it would run other code than this process does.

    Attributes:
        pid: the process; None once its death was noticed.
        kills: which of the run's programs the kernel has killed, where they share a group.
    """

    def __init__(self) -> None:
        CodeReplaced.check()
        self.idle: list[SupervisorClient] = []
        self.running: dict[SupervisorClient, RunningProgram] = {}
        self.kills = SharedKills()
        self._calls = trio.lowlevel.ParkingLot()  # parks the system task while nothing runs
        self._forked = 0
        self._origin = Origin()
        # Enough for a full machine; those beyond leave when they become idle.
        self._spare = os.cpu_count() or 1
        self._sending = trio.Lock()  # only one task at a time may wait for a full socket
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setblocking(False)
        with theirs:
            self.pid: int | None = launch(theirs, _GROUPS.get(""))

    @classmethod
    def programs_of_this_run(cls) -> list[RunningProgram]:
        """Return the programs under way in the current trio run, the oldest first."""
        with suppress(LookupError):
            return list(_OF_THIS_RUN.get().running.values())
        return []

    @classmethod
    def of_this_run(cls) -> ForkServerClient:
        """Return the fork server of the current trio run; start it if there is none."""
        with suppress(LookupError):
            client = _OF_THIS_RUN.get()
            if client.pid is not None:
                return client
        client = cls()
        _OF_THIS_RUN.set(client)
        trio.lowlevel.spawn_system_task(client.tend)
        return client

    async def tend(self) -> None:
        """Continue the fork server while calls wait for it; end it at the end of the trio run."""
        try:
            with ending_copies():
                while True:
                    if not self.running:
                        await self._calls.park()
                    # Programs find it among their parents, and may stop it (SIGSTOP) at any time.
                    # It continues its supervisors, but no other process would continue it.
                    self._resume()
                    await trio.sleep(RESUME)
        finally:
            while self.idle:
                self.idle.pop().close()
            if self.pid is not None:
                with suppress(OSError):
                    self.control.shutdown(socket.SHUT_WR)
                with trio.CancelScope(shield=True):
                    ended = await self._ends_in_time()
                self._forget(ended=ended)

    async def _ends_in_time(self) -> bool:
        """Wait until the fork server has ended; return False if it has not after `LINGER`.

        It stays as long as processes survive SIGKILL, which was reported then.
        """
        # Not by trio's clock, which may be that of a test and not of this process.
        began = time.monotonic()
        while time.monotonic() - began < LINGER:
            self._resume()
            with trio.move_on_after(RESUME):
                await trio.lowlevel.wait_readable(self.control)
                return True
        return False

    def _forget(self, *, ended: bool = True) -> None:
        """Note that the fork server is dead, or dies soon; the next call starts another."""
        if self.pid is not None:
            while self.idle:
                self.idle.pop().close()
            self.control.close()
            if ended:  # its exit closes its socket, so this hardly blocks
                _reap(self.pid)
            else:
                # This process may go on for days, and would have a zombie for each of its runs.
                threading.Thread(target=_reap, args=(self.pid,), daemon=True).start()
            self.pid = None

    # ---- supervisors

    async def _supervisor(self, cpus: list[int] | None) -> SupervisorClient:
        """Return an idle supervisor, or fork one.

        One whose last program had the same CPUs goes first: it finds its caches warm.

        Raises:
            BrokenPipeError: the fork server is dead.
            OSError: there are too many open files.
        """
        if self.idle:
            self._check_alive()
            for at in range(len(self.idle) - 1, -1, -1):
                if self.idle[at].cpus == cpus:
                    return self.idle.pop(at)
            return self.idle.pop()
        self._forked += 1
        supervisor = SupervisorClient(self._forked)
        try:
            await self._send(FORK + b"%d" % supervisor.number, supervisor.inherited)
        except BaseException:
            supervisor.close()
            raise
        supervisor.theirs.close()
        return supervisor

    def _check_alive(self) -> None:
        """Raise if the fork server is dead: supervisors go on without it, and begin nothing.

        If such a supervisor were killed, too, no process would end what it leaves.

        Raises:
            BrokenPipeError: the fork server is dead.
        """
        if self.pid is not None:
            try:
                self.control.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return  # it never sends anything: there is nothing to read until its end
            except ConnectionError:
                pass
            self._forget()
        raise BrokenPipeError("the fork server was killed")

    async def _send(self, message: bytes, fds: list[int]) -> None:
        """Send a message to the fork server.

        Raises:
            BrokenPipeError: the fork server is dead.
        """
        async with self._sending:
            while self.pid is not None:
                try:
                    socket.send_fds(self.control, [message], fds)
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self.control)
                except ConnectionError:
                    self._forget()
                else:
                    return
        raise BrokenPipeError("the fork server was killed")

    def _release(self, supervisor: SupervisorClient) -> None:
        """Keep a supervisor for the next call, unless there are enough, or it has no parent."""
        if self.pid is not None and len(self.idle) < self._spare:
            self.idle.append(supervisor)
        else:
            supervisor.close()

    async def _await_end(self, supervisor: SupervisorClient) -> bool:
        """Wait until nothing is left below a supervisor that was killed.

        Returns:
            False if the fork server, which kills what is left, was killed as well.

        Raises:
            StuckError: some processes survive SIGKILL.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.setblocking(False)
            with theirs:
                try:
                    await self._send(AWAIT + b"%d" % supervisor.number, [theirs.fileno()])
                except BrokenPipeError:
                    return False
            await trio.lowlevel.wait_readable(ours)
            try:
                data = ours.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                return False
            kind, *fields = marshal.loads(data)  # noqa: S302 (our child)
            if kind == STUCK:
                raise StuckError(*fields)
            return True

    # ---- calls

    async def run(
        self,
        request: ProgramRequest,
        stdin: bytes | None,
        on_cancelled: Callable[[ProgramResult], object] = lambda _: None,
    ) -> ProgramResult:
        """Run a program until nothing of it is left.

        Args:
            stdin: what the program reads, if that is not a file.
            on_cancelled: called with the result if the call is cancelled, as nothing is returned.

        Raises:
            BrokenPipeError: the fork server was killed before the program was started; it is safe
                to call again, on a new fork server.
            LostError: the supervisor was killed afterwards.
            StuckError: some processes survive SIGKILL.
            OSError: there are too many open files.

        On cancellation, and on Ctrl-C, the whole tree of processes is ended before the exception
        goes on. If the program itself had ended by then, a cancellation changes nothing: this waits
        for the end of what it has left behind, and returns the result.
        """
        self._origin.check()
        supervisor = await self._supervisor_for(request, stdin)
        self.running[supervisor] = RunningProgram(
            request, trio.current_time(), trio.lowlevel.current_task(), supervisor
        )
        self._calls.unpark_all()
        try:
            try:
                await supervisor.wait()
            except BaseException as error:
                # Not only Cancelled: trio delivers Ctrl-C here as KeyboardInterrupt, only to this
                # task, and cancels the others when it has left; so their grace adds to ours.
                supervisor.cancel(hurry=isinstance(error, KeyboardInterrupt))
                await self._wait_for_end(supervisor, request["grace"])
                with suppress(LostError, BrokenPipeError):  # killed meanwhile: there is no result
                    report = await self._report(supervisor)
                    result = ProgramResult(report, *supervisor.take_output())
                    if _was_over(report) and isinstance(error, trio.Cancelled):
                        supervisor.close()  # it leaves after an order
                        return result
                    on_cancelled(result)
                raise
            result = ProgramResult(await self._report(supervisor), *supervisor.take_output())
        except BaseException:
            # It leaves after an order; and a dead or stuck one is of no use.
            supervisor.close()
            raise
        finally:
            del self.running[supervisor]
        self._release(supervisor)
        return result

    async def _supervisor_for(
        self, request: ProgramRequest, stdin: bytes | None
    ) -> SupervisorClient:
        """Return a supervisor that has got the request."""
        while True:
            was_idle = bool(self.idle)
            supervisor = await self._supervisor(request["cpus"])
            try:
                supervisor.ask(request, stdin)
            except BaseException as error:
                supervisor.close()
                # One may have died while it was idle: then try the next one.
                if not (was_idle and isinstance(error, ConnectionError)):
                    raise
            else:
                return supervisor

    async def _wait_for_end(self, supervisor: SupervisorClient, grace: float) -> None:
        """Wait until a supervisor that was ordered to end its program has done so, or has died.

        The program may have stopped the supervisor and the fork server (SIGSTOP), which it finds
        among its parents. They are continued, again and again. After the time that they have for
        the end of the program, the supervisor and all below it are killed.

        Raises:
            StuckError: the supervisor survives that, too.
        """
        began, killed = time.monotonic(), False
        with trio.CancelScope(shield=True):
            while True:
                self._resume()
                supervisor.resume()
                with trio.move_on_after(RESUME):
                    await supervisor.wait()
                    return
                # Not by trio's clock, which may be that of a test and not of these processes.
                waited = time.monotonic() - began
                if waited > grace + UNKILLABLE + LINGER and not killed:
                    supervisor.kill()
                    killed = True
                elif waited > grace + 2 * (UNKILLABLE + LINGER):
                    raise StuckError([] if supervisor.pid is None else [supervisor.pid])

    def _resume(self) -> None:
        """Continue the fork server, if a program has stopped it; it continues supervisors."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    async def _report(self, supervisor: SupervisorClient) -> ProgramExit | StartFailure:
        """Return a supervisor's report, or raise the reason why there is none."""
        report = supervisor.report()
        if report is not None:
            return report
        if supervisor.never_ran:
            raise BrokenPipeError("the supervisor was killed before it started the program")
        with trio.CancelScope(shield=True):
            nothing_left = await self._await_end(supervisor)
        if not nothing_left:
            with suppress(LookupError):
                _LAST_RESORT.get()()
        raise LostError(nothing_left=nothing_left)


def _was_over(report: ProgramExit | StartFailure) -> bool:
    """Return True if the order to end a program came after its end, and has nothing to do with it.

    If a signal has ended it, which a shell tells by a code above 128, it may have come from those
    who now cancel: a batch system sends one to each process of its job, one after the other.
    """
    if not isinstance(report, ProgramExit) or not report.by_itself:
        return False
    return 0 <= os.waitstatus_to_exitcode(report.status) <= 128


def _reap(pid: int) -> None:
    """Wait for the end of a child."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def launch(theirs: socket.socket, groups: str) -> int:
    """Start the fork server's process and return its pid."""
    if not sys.executable:
        raise RuntimeError("running external programs needs the Python interpreter's path")
    # dup2() onto itself would leave the close-on-exec flag set.
    fd = 4 if theirs.fileno() == 3 else 3
    script = Path(__file__).parent.parent / "guards" / "main.py"
    # posix_spawn rather than fork: the same for a process of any size, with any threads.
    return os.posix_spawn(
        sys.executable,
        [
            sys.executable,
            "-I",
            "-S",
            str(script),
            "fork_server",
            str(fd),
            *([groups] if groups else []),
        ],
        {name: value for name, value in os.environb.items() if name},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), fd),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGCHLD, signal.SIGINT),
    )
