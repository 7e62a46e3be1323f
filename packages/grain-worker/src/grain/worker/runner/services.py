"""Services of a runner: what its runs share, opened by the first run that needs it.

A service is an async context manager, such as the pool of processes of `grain.subproc`. It belongs
to no run, and is open until the last run of the runner has ended. So functions that compute need
nothing around them, on any worker, the local worker of a notebook among them.
"""

from __future__ import annotations

import contextvars
import signal
import time
import weakref
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from grain import GVAR
from grain.worker.processes.account import RunAccount, attempt_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from grain.worker.messages import Attempt, JobBegins

    _Registry = weakref.WeakKeyDictionary[trio.Nursery, "Services"]

T = TypeVar("T")

# By the nursery of each runner. Not a context variable: over a channel in memory, runs start in the
# context of the task that submits them. Missions may end while others go on, in one trio run.
_BY_NURSERY: trio.lowlevel.RunVar[_Registry | None] = trio.lowlevel.RunVar("grain.worker services")


class Service:
    """A service that is being opened, is open, or could not be opened."""

    def __init__(self) -> None:
        self.settled = trio.Event()
        self.value: Any = None
        self.error: Exception | None = None


class Services:
    """The services of one runner; `open_nursery_of_runs` makes it.

    Attributes:
        ask_ending: asks the agent for a run, see `worker_ends`; None without an agent.
        end_use: reports that a run uses its resources no more; None without an agent.
        job_begins: tells the agent what a run is about to begin; None without an agent.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.end_use: Callable[[Attempt], object] | None = None
        self.job_begins: Callable[[JobBegins], object] | None = None
        self.ask_ending: Callable[[Attempt, int, str], Awaitable[bool]] | None = None
        self._nursery = nursery
        self._services: dict[Callable[[], Any], Service] = {}
        self._closing = trio.Event()
        # A service is not to see the GVAR of the run that happens to open it.
        self._context = contextvars.copy_context()

    async def get(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Return the value of a service, which is opened if this runner has none yet.

        Args:
            make: makes the service; it is the same service where this is the same function.

        Raises:
            Exception: what opening it raised; the next call tries again.
        """
        service = self._services.get(make)
        if service is None:
            service = self._services[make] = Service()
            self._context.run(self._nursery.start_soon, self._hold, make, service)
        await service.settled.wait()
        if service.error is not None:
            raise service.error
        value: T = service.value
        return value

    def close(self) -> None:
        """Close the services; the nursery ends when they are closed."""
        self._closing.set()

    async def _hold(self, make: Callable[[], Any], service: Service) -> None:
        try:
            async with make() as service.value:
                service.settled.set()
                await self._closing.wait()
        except Exception as error:
            if service.settled.is_set():
                raise  # of closing it
            del self._services[make]
            service.error = error
            service.settled.set()


@asynccontextmanager
async def open_nursery_of_runs() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery whose tasks, and all tasks below them, have services: `services_here`.

    The services are closed when the tasks of the nursery have ended. Cancelling it cancels these,
    and closes the services.
    """
    async with trio.open_nursery() as holding:
        services = Services(holding)
        async with trio.open_nursery() as nursery:
            _registry()[nursery] = services
            yield nursery
        services.close()


async def worker_ends(number: int, replaced: str = "") -> bool:
    """Return True if the worker of the calling run is being ended: a failure is not the run's own.

    Args:
        number: the signal that has ended a program of the run, see `signal_behind`; 0 for another
            failure.
        replaced: as of `grain.worker.messages.AskEnding`.
    """
    services, attempt = services_here(), attempt_of(trio.lowlevel.current_task().context)
    if services is None or services.ask_ending is None or attempt is None:
        return False
    return await services.ask_ending(attempt, number, replaced)


def end_use() -> None:
    """Report that the calling run uses its resources no more, and is about to return a value.

    So another run may have them while this one waits for a disk.
    """
    services, attempt = services_here(), attempt_of(trio.lowlevel.current_task().context)
    if services is not None and services.end_use is not None and attempt is not None:
        services.end_use(attempt)


def job_begins(job: JobBegins) -> None:
    """Tell the agent which attempt of a job the calling run is about to begin, if there is one."""
    services = services_here()
    if services is not None and services.job_begins is not None:
        services.job_begins(job)


async def programs_were_told_to_end() -> bool:
    """Return True if a program of the calling run that has just ended was told to end before that.

    It may have obeyed, and ended well all the same, as programs do that write a checkpoint then.
    """
    account = GVAR.account
    if not isinstance(account, RunAccount) or account.end is None:
        return False
    return time.monotonic() >= account.end.told_at() and await worker_ends(signal.SIGTERM)


def services_here() -> Services | None:
    """Return the services of the runner that executes the calling task; None outside of runs."""
    registry = _registry()
    nursery = trio.lowlevel.current_task().parent_nursery
    while nursery is not None:
        services = registry.get(nursery)
        if services is not None:
            return services
        nursery = nursery.parent_task.parent_nursery
    return None


def services_of(nursery: trio.Nursery) -> Services:
    """Return the services of a nursery of `open_nursery_of_runs`."""
    return _registry()[nursery]


def _registry() -> _Registry:
    """Return the services of all runners in this trio run."""
    registry = _BY_NURSERY.get(None)
    if registry is None:
        registry = weakref.WeakKeyDictionary()
        _BY_NURSERY.set(registry)
    return registry
