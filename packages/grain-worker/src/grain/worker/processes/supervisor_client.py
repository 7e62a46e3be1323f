"""The caller's side of one supervisor; `grain.worker.guards.protocol` has the messages."""

from __future__ import annotations

import fcntl
import marshal
import os
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from grain.worker.guards.proc import send_signal
from grain.worker.guards.protocol import (
    END,
    ENDED,
    FAILED,
    HURRY,
    KILL,
    RUN,
    RUN_LONGEST,
    STARTED,
)

if TYPE_CHECKING:
    from grain.eventlog.usage import CpuMeasuredBy, MeasuredBy
    from grain.worker.guards.protocol import ProgramRequest

_REPORT = 65536  # bytes of a report at most, 32 kB of them a program's output


class ProgramExit(NamedTuple):
    """The end of a program that has left nothing behind: its status, times and memory.

    Attributes:
        status: the wait status of its main process.
        elapsed: seconds from its start to the end of its main process.
        by_itself: True if its main process ended before it was told to.
        user: seconds of CPU time in user mode, of all its processes.
        system: the same in the kernel.
        max_rss: the largest resident set of one of its processes, in KiB.
        peak_memory: the largest memory at one time of all its processes, in bytes.
        measured_by: how that was measured, a `grain.eventlog.usage.MeasuredBy`.
        cpu_measured_by: how the CPU time was, a `grain.eventlog.usage.CpuMeasuredBy`.
        read: bytes read from files and devices.
        written: bytes written to them.
        oom_kills: the number of processes of its control group that the kernel has killed
            meanwhile, as memory ran out.
        own_group: True if no other program is in that group.
        tail: the last bytes of stderr where that went to a file, if the program failed.
        stdout_tail: the same of stdout, where that is apart from stderr.
        exceeded: True if it was ended as it had more memory than it may have.
        out_file: path and bytes of a captured stdout that was too large for memory; else None.
        err_file: the same of stderr.
        lost: the number of the error for which a captured output is lost; 0 if none is.
    """

    status: int
    elapsed: float
    by_itself: bool
    user: float
    system: float
    max_rss: int
    peak_memory: float
    measured_by: MeasuredBy
    cpu_measured_by: CpuMeasuredBy
    read: float
    written: float
    oom_kills: int
    own_group: bool
    tail: bytes
    stdout_tail: bytes
    exceeded: bool
    out_file: tuple[bytes, int] | None
    err_file: tuple[bytes, int] | None
    lost: int


class StartFailure(NamedTuple):
    """The reason why a program could not be started."""

    step: str
    errno: int
    path: bytes


class StuckError(Exception):
    """Some processes of a program survive SIGKILL."""

    def __init__(self, pids: list[int]) -> None:
        super().__init__(pids)
        self.pids = pids


class SupervisorClient:
    """The caller's end of a supervisor: its socket, and the files for a program's output.

    Both sides share the files, which are memory files. So a call takes three descriptors of this
    process.

    Raises:
        OSError: there are too many open files.

    Attributes:
        number: the number by which the fork server knows the supervisor.
        pid: its process; None until it is known.
        theirs: the supervisor's end of the socket, to be closed when the supervisor has a copy.
        ending: True if it was ordered to end its program.
        never_ran: True if it has died and left its request unread.
        cpus: those of its last program; None for all.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.ending = self.never_ran = False
        self.pid: int | None = None
        self.cpus: list[int] | None = None
        self._report: tuple[Any, ...] | None = None
        self._env: dict[bytes, bytes] | None = None  # of the last request
        self._socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._files: list[int] = []
        try:
            for name in ("stdout", "stderr"):
                self._files.append(os.memfd_create(name))
        except OSError:
            self.close()
            raise
        for fd in self._files:
            # Each write goes to the end, wherever the shared offset may be.
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)

    @property
    def inherited(self) -> list[int]:
        """The descriptors that the supervisor starts with: its socket, stdout and stderr."""
        return [self.theirs.fileno(), *self._files]

    def ask(self, request: ProgramRequest, stdin: bytes | None) -> None:
        """Send a request; never blocks, as the message is small and the socket empty.

        Raises:
            ConnectionError: the supervisor is dead.
        """
        same = request["env"] == self._env
        self._env = request["env"]
        self.cpus = request["cpus"]
        fields = {**request, "env": {}} if same else dict(request)
        message = RUN + marshal.dumps((same, fields))
        self._report = None
        if stdin is None and len(message) <= RUN_LONGEST:
            self._socket.send(message)
            return
        fds: list[int] = []
        try:
            if len(message) > RUN_LONGEST:
                fds.append(memory_file("request", message[1:]))
                message = RUN
            if stdin is not None:
                fds.append(memory_file("stdin", stdin))
            socket.send_fds(self._socket, [message], fds)
        finally:
            for fd in fds:
                os.close(fd)

    def cancel(self, *, hurry: bool) -> None:
        """Order the end of the program: SIGTERM now, SIGKILL after its grace, or after 0.3 s."""
        self.ending = True
        with suppress(ConnectionError):  # it is dead, which the next wait notices
            self._socket.send(HURRY if hurry else END)

    def cancel_now(self) -> None:
        """Order the end of the program without any grace, also if it was ordered before."""
        with suppress(OSError):
            self._socket.send(KILL)

    async def wait(self) -> None:
        """Wait until the supervisor has reported the end of a program, or has died."""
        while self._report is None:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(_REPORT)
            except ConnectionError:
                # So the kernel reports that it left something unread. After an order to end the
                # program, that may be the order.
                self.never_ran = not self.ending
                return
            if not data:
                return
            report = marshal.loads(data)  # noqa: S302 (our child)
            if report[0] == STARTED:
                self.pid = report[1]
            else:
                self._report = report

    def resume(self) -> None:
        """Continue the supervisor, if its program has stopped it."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the supervisor and all below it. It has not died yet, so the pid is its own."""
        if self.pid is not None:
            send_signal([self.pid], signal.SIGKILL)

    def report(self) -> ProgramExit | StartFailure | None:
        """Return the report that `wait` has received; None if the supervisor has died instead.

        Raises:
            StuckError: it reports processes that survive SIGKILL.
        """
        if self._report is None:
            return None
        kind, *fields = self._report
        if kind == ENDED:
            return ProgramExit(*fields)
        if kind == FAILED:
            return StartFailure(*fields)
        raise StuckError(*fields)

    def take_output(self) -> tuple[bytes, bytes]:
        """Return what was written to stdout and to stderr, and empty both files."""
        return take(self._files[0]), take(self._files[1])

    def close(self) -> None:
        """Have the supervisor end its program and leave; does not wait for it."""
        # shutdown() reaches the supervisor also if a process forked from ours holds a copy.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.theirs.close()
        for fd in self._files:
            os.close(fd)
        self._files.clear()


def memory_file(name: str, data: bytes) -> int:
    """Return the descriptor of a memory file with this content, to be read from its start."""
    fd = os.memfd_create(name)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def take(fd: int) -> bytes:
    """Return the content of a memory file, and empty it."""
    if not os.fstat(fd).st_size:
        return b""
    with open(fd, "rb", buffering=0, closefd=False) as file:
        file.seek(0)
        data = file.readall()
    os.ftruncate(fd, 0)
    return data
