"""Attributes and method calls."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from grain.delayed import Delayed, delayed, delayedval, mission


async def test_attributes_and_methods() -> None:
    """Attributes can be read and methods called, with delayed arguments too."""
    number: Delayed[Any] = delayedval(3 + 4j)
    words: Delayed[Any] = delayedval(["b", "a"])

    assert 4.0 == await number.imag
    assert 1 == await words.index("a")
    assert 1 == await words.index(delayedval("a"))
    assert "B-A" == await delayedval("-").join(words).upper()
    assert "1 2" == await delayedval("{} {x}").format(delayedval(1), x=delayedval(2))


async def test_a_result_that_is_a_function() -> None:
    """A delayed object can be called if its value can."""
    assert 3 == await delayedval(len)([1, 2, 3])


async def test_a_missing_attribute() -> None:
    """An attribute that the value does not have is an error where it is awaited."""
    with pytest.raises(AttributeError, match="'int' object has no attribute 'foo'"):
        await delayedval(1).foo


async def test_private_names_are_no_attributes() -> None:
    """Names that begin with an underscore are refused, as Python looks for protocols by them."""
    value = delayedval(1)

    with pytest.raises(AttributeError, match="no attribute '_foo'; await it first"):
        _ = value._foo
    assert not hasattr(value, "__array_interface__")


async def test_operations_on_a_task() -> None:
    """Operations on the result of a task wait for it."""

    @delayed
    async def text() -> str:
        await trio.lowlevel.checkpoint()
        return "some text"

    async with mission(config_file=False):
        assert ["SOME", "TEXT"] == await text().upper().split()
