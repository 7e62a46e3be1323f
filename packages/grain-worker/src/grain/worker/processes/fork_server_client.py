"""The caller's side of the processes that start and end external programs.

`grain.worker.guards` has the theory. A trio run has one `Shepherd`, started by the first
call and closed when the run ends; it keeps the idle keepers, which serve one call after another.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

LINGER = 5.0  # seconds that the end of a trio run may wait for the last helper process
_SHEPHERD: trio.lowlevel.RunVar[Shepherd] = trio.lowlevel.RunVar("grain.worker.shepherd")


class LostError(Exception):
    """A keeper was killed while it minded a program.

    The argument tells whether all processes of the program are gone.
    """


class StuckError(Exception):
    """Processes, whose pids are the argument, survive SIGKILL."""


@dataclass(frozen=True)
class Ended:
    """What a keeper reported, and what the program wrote where that was captured."""

    report: tuple[Any, ...]
    stdout: bytes
    stderr: bytes


class Keeper:
    """One keeper's socket, and the memory files for stdout and stderr that it shares with us.

    So a call that runs takes three descriptors of this process.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.request = b""
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setblocking(False)
        self.files: list[int] = []
        try:
            for name in ("stdout", "stderr"):
                self.files.append(os.memfd_create(name))
        except OSError:  # too many open files
            self.close()
            raise
        for fd in self.files:
            # Each write goes to the end, wherever the shared offset may be.
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)

    def ask(self, request: dict[str, Any], stdin: bytes | None) -> None:
        """Send a request; never blocks, as the message is small and the socket empty.

        Raises:
            ConnectionError: The keeper is dead.
        """
        self.request = marshal.dumps(request)
        os.write(self.files[0], self.request)
        if stdin is None:
            self.socket.send(b"r")
            return
        fd = memory_file(stdin)
        try:
            socket.send_fds(self.socket, [b"r"], [fd])
        finally:
            os.close(fd)

    def never_ran(self) -> bool:
        """Whether a keeper that died had not yet taken the request out of the file."""
        return os.pread(self.files[0], len(self.request), 0) == self.request

    def answer(self) -> tuple[Any, ...]:
        """The report that has arrived; an empty one if the keeper is gone instead."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        report: tuple[Any, ...] = marshal.loads(data) if data else ()  # noqa: S302 (our child)
        return report

    def collect(self) -> tuple[bytes, bytes]:
        """Take what was written to stdout and stderr, and empty both."""
        return take(self.files[0]), take(self.files[1])

    def close(self) -> None:
        """Tell the keeper to end what it minds and to leave; does not wait for it."""
        # shutdown() reaches the keeper also if a process forked from ours holds a copy.
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.theirs.close()
        for fd in self.files:
            os.close(fd)
        self.files.clear()


class Shepherd:
    """The fork server of one trio run.

    Get it by `of_this_run`. A system task closes it, and waits until its process is gone, when
    the run's main task has ended.
    """

    def __init__(self) -> None:
        self.idle: list[Keeper] = []
        self.numbers = 0
        # Enough for a full machine; what more there are leave when they become idle.
        self.spare = os.cpu_count() or 1
        self.speaking = trio.Lock()  # only one task at a time may wait for a full socket
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setblocking(False)
        with theirs:
            self.pid = launch(theirs)

    @classmethod
    def of_this_run(cls) -> Shepherd:
        """The shepherd of the current trio run, started if there is none."""
        with suppress(LookupError):
            shepherd = _SHEPHERD.get()
            if shepherd.pid:
                return shepherd
        shepherd = cls()
        _SHEPHERD.set(shepherd)
        trio.lowlevel.spawn_system_task(shepherd.close_with_the_run)
        return shepherd

    async def close_with_the_run(self) -> None:
        """Wait for the end of the trio run, then for the end of the shepherd."""
        try:
            await trio.sleep_forever()
        finally:
            while self.idle:
                self.idle.pop().close()
            if self.pid:
                with suppress(OSError):
                    self.control.shutdown(socket.SHUT_WR)
                # For ever only as long as processes survive SIGKILL, which was reported then.
                with trio.move_on_after(LINGER, shield=True) as patience:
                    await trio.lowlevel.wait_readable(self.control)
                self.forget(reap=not patience.cancelled_caught)

    def forget(self, *, reap: bool = True) -> None:
        """Note that the shepherd is dead; the next call starts another."""
        if self.pid:
            self.control.close()
            if reap:  # its socket is closed by its exit, so this hardly blocks
                with suppress(ChildProcessError):
                    os.waitpid(self.pid, 0)
            self.pid = 0

    async def keeper(self) -> Keeper:
        """An idle keeper, or a new one."""
        if self.idle:
            return self.idle.pop()
        self.numbers += 1
        keeper = Keeper(self.numbers)
        try:
            await self.tell(b"k%d" % keeper.number, [keeper.theirs.fileno(), *keeper.files])
        except BaseException:
            keeper.close()
            raise
        keeper.theirs.close()
        return keeper

    async def tell(self, message: bytes, fds: list[int]) -> None:
        """Send the shepherd a message; BrokenPipeError if it is dead."""
        async with self.speaking:
            while self.pid:
                try:
                    socket.send_fds(self.control, [message], fds)
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self.control)
                except ConnectionError:
                    self.forget()
                else:
                    return
        raise BrokenPipeError("the process that starts programs was killed")

    def release(self, keeper: Keeper) -> None:
        """Keep a keeper for the next call, if it is one of few."""
        if len(self.idle) < self.spare:
            self.idle.append(keeper)
        else:
            keeper.close()

    async def sweep(self, keeper: Keeper) -> bool:
        """Wait until nothing is left of what a keeper that was killed has minded.

        False if the shepherd, which sees to that, was killed as well.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.setblocking(False)
            with theirs:
                try:
                    await self.tell(b"s%d" % keeper.number, [theirs.fileno()])
                except BrokenPipeError:
                    return False
            await trio.lowlevel.wait_readable(ours)
            return True

    async def run(
        self,
        request: dict[str, Any],
        stdin: bytes | None,
        cut_short: Callable[[Ended], object] = lambda _: None,
    ) -> Ended:
        """Run a program until nothing of it is left.

        Args:
            request: what the keeper is to do.
            stdin: what the program reads, if that is not a file.
            cut_short: told how it ended where that is not returned, on cancellation.

        Raises:
            BrokenPipeError: The shepherd was killed before the program was started; calling
                again, on a new one, is safe.
            LostError: The keeper was killed afterwards.
            StuckError: Some processes cannot be ended.

        Cancellation, as Ctrl-C, ends the whole tree of processes before it is passed on.
        """
        keeper = await self.keeper_for(request, stdin)
        reusable = False
        try:
            try:
                await trio.lowlevel.wait_readable(keeper.socket)
            except BaseException as error:
                # Not only Cancelled: trio delivers Ctrl-C here as KeyboardInterrupt, to this task
                # alone, and cancels the others when it has left; so their grace adds to ours.
                with suppress(ConnectionError):
                    keeper.socket.send(b"i" if isinstance(error, KeyboardInterrupt) else b"c")
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.wait_readable(keeper.socket)
                with suppress(LostError, BrokenPipeError):  # gone as well
                    report = await self.report(keeper)
                    cut_short(Ended(report, *keeper.collect()))
                raise
            report = await self.report(keeper)
            stdout, stderr = keeper.collect()
            reusable = True
            return Ended(report, stdout, stderr)
        finally:
            if reusable:
                self.release(keeper)
            else:
                keeper.close()

    async def keeper_for(self, request: dict[str, Any], stdin: bytes | None) -> Keeper:
        """A keeper that has been asked to run a program."""
        while True:
            fresh = not self.idle
            keeper = await self.keeper()
            try:
                keeper.ask(request, stdin)
            except BaseException as error:
                keeper.close()
                if fresh or not isinstance(error, ConnectionError):
                    raise
            else:
                return keeper

    async def report(self, keeper: Keeper) -> tuple[Any, ...]:
        """A keeper's report, or the reason why there is none."""
        report = keeper.answer()
        if not report:
            if keeper.never_ran():
                raise BrokenPipeError("the process that starts programs was killed")
            with trio.CancelScope(shield=True):
                raise LostError(await self.sweep(keeper))
        if report[0] == "stuck":
            raise StuckError(report[1])
        return report


def launch(theirs: socket.socket) -> int:
    """Start the shepherd's process and return its pid."""
    if not sys.executable:
        raise RuntimeError("running external programs needs the Python interpreter's path")
    # dup2() onto itself would leave the close-on-exec flag set.
    fd = 4 if theirs.fileno() == 3 else 3
    script = Path(__file__).parent.parent / "guards" / "main.py"
    # posix_spawn rather than fork: the same for a process of any size, with any threads.
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", str(script), str(fd)],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), fd),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGCHLD, signal.SIGINT),
    )


def memory_file(data: bytes) -> int:
    """A memory file with this content, to be read from its start."""
    fd = os.memfd_create("stdin")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def take(fd: int) -> bytes:
    """Read a memory file and empty it."""
    size = os.fstat(fd).st_size
    if size == 0:
        return b""
    # One read() ends at 2 GiB (read(2)).
    parts = []
    offset = 0
    while part := os.pread(fd, size - offset, offset):
        parts.append(part)
        offset += len(part)
    os.ftruncate(fd, 0)
    return parts[0] if len(parts) == 1 else b"".join(parts)
