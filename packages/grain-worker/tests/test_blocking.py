"""Functions that block, as tasklets."""

from __future__ import annotations

import functools
import inspect
import math
import threading

import pytest
import trio

from grain import GVAR
from grain.resource import Cores
from grain.worker import Call
from grain.worker.blocking import call_in_thread, in_thread
from grain.worker.call import run_call


def look(key: str, *, other: str) -> tuple[str, str, bool]:
    main = threading.current_thread() is threading.main_thread()
    return f"{key} {other}", repr(GVAR.res), main


async def test_a_function_in_a_thread_has_its_arguments_and_the_resources_of_its_task() -> None:
    call = Call(call_in_thread, (look, ("a",), {"other": "b"}), {})
    ended = await run_call(call, Cores([3]), "me", float("inf"), None)
    assert ended is not None
    assert ("a b", "CPU_Cores([3])", False) == ended.unwrap()


async def test_an_exception_of_a_function_in_a_thread_is_raised_as_it_is() -> None:
    """Also where the object that was given is not a function."""
    with pytest.raises(ZeroDivisionError):
        await call_in_thread(divmod, (1, 0))
    with pytest.raises(TypeError, match="not callable"):
        await call_in_thread(3)  # type: ignore[arg-type]


async def test_every_task_has_a_thread_at_once() -> None:
    """Trio's own limit, of 40, does not apply; and other tasks go on meanwhile."""
    barrier = threading.Barrier(60)
    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(call_in_thread, barrier.wait, (120,))


@in_thread
def added(x: int, *, to: int = 1) -> tuple[int, bool]:
    """Add."""
    return x + to, threading.current_thread() is threading.main_thread()


async def test_a_decorated_function_is_a_tasklet_with_its_own_name_and_signature() -> None:
    assert (3, False) == await added(2)
    assert (5, False) == await added(2, to=3)
    assert ("added", "Add.") == (added.__name__, added.__doc__)
    assert ["x", "to"] == list(inspect.signature(added).parameters)
    assert 2.0 == await in_thread(math.sqrt)(4)
    assert (3, 1) == await in_thread(functools.partial(divmod, 7))(2)


async def test_a_decorated_function_raises_what_it_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod)(1, 0)


async def test_what_is_no_function_that_blocks_is_refused_with_a_reason() -> None:
    async def asynchronous() -> None:
        pass

    with pytest.raises(TypeError, match="asynchronous is an async function.*leave in_thread out"):
        in_thread(asynchronous)
    with pytest.raises(TypeError, match="takes a function, not 3"):
        in_thread(3)  # type: ignore[arg-type]
