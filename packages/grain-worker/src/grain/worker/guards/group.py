"""The control group of a supervisor: the memory and the CPU time of what it runs (cgroups(7)).

1. A supervisor enters a group of its own when it begins, and stays there. So programs are born in
   that group, without a step between fork and exec, which `posix_spawn` has no room for; and
   whatever they start is in it, too, wherever it moves in the tree of processes. To enter a group
   may take 10 ms of waiting, but happens once, as supervisors serve one program after another.
2. Hence figures of a program are differences, between its begin and its end; and its peak needs a
   ``memory.peak`` that can be reset, as it can from Linux 6.12 on. A group for each program would
   do without, but costs that wait for each. Moreover the kernel keeps a group that was removed as
   long as a page of a file that it has read is in the cache: 25 kB, and 2 kB for each CPU; and a
   week may have millions of programs.
3. A group is charged for the page cache, too, which the kernel drops when memory is needed.
   That does not count, since no program needs as much memory as the files that it reads. The cache
   at the moment of a peak is unknown, but not that at the looks before and after it. The larger of
   them is taken off the peak between two looks, and the figure is never below what a look finds.
   So it is too high only by files that were written and removed again between two looks.
4. Files in memory (tmpfs, segments of System V) count; and what is left of them when the program
   has ended does not count for the next one.
5. The group of a program that may have so much memory and no more has that as its limit, so that
   not even the fastest one takes the memory of others. The kernel was not at hand for a test: what
   is tried is which file gets which figure.
6. The kernel adds a process's CPU time to its parent's when that waits for it, but not when the
   parent ignores SIGCHLD. The group has all of it.

Only version 2. Sites do not hand groups of version 1 to users, who could then escape their limits;
systemd and the kernel are about to drop it.
"""

# ruff: noqa: PTH102, PTH106
# (no pathlib here; see the package)

from __future__ import annotations

import os
import time

TYPE_CHECKING = False

PREFIX = "grain-"
"""The beginning of the names of the groups; a supervisor's pid follows."""

NOISE = 0.01
"""Seconds of CPU time by which a group and the sum of its processes may differ: the kernel charges
a group now and then, not at each moment."""

UNCHANGED = 1_000_000
"""Bytes by which the memory of a group may change while no program runs, and count as the same."""

SIZE = 16384  # bytes of the largest of these files, memory.stat, twice


class GroupMemory:
    """The memory of a group, for one program after another.

    Raises:
        OSError: the kernel has no such figures for the group, or cannot begin again with a peak.
    """

    def __init__(self, path: str) -> None:
        # First the flag that most kernels refuse: nothing is left open then.
        self._total = os.open(f"{path}/memory.peak", os.O_RDWR)
        self._limit = f"{path}/memory.max"
        self._most: float | None = None
        self._stat = os.open(f"{path}/memory.stat", os.O_RDONLY)
        self._current = os.open(f"{path}/memory.current", os.O_RDONLY)
        self._read()
        self.begin()

    def begin(self, most: float | None = None) -> None:
        """Begin with a program.

        Args:
            most: the bytes that it may have; None for as many as it gets.

        Raises:
            OSError: as on making one.
        """
        # Mostly nothing has changed since the look at the end of the program before. To read
        # memory.stat has the kernel add up the counts of all CPUs.
        if abs(number(self._current) - self._used - self._cached) > UNCHANGED:
            self._read()
        self._peak = self._base = self._used
        if most != self._most:
            # Over it the kernel drops the page cache of the group, and then kills its largest
            # process. With memory.oom.group it would kill all, the supervisor among them.
            self._most = most
            data = b"max" if most is None else b"%d" % (self._base + most)
            try:
                write(self._limit, data)
            except OSError:
                pass  # then looks guard it, as elsewhere

    def look(self) -> float:
        """Look at the memory since the last look; return the peak since the begin, in bytes.

        Raises:
            OSError: the controller was taken away.
        """
        cached_before = self._cached
        total = self._read()
        self._peak = max(self._peak, self._used, total - max(cached_before, self._cached))
        return self._peak - self._base

    @property
    def used(self) -> float:
        """The bytes in use at the last look, but for what was there at the begin."""
        return self._used - self._base

    def _read(self) -> int:
        """Read what is in use, and what the kernel could drop; return the peak of both since then.

        The next peak begins now, for this descriptor.
        """
        total = number(self._total)
        os.write(self._total, b"reset\n")
        stat = os.pread(self._stat, SIZE, 0)
        self._cached = (
            field(stat, b"file") - field(stat, b"shmem") + field(stat, b"slab_reclaimable")
        )
        self._used = number(self._current) - self._cached
        return total


class Group:
    """The group of this process, which enters it.

    Raises:
        OSError: it cannot be made or entered.
    """

    def __init__(self, parent: str) -> None:
        path = path_of_group(parent, os.getpid())
        try:
            os.mkdir(path)
        except FileExistsError:
            pass  # of a process that was killed, which had the same pid
        enter(path, 0)
        self._cpu = os.open(f"{path}/cpu.stat", os.O_RDONLY)
        self.memory: GroupMemory | None = None
        try:
            self.memory = GroupMemory(path)
        except (OSError, ValueError):
            pass
        self._before = self._times()

    def missed(self, counted: float) -> tuple[float, float]:
        """Return the user and system seconds since the last call beyond those that were counted.

        Between programs there is only this process, whose own time does not count.

        Args:
            counted: the CPU seconds of all processes that this one has waited for.

        Raises:
            OSError: the group cannot be read.
        """
        before, self._before = self._before, self._times()
        user, total, own = (now - then for now, then in zip(self._before, before, strict=True))
        missing = total - own - counted
        if missing < NOISE:
            return 0.0, 0.0
        in_user_mode = missing * user / total
        return in_user_mode, missing - in_user_mode

    def _times(self) -> tuple[float, float, float]:
        """Return seconds: of the group in user mode, and in all; and this process's own of them."""
        stat = os.pread(self._cpu, SIZE, 0)
        own = time.process_time()
        return field(stat, b"user_usec") / 1e6, field(stat, b"usage_usec") / 1e6, own


LATELY = 30.0
"""Seconds: a program that SIGKILL has ended was killed so long ago, as much memory takes time to be
given back. Two periods of it are kept, so kills of up to a minute ago count."""


class KillCounter:
    """The processes of this process's group that the kernel has killed, as memory ran out.

    Args:
        listed: the content of /proc/self/cgroup.

    Attributes:
        own: True if none but this process and its program are counted.
    """

    def __init__(self, own: bool, listed: bytes, root: str = "/sys/fs/cgroup") -> None:
        self._fd = -1
        self.own = False
        for number, path in enumerate(event_files(listed.decode(errors="surrogateescape"), root)):
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            self.own = own and not number
            break
        self.begin()

    def begin(self, now: float = 0.0) -> None:
        """Begin to count, at a time of the monotonic clock."""
        self._before = self._read()
        # What was read between LATELY and twice as long ago, and after that; and when.
        self._lately = self._before, self._before
        self._read_at = now

    def look(self, now: float) -> None:
        """Let kills of long ago not count as lately; call it now and then."""
        if not self.own and now >= self._read_at + LATELY:
            self._lately = self._lately[1], self._read()
            self._read_at = now

    def count(self, *, lately: bool = False) -> int:
        """Return how many were killed since the begin, or in the last minute at most."""
        before = self._lately[0] if lately else self._before
        try:
            return max(field(self._read(), b"oom_kill") - field(before, b"oom_kill"), 0)
        except ValueError:
            return 0

    def _read(self) -> bytes:
        try:
            return os.pread(self._fd, SIZE, 0) if self._fd >= 0 else b""
        except OSError:
            return b""


def event_files(listed: str, root: str) -> list[str]:
    """Return the files that may count kills in a process's group, the closest group first.

    A group without the controller has none: then the one above counts, and what is beside it, too.

    >>> event_files("0::/a/b", "/r")
    ['/r/a/b/memory.events', '/r/a/memory.events', '/r/memory.events']

    Args:
        listed: the content of /proc/PID/cgroup.
    """
    files = []
    for line in listed.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            top, name = root, "memory.events"
        elif controllers == "memory":
            top, name = f"{root}/memory", "memory.oom_control"
        else:
            continue
        path = path.rstrip("/")
        while path:
            files.append(f"{top}{path}/{name}")
            path = path.rpartition("/")[0]
        files.append(f"{top}/{name}")
    return files


def field(text: bytes, name: bytes) -> int:
    r"""Return a field of a file such as memory.stat; 0 if it has none.

    >>> field(b"anon 1\nfile 2\n", b"file"), field(b"anon 1\n", b"zswap")
    (2, 0)
    """
    text = b"\n" + text
    at = text.find(b"\n" + name + b" ")
    if at < 0:
        return 0
    at += len(name) + 2
    return int(text[at : text.index(b"\n", at)])


def number(fd: int) -> int:
    """Return the number in a file that is open."""
    return int(os.pread(fd, SIZE, 0))


def path_of_group(parent: str, pid: int) -> str:
    """Return the directory of a supervisor's group."""
    return f"{parent}/{PREFIX}{pid}"


def enter(path: str, pid: int) -> None:
    """Move a process with all its threads into a group; 0 stands for this process.

    Raises:
        OSError: there is no such process or group, or it may not be moved.
    """
    write(f"{path}/cgroup.procs", b"%d" % pid)


def write(path: str, data: bytes) -> None:
    """Write to a file of a group.

    Raises:
        OSError: there is none, or the kernel refuses.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def removed(path: str) -> bool:
    """Remove a group; return False if it is still there, as a process is in it."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def remove_empty(parent: str) -> bool:
    """Remove the groups of supervisors that are gone, also of other fork servers.

    A group that a supervisor is about to enter may be among them; that supervisor does without.

    Returns:
        True if none is left.
    """
    try:
        names = os.listdir(parent)
    except OSError:
        return False
    groups = [name for name in names if name[: len(PREFIX)] == PREFIX]
    supervisors = [name for name in groups if name[len(PREFIX) :].isdigit()]
    left = [name for name in supervisors if not removed(f"{parent}/{name}")]
    return not left
