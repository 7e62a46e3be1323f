"""Looking at processes, signalling them, hearing of their end."""

# ruff: noqa: PTH110, PTH123
# (no pathlib here; see the package)

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
# Caught instead of ignored: exec resets a caught signal to its default, an ignored one stays.
DEAF_TO = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "PIPE", "XFSZ", "TSTP", "TTIN", "TTOU")


def prctl(option: int, value: int | bytes) -> None:
    """Set an attribute of this process; see the manual page, as the library has no prctl."""
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
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return children_by_scan(pid)  # a kernel without CONFIG_PROC_CHILDREN
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
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
