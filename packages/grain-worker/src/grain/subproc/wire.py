"""What goes between a pool and one of its processes: datagrams over a Unix socket.

A message is a head of a few bytes, which begins with its kind, and a body. A small body follows the
head. A larger one stands in a memory file (memfd_create(2)) whose descriptor travels along: it is
written once and read once, where a socket would pass it on in pieces of 200 kB, with both processes
woken for each. A file is read into memory of the receiver rather than mapped: a mapping keeps its
descriptor, and a thousand results would use up all that a process may have.

To the process: `HELLO` with the search path of modules; `FUNCTION` with its digest in the head;
`FORGET`, of all functions; `CALL` with a function's digest in the head. The body of a `CALL` is the
arguments and then, beginning where the head says, the allocation. To each call there is one answer:
an outcome, with an empty head.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grain.edge.buffers import LARGE, allocate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Buffer = bytes | bytearray | memoryview

HELLO, FUNCTION, FORGET, CALL = b"h", b"f", b"x", b"c"

INLINE = 32 * 1024
"""Bytes of a body that travels with its head. Several such messages fit into an empty socket."""

LENGTH = struct.Struct("<Q")
_HEAD = 64
_PIECES = 1000  # writev(2) takes 1024 at once


def size_of(pieces: Sequence[Buffer]) -> int:
    """Bytes in all of them."""
    return sum(map(len, pieces))


@contextmanager
def body_of(pieces: Sequence[Buffer]) -> Iterator[Sequence[Buffer] | int]:
    """These pieces as `send` takes them: as they are, or in a file that is open meanwhile.

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
    """A memory file with these pieces, one after the other; its descriptor.

    Raises:
        OSError: there is no memory, or there are too many open files.
    """
    fd = os.memfd_create("grain-subproc")
    try:
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
    """What a memory file has in it, in memory that can be written to; closes the file.

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
    """Send one message; its body as `body_of` makes it.

    Raises:
        BlockingIOError: there is no room, on a socket that does not block; nothing was sent.
        ConnectionError: the other end is gone.
    """
    if isinstance(body, int):
        socket.send_fds(sock, [_padded(head)], [body])
    else:
        socket.send_fds(sock, [_padded(head), *body], [])


def receive(sock: socket.socket) -> tuple[bytes, bytes | int]:
    """The head of one message and its body, or the descriptor of the file that has it.

    An empty head with an empty body is the end: the other side is gone.

    Raises:
        BlockingIOError: nothing has come, on a socket that does not block.
        ConnectionError: the other side is gone, and has not read all that it was sent. (Linux says
            so of Unix sockets: ECONNRESET, by unix_release_sock() in net/unix/af_unix.c.)
        OSError: this process has too many open files to take another.
    """
    data, fds, flags, _ = socket.recv_fds(sock, _HEAD + INLINE, 1, socket.MSG_CMSG_CLOEXEC)
    if flags & socket.MSG_CTRUNC:
        raise OSError(errno.EMFILE, "too many open files to receive a large object")
    return data[:_HEAD], fds[0] if fds else data[_HEAD:]


def _padded(head: bytes) -> bytes:
    return head.ljust(_HEAD, b"\0")
