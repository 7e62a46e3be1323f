"""One external program: found, started, and tidied up after."""

# ruff: noqa: PTH101, PTH102, PTH106, PTH108, PTH110, PTH113, PTH118, PTH123
# (no pathlib here; see the package)

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TAIL = 16384  # bytes of an error file that travel back
MERGED = 1  # a request's stderr: the same as stdout
# O_NONBLOCK while opening: a FIFO without a reader is an error rather than a hang.
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK


class CannotStart(Exception):
    """A step before the program's first instruction failed."""

    def __init__(self, step: str, code: int, path: bytes) -> None:
        super().__init__(step, code, path)
        self.report = ("failed", step, code, path)


class Step:
    """A step of a start: reports an OSError of its block as `CannotStart`."""

    def __init__(self, name: str, path: bytes) -> None:
        self.name = name
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise CannotStart(self.name, error.errno or 0, self.path) from None


class Program:
    """One program from its start to the end of its last descendant."""

    def __init__(self, request: dict[str, Any], fds: dict[str, int]) -> None:
        self.request = request
        self.fds = fds  # what the caller handed over for the streams without a path
        self.opened: list[int] = []
        self.scratch: bytes | None = None

    def start(self) -> int:
        """Start it and return its pid; raise `CannotStart`."""
        request = self.request
        if isinstance(base := request["scratch"], bytes):
            scratch = os.path.join(base, b"grain-" + os.urandom(8).hex().encode())
            with Step("scratch", base):
                os.mkdir(scratch, 0o700)
            self.scratch = scratch  # ours to remove from now on
            request["env"][b"TMPDIR"] = scratch
        directory: Any = request["cwd"] or self.scratch
        with Step("cwd", directory):
            os.chdir(directory)
        streams = self._streams()
        # The child gets its own session, away from the terminal and its Ctrl-C.
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
            )

    def _streams(self) -> tuple[int, int, int]:
        """Open what is given by path, relative to the program's directory."""
        stdin = self._open("stdin", os.O_RDONLY)
        stdout = self._open("stdout", OUTPUT)
        stderr = stdout if self.request["stderr"] == MERGED else self._open("stderr", OUTPUT)
        return stdin, stdout, stderr

    def _open(self, name: str, flags: int) -> int:
        path = self.request[name]
        if path is None:
            return self.fds[name]
        with Step(name, path):
            fd = os.open(path, flags, 0o666)
        self.opened.append(fd)
        os.set_blocking(fd, True)
        return fd

    def error_tail(self) -> bytes:
        """The end of the file that holds the program's stderr."""
        path = self.request["stderr"]
        if path == MERGED:
            path = self.request["stdout"]
        if not isinstance(path, bytes):
            return b""
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
                return file.read(TAIL)
        except OSError:
            return b""

    def close(self) -> None:
        for fd in self.opened:
            os.close(fd)
        os.chdir("/")  # hold no directory that others may want to unmount
        if self.scratch is not None:
            remove_tree(self.scratch)


def find(program: bytes, search: bytes) -> bytes:
    """Find a program where execvp(3) would, or raise `CannotStart`."""
    failure = errno.ENOENT
    for place in [b""] if b"/" in program else search.split(b":"):
        path = os.path.join(place, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        if os.path.exists(path):
            failure = errno.EACCES
    raise CannotStart("find", failure, program)


def remove_tree(path: bytes) -> None:
    """Delete a directory with everything in it, as far as permissions allow."""
    try:
        os.chmod(path, 0o700)
        with os.scandir(path) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(path)
    except OSError:
        pass
