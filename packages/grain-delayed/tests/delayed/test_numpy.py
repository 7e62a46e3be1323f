"""NumPy's functions and ufuncs take delayed objects."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from grain.delayed import Delayed, delayed, delayedval, mission

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 7.0])


def same(expected: Any, actual: Any) -> bool:
    return type(expected) is type(actual) and np.array_equal(expected, actual)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a**b,
        lambda a, b: a @ b,
        lambda a, b: a < b,
        np.add,
        np.hypot,
        np.dot,
        np.maximum,
        lambda a, b: np.add.outer(a, b),
        lambda a, b: np.where(a > 1, a, b),
        lambda a, b: np.concatenate([a, b]),
        lambda a, b: np.stack([a, b], axis=1),
        lambda a, b: np.vstack((a, b)),
        lambda a, b: np.einsum("i,i", a, b),
    ],
)
async def test_an_array_and_a_delayed_array_combine_in_either_order(
    function: Callable[[Any, Any], Any],
) -> None:
    expected = function(A, B)

    assert same(expected, await function(delayedval(A), B))
    assert same(expected, await function(A, delayedval(B)))
    assert same(expected, await function(delayedval(A), delayedval(B)))


@pytest.mark.parametrize(
    "function",
    [
        np.sin,
        np.mean,
        np.sum,
        np.sort,
        np.add.reduce,
        np.linalg.norm,
        lambda a: np.std(a, ddof=1),
        lambda a: a.size,
        lambda a: a.max(),
        lambda a: a[a > 1],
        lambda a: a[[0, 2]],
        lambda a: np.float64(3) * a,
        lambda a: 2 - a,
        lambda a: np.reshape(a, (3, 1)).T,
    ],
)
async def test_reductions_functions_masks_and_indices_work_on_a_delayed_array(
    function: Callable[[Any], Any],
) -> None:
    assert same(function(A), await function(delayedval(A)))


async def test_concatenating_the_results_of_tasks() -> None:
    """A list of results goes into np.concatenate as it is."""

    @delayed
    async def block(i: int) -> Any:
        return np.full(2, i)

    async with mission(config_file=False):
        blocks: Any = [block(i) for i in range(3)]
        joined: Any = np.concatenate(blocks)
        assert [0, 0, 1, 1, 2, 2] == list(await joined)


async def test_the_edge_case_of_item_assignment() -> None:
    """An array cannot hold delayed items; with delayedval around it, the same line works."""

    @delayed(nout=2)
    async def afn() -> Any:
        return np.array([10, 20])

    async with mission(config_file=False):
        r_: Any = afn()
        a: Any = np.arange(3)
        with pytest.raises(ValueError, match=r"cannot be stored in a NumPy array.*delayedval"):
            a[[0, 1]] += r_
        assert [0, 1, 2] == list(a)

        a = delayedval(np.arange(3))
        a[[0, 1]] += r_
        assert [10, 21, 2] == list(await a)


async def test_in_place_on_an_array() -> None:
    """`a += r_` with an array `a` gives a delayed sum; the array itself is not changed."""
    before = A.copy()
    a: Any = before

    a += delayedval(B)

    assert isinstance(a, Delayed)
    assert same(A + B, await a)
    assert same(A, before)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", lambda r_, a: np.add(r_, 1, out=a)),
        ("add", lambda r_, _: np.add(r_, 1, out=r_)),
        ("add", lambda r_, a: np.add.at(a, [0], r_)),
        ("add", lambda r_, a: np.add.reduce(r_, out=a)),
        ("sum", lambda r_, a: np.sum(r_, out=a)),
        ("copyto", lambda r_, a: np.copyto(a, r_)),
        ("put", lambda r_, a: np.put(a, [0], r_)),
        ("fill_diagonal", lambda r_, _: np.fill_diagonal(r_, 1)),
    ],
)
async def test_writing_into_an_array_is_refused(
    name: str, function: Callable[[Any, Any], Any]
) -> None:
    """A call that would write into an array is an error, not a silent loss without an await."""
    with pytest.raises(TypeError, match=rf"np\.{name} cannot write a delayed result"):
        function(delayedval(A), np.zeros(3))


@pytest.mark.parametrize("length", [None, 3])
async def test_conversion_to_an_array_is_refused(length: int | None) -> None:
    """An array of delayed objects is refused, instead of being made of objects."""
    value: Any = delayedval(A, length=length)

    makers: list[Callable[[Any], Any]] = [np.array, np.asarray, lambda x: np.array([x, x])]
    for make in makers:
        with pytest.raises(ValueError, match="cannot be stored in a NumPy array"):
            make(value)


async def test_a_warning_of_numpy_comes_with_the_await() -> None:
    """NumPy computes when the result is awaited, so it also warns then."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = np.log(delayedval(np.array([0.0])))
        with pytest.raises(RuntimeWarning, match="divide by zero"):
            await value
