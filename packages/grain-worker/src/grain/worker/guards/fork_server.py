"""The shepherd: forks keepers, and ends what a killed keeper leaves behind."""

from __future__ import annotations

import os
import select
import signal
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grain.worker.guards.proc import (
        PR_SET_CHILD_SUBREAPER,
        PR_SET_NAME,
        Wakeup,
        children,
        prctl,
        receive,
        send_signal,
    )
    from grain.worker.guards.supervisor import Keeper
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
    from supervisor import Keeper


class Shepherd:
    """Forks keepers, and kills what a keeper that was killed has left."""

    def __init__(self, fd: int) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NAME, b"grain-shepherd")
        self.control = socket.socket(fileno=fd)
        self.wakeup = Wakeup()
        try:
            self.caller: int | None = os.pidfd_open(os.getppid())
        except (AttributeError, OSError):
            self.caller = None  # before Linux 5.3 the socket alone has to tell
        self.keepers: dict[int, int] = {}  # a keeper's pid: the number the caller gave it
        self.watches: list[tuple[int, int]] = []
        self.orphans = False  # there may be some

    def serve(self) -> None:
        """Work until the caller is gone and so are all keepers."""
        poll = select.poll()
        for fd in (self.control.fileno(), self.wakeup.fd, self.caller):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        closing = False
        while self.tend() or not closing:
            for fd, _ in poll.poll(50 if self.orphans else None):
                if fd == self.wakeup.fd:
                    self.wakeup.clear()
                    continue
                message, fds = b"", list[int]()
                if fd == self.control.fileno():
                    message, fds = receive(self.control)
                if message[:1] == b"k":
                    self.fork(int(message[1:]), fds)
                elif message[:1] == b"s":
                    self.watches.append((int(message[1:]), fds[0]))
                else:
                    for unneeded in (self.control.fileno(), self.caller):
                        if unneeded is not None:
                            poll.unregister(unneeded)
                    # Closed by our exit only: by that the caller knows that we are gone.
                    closing = True
                    break

    def fork(self, number: int, fds: list[int]) -> None:
        """Fork a keeper; the child does not return."""
        try:
            pid = os.fork()
        except OSError:
            pid = -1  # too many processes; the caller will see its socket closed
        if pid:
            if pid > 0:
                self.keepers[pid] = number
            for fd in fds:
                os.close(fd)
            return
        self.control.close()
        self.wakeup.close()
        for _, fd in self.watches:
            os.close(fd)
        Keeper(fds, self.caller).serve()
        os._exit(0)

    def tend(self) -> bool:
        """Reap, kill orphans, answer those who wait for it; say whether children are left."""
        alive = True
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self.keepers.pop(ended[0], None)
                # A keeper that ends by itself leaves nothing.
                self.orphans = self.orphans or ended[1] != 0
        except ChildProcessError:
            alive = False
        if self.orphans:
            orphans = [pid for pid in children(os.getpid()) if pid not in self.keepers]
            self.orphans = bool(send_signal(orphans, signal.SIGKILL))
        for watch in list(self.watches):
            if watch[0] not in self.keepers.values() and not self.orphans:
                os.close(watch[1])
                self.watches.remove(watch)
        return alive
