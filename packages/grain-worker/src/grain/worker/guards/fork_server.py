"""The fork server: ``python -I -S main.py fork_server FD [GROUPS]``, FD being a connected socket.

GROUPS is a directory for the control groups of supervisors.
"""

# ruff: noqa: PTH123
# (no pathlib here; see the package)

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time

from .group import path_of_group, remove_empty, removed
from .meter import Budgets
from .proc import Wakeup, become_subreaper, pidfd_of_parent, signal_below
from .protocol import AWAIT, FORK, GONE, STUCK, UNKILLABLE, receive, send_report
from .supervisor import Supervisor


class ForkServer:
    """The fork server: it forks supervisors, and kills what is left below a killed one.

    Args:
        groups: a directory for the control groups of supervisors; empty for none.
    """

    def __init__(self, fd: int, groups: str = "") -> None:
        become_subreaper(b"grain-forkserv")
        self.control = socket.socket(fileno=fd)
        self.wakeup = Wakeup()
        self.pidfd = pidfd_of_parent()
        self.supervisors: dict[int, int] = {}  # pid: the number that the caller gave it
        self.awaited: list[Awaited] = []
        self.may_have_orphans = False
        self.budgets = Budgets()
        self.groups = groups
        self.old_groups: list[str] = []  # of supervisors that have ended
        if groups:
            remove_empty(groups)

    def serve(self) -> None:
        """Serve until the caller has left and all supervisors are gone."""
        poll = select.poll()
        for fd in (self.control.fileno(), self.wakeup.fd, self.pidfd):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        caller_left = False
        while self.reap() or not caller_left:
            # Orphans are killed again and again, since one may have forked meanwhile.
            for fd, _ in poll.poll(50 if self.may_have_orphans else None):
                if fd == self.wakeup.fd:
                    self.wakeup.clear()
                    continue
                message, fds = b"", list[int]()
                if fd == self.control.fileno():
                    message, fds = receive(self.control)
                if message[:1] == FORK:
                    self.fork(int(message[1:]), fds)
                elif message[:1] == AWAIT:
                    self.awaited.append(Awaited(int(message[1:]), fds[0]))
                else:
                    for unneeded in (self.control.fileno(), self.pidfd):
                        if unneeded is not None:
                            poll.unregister(unneeded)
                    # Only our exit closes the socket, by which the caller notices it.
                    caller_left = True
                    break
        self.remove_groups(patience=0.5)

    def fork(self, number: int, fds: list[int]) -> None:
        """Fork a supervisor; in the child this does not return."""
        try:
            pid = os.fork()
        except OSError:
            pid = -1  # too many processes; the caller will find its socket closed
        if pid:
            if pid > 0:
                self.supervisors[pid] = number
            for fd in fds:
                os.close(fd)
            return
        # By the end of file of these sockets the caller learns that the fork server was killed; a
        # copy in a supervisor would keep them open.
        self.control.close()
        self.wakeup.close()
        for awaited in self.awaited:
            awaited.socket.close()
        Supervisor(fds, self.pidfd, self.budgets, self.groups).serve()
        os._exit(0)

    def reap(self) -> bool:
        """Reap children, kill orphans, close what was awaited; return False if no child is left."""
        has_children = True
        try:
            while (changed := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
                pid, status = changed
                if os.WIFSTOPPED(status):
                    # By its program, mostly, which is its child. No other process would continue
                    # it.
                    os.kill(pid, signal.SIGCONT)
                    continue
                if self.supervisors.pop(pid, None) is not None and self.groups:
                    self.old_groups.append(path_of_group(self.groups, pid))
                # A supervisor that ends by itself leaves nothing behind.
                self.may_have_orphans = self.may_have_orphans or status != 0
        except ChildProcessError:
            has_children = False
        orphans: list[int] | None = []
        if self.may_have_orphans:
            orphans = signal_below(signal.SIGKILL, but=self.supervisors)
            self.may_have_orphans = orphans is None or bool(orphans)
        self.remove_groups()
        for awaited in list(self.awaited):
            if awaited.number in self.supervisors.values():
                continue
            if not self.may_have_orphans:
                send_report(awaited.socket, (GONE,))
            elif not awaited.report_stuck(orphans or []):
                continue
            awaited.socket.close()
            self.awaited.remove(awaited)
        return has_children

    def remove_groups(self, patience: float = 0.0) -> None:
        """Remove the control groups of supervisors that have ended, as far as they are empty.

        Args:
            patience: seconds to try again. A process that was waited for may be in its group for a
                moment longer.
        """
        until = time.monotonic() + patience
        while self.old_groups:
            self.old_groups = [path for path in self.old_groups if not removed(path)]
            if time.monotonic() >= until:
                return
            time.sleep(0.01)


class Awaited:
    """A supervisor whose end, with the end of everything below it, the caller awaits."""

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.socket = socket.socket(fileno=fd)
        self.patient_until = time.monotonic() + UNKILLABLE

    def report_stuck(self, orphans: list[int]) -> bool:
        """Report the processes that survive SIGKILL, if it is time to; return True if so."""
        if time.monotonic() < self.patient_until:
            return False
        send_report(self.socket, (STUCK, orphans))
        return True


def main(socket_fd: str, groups: str = "") -> None:
    """Run the fork server, with the words of the command line."""
    fd = int(socket_fd)
    for name in os.listdir("/proc/self/fd"):
        # The caller may itself have inherited descriptors that are not marked close-on-exec.
        if int(name) > 2 and int(name) != fd:
            os.closerange(int(name), int(name) + 1)  # silent about the listing's own
    os.set_inheritable(fd, False)
    try:
        # For errors of our own: supervisors have what programs write as descriptor 2.
        sys.stderr = open(os.dup(2), "w")  # noqa: SIM115
    except OSError:
        os.dup2(1, 2)  # the caller has none; no other file may get that number
    os.chdir("/")  # hold no directory that others may want to unmount
    server = ForkServer(fd, groups)
    gc.collect()
    gc.freeze()  # a collection would write to, and so copy, every page of every supervisor
    server.serve()
