"""Columns over rows, and their writers: tables as text, fields of formats, data. Pure.

A display says which columns it has; a writer lays the same figures out. So a figure has one name
and one form in all displays, and a new one is one column.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from grain.cli.show import Row, one_line, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

R = TypeVar("R")

_NARROW = 60  # columns of a terminal below which a table has fewer of them, if it can
_NOTHING = ("", "-")  # of which no line under a row speaks


class Column(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """A figure of a row.

    Attributes:
        name: its head, or its key in data.
        value: returns the figure of a row; None if there is none.
        text: formats it.
        rank: 0 for one that never goes, however little room there is. In `grain top` the larger
            goes sooner; in other tables all others go together.
        under: where it goes then, as in ``"took {}"``: under the row; "" for away.
        least: characters to which it may be shortened, before others; 0 if it may not.
        right: True for numbers, which stand at the right.
        tail: True for names that differ at their end: what is too long lacks its middle.
        width: characters in a format, negative for a value at the left; None for as wide as it is.
        cut: the end of a value that is cut; None if values stay whole, whatever the width.
        after: the text behind it in a format.
        kind: the type of the figures, in tables of other programs.
    """

    name: str
    value: Callable[[R], Any]
    text: Callable[[Any], str] = str
    rank: int = 0
    under: str = ""
    least: int = 0
    right: bool = False
    tail: bool = False
    width: int | None = None
    cut: str | None = ""
    after: str = ""
    kind: type = str

    def shown(self, row: R) -> str:
        """Return the figure of a row as text; one that is a text, be it marked up, as it is."""
        value = self.value(row)
        return value if self.text is str and isinstance(value, str) else self.text(value)

    def laid(self, text: str, cut: str | None) -> str:
        """Return a text in this column of a format; `cut` as of the column."""
        if self.width is None:
            return text + self.after
        size = abs(self.width)
        if cut is not None and len(text) > size:
            text = text[: max(size - len(cut), 0)] + cut * (size > 0)
        return (text.ljust(size) if self.width < 0 else text.rjust(size)) + self.after


def data(columns: Iterable[Column[R]], row: R) -> dict[str, Any]:
    """Return a row as plain data."""
    return {column.name: column.value(row) for column in columns}


def fields(
    columns: Sequence[Column[R]], rows: Iterable[R], *, heads: bool, rule: bool = False
) -> Iterator[str]:
    """Yield lines of a format that programs read: each value in its width.

    Args:
        heads: True for a line of heads.
        rule: True for a line of dashes below it.
    """
    if heads:
        yield "".join(column.laid(column.name, column.cut or "") for column in columns)
    if heads and rule:
        yield "".join(column.laid("-" * abs(column.width or 0), "") for column in columns)
    for row in rows:
        yield "".join(column.laid(one_line(column.shown(row)), column.cut) for column in columns)


def rows_text(
    title: str,
    columns: Iterable[Column[R]],
    rows: Iterable[R],
    most: int | None = None,
    below: Callable[[R], Sequence[str]] = lambda _: (),
) -> str:
    """Format rows as a table; see `grain.cli.show.table`.

    Where the table is too wide, a narrow terminal loses the columns that have a rank. Any terminal
    loses a column that has a rank and may also be shortened.

    Args:
        below: returns what stands under a row, a sentence each.
    """
    listed, given = list(columns), list(rows)
    cells = [[column.shown(row) for column in listed] for row in given]
    lines = [[column.name for column in listed], *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(listed))]
    room = math.inf if most is None else most
    tight = sum(widths) + 2 * (len(widths) - 1) > room
    away = [bool(one.rank) and tight and (one.least > 0 or room < _NARROW) for one in listed]
    shown = [at for at, gone in enumerate(away) if not gone]
    under = [at for at, gone in enumerate(away) if gone and listed[at].under]
    rows_shown = []
    for row, line in zip(given, cells, strict=True):
        first = ", ".join(
            listed[at].under.format(line[at]) for at in under if line[at] not in _NOTHING
        )
        rows_shown.append(Row([line[at] for at in shown], [*[first] * bool(first), *below(row)]))
    elastic = [place for place, at in enumerate(shown) if listed[at].least]
    return table(title, [listed[at].name for at in shown], rows_shown, most, elastic)
