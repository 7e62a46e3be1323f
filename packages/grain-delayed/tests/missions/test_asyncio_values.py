"""Missions in asyncio programs: values are awaited there, and the tasklets are trio's."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import trio

from grain import GVAR
from grain.delayed import delayed, each
from grain.resource import Cores
from grain_testkit.asyncio_programs import add, asyncio_run, here

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_tasks_run_in_trio_and_are_awaited_in_asyncio() -> None:
    @delayed
    async def branch(x: int) -> int:
        total: int = await (add(x, 1) + (add @ Cores(1))(x, 2))
        return total

    @delayed
    async def look() -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        return repr(GVAR.res), GVAR.instance

    async def main() -> None:
        async with here(Cores(2), name="mine"):
            assert 9 == await branch(3)
            assert ("Ø", "") == await look()
            assert ("CPU_Cores([0-1])", "mine(local)") == await (look @ Cores(2))()
            r_, s_ = add(1, 2), (add @ Cores(1))(3, 4)
            assert 10 == await (r_ + s_)
            assert [3, 7] == await each([r_], s_)
            first, second = await asyncio.gather(r_, s_)
            assert (3, 7) == (first, second)
            assert 3 == await asyncio.wait_for(r_, 60)
            assert "<Delayed add: 3>" == repr(r_)

    asyncio_run(main)


def test_a_branch_sees_context_variables() -> None:
    """A task inherits the context of who called it, as tasks do in both libraries."""
    variable = contextvars.ContextVar("variable", default="outside")

    @delayed
    async def look() -> str:
        return variable.get()

    async def main() -> str:
        async with here():
            variable.set("inside")
            return await look()

    assert "inside" == asyncio_run(main)


def test_a_value_that_is_there_can_be_awaited_anywhere() -> None:
    """Also after the mission, and by a program without one."""

    async def main() -> Any:
        async with here():
            r_ = add(1, 2)
        assert 3 == await r_
        return r_

    async def main_of_trio() -> Any:
        async with here():
            return add(3, 4)

    async def wait(r_: Any) -> Any:
        return await r_

    assert 3 == asyncio.run(wait(asyncio_run(main)))
    assert 7 == asyncio.run(wait(trio.run(main_of_trio)))


def test_retries_and_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both do for asyncio's code what they do elsewhere."""
    calls: list[str] = []

    @delayed(retries=2)
    async def flaky() -> int:
        calls.append("flaky")
        if calls.count("flaky") < 2:
            raise OSError("not yet")
        return calls.count("flaky")

    @delayed(cache_hfn="args")
    async def kept(x: int) -> int:
        print("computing", x)
        return 2 * x

    async def main() -> None:
        for _ in range(2):
            async with here(Cores(1), cache=tmp_path):
                assert 6 == await (kept @ Cores(1))(3)
        async with here(Cores(1)):
            assert 2 == await (flaky @ Cores(1))()

    asyncio_run(main)
    assert "computing 3\n" == capsys.readouterr().out
