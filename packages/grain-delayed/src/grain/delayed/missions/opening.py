"""`mission`: the block in which delayed functions can be called."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

import trio

from grain.delayed.advice import Advice, note_mistakes
from grain.delayed.display.total import Total
from grain.delayed.graph import woken_by
from grain.delayed.missions.current import is_inside, set_current
from grain.delayed.missions.ending import ended_from_outside, second_interrupt_kills
from grain.delayed.missions.mission import Mission
from grain.delayed.missions.options import MissionOptions
from grain.delayed.missions.report import Reporter
from grain.delayed.missions.traceback_filter import shortened_tracebacks
from grain.delayed.overload import WARN_QUEUED, Overload
from grain.edge.machine.copies import Origin
from grain.head import collapsing
from grain.head.events import CancelRequested, TaskBlocks
from grain.worker import LoopWatchdog

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from contextlib import AbstractAsyncContextManager
    from typing import Literal

    from grain.delayed.display.total import Stated
    from grain.head.events import Event
    from grain.resource import Resource
    from grain.worker.messages import BlockingCode


@asynccontextmanager
async def mission(
    local: Resource | None = None,
    *,
    config_file: str | Literal[False] | None = None,
    name: str | None = None,
    prioritized: bool = False,
    progress: bool | None = None,
    warn_queued: int | None = WARN_QUEUED,
    cache: str | os.PathLike[str] | Literal[False] | None = None,
    isolated: bool = False,
    env: Mapping[str, str | None] | None = None,
    event_log: bool | str | os.PathLike[str] | None = None,
    echo: bool = False,
    total: Stated | None = None,
) -> AsyncGenerator[Mission]:
    """Open a mission inside an async program: delayed functions can be called in the block.

    The program may be one of trio or of asyncio; tasklets are trio's in both.

    Leaving the block waits for the tasks that were started in it. Leaving it by an exception,
    cancellation or Ctrl-C cancels them, and returns when nothing of them is left. SIGTERM and
    SIGHUP do the same, unless the program has set handlers of its own, or ignores them; so they do
    not in a thread other than the main one.

    Args:
        local: the resources of the local worker. With it the mission schedules for itself, and
            workers join at the address of the configuration file, if there is one. Without it,
            tasks go to the scheduler that your missions share, and to its workers; the
            mission starts it if it does not run.
        config_file: name of the configuration file; by default ``GRAIN_CONFIG``, or the nearest
            grain.toml in the current directory and those above it, else the defaults. False: none,
            and the mission keeps to itself: no other worker can join.
        name: the name of the mission in the scheduler's log and in ``grain ls``; by default that
            of its script.
        prioritized: if true, its tasks go before those of missions that are not prioritized.
        progress: if not false, progress is shown on standard error: as one line if that is a
            terminal, else as a log line now and then.
        warn_queued: when more tasks than this wait to be started, a warning says so once, and how
            to limit them (docs/delayed.md). None: never.
        cache: the directory that holds the results of functions with `cache_hfn`; by default
            ``GRAIN_CACHE``, or `head.cache` of the configuration, or .grain-cache in the current
            directory. False: none.
        isolated: if true, the local worker runs its leaves in a process of its own, as workers of
            a cluster do: a crash of a leaf is `grain.head.errors.TaskCrashed`, and not the end of
            the mission. Functions, arguments and results travel to it, as to other workers.
        env: environment variables for the external programs of all leaves, wherever they run, over
            those of the worker and of the allocation; None as a value removes a variable. They
            travel with each task: name only variables that programs need, 64 KiB at most.
        event_log: True to write a log of what happens to the tasks, for ``grain history`` and
            ``grain report``, False to write none, or the directory of the logs; by default it is
            as `head.event_log` of the configuration says, which is to write one, but not for a
            mission with only its local worker inside of a task of another one.
        echo: if true, what leaves print and log on workers elsewhere is shown on standard error,
            too, beginning with mission, task and function; no more than a person can read, 50
            lines a second and 300 at once. The worker's log has all of it.
        total: how many calls of functions with resources there will be in all, for the progress;
            or how many of each function, as ``{optimise: 600, "energy": 600}``, from which the time
            follows that is left. Without it the progress is about what was called so far.

    Raises:
        CacheError: the directory that was named for results cannot be used.
        Exception: the exception of the block; or, if that ended well, the exception of a task that
            was not awaited; an ExceptionGroup if there are several.
        grain.config.ConfigError: the configuration is not usable.
        SystemExit: SIGTERM (status 143) or SIGHUP (129) has ended the mission.
        MissionCancelled: `grain cancel` has ended it.
        RuntimeError: neither trio nor asyncio runs here; or trio runs already as a guest in this
            asyncio loop, and not for a mission.
        grain.edge.errors.EdgeError: no scheduler can be reached, and waiting would not help.
        grain.resource.Infeasible: of a call, if no worker can ever run it, and none can join.
        grain.worker.errors.RunnerUnusable: the process of an isolated local worker cannot be
            started.
        TypeError, ValueError: local is not a resource, warn_queued not a positive int, env not a
            mapping of strings, total neither a number nor a mapping to numbers, or event_log
            neither a bool nor a path; or isolated is set without local.
    """
    options = MissionOptions(
        local, config_file, name, prioritized, warn_queued, cache, isolated, env, event_log, echo
    )
    # Only the outermost of nested missions shows progress: a terminal has one line for it.
    calls = None if total is None else Total(total)

    def open_here() -> AbstractAsyncContextManager[Mission]:
        reporter = Reporter(False if is_inside() else progress, total=calls)
        return opened(options, reporter, calls)

    if trio.lowlevel.in_trio_task():
        async with open_here() as entered:
            yield entered
        return
    from grain.delayed.missions.asyncio_guest import hosted  # few programs need it

    async with hosted(open_here) as entered:
        yield entered


def report_crashes() -> None:
    """Have a fatal signal print where the program was, such as in a library that a leaf calls.

    It stays so after the mission. A handler that the program has stays, and processes without a
    standard error get none.
    """
    import faulthandler

    # Not sys.stderr: the program may replace that, and close the replacement.
    if not faulthandler.is_enabled() and sys.__stderr__ is not None:
        with suppress(OSError, ValueError):  # it was closed, or is not a file
            faulthandler.enable(sys.__stderr__)


@asynccontextmanager
async def opened(
    options: MissionOptions, reporter: Reporter, total: Total | None = None
) -> AsyncGenerator[Mission]:
    """Open a mission in a trio program, with a reporter; errors as in `mission`."""
    __tracebackhide__ = True
    report_crashes()
    overload = Overload(options.warn_queued, reporter.line)
    advice = Advice(reporter.line)

    def on_event(event: Event) -> None:
        if isinstance(event, TaskBlocks):
            advice.on_blocked(event.code, event.worker)
        elif isinstance(event, CancelRequested):
            ending.cancel(event.by)
        else:
            reporter.on_event(event)

    def on_blocked(code: BlockingCode, _: object) -> None:
        advice.on_blocked(code)

    failures: list[Exception] = []
    # The loop of a mission inside of another one, or of a leaf, is watched already.
    watchdog = nullcontext() if is_inside() else LoopWatchdog(on_blocked)
    with (
        shortened_tracebacks(),
        second_interrupt_kills(reporter.line),
        ended_from_outside(reporter.line) as ending,
    ):
        # Imported where a mission begins, for the start-up time of everything else.
        from grain.config import load
        from grain.delayed.cache.cache import open_cache
        from grain.delayed.missions.event_log import from_any_thread, recording, wanted_log
        from grain.delayed.missions.executor import executing, mission_name
        from grain.eventlog.names import use_number

        config = load(options.config_file)
        reporter.on_configured(options.config_file, config.source, config.head.listen)
        joinable_config = None if options.config_file is False else config
        results = await open_cache(options.cache, config.head.cache, reporter.line)
        address = "" if options.is_alone(joinable_config) else config.head.listen
        log_settings = config.head.event_log
        logged = wanted_log(
            options.event_log, log_settings, inside=is_inside(), elsewhere=bool(address)
        )
        name = options.name or mission_name()
        # A mission that no command can see needs no label.
        seen = logged is not False or address
        number = use_number(name, os.environ.get("GRAIN_MISSION", "")) if seen else 0
        async with recording(
            logged,
            log_settings,
            name=name,
            number=number,
            address=address,
            report=reporter.line,
            cause=lambda: ending.cause,
            lasting=options.lasting,
            on_closed=reporter.on_log_closed,
        ) as run_log:
            if run_log is not None:
                reporter.on_recorded(from_any_thread(run_log.remark))
            # Neither the executor's trio tasks nor the runs on its local worker belong to an outer
            # mission: they start while there is no current one.
            outer = set_current(None)
            outer_wait = woken_by.get()
            woken_by.set(0)  # the numbers of tasks are those of one mission
            try:
                with collapsing(), watchdog:
                    async with (
                        reporter.watching(),
                        executing(options, joinable_config, on_event, run_log, number) as executor,
                    ):
                        try:
                            async with trio.open_nursery() as branches:
                                current = Mission(
                                    executor, branches, int(options.prioritized), overload, results,
                                    reporter.line, advice, reporter.failures, run_log, total,
                                )  # fmt: skip
                                # No command can look at a mission from elsewhere that has only a
                                # local worker.
                                tell = executor.note_outlook
                                reporter.on_opened(
                                    current.statistics,
                                    executor.kinds,
                                    None if current.runs_in_process else tell,
                                )
                                set_current(current)
                                origin = Origin()
                                try:
                                    yield current
                                    origin.check()
                                except BaseException as error:
                                    origin.check(error)
                                    note_mistakes(error)
                                    raise
                        finally:
                            current.end()
                ending.settle()
                failures = current.tasks.unseen_failures()
            finally:
                set_current(outer)
                woken_by.set(outer_wait)
                # What a signal causes here depends on whether user code computed at that time.
                by_user = isinstance(sys.exc_info()[1], KeyboardInterrupt)
                reporter.on_ended(interrupted=by_user or ending.cause is not None)
            if failures:
                raise _of_all(failures)


def _of_all(failures: list[Exception]) -> Exception:
    """Return the exception for tasks that were not awaited: the only one, or a group."""
    if len(failures) == 1:
        return failures[0]
    return ExceptionGroup(f"{len(failures)} tasks failed that were not awaited", failures)
