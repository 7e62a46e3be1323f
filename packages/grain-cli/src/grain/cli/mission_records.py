"""The folder of each start of a mission, in the state directory of its user.

``started/opt@2`` has the label of its mission (`grain.eventlog.names`). Its files:

- ``start.json``: what is to run, before it runs.
- ``process.json``: the program's process and its keeper's, when it has begun.
- ``alive``: touched by the keeper every 30 s.
- ``output``: what the program prints, if it has no terminal.
- ``end.json``: how it has ended.
- ``cancelled.json``: who has cancelled it through a scheduler.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from grain.cli.batch import state_folder
from grain.eventlog.files import read_end, read_plain
from grain.eventlog.names import label_of, take_number
from grain.files.trust import check_private, mistrust, private_folder
from grain.files.whole import naming

STARTING = 60.0
"""Seconds for which a start without a process counts as alive: it is about to begin."""

KEPT = 30 * 86400.0
"""Seconds for which the folder of an ended start is kept."""

_ASIDE = ".starting-"  # the folder of a start while it is written

_LAST = 2000  # bytes of an output in which its last line is looked for

_T = TypeVar("_T")


class MissionStart(msgspec.Struct, frozen=True, kw_only=True):
    """A program that is to run as a mission.

    Attributes:
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
        kernel: the boot id of the kernel and the inode of the process namespace: a pid means
            something only within both.
        began: its start in clock ticks since boot, since pids are used again.
    """

    host: str
    kernel: str
    pid: int
    began: int
    keeper: int
    keeper_began: int


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a program.

    Attributes:
        status: its exit status; a signal is negative.
        at: when, in Unix seconds.
    """

    status: int
    at: float


class Cancellation(msgspec.Struct, frozen=True, kw_only=True):
    """The cancellation of a mission through its scheduler."""

    by: str


@dataclass(frozen=True)
class StartRecord:
    """A start of a mission.

    Attributes:
        number: that of its label.
        process: its processes; None if the program has not begun.
        end: how it has ended; None if that is not written.
        alive: the last sign of life of its keeper, in Unix seconds; 0 if there was none.
        cancelled: the user who has cancelled it through a scheduler; None if it was not cancelled.
        made: when its folder was made, in Unix seconds.

    The files' own times are those of the file server, as `time_of_files` is.
    """

    folder: Path
    number: int
    start: MissionStart
    process: Process | None
    end: End | None
    alive: float
    cancelled: Cancellation | None = None
    made: float = 0.0

    @property
    def label(self) -> str:
        """The name that means only this start, as in ``opt@2``."""
        return label_of(self.start.name, self.number)

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


def make(folder: Path, start: MissionStart) -> StartRecord:
    """Make the folder of a further start."""
    private_folder(folder)
    # It gets its name when it is whole: a start that is made at the same time sees all of it.
    aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=folder))
    try:
        write(aside, "start.json", start)
        while True:
            number = take_number(start.name, folder=folder.parent / "labels", unused=True)
            path = folder / label_of(start.name, number)
            try:
                aside.rename(path)
            except OSError as error:
                # The file of the number was removed, and the start was not.
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
            else:
                break
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    made = (path / "start.json").stat().st_mtime
    return StartRecord(path, number, start, None, None, 0.0, made=made)


def time_of_files(folder: Path) -> float:
    """Return the time by the clock of a folder's file system, in Unix seconds.

    Signs of life have times of that clock, and that of this host may be minutes off. Where no file
    can be made, it is this host's.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def write(folder: Path, name: str, data: msgspec.Struct) -> None:
    """Write a file whole, in the place of what is there."""
    # Paths, arguments and variables are bytes, which may be no UTF-8: JSON escapes the halves of
    # characters that stand for such bytes, and msgspec writes none.
    text = json.dumps(msgspec.to_builtins(data)).encode()
    fd = os.open(_aside(folder, name), os.O_RDWR | os.O_CREAT, 0o600)
    with naming(folder / name), os.fdopen(fd, "r+b") as file:
        file.write(text.ljust(os.fstat(file.fileno()).st_size - 1) + b"\n")
    _aside(folder, name).replace(folder / name)


def reserve(folder: Path, name: str) -> None:
    """Take the room on the disk that a short file needs, which is written later."""
    fd = os.open(_aside(folder, name), os.O_WRONLY | os.O_CREAT, 0o600)
    with naming(folder / name), os.fdopen(fd, "wb") as file:
        file.write(b" " * 256)


def _aside(folder: Path, name: str) -> Path:
    return folder / f".{name}"


def read(folder: Path, name: str | None = None) -> list[StartRecord]:
    """Return the starts of a name, or all, the oldest first.

    A folder without a readable ``start.json`` is skipped: it was cut off, or is of another version.
    So is a record that another user may have written.

    Raises:
        PermissionError: another user may have put another directory in the place of this one.
    """
    try:
        check_private(folder)
        paths = list(folder.glob("*@*"))
    except PermissionError:
        raise
    except OSError:
        return []
    records = [
        record
        for path in paths
        if path.name.rpartition("@")[0] == name or name is None
        if (record := _record(path)) is not None
    ]
    return sorted(records, key=lambda one: (one.start.at, one.number))


def _record(path: Path) -> StartRecord | None:
    name, _, number = path.name.rpartition("@")
    try:
        # `grain resume` runs what stands there.
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or mistrust(path, status):
            return None
    except OSError:
        return None
    start = _loaded(path / "start.json", MissionStart)
    if start is None or start.name != name or not number.isdecimal():
        return None
    alive, made = _time(path / "alive"), _time(path / "start.json")
    process = _loaded(path / "process.json", Process)
    end, cancelled = _loaded(path / "end.json", End), _loaded(path / "cancelled.json", Cancellation)
    return StartRecord(path, int(number), start, process, end, alive, cancelled, made)


def _time(path: Path) -> float:
    """Return when a file was written or touched last; 0 if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def load(path: Path, kind: type[_T]) -> _T:
    """Return what `write` has written.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, or of another version.
    """
    try:
        return msgspec.convert(json.loads(read_plain(path)), type=kind)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _loaded(path: Path, kind: type[_T]) -> _T | None:
    try:
        return load(path, kind)
    except (OSError, ValueError):
        return None


def last_line(record: StartRecord) -> str:
    """Return the last line that a start has printed, by its last bytes; empty if there is none."""
    try:
        lines = read_end(record.output, _LAST).decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def find(records: list[StartRecord], word: str) -> StartRecord | None:
    """Return the last start of a name, or the start that a label such as ``opt@1`` names."""
    matches = [one for one in records if word in (one.start.name, one.label)]
    return max(matches, key=lambda one: one.number, default=None)


def remove_old(folder: Path, now: float | None = None) -> None:
    """Remove the folders of starts that ended, or gave no sign of life, 30 days ago.

    Raises:
        PermissionError: as in `read`.
    """
    records = read(folder)
    before = (time_of_files(folder) if now is None else now) - KEPT
    for cut_off in folder.glob(f"{_ASIDE}*"):
        if _time(cut_off) < before:
            shutil.rmtree(cut_off, ignore_errors=True)
    for record in records:
        last = record.end.at if record.end is not None else max(record.alive, record.start.at)
        if last < before:
            shutil.rmtree(record.folder, ignore_errors=True)
