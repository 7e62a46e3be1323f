"""Functions in processes of a pool: calls of all kinds, and which pool serves them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain.subproc import subprocify
from grain_testkit.pool_scope import pool, where

if TYPE_CHECKING:
    from pathlib import Path


@subprocify
def scaled(x: float, *, by: float = 2.0) -> float:
    """A docstring."""
    return x * by


async def test_call() -> None:
    """In another process, with positional and named arguments; used again."""
    async with pool():
        assert 6.0 == await scaled(3.0)
        assert 15.0 == await scaled(3.0, by=5.0)
        first = await where()
        assert first == await where() != os.getpid()


async def test_two_at_a_time() -> None:
    """The event loop goes on: one call waits for what the other gives."""
    read, write = os.pipe()
    try:
        path_in, path_out = f"/proc/{os.getpid()}/fd/{read}", f"/proc/{os.getpid()}/fd/{write}"
        got: list[bytes] = []

        @subprocify
        def take(path: str) -> bytes:
            with open(path, "rb") as file:  # noqa: PTH123
                return file.read(1)

        @subprocify
        def give(path: str) -> None:
            with open(path, "wb") as file:  # noqa: PTH123
                file.write(b"x")

        async def keep() -> None:
            got.append(await take(path_in))

        async with pool(), trio.open_nursery() as nursery:
            nursery.start_soon(keep)
            await trio.testing.wait_all_tasks_blocked()
            await give(path_out)
    finally:
        os.close(read)
        os.close(write)
    assert [b"x"] == got


async def test_limit() -> None:
    """No more processes than calls may run at a time."""
    pids: set[int] = set()

    async def one() -> None:
        pids.add(await where())

    async with pool(limit=1), trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(one)
    assert 1 == len(pids)


def test_it_looks_like_the_function() -> None:
    """Name, documentation and signature are the function's; and it is async."""
    assert "scaled" == scaled.__name__
    assert "A docstring." == scaled.__doc__
    assert ["x", "by"] == list(inspect.signature(scaled).parameters)
    assert inspect.iscoroutinefunction(scaled)


async def test_functions_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module (decorated or not), of the standard library, closures, callable objects."""
    (tmp_path / "some_functions.py").write_text(
        "from grain.subproc import subprocify\n"
        "def plain(): return __name__\n"
        "@subprocify\n"
        "def decorated(): return plain()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import some_functions  # type: ignore[import-not-found]

    factor = 3

    def closure(x: int) -> int:
        return x * factor

    async with pool():
        assert "some_functions" == await subprocify(some_functions.plain)()
        assert "some_functions" == await some_functions.decorated()
        assert 3 == await subprocify(len)([1, 2, 3])
        assert 12 == await subprocify(closure)(4)
        assert "ab" == await subprocify("a".__add__)("b")


async def test_many_functions_and_a_long_search_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """More functions than a process keeps; more to search than a message has room for."""
    monkeypatch.setattr(sys, "path", [*sys.path, *(f"{tmp_path}/{i}" for i in range(2000))])
    made = [functools.partial(int, n) for n in range(120)]
    async with pool():
        assert list(range(120)) == [await subprocify(fn)() for fn in made]
        functions = [subprocify(fn) for fn in made]
        for _ in range(2):
            assert list(range(120)) == [await fn() for fn in functions]
        assert len(sys.path) == await subprocify(lambda: len(sys.path))()


async def test_without_a_pool() -> None:
    """Before and after: the error says what to open."""
    with pytest.raises(RuntimeError, match=r"^where runs in .*subprocess_pool_scope\(\)"):
        await where()
    async with pool():
        pass
    with pytest.raises(RuntimeError, match="subprocess_pool_scope"):
        await where()


async def test_the_inner_scope_serves() -> None:
    """And the outer one again, when it is left."""
    async with pool():
        outer = await where()
        async with pool():
            assert outer != await where()
        assert outer == await where()


@pytest.mark.parametrize("thing", [3, None, "len"])
def test_no_function(thing: Any) -> None:
    with pytest.raises(TypeError, match="takes a function"):
        subprocify(thing)


def test_an_async_function() -> None:
    """It could not await anything there; a function that runs one by itself may be called."""

    async def tasklet(x: int) -> int:
        return x

    for fn in (tasklet, functools.partial(tasklet, 1), where):
        with pytest.raises(TypeError, match="is an async function"):
            subprocify(fn)

    @functools.wraps(tasklet)
    def by_itself(x: int) -> int:
        return trio.run(tasklet, x)

    assert "tasklet" in subprocify(by_itself).__qualname__


@pytest.mark.parametrize(
    "arguments",
    [
        {"idle_timeout": 0},
        {"idle_timeout": -1.0},
        {"idle_timeout": float("nan")},
        {"grace": -1.0},
        {"grace": float("inf")},
        {"limit": 0},
    ],
)
async def test_scopes_that_make_no_sense(arguments: dict[str, Any]) -> None:
    """The message names the argument."""
    with pytest.raises(ValueError, match=next(iter(arguments))):
        async with pool(**arguments):
            pass
