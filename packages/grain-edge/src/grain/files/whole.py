"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from grain.files.trust import mistrust

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The errors of a disk without room, or without room for this user."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in the errors of a block that name none, such as those of write(2).

    Raises:
        OSError: of the block, with a file.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def whole_name(name: str) -> str:
    """Return the name that a file gets which a killed process may have left beside it."""
    return re.sub(r"(?s)^\.(.+)\.[0-9a-f]{16}$", r"\1", name)


@contextmanager
def whole_file(
    path: Path,
    *,
    mode: int | None = 0o600,
    aside: Path | None = None,
    replaces: bool = True,
    sync: bool = False,
) -> Iterator[BinaryIO]:
    """Open a new file that gets its name when the block ends, and is removed if it raises.

    Args:
        path: the file; a link of this name is replaced, and not followed.
        mode: whatever the umask; None for what the umask leaves of 0666.
        aside: the name until then, which does not exist; by default one beside the file.
        replaces: False if a file of this name must stay.
        sync: True if the content must outlive a crash of the host.

    Raises:
        FileExistsError: there is a file, and `replaces` is False.
        OSError: the file cannot be written; the error names it, and not the one beside it.
    """
    # Not the process id: another host or thread may write the same file.
    aside = aside or path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(aside, flags, 0o666 if mode is None else mode)
        try:
            with os.fdopen(fd, "wb") as file:
                if mode is not None:
                    os.fchmod(fd, mode)
                yield file
                if sync:
                    file.flush()
                    os.fsync(fd)
            if replaces:
                aside.replace(path)
            else:
                os.link(aside, path)
                aside.unlink()
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise
    except OSError as error:
        if error.filename in (None, str(aside)):
            error.filename = str(path)
            del error.filename2  # of a rename; None would be shown
        raise


def write_whole(path: Path, data: bytes | str, *, mode: int = 0o600) -> None:
    """Write a file as `whole_file` does, in the place of what is there.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file(path, mode=mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_script(path: Path, text: str) -> None:
    """Write an executable file, only for its owner, in place of a file that is there.

    Raises:
        OSError: it cannot be written, or another user could put another file in its place.
    """
    status = path.parent.stat()
    problem = mistrust(path.parent, status)
    if problem and not (status.st_mode & stat.S_ISVTX and status.st_uid in {0, os.geteuid()}):
        raise PermissionError(
            errno.EPERM, f"{problem}: another user could exchange it before it runs", str(path)
        )
    write_whole(path, text, mode=0o700)
