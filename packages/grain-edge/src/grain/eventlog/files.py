"""`LogFiles`: the files of one log, as the one process that writes them sees them; `open_plain`."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from grain.eventlog.names import part_name
from grain.files.trust import make_folder
from grain.files.whole import FULL

if TYPE_CHECKING:
    from pathlib import Path

    from grain.eventlog.schema import LogStarted

LARGEST = 512 << 20
"""Bytes of a file that is read as a whole. The largest that Grain writes, a thousand jobs of a
queue with the longest scripts, has 64 MiB."""

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = {*FULL, errno.EFBIG, errno.EIO}


def open_plain(path: Path | str, *, links: bool = True) -> BinaryIO:
    """Open a file to read that Grain or a job has written.

    Args:
        path: of the file.
        links: False to refuse a symbolic link.

    Raises:
        OSError: it cannot be opened, or is not a plain file: a named pipe, where a reader would
            hang, or a directory or a device.
    """
    return os.fdopen(_open_plain(path, links=links)[0], "rb")


def read_plain(path: Path | str, *, links: bool = True) -> bytes:
    """Return the content of such a file; arguments and errors as of `open_plain`.

    Raises:
        OSError: also EFBIG, if it has more than `LARGEST` bytes: something has blown it up.
    """
    # Without a file object, which asks the system for as much again: a queue reads a file or two
    # for each of its attempts, and its threads give up the lock of the interpreter each time.
    fd, size = _open_plain(path, links=links)
    try:
        if size > LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        content = os.read(fd, size + 1)
        while content and (not size or len(content) < size) and (more := os.read(fd, 1 << 20)):
            content += more
        return content
    finally:
        os.close(fd)


def read_end(path: Path | str, most: int) -> bytes:
    """Return the last bytes of such a file, however large it is; errors as of `open_plain`."""
    with open_plain(path) as file:
        file.seek(max(file.seek(0, os.SEEK_END) - most, 0))
        return file.read(most)


def _open_plain(path: Path | str, *, links: bool) -> tuple[int, int]:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags if links else flags | os.O_NOFOLLOW)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return fd, status.st_size


def refuse_foreign_links(folder: Path) -> None:
    """Check that a log's folder, and that of all logs, is not a link that another user made.

    Where others may write, such a link would have files made in any directory of this user.

    Raises:
        PermissionError: one has.
    """
    for place in (folder, folder.parent):
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in {0, os.geteuid()}:
            raise PermissionError(errno.EPERM, "it is a link that another user made", str(place))


class LogFiles:
    """The files of one log, which only this process writes to.

    A write that fails leaves its rest here, and the next one goes on with it: a disk that was full
    for a while costs no line, and tears none.

    Args:
        folder: of the log; made with the first write, with those above it that are missing.
        part_size: bytes after which the next part begins.
        most: bytes of all parts. Beyond that the oldest go, but the first one, which has the
            workers of the beginning.

    Attributes:
        unwritten: bytes that could not be written so far.
    """

    def __init__(self, folder: Path, header: LogStarted, *, part_size: int, most: int) -> None:
        self.folder = folder
        self.unwritten = b""
        self._header = header
        self._part_size = part_size
        self._most = most
        self._fd = -1
        self._next = 0  # the number of the next part
        self._sizes: dict[int, int] = {}
        self._made: dict[int, tuple[int, int]] = {}  # which files the parts are
        self._within_line = False  # True if the file ends within a line

    @property
    def part(self) -> int:
        """The number of the part that is open, or was open last; -1 before the first."""
        return self._next - 1

    def write(self, lines: bytes) -> None:
        """Append complete lines.

        Raises:
            OSError: they could not be written, or not all of them; the next call goes on.
        """
        self.unwritten += lines
        if self.unwritten and self._fd >= 0 and self._sizes[self.part] >= self._part_size:
            # Before the next part is made: on NFS, a reader that sees the next part then sees all
            # of this one.
            self.close()
        if self._fd < 0:
            self._open_part()
        try:
            while self.unwritten:
                count = os.write(self._fd, self.unwritten)
                self._within_line = self.unwritten[count - 1 : count] != b"\n"
                self.unwritten = self.unwritten[count:]
                self._sizes[self.part] += count
        except OSError as error:
            if error.errno not in _FULL:
                # This file cannot be written any more, as after the folder was removed.
                self.close()
                self._drop_empty_part()
            raise

    def _open_part(self) -> None:
        if self._within_line:
            # The beginning of this line is in the part before.
            self.unwritten = self.unwritten.partition(b"\n")[2]
            self._within_line = False
        make_folder(self.folder)
        refuse_foreign_links(self.folder)
        self._fd = os.open(self.folder / part_name(self._next), _FLAGS, 0o600)
        self._made[self._next] = _which(os.fstat(self._fd))
        header = self._first_line(self._next)
        self._sizes[self._next] = 0
        self._next += 1
        self.unwritten = header + self.unwritten
        self._remove_parts()

    def _first_line(self, part: int) -> bytes:
        # Not above: commands that tools call every second import this module for `open_plain`.
        from msgspec.structs import replace

        from grain.eventlog.schema import encode

        return encode(replace(self._header, part=part))

    def _drop_empty_part(self) -> None:
        """Forget the last part if nothing of it was written: the next attempt makes it again."""
        if not self._sizes[self.part]:
            self._remove(self.part)
            self.unwritten = self.unwritten[len(self._first_line(self.part)) :]
            del self._sizes[self.part]
            self._next -= 1

    def _remove_parts(self) -> None:
        """Remove the oldest parts if the log has grown too large; neither the first nor the last.

        The next part is counted as if it were full.
        """
        removable = [number for number in self._sizes if 0 < number < self.part]
        for number in removable:
            if sum(self._sizes.values()) + self._part_size <= self._most:
                return
            self._remove(number)
            del self._sizes[number]

    def _remove(self, number: int) -> None:
        """Remove a part if its name still leads to it; a part that stays goes with the log.

        Where others may write, one of them may have put another directory in the folder's place.
        """
        with suppress(OSError):
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                found = os.stat(part_name(number), dir_fd=folder, follow_symlinks=False)
                if _which(found) == self._made.pop(number):
                    os.unlink(part_name(number), dir_fd=folder)
            finally:
                os.close(folder)

    def modified(self) -> float | None:
        """Return the present time by the clock of the filesystem; None if it cannot be had."""
        if self._fd < 0:
            return None
        try:
            self.touch()
            return os.fstat(self._fd).st_mtime
        except OSError:
            return None

    def touch(self) -> None:
        """Mark the log as in use, if a part is open.

        Raises:
            OSError: it cannot be.
        """
        if self._fd >= 0:
            os.utime(self._fd)

    def sync(self) -> None:
        """Have the system store what was written, so that other hosts see it.

        Raises:
            OSError: it cannot.
        """
        if self._fd >= 0:
            os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file; a further write begins the next part."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # a full disk, on NFS; no descriptor is left in any case
                os.close(fd)


def _which(status: os.stat_result) -> tuple[int, int]:
    """Return which file it is, whatever leads to it."""
    return status.st_dev, status.st_ino
