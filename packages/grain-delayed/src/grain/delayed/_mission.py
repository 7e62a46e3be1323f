"""A mission: one executor, the branches that run beside it, and what became of their tasks."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import outcome
import trio

from grain import GVAR
from grain.delayed._executor import executing
from grain.delayed._graph import Source
from grain.delayed._report import Reporter
from grain.delayed.errors import NotInMission
from grain.head import Cancelled, collapsing
from grain.resource import ZERO, Resource
from grain.worker.job import capture, name_of

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any, Literal

    from grain.delayed._executor import Executor
    from grain.worker import Call

# Which mission the running branch belongs to. Context-local: missions of other threads, and the
# runs on the local worker, do not see it.
_current: ContextVar[Mission | None] = ContextVar("grain.delayed mission", default=None)


class Mission:
    """The calls of delayed functions inside of it become its tasks. Made by `mission`."""

    def __init__(self, executor: Executor, branches: trio.Nursery, priority: int) -> None:
        self.executor = executor
        self.token = trio.lowlevel.current_trio_token()
        # Tasks that failed, until somebody who awaited them was told so: an ordered set.
        self.unseen: dict[Source, None] = {}
        self.ended = False
        self._branches = branches
        self._priority = priority
        self._shared: dict[tuple[Any, str | bytes], Source] = {}

    def leaf(self, res: Resource, call: Call, key: str | bytes | None) -> Source:
        """Submit a call to the executor; one with the key of another shares its task."""
        if key is not None:
            known = self._shared.get((call.fn, key))
            if known is not None and not isinstance(known.outcome, outcome.Error):
                return known
        source = Source(self)
        self.executor.submit_call(res, call, source, priority=self._priority)
        if key is not None:
            self._shared[call.fn, key] = source
        return source

    def branch(self, call: Call) -> Source:
        """Start a call in this process."""
        source = Source(self)
        self._branches.start_soon(self._run_branch, call, source, name=call.fn)
        return source

    async def _run_branch(self, call: Call, source: Source) -> None:
        GVAR.res = ZERO
        GVAR.instance = ""  # a mission may run in a leaf of another
        try:
            source(await capture(call))
        finally:
            if source.outcome is None:
                source(outcome.Error(Cancelled(f"{name_of(call.fn)} was cancelled")))

    @property
    def here(self) -> bool:
        """Whether this is the trio program that the mission runs in."""
        try:
            return trio.lowlevel.current_trio_token() is self.token
        except RuntimeError:
            return False

    def unseen_failures(self) -> list[Exception]:
        """What tasks raised that nobody awaited."""
        errors = [s.outcome.error for s in self.unseen if isinstance(s.outcome, outcome.Error)]
        return [e for e in errors if isinstance(e, Exception) and not isinstance(e, Cancelled)]


def current_mission(fn: object) -> Mission:
    """The mission that a call of a delayed function belongs to.

    Raises:
        NotInMission: there is none here.
    """
    mission = _current.get()
    if mission is not None and mission.here and not mission.ended:
        return mission
    if mission is not None:
        where = "after its mission had ended" if mission.ended else "in another thread"
        raise NotInMission(
            f"{name_of(fn)} was called {where}: call it in the trio program that its mission runs "
            "in, before the mission ends"
        )
    if GVAR.instance:
        raise NotInMission(
            f"{name_of(fn)} was called in a leaf: a function with resources runs on a worker, "
            "where delayed functions cannot be called. Call them in a branch: a delayed function "
            "without resources"
        )
    raise NotInMission(
        f"{name_of(fn)} was called outside of a mission: call it in a function that is given to "
        "grain.delayed.run, or inside `async with grain.delayed.mission(...)`"
    )


@asynccontextmanager
async def mission(
    local: Resource | None = None,
    *,
    config_file: str | Literal[False] | None = None,
    name: str | None = None,
    prioritized: bool = False,
    progress: bool | None = None,
) -> AsyncGenerator[Mission]:
    """A mission inside a trio program: delayed functions can be called in the ``async with`` block.

    Leaving the block waits for the tasks that were started in it. Leaving it by an exception,
    cancellation or Ctrl-C cancels them, and returns when nothing of them is left.

    Args:
        local: the resources of the local worker. With it the mission schedules for itself, and
            workers join at the address of the configuration file, if there is one. Without it,
            tasks go to the scheduler that your missions share, Gnaw, and to its workers; it is
            started if it is not there.
        config_file: name of the configuration file; by default ``GRAIN_CONFIG``, or grain.toml in
            the current directory if there is one, else the defaults. False: none, and the mission
            keeps to itself: no other worker can join.
        name: what the scheduler and ``grain ls`` call the mission; by default the host's name.
        prioritized: whether its tasks go before those of missions that are not.
        progress: whether progress is shown on standard error; by default as one line if that is a
            terminal, else as a log line now and then.

    Raises:
        Exception: what the block raised; or, if that ended well, what a task raised that nobody
            awaited; an ExceptionGroup if there are several.
        grain.config.ConfigError: the configuration is not usable.
        grain.edge.errors.EdgeError: no scheduler can be reached, and waiting would not help.
        grain.resource.Infeasible: of a call, if no worker can ever run it, and none can join.
        TypeError: local is no resource.
    """
    from grain.config import load

    # Of missions inside of one another, the outermost shows progress: there is one place for it.
    inside = _current.get() is not None or GVAR.instance
    reporter = Reporter(False if inside else progress)
    config = load(config_file)
    reporter.config(config_file is False, config.source)
    if config_file and config.source:
        import shlex

        reporter.start_workers = f"grain -c {shlex.quote(config.source)} up"
    kept = None if config_file is False else config
    # Neither the executor's tasks nor the runs on its local worker are part of an outer mission.
    token = _current.set(None)
    failures: list[Exception] = []
    try:
        with collapsing():
            async with (
                reporter.watching(),
                executing(local, kept, name, reporter.event) as executor,
            ):
                reporter.statistics = executor.statistics
                try:
                    async with trio.open_nursery() as branches:
                        made = Mission(executor, branches, int(prioritized))
                        _current.set(made)
                        yield made
                finally:
                    made.ended = True
        failures = made.unseen_failures()
    finally:
        _current.reset(token)
        reporter.end()
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"{len(failures)} tasks failed that nobody awaited", failures)
