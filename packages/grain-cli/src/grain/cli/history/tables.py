"""Rows as CSV and as Parquet, written as they come."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from grain.cli.columns import data
from grain.cli.plugins import library
from grain.cli.show import clean
from grain.files.whole import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from grain.cli.columns import Column

_AT_ONCE = 20_000  # rows of a group in a Parquet file


R = TypeVar("R")


def write_csv(rows: Iterable[R], columns: Sequence[Column[R]], out: TextIO) -> None:
    """Write rows as comma-separated values below the names of their columns (RFC 4180).

    What is not known is empty, and times are Unix seconds.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    values = [column.value for column in columns]
    writer.writerows([_cell(value(row)) for value in values] for row in rows)


def _cell(value: object) -> object:
    """Return a value as it is written: messages of exceptions must not control a terminal."""
    if isinstance(value, str):
        return clean(value)
    return "" if value is None else value


def write_parquet(rows: Iterable[R], columns: Sequence[Column[R]], path: str) -> None:
    """Write rows to a Parquet file, which is whole or not there.

    Raises:
        click.UsageError: pyarrow is not installed here.
        OSError: the file cannot be written.
    """
    arrow, parquet = _module("pyarrow"), _module("pyarrow.parquet")
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    schema = arrow.schema([(column.name, types[column.kind]) for column in columns])
    with (
        whole_file(Path(path), mode=None) as file,
        parquet.ParquetWriter(file, schema) as writer,
    ):
        for group in _groups(data(columns, row) for row in rows):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))


def _groups(rows: Iterable[R]) -> Iterator[list[R]]:
    iterator = iter(rows)
    while group := list(islice(iterator, _AT_ONCE)):
        yield group


def _module(name: str) -> Any:
    instead = "write --csv, which every program reads"
    return library(name, user="--parquet", install="pyarrow", instead=instead)
