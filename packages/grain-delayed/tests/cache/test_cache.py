"""cache_hfn: leaves of one key share one task."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from grain.delayed import delayed, each, mission
from grain.resource import Cores


async def test_one_key_one_task() -> None:
    """Leaves with the same key run once, whether the first has ended or not."""
    calls: list[int] = []

    @delayed(cache_hfn=lambda x: str(x % 10))
    async def square(x: int) -> int:
        calls.append(x)
        await trio.lowlevel.checkpoint()
        return x * x

    leaf = square @ Cores(1)
    async with mission(Cores(2), config_file=False, cache=False):
        assert [1, 1, 4] == await each(leaf(1), leaf(11), leaf(2))
        assert 1 == await leaf(21)

    assert [1, 2] == sorted(calls)


async def test_each_mission_begins_anew() -> None:
    """Without a directory, nothing is shared between missions."""
    calls: list[int] = []

    @delayed(cache_hfn=str)
    async def count(x: int) -> int:
        calls.append(x)
        return len(calls)

    for expected in (1, 2):
        async with mission(Cores(1), config_file=False, cache=False):
            assert expected == await (count @ Cores(1))(5)


async def test_two_functions_do_not_share() -> None:
    """A key belongs to its function."""

    @delayed(cache_hfn=lambda: b"same")
    async def one() -> int:
        return 1

    @delayed(cache_hfn=lambda: b"same")
    async def two() -> int:
        return 2

    async with mission(Cores(1), config_file=False, cache=False):
        assert [1, 2] == await each((one @ Cores(1))(), (two @ Cores(1))())


async def test_a_failure_is_tried_again() -> None:
    """A key whose task failed starts another task; while it runs, the task is shared."""
    errors = [ValueError("broken")]

    @delayed(cache_hfn=lambda: "key")
    async def once_broken() -> str:
        if errors:
            raise errors.pop()
        return "well"

    leaf = once_broken @ Cores(1)
    async with mission(Cores(1), config_file=False, cache=False):
        first, second = leaf(), leaf()
        for shared in (first, second):
            with pytest.raises(ValueError, match="broken"):
                await shared
        assert "well" == await leaf()


async def test_methods_share_by_instance() -> None:
    """A method's key belongs to its instance, however often the method is looked up."""

    class Counter:
        def __init__(self) -> None:
            self.calls = 0

        @delayed(cache_hfn=lambda key: key)
        async def count(self, key: str) -> str:
            self.calls += 1
            return f"{key} {self.calls}"

    a, b = Counter(), Counter()
    async with mission(Cores(1), config_file=False, cache=False):
        for counter in (a, b, a):
            assert "key 1" == await (counter.count @ Cores(1))("key")


@pytest.mark.parametrize("key", [3, None, ("a",)])
async def test_a_key_of_the_wrong_type(key: Any) -> None:
    """A key that is not a str or bytes is an error of the call."""

    @delayed(cache_hfn=lambda: key)
    async def leaf() -> None: ...

    async with mission(Cores(1), config_file=False, cache=False):
        with pytest.raises(TypeError, match="cache_hfn of .*leaf returned .*returns str or bytes"):
            (leaf @ Cores(1))()


async def test_branches_are_not_shared() -> None:
    """Only leaves share; a branch runs each time it is called."""
    calls: list[int] = []

    @delayed(cache_hfn=lambda: "key")
    async def branch() -> None:
        calls.append(1)

    async with mission(config_file=False, cache=False):
        await each(branch(), branch())

    assert 2 == len(calls)
