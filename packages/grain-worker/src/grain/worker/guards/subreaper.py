"""A subreaper: ``python -I -S main.py subreaper CONTROL SOCKET GRACE PROGRAM [ARGUMENT ...]``.

It starts the program with the socket SOCKET as its descriptor 3. It ends what is left of everything
that the program started when the program has ended, when a message or the end of file comes on the
socket CONTROL, and when the calling process dies. When nothing is left, it reports on CONTROL how
the program ended, and leaves.

The subreaper of a worker's first runner is forked from the agent instead, and calls `attend`
(`grain.worker.agent.first_runner`).
"""

from __future__ import annotations

import os
import time

from .caller import Caller
from .proc import become_subreaper, pidfd_of_parent
from .protocol import ENDED
from .tree import wait_until_gone

CHILD_SOCKET = 3

NAME = b"grain-subreaper"


def main(control_fd: str, socket_fd: str, grace_s: str, *program: str) -> None:
    """Run the subreaper, with the words of the command line."""
    control, sock, grace = int(control_fd), int(socket_fd), float(grace_s)
    for fd in (control, sock):
        os.set_inheritable(fd, False)
    become_subreaper(NAME)
    caller = Caller(control, pidfd_of_parent())
    began = time.monotonic()
    # A copy: dup2() onto itself would leave the close-on-exec flag set.
    copy = os.dup(sock)
    pid = os.posix_spawn(
        program[0],
        program,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, copy, CHILD_SOCKET)],
        setsigmask=(),
    )
    os.close(copy)
    # So that its end of file is that of the program, by which the agent learns of the death.
    os.close(sock)
    attend(caller, pid, began, grace)


def attend(caller: Caller, pid: int, began: float, grace: float) -> None:
    """Wait until nothing is left of a program, end what has to be ended, and report.

    Args:
        pid: the program, a child of this process.
        began: when it began, by the monotonic clock.
        grace: seconds between SIGTERM and SIGKILL for what it leaves behind.
    """
    status, seconds, _, usage = wait_until_gone(caller, pid, began, grace)
    caller.report((ENDED, status, seconds, *usage[:3]))
