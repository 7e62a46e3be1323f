"""Functions that block, as tasklets."""

from __future__ import annotations

import threading

import pytest
import trio

from grain import GVAR
from grain.resource import Cores
from grain.worker import Call
from grain.worker.blocking import in_thread
from grain.worker.job import run_job


def look(key: str, *, other: str) -> tuple[str, str, bool]:
    main = threading.current_thread() is threading.main_thread()
    return f"{key} {other}", repr(GVAR.res), main


async def test_a_function_in_a_thread_has_its_arguments_and_the_resources_of_its_task() -> None:
    call = Call(in_thread, (look, ("a",), {"other": "b"}), {})
    ended = await run_job(call, Cores([3]), "me", float("inf"), None)
    assert ended is not None
    assert ("a b", "CPU_Cores([3])", False) == ended.unwrap()


async def test_an_exception_of_a_function_in_a_thread_is_raised_as_it_is() -> None:
    """Also where the object that was given is no function."""
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, (1, 0))
    with pytest.raises(TypeError, match="not callable"):
        await in_thread(3)  # type: ignore[arg-type]


async def test_every_task_has_a_thread_at_once() -> None:
    """Trio's own limit, of 40, does not apply; and other tasks go on meanwhile."""
    barrier = threading.Barrier(60)
    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(in_thread, barrier.wait, (120,))
