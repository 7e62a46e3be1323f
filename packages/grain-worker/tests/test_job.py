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


async def fails_while_stopped(stop: Callable[[], object] = lambda: None) -> None:
    """A tasklet with a nursery, one of whose tasks fails when it is cancelled."""

    async def fails_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails_late)
        nursery.start_soon(trio.sleep_forever)
        stop()


async def test_the_outcome_of_a_tasklet_that_returns_is_its_value() -> None:
    async def tasklet(x: int) -> int:
        return x + 1

    assert await run(tasklet, 1) == outcome.Value(2)


async def test_a_tasklet_sees_its_allocation_and_its_workers_name() -> None:
    async def tasklet() -> Any:
        return GVAR.res, GVAR.instance

    ended = await run_job(Call(tasklet, (), {}), Cores([3]), "w", math.inf, trio.CancelScope())

    assert ended == outcome.Value((Cores([3]), "w"))


async def test_a_run_that_exceeds_its_hard_limit_fails_at_the_limit(
    autojump_clock: MockClock,
) -> None:
    error = error_of(await run(trio.sleep, 100, limit=7))

    assert isinstance(error, trio.TooSlowError)
    assert str(error) == "sleep exceeded its hard time limit of 7 s"
    assert trio.current_time() == pytest.approx(7)


async def test_an_error_raised_while_the_limit_stops_a_tasklet_is_the_cause_of_its_failure(
    autojump_clock: MockClock,
) -> None:
    error = error_of(await run(fails_while_stopped, limit=1))

    assert isinstance(error, trio.TooSlowError)
    assert error.__cause__ is not None


async def test_a_run_that_was_cancelled_is_cancelled_whatever_failed_meanwhile() -> None:
    scope = trio.CancelScope()

    call = Call(fails_while_stopped, (scope.cancel,), {})

    assert await run_job(call, ZERO, "w", math.inf, scope) is None


async def test_a_value_that_was_ready_when_the_run_was_cancelled_is_its_outcome() -> None:
    scope = trio.CancelScope()

    async def tasklet() -> int:
        scope.cancel()
        return 1

    assert await run_job(Call(tasklet, (), {}), ZERO, "w", math.inf, scope) == outcome.Value(1)


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit("x")])
async def test_an_exception_that_would_end_the_process_is_the_failure_of_its_tasklet(
    error: BaseException,
) -> None:
    async def tasklet() -> None:
        raise error

    ended = error_of(await run(tasklet))

    assert isinstance(ended, TaskletAborted)
    assert ended.__cause__ is error
    assert f"tasklet raised {error!r}" in str(ended)


async def test_an_interrupt_in_a_tasklet_is_passed_on_to_the_process() -> None:
    async def tasklet() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run(tasklet)


async def test_a_function_that_is_not_async_fails_with_advice() -> None:
    def tasklet() -> int:
        return 1

    error = error_of(await run(tasklet))

    assert isinstance(error, TypeError)
    assert "is not an async function: a tasklet is defined with `async def`" in str(error)
