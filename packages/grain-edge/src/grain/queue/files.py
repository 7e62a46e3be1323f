"""Files that appear whole or not at all, by ``link(2)``; everything of a queue rests on it.

Rules:

1. A file gets its final name only when its content is on the disk. A *note* is a symbolic link
   whose text is the content: it comes with its name, in one operation.
2. A name that was made is reported as made only when its directory is on the disk.
3. A name that exists with content is never given other content, but for the view.
4. A name that is found is true. A name that is not found, and a list of a directory, may be 60
   seconds old: NFS shows them so. Only a link decides, of either sort.
"""

# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH112, PTH114, PTH115, PTH116, PTH211
# (these are called 100,000 times)

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from grain.eventlog.files import LARGEST, open_plain, read_plain
from grain.queue.errors import CannotWrite, NotSynced, Uncertain, Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INCOMING = "incoming"
INCOMING_KEPT = 86400.0
"""Seconds after which a file in ``incoming`` is left over from a process that was killed."""

LONGEST_NOTE = 900
"""Bytes of a note at most. XFS has 1,024 for the text of a symbolic link, others have more."""

_WITHOUT_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})
# A named pipe, a directory or a device; a socket; more than anything that is written here.
_NO_RECORD = frozenset({errno.EINVAL, errno.EISDIR, errno.ENXIO, errno.EFBIG})
_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your quota is used up",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "you may not write there",
    errno.EFBIG: f"it would have more than {LARGEST >> 20} MiB",
}


class FileOperations(Protocol):
    """The operations on files that a queue uses; tests replace them.

    Names are relative to the folder of the queue. All raise OSError as the system does.
    """

    def create(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """Make a file that must be new, write its content, and have it on the disk."""

    def link(self, source: str, name: str) -> None:
        """Give a file another name, which must be new."""

    def note(self, text: bytes, name: str) -> None:
        """Make a symbolic link that has a text in place of a path; its name must be new."""

    def noted(self, name: str) -> bytes:
        """Return the text of a symbolic link, as it is."""

    def same(self, one: str, other: str) -> bool:
        """Return True if two names are those of one file; False if either is missing."""

    def read(self, name: str) -> bytes:
        """Return the content of a plain file; raise ELOOP for a symbolic link."""

    def exists(self, name: str) -> bool:
        """Return True if a name is found.

        Raises:
            NotADirectoryError: there is a file where its directory should be.
        """

    def list(self, folder: str) -> list[str]:
        """Return the names in a directory, in any order."""

    def rename(self, name: str, new: str) -> None:
        """Rename a file, or a symbolic link, over what has the new name."""

    def remove(self, name: str) -> None:
        """Remove a name of a file."""

    def make_folder(self, name: str) -> None:
        """Make a directory, for its owner only."""

    def remove_folder(self, name: str) -> None:
        """Remove an empty directory."""

    def point(self, target: str, name: str) -> None:
        """Make a symbolic link, whose name must be new."""

    def is_file(self, name: str) -> bool:
        """Return True if a name is a file itself, and not a symbolic link to a directory."""

    def sync(self, folder: str) -> None:
        """Have a directory on the disk, with all names in it."""

    def age(self, name: str) -> float:
        """Return the seconds since a file was written or touched, by the file server's clock."""

    def touch(self, name: str) -> None:
        """Set the time of a file to now, by the file server's clock."""


class WholeFiles:
    """The files of a queue.

    Attributes:
        disk: the operations.
    """

    def __init__(self, disk: FileOperations) -> None:
        self.disk = disk

    def link_whole(self, name: str, content: bytes, mode: int = 0o600) -> bool:
        """Make a file with its whole content; return True if it is ours, and safe on the disk.

        Returns:
            False if the name was there.

        Raises:
            CannotWrite: it was not made.
            NotSynced: it was made, and may be gone after a crash.
        """
        with self.prepared(content, mode) as ready:
            return self.link(ready, name)

    def note(self, name: str, content: bytes) -> bool:
        """Make a note; return as of `link_whole`, and raise as of it and `link`.

        It takes one write to the disk, where a file takes two.

        Args:
            content: without a null character. A long one becomes a file.
        """
        if len(content) > LONGEST_NOTE:
            return self.link_whole(name, content)
        # By this word its maker knows it, as another one may note the same.
        text = b"%b %b" % (content, os.urandom(8).hex().encode())
        try:
            self.disk.note(text, name)
        except (NotADirectoryError, FileNotFoundError):  # as of `link`
            raise
        except OSError as error:
            # The reply may have been lost, as of `link`.
            if not self._is_our_note(text, name):
                if error.errno == errno.EEXIST:
                    return False
                if error.errno in (errno.ENAMETOOLONG, *_WITHOUT_LINKS):
                    return self.link_whole(name, content)
                raise CannotWrite(_text(error, name), error.errno or 0) from error
        self.sync(name.rpartition("/")[0], name)
        return True

    @contextmanager
    def prepared(self, content: bytes, mode: int = 0o600) -> Iterator[str]:
        """Write content to a file in ``incoming``, for `link`; remove that name in the end.

        Raises:
            CannotWrite: it cannot be written.
        """
        # A name of our own: processes that write at the same time do not disturb each other.
        ready = f"{INCOMING}/{os.urandom(8).hex()}"
        try:
            with _clear(ready):
                self.disk.create(ready, content, mode)
            yield ready
        finally:
            # The name goes, and the content stays by its final name, which is a second one of the
            # same file. Where that was not made nothing is left.
            with suppress(OSError):
                self.disk.remove(ready)

    def link(self, ready: str, name: str, *, sync: bool = True) -> bool:
        """Give a prepared file its final name; return False if the name was there.

        Args:
            ready: a file from `prepared`.
            name: the final name.
            sync: False if the caller syncs the directory, for many names at once.

        Raises:
            NotADirectoryError: its bucket is packed.
            FileNotFoundError: its bucket does not exist.
            CannotWrite: it was not made.
            Uncertain: it may have been.
            NotSynced: it was made, and may be gone after a crash.
        """
        try:
            self.disk.link(ready, name)
        # Not among the failures below: that a bucket is packed is an answer.
        except NotADirectoryError:
            raise
        # Either name may be what is missing. It is the bucket while our own file is there, and the
        # caller knows what that means.
        except FileNotFoundError as error:
            if self.disk.exists(ready):
                raise
            raise CannotWrite(
                "this process was stopped for so long that its file was removed: try again",
                errno.ESTALE,
            ) from error
        except OSError as error:
            # A reply that was lost is repeated by the client, and then the name exists: our own.
            if not self._is_ours(ready, name):
                if not self.disk.exists(ready):
                    raise Uncertain(
                        "this process was stopped for so long that it cannot tell whether "
                        f"{name} in the folder of the queue is its own: look what is there",
                        errno.ESTALE,
                    ) from error
                if error.errno == errno.EEXIST:
                    return False
                if error.errno in _WITHOUT_LINKS:
                    raise Unusable(
                        "the file system of the queue has no hard links: set XDG_STATE_HOME to a "
                        "directory on one that has them"
                    ) from error
                raise CannotWrite(_text(error, name), error.errno or 0) from error
        # Only then it is reported as made (rule 2).
        if sync:
            self.sync(name.rpartition("/")[0], name)
        return True

    def sync(self, folder: str, made: str) -> None:
        """Have a directory on the disk, in which a name was made.

        Raises:
            NotSynced: the disk did not confirm it.
        """
        try:
            self.disk.sync(folder)
        except OSError as error:
            raise NotSynced(_text(error, made), error.errno or 0, made) from error

    def replace(self, name: str, content: bytes) -> None:
        """Replace a file by another content at once, as a view.

        Raises:
            CannotWrite: the file is as it was.
        """
        # The only rename. On NFS a file that is renamed over can be missing for a moment, which a
        # view may be: whoever does not find it reads all files instead.
        with self.prepared(content) as ready, _clear(name):
            self.disk.rename(ready, name)
            self.disk.sync(name.rpartition("/")[0])

    def read(self, name: str) -> bytes | None:
        """Return the content of a file or a note; None if there is none.

        What is not a plain file, or is blown up beyond `LARGEST`, has no content, which no reader
        takes for that of a record.

        Raises:
            NotADirectoryError: its bucket is packed.
            OSError: it cannot be read.
        """
        try:
            return self.content(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _NO_RECORD:
                return b""
            if error.errno != errno.ESTALE:
                raise
        try:  # NFS: the file went between lookup and read, so it is looked up again
            return self.content(name)
        except FileNotFoundError:
            return None

    def content(self, name: str) -> bytes:
        """Return the content of a plain file or a note.

        Raises:
            OSError: there is none, or it cannot be read.
        """
        try:
            return self.disk.read(name)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        # If a directory above is a link to itself, that is an error here, too.
        return self.disk.noted(name).rpartition(b" ")[0]

    def make_folder(self, name: str) -> None:
        """Make a directory, if it is not there.

        Raises:
            CannotWrite: it cannot be made.
        """
        with suppress(FileExistsError), _clear(name):
            self.disk.make_folder(name)

    def clean(self) -> None:
        """Remove what killed processes have left in ``incoming``."""
        for file in self.disk.list(INCOMING):
            with suppress(OSError):
                # A process that was stopped for longer, and goes on, finds that in `link`.
                if self.disk.age(f"{INCOMING}/{file}") > INCOMING_KEPT:
                    self.disk.remove(f"{INCOMING}/{file}")

    def _is_ours(self, ready: str, name: str) -> bool:
        try:
            return self.disk.same(ready, name)
        except OSError:
            return False

    def _is_our_note(self, text: bytes, name: str) -> bool:
        try:
            return self.disk.noted(name) == text
        except OSError:
            return False


@contextmanager
def _clear(name: str) -> Iterator[None]:
    try:
        yield
    # Another process has the name: the caller knows what that means.
    except FileExistsError:
        raise
    except OSError as error:
        raise CannotWrite(_text(error, name), error.errno or 0) from error


def _text(error: OSError, name: str) -> str:
    reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
    return f"{reason} ({name} in the folder of the queue)"


class LocalDisk:
    """The operations on a real directory, as `FileOperations` has them."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"

    def create(self, name: str, content: bytes, mode: int = 0o600) -> None:
        """See `FileOperations`."""
        if len(content) > LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._root + name, flags, mode)
        try:
            # On the disk before it gets a name (rule 1): after a crash no name has half of a
            # content.
            left = memoryview(content)
            while left:
                left = left[os.write(fd, left) :]
            os.fsync(fd)
        finally:
            os.close(fd)

    def link(self, source: str, name: str) -> None:
        """See `FileOperations`."""
        os.link(self._root + source, self._root + name, follow_symlinks=False)

    def note(self, text: bytes, name: str) -> None:
        """See `FileOperations`."""
        os.symlink(text, os.fsencode(self._root + name))

    def noted(self, name: str) -> bytes:
        """See `FileOperations`."""
        return os.readlink(os.fsencode(self._root + name))

    def same(self, one: str, other: str) -> bool:
        """See `FileOperations`."""
        # Opened, as NFS asks the server at an open, and not at a stat.
        try:
            return self._identity(one) == self._identity(other)
        except FileNotFoundError:
            return False

    def _identity(self, name: str) -> tuple[int, int]:
        with open_plain(self._root + name, links=False) as file:
            status = os.fstat(file.fileno())
            return status.st_dev, status.st_ino

    def read(self, name: str) -> bytes:
        """See `FileOperations`."""
        return read_plain(self._root + name, links=False)

    def exists(self, name: str) -> bool:
        """See `FileOperations`."""
        try:
            os.lstat(self._root + name)
        except FileNotFoundError:
            return False
        return True

    def list(self, folder: str) -> list[str]:
        """See `FileOperations`."""
        return os.listdir(self._root + folder)

    def rename(self, name: str, new: str) -> None:
        """See `FileOperations`."""
        os.rename(self._root + name, self._root + new)

    def remove(self, name: str) -> None:
        """See `FileOperations`."""
        os.unlink(self._root + name)

    def make_folder(self, name: str) -> None:
        """See `FileOperations`."""
        os.mkdir(self._root + name, 0o700)

    def remove_folder(self, name: str) -> None:
        """See `FileOperations`."""
        os.rmdir(self._root + name)

    def point(self, target: str, name: str) -> None:
        """See `FileOperations`."""
        os.symlink(target, self._root + name)

    def is_file(self, name: str) -> bool:
        """See `FileOperations`."""
        path = self._root + name
        # Also a pipe in its place, which then counts as one that is damaged.
        return os.path.lexists(path) and not os.path.islink(path) and not os.path.isdir(path)

    def sync(self, folder: str) -> None:
        """See `FileOperations`."""
        fd = os.open(self._root + folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def age(self, name: str) -> float:
        """See `FileOperations`."""
        # A file that is made now has the server's time; our own clock may be wrong.
        probe = self._root + f"{INCOMING}/{os.urandom(8).hex()}"
        fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            now = os.fstat(fd).st_mtime
        finally:
            os.close(fd)
            os.unlink(probe)
        return now - os.stat(self._root + name).st_mtime

    def touch(self, name: str) -> None:
        """See `FileOperations`."""
        os.utime(self._root + name)  # without times, so that NFS has the server set them
