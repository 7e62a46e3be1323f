"""A node that is short of memory, and the run that is ended for it. Pure, but for `RoomReader`.

Where memory runs out, the kernel kills what it likes, the neighbour of the culprit as well. So a
little before that a run is ended, and runs again by itself:

1. Memory is looked at within each limit that holds for this process: of the machine, which has its
   swap as well, of the process's control groups, and of the groups above. It is short where the
   kernel has less than `SCARCE` left to give; or less than `TIGHT`, while processes wait for memory
   much of the time.
2. Only a run with more than its bound is ended. That is the amount that its task has asked for;
   without one, its *share*: the memory that belongs to its cores.
3. Of those that have asked for an amount the one most over it goes first, as it has had a bound;
   then the one most over its share. So it is never a run within its amount, and if none is over its
   bound, none is ended: others have the memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.worker.guards.group import field
from grain.worker.guards.meter import kibibytes
from grain.worker.guards.proc import read_all
from grain.worker.node.cgroup import group_paths, parse_limit, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

SCARCE, TIGHT = 0.05, 0.2
"""The parts of memory that are left where it is short, and where it may soon be."""

STALLED = 10.0
"""The percentage of the last ten seconds in which all processes waited for memory."""

_LEFT = b"MemAvailable:", b"SwapFree:"


class GroupNames(NamedTuple):
    """The names of a group's files, and in memory.stat of the cache and of files in memory."""

    limit: str
    usage: str
    cached: bytes
    in_memory: bytes


# By controller, as of `group_paths`.
_NAMES = {
    "": GroupNames("memory.max", "memory.current", b"file", b"shmem"),
    "memory": GroupNames(
        "memory.limit_in_bytes", "memory.usage_in_bytes", b"total_cache", b"total_shmem"
    ),
}


class MemoryRoom(NamedTuple):
    """The memory within one limit.

    Attributes:
        total: of it, in GB.
        available: GB that the kernel can still give, without the cache that it can drop.
        stalled: as of `STALLED`; 0 where the kernel does not say it.
    """

    total: float
    available: float
    stalled: float = 0.0

    @property
    def tight(self) -> bool:
        """True if it may soon be short."""
        return self.available < TIGHT * self.total

    @property
    def short(self) -> bool:
        """True if a run is to be ended."""
        return self.available < SCARCE * self.total or (self.tight and self.stalled > STALLED)


class MemoryHolder(NamedTuple):
    """A run with its memory.

    Attributes:
        number: by which the caller knows it.
        used: GB that its programs have.
        amount: GB that its task has asked for; None if it has not.
        share: GB that belong to its cores.
        exact: False if pages that its processes share may count repeatedly.
    """

    number: int
    used: float
    amount: float | None
    share: float
    exact: bool = False

    @property
    def over(self) -> float:
        """GB above its bound; negative below it."""
        return self.used - (self.share if self.amount is None else largest(self.amount))


def largest(amount: float) -> float:
    """Return the GB that a run with an amount may have: a little more than that."""
    return max(1.02 * amount, amount + 0.05)


def most_over(holders: Iterable[MemoryHolder]) -> MemoryHolder | None:
    """Return the run to end where memory is short; None if all are within their bounds."""
    over = [one for one in holders if one.over > 0]
    return max(over, key=lambda one: (one.amount is not None, one.over), default=None)


class RoomReader:
    """The reader of the memory within each limit of this process.

    Which groups these are is found once: a look is to take some ten microseconds.

    Args:
        root: the directory in which ``proc`` and ``sys`` are.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._machine, self._pressure = f"{root}/proc/meminfo", f"{root}/proc/pressure/memory"
        paths = group_paths(text_of(root / "proc/self/cgroup"), root / "sys/fs/cgroup")
        self._groups = [
            (f"{path}/", names)
            for controller, names in _NAMES.items()
            for path in paths.get(controller, ())
            if (path / names.limit).exists()
        ]

    def read(self) -> list[MemoryRoom]:
        """Return the memory within each limit, that of the machine first."""
        machine = _content(self._machine)
        total = kibibytes(machine, b"MemTotal:") * 1024 / 1e9
        left = sum(kibibytes(machine, name) for name in _LEFT) * 1024 / 1e9
        rooms = [MemoryRoom(total, min(left, total), _stalled(_content(self._pressure)))]
        for path, names in self._groups:
            most = parse_limit(_content(path + names.limit).decode())
            used = parse_limit(_content(path + names.usage).decode()) if most else None
            if most and used is not None:
                counts = _content(f"{path}memory.stat")
                # Files in memory cannot be dropped.
                kept = max(used - field(counts, names.cached) + field(counts, names.in_memory), 0)
                stalled = _stalled(_content(f"{path}memory.pressure"))
                rooms.append(MemoryRoom(most / 1e9, (most - kept) / 1e9, stalled))
        return [room for room in rooms if room.total]


def _content(path: str) -> bytes:
    """Return the content of a file; nothing if it cannot be read."""
    try:
        return read_all(path)
    except OSError:
        return b""


def _stalled(pressure: bytes) -> float:
    r"""Return the percentage in a file of the kernel's pressure stall information.

    >>> _stalled(b"some avg10=3.00 avg60=0.00 total=9\nfull avg10=1.50 avg60=0.00 total=4")
    1.5
    """
    _, _, figures = pressure.partition(b"full avg10=")
    return float(figures.split()[0]) if figures else 0.0
