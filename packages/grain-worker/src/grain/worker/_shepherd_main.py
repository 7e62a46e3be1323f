"""The shepherd and its keepers: the processes that start external programs and end them.

Run as a script, ``python -I -S _shepherd_main.py FD``, where FD is a connected socket. It imports
nothing but the standard library, and little of that, because every keeper is a copy of it.

Theory of operation:

1. The *caller* (a trio program) starts one *shepherd*, a small process with a single thread. The
   caller itself is never forked: it may be large and have threads.
2. The shepherd forks *keepers* on demand. A keeper minds one program at a time and serves again
   afterwards, so that a call costs one `posix_spawn` and no fork. (Forking even this small
   interpreter costs more than running ``/bin/true``: page tables, and pages copied on write.)
3. A keeper is a subreaper (PR_SET_CHILD_SUBREAPER in prctl(2)): whatever its program starts stays
   below it in the tree of processes, also after `setsid`, a double fork, or with an empty
   environment. Therefore ECHILD from wait(2) proves that nothing of the program is left.
4. A message, or the end of file, on a keeper's socket means that the caller gave up or died: the
   keeper ends the tree. So does the death of the caller's process while a process forked from it
   still holds the socket; its pidfd (pidfd_open(2)) tells.
5. The shepherd is a subreaper, too. If a keeper is killed, the processes it minded become the
   shepherd's children and are killed by it. This stands in for PR_SET_PDEATHSIG, which only the
   child itself could set, between a fork and its exec, and `posix_spawn` cannot.

Messages to a keeper (SOCK_SEQPACKET): ``r``: run the request, with stdin's descriptor attached if
it has one; anything else cancels. The request itself, of any size, stands in the memory file that
is to hold stdout; the keeper empties that before the program starts, so a request still in it was
never run. The answer is one marshalled tuple. Messages to the shepherd: ``k`` and a number, with
three descriptors: fork a keeper; ``s`` and its number, with one descriptor: close it as soon as
that keeper and all it left are gone. Marshal is safe here: both ends are the same interpreter on
the same machine, parent and child.
"""

# pathlib, contextlib and typing would cost each keeper a megabyte. Marshal: see above.
# ruff: noqa: PTH101, PTH102, PTH106, PTH108, PTH110, PTH113, PTH118, PTH123, PTH208, SIM105, S302
# ruff: noqa: PERF203

from __future__ import annotations

import ctypes
import errno
import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
INFINITE = float("inf")
UNKILLABLE = 30.0  # seconds from the first KILL until what survives it is reported
TAIL = 16384  # bytes of an error file that travel back
MERGED = 1  # a request's stderr: the same as stdout
# O_NONBLOCK while opening: a FIFO without a reader is an error rather than a hang.
OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
# Caught instead of ignored: exec resets a caught signal to its default, an ignored one stays.
DEAF_TO = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "PIPE", "XFSZ", "TSTP", "TTIN", "TTOU")


class CannotStart(Exception):  # noqa: N818 (never leaves this process)
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


def prctl(option: int, value: int | bytes) -> None:
    """Set an attribute of this process; the standard library does not offer prctl(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.c_ulong
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else word(value)
    if libc.prctl(option, argument, word(0), word(0), word(0)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Take one message and its descriptors; no bytes at all mean that the peer is gone."""
    try:
        data, control, _, _ = sock.recvmsg(64, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return b"", []
    fds: list[int] = []
    for level, kind, payload in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += struct.unpack(f"={len(payload) // 4}i", payload[: len(payload) // 4 * 4])
    return data, fds


def children(pid: int) -> list[int]:
    """The children of all threads of a process (proc(5)); none if it is gone."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            return children_by_scan(pid)  # a kernel without CONFIG_PROC_CHILDREN
    except ProcessLookupError:
        pass
    return found


def children_by_scan(pid: int) -> list[int]:
    """The same from the parent's pid that stands in every process's status."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == pid:
                found.append(int(name))
    return found


def send_signal(roots: list[int], *signals: int) -> list[int]:
    """Signal these processes and everything below them; return whom."""
    reached: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        # Children first read, then signalled: a process that has ended no longer lists them.
        waiting += children(pid)
        reached.append(pid)
        for number in signals:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                break  # it ended by itself, or runs as somebody else by a setuid bit
    return reached


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


class Wakeup:
    """Turns SIGCHLD into a readable descriptor, and keeps other signals from ending us."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for name in ("CHLD", *DEAF_TO):
            signal.signal(getattr(signal, "SIG" + name), lambda *_: None)

    def clear(self) -> None:
        try:
            while len(os.read(self.fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._write)


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
            self.scratch = os.path.join(base, b"grain-" + os.urandom(8).hex().encode())
            with Step("scratch", base):
                os.mkdir(self.scratch, 0o700)
            request["env"][b"TMPDIR"] = self.scratch
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


class Keeper:
    """Minds one program after the other until its socket is closed."""

    def __init__(self, fds: list[int], caller: int | None) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NAME, b"grain-keeper")
        self.socket = socket.socket(fileno=fds[0])
        self.out, self.err = fds[1:]
        self.home = os.sched_getaffinity(0)
        self.wakeup = Wakeup()
        self.cancelled = False
        self.callers = [fd for fd in (self.socket.fileno(), caller) if fd is not None]
        self.poll = select.poll()
        for fd in (self.wakeup.fd, *self.callers):
            self.poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        """Answer requests until the caller is gone or cancels one."""
        while not self.cancelled:
            events = dict(self.poll.poll())
            if self.wakeup.fd in events:
                self.wakeup.clear()
            elif self.socket.fileno() not in events:
                return
            else:
                message, fds = receive(self.socket)
                if message != b"r":
                    return
                self.answer(self.run(fds))
                for fd in fds:
                    os.close(fd)

    def answer(self, report: tuple[Any, ...]) -> None:
        try:
            self.socket.send(marshal.dumps(report))
        except OSError:
            pass  # nobody is left to know; the next poll says so

    def run(self, fds: list[int]) -> tuple[Any, ...]:
        """Run one program to the end of its last descendant and report."""
        request = marshal.loads(os.pread(self.out, os.fstat(self.out).st_size, 0))
        os.ftruncate(self.out, 0)
        # The program inherits the keeper's affinity: posix_spawn(3) has no attribute for it.
        os.sched_setaffinity(0, request["cpus"] or self.home)
        streams = {"stdin": (fds or [-1])[0], "stdout": self.out, "stderr": self.err}
        program = Program(request, streams)
        began = time.monotonic()
        try:
            status, seconds, usage = self.mind(program.start(), began, request["grace"])
            tail = program.error_tail() if status else b""
        except CannotStart as failure:
            return failure.report
        finally:
            program.close()
        return ("ended", status, seconds, *usage, tail)

    def mind(self, main: int, began: float, grace: float) -> tuple[int, float, list[float]]:
        """Wait until nothing of a program is left; end what outlives it, or all on request."""
        status, seconds, usage = -1, 0.0, [0.0, 0.0, 0.0]
        kill_at = report_at = INFINITE
        pause = 0.01
        while True:
            # ECHILD, and only that, says that the tree is gone.
            try:
                pid, ended, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return status, seconds, usage
            if pid:
                usage[0] += used.ru_utime
                usage[1] += used.ru_stime
                usage[2] = max(usage[2], used.ru_maxrss)
                if pid == main:
                    status, seconds = ended, time.monotonic() - began
                continue
            now = time.monotonic()
            timeout = None
            if status != -1 or self.cancelled:
                if kill_at == INFINITE:
                    # A stopped process acts on TERM only when it continues.
                    send_signal(children(os.getpid()), signal.SIGTERM, signal.SIGCONT)
                    kill_at, report_at = now + grace, now + grace + UNKILLABLE
                if now >= kill_at:
                    # Again and again: a process may have been born behind the walk's back.
                    left = send_signal(children(os.getpid()), signal.SIGKILL)
                    pause = min(2 * pause, 1.0)
                    if now >= report_at:
                        self.answer(("stuck", left))
                        report_at = INFINITE
                timeout = 1000 * max(kill_at - now, pause)
            self.wait(timeout)

    def wait(self, timeout: float | None) -> None:
        """Wait for a child's end or the caller's word, for some milliseconds at most."""
        for fd, _ in self.poll.poll(timeout):
            if fd == self.wakeup.fd:
                self.wakeup.clear()
            elif not self.cancelled:
                self.cancelled = True
                for unneeded in self.callers:
                    self.poll.unregister(unneeded)


class Shepherd:
    """Forks keepers, and kills what a keeper that was killed has left."""

    def __init__(self, fd: int) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NAME, b"grain-shepherd")
        self.control = socket.socket(fileno=fd)
        self.wakeup = Wakeup()
        try:
            self.caller: int | None = os.pidfd_open(os.getppid())
        except (AttributeError, OSError):
            self.caller = None  # before Linux 5.3 the socket alone has to tell
        self.keepers: dict[int, int] = {}  # a keeper's pid: the number the caller gave it
        self.watches: list[tuple[int, int]] = []
        self.orphans = False  # there may be some

    def serve(self) -> None:
        """Work until the caller is gone and so are all keepers."""
        poll = select.poll()
        for fd in (self.control.fileno(), self.wakeup.fd, self.caller):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        while self.tend() or self.control.fileno() != -1:
            for fd, _ in poll.poll(50 if self.orphans else None):
                if fd == self.wakeup.fd:
                    self.wakeup.clear()
                    continue
                message, fds = b"", list[int]()
                if fd == self.control.fileno():
                    message, fds = receive(self.control)
                if message[:1] == b"k":
                    self.fork(int(message[1:]), fds)
                elif message[:1] == b"s":
                    self.watches.append((int(message[1:]), fds[0]))
                else:
                    for unneeded in (self.control.fileno(), self.caller):
                        if unneeded is not None:
                            poll.unregister(unneeded)
                    self.control.close()
                    break

    def fork(self, number: int, fds: list[int]) -> None:
        """Fork a keeper; the child does not return."""
        pid = os.fork()
        if pid:
            self.keepers[pid] = number
            for fd in fds:
                os.close(fd)
            return
        self.control.close()
        self.wakeup.close()
        for _, fd in self.watches:
            os.close(fd)
        Keeper(fds, self.caller).serve()
        os._exit(0)

    def tend(self) -> bool:
        """Reap, kill orphans, answer those who wait for it; say whether children are left."""
        alive = True
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self.keepers.pop(ended[0], None)
                # A keeper that ends by itself leaves nothing.
                self.orphans = self.orphans or ended[1] != 0
        except ChildProcessError:
            alive = False
        if self.orphans:
            orphans = [pid for pid in children(os.getpid()) if pid not in self.keepers]
            self.orphans = bool(send_signal(orphans, signal.SIGKILL))
        for watch in list(self.watches):
            if watch[0] not in self.keepers.values() and not self.orphans:
                os.close(watch[1])
                self.watches.remove(watch)
        return alive


def main() -> None:
    """Be the shepherd."""
    fd = int(sys.argv[1])
    for name in os.listdir("/proc/self/fd"):
        # Descriptors which the caller inherited itself, and that are not marked close-on-exec.
        if int(name) > 2 and int(name) != fd:
            os.closerange(int(name), int(name) + 1)  # silent about the listing's own
    os.set_inheritable(fd, False)
    os.chdir("/")
    shepherd = Shepherd(fd)
    gc.collect()
    gc.freeze()  # a collection would write to, and so copy, every page of every keeper
    shepherd.serve()


if __name__ == "__main__":
    main()
