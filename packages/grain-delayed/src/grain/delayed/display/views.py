"""The places of progress: a line on a terminal, a widget in a notebook, or lines of a log."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from grain.delayed.display.lines import live_line, log_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import TextIO

    from rich.live import Live

    from grain.delayed.display.progress import Progress

_LIVE = 0.2  # seconds between two looks on a terminal
_LOG = 60.0  # seconds between two lines of a log
_SOONEST, _LATEST = 0.2, 20.0  # seconds between two looks for a log, in which cores are counted


class View(Protocol):
    """A place where progress is shown."""

    def pause(self, elapsed: float, /) -> float:
        """Return the seconds until the next look at a mission that has lasted for so long."""

    def show(self) -> None:
        """Show the progress after a look."""


@contextmanager
def view_here(progress: Progress, log: Callable[[str], object]) -> Generator[View]:
    """Open the view that suits this process, and close it in the end."""
    # A line on the terminal takes over sys.stdout and sys.stderr, of which the process has one
    # each: only a mission of the main thread may do that.
    if threading.current_thread() is threading.main_thread():
        if _is_terminal(sys.stderr):
            with _live(progress) as live:
                yield TerminalView(live)
            return
        if _in_notebook():
            from grain.delayed.display.notebook import NotebookView

            with NotebookView(progress) as view:
                yield view
            return
    yield LogView(progress, log)


class LogView:
    """A line of a log, once a minute."""

    def __init__(self, progress: Progress, log: Callable[[str], object]) -> None:
        self._progress = progress
        self._log = log
        self._next = _LOG

    def pause(self, elapsed: float) -> float:
        """Return the seconds until the next look."""
        look = min(max(elapsed / 20, _SOONEST), _LATEST)
        return min(look, max(self._next - elapsed, 0.0))

    def show(self) -> None:
        """Write a line if it is time."""
        if self._progress.elapsed >= self._next:
            self._next = self._progress.elapsed + _LOG
            self._log(log_line(self._progress))


class TerminalView:
    """A line at the bottom of a terminal."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def pause(self, _: float) -> float:
        """Return the seconds until the next look."""
        return _LIVE

    def show(self) -> None:
        """Show the line again."""
        self._live.refresh()


@contextmanager
def _live(progress: Progress) -> Generator[Live]:
    # Imported where it is used, as that takes a tenth of a second.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    bar = ("━", "─") if console.encoding.startswith("utf") else ("#", "-")

    def line() -> Text:
        # The last column stays free, as some terminals begin another line there.
        text = Text(no_wrap=True, overflow="ellipsis")
        for part in live_line(progress, console.width - 1, bar):
            text.append(part.text, part.style)
        return text

    # The output of the user's program goes above the line, unless it was redirected.
    with Live(
        get_renderable=line,
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=_is_terminal(sys.stdout),
    ) as live:
        # It stays visible: a process that a signal ends on the spot would leave it hidden.
        console.show_cursor(True)
        yield live


def dimmed(line: str) -> str:
    """Return a line in a weak colour, where standard error is a terminal that shows it."""
    main = threading.current_thread() is threading.main_thread()
    if main and _is_terminal(sys.stderr) and not os.environ.get("NO_COLOR"):
        return f"\x1b[2m{line}\x1b[0m"
    return line


def _is_terminal(stream: TextIO | None) -> bool:
    if stream is None or stream.closed or not stream.isatty():
        return False
    return os.environ.get("TERM", "") not in ("dumb", "unknown")


def _in_notebook() -> bool:
    """Return True in a Jupyter kernel, whose front end shows what is displayed."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
