"""Help, and questions before something ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

KEYS = (
    ("q, Ctrl-C", "end"),
    ("? h", "this help"),
    ("Tab, 1 to 5", "another table: missions, workers, running, waiting, failures"),
    ("arrows, j k", "another row; also Page Up, Page Down, Home, End"),
    ("Enter", "open a worker or a task; of a mission, show its tasks alone"),
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


class Help(ModalScreen[None]):
    """The keys; any key closes it."""

    def compose(self) -> ComposeResult:
        """Make its widgets."""
        with Vertical(classes="prompt"):
            yield Static("\n".join([*help_lines(), "", "Any key goes back."]), markup=False)

    def on_key(self, event: events.Key) -> None:
        """Close it."""
        event.stop()
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """A question that ends with yes or no; anything else but ``y`` is a no.

    Args:
        question: its text.
    """

    BINDINGS: ClassVar = [
        Binding("y", "answer(True)"),
        Binding("n,escape,enter,q", "answer(False)"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Make its widgets."""
        with Vertical(classes="prompt"):
            yield Static(f"{self._question}\n\ny  yes\nn  no", markup=False)

    def action_answer(self, yes: bool) -> None:
        """End with an answer."""
        self.dismiss(yes)
