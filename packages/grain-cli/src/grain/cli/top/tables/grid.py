"""Tables: columns, rows, bars, and the order and the choice of rows. Pure.

A table has all its rows; `arranged` sorts and filters them, and `picture` makes text of the visible
rows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from grain.cli.show import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.cli.columns import Column
    from grain.facts.rows import Run

R = TypeVar("R")


class Gauge(NamedTuple):
    """A part of a whole.

    Attributes:
        share: from 0 to 1; None if it is not known.
        text: behind the bar.
        used: of a part that was given, how much of the whole is in use; 0 where that is not known.
            None for a part of another kind.
    """

    share: float | None
    text: str
    used: float | None = None


class Shown(NamedTuple):
    """A value of a column whose text does not follow from it.

    Attributes:
        order: by which rows are sorted; None for those at the end.
    """

    text: str
    order: float | None


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        key: by which it is recognised in the next answer.
        values: for sorting, one for each column: numbers, or text as in `natural`.
        style: "" or one of "good", "warn", "bad", "dim".
        about: the run that it is about, with the name that commands take; None for anything else.
        words: that a filter finds in it, beside those of its cells.
    """

    key: str
    cells: tuple[str | Gauge, ...]
    values: tuple[Any, ...]
    style: str = ""
    about: Run | None = None
    words: str = ""


def table_row(
    columns: Iterable[Column[R]],
    row: R,
    key: str,
    style: str = "",
    about: Run | None = None,
    words: str = "",
) -> TableRow:
    """Return a row with a cell for each column; arguments as of `TableRow`."""
    cells: list[str | Gauge] = []
    values = []
    for column in columns:
        value = column.value(row)
        if isinstance(value, Gauge):
            cells.append(value)
            value = value.share
        elif isinstance(value, Shown):
            cells.append(clean(value.text))
            value = value.order
        else:
            cells.append(clean(column.text(value)))
        values.append(-1.0 if value is None else value)
    return TableRow(key, tuple(cells), tuple(values), style, about, words)


class Tile(NamedTuple):
    """A row as one character, where there are too many rows to be read.

    Attributes:
        level: from 0 to 8.
        letter: in the place of the level, of what stands out; empty for the others.
    """

    level: int
    letter: str = ""
    style: str = ""


class Table(NamedTuple):
    """A table.

    Attributes:
        title: its name and what it has in all.
        rows: its rows, in the order in which they are shown unless the user sorts them.
        nothing: what is shown without rows.
        more: how many rows there are that are not among these.
        invitation: a sentence that says what to do so that there are rows; empty if there is
            nothing to do.
        tiles: all rows in small, in their order; empty where they are few.
        legend: what the tiles are.
    """

    title: str
    columns: Sequence[Column[Any]]
    rows: tuple[TableRow, ...]
    nothing: str
    more: int = 0
    invitation: str = ""
    tiles: tuple[Tile, ...] = ()
    legend: str = ""


# ---- order


class RowOrder(NamedTuple):
    """The order and the choice of the rows of a table.

    Attributes:
        column: the head of the column by which they are sorted; empty for the table's own order.
        reverse: True if the order is turned round.
        words: rows without these words are left out.
    """

    column: str = ""
    reverse: bool = False
    words: str = ""


def arranged(table: Table, order: RowOrder) -> list[TableRow]:
    """Return the rows that are to be shown, in their order."""
    words = order.words.lower().split()
    rows: Iterable[TableRow] = table.rows
    if words:
        rows = (row for row in rows if _has(row, words))
    listed = list(rows)
    heads = [column.name for column in table.columns]
    if order.column in heads:
        at = heads.index(order.column)
        # Numbers from the largest, and words from A: what is looked for is most often there.
        largest_first = not any(isinstance(row.values[at], str) for row in listed[:1])
        listed.sort(key=lambda row: _rank(row.values[at]), reverse=largest_first)
    if order.reverse:
        listed.reverse()
    return listed


def _rank(value: Any) -> Any:
    return natural(value) if isinstance(value, str) else value


def _has(row: TableRow, words: Sequence[str]) -> bool:
    cells = " ".join(cell.text if isinstance(cell, Gauge) else cell for cell in row.cells)
    text = f"{cells} {row.words}".lower()
    return all(word in text for word in words)


def next_column(table: Table, order: RowOrder) -> RowOrder:
    """Return the order by the next column; after the last one comes the table's own."""
    heads = ["", *(column.name for column in table.columns)]
    at = heads.index(order.column) if order.column in heads else 0
    return order._replace(column=heads[(at + 1) % len(heads)], reverse=False)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key by which w9 comes before w10."""
    parts = re.findall(r"\d{1,18}|\D+|\d+", text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
