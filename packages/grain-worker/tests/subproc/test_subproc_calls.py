"""Functions in processes of a pool: calls of all kinds, and which pool serves them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.testing

from grain.subproc import subprocify
from grain.subproc.pool import open_pool
from grain_testkit.pool_scope import pool, process_id

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from pathlib import Path


@subprocify
def scaled(x: float, *, by: float = 2.0) -> float:
    """A docstring."""
    return x * by


async def test_calls_reuse_one_other_process() -> None:
    """Arguments may be positional or named."""
    async with pool():
        assert 6.0 == await scaled(3.0)
        assert 15.0 == await scaled(3.0, by=5.0)
        first = await process_id()
        assert first == await process_id() != os.getpid()


async def test_two_calls_run_at_the_same_time() -> None:
    """One call waits for a byte that the other one writes."""
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


async def test_a_limit_bounds_the_number_of_processes() -> None:
    pids: set[int] = set()

    async def one() -> None:
        pids.add(await process_id())

    async with pool(limit=1), trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(one)
    assert 1 == len(pids)


def test_the_result_has_name_docstring_and_signature_of_the_function() -> None:
    """It is async, unlike the function."""
    assert "scaled" == scaled.__name__
    assert "A docstring." == scaled.__doc__
    assert ["x", "by"] == list(inspect.signature(scaled).parameters)
    assert inspect.iscoroutinefunction(scaled)


async def test_functions_of_modules_closures_and_methods_can_be_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions of modules may be decorated or not."""
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


async def test_more_functions_and_search_path_than_fit_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process keeps 100 functions; a message holds 32 kB."""
    monkeypatch.setattr(sys, "path", [*sys.path, *(f"{tmp_path}/{i}" for i in range(2000))])
    calls = [functools.partial(int, n) for n in range(120)]
    async with pool():
        assert list(range(120)) == [await subprocify(fn)() for fn in calls]
        functions = [subprocify(fn) for fn in calls]
        for _ in range(2):
            assert list(range(120)) == [await fn() for fn in functions]
        assert len(sys.path) == await subprocify(lambda: len(sys.path))()


async def test_a_call_without_a_pool_raises() -> None:
    """The error says what to open, before the first scope and after it."""
    with pytest.raises(RuntimeError, match=r"^process_id runs in .*subprocess_pool_scope\(\)"):
        await process_id()
    async with pool():
        pass
    with pytest.raises(RuntimeError, match="subprocess_pool_scope"):
        await process_id()


async def test_the_innermost_scope_serves() -> None:
    """The outer scope serves again when the inner one is left."""
    async with pool():
        outer = await process_id()
        async with pool():
            assert outer != await process_id()
        assert outer == await process_id()


@pytest.mark.parametrize("thing", [3, None, "len"])
def test_only_functions_are_subprocified(thing: Any) -> None:
    with pytest.raises(TypeError, match="takes a function"):
        subprocify(thing)


def test_async_functions_are_refused() -> None:
    """A synchronous function may still run an async one by a loop of its own."""

    async def tasklet(x: int) -> int:
        return x

    for fn in (tasklet, functools.partial(tasklet, 1), process_id):
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
async def test_the_error_of_a_bad_argument_names_it(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        async with pool(**arguments):
            pass


async def test_an_error_of_the_pool_itself_ends_the_block_and_comes_out() -> None:
    """Here the pool cannot compute with its time-out."""
    with pytest.raises(BaseExceptionGroup) as caught, trio.fail_after(60):
        async with open_pool(cast("float", "a minute"), 1.0, None):
            await trio.sleep_forever()

    assert caught.group_contains(TypeError)
