"""Unix sockets, where the kernel authenticates the peer: the same user."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import LinkedFile, MeetingError, MeetingTaken, NotAuthenticated
from grain.edge.machine.peer_user import is_own, peer_of
from grain.edge.meeting import files
from grain.files.processes import is_stopped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Node = tuple[int, int]

BACKLOG = 1024

_TRIES, _PAUSE = 50, 0.002  # to get the lock of a directory: how often, and seconds between


def socket_path(meeting: str, epoch: int, base: str = "/tmp") -> str:  # noqa: S108  # checked below
    """Return the path where a head listens: in this host's /tmp, in a directory of this user.

    Not beside the meeting file, as most shared filesystems hold no sockets; not in
    $XDG_RUNTIME_DIR, which ends with the last login while a head goes on. What earlier heads of
    the same meeting left is removed.

    Args:
        base: a directory of this host in which everybody may make names.

    Raises:
        OSError: the base is full or not there.
    """
    directory = f"{base}/grain-{os.geteuid()}"
    try:
        files.make_private(directory)
    except (MeetingError, OSError):
        # Another user took that name; a name that cannot be guessed is as good.
        directory = tempfile.mkdtemp(prefix="grain-", dir=base)
    stem = sha256(meeting.encode()).hexdigest()[:16]
    for name in files.names(directory):
        if name.startswith(stem):
            files.remove(f"{directory}/{name}")
    return f"{directory}/{stem}.{epoch}"


class BoundSocket:
    """A Unix socket that listens, and its name on this host's disk, which other heads may take.

    It is bound and listens beside its name before it gets that: so a peer that finds it there is
    answered, and the name is never without a listener while one head follows another. Heads that
    take a name at the same moment take turns by a lock on its directory. Where there are no locks,
    or the holder is frozen, the last one has the name; another one notices that (`is_replaced`).

    Args:
        path: its name, in a directory that no other user may enter.

    Raises:
        ExposedFile, ForeignFile, OSError: the directory will not do.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._directory, self._name = os.path.split(path)
        self._beside = f".grain-{secrets.token_hex(8)}"
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with files.open_directory(self._directory) as fd:
                # By the descriptor, as the path may be almost as long as the kernel stores.
                sock.bind(f"/proc/self/fd/{fd}/{self._beside}")
                os.chmod(self._beside, 0o600, dir_fd=fd)
                sock.listen(BACKLOG)
            # No other file gets this number while the socket is open: it keeps its inode.
            self._node = _node_of(f"{self._directory}/{self._beside}")
        except BaseException:
            sock.close()
            raise
        self.listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))

    def take_place_of(self, node: Node | None) -> bool:
        """Take the name; return False if something else than that inode has it by now.

        Args:
            node: the inode of a socket whose listener is dead or frozen; None if no socket has the
                name.

        Raises:
            ExposedFile, ForeignFile, OSError: the directory will not do.
        """
        with files.open_directory(self._directory) as fd, _locked(fd):
            if _node_of(self.path) != node:
                return False
            os.rename(self._beside, self._name, src_dir_fd=fd, dst_dir_fd=fd)
            return True

    def is_replaced(self) -> bool:
        """Return True if another file has the name; False also where none has it.

        Raises:
            OSError: that cannot be seen.
        """
        return _node_of(self.path) not in (None, self._node)

    def close(self) -> None:
        """Stop listening, and remove the name, as far as that can be, unless another has it.

        With it goes the directory, if it was made only for this socket.
        """
        self.listener.socket.close()
        with suppress(MeetingError, OSError), files.open_directory(self._directory) as fd:
            files.remove(f"{self._directory}/{self._beside}")
            with _locked(fd):
                if _node_of(self.path) == self._node:
                    files.remove(self.path)
        folder = Path(self._directory)
        if folder.name.startswith("grain-") and folder.name != f"grain-{os.geteuid()}":
            with suppress(OSError):
                folder.rmdir()


async def listen(
    path: str, sign_of_life: Callable[[int], Awaitable[str]] | None = None
) -> BoundSocket:
    """Listen on a path whose directory is private.

    The socket of a process that is dead, or that gives no sign of life, is replaced.

    Args:
        sign_of_life: returns how the process of a pid that listens there was seen to live, or "";
            0 stands for a process that takes no connection. By default each one lives.

    Raises:
        MeetingTaken: a living process listens there.
        LinkedFile: there is something else than a socket.
        ExposedFile, ForeignFile, OSError: the directory will not do.
    """
    bound = BoundSocket(path)
    try:
        while True:
            node = _socket_at(path)
            if node is not None:
                await _check_listener(path, sign_of_life)
            if bound.take_place_of(node):
                return bound
            await trio.lowlevel.checkpoint()
    except BaseException:
        bound.close()
        raise


async def _check_listener(path: str, sign_of_life: Callable[[int], Awaitable[str]] | None) -> None:
    """Check that no living process listens on a path.

    Raises:
        MeetingTaken: one does.
    """
    pid = listening_process(path)
    if pid is None:
        return
    how = "it accepts connections" if sign_of_life is None else await sign_of_life(pid)
    if how:
        raise MeetingTaken(path, socket.gethostname(), pid, 0, how, stopped=is_stopped(pid))


def listening_process(path: str) -> int | None:
    """Return the pid of the process that listens on a path, which need not answer.

    0 if it takes no connection, as when it has not answered for very long; None if no head listens.

    Raises:
        OSError: that cannot be seen.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        except BlockingIOError:  # its backlog is full
            return 0
        return peer_of(probe)[0]


def _socket_at(path: str) -> Node | None:
    """Return the device and the inode of a socket of ours; None if nothing is there.

    Raises:
        LinkedFile: there is something else, which is not to be replaced.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise LinkedFile(
            f"{path}: is not a socket of yours, and is not replaced. Remove it, or choose another "
            "address"
        )
    return status.st_dev, status.st_ino


def _node_of(path: str) -> Node | None:
    """Return the device and the inode of a file; None if there is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _locked(directory: int) -> Iterator[None]:
    """Hold the lock of a directory, by its descriptor, or none if it cannot be had soon."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)  # who has it gives it back at once, unless it is frozen
        except OSError:
            break  # no locks here
        else:
            break
    yield  # the lock ends with the descriptor


async def dial(path: str) -> trio.SocketStream:
    """Connect, and make sure that the listener is a process of ours.

    Raises:
        NotAuthenticated: the process of another user.
        ExposedFile, ForeignFile: its directory is open to others.
        OSError: no process listens.
    """
    with files.open_directory(str(Path(path).parent)):
        pass
    return await _connect(path)


async def listen_by_name(name: str) -> trio.SocketListener:
    """Listen at a name without a file, in this network namespace (unix(7), "abstract").

    Any user may connect there, so `check_peer` must follow.
    """
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.bind(f"\0{name}")
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return trio.SocketListener(sock)


async def dial_name(name: str) -> trio.SocketStream:
    """Connect to a socket that has a name and no file, in this network namespace; as `dial`.

    Raises:
        NotAuthenticated: the process of another user.
        OSError: no process listens.
    """
    return await _connect(f"\0{name}")


async def _connect(address: str) -> trio.SocketStream:
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.connect(address)
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
    pid, uid = peer_of(connected)
    if not is_own(connected):
        raise NotAuthenticated(f"the process at the other end belongs to user {uid}")
    return pid
