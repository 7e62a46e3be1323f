"""Reading from a socket, and writing to it, with one pass through trio's scheduler.

`trio.SocketStream.receive_some` tries first and waits then; a channel that answers has always to
wait, so the first attempt is wasted on it; and `send_all` takes one buffer at a time. Unless said
otherwise cancellation loses nothing: it happens while waiting.
"""

from __future__ import annotations

import os
from socket import AF_UNIX, SO_SNDBUF, SOL_SOCKET
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio.socket import SocketType


LOCAL_CHUNK = 512 * 1024
"""Bytes of a large payload in one frame over a Unix socket: a fraction of a millisecond."""

_UNDER_WAY = 1024 * 1024


def widen(socket: SocketType) -> bool:
    """Whether it is a Unix socket; then have the kernel keep more of what is under way.

    So large payloads need fewer switches between the processes. As much as the system allows, its
    net.core.wmem_max: 208 KiB if nobody has changed that. Nothing is reserved.
    """
    if socket.family != AF_UNIX:
        return False
    try:
        socket.setsockopt(SOL_SOCKET, SO_SNDBUF, _UNDER_WAY)
    except OSError:  # closed meanwhile, as the first use will tell
        return False
    return True


async def read(socket: SocketType, size: int) -> bytes:
    """At most so many bytes; empty at the end of the stream.

    Raises:
        trio.BrokenResourceError: reset by the peer.
        trio.ClosedResourceError: closed on this side, also meanwhile.
    """
    while True:
        fd = socket.fileno()
        if fd < 0:
            raise trio.ClosedResourceError("this socket was closed")
        await trio.lowlevel.wait_readable(fd)
        try:
            return os.read(fd, size)
        except BlockingIOError:
            continue
        except OSError as e:
            raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e


async def read_into(socket: SocketType, *buffers: bytearray | memoryview) -> int:
    """As `read`, into memory of the caller's, one buffer after the other; the number of bytes.

    Tries before it waits: amid a large payload there is mostly more.
    """
    await trio.lowlevel.checkpoint()
    while True:
        fd = socket.fileno()
        if fd < 0:
            raise trio.ClosedResourceError("this socket was closed")
        try:
            return os.readv(fd, buffers)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(fd)
        except OSError as e:
            raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e


async def write_some(socket: SocketType, data: bytearray) -> None:
    """Write what the kernel takes, and remove that from the data; waits until it takes something.

    Cancellation loses nothing: it happens while waiting.

    Raises:
        trio.BrokenResourceError: reset by the peer.
        trio.ClosedResourceError: closed on this side, also meanwhile.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    while True:
        fd = socket.fileno()
        if fd < 0:
            raise trio.ClosedResourceError("this socket was closed")
        try:
            done = os.write(fd, data)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(fd)
        except OSError as e:
            raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e
        else:
            del data[:done]
            await trio.lowlevel.cancel_shielded_checkpoint()
            return


async def write_all(socket: SocketType, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
    """Write some buffers, as one piece where the kernel takes it; lets others run once.

    A cancellation may leave it half done.

    Raises:
        trio.BrokenResourceError: reset by the peer.
        trio.ClosedResourceError: closed on this side, also meanwhile.
    """
    await trio.lowlevel.checkpoint()
    left = list(buffers)
    while left:
        fd = socket.fileno()
        if fd < 0:
            raise trio.ClosedResourceError("this socket was closed")
        try:
            done = os.writev(fd, left)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(fd)
            continue
        except OSError as e:
            raise trio.BrokenResourceError(f"the connection was reset: {e.strerror}") from e
        while left and done >= len(left[0]):
            done -= len(left.pop(0))
        if done:
            left[0] = memoryview(left[0])[done:]
