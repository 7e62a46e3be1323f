"""Files and directories that only this user may touch.

Synchronous: called in the threads of `grain.edge.meeting.disk`.

Everything is opened without following a symbolic link and judged by the open descriptor, so that
nothing can be exchanged between the look and the use. Owners are compared with our effective user
id: the filesystem's word is all there is.
"""

# ruff: noqa: PTH101, PTH102, PTH108
# No pathlib where names differ each time: it interns them (see `grain.files.processes`).

from __future__ import annotations

import errno
import os
import shlex
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grain.edge.errors import (
    ExposedFile,
    FilesystemFailed,
    FilesystemFull,
    FilesystemReadOnly,
    ForeignFile,
    LinkedFile,
    MeetingError,
    NoEdgeFile,
)
from grain.files.whole import FULL

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 4096
_FULL = {*FULL, errno.EFBIG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def translate(error: OSError, path: str) -> MeetingError:
    """Return the operating system's refusal as an error that says what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return FilesystemFull(f"{path}: {reason}. Make room (or ask for quota); nothing is lost")
    if error.errno in _READ_ONLY:
        return FilesystemReadOnly(
            f"{path}: {reason}. Choose an address on a filesystem to write on"
        )
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return LinkedFile(
            f"{path}: is a symbolic link, which another user may turn elsewhere. "
            "Give the address of the real file"
        )
    if error.errno == errno.ENOTDIR:
        return LinkedFile(
            f"{path}: is a link or no directory. Remove it, or choose another address"
        )
    return FilesystemFailed(
        f"{path}: {reason}. See to it, or choose an address on a filesystem that all hosts share"
    )


@contextmanager
def open_directory(path: str) -> Iterator[int]:
    """Open a directory that no other user may enter; yields its descriptor, and closes it.

    Raises:
        ForeignFile: another user's.
        ExposedFile: others may enter it.
        OSError: missing, a link, no directory, ...
    """
    fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _private(os.fstat(fd), path, "700")
        yield fd
    finally:
        os.close(fd)


def make_private(path: str) -> None:
    """Make a directory of mode 0700 if there is none, and check it.

    Raises:
        ForeignFile, ExposedFile, OSError: as `open_directory`.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    else:
        os.chmod(path, 0o700)  # an umask may have taken away our own access
    with open_directory(path):
        pass


def check_parent(path: str) -> None:
    """Refuse a directory in which others could replace our files.

    A sticky directory, as /tmp is, will do: there only the owner removes a file, and a file that
    another user planted is refused when it is opened.

    Raises:
        ExposedFile: writable for the group or all users.
        OSError: missing.
    """
    parent = str(Path(path).parent)
    status = Path(parent).stat()
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        raise ExposedFile(
            f"{parent}: others may write here and so replace {Path(path).name}. "
            f"Use a directory of your own below it, or: chmod go-w {shlex.quote(parent)}"
        )


@contextmanager
def open_private(path: str, flags: int) -> Iterator[int]:
    """Open a plain file that no other user may read; yields its descriptor, and closes it.

    Raises:
        ForeignFile: another user's.
        ExposedFile: others may read or write it.
        LinkedFile: not a plain file with one name.
        OSError: missing, a symbolic link, ...
    """
    # Non-blocking, as a named pipe in its place would otherwise block the open without end.
    fd = _open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        # By the descriptor: the name may be that of another file by now. A second name may belong
        # to another file of ours, which a write here would destroy.
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise LinkedFile(f"{path}: is not a plain file with one name. Remove it")
        _private(status, path, "600")
        yield fd
    finally:
        os.close(fd)


def read_block(path: str, size: int) -> bytes:
    """Return the first bytes of a private file, opened again.

    Its directory is opened first: an NFS client that once found the name missing believes so for
    half a minute, unless it is made to look at the directory.

    Raises:
        NoEdgeFile: missing.
        ForeignFile, ExposedFile, LinkedFile, OSError: as `open_private`.
    """
    parent = Path(path).parent
    try:
        with os.scandir(parent):
            pass
        check_parent(path)
        with open_private(path, os.O_RDONLY) as fd:
            return os.pread(fd, size, 0)
    except FileNotFoundError as e:
        raise NoEdgeFile(
            f"{path}: no such file. Start a head there, or check the address in the configuration"
        ) from e


def write_block(path: str, data: bytes) -> None:
    """Rewrite a private file's only block in place, making the file if there is none.

    Raises:
        ForeignFile, ExposedFile, LinkedFile, OSError: as `open_private`; also no space.
    """
    with open_private(path, os.O_RDWR | os.O_CREAT) as fd:
        # In place, as readers on NFS miss a file that is renamed over; and only one block, which
        # they see either old or new (`grain.edge.meeting.block`).
        if os.pwrite(fd, data, 0) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)


def make_name(path: str) -> bool:
    """Create an empty private file; False if the name exists.

    Creation is exclusive on every filesystem, NFS since version 3 included (open(2)); locks are
    not, so what must happen once is decided here.
    """
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    os.close(fd)
    return True


def check_writable(directory: str) -> None:
    """Check that something can be stored in a directory: make a file of one block, and remove it.

    Nothing less tells: a system with quotas has room and refuses, one without inodes has room, too.

    Raises:
        OSError: full, read-only, missing, ...
    """
    path = f"{directory}/check"  # one name, as a killed process leaves it behind
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        try:
            if os.write(fd, bytes(_BLOCK)) != _BLOCK:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
        finally:
            os.close(fd)
    finally:
        remove(path)


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def names(path: str) -> list[str]:
    """Return the names in a directory; none if it is missing."""
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except PermissionError:
        # Mostly another user's, who keeps it private as we do. Here the owner decides nothing but
        # the words, so that the path is looked at twice does no harm.
        with suppress(OSError):
            _ours(os.lstat(path), path)
        raise


def _ours(status: os.stat_result, path: str) -> None:
    if status.st_uid != os.geteuid():
        raise ForeignFile(
            f"{path}: belongs to user {status.st_uid}, not to you ({os.geteuid()}). Choose another "
            "address (or, on NFS where all files belong to the user `nobody`, have idmapping "
            "repaired)"
        )


def _private(status: os.stat_result, path: str, mode: str) -> None:
    _ours(status, path)
    if status.st_mode & 0o077:
        raise ExposedFile(
            f"{path}: other users may open it (mode {stat.S_IMODE(status.st_mode):o}), and it "
            f"holds keys. End the head, chmod {mode} {shlex.quote(path)}, and start it again for "
            "new keys"
        )
