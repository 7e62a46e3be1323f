"""One external program: search, start, clean-up."""

# ruff: noqa: PTH102, PTH110, PTH113, PTH118, PTH123
# (no pathlib here; see the package)

from __future__ import annotations

import errno
import os
import signal

from .protocol import FAILED
from .removal import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .protocol import ProgramRequest

TAIL = 16384
"""Bytes at the end of a file with stderr that travel back."""

# O_NONBLOCK during open(2): a FIFO without a reader is an error rather than a hang.
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK


WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a guard ignores (`proc.IGNORED`), and that a batch job may want to trap: a shell
cannot trap a signal that was ignored when it started (POSIX.1-2017, 2.11)."""


class CannotStart(Exception):
    """A step before the program's first instruction failed."""

    def __init__(self, step: str, code: int, path: bytes) -> None:
        super().__init__(step, code, path)
        self.report = (FAILED, step, code, path)


class Step:
    """A step of a start, for a ``with`` block: turns an OSError of the block into `CannotStart`."""

    def __init__(self, name: str, path: bytes) -> None:
        self.name = name
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise CannotStart(self.name, error.errno or 0, self.path) from None


class Program:
    """A program, from its start to the end of its last descendant.

    Args:
        fds: descriptors of the streams that have no path in the request.
    """

    def __init__(self, request: ProgramRequest, fds: dict[str, int]) -> None:
        self.request = request
        self.fds = fds
        self.opened: list[int] = []
        self.scratch: Tree | None = None

    def start(self) -> int:
        """Start the program and return its pid.

        Raises:
            CannotStart: a step before the program's first instruction failed.
        """
        request = self.request
        if (base := request["scratch"]) is not None:
            scratch = os.path.join(base, b"grain-" + os.urandom(8).hex().encode())
            with Step("scratch", base):
                os.mkdir(scratch, 0o700)
                self.scratch = Tree(scratch)  # to be removed from now on
            request["env"][b"TMPDIR"] = scratch
        directory = request["cwd"]
        if directory is None:
            assert self.scratch is not None  # the caller asks for one of the two at least
            directory = self.scratch.path
        with Step("cwd", directory):
            os.chdir(directory)
        # From here on: paths of streams, and of the program, are relative to that directory.
        streams = self._streams()
        # A session of its own keeps the program away from the terminal and its Ctrl-C.
        actions = [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(streams)]
        path = find(request["argv"][0], request["env"].get(b"PATH", os.defpath.encode()))
        with Step("exec", path):
            return os.posix_spawn(
                path,
                request["argv"],
                request["env"],
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=WARNINGS if request["warned"] else (),
            )

    def _streams(self) -> tuple[int, int, int]:
        """Return descriptors of the three streams; open the ones that the request gives by path."""
        request = self.request
        stdin = self._open("stdin", request["stdin"], os.O_RDONLY)
        stdout = self._open("stdout", request["stdout"], OUTPUT)
        if request["merged"]:
            return stdin, stdout, stdout
        return stdin, stdout, self._open("stderr", request["stderr"], OUTPUT)

    def _open(self, name: str, path: bytes | None, flags: int) -> int:
        if path is None:
            return self.fds[name]
        with Step(name, path):
            fd = os.open(path, flags, 0o666)
        self.opened.append(fd)
        # The program inherits the open file with its flags, and expects writes that wait.
        os.set_blocking(fd, True)
        return fd

    def error_tail(self) -> bytes:
        """Return the end of the file that has the program's stderr; nothing if it was captured."""
        path = self.request["stdout" if self.request["merged"] else "stderr"]
        if path is None:
            return b""
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
                return file.read(TAIL)
        except OSError:
            return b""

    def close(self) -> None:
        """Close the files and remove the scratch directory; the program has ended."""
        for fd in self.opened:
            os.close(fd)
        os.chdir("/")  # hold no directory that others may want to unmount
        if self.scratch is not None:
            self.scratch.remove()


def find(program: bytes, search: bytes) -> bytes:
    """Return the path of a program, searched for as execvp(3) does.

    Raises:
        CannotStart: there is none, or none that may be executed.
    """
    failure = errno.ENOENT
    for folder in [b""] if b"/" in program else search.split(b":"):
        path = os.path.join(folder, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        if os.path.exists(path):
            failure = errno.EACCES
    raise CannotStart("find", failure, program)
