"""Nothing is kept of a task that is not referenced any more."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import trio

from grain.delayed import Delayed, delayed, delayedval, mission
from grain.resource import Cores


class Thing:
    """Something that can be watched going away."""


@delayed
async def make(argument: Thing) -> Thing:
    await trio.lowlevel.checkpoint()
    return Thing()


@delayed
async def fail(argument: Thing) -> Any:
    raise ValueError(argument)


@pytest.mark.parametrize("fn", [make, make @ Cores(1)])
async def test_argument_and_result(fn: Any) -> None:
    """A task's arguments go with its end, its result with the last who refers to it."""
    async with mission(Cores(1), config_file=False):
        argument = Thing()
        value: Delayed[Any] | None = fn(argument)
        watched = weakref.ref(argument)
        del argument
        assert value is not None
        result = weakref.ref(await value)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()

        assert watched() is None
        assert result() is not None
        value = None
        gc.collect()
        assert result() is None


async def test_a_task_that_is_not_awaited() -> None:
    """The result of a task whose delayed object was dropped is not kept."""
    references: list[weakref.ref[Thing]] = []

    @delayed
    async def note() -> Thing:
        thing = Thing()
        references.append(weakref.ref(thing))
        return thing

    async with mission(Cores(1), config_file=False):
        (note @ Cores(1))()
        note()
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()

        assert [None, None] == [ref() for ref in references]


async def test_a_failure_that_was_awaited() -> None:
    """An exception goes, with all its frames hold, when its task is not referenced."""
    async with mission(Cores(1), config_file=False):
        argument = Thing()
        watched = weakref.ref(argument)
        with pytest.raises(ValueError):
            await (fail @ Cores(1))(argument)
        del argument
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()

        assert watched() is None


async def test_what_an_operation_was_computed_from() -> None:
    """Once it is computed, the result of an operation does not keep its operands."""
    operand = Thing()
    watched = weakref.ref(operand)
    value = delayedval([operand])
    length = delayedval(len)(value)
    del operand, value

    assert 1 == await length
    gc.collect()
    assert watched() is None


async def test_awaits_that_were_given_up() -> None:
    """Awaiting one task with a timeout, again and again, keeps nothing of the earlier waits."""
    release = trio.Event()

    @delayed
    async def released() -> None:
        await release.wait()

    async with mission(Cores(1), config_file=False):
        value = (released @ Cores(1))()
        await trio.testing.wait_all_tasks_blocked()
        before = len(gc.get_objects())
        for _ in range(1000):
            with trio.move_on_after(0):
                await value
        gc.collect()

        assert len(gc.get_objects()) < before + 500
        release.set()
