"""Changes of a file as the kernel reports them: inotify(7).

The kernel sees only what its own host does: every write to a local filesystem, and none that
another host makes to a shared one. So this only shortens a wait: the caller still has to look at
times.
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOSE_WRITE = 0x8
_EVENT = struct.Struct("iIII")  # the watch, the kinds, a cookie, the length of the name behind it


class FileChanges:
    """The changes of one file since `file_changes` was entered.

    Args:
        fd: of inotify, for the file's directory.
    """

    def __init__(self, fd: int, name: bytes) -> None:
        self._fd = fd
        self._name = name

    async def next(self) -> None:
        """Wait until a process has written the file and closed it."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            if self._name in _names(os.read(self._fd, 1 << 16)):
                return


@contextmanager
def file_changes(path: str) -> Iterator[FileChanges]:
    """Yield the changes of a file, which may not exist yet; its directory does.

    This looks at the filesystem: call it in a thread where that may hang.

    Raises:
        OSError: there is no such directory, or the user has too many of these open.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    fd = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        folder, name = os.path.split(os.fsencode(path))
        _checked(libc.inotify_add_watch(fd, ctypes.c_char_p(folder), ctypes.c_uint32(_CLOSE_WRITE)))
        yield FileChanges(fd, name)
    finally:
        os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _names(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length = _EVENT.unpack_from(data, at)[3]
        at += _EVENT.size
        yield data[at : at + length].rstrip(b"\0")
        at += length
