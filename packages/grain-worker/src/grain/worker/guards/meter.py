"""The memory and the data of a program: what `wait4` does not tell of a tree of processes.

A subreaper has one for the calls of `grain.subproc`, without a control group.

Where the supervisor has a control group with figures of memory, these are taken, see `.group`; and
where it has one at all, CPU time that `wait4` misses. Points 1 to 3 and 5 are for all others.

1. For a single process the kernel's own peak is exact: ``ru_maxrss``, which `wait4` returns. So a
   look first lists the processes, and only where there are several it reads how large they are.
2. The peak of several is the largest sum of their resident sets that was seen, or the own peak of
   one of them, whichever is larger. Where the sum is the largest by a tenth, pages that processes
   share may have been counted repeatedly. Then files and segments count only for the process with
   most of them. For processes that were forked from each other, and have most pages in common, the
   proportional set sizes (PSS) count.
3. PSS is dear: 14 to 50 ms at 1 GB, during which the process cannot change its mappings. Until it
   can be afforded again, private memory that the same processes have got since then is added to the
   last reading.
4. Looks come after `FIRST` seconds, then `FACTOR` times later each, up to `LAST`; later where they
   would take too much time, see `Budget`.
   Where a program may have so much memory and no more (`Limit`), they come every `CLOSE` seconds
   while it has nearly that.
5. Files in the program's scratch directory count, too, where that is in memory (tmpfs).
6. What a process has read and written is added to its parent's when that reaps it, as its CPU time
   is. So `wait4` tells it, in blocks of 512 bytes.
"""

# ruff: noqa: PTH116
# (no pathlib here; see the package)

from __future__ import annotations

import mmap
import os
import signal
import time

from .proc import below, read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .group import Group, KillCounter

FIRST, FACTOR, LAST = 0.1, 1.5, 2.0

CLOSE, NEARLY = 0.2, 0.8
"""Seconds between two looks at a program that has this part of what it may have, at most."""

SHARE = 0.004
"""The share of one CPU that the looks of all supervisors of a fork server may take, as far as they
can measure it; with what they cannot, it is half a percent."""

SAVED = 10.0
"""The most seconds whose unused allowance a budget keeps."""

SMALL = 50_000
"""KiB of all processes together up to which it does not matter what exactly they share."""

BLOCK = 512
"""Bytes of a block in the figures of `wait4`."""

SCARCE = 0.05
"""The part of a node's memory that is left when it is short of it."""

_STACK = 25  # startstack (proc(5)), counted from behind the command

CGROUP, POLLING, RUSAGE = "cgroup", "polling", "rusage"


class Budget:
    """The CPU time that the looks of all supervisors of a fork server may take: a share of time.

    What is not used is saved up, for `SAVED` seconds at most; what is used too much has to be
    earned before the next look. So many brief programs cost no more than a few long ones, and a
    single program is looked at as often as is useful.

    It is one number in memory that the supervisors share: the time up to which the allowance is
    spent. Nothing locks it. If two pay in the same microsecond, one may pay nothing.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._spent_until = memoryview(mmap.mmap(-1, 8)).cast("d")

    def pay(self, cost: float, now: float) -> None:
        """Record CPU seconds that were used."""
        spent_until = max(self._spent_until[0], now - SAVED)
        self._spent_until[0] = spent_until + cost / self._share

    def affordable_at(self) -> float:
        """Return when something may be used, by the monotonic clock."""
        return self._spent_until[0]


class Budgets:
    """The budgets of a fork server, which its supervisors have in common.

    Attributes:
        listing: for lists of processes and their sizes.
        sharing: for PSS.
    """

    def __init__(self) -> None:
        self.listing, self.sharing = Budget(SHARE / 2), Budget(SHARE / 2)


class Meter:
    """The meter of a supervisor, for one program after another.

    Attributes:
        due: when to look next, by the monotonic clock.
    """

    def __init__(
        self, budgets: Budgets, group: Group | None = None, kills: KillCounter | None = None
    ) -> None:
        self._budgets = budgets
        self._group = group
        self._kills = kills
        self.begin(time.monotonic())

    @property
    def exceeded(self) -> bool:
        """True if the program has had more memory than it may have, in two looks in a row.

        One may have met a moment in which processes were being forked.
        """
        return self._over > 1

    @property
    def figures(self) -> tuple[float, bool]:
        """The peak that looks have found, in bytes, and `exceeded`."""
        return 1024 * self._peak, self.exceeded

    @staticmethod
    def is_scarce() -> bool:
        """Return True if the node is so short of memory that the kernel may soon end something."""
        try:
            text = read_all("/proc/meminfo")
        except OSError:
            return False
        total = kibibytes(text, b"MemTotal:")
        return 0 < kibibytes(text, b"MemAvailable:") < SCARCE * total

    def begin(self, began: float, most: float | None = None) -> None:
        """Begin with a program.

        Args:
            began: when it is started, by the monotonic clock.
            most: the KiB that it may have; None for as many as it gets.
        """
        self.looks = 0
        # KiB at the last look; and how many looks in a row have found more than it may have.
        self.used = 0.0
        self._over = 0
        self._most = most
        self._pause = FIRST
        self._peak = 0.0
        self._scratch: bytes | None = None
        # Of the last reading of PSS: the processes with their private memory, and the sum.
        self._measured: tuple[dict[int, float], float] = ({}, 0.0)
        self._cpu: float | None = None
        if self._kills is not None:
            self._kills.begin(began)
        self.due = max(began + FIRST, self._budgets.listing.affordable_at())
        self._memory = None if self._group is None else self._group.memory
        try:
            if self._memory is not None:
                self._memory.begin(None if most is None else 1024 * most)
        except (OSError, ValueError):
            self._abandon_group()

    def count_files(self, scratch: bytes | None) -> None:
        """Count the files in the program's scratch directory, if it has one in memory."""
        if scratch is not None and in_memory(scratch):
            self._scratch = scratch

    def look(self, now: float) -> None:
        """Look at the processes below this one; call it when it is due."""
        # From the end of the look before: with the time that it took to wake up. Before the first
        # look, the program was started.
        began, dear = self._cpu or time.process_time(), 0.0
        in_group = self._look_at_group()
        pids = None if in_group else below(os.getpid())
        if in_group or pids is not None:
            self.looks += 1
        if pids is not None and (
            len(pids) > 1 or self._scratch is not None or self._most is not None
        ):
            dear = self._add_up(pids, now)
        if self._kills is not None:
            self._kills.look(now)
        self._cpu = time.process_time()
        self._budgets.listing.pay(self._cpu - began - dear, now)
        self._pause = min(self._pause * FACTOR, LAST)
        if self._most is not None:
            self._over = self._over + 1 if self.used > self._most else 0
            if in_group and self._killed():
                self._over = 2  # the rest of it is worth nothing
            if self.used > NEARLY * self._most:
                self._pause = min(self._pause, CLOSE)
        self.due = max(now + self._pause, self._budgets.listing.affordable_at())

    def _look_at_group(self) -> bool:
        """Look at the memory of the control group; return False where it has no figure."""
        if self._memory is None:
            return False
        try:
            self._peak = self._memory.look() / 1024
            self.used = self._memory.used / 1024
        except (OSError, ValueError):
            self._abandon_group()
            return False
        return True

    def _killed(self, *, lately: bool = False) -> int:
        """Return how many processes of the group the kernel has killed, as `KillCounter.count`."""
        return 0 if self._kills is None else self._kills.count(lately=lately)

    def _abandon_group(self) -> None:
        """Do without the control group, which cannot be read any more."""
        self._group = self._memory = None

    def _add_up(self, pids: list[int], now: float) -> float:
        """Take the sizes of several processes; return the CPU seconds for their PSS."""
        sizes: dict[int, tuple[float, float]] = {}  # private and other memory
        for pid in pids:
            status = of_process(pid, "status")
            self._peak = max(self._peak, kibibytes(status, b"\nVmHWM:"))
            private = kibibytes(status, b"\nRssAnon:")
            sizes[pid] = private, kibibytes(status, b"\nVmRSS:") - private
        total, cost = sum(map(sum, sizes.values())), 0.0
        # No program is ended for pages that were counted repeatedly.
        if total > 1.1 * self._peak or (self._most is not None and total > self._most):
            total, cost = self._without_shared(sizes, now)
        self.used = total + self._size_of_files()
        self._peak = max(self._peak, self.used)
        return cost

    def _size_of_files(self) -> float:
        """Return the size of the scratch directory in KiB, where it is in memory; else 0."""
        return 0.0 if self._scratch is None else size_of_files(self._scratch)

    def _without_shared(
        self, sizes: dict[int, tuple[float, float]], now: float
    ) -> tuple[float, float]:
        """Return the memory of processes that may share some, and the CPU seconds for their PSS."""
        total = cost = 0.0
        copies = copied(sizes) if sum(map(sum, sizes.values())) > SMALL else set[int]()
        if copies and now >= self._budgets.sharing.affordable_at():
            began = time.process_time()
            total = sum(map(proportional, copies))
            if total > self._peak:
                # Processes are read one after the other: pages that become shared meanwhile count
                # too often, and a peak that is too large would stay.
                total = min(total, sum(map(proportional, copies)))
            cost = time.process_time() - began
            self._budgets.sharing.pay(cost, now)
            self._measured = {pid: sizes[pid][0] for pid in copies}, total
        elif copies:
            # At least so much, since a peak that is too large would stay.
            then, total = self._measured
            if then and then.keys() <= copies:
                total += sum(sizes[pid][0] - private for pid, private in then.items())
            else:
                total = max(sizes[pid][0] for pid in copies)
        alone = [size for pid, size in sizes.items() if pid not in copies]
        private = sum(private for private, _ in alone)
        return total + private + max((other for _, other in alone), default=0.0), cost

    def end(
        self, usage: list[float], status: int
    ) -> tuple[float, float, float, float, str, str, float, float, int, bool]:
        """Return the use of the program, when nothing of it is left.

        Args:
            usage: of all its processes that were waited for: user seconds, system seconds, max RSS
                in KiB, and the blocks read and written.
            status: its wait status. The kills of a group that it shares count only if it has
                failed. If SIGKILL has ended it, they are those of late: what was killed hours ago
                was another program. A launcher may say late that SIGKILL has ended its part.

        Returns:
            User seconds, system seconds and max RSS in KiB; the peak of its memory in bytes, how
            that was measured, and how the CPU time was; the bytes it has read from files and
            devices, and those it has written; how many processes of its control group the kernel
            has killed as memory ran out, and whether no other program is in that group.
        """
        user, system, max_rss, read, written = usage
        measured_by = POLLING if self.looks else RUSAGE
        if self._look_at_group():
            measured_by = CGROUP
        elif self._scratch is not None:
            self._peak = max(self._peak, self._size_of_files())
        cpu_measured_by = RUSAGE
        if self._group is not None:
            try:
                more_user, more_system = self._group.missed(user + system)
            except (OSError, ValueError):
                self._abandon_group()
            else:
                user, system, cpu_measured_by = user + more_user, system + more_system, CGROUP
        peak = max(self._peak, max_rss) * 1024
        own = self._kills is not None and self._kills.own
        killed = self._killed(lately=not own and status == signal.SIGKILL) if status or own else 0
        return (
            user, system, max_rss, peak, measured_by, cpu_measured_by,
            BLOCK * read, BLOCK * written, killed, own,
        )  # fmt: skip


def in_memory(path: bytes) -> bool:
    """Return True for a directory of a filesystem in memory."""
    try:
        device = os.stat(path).st_dev
    except OSError:
        return False
    name = b"%d:%d" % (os.major(device), os.minor(device))
    for line in of_process("self", "mountinfo").splitlines():
        mounted, _, filesystem = line.partition(b" - ")
        if mounted.split()[2] == name:
            return filesystem.split()[0] in (b"tmpfs", b"ramfs")
    return False


def size_of_files(top: bytes) -> float:
    """Return the KiB that files below a directory take; hidden ones count as none."""
    size, waiting = 0, [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks
        except OSError:
            continue  # the program has just removed something
    return size / 2  # blocks of 512 bytes


def copied(pids: Iterable[int]) -> set[int]:
    """Return those of some processes that were forked from each other, and run no other program.

    Processes that may not be looked at, such as set-uid programs, are not among them.

    The kernel gives every program that is executed an address of its own for its stack.
    """
    stacks: dict[bytes, list[int]] = {}
    for pid in pids:
        # The command, in parentheses, may itself have spaces and parentheses.
        fields = of_process(pid, "stat").rpartition(b")")[2].split()
        if len(fields) > _STACK and fields[_STACK] != b"0":
            stacks.setdefault(fields[_STACK], []).append(pid)
    return {pid for family in stacks.values() if len(family) > 1 for pid in family}


def proportional(pid: int) -> float:
    """Return the PSS of a process in KiB; 0 if it may not be looked at, or before Linux 4.14."""
    return kibibytes(of_process(pid, "smaps_rollup"), b"\nPss:")


def of_process(pid: int | str, name: str) -> bytes:
    """Return a file of /proc; nothing if the process is gone, or may not be looked at."""
    try:
        return read_all(f"/proc/{pid}/{name}")
    except OSError:
        return b""


def kibibytes(text: bytes, name: bytes) -> float:
    """Return a field of a file such as /proc/PID/status; 0 if it has none."""
    at = text.find(name)
    if at < 0:
        return 0.0
    at += len(name)
    return float(text[at : text.index(b"kB", at)])
