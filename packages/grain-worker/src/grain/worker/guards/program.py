"""One external program: search, start, captured output, clean-up."""

# ruff: noqa: PTH100, PTH102, PTH103, PTH108, PTH110, PTH116, PTH118, PTH120, PTH123, PTH211
# (no pathlib here; see the package)

from __future__ import annotations

import errno
import os
import resource
import signal
import stat

from .protocol import FAILED
from .removal import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal, NoReturn

    from .protocol import ProgramRequest

TAIL = 16384
"""Bytes at the end of a file with output that travel back."""

# O_NONBLOCK during open(2): a FIFO without a reader is an error rather than a hang. O_APPEND: what
# others write into the same file is not overwritten, and one that is emptied meanwhile has no hole.
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK

IN_MEMORY = 1 << 20
"""Bytes of a stream up to which it is captured in memory."""

PIECE = 1 << 16  # as much as a pipe has room for

_MOST = 16
"""Pieces that a pipe may hold when its program is over: Linux lets users have pipes of 1 MiB."""

MOST_LINKS = 40  # as many as Linux follows

DEFAULT_PATH = os.defpath.encode()

PID = b"SLURM_TASK_PID"
"""The variable that is empty in the environment of a job's script, and gets its number."""

WARNINGS = frozenset({signal.SIGUSR1, signal.SIGUSR2})
"""Signals that a guard ignores (`proc.IGNORED`), and that a batch job may want to trap: a shell
cannot trap a signal that was ignored when it started (POSIX.1-2017, 2.11)."""


class CannotStart(Exception):
    """A step before the program's first instruction failed."""

    def __init__(self, step: str, code: int, path: bytes) -> None:
        super().__init__(step, code, path)
        self.report = (FAILED, step, code, path)


class Links:
    """The directory for the link by which a script is called; made for the first one.

    A shell calls a script by that path in its messages, and in ``$0``.
    """

    def __init__(self) -> None:
        self.folder: Tree | None = None
        self.link = b""

    def make(self, path: bytes, name: bytes) -> bytes:
        """Return the path of a link of some name; the path itself, where none can be made."""
        try:
            if self.folder is None:
                self._make_folder()
            assert self.folder is not None
            self.link = os.path.join(self.folder.path, name)
            try:
                os.symlink(path, self.link)
            except FileNotFoundError:  # it was removed, as files in /tmp are that are old
                self._make_folder()
                self.link = os.path.join(self.folder.path, name)
                os.symlink(path, self.link)
        except OSError:
            self.link = b""
        return self.link or path

    def _make_folder(self) -> None:
        base = os.path.abspath(os.environb.get(b"TMPDIR") or b"/tmp")
        folder = os.path.join(base, b"grain-" + os.urandom(8).hex().encode())
        os.mkdir(folder, 0o700)
        self.folder = Tree(folder)  # to be removed from now on

    def clear(self) -> None:
        """Remove the link of a program that has ended, with all that it has put beside it."""
        if self.link:
            assert self.folder is not None
            try:
                os.unlink(self.link)
                if not os.listdir(self.folder.path):
                    return
            except OSError:
                pass
            finally:
                self.link = b""
            self.close()

    def close(self) -> None:
        """Remove the directory; the next link makes another one."""
        if self.folder is not None:
            self.folder.remove()
            self.folder = None


class Spill:
    """A stream of one program: its pipe, its memory file, and its file if there is much of it.

    The program waits while the pipe is full, so memory stays flat however much it writes. Without a
    pipe, in the memory file itself, it would write faster than any file takes it.

    Args:
        memory: the descriptor of the memory file.
        path: the file for a large output, with its directory, which may be missing.

    Attributes:
        ours: the end of the pipe that this process reads.
        theirs: the end for the program. It stays open here: a program that ends would otherwise
            wake this process once more, by the end of its pipe.
        path: the file that has all of the output; None if the memory file has it.
        size: the bytes so far.
        error: the number of the error for which the output is lost; 0 if there was none.
    """

    def __init__(self, memory: int, path: bytes) -> None:
        self.path: bytes | None = None
        self.size = self.error = 0
        self._memory = memory
        self._wanted = path
        self._file = -1
        self.ours, self.theirs = os.pipe()
        os.set_blocking(self.ours, False)

    def read(self) -> bool:
        """Store a piece; return False if there is none, or it could not be stored.

        Then the pipe is closed, so that the program gets SIGPIPE, and does not go on for hours to
        lose its output in the end.
        """
        try:
            data = os.read(self.ours, PIECE)
        except BlockingIOError:
            return False
        try:
            self._store(data)
        except OSError as error:
            self.error = error.errno or errno.EIO
            self._close_pipe()
            return False
        return True

    def end(self) -> None:
        """Store what is left in the pipe, as the program has ended, and close all."""
        for _ in range(_MOST + 1):
            if self.ours < 0 or not self.read():
                break
        self.close()

    def close(self) -> None:
        """Close all, and remove the file of an output that is lost."""
        self._close_pipe()
        if self._file >= 0:
            try:
                os.close(self._file)
            except OSError as error:  # NFS says only here that its disk is full
                self.error = error.errno or errno.EIO
            self._file = -1
        if self.error:
            os.ftruncate(self._memory, 0)
            if self.path is not None:
                try:
                    os.unlink(self.path)
                except OSError:
                    pass
                self.path = None

    def _store(self, data: bytes) -> None:
        self.size += len(data)
        if self.path is None and self.size > IN_MEMORY:
            self._begin_file()
        write_all(self._memory if self.path is None else self._file, data)

    def _begin_file(self) -> None:
        """Make the file, and move into it what the memory file has."""
        umask = os.umask(0o077)
        try:
            os.makedirs(os.path.dirname(self._wanted), exist_ok=True)
        finally:
            os.umask(umask)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._wanted, flags, 0o600)
        self.path = self._wanted
        write_all(self._file, os.pread(self._memory, IN_MEMORY, 0))
        os.ftruncate(self._memory, 0)

    def _close_pipe(self) -> None:
        for fd in (self.ours, self.theirs):
            if fd >= 0:
                os.close(fd)
        self.ours = self.theirs = -1


class Program:
    """A program, from its start to the end of its last descendant.

    Args:
        stdin: the descriptor of what it reads, unless the request has a path.
        defaults: the signals that it has at their defaults.
        changed: those of them that this process has not.
        links: where a link to it is made, if it has a name of its own.
    """

    def __init__(
        self,
        request: ProgramRequest,
        stdin: int,
        defaults: Iterable[signal.Signals],
        changed: Iterable[signal.Signals],
        links: Links,
    ) -> None:
        self.request = request
        self.stdin = stdin
        self.defaults = defaults
        self.changed = changed
        self.links = links
        self.opened: list[int] = []
        self.spills: dict[str, Spill] = {}
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
                env = request["env"]
                # See `grain.worker.processes.environment.GIVEN`.
                given = env.get(b"GRAIN_GIVEN", b"") + b"TMPDIR=" + scratch + b"\n"
                request["env"] = {**env, b"TMPDIR": scratch, b"GRAIN_GIVEN": given}
            if directory is None:
                assert self.scratch is not None  # the caller asks for one of the two at least
                directory = self.scratch.path
            step, path = "cwd", directory
            os.chdir(directory)
            # From here on: paths of streams, and of the program, are relative to that directory.
            streams = self._streams()
            step = "exec"
            path, *words = request["argv"]
            if request["name"] is not None:
                path = self.links.make(path, request["name"])
                request["argv"] = [path, *words]
            if b"/" not in path:
                path = find(path, request["env"].get(b"PATH", DEFAULT_PATH))
            try:
                return self._spawn(path, request["argv"], streams)
            except OSError as error:
                if error.errno != errno.ENOEXEC or request["shell"] is None:
                    raise
            return self._spawn(b"/bin/sh", [b"sh", path, *words], streams)
        except OSError as error:
            if step == "exec":
                find(path, b"")  # raises if it is the program itself that is missing
            raise CannotStart(step, error.errno or 0, path) from None

    def _spawn(self, path: bytes, argv: list[bytes], streams: tuple[int, int, int]) -> int:
        """Start a program at a path and return its pid.

        Raises:
            OSError: it cannot be executed.
        """
        limits = {} if self.request["shell"] is None else other_limits(self.request["shell"][1])
        if limits or self.request["env"].get(PID) == b"":
            return self._fork(path, argv, streams, limits)
        return os.posix_spawn(
            path,
            argv,
            self.request["env"],
            # Those that this process has in their places are inherited as they are.
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(streams) if fd != n],
            # A session of its own keeps the program away from the terminal and its Ctrl-C.
            setsid=True,
            setsigmask=(),
            setsigdef=self.defaults,
        )

    def _fork(
        self, path: bytes, argv: list[bytes], streams: tuple[int, int, int], limits: dict[int, int]
    ) -> int:
        """Start a program that has limits of its own, or a variable with its number.

        posix_spawn(3) has neither. Errors as of `_spawn`.

        Rejected: limits of this process for the moment of the start, as it may itself be above
        those of CPU time or memory.
        """
        failure, theirs = os.pipe()
        try:
            pid = os.fork()
            if not pid:
                os.close(failure)
                become(path, argv, self.request["env"], streams, self.changed, limits, theirs)
        except OSError:
            os.close(failure)
            raise
        finally:
            os.close(theirs)
        with open(failure, "rb") as file:
            code = file.read()  # to its end, which execve(2) makes
        if code:
            os.waitpid(pid, 0)
            raise OSError(int(code), "")
        return pid

    def _streams(self) -> tuple[int, int, int]:
        """Return descriptors of the three streams; open the ones that the request gives by path."""
        request = self.request
        stdin = self._open("stdin", request["stdin"], os.O_RDONLY, self.stdin)
        out, err = (OUTPUT if append else OUTPUT | os.O_TRUNC for append in request["append"])
        if request["shell"] is not None:
            # Here, as they get its umask.
            self._make_parents("stdout")
            self._make_parents("stderr")
        stdout = self._open("stdout", request["stdout"], out, 1)
        if request["merged"]:
            return stdin, stdout, stdout
        return stdin, stdout, self._open("stderr", request["stderr"], err, 2)

    def _make_parents(self, name: Literal["stdout", "stderr"]) -> None:
        path = self.request[name]
        try:
            if path is not None:
                os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise CannotStart(name, error.errno or 0, path or b"") from None

    def _open(self, name: str, path: bytes | None, flags: int, without: int) -> int:
        """Return the descriptor of a stream; without a path, that of this process, or a pipe."""
        if path is None:
            folder = self.request["overflow"]
            if folder is None or name == "stdin":
                return without
            place = os.path.join(folder, os.urandom(8).hex().encode())
            self.spills[name] = spill = Spill(without, place)
            return spill.theirs
        try:
            if flags & os.O_TRUNC and self._is_input(path):
                raise CannotStart("input", errno.EINVAL, path)
            fd = os.open(path, flags) if name == "stdin" else open_output(path, flags)
        except OSError as error:
            raise CannotStart(name, error.errno or 0, path) from None
        self.opened.append(fd)
        # The program inherits the open file with its flags, and expects writes that wait.
        os.set_blocking(fd, True)
        return fd

    def _is_input(self, path: bytes) -> bool:
        """Return True if an output is the file that is read, which opening it would empty."""
        if self.request["stdin"] is None or not os.path.exists(path):
            return False
        there = os.stat(path)
        return stat.S_ISREG(there.st_mode) and os.path.samestat(there, os.fstat(self.opened[0]))

    def tails(self) -> tuple[bytes, bytes]:
        """Return the ends of the files that have the program's stderr and its stdout apart from it.

        Nothing for one that was captured in memory.
        """
        out, err = (
            self.spills[name].path if name in self.spills else self.request[name]
            for name in ("stdout", "stderr")
        )
        return (tail_of(out), b"") if self.request["merged"] else (tail_of(err), tail_of(out))

    def spilled(self) -> tuple[tuple[bytes, int] | None, tuple[bytes, int] | None, int]:
        """Return path and size of stdout, and of stderr, if that was too large for memory.

        And the number of the error for which an output is lost, or 0.
        """
        out, err = (self.spills.get(name) for name in ("stdout", "stderr"))
        return (
            None if out is None or out.path is None else (out.path, out.size),
            None if err is None or err.path is None else (err.path, err.size),
            max((spill.error for spill in self.spills.values()), default=0),
        )

    def close(self) -> None:
        """Close the files and remove the scratch directory; the program has ended."""
        for fd in self.opened:
            os.close(fd)
        for spill in self.spills.values():
            spill.close()
        os.chdir("/")  # hold no directory that others may want to unmount
        if self.scratch is not None:
            self.scratch.remove()
        self.links.clear()


def write_all(fd: int, data: bytes) -> None:
    """Write bytes to a file.

    Raises:
        OSError: they cannot be written as a whole.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def tail_of(path: bytes | None) -> bytes:
    """Return the end of a regular file; nothing of any other, such as a FIFO, which others read."""
    if path is None:
        return b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(fd, TAIL, max(0, status.st_size - TAIL))
    except OSError:
        return b""
    finally:
        os.close(fd)


def open_output(path: bytes, flags: int) -> int:
    """Open a file for writing, through no link that another user has made; return its descriptor.

    Where others may write they could lead us to a file of our own. It is the same as
    `grain.files.trust.open_output`, which cannot be imported here.

    Raises:
        CannotStart: it is such a link.
        OSError: it cannot be opened.
    """
    for _ in range(MOST_LINKS):
        try:
            return os.open(path, flags | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        # By a descriptor, so that the link whose owner is looked at is the one that is followed.
        link = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            if os.fstat(link).st_uid not in (0, os.geteuid()):
                raise CannotStart("link", errno.EPERM, path)
            if path.startswith(b"/proc/"):  # whose links, as of an open file, have no path
                return os.open(path, flags, 0o666)
            path = os.path.join(os.path.dirname(path), os.readlink(b"", dir_fd=link))
        finally:
            os.close(link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def other_limits(wanted: dict[int, int]) -> dict[int, int]:
    """Return those of some soft limits that this process does not have."""
    return {
        number: limit for number, limit in wanted.items() if resource.getrlimit(number)[0] != limit
    }


def become(
    path: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    streams: tuple[int, int, int],
    defaults: Iterable[signal.Signals],
    limits: dict[int, int],
    failure: int,
) -> NoReturn:
    """Have this process, a fork, become a program.

    Args:
        limits: soft limits, by their numbers; one above the hard limit becomes that, and a line
            on the program's stderr says so.
        failure: where the errno is written if it cannot be executed.
    """
    try:
        os.setsid()
        for place, fd in enumerate(streams):
            if fd == place:
                os.set_inheritable(fd, True)
            else:
                os.dup2(fd, place)
        for one in defaults:
            signal.signal(one, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        possible = {number: possible_limit(number, soft) for number, soft in limits.items()}
        # Before a limit of the size of files holds.
        for number, soft in limits.items():
            if possible[number][0] != soft:
                os.write(2, missing_limit(number, soft, possible[number][0]))
        for number, pair in possible.items():
            resource.setrlimit(number, pair)
        if env.get(PID) == b"":
            env = {**env, PID: b"%d" % os.getpid()}
        os.execve(path, argv, env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(failure, b"%d" % (error.errno or errno.EINVAL))
    finally:
        os._exit(127)


def possible_limit(number: int, soft: int) -> tuple[int, int]:
    """Return a soft limit as far as it is possible here, and the hard limit, which stays."""
    hard = resource.getrlimit(number)[1]
    if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
        return hard, hard
    return soft, hard


def missing_limit(number: int, wanted: int, most: int) -> bytes:
    """Return the line on a soft limit that is not possible here."""
    name = next(
        name
        for name in dir(resource)
        if name.startswith("RLIMIT_") and getattr(resource, name) == number
    )
    what = "unlimited" if wanted == resource.RLIM_INFINITY else wanted
    return (
        f"grain: {name} is {what} where the job was submitted, and {most} here, as the hard limit "
        "of this host is not higher\n"
    ).encode()


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
