"""One run of a tasklet, and what becomes of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio

from grain import GVAR
from grain.resource import ZERO, Cores
from grain.worker import Call
from grain.worker.errors import TaskletAborted
from grain.worker.job import run_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock


async def run(fn: Callable[..., Any], *args: object, limit: float = math.inf) -> Any:
    return await run_job(Call(fn, args, {}), ZERO, "here", limit, trio.CancelScope())


def error_of(ended: Any) -> BaseException:
    assert isinstance(ended, outcome.Error)
    return ended.error


async def test_value() -> None:
    """The outcome of a tasklet that returns is its value."""

    async def tasklet(x: int) -> int:
        return x + 1

    assert await run(tasklet, 1) == outcome.Value(2)


async def test_gvar() -> None:
    """A tasklet sees its allocation and its worker's name."""

    async def tasklet() -> Any:
        return GVAR.res, GVAR.instance

    ended = await run_job(Call(tasklet, (), {}), Cores([3]), "w", math.inf, trio.CancelScope())

    assert ended == outcome.Value((Cores([3]), "w"))


async def test_time_limit(autojump_clock: MockClock) -> None:
    """A run that exceeds its hard limit fails with TooSlowError, at the limit."""
    error = error_of(await run(trio.sleep, 100, limit=7))

    assert isinstance(error, trio.TooSlowError)
    assert str(error) == "sleep exceeded its hard time limit of 7 s"
    assert trio.current_time() == pytest.approx(7)


async def test_failure_while_stopped(autojump_clock: MockClock) -> None:
    """What a tasklet's nursery raises while the limit stops it does not leave the run."""

    async def fails_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async def tasklet() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_late)
            nursery.start_soon(trio.sleep_forever)

    error = error_of(await run(tasklet, limit=1))

    assert isinstance(error, trio.TooSlowError)
    assert error.__cause__ is not None


async def test_failure_while_cancelled() -> None:
    """Cancelled from outside, it was cancelled, whatever failed meanwhile."""
    scope = trio.CancelScope()

    async def fails_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async def tasklet() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_late)
            nursery.start_soon(trio.sleep_forever)
            scope.cancel()

    assert await run_job(Call(tasklet, (), {}), ZERO, "w", math.inf, scope) is None


async def test_value_in_spite_of_cancellation() -> None:
    """A value that was ready when the run was cancelled is not thrown away."""
    scope = trio.CancelScope()

    async def tasklet() -> int:
        scope.cancel()
        return 1

    assert await run_job(Call(tasklet, (), {}), ZERO, "w", math.inf, scope) == outcome.Value(1)


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit("x")])
async def test_base_exception(error: BaseException) -> None:
    """What would end the process is the tasklet's failure, and tells its name."""

    async def tasklet() -> None:
        raise error

    ended = error_of(await run(tasklet))

    assert isinstance(ended, TaskletAborted)
    assert ended.__cause__ is error
    assert f"tasklet raised {error!r}" in str(ended)


async def test_keyboard_interrupt() -> None:
    """An interrupt delivered in a tasklet passes: it is meant for the process."""

    async def tasklet() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run(tasklet)


async def test_sync_function() -> None:
    """A function that is not async fails with a sentence that says what to do."""

    def tasklet() -> int:
        return 1

    error = error_of(await run(tasklet))

    assert isinstance(error, TypeError)
    assert "is not an async function: a tasklet is defined with `async def`" in str(error)
