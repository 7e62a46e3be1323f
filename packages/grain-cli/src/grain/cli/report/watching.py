"""`PageOfNow`: the page of a mission that runs, made again from what its log has got since."""

from __future__ import annotations

import math
import time
from copy import deepcopy
from typing import TYPE_CHECKING

from grain.cli.plugins import installed_version
from grain.cli.report.collecting import Collector
from grain.cli.report.page import render
from grain.eventlog.reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grain.cli.report.figures import Rows

EVERY = 5.0
"""Seconds between two pages, at least."""

SHARE = 0.01
"""The part of a core that pages may take: what is slow to make is made less often."""


class PageOfNow:
    """The page of a log that grows.

    Each page costs what it takes to read the new lines, and to draw. The clocks of workers are
    known from the lines read so far, so that the first runs of a worker are less exact than on the
    page that is made of the whole log.

    Args:
        folder: of the log.
        rows: how many rows of each table it has.
        cpu: the CPU seconds of this process.
    """

    def __init__(
        self, folder: Path, rows: Rows, cpu: Callable[[], float] = time.process_time
    ) -> None:
        self.reader = LogReader(folder)
        self._rows = rows
        self._cpu = cpu
        self._collector = Collector()
        self.again = math.ceil(EVERY)
        """Whole seconds after which the next page is due, so that pages keep to `SHARE`."""

    def make(self, notes: Callable[[LogReader], list[str]]) -> str:
        """Return the page up to the last line of the log; a browser loads it again after `again`.

        Args:
            notes: returns sentences on what of the log was not read.

        Raises:
            grain.eventlog.errors.LogError: it is not a log, or a newer Grain's.
            OSError: it cannot be read.
        """
        began = self._cpu()
        for line in self.reader:
            self._collector.feed(line)
        # A report closes what is open, so it is made of a copy.
        page = render(
            deepcopy(self._collector).report(),
            written=True,
            version=installed_version(),
            notes=notes(self.reader),
            rows=self._rows,
            again=self.again,
        )
        self.again = math.ceil(max(EVERY, (self._cpu() - began) / SHARE))
        return page
