"""A program on each member, where the members are one: with a gang of one, and without."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain import GVAR
from grain.resource import Cores
from grain.worker.errors import ExternalError, ExternalMemoryError, ExternalTimeoutError
from grain.worker.external import run_on_members
from grain.worker.gang.session import lead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import Any

    from grain.worker.external import Completed

CPU = min(os.sched_getaffinity(0))


@pytest.fixture(params=["a gang of one", "one worker"])
def on_members(request: pytest.FixtureRequest) -> Callable[..., Awaitable[list[Completed]]]:
    """`run_on_members` in a task."""

    async def call(*args: Any, **kwargs: Any) -> list[Completed]:
        with GVAR.scope(Cores([CPU])):
            body = partial(run_on_members, *args, **kwargs)
            return await (body() if request.param == "one worker" else lead([], body))

    return call


async def test_a_program_has_its_number_cpus_threads_and_variables(
    on_members: Callable[..., Awaitable[list[Completed]]],
) -> None:
    shell = "echo $0 $OMP_NUM_THREADS $TOLD $(grep Cpus_allowed_list /proc/self/status)"

    done = await on_members(lambda n: ["sh", "-c", shell, f"m{n}"], env={"TOLD": "me"})

    assert [f"m0 1 me Cpus_allowed_list: {CPU}\n"] == [one.stdout_text for one in done]


async def test_the_calls_own_variables_and_threads_win(
    on_members: Callable[..., Awaitable[list[Completed]]],
) -> None:
    shell = ["sh", "-c", "echo $OMP_NUM_THREADS $MKL_NUM_THREADS $TMPDIR ${HOME-none}"]
    changes = {"MKL_NUM_THREADS": "5", "TMPDIR": "/var/tmp", "HOME": None}

    (done,) = await on_members(shell, env=changes, threads=3)

    assert "3 5 /var/tmp none\n" == done.stdout_text


async def test_output_goes_to_a_file_below_the_directory(
    on_members: Callable[..., Awaitable[list[Completed]]], tmp_path: Path
) -> None:
    shell = ["sh", "-c", "echo out; echo >&2 err"]

    (done,) = await on_members(shell, cwd=tmp_path, output=lambda n: f"log.{n}")

    assert done.stdout is None
    assert (tmp_path / "log.0").read_text() == "out\nerr\n"


async def test_a_failure_has_the_end_of_the_output(
    on_members: Callable[..., Awaitable[list[Completed]]],
) -> None:
    with pytest.raises(ExternalError, match="exit code 3\n(?s:.*)no luck") as caught:
        await on_members(["sh", "-c", "echo no luck; exit 3"])

    assert caught.value.returncode == 3


@pytest.mark.parametrize("output", [None, lambda number: f"out.{number}"])
async def test_what_a_program_says_of_memory_counts(
    on_members: Callable[..., Awaitable[list[Completed]]],
    tmp_path: Path,
    output: Callable[[int], str] | None,
) -> None:
    shell = ["sh", "-c", "echo no room for that; exit 1"]

    with pytest.raises(ExternalMemoryError, match="no room"):
        await on_members(shell, cwd=tmp_path, output=output, memory_signs=["no room"])
    with pytest.raises(ValueError, match="enforce=True: the task asks for no memory"):
        await on_members(shell, enforce=True)
    with pytest.raises(TypeError, match="write a list of texts"):
        await on_members(shell, memory_signs="no room")


async def test_a_program_is_warned_before_the_time_limit(
    on_members: Callable[..., Awaitable[list[Completed]]], tmp_path: Path
) -> None:
    shell = ["sh", "-c", "until [ -s EXIT ]; do sleep 0.02; done; cat EXIT"]
    warned = {"warn": ("EXIT", "now"), "warn_before": 59.9, "timeout": 60.0}

    (done,) = await on_members(shell, cwd=tmp_path, **warned)

    assert ("now", "time") == (done.stdout_text, done.warned)
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="state how to warn it, too"):
        await on_members(shell, warn_before=60)


async def test_a_name_that_is_not_text_comes_back(
    on_members: Callable[..., Awaitable[list[Completed]]],
) -> None:
    with pytest.raises(ExternalError, match="exit code 1") as caught:
        await on_members(["false", os.fsdecode(b"\xff")])

    assert ("false", os.fsdecode(b"\xff")) == caught.value.argv


@pytest.mark.parametrize("ends_by", ["its time limit", "cancellation"])
async def test_nothing_is_left_of_programs_that_are_ended(
    on_members: Callable[..., Awaitable[list[Completed]]], tmp_path: Path, ends_by: str
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    holds = ["sh", "-c", f"exec 3>{fifo}; echo >&3 here; sleep 1000"]
    try:
        if ends_by == "cancellation":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(on_members, holds)
                await trio.lowlevel.wait_readable(held)
                nursery.cancel_scope.cancel()
        else:
            with pytest.raises(ExternalTimeoutError, match=r"time limit of 0\.5 s"):
                await on_members(holds, timeout=0.5)

        while os.read(held, 100):
            pass  # to the end of the file, which is there when no process has it open
    finally:
        os.close(held)


async def test_mistakes_say_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"output='out': write a function .* f\"out\.{number}\""):
        await run_on_members(["true"], output="out")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timeout='60': write a number"):
        await run_on_members(["true"], timeout="60")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'write \["echo", "a"\]'):
        await run_on_members("echo a")
    with pytest.raises(TypeError, match="write '1' instead"):
        await run_on_members(lambda number: ["echo", number + 1])  # type: ignore[list-item]
