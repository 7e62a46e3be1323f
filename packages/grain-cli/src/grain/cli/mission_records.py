"""The folder of each start of a mission, in the state directory of its user.

``started/opt@2`` is the second start of a mission ``opt``. Its files:

- ``start.json``: what is to run, before it runs.
- ``process.json``: the program's process and its keeper's, when it has begun.
- ``alive``: touched by the keeper every 30 s.
- ``output``: what the program prints, if it has no terminal.
- ``end.json``: how it has ended.
- ``cancelled.json``: who has cancelled it through a scheduler.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from grain.cli.batch import state_folder
from grain.edge.trust import make_folder, mistrust

if TYPE_CHECKING:
    from pathlib import Path

STARTING = 60.0
"""Seconds for which a start without a process counts as alive: it is about to begin."""

KEPT = 30 * 86400.0
"""Seconds for which the folder of an ended start is kept."""

_T = TypeVar("_T")


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A program that is to run as a mission.

    Attributes:
        name: the name of the mission.
        command: the command line.
        directory: the working directory.
        environment: the variables that a further start gets again.
        at: when it was started, in Unix seconds.
        detached: True if it outlives the terminal.
        program: the path of the program's file; empty if it is a command of the search path.
        digest: the SHA-256 digest of that file, in hexadecimal digits.
        config: the configuration that ``grain -c`` chose; empty if none.
    """

    name: str
    command: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    at: float
    detached: bool = False
    program: str = ""
    digest: str = ""
    config: str = ""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """The process of a program, and that of its keeper.

    Attributes:
        host: the name of their host.
        kernel: the boot id of the kernel and the inode of the process namespace: a pid means
            something only within both.
        pid: the process id of the program.
        began: its start in clock ticks since boot, since pids are used again.
        keeper: the process id of its keeper.
        keeper_began: the start of the keeper.
    """

    host: str
    kernel: str
    pid: int
    began: str
    keeper: int
    keeper_began: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a program.

    Attributes:
        status: its exit status; a signal is negative.
        at: when, in Unix seconds.
    """

    status: int
    at: float


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """The cancellation of a mission through its scheduler.

    Attributes:
        by: the person who has cancelled it, for people.
    """

    by: str


@dataclass(frozen=True)
class Record:
    """One start of a mission.

    Attributes:
        folder: its folder.
        number: which start of that name it is, from 1.
        start: what is to run.
        process: its processes; None if the program has not begun.
        end: how it has ended; None if nobody has written that.
        alive: the last sign of life of its keeper, in Unix seconds; 0 if there was none.
        cancelled: who has cancelled it through a scheduler; None if nobody has.
    """

    folder: Path
    number: int
    start: Start
    process: Process | None
    end: End | None
    alive: float
    cancelled: Cancelled | None = None

    @property
    def label(self) -> str:
        """The name that means this start alone, as in ``opt@2``."""
        return f"{self.start.name}@{self.number}"

    @property
    def output(self) -> Path:
        """The file of its output."""
        return self.folder / "output"


def missions_folder() -> Path:
    """Return the directory of all starts."""
    return state_folder() / "started"


def name_error(name: str) -> str:
    """Return why a mission cannot have a name; "" if it can."""
    if re.fullmatch(r"[^\s:/@*?\[\]\x00-\x1f\x7f]{1,100}", name) and not name.startswith(
        ("-", ".")
    ):
        return ""
    return (
        "a name has 1 to 100 characters, none of them a space or one of : / @ * ? [ ], and does "
        "not begin with - or ."
    )


def make(folder: Path, start: Start) -> Record:
    """Make the folder of a further start.

    Raises:
        OSError: it cannot be made.
    """
    make_folder(folder)
    number = max((record.number for record in read(folder, start.name)), default=0) + 1
    while True:
        path = folder / f"{start.name}@{number}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:  # another command made it at this moment
            number += 1
        else:
            break
    write(path, "start.json", start)
    return Record(path, number, start, None, None, 0.0)


def write(folder: Path, name: str, data: msgspec.Struct) -> None:
    """Write a file whole, in the place of what is there.

    Raises:
        OSError: it cannot be written.
    """
    aside = folder / f".{name}"
    aside.touch(mode=0o600)
    aside.write_bytes(msgspec.json.encode(data) + b"\n")
    aside.replace(folder / name)


def read(folder: Path, name: str | None = None) -> list[Record]:
    """Return the starts of a name, or all, the oldest first.

    A folder without a readable ``start.json`` is skipped: it was cut off, or is of another version.
    So is one that another user may have written.
    """
    try:
        paths = list(folder.glob("*@*"))
    except OSError:
        return []
    records = [
        record
        for path in paths
        if path.name.rpartition("@")[0] == name or name is None
        if (record := _record(path)) is not None
    ]
    return sorted(records, key=lambda one: (one.start.at, one.number))


def _record(path: Path) -> Record | None:
    name, _, number = path.name.rpartition("@")
    try:
        # `grain resume` runs what stands there.
        if mistrust(path, path.stat()):
            return None
    except OSError:
        return None
    start = _loaded(path / "start.json", Start)
    if start is None or start.name != name or not number.isdecimal():
        return None
    try:
        alive = (path / "alive").stat().st_mtime
    except OSError:
        alive = 0.0
    process = _loaded(path / "process.json", Process)
    end, cancelled = _loaded(path / "end.json", End), _loaded(path / "cancelled.json", Cancelled)
    return Record(path, int(number), start, process, end, alive, cancelled)


def _loaded(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def find(records: list[Record], word: str) -> Record | None:
    """Return the last start of a name, or the one that a label such as ``opt@1`` names."""
    matches = [one for one in records if word in (one.start.name, one.label)]
    return max(matches, key=lambda one: one.number, default=None)


def remove_old(folder: Path, now: float | None = None) -> None:
    """Remove the folders of starts that ended, or gave no sign of life, 30 days ago."""
    before = (time.time() if now is None else now) - KEPT
    for record in read(folder):
        last = record.end.at if record.end is not None else max(record.alive, record.start.at)
        if last < before:
            shutil.rmtree(record.folder, ignore_errors=True)
