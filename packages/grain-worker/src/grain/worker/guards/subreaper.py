"""A subreaper: ``python -I -S main.py subreaper CONTROL SOCKET GRACE PROGRAM [ARGUMENT ...]``.

It starts the program with the socket SOCKET as its descriptor 3. It ends what is left of everything
that the program started when the program has ended, when a message or the end of file comes on the
socket CONTROL, and when the calling process dies. When nothing is left, it reports on CONTROL how
the program ended, and leaves.

The subreaper of a worker's first runner is forked from the agent instead, and calls `attend`
(`grain.worker.agent.first_runner`).
"""

from __future__ import annotations

import math
import os
import time

from .caller import Caller
from .meter import FIRST, Budgets, Meter
from .proc import become_subreaper, pidfd_of_parent
from .protocol import ENDED, MEASURE, MEASURED, MOST
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
    meter = CallMeter(caller)
    status, seconds, _, usage = wait_until_gone(caller, pid, began, grace, meter)
    caller.report((ENDED, status, seconds, *usage[:3], *meter.figures))


class CallMeter(Meter):
    """The meter of one call after another in a process that outlives them: on request."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(Budgets())
        self._caller = caller
        self.due = math.inf
        caller.on_measure = self._take

    def _take(self, message: bytes) -> None:
        now = time.monotonic()
        if message[:1] == MEASURE:
            (most,) = MOST.unpack_from(message, 1)
            # The call has lasted for `FIRST` seconds, so that the first look is due.
            self.begin(now - FIRST, None if most == math.inf else most)
            return
        # What was over its amount in two looks is ended all the same, as the caller now expects.
        self._caller.report((MEASURED, *self.figures))
        self.due = math.inf
        if not self.exceeded:
            self._over = 0
