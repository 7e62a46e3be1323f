"""Remove a directory that a program has written to, and nothing to which it has made links."""

# ruff: noqa: PTH101, PTH106
# (no pathlib here, and no shutil, which costs a megabyte; see the package)

from __future__ import annotations

import errno
import os

DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Tree:
    """A directory that this process has made, to be removed with everything in it.

    A program that may write there may also put a link in the place of the directory, or of one in
    it. So each directory is reached from the descriptor of the one above it, a link is removed as a
    link, and the whole only if it is the directory that was made.

    Raises:
        OSError: it cannot be looked at.
    """

    def __init__(self, path: bytes) -> None:
        self.path = path
        self._status = os.lstat(path)

    def remove(self) -> None:
        """Remove it, as far as permissions allow. Raises nothing."""
        try:
            if not removed_entry(self.path, None):
                remove_content(open_directory(self.path, None, self._status))
                os.rmdir(self.path)
        except OSError:
            pass


def remove_content(top: int) -> None:
    """Remove all that is in a directory, as far as permissions allow, and close the descriptor."""
    # Not by recursion: a tree may be deeper than Python's stack.
    path = [(top, b"", [os.fsencode(name) for name in os.listdir(top)])]
    while path:
        fd, own_name, names = path[-1]
        if not names:
            path.pop()
            os.close(fd)
            if path:
                try:
                    os.rmdir(own_name, dir_fd=path[-1][0])
                except OSError:
                    pass
            continue
        name = names.pop()
        try:
            if not removed_entry(name, fd):
                below = open_directory(name, fd)
                path.append((below, name, [os.fsencode(one) for one in os.listdir(below)]))
        except OSError:
            pass


def removed_entry(name: bytes, directory: int | None) -> bool:
    """Remove a name; return False if it is that of a directory, True if it was that of a link.

    Raises:
        OSError: it cannot be removed, or is missing.
    """
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def open_directory(
    name: bytes, directory: int | None, expected: os.stat_result | None = None
) -> int:
    """Open a directory to read it, also where its owner, who we are, has no permission to.

    Raises:
        OSError: it is a link, or no directory, or not the expected one; or it is another user's.
    """
    handle = os.open(name, os.O_PATH | DIRECTORY, dir_fd=directory)
    try:
        if expected is not None and not os.path.samestat(expected, os.fstat(handle)):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), name)
        try:
            # The very directory that was opened: fchmod(2) refuses such a descriptor.
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        except OSError:
            pass
        return os.open(".", os.O_RDONLY | DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)
