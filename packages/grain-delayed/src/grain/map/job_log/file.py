"""The result log as a file: read once, then appended to, one write for each line."""

from __future__ import annotations

import fcntl
import os
import stat
from typing import TYPE_CHECKING

from grain.files.trust import open_output
from grain.map.errors import ResultLogError
from grain.map.job_log.entries import HEADER, History, JobLogEntry, read_line

if TYPE_CHECKING:
    from typing_extensions import Self


_LONGEST = 1 << 24  # bytes of a line; a command has less


class JobLog:
    """An open result log; use it in a ``with`` block, which closes it.

    It is locked against a second run. Each entry is one write(2) to a file opened with O_APPEND:
    readers see whole entries, and an entry stays when this process is killed.

    Args:
        path: the file; it is made if there is none.
        history: takes the entries of the file; None if the file must have none.

    Raises:
        ResultLogError: the file is another run's, in use, or no result log.
        OSError: the file cannot be read or written.
    """

    def __init__(self, path: str, history: History | None = None) -> None:
        self._path = path
        self._fd = open_locked(path, "use another --joblog")
        try:
            length = self._read(history)
            remove_torn(self._fd, length)
            if not length:
                write_whole(self._fd, HEADER, path)
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, entry: JobLogEntry) -> None:
        """Add one line.

        Raises:
            OSError: the line could not be written as a whole, as when the disk is full.
        """
        write_whole(self._fd, entry.line(), self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _read(self, history: History | None) -> int:
        """Add the entries to the history; return the length of the complete lines, in bytes."""
        length, torn = 0, b""
        with open(self._fd, "rb", closefd=False) as file:
            while line := file.readline(_LONGEST):
                if not line.endswith(b"\n"):
                    torn = line
                    break
                length += len(line)
                self._count(line, history)
        # A file without a single newline may be anything but a torn header.
        if len(torn) == _LONGEST or (not length and not HEADER.startswith(torn)):
            raise ResultLogError(f"{self._path} is not a result log; use another --joblog")
        return length

    def _count(self, line: bytes, history: History | None) -> None:
        try:
            entry = read_line(line)
        except ResultLogError as error:
            raise ResultLogError(f"{self._path}: {error}; use another --joblog") from None
        if entry is None:
            return
        if history is None:
            raise ResultLogError(
                f"{self._path} has the results of an earlier run. --resume goes on with it, "
                "--resume-failed also runs once more what failed; for a new run, remove the file "
                "or use another --joblog"
            )
        history.add(entry)


def remove_torn(fd: int, length: int) -> None:
    """Remove what follows the last complete line of a file.

    Args:
        length: of all complete lines, in bytes.
    """
    if os.fstat(fd).st_size > length:  # a full disk may refuse even to leave a file as it is
        os.ftruncate(fd, length)


def open_locked(path: str, instead: str) -> int:
    """Open a file to which one run at a time appends.

    Args:
        instead: what to do where another run has it.

    Raises:
        ResultLogError: it is in use, or not a plain file.
        OSError: it cannot be read or written.
    """
    fd = open_output(str(path), os.O_RDWR | os.O_APPEND | os.O_CREAT)
    if not stat.S_ISREG(os.fstat(fd).st_mode):  # who reads a pipe waits for a writer
        os.close(fd)
        raise ResultLogError(f"{path} is not a plain file; {instead}")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise ResultLogError(
            f"{path} is in use by another grain map; wait for its end, or {instead}"
        ) from None
    except OSError:
        pass  # a file system without locks
    return fd


def write_whole(fd: int, data: bytes, path: str) -> None:
    """Write bytes; an error has the name of the file."""
    try:
        written = os.write(fd, data)
        while written < len(data):  # the next write raises the reason, or succeeds
            written += os.write(fd, data[written:])
    except OSError as error:
        error.filename = path
        raise
