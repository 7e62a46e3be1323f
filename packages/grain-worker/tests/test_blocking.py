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


async def test_in_thread() -> None:
    """It has its arguments, the resources of its task, and a thread."""
    call = Call(in_thread, (look, ("a",), {"other": "b"}), {})
    ended = await run_job(call, Cores([3]), "me", float("inf"), None)
    assert ended is not None
    assert ("a b", "CPU_Cores([3])", False) == ended.unwrap()


async def test_what_it_raises() -> None:
    """The exception itself; also where what was given is no function."""
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, (1, 0))
    with pytest.raises(TypeError, match="not callable"):
        await in_thread(3)  # type: ignore[arg-type]


async def test_as_many_as_there_are_tasks() -> None:
    """Trio's own limit, of 40, does not apply; and other tasks go on meanwhile."""
    barrier = threading.Barrier(60)
    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(in_thread, barrier.wait, (120,))
