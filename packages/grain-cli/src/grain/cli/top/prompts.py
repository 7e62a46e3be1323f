"""Help, and questions before something ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widget import Widget

from grain.cli.top.pane import strip
from grain.cli.top.tables.picture import width

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.strip import Strip

KEYS = (
    ("q, Ctrl-C", "end"),
    ("? h", "this help"),
    ("v, b, n", "the row that shows why the 1st, 2nd or 3rd sentence is so"),
    ("Tab, 1 to 6", "table: missions, functions, workers, running, waiting, failures"),
    ("arrows, j k", "another row; also Page Up, Page Down, Home, End"),
    ("Enter", "open a worker or a task; list the tasks of a mission or a cause"),
    ("Escape", "back; show all rows again"),
    ("/", "show rows with these words only"),
    ("s", "sort by the next column, marked by *"),
    ("r", "turn the order round"),
    ("d", "drain a worker: it takes no more tasks, and leaves; asks first"),
    ("c", "cancel a task; asks first"),
    ("p", "pause: keep the picture as it is"),
)
"""The keys, and what they do."""


def help_lines() -> list[str]:
    """Return the text of the help."""
    wide = max(len(keys) for keys, _ in KEYS)
    return ["grain top", "", *(f"{keys:{wide}}  {what}" for keys, what in KEYS)]


class Box(Widget):
    """Lines of text in a frame, drawn as they are."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(classes="prompt")
        self._lines = lines
        # The frame and the space within it take four cells and two lines.
        self.styles.width = max(map(width, lines)) + 4
        self.styles.height = len(lines) + 2

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        return strip(self._lines[y] if y < len(self._lines) else "", "", self.size.width)


class Help(ModalScreen[None]):
    """The keys; any key closes it."""

    def compose(self) -> ComposeResult:
        """Make its widgets."""
        yield Box([*help_lines(), "", "Any key goes back."])

    def on_key(self, event: events.Key) -> None:
        """Close it."""
        event.stop()
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """A question that ends with yes or no; anything else but ``y`` is a no."""

    BINDINGS: ClassVar = [
        Binding("y", "answer(True)"),
        Binding("n,escape,enter,q", "answer(False)"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Make its widgets."""
        yield Box([*self._question.splitlines(), "", "y  yes", "n  no"])

    def action_answer(self, yes: bool) -> None:
        """End with an answer."""
        self.dismiss(yes)
