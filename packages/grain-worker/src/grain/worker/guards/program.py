"""One external program: search, start, clean-up."""

# ruff: noqa: PTH102, PTH116, PTH118, PTH123
# (no pathlib here; see the package)

from __future__ import annotations

import errno
import os
import signal
import stat

from .protocol import FAILED
from .removal import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .protocol import ProgramRequest

TAIL = 16384
"""Bytes at the end of a file with stderr that travel back."""

# O_NONBLOCK during open(2): a FIFO without a reader is an error rather than a hang.
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK


DEFAULT_PATH = os.defpath.encode()

WARNINGS = frozenset({signal.SIGUSR1, signal.SIGUSR2})
"""Signals that a guard ignores (`proc.IGNORED`), and that a batch job may want to trap: a shell
cannot trap a signal that was ignored when it started (POSIX.1-2017, 2.11)."""


class CannotStart(Exception):
    """A step before the program's first instruction failed."""

    def __init__(self, step: str, code: int, path: bytes) -> None:
        super().__init__(step, code, path)
        self.report = (FAILED, step, code, path)


class Program:
    """A program, from its start to the end of its last descendant.

    Args:
        stdin: the descriptor of what it reads, unless the request has a path.
        defaults: the signals that it has at their defaults.
    """

    def __init__(
        self, request: ProgramRequest, stdin: int, defaults: Iterable[signal.Signals]
    ) -> None:
        self.request = request
        self.stdin = stdin
        self.defaults = defaults
        self.opened: list[int] = []
        self.scratch: Tree | None = None

    def start(self) -> int:
        """Start the program and return its pid.

        Raises:
            CannotStart: a step before the program's first instruction failed.
        """
        request = self.request
        directory, step, path = request["cwd"], "", b""
        try:
            if (base := request["scratch"]) is not None:
                step, path = "scratch", base
                scratch = os.path.join(base, b"grain-" + os.urandom(8).hex().encode())
                os.mkdir(scratch, 0o700)
                self.scratch = Tree(scratch)  # to be removed from now on
                request["env"] = {**request["env"], b"TMPDIR": scratch}
            if directory is None:
                assert self.scratch is not None  # the caller asks for one of the two at least
                directory = self.scratch.path
            step, path = "cwd", directory
            os.chdir(directory)
            # From here on: paths of streams, and of the program, are relative to that directory.
            streams = self._streams()
            step = "exec"
            path = request["argv"][0]
            if b"/" not in path:
                path = find(path, request["env"].get(b"PATH", DEFAULT_PATH))
            return os.posix_spawn(
                path,
                request["argv"],
                request["env"],
                # Those that this process has in their places are inherited as they are.
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(streams) if fd != n
                ],
                # A session of its own keeps the program away from the terminal and its Ctrl-C.
                setsid=True,
                setsigmask=(),
                setsigdef=self.defaults,
            )
        except OSError as error:
            if step == "exec":
                find(path, b"")  # raises if it is the program itself that is missing
            raise CannotStart(step, error.errno or 0, path) from None

    def _streams(self) -> tuple[int, int, int]:
        """Return descriptors of the three streams; open the ones that the request gives by path."""
        request = self.request
        stdin = self._open("stdin", request["stdin"], os.O_RDONLY, self.stdin)
        stdout = self._open("stdout", request["stdout"], OUTPUT, 1)
        if request["merged"]:
            return stdin, stdout, stdout
        return stdin, stdout, self._open("stderr", request["stderr"], OUTPUT, 2)

    def _open(self, name: str, path: bytes | None, flags: int, without: int) -> int:
        """Return the descriptor of a stream; without a path, that of this process."""
        if path is None:
            return without
        try:
            fd = os.open(path, flags, 0o666)
        except OSError as error:
            raise CannotStart(name, error.errno or 0, path) from None
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
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) and os.access(path, os.X_OK):
            return path
        failure = errno.EACCES
    raise CannotStart("find", failure, program)
