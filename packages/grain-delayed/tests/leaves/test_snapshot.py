"""Copies of calls: they do not change, and large arrays that are equal are kept once."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from grain.delayed import delayed, each, mission
from grain.delayed.leaves.snapshot import Snapshot, Snapshots
from grain.resource import Cores
from grain.worker import Call

if TYPE_CHECKING:
    from pathlib import Path


async def f(*args: Any, **kwargs: Any) -> None: ...


def large(value: float = 1.0) -> Any:
    return np.full(10_000, value)


def taken(makes: Snapshots, *args: Any, **kwargs: Any) -> Snapshot:
    snapshot = makes.snapshot(Call(f, args, kwargs))
    assert snapshot is not None
    return snapshot


def test_equal_arrays_of_several_calls_are_copied_once() -> None:
    """The copy is found at any depth of the arguments, and forgotten with the last call."""
    makes, array = Snapshots(), large()
    snapshots = [taken(makes, array, i) for i in range(3)]
    deep = taken(makes, deep=[{"in": (large(),)}])

    arrays = [kept for snapshot in (*snapshots, deep) for kept in snapshot.arrays]
    assert (4, 1) == (len(arrays), len({id(kept) for kept in arrays}))
    array[:] = 2.0
    assert (snapshots[0].call().args[0] == 1.0).all()
    assert (deep.call().kwargs["deep"][0]["in"][0] == 1.0).all()
    assert (taken(makes, array).call().args[0] == 2.0).all()
    del snapshots, arrays, deep
    gc.collect()
    assert not len(makes._arrays)


def test_identity_within_a_call_is_preserved() -> None:
    """Identical arguments stay identical; equal ones do not become identical."""
    one, other = large(), large()
    call = taken(Snapshots(), one, other, [one]).call()

    assert call.args[0] is call.args[2][0]
    assert call.args[0] is not call.args[1]


def test_as_they_lie_in_memory() -> None:
    """Arrays that are equal, but not in memory, are two."""
    makes = Snapshots()
    rows, columns = np.ones((100, 100)), np.asfortranarray(np.ones((100, 100)))
    calls = [taken(makes, array).call() for array in (rows, columns)]

    assert [rows.strides, columns.strides] == [call.args[0].strides for call in calls]


def test_what_is_in_itself() -> None:
    """Does not make it run without end."""
    items: list[Any] = [large()]
    items.append(items)

    (copied,) = taken(Snapshots(), items).call().args

    assert copied[1] is copied


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CACHE", raising=False)


@pytest.mark.parametrize("retries", [0, 1])
async def test_no_task_sees_what_another_did(retries: int) -> None:
    """They run with copies of their own, and so does each attempt."""
    failed: set[int] = set()

    async def fill(array: Any, i: int) -> float:
        before = float(array.sum())
        array[:] = i
        if retries and i not in failed:
            failed.add(i)
            raise OSError
        return before

    leaf = delayed(fill, cache_hfn="args", retries=retries, retry_wait=0) @ Cores(1)
    async with mission(Cores(1), config_file=False, progress=False):
        array = large()
        tasks = [leaf(array, i) for i in range(5)]
        array[:] = 7
        assert [10_000.0] * 5 == await each(tasks)


async def test_names_and_mistakes_are_those_of_the_function() -> None:
    def plain(array: Any) -> None: ...

    wrong: Any = plain

    async with mission(Cores(1), config_file=False, progress=False):
        with pytest.raises(TypeError, match="plain is not an async function"):
            await (delayed(wrong, cache_hfn="args") @ Cores(1))(large())


async def test_a_cached_call_may_have_functions_and_objects_of_local_classes() -> None:
    class Local:
        def __init__(self, value: int) -> None:
            self.value = value

    async def apply(fn: Any, item: Local) -> tuple[int, bool]:
        return fn(item.value), type(item) is Local

    leaf = delayed(apply, cache_hfn="args") @ Cores(1)
    async with mission(Cores(1), config_file=False, progress=False):
        item = Local(3)
        task = leaf(lambda x: x + 1, item)
        item.value = 7
        assert (4, True) == await task


async def test_a_leaf_that_waits_does_not_hold_the_arguments_of_its_call() -> None:
    """It has the copy, and a caller who lets go of a large array has its memory back."""

    async def total(array: Any) -> float:
        return float(array.sum())

    leaf = delayed(total, cache_hfn="args") @ Cores(1)
    async with mission(Cores(1), config_file=False, progress=False):
        array = large()
        given = weakref.ref(array)
        task = leaf(array)
        del array
        assert given() is None
        assert await task == 10_000.0
