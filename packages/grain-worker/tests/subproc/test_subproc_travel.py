"""Arguments and results of functions in processes: large, arrays, and not to be pickled."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from grain.subproc import subprocify
from grain.worker.errors import PayloadError
from grain_testkit.pool_scope import pool, process_id


@subprocify
def same(x: Any) -> Any:
    return x


async def test_objects_of_any_size_travel() -> None:
    """Small ones stand in the message, large ones in a file beside it."""
    async with pool():
        for size in (0, 1000, 32_000, 33_000, 100_000, 5_000_000):
            data = os.urandom(size)
            assert data == await same(data)
            assert [data, 1, data[::-1]] == await same([data, 1, data[::-1]])


async def test_arrays_can_be_written_to_on_both_ends() -> None:
    """The caller's arrays stay unchanged."""
    numpy = pytest.importorskip("numpy")

    @subprocify
    def incremented(arrays: list[Any]) -> list[Any]:
        for array in arrays:
            array += 1
        return arrays

    async with pool():
        for size in (10, 1000, 100_000, 2_000_000):
            sent = [numpy.arange(size, dtype="f8"), numpy.zeros((2, size // 2), order="F")]
            got = await incremented(sent)
            for before, after in zip(sent, got, strict=True):
                assert (before + 1 == after).all()
                after += 1


async def test_large_objects_leave_no_files_open() -> None:
    """The files in which they travel are closed in both processes."""

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
    """An object that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("stays at home")


class UnwantedError(Exception):
    """An exception that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("stays at home")


async def test_what_cannot_travel_fails_its_own_call() -> None:
    """A PayloadError names argument, result, exception or function; no process dies."""

    def bad_result() -> Unwanted:
        return Unwanted()

    def bad_error() -> None:
        raise UnwantedError("the reason")

    unwanted = Unwanted()

    def bad_function() -> Unwanted:
        return unwanted

    async with pool():
        pid = await process_id()
        with pytest.raises(PayloadError, match=r"argument 0 cannot.*stays at home"):
            await same(Unwanted())
        with pytest.raises(PayloadError, match=r"result of .*bad_result.*stays at home"):
            await subprocify(bad_result)()
        with pytest.raises(PayloadError, match="the reason"):
            await subprocify(bad_error)()
        with pytest.raises(PayloadError, match="bad_function"):
            await subprocify(bad_function)()
        assert pid == await process_id()
