"""`standing_by`: what an attempt needs only if it lasts, or has steps, begins only then.

Most attempts of an array are brief. Tasks of their own for a listener, and for looks at wishes,
would take a quarter of the time that such an attempt costs its process. One task of the trio run
waits in place of all.
"""

from __future__ import annotations

import math
import select
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator


@dataclass(eq=False)
class _Waiting:
    """An attempt; arguments as of `standing_by`.

    Attributes:
        context: in which its functions are called.
    """

    connected: Callable[[], object]
    lasts: Callable[[], object]
    at: float
    context: Context = field(default_factory=copy_context)


class _Standby:
    """The attempts of a trio run that stand by."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._listening: dict[int, _Waiting] = {}  # without any connection so far, by descriptor
        self._brief: dict[_Waiting, None] = {}  # that do not last so far
        self._until = trio.CancelScope()

    def add(self, fd: int, one: _Waiting) -> None:
        self._poll.register(fd, select.EPOLLIN)
        self._listening[fd] = one
        self._brief[one] = None
        self._until.deadline = min(self._until.deadline, one.at)

    def remove(self, fd: int, one: _Waiting) -> None:
        # After its first connection the descriptor may be another one's by now.
        if self._listening.get(fd) is one:
            self._poll.unregister(fd)
            del self._listening[fd]
        self._brief.pop(one, None)

    async def tend(self) -> None:
        with self._poll:
            while True:
                at = min((one.at for one in self._brief), default=math.inf)
                with trio.CancelScope(deadline=at) as self._until:
                    await trio.lowlevel.wait_readable(self._poll)
                for fd, _ in self._poll.poll(0):
                    self._poll.unregister(fd)
                    one = self._listening.pop(fd)
                    one.context.run(one.connected)
                now = trio.current_time()
                for one in [one for one in self._brief if one.at <= now]:
                    del self._brief[one]
                    one.context.run(one.lasts)


_OF_THIS_RUN: trio.lowlevel.RunVar[_Standby] = trio.lowlevel.RunVar("attempts that stand by")


@contextmanager
def standing_by(
    listening: socket.socket,
    connected: Callable[[], object],
    lasts: Callable[[], object],
    at: float,
) -> Iterator[None]:
    """For the block, call functions when what they are for has come; they may raise nothing.

    Args:
        listening: a socket, which stays open until its first connection, or the end of the block.
        connected: called when there is a first connection to it.
        lasts: called if the block lasts until then.
        at: by trio's clock.
    """
    try:
        standby = _OF_THIS_RUN.get()
    except LookupError:
        standby = _Standby()
        _OF_THIS_RUN.set(standby)
        trio.lowlevel.spawn_system_task(standby.tend)
    fd = listening.fileno()
    one = _Waiting(connected, lasts, at)
    standby.add(fd, one)
    try:
        yield
    finally:
        standby.remove(fd, one)
