"""`run`: root functions, their results, and wrong arguments."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import trio

from grain.delayed import delayed, delayedval, run
from grain.resource import Cores


async def one() -> int:
    await trio.lowlevel.checkpoint()
    return 1


async def add(a: int, b: int = 0) -> int:
    return a + b


def test_the_result_of_one_function_is_the_result() -> None:
    assert 1 == run(one, config_file=False)


def test_arguments_are_bound_with_partial() -> None:
    assert 5 == run(functools.partial(add, 2, b=3), config_file=False)


@pytest.mark.parametrize("make", [list, tuple, iter, lambda x: (y for y in x)])
def test_several_functions_give_a_list_of_results_in_their_order(make: Any) -> None:
    functions = [one, functools.partial(add, 2), one]

    assert [1, 2, 1] == run(make(functions), config_file=False)


def test_a_list_of_one() -> None:
    """A list of one function has a list of one result."""
    assert [1] == run([one], config_file=False)
    assert [] == run([], config_file=False)


def test_a_delayed_function_as_root() -> None:
    """A delayed function can be a root, as a branch or as a leaf."""
    root = delayed(one)

    assert 1 == run(root, config_file=False)
    assert [1, 1] == run([root, root @ Cores(1)], Cores(1), config_file=False)


def test_roots_run_concurrently() -> None:
    """Roots can wait for each other."""
    event = trio.Event()

    async def wait() -> str:
        await event.wait()
        return "waited"

    async def release() -> str:
        event.set()
        return "set"

    assert ["waited", "set"] == run([wait, release], config_file=False)


def test_local_by_position_or_name() -> None:
    """The local worker's resources are the second argument."""

    @delayed
    async def leaf() -> int:
        return 1

    async def main() -> int:
        return await (leaf @ Cores(2))()

    assert 1 == run(main, Cores(2), config_file=False)
    assert 1 == run(main, local=Cores(2), config_file=False, prioritized=True)


HINT = r"cannot be run: give run\(\) an async function, not its call: run\(\w+\), or .*partial"


@pytest.mark.parametrize(
    "make",
    [
        lambda: one(),
        lambda: [one, one(), add(1)],
        lambda: 3,
        lambda: None,
        lambda: [one, 3],
        lambda: "one",
        lambda: delayedval(1),
        lambda: [delayedval(1)],
    ],
)
def test_what_cannot_be_run(make: Any) -> None:
    """A call, or what is not a function, is refused with a hint; no coroutine is left behind."""
    with pytest.raises(TypeError, match=HINT):
        run(make(), config_file=False)


def sync() -> int:
    return 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize("function", [sync, async_generator, lambda: None])
@pytest.mark.parametrize("listed", [False, True])
def test_what_is_not_async(function: Any, listed: bool) -> None:
    """A function that cannot be awaited is named."""
    with pytest.raises(TypeError, match="is not an async function: a tasklet is defined with"):
        run([function] if listed else function, config_file=False)


async def test_inside_a_trio_program() -> None:
    """run() begins a trio program; in one, it says what to use."""
    with pytest.raises(RuntimeError, match="grain.delayed.mission"):
        run(one, config_file=False)
