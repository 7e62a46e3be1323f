"""`Pane`: a table on the screen; only the visible rows are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from grain.cli.show import clean
from grain.cli.top.picture import UNICODE, Marks, head_line, padded, places, row_line
from grain.cli.top.tables import RowOrder, Table, TableRow, arranged

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Size

    from grain.cli.top.picture import ShownColumn

STYLES = {
    "": Style(),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red"),
    "dim": Style(dim=True),
    "title": Style(bold=True),
    "focus": Style(bold=True, reverse=True),
    "head": Style(underline=True),
    "cursor": Style(reverse=True),
}
"""The styles of what is drawn: never only a colour, and none of the background."""

_TOP = 2  # lines above the rows: the title, and the names of the columns


def strip(text: str, style: str, cells: int) -> Strip:
    """Return a line of a widget: text as it is, in a style."""
    return Strip([Segment(padded(text, cells, ""), STYLES[style])], cells)


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
    heads = 0
    """Lines at the top that do not move."""

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
    heads = _TOP

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
        return _TOP + len(self.rows) if self.rows else 1

    @property
    def row(self) -> TableRow | None:
        """The row at the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def seen(self) -> list[TableRow]:
        """The rows that are on the screen."""
        return self.rows[self._first : self._first + max(self.size.height - _TOP, 0)]

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
        at = self._first + event.y - _TOP
        if event.y >= _TOP and at < len(self.rows):
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
        lines = max(self.size.height - _TOP, 1)
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
        where = self._places
        if y == 1:
            if not self.rows:
                return strip("", "", cells)
            return strip(head_line(self.table.columns, where, self.order.column), "head", cells)
        at = self._first + y - _TOP
        if at >= len(self.rows):
            return strip("", "", cells)
        row = self.rows[at]
        here = at == self.cursor and self.has_focus
        line = row_line(self.table.columns, where, row, self._by)
        return strip(line, "cursor" if here else row.style, cells)

    def _title(self) -> str:
        parts = [self.table.title]
        if not self.table.rows:
            parts.append(self.table.nothing)
        if self.order.words:
            words = clean(self.order.words)
            parts.append(f"[{len(self.rows)} with {words!r}; Escape shows all]")
        return "  ".join(parts)
