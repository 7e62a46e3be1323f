"""The messages between a pool and one of its processes: datagrams over a Unix socket.

A message is a head of a few bytes, which begins with its kind, and a body. A small body follows the
head. A larger one stands in a memory file (memfd_create(2)) whose descriptor travels along: it is
written once and read once, where a socket would pass it on in pieces of 200 kB, with both processes
woken for each. The receiver reads a file into its memory instead of mapping it: a mapping keeps its
descriptor, and a thousand results would use up all that a process may have.

To the process: `HELLO` with the search path of modules; `FUNCTION` with its digest in the head;
`FORGET`, of all functions; `CALL` with a function's digest in the head. The body of a `CALL` is the
arguments, then the allocation, which begins where the head says. Each call has one answer: an
outcome, with `USE` as its head, which says what the process has used for it.

The channel between a worker's agent and its runner does not serve here: that is for many runs at a
time, and is asynchronous on both ends. `docs/architecture.md` has the numbers.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grain.edge.buffers import LARGE, Buffer, allocate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HELLO, FUNCTION, FORGET, CALL = b"h", b"f", b"x", b"c"

INLINE = 32 * 1024
"""Bytes of a body that travels with its head. Several such messages fit into an empty socket."""

LENGTH = struct.Struct("<Q")
USE = struct.Struct("<5d")
"""The use of a call: CPU seconds in user mode and in the kernel, GB read and written, and the peak
of the memory in GB, of the process itself or of the largest child that it has reaped."""
_HEAD = 64
_PIECES = 1000  # writev(2) takes 1024 at once


def size_of(pieces: Sequence[Buffer]) -> int:
    """Return the number of bytes in all pieces."""
    return sum(map(len, pieces))


@contextmanager
def body_of(pieces: Sequence[Buffer]) -> Iterator[Sequence[Buffer] | int]:
    """Return the pieces in the form that `send` takes: as they are, or in a file.

    The file is open within the block.

    Raises:
        OSError: as `write_file`.
    """
    if size_of(pieces) <= INLINE:
        yield pieces
        return
    fd = write_file(pieces)
    try:
        yield fd
    finally:
        os.close(fd)


def write_file(pieces: Sequence[Buffer]) -> int:
    """Write the pieces, one after the other, into a memory file, and return its descriptor.

    Raises:
        OSError: there is no memory, or there are too many open files.
    """
    fd = os.memfd_create("grain-subproc")
    try:
        # Reversed, so that what is written leaves the list at its end.
        left = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        left.reverse()
        while left:
            done = os.writev(fd, left[: -_PIECES - 1 : -1])
            while left and done >= len(left[-1]):
                done -= len(left.pop())
            if done:
                left[-1] = left[-1][done:]
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_file(fd: int) -> memoryview:
    """Return the content of a memory file, in memory that can be written to; close the file.

    Raises:
        OSError: there is no memory.
    """
    try:
        size = os.fstat(fd).st_size
        view, at = allocate(size) if size >= LARGE else memoryview(bytearray(size)), 0
        while at < len(view):
            at += os.preadv(fd, [view[at:]], at)
    finally:
        os.close(fd)
    return view


def send(sock: socket.socket, head: bytes, body: Sequence[Buffer] | int) -> None:
    """Send one message, whose body is a result of `body_of`.

    Raises:
        BlockingIOError: the socket, which does not block, is full; nothing was sent.
        ConnectionError: the other end is closed.
    """
    if isinstance(body, int):
        socket.send_fds(sock, [_padded(head)], [body])
    else:
        socket.send_fds(sock, [_padded(head), *body], [])


def receive(sock: socket.socket) -> tuple[bytes, bytes | int]:
    """Receive one message: its head, and its body or the descriptor of the file with its body.

    An empty head with an empty body is the end: the other end is closed.

    Raises:
        BlockingIOError: there is no message yet, on a socket that does not block.
        ConnectionError: the other end is closed, and has left messages unread. (Linux reports that
            for Unix sockets: ECONNRESET, by unix_release_sock() in net/unix/af_unix.c.)
        OSError: this process has too many open files to take another.
    """
    data, fds, flags, _ = socket.recv_fds(sock, _HEAD + INLINE, 1, socket.MSG_CMSG_CLOEXEC)
    if flags & socket.MSG_CTRUNC:
        raise OSError(errno.EMFILE, "too many open files to receive a large object")
    return data[:_HEAD], fds[0] if fds else data[_HEAD:]


def _padded(head: bytes) -> bytes:
    return head.ljust(_HEAD, b"\0")
