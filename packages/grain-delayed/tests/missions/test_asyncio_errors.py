"""Errors of calls, options and missions in asyncio programs."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.config import ConfigError
from grain.delayed import delayed, mission
from grain.delayed.missions.asyncio_guest import hosted
from grain.resource import Cores
from grain_testkit.asyncio_programs import asyncio_run, fail, failing, here

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from grain.delayed import Mission


def test_a_failure_is_raised_where_it_is_awaited() -> None:
    """The exception itself, as often as it is awaited."""
    error = ValueError("mine")

    async def main() -> None:
        async with here(Cores(1)):
            for r_ in (fail(error), (fail @ Cores(1))(error)):
                for _ in range(2):
                    with pytest.raises(ValueError) as caught:
                        await r_
                    assert error is caught.value

    asyncio_run(main)


def test_failures_that_were_not_awaited() -> None:
    """One is raised as it is, several as a group, when the block is left."""

    async def main(*errors: Exception) -> None:
        async with here():
            for error in errors:
                fail(error)

    first, second = ValueError(1), KeyError(2)
    with pytest.raises(ValueError) as caught:
        asyncio_run(lambda: main(first))
    assert first is caught.value
    with pytest.raises(ExceptionGroup) as group:
        asyncio_run(lambda: main(first, second))
    assert {first, second} == set(group.value.exceptions)


def test_a_bad_option_raises_as_in_a_trio_program(tmp_path: Path) -> None:
    config = tmp_path / "grain.toml"
    config.write_text("nonsense = 1")

    async def main(**options: Any) -> None:
        async with mission(**options):
            raise AssertionError("not entered")

    with pytest.raises(ConfigError, match="nonsense"):
        asyncio_run(lambda: main(config_file=str(config)))
    with pytest.raises(TypeError, match=r"local=3: give the resources"):
        asyncio_run(lambda: main(local=3, config_file=False))


def test_a_mission_that_breaks_cancels_its_block() -> None:
    """As in a trio program; asyncio does not count that as a cancellation of its own."""
    log = []

    async def main() -> None:
        fails = trio.Event()
        with pytest.raises(OSError, match="broken"):
            async with hosted(lambda: failing(OSError("broken"), fails)):
                fails.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    log.append("cancelled")
                    raise
        if sys.version_info >= (3, 11):
            task = asyncio.current_task()
            assert task is not None
            assert 0 == task.cancelling()
        await asyncio.sleep(0)

    asyncio_run(main)
    assert ["cancelled"] == log


def test_an_error_of_the_trio_run_itself_is_raised() -> None:
    """As when a task of another library crashes in it, which belongs to no mission."""

    async def crash() -> None:
        raise ValueError("of another library")

    async def main() -> None:
        async with here():
            trio.lowlevel.spawn_system_task(crash)
            await asyncio.sleep(60)

    with pytest.raises(trio.TrioInternalError):
        asyncio_run(main)


def test_a_block_and_its_mission_both_fail() -> None:
    """Neither exception hides the other."""

    @asynccontextmanager
    async def fails_in_the_end() -> AsyncGenerator[Mission]:
        async with here() as active:
            try:
                yield active
            finally:
                raise OSError("mission")

    async def main() -> None:
        async with hosted(fails_in_the_end):
            raise KeyError("block")

    with pytest.raises(ExceptionGroup) as caught:
        asyncio_run(main)
    assert [KeyError, OSError] == [type(e) for e in caught.value.exceptions]


def test_a_group_of_one_around_what_failed() -> None:
    """It hides nothing: as in a trio program, what the nursery of a branch made of it is undone."""

    @delayed
    async def branch() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(raises)
            nursery.start_soon(trio.sleep_forever)

    async def raises() -> None:
        raise ValueError("no convergence")

    async def main() -> None:
        async with here():
            await branch()

    with pytest.raises(ValueError, match="no convergence"):
        asyncio_run(main)
