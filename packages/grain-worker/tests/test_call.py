"""One run of a tasklet, and what becomes of it."""

from __future__ import annotations

import math
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import outcome
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from grain import GVAR
from grain.resource import ZERO, Cores
from grain.worker import Call
from grain.worker.call import capture, name_of, run_call
from grain.worker.errors import TaskletAborted

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock


async def run(fn: Callable[..., Any], *args: object, limit: float = math.inf) -> Any:
    return await run_call(Call(fn, args, {}), ZERO, "here", limit, trio.CancelScope())


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

    ended = await run_call(Call(tasklet, (), {}), Cores([3]), "w", math.inf, trio.CancelScope())

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

    assert await run_call(call, ZERO, "w", math.inf, scope) is None


async def test_a_value_that_was_ready_when_the_run_was_cancelled_is_its_outcome() -> None:
    scope = trio.CancelScope()

    async def tasklet() -> int:
        scope.cancel()
        return 1

    assert await run_call(Call(tasklet, (), {}), ZERO, "w", math.inf, scope) == outcome.Value(1)


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


async def test_an_interrupt_is_the_failure_of_its_tasklet_where_ctrl_c_has_no_effect() -> None:
    error: BaseException = KeyboardInterrupt("mine")

    async def tasklet() -> None:
        raise error

    async def in_a_group() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tasklet)

    for fn in (tasklet, in_a_group):
        for limit in (math.inf, 60.0):
            call = Call(fn, (), {})
            ended = await run_call(call, Cores(1), "w", limit, None, interruptible=False)
            assert isinstance(error_of(ended), TaskletAborted)
            assert "KeyboardInterrupt" in str(error_of(ended))


async def test_a_cancellation_from_outside_is_passed_on_beside_an_interrupt_of_the_tasklet() -> (
    None
):
    scope = trio.CancelScope()

    async def interrupts() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    async def tasklet() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupts)
            nursery.start_soon(trio.sleep_forever)
            await wait_all_tasks_blocked()
            scope.cancel()

    with scope:
        await run_call(Call(tasklet, (), {}), ZERO, "w", math.inf, None, interruptible=False)
    assert scope.cancelled_caught


async def test_a_generator_is_a_value_in_its_own_process() -> None:
    async def branch() -> Any:
        return (i for i in range(3))

    assert [0, 1, 2] == list((await capture(Call(branch, (), {}))).unwrap())


@pytest.mark.parametrize("limit", [math.inf, 60.0])
async def test_a_tasklet_that_returns_a_generator_fails_with_advice(limit: float) -> None:
    async def tasklet() -> Any:
        return (i for i in range(3))

    error = error_of(await run_call(Call(tasklet, (), {}), Cores(1), "w", limit, None))
    assert isinstance(error, TypeError)
    assert "returned a generator" in str(error)
    assert "return the values, as in `return list(...)`" in str(error)


async def test_a_tasklet_with_a_yield_fails_with_advice() -> None:
    async def tasklet() -> Any:
        yield 1

    error = error_of(await run(tasklet))
    assert isinstance(error, TypeError)
    assert "and without `yield`, as it returns its value when it ends" in str(error)
    assert "Collect the values in a list" in str(error)


async def test_a_function_that_is_not_async_fails_with_advice() -> None:
    def tasklet() -> int:
        return 1

    error = error_of(await run(tasklet))

    assert isinstance(error, TypeError)
    assert "is not an async function: a tasklet is defined with `async def`" in str(error)


async def test_a_pool_that_cannot_find_a_function_of_the_script_says_what_to_do() -> None:
    """As a `multiprocessing.Pool` that a leaf opens on a worker."""

    def square(x: int) -> int:
        return x * x

    square.__module__, square.__qualname__ = "__main__", "square"

    async def uses_a_pool() -> None:
        pickle.dumps(square)  # as the pool does

    result = await run(uses_a_pool)
    assert isinstance(result, outcome.Error)
    [note] = getattr(result.error, "__notes__", [])
    assert "put the function into a module that the worker can import" in note


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("opt", "opt"),
        ("opt\nwarning: all is lost", "opt?warning: all is lost"),
        ("\x1b[2J", "?[2J"),
        ("half \ud800", "half ?"),
        ("x" * 1_000_000, "x" * 197 + "..."),
    ],
)
def test_the_name_of_a_function_is_one_line_that_a_person_can_read(name: str, shown: str) -> None:
    def fn() -> None:
        pass

    fn.__qualname__ = name
    assert shown == name_of(fn) == name_of(partial(fn))
