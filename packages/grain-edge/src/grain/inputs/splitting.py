"""Records out of bytes: lines, columns and CSV rows, as they come in.

A record is the tuple of its columns. Bytes that are not UTF-8 survive as surrogates, as they do in
Python's file names (PEP 383), so a program gets exactly what stood in the file.
"""

from __future__ import annotations

import csv
import io
import os
import re
from typing import TYPE_CHECKING

from grain.inputs.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Record = tuple[str, ...]


class Columns:
    """The rule by which a line becomes columns.

    Args:
        colsep: a regular expression between columns; None for one column.
        csv: True if lines are rows of comma-separated values (RFC 4180).

    Raises:
        InputError: colsep is not a regular expression, or both are given.
    """

    def __init__(self, colsep: str | None = None, *, csv: bool = False) -> None:
        if colsep is not None and csv:
            raise InputError("--csv and --colsep exclude each other: CSV has commas")
        try:
            self._separator = None if colsep is None else re.compile(colsep)
        except re.error as error:
            raise InputError(f"--colsep {colsep!r} is not a regular expression: {error}") from None
        self.csv = csv

    @property
    def several(self) -> bool:
        """True if a line may have more than one column."""
        return self.csv or self._separator is not None

    def split(self, line: str) -> Record | None:
        """Return the columns of a line; None for an empty row of a CSV file.

        Raises:
            InputError: the line is not CSV.
        """
        if self._separator is not None:
            return tuple(self._separator.split(line))
        if not self.csv:
            return (line,)
        try:
            rows = list(csv.reader(io.StringIO(line, newline=""), strict=True))
        except csv.Error as error:
            raise InputError(f"not a row of CSV ({error}): {line[:200]!r}") from None
        if len(rows) > 1:
            raise InputError(
                "not one row of CSV, but several (a line ends by only a carriage return, or "
                f"there are quotes in a column that does not begin with one): {line[:200]!r}"
            )
        return tuple(rows[0]) if rows and rows[0] else None


class Splitter:
    """A splitter that takes bytes in pieces of any size, and returns complete records.

    Args:
        null: True if lines end with a null character instead of a newline.
    """

    def __init__(self, columns: Columns, *, null: bool = False) -> None:
        self._columns = columns
        self._end = b"\0" if null else b"\n"
        self._rest: list[bytes] = []
        self._first = True
        # Lines of a CSV row that a quoted newline goes through: complete with an even number of
        # quotes, since a quote within a quoted column is doubled.
        self._open: list[bytes] = []
        self._quotes = 0

    def feed(self, data: bytes) -> list[Record]:
        """Return the records that these bytes complete."""
        return [record for line in self._split(data) for record in self._record(line)]

    def end(self) -> list[Record]:
        """Return the last record, if its line did not end.

        Raises:
            InputError: the file ends within a quoted column.
        """
        last, self._rest = b"".join(self._rest), []
        records = list(self._record(last)) if last else []
        if self._open:
            line = os.fsdecode(b"\n".join(self._open))
            raise InputError(f"the file ends within a quoted column: {line[:200]!r}")
        return records

    def _split(self, data: bytes) -> Iterator[bytes]:
        *lines, last = data.split(self._end)
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest = []
        if last:
            self._rest.append(last)
        return iter(lines)

    def _record(self, line: bytes) -> Iterator[Record]:
        if self._columns.csv:
            if self._first:
                line = line.removeprefix(b"\xef\xbb\xbf")  # as spreadsheets write it
                self._first = False
            self._quotes += line.count(b'"')
            self._open.append(line)
            if self._quotes % 2:
                return
            line = b"\n".join(self._open).removesuffix(b"\r")
            self._open, self._quotes = [], 0
        record = self._columns.split(os.fsdecode(line))
        if record is not None:
            yield record


def row_text(record: Sequence[str], delimiter: str = ",") -> str:
    """Return columns as a row of CSV, without its newline; `Columns` reads it back.

    Only what needs quotes has them, as a newline within a column does.
    """
    text = io.StringIO(newline="")
    # The writer quotes only those ends of lines that are its own.
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(record)
    return text.getvalue()[:-2]


def check_names(names: Record, where: str) -> None:
    """Refuse names of columns, the first record of an input, that would not tell columns apart.

    Args:
        names: the names of all columns.
        where: the input, for messages.

    Raises:
        InputError: a name is empty, or is there twice, or is a number.
    """
    for name in names:
        if not name or names.count(name) > 1:
            what = "is there twice" if name else "is empty"
            raise InputError(f"--header: the name {name!r} of a column in {where} {what}")
        if _is_number(name):  # an input that would be lost without a word
            raise InputError(
                f"--header: the first line of {where} has the number {name}, not a name of a "
                "column; leave --header out if it is an input, or name the columns"
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
