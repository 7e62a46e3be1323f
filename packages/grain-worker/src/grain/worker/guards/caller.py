"""The caller as a subreaper sees it: requests, orders, death."""

from __future__ import annotations

import enum
import select
import socket

from .proc import Wakeup
from .protocol import HURRY, KILL, MEASURE, REST, RUN, RUN_LONGEST, receive, send_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Order(enum.Enum):
    """An order of the caller about the running program: after one to end it, `KILL` is the last."""

    RUN = "let it run"
    END = "end it within its grace"
    HURRY = "end it at once"
    KILL = "end it without any grace"


class Caller:
    """The other end of a subreaper's socket, and the process behind it.

    Args:
        pidfd: a descriptor that becomes readable when the caller dies, if there is one.

    Attributes:
        on_measure: takes a message about measuring, if anything here measures on request.
    """

    def __init__(self, fd: int, pidfd: int | None) -> None:
        self.order = Order.RUN
        self.on_measure: Callable[[bytes], object] | None = None
        self._socket = socket.socket(fileno=fd)
        self._wakeup = Wakeup()
        self._signs = [fd for fd in (self._socket.fileno(), pidfd) if fd is not None]
        self._poll = select.poll()
        for fd in (self._wakeup.fd, *self._signs):
            self._poll.register(fd, select.POLLIN)
        self._streams: dict[int, Callable[[], bool]] = {}

    def close(self) -> None:
        """Close our end, in a child that this process has forked; the caller sees nothing of it."""
        self._socket.close()
        self._wakeup.close()

    def report(self, report: tuple[Any, ...]) -> None:
        """Send a report; the next poll notices if the caller has died."""
        send_report(self._socket, report)

    def watch(self, fd: int, read: Callable[[], bool]) -> None:
        """Have `wait` read a stream of the program whenever there is something.

        Args:
            read: reads a piece, and returns False if it can read no more.
        """
        self._streams[fd] = read
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Read a stream no more, if it was watched."""
        if self._streams.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def wait(self, timeout: float | None) -> None:
        """Wait for the end of a child or for an order, for so many milliseconds at most.

        It returns early after it has read what the program has written to a watched stream.

        Everything that comes while a program runs is an order to end it: a message that is not
        about measuring, the end of file, or the caller's death. Only the first one counts, and
        `KILL` after it.
        """
        for fd, _ in self._poll.poll(timeout):
            if fd == self._wakeup.fd:
                # Before the tree is looked at (wait4): a child that ends after that look makes it
                # readable again, so the next poll returns at once.
                self._wakeup.clear()
                continue
            if (read := self._streams.get(fd)) is not None:
                if not read():
                    self.unwatch(fd)
                continue
            message = b""
            if fd == self._socket.fileno():
                message, _ = receive(self._socket)
            if self.on_measure is not None and message[:1] in (MEASURE, REST):
                self.on_measure(message)
                continue
            if message == KILL:
                self.order = Order.KILL
            elif self.order is Order.RUN:
                self.order = Order.HURRY if message == HURRY else Order.END
            if not message or message == KILL:
                # The state of these lasts: poll(2) would return at once from now on.
                for sign in self._signs:
                    self._poll.unregister(sign)
                return

    def next_request(self) -> tuple[bytes, list[int]] | None:
        """Wait for the next request, and return it with its descriptors.

        Returns:
            What follows `RUN`; None if the caller has left.
        """
        while self.order is Order.RUN:
            events = dict(self._poll.poll())
            if self._wakeup.fd in events:
                self._wakeup.clear()
            elif self._socket.fileno() not in events:
                return None  # the caller's process has died
            else:
                message, fds = receive(self._socket, RUN_LONGEST)
                return (message[1:], fds) if message[:1] == RUN else None
        return None
