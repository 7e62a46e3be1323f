"""The file that keeps what groups have learned, as it is on the disk.

It is ``needs.json`` in the directory beside the meeting file; at an address without one, a file of
the user's state directory. A scheduler reads it as it starts, and writes it again when something
was learned (`grain.head.needs.store`), whole or not at all. Commands read it where no scheduler
runs, and may remove groups from it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import msgspec

from grain.eventlog.files import open_plain
from grain.eventlog.names import state_folder
from grain.facts.rows import LAST_RUNS
from grain.files.trust import mistrust
from grain.files.whole import whole_file
from grain.resource import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NAME = "needs.json"
VERSION = 1

NotNegative = Annotated[float, msgspec.Meta(ge=0.0)]
Gigabytes = Annotated[float, msgspec.Meta(ge=0.0, le=1e303)]
"""More than a `Memory` can state is not an amount."""
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]
"""Thirty thousand years: what is more is not a time."""


class Unreadable(Exception):
    """A file of needs cannot be used; the text says why."""


class FinishedRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A run that had enough memory: its peak and its amount in GB, its seconds, its size or 0.

    ``first`` is True if it was the first attempt of its task.
    """

    peak: Gigabytes
    amount: Gigabytes
    seconds: Seconds
    size: NotNegative = 0.0
    first: bool = True


class StoredGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group, as `grain.head.needs.group.LearningGroup` has it; of its runs the last ones."""

    name: str
    runs: tuple[FinishedRun, ...]
    finished: Annotated[int, msgspec.Meta(ge=0)]
    exceeded: Annotated[int, msgspec.Meta(ge=0)]
    spent: NotNegative
    fixed: NotNegative
    obeys: bool


class StoredNeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All groups, with the version of this form."""

    version: int
    groups: tuple[StoredGroup, ...]


class _Version(msgspec.Struct, frozen=True):
    version: int


def path_of(meeting: str | None, address: str, env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the file for the scheduler at an address.

    Args:
        meeting: the meeting file of the address; None if it has none.
        address: without the key of a bridge, which may change. Its digest is the name then.

    Returns:
        None if the user has no directory for it.
    """
    if meeting is not None:
        return Path(f"{meeting}.d", NAME)
    try:
        folder = state_folder(env) / "needs"
    except RuntimeError:
        return None
    return folder / f"{sha256(address.encode()).hexdigest()[:16]}.json"


def encode(groups: Iterable[StoredGroup]) -> bytes:
    """Return the content of a file with these groups."""
    stored = StoredNeeds(VERSION, tuple(groups))
    return msgspec.json.format(msgspec.json.encode(stored), indent=1)


def decode(data: bytes) -> tuple[StoredGroup, ...]:
    """Return the groups in the content of a file.

    Raises:
        Unreadable: it is torn, of another version, or has what no scheduler writes.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).version
    except msgspec.MsgspecError as error:
        raise Unreadable(f"it is damaged ({error})") from None
    if version != VERSION:
        raise Unreadable(f"it is of version {version}, and this Grain reads version {VERSION}")
    try:
        stored = msgspec.json.decode(data, type=StoredNeeds)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"it is damaged ({error})") from None
    names: set[str] = set()
    for one in stored.groups:
        try:
            Memory(group=one.name)
        except ValueError as error:
            raise Unreadable(f"it is damaged ({error})") from None
        if one.name in names:
            raise Unreadable(f"it is damaged (two groups are named {one.name!r})")
        names.add(one.name)
        if len(one.runs) != min(one.finished, LAST_RUNS):
            raise Unreadable(
                f"it is damaged ({one.name!r} has {len(one.runs)} runs of {one.finished})"
            )
    return stored.groups


def read(path: Path) -> tuple[StoredGroup, ...]:
    """Return the groups of a file; none if it is not there.

    Raises:
        Unreadable: it cannot be read, others may write to it, or `decode` raises.
    """
    return _read(path)[0]


def usual(runs: Iterable[FinishedRun]) -> tuple[float | None, float | None]:
    """Return the median and the largest of the peaks of runs, in GB; None without a run."""
    peaks = sorted(run.peak for run in runs)
    return (median(peaks), peaks[-1]) if peaks else (None, None)


def forget(path: Path, matches: Callable[[str], bool]) -> tuple[StoredGroup, ...]:
    """Remove the groups whose names match; return them.

    No scheduler may use the file. One that ends may still write it for the last time: then this
    begins again with that. One that starts may have read it before this has written it: so ask
    afterwards whether one is there, and have it forget them as well.

    Raises:
        Unreadable: as of `read`.
        OSError: it cannot be written.
    """
    while True:
        groups, identity = _read(path)
        gone = tuple(one for one in groups if matches(one.name))
        if not gone:
            return ()
        with suppress(_Changed), whole_file(path) as file:
            file.write(encode(one for one in groups if one not in gone))
            if _read(path)[1] != identity:
                raise _Changed
            return gone


class _Changed(Exception):
    """Another process has written the file."""


def _read(path: Path) -> tuple[tuple[StoredGroup, ...], object]:
    """Return the groups of a file, and by what it differs from any later one."""
    try:
        with open_plain(path) as file:  # whatever a link leads to is judged, and not the link
            status = os.fstat(file.fileno())
            content = file.read() if not (why := mistrust(path, status)) else b""
    except FileNotFoundError:
        return (), None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    if why:
        raise Unreadable(why)
    try:
        return decode(content), (status.st_ino, status.st_mtime_ns)
    except Unreadable as error:
        raise Unreadable(f"{path}: {error}") from None
