"""Services of a runner: opened by the first run that needs one, closed after the last one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from grain.worker.runner.services import open_nursery_of_runs, services_here

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

of_run: ContextVar[str] = ContextVar("of_run", default="none")


class Log:
    """A service that notes when it is opened and closed."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.fails = False

    @asynccontextmanager
    async def service(self) -> AsyncGenerator[int]:
        await trio.lowlevel.checkpoint()
        if self.fails:
            self.fails = False
            raise OSError("cannot be opened")
        self.events.append(f"opened for {of_run.get()}")
        try:
            yield 42
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            self.events.append("closed")


async def use(log: Log, name: str, make: object) -> None:
    of_run.set(name)
    services = services_here()
    assert services is not None
    assert 42 == await services.get(make)  # type: ignore[arg-type]
    log.events.append(name)


async def test_one_service_serves_all_runs_and_closes_after_the_last() -> None:
    """It does not see the context of the run that opened it."""
    log = Log()
    make = log.service
    async with open_nursery_of_runs() as nursery:
        assert services_here() is None  # the block is not a run
        nursery.start_soon(use, log, "a", make)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery():
            nursery.start_soon(use, log, "b", make)

    assert ["opened for none", "a", "b", "closed"] == log.events


async def test_a_task_below_a_run_finds_the_services_of_its_own_runner() -> None:
    logs = Log(), Log()

    async def run(log: Log) -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(use, log, "inner", log.service)

    async with open_nursery_of_runs() as one, open_nursery_of_runs() as other:
        one.start_soon(run, logs[0])
        other.start_soon(run, logs[1])

    assert ["opened for none", "inner", "closed"] == logs[0].events == logs[1].events


async def test_a_service_that_cannot_be_opened_is_tried_again_by_the_next_run() -> None:
    log = Log()
    log.fails = True
    make = log.service
    async with open_nursery_of_runs() as nursery:

        async def refused() -> None:
            with pytest.raises(OSError, match="cannot be opened"):
                await use(log, "a", make)

        nursery.start_soon(refused)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(use, log, "b", make)

    assert ["opened for none", "b", "closed"] == log.events


async def test_a_cancelled_runner_closes_its_services() -> None:
    log = Log()
    with trio.CancelScope() as scope:
        async with open_nursery_of_runs() as nursery:
            nursery.start_soon(use, log, "a", log.service)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught
    assert ["opened for none", "a", "closed"] == log.events
