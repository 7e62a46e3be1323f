"""Which host and which process this is."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A process, told apart from all others.

    Attributes:
        host: the host's name, for people: names repeat, so nothing is decided by it.
        boot: the kernel's boot id. Containers on one kernel share it.
        space: inode of the process namespace; a pid means something only within one.
        pid: process id.
        start: start time in clock ticks since boot, since pids are used again.
    """

    host: str
    boot: str
    space: int
    pid: int
    start: int


def home() -> str:
    """What `$HOME` stands for; from the user's entry where it is not set, as in some batch jobs."""
    return str(Path.home())


def this_place() -> Place:
    """This very process."""
    pid = os.getpid()
    return Place(
        socket.gethostname(),
        Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        Path("/proc/self/ns/pid").stat().st_ino,
        pid,
        start_time(pid) or 0,
    )


def start_time(pid: int) -> int | None:
    """When a process started (proc(5): field 22 of stat), or None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may hold anything.
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(fields[18])
