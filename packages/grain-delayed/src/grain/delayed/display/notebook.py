"""`NotebookView`: the progress of a mission in a Jupyter notebook.

A cell that runs while the mission has tasks shows a bar of its own, as a mission may be opened in
one cell and used in later ones. A front end routes output by the cell whose context it was
displayed in. So the view notes the context at the start of each cell, displays a bar in it when
there is something to be shown, and from then on updates that bar by its id.
"""

from __future__ import annotations

import contextvars
import html
from typing import TYPE_CHECKING, Any

from grain.delayed.display.lines import live_line

if TYPE_CHECKING:
    from typing_extensions import Self

    from grain.delayed.display.lines import LinePart
    from grain.delayed.display.progress import Progress

_LOOK = 0.5  # seconds between two looks
_WIDTH = 400  # columns: there is room for all parts of the line
_COLOURS = {
    "green": "#2e7d32",
    "bold red": "#c62828",
    "yellow": "#b26a00",
    "dim": "#757575",
    "cyan": "#00695c",
}


class NotebookView:
    """Bars in the cells of a notebook; a context manager."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._cell = contextvars.copy_context()
        # The bar of the cell, as IPython handles what is displayed; None before there is one.
        self._bar: Any = None
        self._shown = ""
        self._seen = self._counts()

    def __enter__(self) -> Self:
        """Record the cells that begin."""
        self._events.register("pre_run_cell", self._on_cell)
        self._events.register("post_run_cell", self._on_cell_ended)
        return self

    def __exit__(self, *_: object) -> None:
        """Show the end of the mission."""
        self._events.unregister("pre_run_cell", self._on_cell)
        self._events.unregister("post_run_cell", self._on_cell_ended)
        self.show()

    @property
    def _events(self) -> Any:
        from IPython import get_ipython  # type: ignore[attr-defined,unused-ignore]

        return get_ipython().events  # type: ignore[no-untyped-call,unused-ignore]

    def _on_cell(self, *_: object) -> None:
        self._progress.count()
        self._cell = contextvars.copy_context()
        self._bar = None
        self._seen = self._counts()

    def _on_cell_ended(self, *_: object) -> None:
        # What comes later may be shown late, or not at all.
        self._progress.count()
        self.show()

    def _counts(self) -> tuple[int, int]:
        return self._progress.ended, self._progress.unfinished

    def pause(self, _: float) -> float:
        """Return the seconds until the next look."""
        return _LOOK

    def show(self) -> None:
        """Show the bar of the cell, if anything has changed since the cell began."""
        if self._bar is None and self._counts() == self._seen:
            return
        shown = as_html(self._progress)
        if self._bar is not None and shown == self._shown:
            return
        self._shown = shown
        text = "".join(part.text for part in words(self._progress))
        self._cell.run(self._put, shown, text)

    def _put(self, shown: str, text: str) -> None:
        from IPython.display import display

        # The text is for what shows no HTML, as `jupyter nbconvert --to markdown`.
        data = {"text/html": shown, "text/plain": text}
        if self._bar is None:
            self._bar = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call,unused-ignore]
        else:
            self._bar.update(data, raw=True)


def words(progress: Progress) -> list[LinePart]:
    """Return the parts of the line, without a bar."""
    return [part for part in live_line(progress, _WIDTH, ("", "")) if part.text.strip()]


def as_html(progress: Progress) -> str:
    """Return the progress as HTML: the line, and a bar if the number of all calls is known."""
    coloured = "".join(
        f'<span style="color:{_COLOURS[part.style]}">{html.escape(part.text)}</span>'
        if part.style in _COLOURS
        else html.escape(part.text)
        for part in words(progress)
    )
    if progress.share is None:
        return f"<span>{coloured}</span>"
    return f'<progress max="1" value="{progress.share:.3f}"></progress> {coloured}'
