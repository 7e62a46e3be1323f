"""What a mission tells on standard error: log lines, and one line of progress on a terminal.

Everything here is a rendering of the executor's events and statistics. Standard output belongs to
the user's program.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio

from grain.head.events import (
    Event,
    HostingFailed,
    NeverStarts,
    NoWorkers,
    SchedulerAway,
    SchedulerBack,
    Statistics,
    WorkerCleaning,
    WorkerLeft,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from typing import TextIO

    from grain.resource import Resource

# Seconds between two looks at the statistics, on a terminal and for a log.
_LIVE, _LOG = 0.2, 30.0
_NOTHING = Statistics(0, 0, 0, 0, 0, 0)


class Reporter:
    """Tells of one mission.

    Args:
        progress: whether progress is shown. None and True are the same: as one line on a
            terminal, in the main thread, else as a log line now and then. False leaves only what
            happens once.
        routine: whether it is told what happens in each mission: its configuration, the end of its
            workers, the time it took. Without, only what somebody may have to do something about.

    Attributes:
        start_workers: the command that starts workers for this mission.
        statistics: how things stand in its executor.
    """

    def __init__(self, progress: bool | None = None, *, routine: bool = True) -> None:
        self._progress = progress is not False
        self._routine = routine
        self._began = time.monotonic()
        self._said_no_workers = False
        self._never: set[Resource] = set()
        self.start_workers = "grain up"
        self.statistics: Callable[[], Statistics] = lambda: _NOTHING

    def config(self, disabled: bool, source: str | None) -> None:
        """Where the configuration comes from."""
        if not self._routine:
            return
        if disabled:
            self.say("Config file is disabled, using default settings.")
        elif source is None:
            self.say("No config file found, using default settings.")
        else:
            self.say(f"Using config file {source}.")

    def event(self, event: Event) -> None:
        """Tell of what concerns the user."""
        match event:
            case WorkerCleaning() | WorkerLeft() if not self._routine:
                pass
            case WorkerCleaning(name):
                self.say(f"worker {name} starts cleaning up")
            case WorkerLeft(name):
                self.say(f"worker {name} clear")
            case NoWorkers():
                # A scheduler that was replaced tells again; so does one whose workers all left.
                if not self._said_no_workers:
                    self._said_no_workers = True
                    self.say(
                        f"No workers are there yet; tasks wait for them. `{self.start_workers}` "
                        "starts one, from any shell."
                    )
            case NeverStarts(request, why):
                if request not in self._never:
                    self._never.add(request)
                    self.say(
                        f"warning: no worker that is here can ever run a task that asks for "
                        f"{request.ask()} ({why}); it waits for another worker, which "
                        f"`{self.start_workers}` starts"
                    )
            case SchedulerAway(why):
                self.say(f"The scheduler cannot be reached, trying on: {why}")
            case SchedulerBack():
                self.say("The scheduler is reached again.")
            case HostingFailed(_, why):
                self.say(f"warning: only the local worker is used, none can join: {why}")

    def end(self) -> None:
        """The mission is over."""
        if self._routine:
            self.say(f"Time elapsed for all jobs: {time.monotonic() - self._began:.3f}s")

    def say(self, line: str) -> None:
        """One line; the progress line, if there is one, stays below it."""
        if sys.stderr is not None:
            with suppress(OSError, ValueError):  # that nobody can be told is no reason to stop
                # In one piece, as missions of other threads write there, too.
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Show progress meanwhile."""
        if not self._progress:
            yield
            return
        # The line takes over sys.stdout and sys.stderr, of which the process has one each: it is
        # for the main thread.
        main = threading.current_thread() is threading.main_thread()
        live = main and _is_terminal(sys.stderr)
        show = self._show_live if live else self._show_log
        async with trio.open_nursery() as nursery:
            await nursery.start(show)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    async def _show_log(self, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        while True:
            await trio.sleep(_LOG)
            self.say(progress_line(self.statistics(), time.monotonic() - self._began))

    async def _show_live(self, task_status: trio.TaskStatus[None]) -> None:
        # Imported where it is used: it takes a tenth of a second.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        def line() -> Text:
            told = progress_line(self.statistics(), time.monotonic() - self._began)
            return Text(told, no_wrap=True, overflow="ellipsis", style="dim")

        # What the user's program prints goes above the line, but not where it was sent elsewhere.
        with Live(
            get_renderable=line,
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=_is_terminal(sys.stdout),
        ) as live:
            task_status.started()
            while True:
                live.refresh()
                await trio.sleep(_LIVE)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def progress_line(now: Statistics, elapsed: float) -> str:
    """One line: done, running, queued, failed, elapsed, estimate."""
    ended = now.done + now.failed
    left = now.running + now.queued
    line = (
        f"{now.done} done, {now.running} running, {now.queued} queued, {now.failed} failed, "
        f"{span(elapsed)} elapsed"
    )
    if ended and left:
        line += f", about {span(elapsed / ended * left)} left"
    return line


def span(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, s = divmod(round(seconds), 60)
    if not minutes:
        return f"{s} s"
    hours, m = divmod(minutes, 60)
    return f"{hours} h {m} min" if hours else f"{m} min {s} s"
