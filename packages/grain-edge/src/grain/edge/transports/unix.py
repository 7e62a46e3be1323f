"""Unix sockets, where the kernel authenticates the peer: the same user."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import trio

from grain.edge.errors import MeetingError, MeetingTaken, NotAuthenticated
from grain.edge.meeting import files

BACKLOG = 1024


def socket_path(meeting: str, epoch: int, base: str = "/tmp") -> str:  # noqa: S108  # checked below
    """Return the path where a head listens: in this host's /tmp, in a directory of this user.

    Not beside the Edge file, as most shared filesystems hold no sockets; not in
    $XDG_RUNTIME_DIR, which ends with the last login while a head goes on. What earlier heads of
    the same meeting left is removed.

    Args:
        meeting: path of the Edge file.
        epoch: number of the leadership.
        base: a directory of this host in which everybody may make names.

    Raises:
        OSError: the base is full or not there.
    """
    directory = f"{base}/grain-{os.geteuid()}"
    try:
        files.make_private(directory)
    except (MeetingError, OSError):
        # Another user took that name; one that cannot be guessed is as good.
        directory = tempfile.mkdtemp(prefix="grain-", dir=base)
    stem = sha256(meeting.encode()).hexdigest()[:16]
    for name in files.names(directory):
        if name.startswith(stem):
            files.remove(f"{directory}/{name}")
    return f"{directory}/{stem}.{epoch}"


def remove_socket(path: str) -> None:
    """Remove a socket, and its directory if it was made for this one alone."""
    files.remove(path)
    directory = Path(path).parent
    if directory.name.startswith("grain-") and directory.name != f"grain-{os.geteuid()}":
        with suppress(OSError):
            directory.rmdir()


async def listen(path: str) -> trio.SocketListener:
    """Listen on a path whose directory is private.

    A socket that a dead process left there is replaced.

    Raises:
        MeetingTaken: a living process listens there.
        ExposedFile, ForeignFile, OSError: the directory will not do.
    """
    with files.open_directory(str(Path(path).parent)):
        pass
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            await sock.bind(path)
        except OSError:
            await _must_be_dead(path)
            files.remove(path)
            await sock.bind(path)
        Path(path).chmod(0o600)  # noqa: ASYNC240  # on this host's own disk
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return trio.SocketListener(sock)


async def _must_be_dead(path: str) -> None:
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            await probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        pid, _ = _peer(probe)
        raise MeetingTaken(path, socket.gethostname(), pid, 0, "it accepts connections")


async def dial(path: str) -> trio.SocketStream:
    """Connect, and make sure that the listener is a process of ours.

    Raises:
        NotAuthenticated: somebody else's process.
        ExposedFile, ForeignFile: its directory is open to others.
        OSError: nobody listens.
    """
    with files.open_directory(str(Path(path).parent)):
        pass
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.connect(path)
        check_peer(sock)
        return trio.SocketStream(sock)
    except BaseException:
        sock.close()
        raise


def check_peer(connected: trio.socket.SocketType) -> int:
    """Refuse another user's process, even root's; returns the peer's pid.

    Raises:
        NotAuthenticated: another user.
    """
    pid, uid = _peer(connected)
    if uid != os.geteuid():
        raise NotAuthenticated(f"the process at the other end belongs to user {uid}")
    return pid


def _peer(connected: trio.socket.SocketType) -> tuple[int, int]:
    """Return the peer's process and user id at connect or listen time: SO_PEERCRED, see unix(7)."""
    form = struct.Struct("3i")
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    pid, uid, _ = form.unpack(raw)
    return pid, uid
