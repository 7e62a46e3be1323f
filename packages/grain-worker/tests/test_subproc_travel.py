"""What travels to functions in processes and back: large, arrays, and what cannot."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from grain.subproc import subprocify
from grain.worker.errors import PayloadError
from grain_testkit.pool_scope import pool, where


@subprocify
def same(x: Any) -> Any:
    return x


@pytest.mark.parametrize("size", [0, 1000, 32_000, 33_000, 100_000, 5_000_000])
async def test_sizes(size: int) -> None:
    """In the message, and in a file beside it."""
    async with pool():
        data = os.urandom(size)
        assert data == await same(data)
        assert [data, 1, data[::-1]] == await same([data, 1, data[::-1]])


@pytest.mark.parametrize("size", [10, 1000, 100_000, 2_000_000])
async def test_arrays(size: int) -> None:
    """They can be written to, there and here; those of the caller stay as they are."""
    numpy = pytest.importorskip("numpy")

    @subprocify
    def incremented(arrays: list[Any]) -> list[Any]:
        for array in arrays:
            array += 1
        return arrays

    sent = [numpy.arange(size, dtype="f8"), numpy.zeros((2, size // 2), order="F")]
    async with pool():
        got = await incremented(sent)
    for before, after in zip(sent, got, strict=True):
        assert (before + 1 == after).all()
        after += 1


async def test_open_files_stay_the_same() -> None:
    """What large objects travel in is closed, in both processes."""

    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    there = subprocify(count)
    async with pool():
        data = os.urandom(5_000_000)
        await same(data)
        gc.collect()  # or it closes files of earlier tests meanwhile
        before = await there(), count()
        kept = [await same(data[i:]) for i in range(10)]
        assert before == (await there(), count())
        assert 10 == len(kept)


class Unwanted:
    """Does not travel."""

    def __reduce__(self) -> Any:
        raise TypeError("stays at home")


class UnwantedError(Exception):
    """Nor does this."""

    def __reduce__(self) -> Any:
        raise TypeError("stays at home")


async def test_what_cannot_travel_fails_its_own_call() -> None:
    """Argument, result, exception and function: a PayloadError that names it; no process dies."""

    def bad_result() -> Unwanted:
        return Unwanted()

    def bad_error() -> None:
        raise UnwantedError("the reason")

    unwanted = Unwanted()

    def bad_function() -> Unwanted:
        return unwanted

    async with pool():
        pid = await where()
        with pytest.raises(PayloadError, match=r"argument 0 cannot.*stays at home"):
            await same(Unwanted())
        with pytest.raises(PayloadError, match=r"result of .*bad_result.*stays at home"):
            await subprocify(bad_result)()
        with pytest.raises(PayloadError, match="the reason"):
            await subprocify(bad_error)()
        with pytest.raises(PayloadError, match="bad_function"):
            await subprocify(bad_function)()
        assert pid == await where()
