"""The present state of the mission of a log, and its lines."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import msgspec

from grain.cli.streams import plain
from grain.resource.figures import percent, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.cli.history.summary import LogSummary
    from grain.eventlog.reader import LogReader
    from grain.eventlog.schema import AnyLine
    from grain.eventlog.store import StoredLog

_QUIET = 2.0  # seconds of reading before a terminal shows how far it is
_AGAIN = 0.5
_LOOK = 1 << 14  # lines between two looks at the clock


def state_of(log: StoredLog, status: str) -> str:
    """Return the state of a mission, as text.

    Args:
        status: that of its last line; empty if it has no end.
    """
    if status:
        return status
    if log.is_running() and not _lost_elsewhere(log):
        return "running"
    end = log.end()  # its process may have ended in good order since
    return "killed" if end is None else end.status


def up_to_now(state: str, summary: LogSummary) -> LogSummary:
    """Return the summary of a mission; while it runs, its time goes on.

    The log of a mission in which nothing begins or ends has no new line.
    """
    if state != "running":
        return summary
    now = time.time() - summary.clock_change
    return msgspec.structs.replace(summary, last=max(summary.last, now))


def _lost_elsewhere(log: StoredLog) -> bool:
    """Return True if a mission has ended whose process this host cannot see.

    A mission of `grain run` gives a sign of life every 30 s, beside its log.
    """
    from grain.cli.mission_names import start_of
    from grain.cli.missions.starting import state_of as state_of_start

    record = start_of(log)
    return record is not None and not state_of_start(record).phase.alive


def lines_of(reader: LogReader, size: int) -> Iterator[AnyLine]:
    """Yield the lines of a log; on a terminal, say how far it is if that takes long.

    Args:
        size: bytes of the whole log.
    """
    shows = sys.stderr is not None and sys.stderr.isatty()
    due = time.monotonic() + _QUIET
    shown = False
    before = 0  # bytes of earlier parts
    part, offset = reader.position
    try:
        for count, line in enumerate(reader):
            yield line
            if count % _LOOK or not shows:
                continue
            if reader.position.part != part:
                before += offset
            part, offset = reader.position
            if time.monotonic() >= due:
                shown = True
                due = time.monotonic() + _AGAIN
                share = min(1.0, (before + offset) / max(1, size))
                text = f"\rreading {percent(share)} of {size_text(size)}"
                print(text, end="", file=plain(sys.stderr))
    finally:
        if shown:
            print("\r" + " " * 40 + "\r", end="", file=plain(sys.stderr), flush=True)
