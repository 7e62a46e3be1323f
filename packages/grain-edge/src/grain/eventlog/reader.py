"""`LogReader`: the lines of a log, also while it is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, get_args

import msgspec

from grain.eventlog.errors import NewerLog, NotALog
from grain.eventlog.files import open_plain
from grain.eventlog.names import FIRST_PART, part_name, part_number
from grain.eventlog.schema import (
    UNREADABLE,
    VERSION,
    AnyLine,
    BriefTasks,
    LogStarted,
    TaskSubmitted,
    WorkerJoined,
    decode,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE = 1_000_000
"""Bytes of a line; what is longer is skipped, as no writer makes such lines."""

MOST_KINDS = 100
"""Kinds of resources in one log. A site has a few; each costs a column of every report."""

_CHUNK = 256 * 1024  # bytes that are read at a time


class Position(NamedTuple):
    """A place in a log, at the beginning of a line.

    Attributes:
        offset: bytes from the beginning of the part's file.
    """

    part: int = 0
    offset: int = 0


class LogReader:
    """A reader of one log, which keeps its position: iterate again to get what was added since.

    It takes the same memory for a log of any size. Lines come in the order in which they were
    written; the `LogStarted` with which each part begins comes once. A line that is not complete
    is left for the next time; what makes no sense is skipped and counted.

    Args:
        path: the folder of a log, or a file. ``events.jsonl`` stands for the log in its folder,
            with all parts; any other file is read by itself.
        position: where to begin, as `position` of an earlier reader.

    Attributes:
        header: the `LogStarted` of the log; None as long as none was read.
        skipped: lines that make no sense: torn by a crash, damaged, or with kinds of resources
            beyond the first `MOST_KINDS`.
        unknown: lines of kinds that this version does not know.
        missing: parts that are not there any more, as the log grew too large.
    """

    def __init__(self, path: str | os.PathLike[str], position: Position | None = None) -> None:
        path = Path(path)
        if path.name == FIRST_PART:
            path = path.parent
        self._path = path
        self._position = position or Position()
        self._within_long_line = False
        self._kinds: set[str] = set()
        self.header: LogStarted | None = None
        self.skipped = 0
        self.unknown = 0
        self.missing = 0

    @property
    def position(self) -> Position:
        """The place behind the last line that was yielded."""
        return self._position

    def __iter__(self) -> Iterator[AnyLine]:
        """Yield the lines from `position` to the present end of the log.

        Raises:
            NotALog: the path is not an event log.
            NewerLog: a newer Grain has written it.
            OSError: it cannot be read.
        """
        if not self._path.is_dir():
            yield from self._part(self._path)
            return
        if not self._parts():
            raise NotALog(f"{self._path} has no {FIRST_PART}: it is not the folder of an event log")
        if self._position != Position() and self.header is None:
            self._require_header()
        while True:
            yield from self._part(self._path / part_name(self._position.part))
            following = next((n for n in self._parts() if n > self._position.part), None)
            if following is None:
                return
            # A writer closes a part before it makes the next. So what is there now is all of it,
            # once the file is opened again, which makes NFS ask the server.
            yield from self._part(self._path / part_name(self._position.part), last=True)
            self.missing += following - self._position.part - 1
            self._position = Position(following)

    def _parts(self) -> list[int]:
        """Return the numbers of the parts that are there, in order."""
        numbers = (part_number(name) for name in os.listdir(self._path))
        return sorted(number for number in numbers if number is not None)

    def _part(self, path: Path, *, last: bool = False) -> Iterator[AnyLine]:
        """Yield the lines of one part from the position on."""
        try:
            file = open_plain(path)
        except FileNotFoundError:
            if path is self._path:
                raise
            return  # the log grew too large, and this part has been removed
        with file:
            for piece in self._pieces(file):
                line = self._line(piece)
                if line is not None:
                    yield line
            if last and file.tell() > self._position.offset:
                self.skipped += 1  # the end of a line is missing, for good

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the complete lines of a file from the position on, which moves with them."""
        part, offset = self._position
        file.seek(offset)
        rest = b""
        while chunk := file.read(_CHUNK):
            pieces = (rest + chunk).split(b"\n")
            rest = pieces.pop()
            for piece in pieces:
                offset += len(piece) + 1
                self._position = Position(part, offset)
                if self._within_long_line:
                    self._within_long_line = False
                else:
                    yield piece
            if len(rest) > LONGEST_LINE:
                self.skipped += not self._within_long_line
                self._within_long_line = True
                offset += len(rest)
                self._position = Position(part, offset)
                rest = b""

    def _line(self, piece: bytes) -> AnyLine | None:
        """Return the line of some bytes; None if it is to be skipped."""
        try:
            line = decode(piece)
        except UNREADABLE:
            return self._odd_line(piece)
        if self._has_too_many_kinds(line):
            self.skipped += 1
            return None
        if isinstance(line, LogStarted):
            self._check_version(line.version)
            if self.header is not None:
                return None
            self.header = line
        elif self.header is None and self._position.part == 0:
            self._require_header()
        return line

    def _has_too_many_kinds(self, line: AnyLine) -> bool:
        """Return True if a line names more kinds of resources than any log does."""
        if isinstance(line, WorkerJoined):
            kinds = line.resources
        elif isinstance(line, TaskSubmitted):
            kinds = line.request
            for other in line.others:
                kinds = {**kinds, **other}
        elif isinstance(line, BriefTasks):
            kinds = line.request
        else:
            return False
        if kinds.keys() <= self._kinds:
            return False
        if len(self._kinds) + len(kinds) > MOST_KINDS:
            return len(self._kinds | kinds.keys()) > MOST_KINDS
        self._kinds |= kinds.keys()
        return False

    def _odd_line(self, piece: bytes) -> AnyLine | None:
        """Return what can be read of a line that is none of this version's, or count it."""
        # A crash of a machine leaves zeros where a file grew and its content was not written.
        stripped = piece.lstrip(b"\0")
        if stripped != piece and stripped:
            self.skipped += 1
            return self._line(stripped)
        try:
            kind = _KIND.decode(piece)
        except UNREADABLE:
            kind = None
        if kind is not None and kind.event == "log":
            self._check_version(kind.version)
        if self.header is None and self._position.part == 0:
            self._require_header()
        if kind is not None and kind.event not in _KINDS:
            self.unknown += 1
        else:
            self.skipped += 1
        return None

    def _require_header(self) -> None:
        """Read the first line of the log, for a reader that begins later, or with another line.

        Raises:
            NotALog: it is not that of a log.
        """
        path = self._path / FIRST_PART if self._path.is_dir() else self._path
        with open_plain(path) as file:
            first = file.readline(LONGEST_LINE)
        try:
            line = decode(first)
        except UNREADABLE:
            line = None
        if not isinstance(line, LogStarted):
            raise NotALog(
                f"{path} does not begin with the line of an event log: name the folder of a log, "
                f"or its {FIRST_PART}, as it was written"
            )
        self._check_version(line.version)
        self.header = line

    def _check_version(self, version: int) -> None:
        if version > VERSION:
            raise NewerLog(
                f"{self._path} was written by a newer Grain: it has version {version} of the "
                f"format, and this Grain reads {VERSION}. Upgrade Grain here: "
                "pip install --upgrade grain-scheduler",
                version,
            )


class _Kind(msgspec.Struct):
    """The fields of every line, of any version; only the first line of a part has a version."""

    event: str
    version: int = 0


_KIND = msgspec.json.Decoder(_Kind)
_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyLine))


def read(path: str | os.PathLike[str]) -> Iterator[AnyLine]:
    """Yield the lines of a log up to its present end.

    Args:
        path: the folder of a log, or a file, as for `LogReader`.

    Raises:
        NotALog: the path is not an event log.
        NewerLog: a newer Grain has written it.
        OSError: it cannot be read.
    """
    return iter(LogReader(path))
