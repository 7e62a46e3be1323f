"""each(): several delayed objects at once."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio

from grain.delayed import delayed, delayedval, each, mission
from grain.resource import Cores


@delayed
async def after(seconds: float, error: Exception | None = None) -> float:
    await trio.sleep(seconds)
    if error is not None:
        raise error
    return seconds


async def test_what_it_takes() -> None:
    """One by one, as lists, tuples and generators, mixed; the values come in order."""
    values = [delayedval(i) for i in range(4)]

    assert [0, 1, 2, 3] == await each(values)
    assert [0, 1, 2, 3] == await each(*values)
    assert [0, 1, 2, 3] == await each(value for value in values)
    assert [0, 1, 2, 3] == await each(values[0], (values[1], values[2]), values[3])
    assert [0] == await each(values[0])
    assert [0, 0] == await each(values[0], values[0])
    assert [] == await each()
    assert [] == await each([])


async def test_items_of_a_result() -> None:
    """A result with nout counts as one object, not as its items."""
    assert [[1, 2]] == await each(delayedval([1, 2], length=2))


async def test_they_run_concurrently(autojump_clock: trio.testing.MockClock) -> None:
    """All are waited for at once."""
    async with mission(config_file=False):
        start = trio.current_time()

        assert [3.0, 1.0, 2.0] == await each(after(x) for x in (3.0, 1.0, 2.0))
        assert 3 == trio.current_time() - start


@pytest.mark.parametrize("wrong", [3, [3], [[delayedval(1)]], "ab"])
async def test_each_refuses_what_is_not_delayed(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"each\(\) takes delayed objects or iterables of them, no"):
        await each(delayedval(0), wrong)


async def test_each_names_the_function_that_lacks_its_decorator() -> None:
    async def plain(x: int) -> int:
        return x

    message = "not a coroutine of plain: decorate plain with @delayed"
    for wrong in (plain(1), [plain(1), plain(2)]):
        with pytest.raises(TypeError, match=message):
            await each(cast("Any", wrong))


async def test_an_error_of_the_generator_passes() -> None:
    """An error of the generator, even a TypeError, is not taken for a wrong argument."""

    def broken() -> Any:
        yield delayedval(1)
        raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine$"):
        await each(broken())


async def test_the_first_failure_is_raised_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """The first task that fails ends the waiting; the others go on and can be awaited."""
    async with mission(Cores(4), config_file=False):
        start = trio.current_time()
        slow, broken = (after @ Cores(1))(5), (after @ Cores(1))(1, ValueError("broken"))

        with pytest.raises(ValueError, match="broken"):
            await each(slow, broken)
        assert 1 == trio.current_time() - start
        assert 5 == await slow
        assert 5 == trio.current_time() - start


async def test_a_failure_known_before(autojump_clock: trio.testing.MockClock) -> None:
    """A task that has failed already is raised without waiting for the others."""
    async with mission(config_file=False):
        slow, broken = after(100), after(0, ValueError("broken"))
        with pytest.raises(ValueError, match="broken"):
            await broken
        start = trio.current_time()

        with pytest.raises(ValueError, match="broken"):
            await each(slow, broken)
        assert start == trio.current_time()
