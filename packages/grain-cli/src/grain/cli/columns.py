"""Columns over rows, and their writers: tables as text, fields of formats, plain data. Pure.

A display says which columns it has; a writer lays the same figures out. So a figure has one name
and one form in all displays, and a new one is one column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from grain.cli.show import NARROW, Row, one_line, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

R = TypeVar("R")


class Column(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """A figure of a row.

    Attributes:
        name: the key in plain data, and the head.
        value: returns the figure of a row, as plain data.
        text: formats it.
        narrow: True if the column goes where the terminal is narrow.
        under: where it goes then, as in ``"took {}"``: under the row; "" for away.
        elastic: True if it is shortened before others.
        width: characters in a format, negative for a value at the left; None for as wide as it is.
        cut: the end of a value that is cut; None if values stay whole, whatever the width.
        after: the text behind it in a format.
    """

    name: str
    value: Callable[[R], Any]
    text: Callable[[Any], str] = str
    narrow: bool = False
    under: str = ""
    elastic: bool = False
    width: int | None = None
    cut: str | None = ""
    after: str = ""

    def shown(self, row: R) -> str:
        """Return the figure of a row as text."""
        return self.text(self.value(row))

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

    Args:
        below: returns what stands under a row, a sentence each.
    """
    narrow = most is not None and most < NARROW
    shown = [column for column in columns if not (narrow and column.narrow)]
    under = [column for column in columns if narrow and column.narrow and column.under]
    lines = []
    for row in rows:
        away = ", ".join(one.under.format(one.shown(row)) for one in under)
        lines.append(Row([one.shown(row) for one in shown], [*[away] * bool(away), *below(row)]))
    elastic = [at for at, column in enumerate(shown) if column.elastic]
    return table(title, [column.name for column in shown], lines, most, elastic)
