"""Branches begin in the order of their calls, whatever order trio runs them in.

Trio runs the tasks that are ready forwards or backwards, at random: each test repeats its program
until backwards has certainly occurred.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from grain.combine import open_waitgroup
from grain.delayed import delayed, each, mission, run
from grain.delayed.missions.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MANY = 50
REPEATED = 20


@delayed
async def show(i: int) -> int:
    print(i)
    return i


async def await_each() -> None:
    await each(show(i) for i in range(MANY))


async def await_backwards() -> None:
    tasks = [show(i) for i in range(MANY)]
    for task in reversed(tasks):
        await task


async def await_nothing() -> None:
    for i in range(MANY):
        show(i)


async def retry_each() -> None:
    retried = delayed(show.fn, retries=1)
    await each(retried(i) for i in range(MANY))


async def group() -> None:
    async with open_waitgroup() as wg:
        for i in range(MANY):
            wg.start_subtask(show.fn, i)


async def group_and_calls() -> None:
    async with open_waitgroup() as wg:
        for i in range(0, MANY, 2):
            wg.start_subtask(show.fn, i)
            show(i + 1)


@pytest.mark.parametrize(
    "main", [await_each, await_backwards, await_nothing, retry_each, group, group_and_calls]
)
def test_branches_begin_and_print_in_the_order_of_their_calls(
    main: Callable[[], Awaitable[None]], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(REPEATED):
        run(main, config_file=False)

    assert list(range(MANY)) * REPEATED == [int(i) for i in capsys.readouterr().out.split()]


def test_branches_of_branches_begin_after_those_called_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @delayed
    async def parent(i: int) -> None:
        print(i)
        await each(show(10 * i + k) for k in range(3))

    async def main() -> None:
        await each(parent(i) for i in range(1, 4))

    for _ in range(REPEATED):
        run(main, config_file=False)

    expected = [1, 2, 3, 10, 11, 12, 20, 21, 22, 30, 31, 32]
    assert expected * REPEATED == [int(i) for i in capsys.readouterr().out.split()]


def test_root_functions_begin_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(REPEATED):
        run([partial(show.fn, i) for i in range(MANY)], config_file=False)

    assert list(range(MANY)) * REPEATED == [int(i) for i in capsys.readouterr().out.split()]


def test_branches_called_by_asyncio_code_begin_in_the_order_of_their_calls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        async with mission(config_file=False, progress=False):
            await await_each()

    for _ in range(REPEATED):
        asyncio.run(main())

    assert list(range(MANY)) * REPEATED == [int(i) for i in capsys.readouterr().out.split()]


async def test_a_cancelled_task_takes_its_first_step_and_holds_up_no_other() -> None:
    for _ in range(REPEATED):
        turns = Turns()
        begun: list[int] = []

        async def task(number: int) -> None:
            await turns.wait(number)  # noqa: B023 - it ends within the loop
            begun.append(number)  # noqa: B023
            await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as going_on:
            first = turns.take()
            async with trio.open_nursery() as cancelled:
                for _ in range(3):
                    cancelled.start_soon(task, turns.take())
                cancelled.cancel_scope.cancel()
            assert {2, 3, 4} == set(begun)
            for number in (turns.take(), turns.take(), first):
                going_on.start_soon(task, number)
        assert [1, 5, 6] == begun[3:]
