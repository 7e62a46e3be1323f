"""`Pane`: a table on the screen; only the visible rows are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from grain.cli.show import clean, folded
from grain.cli.top.tables.grid import RowOrder, Table, TableRow, arranged
from grain.cli.top.tables.picture import (
    UNICODE,
    Marks,
    fitted,
    head_line,
    padded,
    places,
    row_line,
    tile_lines,
    width,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.geometry import Size

    from grain.cli.top.tables.picture import ShownColumn

STYLES = {
    "": Style(),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="bright_red", bold=True),
    "dim": Style(dim=True),
    "title": Style(bold=True),
    "focus": Style(bold=True, reverse=True),
    "head": Style(underline=True),
    "cursor": Style(reverse=True),
}
"""The styles of what is drawn: never only a colour, and none of the background."""

_TOP = 2  # lines above the rows: the title, and the names of the columns
_INVITATION = 1000  # lines for a sentence in the place of rows: as many as there are
_TILES = 3  # of so many lines of a pane, one is for the rows in small
_LOW = 5  # lines of a pane that has hardly any rows but those in small


def strip(text: str, style: str, cells: int) -> Strip:
    """Return a line of a widget: text without markup, in a style."""
    return Strip([Segment(padded(clean(text), cells, ""), STYLES[style])], cells)


def segments(parts: Iterable[tuple[str, str]], cells: int) -> Strip:
    """Return a line of a widget: texts, each in its style."""
    line = [Segment(clean(text), STYLES[style]) for text, style in parts]
    return Strip(line).adjust_cell_length(cells)


class Scrolling(Widget, can_focus=True):
    """A widget that keys and the mouse wheel move up and down."""

    BINDINGS: ClassVar = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]

    @property
    def heads(self) -> int:
        """Lines at the top that do not move."""
        return 0

    def action_move(self, by: int) -> None:
        """Move by so many lines."""
        raise NotImplementedError

    def action_page(self, by: int) -> None:
        """Move by what is seen."""
        self.action_move(by * max(self.size.height - self.heads - 1, 1))

    def on_mouse_scroll_down(self) -> None:
        """Move."""
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        """Move."""
        self.action_move(-3)


class Pane(Scrolling):
    """A table with a cursor.

    Attributes:
        rows: those that are left, in their order.
        cursor: the index of the row that keys are about.
    """

    BINDINGS: ClassVar = [Binding("enter", "open", show=False)]

    class Opened(Message):
        """The user has opened a row."""

        def __init__(self, pane: Pane, row: TableRow) -> None:
            super().__init__()
            self.pane = pane
            self.row = row

    def __init__(self, name: str, by: Marks = UNICODE) -> None:
        super().__init__(id=name)
        self.table = Table("", (), (), "")
        self.order = RowOrder()
        self.rows: list[TableRow] = []
        self.cursor = 0
        self._by = by
        self._first = 0  # the row in the first line
        self._places: list[ShownColumn] = []
        self._tiles: list[list[tuple[str, str]]] = []

    # ---- what is shown

    def show(self, table: Table) -> None:
        """Show a table; the cursor stays on its row."""
        self.table = table
        self._arrange()

    def sort(self, order: RowOrder) -> None:
        """Sort and filter."""
        self.order = order
        self._arrange()

    def _arrange(self) -> None:
        key = self.rows[self.cursor].key if self.cursor < len(self.rows) else ""
        self.rows = arranged(self.table, self.order)
        # At the first row the cursor stays there: what is new is most often to be seen.
        if self.cursor:
            at = next((i for i, row in enumerate(self.rows) if row.key == key), self.cursor)
            self.cursor = max(min(at, len(self.rows) - 1), 0)
        self._scroll()

    @property
    def wanted(self) -> int:
        """The lines that it takes to show all rows."""
        if not self.rows:
            return _INVITATION if self._invites else 1
        tiles = -(-len(self.table.tiles) // max(self.size.width, 1))
        return _TOP + tiles + len(self.rows)

    @property
    def _invites(self) -> bool:
        return bool(self.table.invitation) and not self.table.rows

    @staticmethod
    def _small_lines(height: int) -> int:
        """Return how many lines rows in small may take: all, where there is no room for others."""
        return height - 1 if height <= _LOW else height // _TILES - 1

    @property
    def heads(self) -> int:
        """The lines above the rows: the title, the rows in small, and the names of the columns."""
        above = 1 + len(self._tiles)
        return self.size.height if self._tiles and self.size.height - above < _TOP else above + 1

    @property
    def row(self) -> TableRow | None:
        """The row at the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def seen(self) -> list[TableRow]:
        """The rows that are on the screen."""
        return self.rows[self._first : self._first + max(self.size.height - self.heads, 0)]

    def find(self, key: str) -> bool:
        """Move the cursor to a row; return False if it is not among those that are left."""
        at = next((at for at, row in enumerate(self.rows) if row.key == key), None)
        if at is not None:
            self.cursor = at
            self._scroll()
        return at is not None

    # ---- keys and mouse

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = max(min(self.cursor + by, len(self.rows) - 1), 0)
        self._scroll()

    def action_open(self) -> None:
        """Open the row at the cursor."""
        if self.row is not None:
            self.post_message(self.Opened(self, self.row))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to a row."""
        at = self._first + event.y - self.heads
        if event.y >= self.heads and at < len(self.rows):
            self.cursor = at
            self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._scroll()

    def on_focus(self) -> None:
        """Redraw the title."""
        self.refresh()

    def on_blur(self) -> None:
        """Redraw the title."""
        self.refresh()

    def _scroll(self) -> None:
        self._tiles = tile_lines(
            () if self.order.words else self.table.tiles,
            self.size.width,
            self._small_lines(self.size.height),
            self._by,
        )
        lines = max(self.size.height - self.heads, 1)
        self._first = max(min(self._first, self.cursor, len(self.rows) - lines), 0)
        self._first = max(self._first, self.cursor - lines + 1)
        self._places = places(self.table.columns, self.seen, self.size.width)
        self.refresh()

    # ---- drawing

    def get_content_width(self, container: Size, viewport: Size) -> int:  # noqa: ARG002
        """Return all there is."""
        return container.width

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        cells = self.size.width
        if y == 0:
            return strip(self._title(), "focus" if self.has_focus else "title", cells)
        if self._invites:
            return strip(self._invitation(y), "title", cells)
        if y <= len(self._tiles):
            return segments(self._tiles[y - 1], cells)
        where = self._places
        if y == len(self._tiles) + 1:
            if self.heads == self.size.height:
                return strip("", "", cells)
            if not self.rows:
                return strip("", "", cells)
            return strip(head_line(self.table.columns, where, self.order.column), "head", cells)
        at = self._first + y - self.heads
        if at >= len(self.rows):
            return strip("", "", cells)
        row = self.rows[at]
        here = at == self.cursor and self.has_focus
        line = row_line(self.table.columns, where, row, self._by)
        return strip(line, "cursor" if here else row.style, cells)

    def _invitation(self, y: int) -> str:
        """Return a line of the sentence that stands in the middle of an empty pane."""
        cells = self.size.width
        lines = folded(self.table.invitation, cells)
        at = y - 1 - max((self.size.height - 1 - len(lines)) // 2, 0)
        return lines[at].strip().center(cells) if 0 <= at < len(lines) else ""

    def _title(self) -> str:
        parts = [self.table.title]
        if not self.table.rows and not (self._invites and self.size.height > 1):
            parts.append(self.table.nothing)
        if self.order.words:
            words = clean(self.order.words)
            parts.append(f"[{len(self.rows)} with {words!r}; Escape shows all]")
        elif self._tiles:
            parts.append(f"({self.table.legend})")
        hidden = len(self.rows) - len(self.seen)
        more = hidden + (0 if self.order.words else self.table.more)
        rest = f"  +{more} more" if more > 0 else ""
        room = self.size.width - width(rest)
        title = fitted(parts, room)
        return padded(title, room, "") + rest if rest else title
