"""The identity of this process, its user and its host, and of other processes of this host."""

# ruff: noqa: PTH116, PTH123
# No pathlib: it interns each part of a path (sys.intern). A head asks here for each of its peers,
# and Python's table of interned strings grows by all those names, which some versions never forget.

from __future__ import annotations

import functools
import os
import pwd
import re
import zlib
from typing import NamedTuple


class ProcessIdentity(NamedTuple):
    """The identity of a process, different from that of any other.

    Attributes:
        host: the host's name, only for display: names repeat, so nothing is decided by it.
        machine: a short digest of its machine id, see machine-id(5); "" if there is none. Hosts
            that were made from one image may share it.
        boot: the kernel's boot id. Containers on one kernel share it.
        space: inode of the process namespace; a pid means something only within one.
        start: start time in clock ticks since boot, since pids are used again.
    """

    host: str
    machine: str
    boot: str
    space: int
    pid: int
    start: int

    @property
    def kernel(self) -> str:
        """The kernel and the process namespace, as one word: a pid means something within both."""
        return f"{self.boot}/{self.space}"


def this_process() -> ProcessIdentity:
    """Return the identity of this process."""
    return _identity(os.getpid())


@functools.lru_cache(maxsize=1)  # a process that was forked from this one has another pid
def _identity(pid: int) -> ProcessIdentity:
    from _socket import gethostname  # that of the module socket, which takes its time

    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    space = os.stat("/proc/self/ns/pid").st_ino
    host = gethostname()
    return ProcessIdentity(host, machine_digest(), boot, space, pid, start_time(pid) or 0)


def machine_digest(path: str = "/etc/machine-id") -> str:
    """Return a short digest of the machine id; "" if there is none.

    The id itself is to be kept on its machine.
    """
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read().strip()
    except OSError:
        return ""
    # It is empty, or says "uninitialized", before the first boot of an image.
    if not re.fullmatch("[0-9a-f]{32}", text):
        return ""
    # Of hosts that have the same name, it only has to tell one from another. hashlib would load
    # OpenSSL, for commands that tools call every second.
    return f"{zlib.crc32(text.encode()):08x}"


class PeerProcess(NamedTuple):
    """The process of a peer on this host.

    Attributes:
        start: its start time, as `start_time` returns it.
    """

    pid: int
    start: int

    @property
    def alive(self) -> bool:
        """True if the process has not ended; a stopped process is alive."""
        return start_time(self.pid) == self.start

    @property
    def stopped(self) -> bool:
        """True if the process does not run, as after SIGSTOP, until it is continued."""
        return self.alive and is_stopped(self.pid)


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot: field 22 of stat in proc(5).

    None if the process has ended, also if it is a zombie.
    """
    fields = _stat(pid)
    return None if fields[0] in "ZX" else int(fields[19])


def is_stopped(pid: int) -> bool:
    """Return True if a process is stopped, by a signal or by a debugger."""
    return _stat(pid)[0] in "Tt"


def _stat(pid: int) -> list[str]:
    """Return the fields of stat in proc(5) from the state on: X if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            stat = file.read()
    except OSError:
        return ["X"]
    # The second field is the program's name in parentheses, which may hold anything.
    return stat[stat.rindex(")") + 2 :].split()


def user_name(uid: int | None = None) -> str:
    """Return the name of a user, this one by default; the number where there is none.

    A container, or a host that cannot ask its directory of users, knows no names.
    """
    uid = os.geteuid() if uid is None else uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def user_and_host() -> str:
    """Return this user and this host, by which others see who has given a command."""
    return f"{user_name()} on {this_process().host}"


def marked(mark: bytes) -> list[int]:
    """Return the processes that began with a mark in their environment, as far as one may look.

    A process that has ended has no environment, even if it was not reaped yet.
    """
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read()
            except OSError:
                continue  # another user's, or it has ended
            if mark in environment:
                pids.append(int(name))
    return pids
