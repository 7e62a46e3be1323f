"""The table of results: a row for each job that ended, with its values and its outputs.

The columns are those of GNU parallel's ``--results FILE.csv``: those of the result log, then the
values of the input by the names of a header or as V1, V2, ..., then Stdout and Stderr. ``.tsv`` has
tabs in the place of commas. Columns are quoted as in RFC 4180; bytes are written as they came.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from grain.inputs.splitting import row_text
from grain.map.errors import ResultLogError
from grain.map.job_log.entries import HEADER, JobLogEntry
from grain.map.job_log.file import open_locked, remove_torn, write_whole
from grain.map.overflow import LargeOutput, Output, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PIECE = 1 << 20


def is_table(name: str) -> bool:
    """Return True if a name for results is that of a table."""
    return name[-4:] in _DELIMITERS


class ResultTable:
    """A table that is written; use it in a ``with`` block, which closes its file.

    Args:
        name: the file, which ends with .csv or .tsv; "-.csv" and "-.tsv" are standard output.
        names: the names of the columns of inputs; empty for V1, V2, ...
        go_on: True if rows may be there, to which others are added.

    Raises:
        ResultLogError: the file has rows of another run, or is in use.
        OSError: the file cannot be read or written.
    """

    def __init__(self, name: str, names: Sequence[str] = (), *, go_on: bool = False) -> None:
        self._name = name
        self._delimiter = _DELIMITERS[name[-4:]]
        self._names = tuple(names)
        self._fd: int | None = None
        self._begun = False
        if name[:-4] == "-":
            return
        self._fd = open_locked(name, "name another file")
        try:
            length = self._complete_rows(self._fd, go_on=go_on)
            remove_torn(self._fd, length)
            self._begun = length > 0
        except BaseException:
            os.close(self._fd)
            raise

    def add(
        self, entry: JobLogEntry, values: Sequence[str], out: Output, err: Output
    ) -> list[Output]:
        """Add the row of a job; only one thread at a time may do so.

        Returns:
            What is to be printed, in parts: nothing, if the table is a file.

        Raises:
            OSError: the row could not be written as a whole, as when the disk is full.
        """
        row = [
            str(entry.seq), entry.host, f"{entry.start:.3f}", f"{entry.runtime:.3f}", "0",
            str(entry.received), str(entry.exitval), str(entry.signal), entry.command,
        ]  # fmt: skip
        head = b""
        if not self._begun:
            self._begun = True
            names = self._names or [f"V{i + 1}" for i in range(len(values))]
            first = os.fsdecode(HEADER).rstrip("\n").split("\t")
            head = self._line([*first, *names, "Stdout", "Stderr"])
        if isinstance(out, bytes) and isinstance(err, bytes):
            cells = [*row, *values, os.fsdecode(out), os.fsdecode(err)]
            parts: list[Output] = [head + self._line(cells)]
        else:
            between = self._delimiter.encode()
            first_cells = self._line([*row, *values]).removesuffix(b"\n")
            parts = [head, first_cells, between, *self._cell(out), between, *self._cell(err), b"\n"]
        if self._fd is None:
            return parts
        for piece in chain.from_iterable(map(pieces_of, parts)):
            write_whole(self._fd, piece, self._name)
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def _line(self, columns: Sequence[str]) -> bytes:
        return os.fsencode(row_text(columns, self._delimiter) + "\n")

    def _cell(self, output: Output) -> list[Output]:
        """Return the parts of a cell in a row with a large output."""
        if isinstance(output, LargeOutput):
            return [b'"', replace(output, change=_doubled_quotes), b'"']
        return [self._line([os.fsdecode(output)]).removesuffix(b"\n")] if output else []

    def _complete_rows(self, fd: int, *, go_on: bool) -> int:
        """Return the length of the rows that are complete, in bytes.

        A row ends with a newline outside quotes, and there an even number of quotes has come.

        Raises:
            ResultLogError: there are rows, and there must be none.
        """
        length = position = quotes = 0
        with open(fd, "rb", closefd=False) as file:
            while piece := file.readline(_PIECE):
                position += len(piece)
                quotes += piece.count(b'"')
                if piece.endswith(b"\n") and quotes % 2 == 0:
                    length = position
        if length and not go_on:
            raise ResultLogError(
                f"{self._name} has the results of an earlier run. --resume with its --joblog goes "
                "on with it; for a new run, remove the file or name another one"
            )
        return length


def _doubled_quotes(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece.replace(b'"', b'""')
