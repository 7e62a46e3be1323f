"""Text that fits: columns, bars, and the heights of panes. Pure.

Widths are cells of a terminal; a Chinese character takes two.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.top.tables.grid import Gauge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.cli.columns import Column
    from grain.cli.top.tables.grid import TableRow, Tile

_GAP = 2  # cells between two columns
_LEAST_BAR, _MOST_BAR = 3, 12


class Marks(NamedTuple):
    """The characters of pictures.

    Attributes:
        full: for the part of a bar that is in use, or done.
        empty: for the rest.
        cut: in place of text that is left out.
        given: for the part that was given to tasks, and whose use is unknown.
        levels: nine characters, from nothing to all.
    """

    full: str = "█"
    empty: str = "░"
    cut: str = "…"
    given: str = "▒"
    levels: str = "·▁▂▃▄▅▆▇█"


UNICODE = Marks()
ASCII = Marks("#", ".", "~", "=", ".12345678")


def marks(encoding: str) -> Marks:
    """Return the characters that an encoding has."""
    try:
        "".join(UNICODE).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def width(text: str) -> int:
    """Return the cells that a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(one: str) -> int:
    if unicodedata.category(one) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1


def cut(text: str, most: int, mark: str = "…") -> str:
    """Return a text of at most so many cells; a longer text loses its end to a mark."""
    if width(text) <= most:
        return text
    if most <= 0:
        return ""
    kept, room = "", most - len(mark)
    for one in text:
        room -= _cells(one)
        if room < 0:
            break
        kept += one
    return kept + mark


def middle_cut(text: str, most: int, mark: str = "…") -> str:
    """Return a text of at most so many cells; a longer one without its middle."""
    if width(text) <= most or most < 3:
        return cut(text, most, mark)
    end = cut(text[::-1], (most + 1) // 2, "")[::-1]
    return cut(text, most - width(end), mark) + end


def padded(
    text: str, cells: int, mark: str = "…", *, right: bool = False, tail: bool = False
) -> str:
    """Return a text of exactly so many cells."""
    text = middle_cut(text, cells, mark) if tail else cut(text, cells, mark)
    space = " " * (cells - width(text))
    return space + text if right else text + space


def fitted(parts: Sequence[str], room: int, between: str = "  ") -> str:
    """Return the first parts that fit into so many cells; the first one, cut, if none does."""
    line = cut(parts[0], room) if parts else ""
    for part in parts[1:]:
        longer = f"{line}{between}{part}"
        if width(longer) > room:
            break
        line = longer
    return line


class ShownColumn(NamedTuple):
    """A column that is shown.

    Attributes:
        at: which of the table's columns.
        cells: how wide it is.
        text: how wide the texts behind its bars are; 0 without bars.
    """

    at: int
    cells: int
    text: int = 0


class _Width(NamedTuple):
    most: int
    least: int
    text: int


def places(
    columns: Sequence[Column[Any]], rows: Sequence[TableRow], room: int
) -> list[ShownColumn]:
    """Return the columns that fit, and their widths.

    Those of the largest rank give way until the others fit, shortened as far as they may be; then
    the widest of these are.

    Args:
        room: cells in all.
    """
    wanted = [_wanted(column, [row.cells[at] for row in rows]) for at, column in enumerate(columns)]
    kept = list(range(len(columns)))
    while len(kept) > 1 and sum(wanted[at].least + _GAP for at in kept) - _GAP > room:
        kept.remove(max(kept, key=lambda at: (columns[at].rank, at)))
    widths = {at: wanted[at].most for at in kept}
    excess = sum(widths.values()) + _GAP * (len(kept) - 1) - room
    while excess > 0:
        shrinkable = [at for at in kept if widths[at] > wanted[at].least]
        if not shrinkable:
            break
        widths[max(shrinkable, key=lambda at: widths[at])] -= 1
        excess -= 1
    return [ShownColumn(at, min(widths[at], max(room, 0)), wanted[at].text) for at in kept]


def _wanted(column: Column[Any], cells: Sequence[str | Gauge]) -> _Width:
    head = len(column.name)
    texts = [width(cell.text if isinstance(cell, Gauge) else cell) for cell in cells]
    text = max(texts, default=0)
    if any(isinstance(cell, Gauge) for cell in cells):
        return _Width(max(head, text + 1 + _MOST_BAR), max(head, text + 1 + _LEAST_BAR), text)
    most = max(head, text)
    return _Width(most, min(most, max(column.least, head)) if column.least else most, 0)


def head_line(
    columns: Sequence[Column[Any]], where: Sequence[ShownColumn], sorted_by: str = ""
) -> str:
    """Return the line with the names of the columns; a mark stands at the one sorted by."""
    line = ""
    for place in where:
        column = columns[place.at]
        line += padded(column.name, place.cells, "", right=column.right)
        if column.name != sorted_by:
            line += " " * _GAP
        elif column.right or len(column.name) == place.cells:
            line += "*" + " " * (_GAP - 1)
        else:
            at = len(line) - place.cells + len(column.name)
            line = line[:at] + "*" + line[at + 1 :] + " " * _GAP
    return line[: sum(place.cells + _GAP for place in where) - _GAP]


def row_line(
    columns: Sequence[Column[Any]], where: Sequence[ShownColumn], row: TableRow, by: Marks
) -> str:
    """Return the line of a row."""
    cells = []
    for place in where:
        cell = row.cells[place.at]
        if isinstance(cell, Gauge):
            cells.append(bar_text(cell, place, by))
        else:
            column = columns[place.at]
            cells.append(padded(cell, place.cells, by.cut, right=column.right, tail=column.tail))
    return (" " * _GAP).join(cells)


def bar_text(bar: Gauge, place: ShownColumn, by: Marks) -> str:
    """Return a bar and its text; only the text where there is no room for both."""
    room = place.cells - place.text - 1
    if bar.share is None or room < _LEAST_BAR:
        return padded(bar.text, place.cells, by.cut, right=True)
    full = round(room * bar.share)
    # A bar that is neither empty nor full does not look as if it were.
    if 0 < bar.share < 1:
        full = min(max(full, 1), room - 1)
    text = padded(bar.text, place.text, by.cut, right=True)
    # Programs may use more than they were given.
    used = full if bar.used is None else min(round(room * bar.used), full)
    if bar.used and not used and full:
        used = 1
    parts = by.full * used + by.given * (full - used) + by.empty * (room - full)
    return f"{parts} {text}"


def tile_lines(
    tiles: Sequence[Tile], cells: int, lines: int, by: Marks
) -> list[list[tuple[str, str]]]:
    """Return tiles as lines, each of texts with their styles.

    Tiles that do not fit are counted at the end of the last line.

    Args:
        cells: of a line.
        lines: at most.
    """
    if not tiles or cells < 1 or lines < 1:
        return []
    room = cells * lines
    shown, rest = len(tiles), ""
    if shown > room:
        # The number has as many digits as that of all of them, at most.
        rest = f" +{len(tiles)} more"
        shown = max(room - len(rest), 0)
        rest = f" +{len(tiles) - shown} more"[:cells]
    texts = [(tile.letter or by.levels[tile.level], tile.style) for tile in tiles[:shown]]
    rows = [texts[at : at + cells] for at in range(0, shown, cells)] or [[]]
    return [*rows[:-1], [*rows[-1], (rest, "title")]] if rest else rows


def heights(room: int, wanted: Sequence[int], focus: int) -> list[int]:
    """Return the lines of each pane.

    Each has one for its title at least, as long as there are any. The pane in focus has half of the
    rest if it needs it, and the others share what is left. A pane whose share does not hold a row
    has only its title. The last one has what is left over.

    Args:
        wanted: the lines that each pane needs: one if it has no rows, else three or more.
        focus: which pane is in focus.
    """
    lines = [1] * len(wanted)
    left = room - len(wanted)
    if left < 0:
        # Title after title from the top, but that of the focus first.
        order = [focus, *(at for at in range(len(wanted)) if at != focus)]
        shown = set(order[: max(room, 0)])
        return [int(at in shown) for at in range(len(wanted))]
    first = min(wanted[focus] - 1, max(left // 2, 3), left)
    lines[focus] += first
    left -= first
    others = [at for at in range(len(wanted)) if at != focus and wanted[at] > 1]
    while others:
        share = left // len(others)
        if share < 2:
            others.pop()  # no row of its own would be seen: only the title is shown
            continue
        at = min(others, key=lambda one: wanted[one])
        given = min(wanted[at] - 1, share)
        lines[at] += given
        left -= given
        others.remove(at)
    # What no pane needs stays empty at the bottom.
    more = min(left, max(wanted[focus] - lines[focus], 0))
    lines[focus] += more
    lines[-1] += left - more
    return lines
