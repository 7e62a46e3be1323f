"""The file transport's calls on the filesystem. Synchronous: run by `grain.edge.meeting.disk`.

It counts the calls that name a path, as these are what a metadata server has to answer; an `open`
counts twice, since NFS version 4 also reports the close to the server.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import zlib
from typing import TYPE_CHECKING

from grain.edge.meeting import files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge.transports.segments import Put

REMOVALS = 10
"""Attempts at the removal of a directory in which others make and remove files."""


class Folder:
    """A private directory with files that are written once and read by another host."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.operations = 0
        self._fds: dict[str, int] = {}
        # A thread that was abandoned amid a write may still be at it when the next one comes.
        self._lock = threading.Lock()

    def store(self, puts: Sequence[Put]) -> None:
        """Store everything, in order, each durable before the next file is touched.

        Raises:
            OSError: part of it may be stored; to be called again with the same.
        """
        with self._lock:
            open_name = None
            for put in puts:
                if open_name not in (None, put.name):
                    self._sync(open_name)
                if put.new:
                    self._make(put)
                    open_name = None
                else:
                    self._write(put)
                    open_name = put.name
            self._sync(open_name)

    def _make(self, put: Put) -> None:
        # A blob is closed at once, a segment stays open for what follows.
        self.operations += 2
        fd = os.open(
            f"{self.path}/{put.name}",
            os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        try:
            _write_all(fd, put.data, 0)
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        if ".b" in put.name:
            os.close(fd)
        else:
            old = self._fds.pop(put.name, None)
            if old is not None:
                os.close(old)
            self._fds[put.name] = fd

    def _write(self, put: Put) -> None:
        fd = self._fds.get(put.name)
        if fd is None:
            self.operations += 2
            fd = os.open(f"{self.path}/{put.name}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._fds[put.name] = fd
        try:
            _write_all(fd, put.data, put.offset)
        except OSError:
            self._forget(put.name)
            raise

    def _sync(self, name: str | None) -> None:
        if name is None:
            return
        try:
            os.fdatasync(self._fds[name])
        except OSError:
            self._forget(name)
            raise

    def _forget(self, name: str) -> None:
        """After an error the kernel may have dropped what it could not write: open again."""
        fd = self._fds.pop(name, None)
        if fd is not None:
            try:
                os.close(fd)
            except OSError:
                return

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Read a part of a file, opened again: an open descriptor may show a state of seconds ago.

        Raises:
            OSError: missing, stale, ...
            MeetingError: not a plain private file of ours.
        """
        self.operations += 2
        with files.open_private(f"{self.path}/{name}", os.O_RDONLY) as fd:
            return os.pread(fd, size, offset)

    def read_blob(self, name: str, size: int, crc: int) -> bytearray:
        """Read a whole blob.

        Raises:
            OSError: missing, stale, not complete yet.
        """
        self.operations += 2
        data = bytearray(size)
        with files.open_private(f"{self.path}/{name}", os.O_RDONLY) as fd:
            view, at = memoryview(data), 0
            while at < size and (got := os.preadv(fd, [view[at:]], at)):
                at += got
        if at < size or zlib.crc32(data) != crc:
            raise OSError(errno.EIO, f"{name} is not complete")
        return data

    def remove(self, names: Sequence[str]) -> None:
        """Remove files that were acknowledged."""
        with self._lock:
            for name in names:
                fd = self._fds.pop(name, None)
                if fd is not None:
                    os.close(fd)
                self.operations += 1
                files.remove(f"{self.path}/{name}")

    def close(self) -> None:
        """Close what is open; waits for a thread that is still writing."""
        with self._lock:
            for fd in self._fds.values():
                os.close(fd)
            self._fds.clear()

    def remove_all(self) -> None:
        """Remove the directory with everything in it; it may be gone already."""
        self.close()
        remove_tree(self.path)

    def exists(self) -> bool:
        """Look at the directory itself, which also makes an NFS client forget what it believed."""
        self.operations += 1
        try:
            os.listdir(self.path)
        except FileNotFoundError:
            return False
        return True


def remove_tree(path: str) -> None:
    """Remove a directory and what is in it, following no links; it may be gone already.

    A link is removed as a link, and a file in the directory's place stays.

    Raises:
        OSError: something cannot be removed.
    """
    import shutil  # rarely needed

    for _ in range(REMOVALS):
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                files.remove(path)
            elif stat.S_ISDIR(status.st_mode):
                # By descriptors (shutil.rmtree.avoids_symlink_attacks): a directory that is
                # exchanged for a link meanwhile is not followed.
                shutil.rmtree(path)
        except FileNotFoundError:
            continue  # it, or something in it, was removed by another process
        except NotADirectoryError:
            return
        except OSError as e:
            # Another process put a file there meanwhile; the next head removes the rest.
            if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return


def _write_all(fd: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    view = memoryview(data)
    while len(view):
        done = os.pwrite(fd, view, offset)
        if not done:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view, offset = view[done:], offset + done
