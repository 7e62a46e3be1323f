"""A mission: one executor, the branches that run beside it, and what became of their tasks."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING

import outcome
import trio

from grain import GVAR
from grain.delayed.errors import NotInMission
from grain.delayed.graph import Source
from grain.delayed.missions.executor import executing
from grain.delayed.missions.overload import WARN_QUEUED, Overload
from grain.delayed.missions.report import Reporter
from grain.delayed.missions.traceback_filter import Plainly
from grain.head import Cancelled, collapsing
from grain.resource import ZERO, Resource
from grain.worker.job import capture, name_of

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable
    from types import ModuleType
    from typing import Any, Literal

    from grain.delayed.cache.cache import Cache
    from grain.delayed.leaves.manager import Nurse
    from grain.delayed.leaves.options import Care
    from grain.delayed.leaves.retry import Retry
    from grain.delayed.missions.executor import Executor
    from grain.head import Statistics
    from grain.worker import Call

# Which mission the running branch belongs to. Context-local: missions of other threads, and the
# runs on the local worker, do not see it.
_current: ContextVar[Mission | None] = ContextVar("grain.delayed mission", default=None)


class Mission:
    """The calls of delayed functions inside of it become its tasks. Made by `mission`."""

    def __init__(
        self,
        executor: Executor,
        branches: trio.Nursery,
        priority: int,
        overload: Overload | None = None,
        cache: Cache | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.executor = executor
        self.branches = branches
        self.token = trio.lowlevel.current_trio_token()
        # Tasks that failed, until somebody who awaited them was told so: an ordered set.
        self.unseen: dict[Source, None] = {}
        self.ended = False
        self._priority = priority
        self._overload = overload or Overload(None)
        self._cache = cache
        self._say = say

    def leaf(self, res: Resource, call: Call, care: Care | None) -> Source:
        """Submit a call to the executor, or find its result."""
        if care is not None:
            return self.nurse.leaf(res, call, care)
        source = Source(self)
        self.submit(res, call, source)
        return source

    def submit(self, res: Resource, call: Call, deliver: Callable[[Any], object]) -> int:
        """Hand a call to the executor; returns the number that its `cancel` takes."""
        job = self.executor.submit_call(res, call, deliver, priority=self._priority)
        if job >= self._overload.look_at:
            self._overload.look(job, self.executor.statistics().queued)
        return job

    def held(self, count: int) -> None:
        """So many tasks wait that the executor has not got yet."""
        self._overload.held(count)

    def branch(self, call: Call, care: Care | None) -> Source:
        """Start a call in this process."""
        retry = None
        if care is not None:
            care.check_branch(call)
            retry = care.retry
        source = Source(self)
        self.branches.start_soon(self.run_branch, call, source, retry, name=call.fn)
        return source

    async def run_branch(self, call: Call, source: Source, retry: Retry | None = None) -> None:
        """Run a call as a branch, in the trio task that this is."""
        GVAR.res = ZERO
        GVAR.instance = ""  # a mission may run in a leaf of another
        try:
            source(await (capture(call) if retry is None else self.nurse.branch(call, retry)))
        finally:
            if source.outcome is None:
                source(outcome.Error(Cancelled(f"{name_of(call.fn)} was cancelled")))

    @cached_property
    def nurse(self) -> Nurse:
        """Who cares for what is cached or retried; most missions need none."""
        from grain.delayed.leaves.manager import Nurse

        return Nurse(self, self.branches, self._cache, self._say)

    def statistics(self) -> Statistics:
        """How things stand."""
        now = self.executor.statistics()
        return self.nurse.statistics(now) if "nurse" in self.__dict__ else now

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
    if not trio.lowlevel.in_trio_task():
        hosted: Mission | None = _host().mission_here()
        if hosted is not None:
            return hosted
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


def _host() -> ModuleType:
    """Missions in asyncio programs. Imported where they are used: few programs have them."""
    from grain.delayed.missions import asyncio_guest

    return asyncio_guest


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
) -> AsyncGenerator[Mission]:
    """A mission inside an async program: delayed functions can be called in the block.

    The program may be one of trio or of asyncio; tasklets are trio's in both.

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
        warn_queued: when more tasks than this wait to be started, that is said once, with how to
            limit them (docs/limits.md). None: never.
        cache: the directory where results of functions with `cache_hfn` are kept and found; by
            default ``GRAIN_CACHE``, or `head.cache` of the configuration, or .grain-cache in the
            current directory. False: nowhere.

    Raises:
        CacheError: the directory that was named for results cannot be used.
        Exception: what the block raised; or, if that ended well, what a task raised that nobody
            awaited; an ExceptionGroup if there are several.
        grain.config.ConfigError: the configuration is not usable.
        RuntimeError: neither trio nor asyncio runs here; or trio runs already as a guest in this
            asyncio loop, and not for a mission.
        grain.edge.errors.EdgeError: no scheduler can be reached, and waiting would not help.
        grain.resource.Infeasible: of a call, if no worker can ever run it, and none can join.
        TypeError, ValueError: local is no resource, or warn_queued no positive int.
    """
    if not trio.lowlevel.in_trio_task():
        options: dict[str, Any] = {"config_file": config_file, "name": name}
        options |= {"prioritized": prioritized, "progress": progress}
        options |= {"warn_queued": warn_queued, "cache": cache}
        async with _host().hosted(lambda: mission(local, **options)) as made:
            yield made
        return
    # Of missions inside of one another, the outermost shows progress: there is one place for it.
    inside = _current.get() is not None or GVAR.instance
    reporter = Reporter(False if inside else progress)
    async with opened(
        local,
        reporter,
        config_file=config_file,
        name=name,
        prioritized=prioritized,
        warn_queued=warn_queued,
        cache=cache,
    ) as made:
        yield made


@asynccontextmanager
async def opened(
    local: Resource | None,
    reporter: Reporter,
    *,
    config_file: str | Literal[False] | None = None,
    name: str | None = None,
    prioritized: bool = False,
    warn_queued: int | None = WARN_QUEUED,
    cache: str | os.PathLike[str] | Literal[False] | None = None,
) -> AsyncGenerator[Mission]:
    """A `mission` in a trio program, of which a reporter tells; arguments and errors are its."""
    from grain.config import load
    from grain.delayed.cache.cache import open_cache

    overload = Overload(warn_queued, reporter.say)
    failures: list[Exception] = []
    theirs: list[BaseException] = []
    with Plainly(lambda: theirs):
        config = load(config_file)
        reporter.config(config_file is False, config.source)
        if config_file and config.source:
            import shlex

            reporter.start_workers = f"grain -c {shlex.quote(config.source)} up"
        kept = None if config_file is False else config
        opened = await open_cache(cache, config.head.cache, reporter.say)
        # Neither the executor's tasks nor the runs on its local worker are part of an outer
        # mission.
        token = _current.set(None)
        try:
            with collapsing():
                async with (
                    reporter.watching(),
                    executing(local, kept, name, reporter.event) as executor,
                ):
                    try:
                        async with trio.open_nursery() as branches:
                            made = Mission(
                                executor, branches, int(prioritized), overload, opened, reporter.say
                            )
                            reporter.statistics = made.statistics
                            _current.set(made)
                            try:
                                yield made
                            except BaseException as error:
                                theirs.append(error)
                                raise
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
