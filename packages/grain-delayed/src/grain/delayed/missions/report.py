"""`Reporter`: the messages of a mission on standard error, and the display of its progress.

Everything here is a rendering of the executor's events and statistics. Standard output belongs to
the user's program.
"""

from __future__ import annotations

import re
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio

from grain.delayed.display.failures import count_failure
from grain.delayed.display.lines import interruption, summary
from grain.delayed.display.progress import NOTHING, Progress
from grain.delayed.display.views import dimmed, view_here
from grain.facts.rows import Causes
from grain.head.events import (
    CanStart,
    Event,
    HostingFailed,
    LastTasksAway,
    MembersApart,
    NeverStarts,
    NoWorkers,
    OtherSoftware,
    Remark,
    RunsEnded,
    RunsLeft,
    SchedulerAway,
    SchedulerBack,
    SchedulerTrouble,
    Statistics,
    TaskFailed,
    TaskOutlived,
    TasksPrinted,
    WorkerCleaning,
    WorkerLeft,
    WorkersLost,
    WorkersStopped,
)
from grain.resource.figures import counted, span
from grain.worker.errors import printable
from grain.worker.logs import Allowance

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
    from typing import Literal

    from grain.delayed.display.total import Total
    from grain.delayed.display.views import View
    from grain.head.base import CallKindNow
    from grain.head.messages import Outlook
    from grain.resource import Resource


_LINES, _LINES_AT_ONCE = 50, 300  # of what tasks print, a second and at once
_LONG = 10.0  # seconds from which on a mission has something to show
_NAMED = 5  # workers that are named in a line
_NOTE = 5.0  # seconds between two notes on lines that were left out
_TOLD = 5.0  # seconds between two reports to the scheduler of how far the mission is


class _Echo:
    """The lines that tasks print, as many as a person can read, and a note on the others."""

    def __init__(self) -> None:
        self._shown = Allowance(_LINES, _LINES_AT_ONCE)
        self._left_out = 0
        self._note_due = 0.0

    def take(self, event: TasksPrinted, now: float) -> Iterator[str]:
        """Yield what is to be written of an event."""
        lines = event.text.splitlines()
        shown = [line for line in lines if self._shown.take(1, now)]
        self._left_out += event.lost + len(lines) - len(shown)
        if shown:
            yield "\n".join(map(printable, shown))
        if self._left_out and now >= self._note_due:
            self._note_due = now + _NOTE
            yield from self.note()

    def note(self) -> Iterator[str]:
        """Yield the note on lines that were left out since the last one, if any were."""
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            yield (
                f"... {counted(left_out, 'line')} more than can be shown here; "
                "the workers' logs have all: grain logs NAME:NUMBER"
            )


class Reporter:
    """The reporter of one mission.

    Args:
        progress: False to report only failures, and what the user may have to act upon. Else
            progress is shown: as one line on a terminal, as a widget in a notebook, and as a log
            line now and then elsewhere.
        routine: True to report what happens in each mission: its configuration, the end of its
            workers, how its tasks ended, the time it took.
        elsewhere: another way to run where no worker is there, as part of a sentence.
        clock: returns the time in seconds, and never goes back.
        wall: returns it in seconds since Unix' epoch.

    Attributes:
        log: what `grain report` takes for the event log, once that is closed; empty without one.
    """

    def __init__(
        self,
        progress: bool | None = None,
        *,
        routine: bool = True,
        elsewhere: str = "",
        total: Total | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._wall = wall
        self.failures = Causes()
        self.log = ""
        # When the mission has ended: how many tasks have failed, and how long it took.
        self._failed = 0
        self._took = 0.0
        self._shown = progress is not False
        self._routine = routine and self._shown
        self._summary = routine
        self._clock = clock
        self._began = clock()
        # Whether it was reported that no worker is there, and is so still; and whether there was
        # a worker before.
        self._absent = False
        self._had_workers = False
        self._never: set[Resource] = set()
        self._meeting = ""
        self._elsewhere = f", {elsewhere}" if elsewhere else ""
        self._start_workers = "grain up"
        self._config_name = "grain.toml"
        self._statistics: Callable[[], Statistics] = lambda: NOTHING
        self._progress = Progress(total)
        self._tell: Callable[[Outlook], object] | None = None
        self._tell_due = _TOLD
        self._runs_left = 0
        self._echo = _Echo()
        self._remark: Callable[[str, str, str], object] = lambda *_: None

    def on_recorded(self, remark: Callable[[str, str, str], object]) -> None:
        """Note in the mission's log, too, what the user may have to act upon from now on."""
        self._remark = remark

    def on_configured(
        self, config_file: str | Literal[False] | None, source: str | None, address: str = ""
    ) -> None:
        """Report where the configuration comes from.

        Args:
            config_file: the file that the user asked for; False for none.
            source: the file that was read; None if there was none.
        """
        if address:
            origin = f"from {source}" if source else "the default, as no configuration file is used"
            self._meeting = f" Workers join at {address} ({origin})."
        if config_file and source:
            import shlex

            self._start_workers = f"grain -c {shlex.quote(source)} up"
            self._config_name = source
        if not self._routine:
            return
        if config_file is False:
            self.routine("Config file is disabled, using default settings.")
        elif source is None:
            self.routine("No config file found, using default settings.")
        else:
            self.routine(f"Using config file {source}.")

    def on_opened(
        self,
        statistics: Callable[[], Statistics],
        kinds: Callable[[], Sequence[CallKindNow]] = lambda: (),
        tell: Callable[[Outlook], object] | None = None,
    ) -> None:
        """Show the progress of the mission from now on; until then there are no tasks.

        Args:
            tell: tells those who watch it from elsewhere how far it is; None if that cannot be.
        """
        self._statistics = statistics
        self._progress.on_opened(statistics, kinds)
        self._tell = tell

    def expect(self, total: Total) -> None:
        """Record the calls that there will be, which are known by now."""
        self._progress.expect(total)

    def on_event(self, event: Event) -> None:
        """Report an event that concerns the user."""
        match event:
            case TaskFailed():
                count_failure(self.failures, event)
            case TasksPrinted():
                self._on_printed(event)
            case RunsLeft(tasks):
                self._runs_left = tasks
            case WorkerCleaning(name) if self._routine:
                self.routine(f"worker {name} starts cleaning up")
            case WorkerLeft(name) if self._routine:
                self.routine(f"worker {name} clear")
            case _:
                self._on_trouble(event)

    def _on_trouble(self, event: Event) -> None:
        """Report an event that the user may have to act upon; not so the others."""
        match event:
            case NeverStarts() | CanStart():
                self._on_request(event)
            case OtherSoftware() | Remark():
                text = event.text if isinstance(event, Remark) else other_versions(event)
                self.line(f"warning: {text}")
            case SchedulerAway(why):
                self.line(f"The scheduler cannot be reached, trying on: {why}")
            case SchedulerBack():
                self.line("The scheduler is reached again.")
            case WorkersLost() | WorkersStopped():
                self._had_workers = True
                self.line(gone_line(event), at=self._wall())
            case SchedulerTrouble():
                self._on_scheduler_trouble(event)
            case LastTasksAway():
                self.line(last_away_line(event))
            case RunsEnded():
                self.line(ended_runs_line(event))
            case TaskOutlived() | MembersApart():
                self.line(begins_again_line(event))
            case HostingFailed(_, why):
                self.line(f"This mission has only its local worker, which is not an error: {why}")

    def _on_scheduler_trouble(self, event: SchedulerTrouble) -> None:
        what, why = event.what, event.why
        if not why:
            over = f"The scheduler can store something again in {what}."
            self.line(over if what.startswith("/") else f"This works again: {what}.")
        elif event.aside:
            self.line(f"warning: {what} is {why}", aside=(what, why))
        else:
            self.line(f"warning: {why}")

    def _on_printed(self, event: TasksPrinted) -> None:
        """Show what tasks have printed, as far as a person can read it."""
        for line in self._echo.take(event, self._clock()):
            self._write(line)

    def _on_request(self, event: NeverStarts | CanStart) -> None:
        """Report that no worker can run some tasks, or that one can by now."""
        match event:
            case NoWorkers():
                # For each request that waits; and a scheduler that was replaced reports it again.
                if not self._absent:
                    self._absent = True
                    had = self._had_workers or self._has_run()
                    self._had_workers = True  # when it is said again
                    # A batch job may still wait that was submitted with the jobs that are over.
                    self.line(
                        f"No workers are there {'any more' if had else 'yet'}; tasks wait for "
                        f"them. {'Unless `grain ls` lists one that is to come, ' if had else ''}"
                        f"`{self._start_workers}` starts one, from any shell"
                        f"{self._elsewhere}.{self._meeting}"
                    )
            case CanStart(request):
                # The tasks of all requests have waited for the same worker most often.
                if self._absent:
                    self.line("Workers are there now.")
                elif request in self._never:
                    self.line(
                        f"A worker is there now that can run tasks which ask for {request.ask()}."
                    )
                self._absent = False
                self._never.discard(request)
            case NeverStarts(request, why, larger, cluster):
                if not cluster:  # which says nothing of workers
                    self._absent = False
                if request not in self._never:
                    self._never.add(request)
                    waits = f"it waits for another worker, which `{self._start_workers}` starts"
                    if larger:
                        waits = (
                            "it waits for a worker that has what it asks for: ask for less, or "
                            f"describe such a node in {self._config_name} and type "
                            f"`{self._start_workers}`"
                        )
                    if cluster:
                        waits = (
                            "it waits without end: ask for less, or correct [head.res] in "
                            f"{self._config_name}, which the next scheduler reads"
                        )
                    self.line(
                        f"warning: no worker that is here can ever run a task that asks for "
                        f"{request.ask()} ({why}); {waits}"
                    )

    def _has_run(self) -> bool:
        """Return True if a task has run to its end."""
        now = self._statistics()
        return now.done - now.cached + now.failed > 0

    def on_ended(self, *, interrupted: bool) -> None:
        """Report how the tasks ended, and the time that the mission took.

        Args:
            interrupted: True if Ctrl-C, a signal or `grain cancel` ended the mission.
        """
        elapsed = self._took = self._clock() - self._began
        for line in self._echo.note():
            self._write(line)
        now = self._statistics()
        self._failed = now.failed
        if self._summary:
            if interrupted:
                self.line(interruption(now, self._runs_left))
            elif now.failed or self._shown:
                took = None if self._routine else elapsed
                text = summary(self._progress, now, self.failures, took)
                if text:
                    self.line(text)
        if self._routine:
            self.routine(f"Time elapsed for all jobs: {elapsed:.3f}s")

    def on_log_closed(self, log: str) -> None:
        """Name the command that shows what has failed, or where the time went.

        A mission of some seconds in which nothing failed has nothing to show.
        """
        self.log = log
        if self._failed and self._summary:
            self._write(f"Which calls failed, and why: grain history --failed {log}")
        elif self._took >= _LONG and self._routine:
            self.routine(f"Where the time went: grain report {log}")

    def routine(self, line: str) -> None:
        """Write a line that stands in the background, where that can be shown."""
        self._write(dimmed(printable(" ".join(line.splitlines()))))

    def line(
        self, line: str, *, at: float | None = None, aside: tuple[str, str] = ("", "")
    ) -> None:
        """Write one line; the progress line, if there is one, stays below it.

        Names of workers, calls and lines of code that it quotes can neither control the terminal
        nor begin a line that looks like one of Grain's.

        Args:
            at: when that happened, in seconds since Unix' epoch, where the reader may come later.
            aside: a place that is set aside, and how.
        """
        self._remark(line, *aside)
        when = "" if at is None else time.strftime("%H:%M ", time.localtime(at))
        self._write(when + printable(" ".join(line.splitlines())))

    def _write(self, line: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError, ValueError):  # a closed stderr is not a reason to stop
                # One write for text and newline, as missions of other threads write there, too.
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Show progress during the block."""
        if not self._shown:
            yield
            return
        scope = trio.CancelScope(shield=True)
        with view_here(self._progress, self.line) as view:
            began = trio.current_time()
            self._progress.look(began)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch, view, began, scope)
                    try:
                        yield
                    finally:
                        scope.cancel()
            finally:
                self._progress.on_ended(trio.current_time())

    async def _watch(self, view: View, began: float, scope: trio.CancelScope) -> None:
        # A mission that is cancelled goes on until its tasks have ended, and is shown until then:
        # a cell of a notebook keeps the last line.
        with scope:
            while True:
                elapsed = trio.current_time() - began
                await trio.sleep(view.pause(elapsed))
                self._progress.look(trio.current_time())
                view.show()
                if self._tell is not None and self._progress.elapsed >= self._tell_due:
                    self._tell_due = self._progress.elapsed + _TOLD
                    self._tell(self._progress.outlook())


def last_away_line(event: LastTasksAway) -> str:
    """Return the line on a mission that waits only for workers which are not reached."""
    tasks = "the last task is" if event.tasks == 1 else f"the last {event.tasks} tasks are"
    more = event.workers - 1
    others = f" and {more} more worker{'s' * (more > 1)}" * (more > 0)
    where = f"{event.worker} on {event.host}{others}"
    return (
        f"warning: {tasks} on {where}, which the scheduler does not reach: it waits up to "
        f"{_whole(event.seconds)}, and then starts {'it' if event.tasks == 1 else 'them'} elsewhere"
    )


def ended_runs_line(event: RunsEnded) -> str:
    """Return the warning about runs that the scheduler has ended, and what to do."""
    runs = "its run" if event.runs == 1 else f"its {event.runs} runs"
    again = "it starts again" if event.runs == 1 else "they start again"
    if event.stopped:
        return (
            f"warning: this program did not run its event loop for {_whole(event.stopped)}, so the "
            f"scheduler took it for ended and ended {runs}; {again}. Put what computes for long "
            "into a function with resources, or call it by `await in_thread(fn)(x)` "
            "(grain.worker.blocking)"
        )
    return (
        f"warning: the scheduler did not reach this mission for {_whole(event.away)} and ended "
        f"{runs}; {again}. To let it wait longer, raise head.gnaw.grace in grain.toml"
    )


# Words of Slurm and of LSF for the end of a job that had used more memory than it had asked for.
_WANT_OF_MEMORY = re.compile("OUT_OF_MEMORY|MEMLIMIT")


def gone_line(event: WorkersLost | WorkersStopped) -> str:
    """Return the line on workers that are lost or have left, and on what becomes of their tasks."""
    count = len(event.names)
    named = ", ".join(event.names[:_NAMED])
    if count > _NAMED:
        named += f" and {count - _NAMED} others"
    if isinstance(event, WorkersStopped):
        return _stopped_line(named, event)
    who = f"worker {named} is lost" if count == 1 else f"{count} workers are lost ({named})"
    if event.silent >= 1:
        who += f", last heard {_whole(event.silent)} ago"
    if event.why:
        more = "; raise script.memory" if _WANT_OF_MEMORY.search(event.why) else ""
        who += f" ({event.why}{more})"
    tasks = "1 task runs" if event.tasks == 1 else f"{event.tasks} tasks run"
    if not event.tasks:
        return f"{who}, without any task of this mission"
    return f"{who}; {tasks} again elsewhere"


def _stopped_line(named: str, event: WorkersStopped) -> str:
    why = event.why or "it was asked to"
    if why == "SIGTERM":
        why += ", as from scancel, or when its job's time is over"
    tasks = "1 task that ran there begins" if event.tasks == 1 else f"{event.tasks} tasks begin"
    if len(event.names) == 1:
        return f"worker {named} has left ({why}); {tasks} again elsewhere"
    return f"{len(event.names)} workers have left ({named}) ({why}); {tasks} again elsewhere"


def begins_again_line(event: TaskOutlived | MembersApart) -> str:
    """Return the warning about a task that begins again, for a reason that may come again."""
    if isinstance(event, MembersApart):
        return (
            f"warning: {event.task} {event.function} has not begun: {event.why}; it gets other "
            "workers, and fails after a few such attempts"
        )
    begin = f"warning: {event.task} {event.function} had run {_whole(event.ran)} when"
    if event.most:
        return (
            f"{begin} its worker's time was over, which was {_whole(event.life)} in all; it starts "
            "again from its beginning, and fails after a few such runs: raise script.walltime in "
            "grain.toml, or state how long it takes (WTime)"
        )
    return (
        f"{begin} its worker's time was over; it starts again from its beginning, where more time "
        "is left: state how long it takes (WTime), and it starts only where that is left"
    )


def other_versions(event: OtherSoftware) -> str:
    """Return what follows from the versions of a worker, and what to do."""
    worker = f"worker {event.worker} on host {event.host}"
    if event.numpy:
        return (
            f"{worker} has {event.theirs}, this mission {event.ours}: arrays of the one may not "
            "load on the other; install the same major version on both"
        )
    return (
        f"{worker} has {event.theirs}, this mission {event.ours}: tasks whose functions travel by "
        f"value, as those of the script itself do, wait for a worker with {event.ours}; start "
        "workers and mission with the same Python, or put the functions, undecorated, into a "
        "module that both can import, and call delayed(module.function)"
    )


def _whole(seconds: float) -> str:
    """Return a span in whole seconds: what the mission measures is not more exact."""
    return span(round(seconds))
