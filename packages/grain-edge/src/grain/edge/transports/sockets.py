"""Reads from a socket, and writes to it, with one pass through trio's scheduler or none.

`trio.SocketStream.receive_some` tries first and waits then; a channel that answers always has to
wait, so the first attempt is wasted on it. `send_all` takes one buffer at a time, and after a
cancellation it is unknown how much of it was written. Here cancellation loses nothing: it happens
while waiting, and a write waits only before it begins.
"""

from __future__ import annotations

import os
from socket import AF_UNIX, SO_SNDBUF, SOL_SOCKET
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import trio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.socket import SocketType

    from grain.edge.buffers import Buffer

_UNDER_WAY = 1024 * 1024


@runtime_checkable
class DirectWriter(Protocol):
    """A stream, or a part of one, that writes without waiting."""

    @property
    def full(self) -> bool:
        """True if the stream takes nothing before it was waited for."""

    def write_now(self, buffers: Sequence[Buffer]) -> int:
        """Write what the stream takes at once; return the number of bytes taken.

        Raises:
            trio.BrokenResourceError: reset by the peer.
            trio.ClosedResourceError: closed on this side.
        """

    async def wait_writable(self) -> None:
        """Wait until the stream may take more.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: as `write_now`, also meanwhile.
        """


@runtime_checkable
class FillingReader(Protocol):
    """A stream that reads into the caller's memory."""

    async def receive_into(self, buffer: memoryview) -> int:
        """Read at least one byte, unless the stream has ended; return the number of bytes.

        Raises:
            trio.BrokenResourceError: reset by the peer, or damaged.
            trio.ClosedResourceError: closed on this side, also meanwhile.
        """


class SocketWriter:
    """The writing half of a socket; a `DirectWriter`."""

    def __init__(self, socket: SocketType) -> None:
        self._socket = socket
        self.full = False

    def write_now(self, buffers: Sequence[Buffer]) -> int:
        """See `DirectWriter.write_now`."""
        # Until the kernel refuses: amid a large payload the peer mostly reads meanwhile, and each
        # wait is a pass through the scheduler.
        fd, left, done = fd_of(self._socket), list(buffers), 0
        self.full = False
        while left:
            try:
                count = os.writev(fd, left)
            except BlockingIOError:
                self.full = True
                break
            except OSError as e:
                raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e
            done += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if count:
                left[0] = memoryview(left[0])[count:]
        return done

    async def wait_writable(self) -> None:
        """See `DirectWriter.wait_writable`."""
        await trio.lowlevel.wait_writable(fd_of(self._socket))


def fd_of(socket: SocketType) -> int:
    """Return the descriptor of an open socket.

    Raises:
        trio.ClosedResourceError: it was closed on this side.
    """
    fd = socket.fileno()
    if fd < 0:
        raise trio.ClosedResourceError("this socket was closed")
    return fd


def enlarge_send_buffer(socket: SocketType) -> None:
    """Have the kernel keep more of what is under way over a Unix socket; do nothing to others.

    So large payloads need fewer switches between the processes. As much as the system allows, its
    net.core.wmem_max: 208 KiB by default. Nothing is reserved.
    """
    if socket.family != AF_UNIX:
        return
    try:
        socket.setsockopt(SOL_SOCKET, SO_SNDBUF, _UNDER_WAY)
    except OSError:  # closed meanwhile, as the first use shows
        return


async def read(socket: SocketType, size: int) -> bytes:
    """Read at most so many bytes; return none at the end of the stream.

    Raises:
        trio.BrokenResourceError: reset by the peer.
        trio.ClosedResourceError: closed on this side, also meanwhile.
    """
    while True:
        fd = fd_of(socket)
        await trio.lowlevel.wait_readable(fd)
        try:
            return os.read(fd, size)
        except BlockingIOError:
            continue
        except OSError as e:
            raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e


async def read_into(socket: SocketType, buffer: memoryview) -> int:
    """Read as `read` does, into the caller's memory; return the number of bytes.

    Tries before it waits: amid a large payload there is mostly more.
    """
    await trio.lowlevel.checkpoint()
    while True:
        fd = fd_of(socket)
        try:
            return os.readv(fd, (buffer,))
        except BlockingIOError:
            await trio.lowlevel.wait_readable(fd)
        except OSError as e:
            raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e
