"""Lines of JSON over Unix sockets: between tasklets and their processes, and from ``rsh``.

The sockets have names without files (unix(7), "abstract"), so nothing is left behind by whatever is
killed. Any user of the host may connect to such a name, so both sides ask the kernel for the other
one's user.
"""

from __future__ import annotations

import errno
import json
import secrets
import socket
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio

from grain.edge.machine.peer_user import is_own

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from typing_extensions import Self

T = TypeVar("T")

_PAUSE = 0.1  # seconds until a connection is taken for which there was no file or memory

_PIECE = 64 * 1024  # bytes that are sent at once

MOST = 16 * 1024**2
"""The most bytes of a line: an environment may have some megabytes."""


class ControlError(Exception):
    """The other side is another user's, has ended, or says something that is not a line of JSON."""


class JsonLines:
    """Lines of JSON over a stream; an async context manager, which closes it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._read = bytearray()
        self._unsent = bytearray()
        self._sending = trio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await trio.aclose_forcefully(self._stream)

    async def send(self, **content: Any) -> None:
        """Send a line.

        If it is cancelled, the line goes before the next one: half a line would spoil that, too.

        Raises:
            ControlError: the other side has gone.
        """
        self._unsent += json.dumps(content).encode() + b"\n"
        try:
            async with self._sending:
                while self._unsent:
                    del self._unsent[: await self._stream.socket.send(self._unsent[:_PIECE])]
        except (OSError, trio.ClosedResourceError) as error:
            raise ControlError(f"the other side has gone: {error}") from error

    async def receive(self) -> dict[str, Any]:
        """Wait for a line, and return it.

        Raises:
            ControlError: the other side has gone, or has sent something else.
        """
        searched = 0  # a line of megabytes comes in many pieces
        while (end := self._read.find(b"\n", searched)) < 0:
            searched = len(self._read)
            if len(self._read) > MOST:
                raise ControlError("the line is too long")
            try:
                data = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ControlError(f"the other side has gone: {error}") from error
            if not data:
                raise ControlError("the other side has gone")
            self._read += data
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ControlError(f"not a line of JSON: {error}") from error
        if not isinstance(content, dict):
            raise ControlError("not an object")
        return content

    async def receive_as(self, kind: type[T]) -> T:
        """Wait for a line, and return it as a struct of a kind; numbers may come as text.

        Raises:
            ControlError: as `receive`, or it lacks a field or has one of another type.
        """
        content = await self.receive()
        try:
            return msgspec.convert(content, kind, strict=False)
        except msgspec.ValidationError as error:
            raise ControlError(f"not what was expected: {error}") from error


def new_name() -> str:
    """Return a name at which no process listens, and that none can guess."""
    return f"grain-{secrets.token_hex(12)}"


def listen(name: str = "") -> tuple[str, trio.SocketListener]:
    """Listen at a name, or a new one; return the name and the listener, which the caller closes."""
    name = name or new_name()
    return name, listener_of(bound(name))


def bound(name: str) -> socket.socket:
    """Return a socket that listens at a name."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind("\0" + name)
    listening.listen(1024)  # so that another user who connects again and again keeps none out
    return listening


def listener_of(listening: socket.socket) -> trio.SocketListener:
    """Return the listener that a socket becomes."""
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening))


async def accept(listener: trio.SocketListener) -> JsonLines:
    """Return the next connection of this user, and close those of others before."""
    while True:
        stream = await listener.accept()
        if is_own(stream.socket):
            return JsonLines(stream)
        await trio.aclose_forcefully(stream)


async def serve(
    listener: trio.SocketListener, handler: Callable[[JsonLines], Awaitable[object]]
) -> None:
    """Call a function with each connection of this user, until cancelled; closes those of others.

    It closes the listener at its end.
    """

    async def admit(stream: trio.SocketStream) -> None:
        async with JsonLines(stream) as lines:
            if is_own(stream.socket):
                await handler(lines)

    # Not `trio.serve_listeners`: an attempt of a job would have two tasks and a nursery more.
    async with listener, trio.open_nursery() as nursery:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    raise
                await trio.sleep(_PAUSE)
            else:
                nursery.start_soon(admit, stream)


async def connect(name: str) -> JsonLines:
    """Connect to a name.

    Raises:
        ControlError: no process of this user listens there.
    """
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.connect("\0" + name)
    except OSError as error:
        sock.close()
        raise ControlError(f"nothing listens at {name}: {error.strerror}") from error
    except BaseException:
        sock.close()
        raise
    if not is_own(sock):
        sock.close()
        raise ControlError("the process at the other end is another user's")
    return JsonLines(trio.SocketStream(sock))
