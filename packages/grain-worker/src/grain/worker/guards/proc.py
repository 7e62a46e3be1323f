"""List, signal and reap processes."""

# ruff: noqa: PTH110, PTH116, PTH123
# (no pathlib here; see the package)

from __future__ import annotations

import ctypes
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36

CAUGHT = ("HUP", "INT", "QUIT", "TERM", "PIPE", "XFSZ", "TSTP", "TTIN", "TTOU")
"""Signals that must not end a guard. Caught, not ignored: exec resets a caught signal to its
default for the program, while an ignored one stays ignored."""

IGNORED = ("USR1", "USR2")
"""Signals with which batch systems warn a job. Ignored, also by the programs that are started from
here: Grid Engine, PBS and LSF send them to every process of a job, and a program that does not
expect them would die of the warning."""


def prctl(option: int, value: int | bytes) -> None:
    """Set an attribute of this process, by the system call that the library lacks.

    Raises:
        OSError: the kernel refuses.
    """
    word = ctypes.c_ulong
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else word(value)
    _call("prctl", option, argument, word(0), word(0), word(0))


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the C library, and return its result; OSError if that is negative."""
    result: int = getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def ignore_warnings() -> None:
    """Ignore the signals with which batch systems warn every process of a job, as children do."""
    for name in IGNORED:
        signal.signal(getattr(signal, "SIG" + name), signal.SIG_IGN)


def unguarded() -> None:
    """Have signals do in this process what they do in any Python: it was forked from a guard.

    A guard that executes a program need not: exec resets what is caught.
    """
    for name in CAUGHT:
        signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does when it begins
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def become_subreaper(name: bytes) -> None:
    """Adopt all orphans below this process (prctl(2)), and give it a name of up to 15 bytes."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_NAME, name)


def pidfd_of_parent() -> int | None:
    """Return a descriptor that becomes readable when the parent process dies.

    None before Linux 5.3: there, only the end of file on a socket shows the parent's death.
    """
    try:
        return os.pidfd_open(os.getppid())
    except (AttributeError, OSError):
        return None


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process (proc(5)); none if it is gone.

    Raises:
        OSError: it may not be looked at, as a set-uid program where /proc is mounted with
            ``hidepid``; or there are too many open files.
    """
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return children_by_scan(pid)  # a kernel without CONFIG_PROC_CHILDREN
    pids: list[int] = []
    folder = f"/proc/{pid}/task"
    try:
        # Two links are its own name and ".", the others are threads.
        threads = [str(pid)] if os.stat(folder).st_nlink == 3 else os.listdir(folder)
    except FileNotFoundError:
        return pids
    for thread in threads:
        try:
            pids += map(int, read_all(f"{folder}/{thread}/children").split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pids


def read_all(path: str) -> bytes:
    """Return a file of /proc; by fewer system calls than a file object takes.

    Raises:
        OSError: the process is gone, or may not be looked at.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 4096):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def children_by_scan(pid: int) -> list[int]:
    """Return the children of a process by the parent's pid in the status of every process."""
    pids: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The command, in parentheses, may itself have spaces and parentheses.
                    fields = file.read().rpartition(b")")[2].split()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if int(fields[1]) == pid:
                pids.append(int(name))
    return pids


def below(top: int) -> list[int] | None:
    """Return the pids of all processes below one; None if they cannot be listed for now.

    Those below a process that may not be looked at are missing.
    """
    pids: list[int] = []
    try:
        waiting = children(top)
    except OSError:
        return None
    while waiting:
        pid = waiting.pop()
        pids.append(pid)
        try:
            waiting += children(pid)
        except OSError:
            pass
    return pids


def send_signal(roots: list[int], *signals: int) -> list[int]:
    """Send signals to these processes and to all below them; return the pids of all of them.

    What is below a process that may not be looked at is not reached. It becomes a child of a
    subreaper, which reaches it then, when that process has ended.
    """
    reached: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        # List the children before the signal: a process that has ended no longer lists them.
        try:
            waiting += children(pid)
        except OSError:
            pass
        reached.append(pid)
        for number in signals:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                break  # it has ended, or runs as another user by a setuid bit
    return reached


def signal_below(*signals: int, but: Container[int] = ()) -> list[int] | None:
    """Send signals to all below this process.

    Args:
        but: children of this process that get none, with all below them.

    Returns:
        The pids of all that are there; None if that is unknown for now, as /proc cannot be read.
    """
    try:
        roots = children(os.getpid())
    except OSError:
        return None
    return send_signal([pid for pid in roots if pid not in but], *signals)


class Wakeup:
    """A descriptor that becomes readable when a child ends (signalfd(2)).

    So SIGCHLD interrupts nothing, and no handler runs: a program costs less than by
    `signal.set_wakeup_fd`. It stays blocked in this process; its children have to unblock it. Other
    signals do not end this process; their handlers do nothing.
    """

    def __init__(self) -> None:
        # Blocked, it arrives also where its default, to ignore it, is in place; but not where it
        # is ignored by choice, which this process may have inherited.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        mask = ctypes.create_string_buffer(128)  # sigset_t has that size at most
        _call("sigemptyset", mask)
        _call("sigaddset", mask, signal.SIGCHLD)
        self.fd = _call("signalfd", -1, mask, os.O_CLOEXEC)
        for name in CAUGHT:
            signal.signal(getattr(signal, "SIG" + name), lambda *_: None)
        ignore_warnings()

    def clear(self) -> None:
        """Make the descriptor unreadable until the next child ends. It has to be readable."""
        os.read(self.fd, 128)  # one siginfo; the kernel keeps no second one

    def close(self) -> None:
        """Close it; a process that was forked makes one of its own."""
        os.close(self.fd)
