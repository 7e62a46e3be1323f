"""`ProgressLine`: the progress of a mission that is followed, below its output on a terminal.

The scheduler has the counts. A mission that uses only its own machine has none, and writes a line
into its output once a minute, as every mission does.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, TextIO

from grain.cli.top.link import Link, Seen
from grain.cli.top.tables.picture import fitted
from grain.resource.figures import percent, rate, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.questions import MissionOutlook, OverviewAnswer
    from grain.facts.rows import Mission

_SECONDS = 2.0  # between two looks
_CLEAR = "\r\x1b[K"


def progress_text(mission: Mission, columns: int) -> str:
    """Return the progress of a mission in so many columns."""
    left, running, outlook = mission.left, mission.running, mission.outlook
    parts = []
    if outlook is not None and (total := outlook.total):
        parts.append(f"{percent(min(outlook.ended / total, 1.0), down=True)} of {total}")
    if not mission.connected:
        parts.append("away from its scheduler")
    parts.append(f"{mission.done} done")
    parts += [f"{mission.failed} failed"] if mission.failed else []
    if running is None:
        parts.append(f"{left} running or waiting")
    else:
        parts += [f"{running} running", f"{max(left - running, 0)} waiting"]
    if mission.rate > 0:
        parts.append(rate(mission.rate))
    if left and outlook is not None and (estimate := _left(outlook)):
        parts.append(estimate)
    return fitted(parts, columns, ", ")


def _left(outlook: MissionOutlook) -> str:
    """Return the time left as the mission states it, and what it is about; empty without one."""
    seconds = outlook.left
    if seconds is None or (outlook.least and round(seconds) < 1):
        return ""
    about = "left" if outlook.whole else "submitted so far"
    return f"{about}: {'at least' if outlook.least else 'about'} {span(round(seconds))}"


class ProgressLine:
    """A line at the bottom of a terminal; elsewhere nothing.

    `close` takes it away, and ends the connection to the scheduler.

    Args:
        address: where the scheduler is; None for no line.
        mission: returns the id of the mission, or None as long as that is not known.
    """

    def __init__(
        self, address: str | None, mission: Callable[[], str | None], stream: TextIO | None
    ) -> None:
        self._stream = stream
        self._mission = mission
        self._id: str | None = None
        self._shown = False
        # The last answer, which comes in the thread of the link.
        self._answer: OverviewAnswer | None = None
        self._link: Link | None = None
        if address is not None and _is_drawn_on(stream):
            self._link = Link(address, self.on_seen, seconds=_SECONDS)
            self._link.start()

    def on_seen(self, seen: Seen) -> None:
        """Take an answer of the scheduler, or that there is none; from any thread."""
        self._answer = seen.answer

    def hide(self) -> None:
        """Make room for output."""
        if self._shown:
            self._shown = False
            self._write(_CLEAR)

    def show(self) -> None:
        """Show the line again, if the scheduler has the mission; the cursor starts a line."""
        answer = self._answer
        if answer is None:
            self.hide()
            return
        if self._id is None:
            self._id = self._mission()
        counts = next((one for one in answer.missions if one.id == self._id), None)
        if counts is None:
            self.hide()
            return
        # The last column stays free, as some terminals begin another line there.
        columns = shutil.get_terminal_size().columns - 1
        text = progress_text(counts, columns)
        self._shown = True
        self._write(f"{_CLEAR}{text}")

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()

    def close(self) -> None:
        """Take the line away, and look no more."""
        self.hide()
        if self._link is not None:
            self._link.stop()


def _is_drawn_on(stream: TextIO | None) -> bool:
    if stream is None or stream.closed:  # a program may be started without it
        return False
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
