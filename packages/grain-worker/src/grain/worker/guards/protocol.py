"""The messages between the caller and its guards, over sockets that keep messages apart.

All sockets are SOCK_SEQPACKET. Both ends are the same interpreter on one machine, parent and
child, so that marshal is safe.

To a supervisor: `RUN`, and marshalled behind it a pair of a flag and the request. If the flag is
true, the environment is the one of the request before, and this one's is empty. A pair of more
than `RUN_LONGEST` bytes is in a file instead, whose descriptor comes along. The next descriptor, if
there is one, is that of stdin. A request that the supervisor leaves unread never ran: then the
kernel resets the connection. `END` and `HURRY` end the program, and `KILL` does without any grace,
also after one of these. The supervisor reports by one marshalled tuple, which begins with its kind:

- `ENDED`, wait status, seconds, whether the program ended before it was told to, user and system
  seconds, max RSS in KiB, peak memory in bytes, how that was measured, how the CPU time was, bytes
  read and written, processes that the kernel has killed in its control group for want of memory,
  whether that group is its own, last bytes of stderr and of stdout, whether it was ended as it had
  more memory than it may have, file and size of stdout and of stderr if it is in `overflow`, the
  errno for which an output is lost
- `FAILED`, the step of the start that failed, its errno, the path concerned: there is no process
- `STUCK`, pids: these processes survive SIGKILL. The supervisor still waits for them.

Its first report, before any program, is `STARTED` with its pid.

To a subreaper: `END`, `HURRY` and `KILL`. It reports as a supervisor does, up to max RSS, and not
whether the process was told to end; then the peak memory in bytes of what it measured last, and
whether it ended the process as it had more memory than it may have. `MEASURE`, with the KiB that
the process may have behind it (inf for as many as it gets), begins to measure its memory, with all
processes below it. `REST` ends that, and is answered by `MEASURED` with the same two figures.

To the fork server, each with a supervisor's number: `FORK`, with the descriptors of its socket and
of its files for stdout and stderr; `AWAIT`, with a socket for the report `GONE` as soon as that
supervisor and everything below it are gone, or `STUCK`. The end of file there says nothing: the
fork server was killed.
"""

from __future__ import annotations

import marshal
import socket
import struct

RUN, END, HURRY, KILL = b"r", b"e", b"h", b"k"
MEASURE, REST = b"m", b"s"
MOST = struct.Struct("=d")
FORK, AWAIT = b"f", b"a"

STARTED, ENDED, FAILED, STUCK, GONE = "started", "ended", "failed", "stuck", "gone"
MEASURED = "measured"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    class ProgramRequest(TypedDict):
        """A call: the program to run, and how.

        Attributes:
            env: its whole environment.
            cwd: its working directory, absolute; None for the scratch directory.
            cpus: the CPUs to bind it to; None for those of the caller.
            stdin: the path of a file to read; None for the descriptor that comes along, or for
                nothing to read.
            stdout: the path of a file to write; None to capture.
            stderr: the same.
            merged: stderr goes to the same place as stdout.
            overflow: the directory for captured streams of more than `program.IN_MEMORY` bytes,
                absolute; it is made if it is missing. None to capture them in memory.
            grace: seconds between SIGTERM and SIGKILL.
            append: True for each of these files to append to it; otherwise it is emptied first.
            scratch: the directory to make a scratch directory in; None for no scratch directory.
            warned: True to have SIGUSR1 and SIGUSR2 at their defaults, instead of ignored.
            most: the KiB of memory that it may have, before it is ended; None for no limit.
            shell: of a job, the umask and the soft limits (by the numbers of `resource`, -1 for
                none) of the shell from which it was submitted; None for those of the guards. The
                directories of its outputs are made, and sh runs a file without a #! line.
            name: the name of the link by which to call it, as its user knows the script; None for
                none.
        """

        argv: list[bytes]
        env: dict[bytes, bytes]
        cwd: bytes | None
        cpus: list[int] | None
        stdin: bytes | None
        stdout: bytes | None
        stderr: bytes | None
        merged: bool
        overflow: bytes | None
        append: tuple[bool, bool]
        grace: float
        scratch: bytes | None
        warned: bool
        most: float | None
        shell: tuple[int, dict[int, int]] | None
        name: bytes | None


UNKILLABLE = 30.0
"""Seconds from the first SIGKILL until its survivors are reported."""

LONGEST = 64
"""Bytes of a message to a guard, at most; but for `RUN`."""

RUN_LONGEST = 32768
"""Bytes of a `RUN` with its request, at most: so much fits into every empty socket."""


def send_report(sock: socket.socket, report: tuple[Any, ...]) -> None:
    """Send a report to the caller, which may have died: that shows elsewhere."""
    try:
        sock.send(marshal.dumps(report))
    except OSError:
        pass


def receive(sock: socket.socket, longest: int = LONGEST) -> tuple[bytes, list[int]]:
    """Receive one message and its descriptors; an empty message means that the peer is gone."""
    try:
        data, control, _, _ = sock.recvmsg(longest, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return b"", []
    fds: list[int] = []
    for level, kind, payload in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += struct.unpack(f"={len(payload) // 4}i", payload[: len(payload) // 4 * 4])
    return data, fds
