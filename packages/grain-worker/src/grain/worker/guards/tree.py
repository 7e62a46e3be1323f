"""Minding a program: waiting for the end of all that it started, or bringing that about."""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from grain.worker.guards.proc import (
        PR_SET_CHILD_SUBREAPER,
        PR_SET_NAME,
        Wakeup,
        children,
        prctl,
        receive,
        send_signal,
    )
else:
    from proc import (
        PR_SET_CHILD_SUBREAPER,
        PR_SET_NAME,
        Wakeup,
        children,
        prctl,
        receive,
        send_signal,
    )

INFINITE = float("inf")
HURRY = 0.3  # seconds of grace after Ctrl-C, when other programs may have to be ended after this
UNKILLABLE = 30.0  # seconds from the first KILL until what survives it is reported


class Minder:
    """A subreaper, which reports over a socket to its caller.

    Args:
        name: of this process, as ``ps -A`` shows it.
        fd: the socket.
        caller: the pidfd of the caller, if there are any.
    """

    def __init__(self, name: bytes, fd: int, caller: int | None) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NAME, name)
        self.socket = socket.socket(fileno=fd)
        self.wakeup = Wakeup()
        self.cancelled = self.hurried = False
        self.callers = [fd for fd in (self.socket.fileno(), caller) if fd is not None]
        self.poll = select.poll()
        for fd in (self.wakeup.fd, *self.callers):
            self.poll.register(fd, select.POLLIN)

    def answer(self, report: tuple[Any, ...]) -> None:
        try:
            self.socket.send(marshal.dumps(report))
        except OSError:
            pass  # nobody is left to know; the next poll says so

    def mind(self, main: int, began: float, grace: float) -> tuple[int, float, list[float]]:
        """Wait until nothing of a program is left; end what outlives it, or all on request."""
        status, seconds, usage = -1, 0.0, [0.0, 0.0, 0.0]
        kill_at = report_at = INFINITE
        pause = 0.01
        while True:
            # ECHILD, and only that, says that the tree is gone.
            try:
                pid, ended, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return status, seconds, usage
            if pid:
                usage[0] += used.ru_utime
                usage[1] += used.ru_stime
                usage[2] = max(usage[2], used.ru_maxrss)
                if pid == main:
                    status, seconds = ended, time.monotonic() - began
                continue
            now = time.monotonic()
            timeout = None
            if status != -1 or self.cancelled:
                if kill_at == INFINITE:
                    # A stopped process acts on TERM only when it continues.
                    send_signal(children(os.getpid()), signal.SIGTERM, signal.SIGCONT)
                    kill_at = now + (min(grace, HURRY) if self.hurried else grace)
                    report_at = kill_at + UNKILLABLE
                if now >= kill_at:
                    # Again and again: a process may have been born behind the walk's back.
                    left = send_signal(children(os.getpid()), signal.SIGKILL)
                    pause = min(2 * pause, 1.0)
                    if now >= report_at:
                        self.answer(("stuck", left))
                        report_at = INFINITE
                timeout = 1000 * max(kill_at - now, pause)
            self.wait(timeout)

    def wait(self, timeout: float | None) -> None:
        """Wait for a child's end or the caller's word, for some milliseconds at most."""
        for fd, _ in self.poll.poll(timeout):
            if fd == self.wakeup.fd:
                self.wakeup.clear()
            elif not self.cancelled:
                self.cancelled = True
                self.hurried = fd == self.socket.fileno() and receive(self.socket)[0] == b"i"
                for unneeded in self.callers:
                    self.poll.unregister(unneeded)
