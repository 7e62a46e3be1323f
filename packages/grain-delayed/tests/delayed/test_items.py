"""Indexing, slicing, unpacking, and assigning items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.delayed import Delayed, delayed, delayedval, each, mission

if TYPE_CHECKING:
    from collections.abc import Callable


@delayed(nout=2)
async def pair() -> list[int]:
    return [3, 4]


@delayed(nout=2, copy_on_setitem=False)
async def shared_pair() -> list[int]:
    return [3, 4]


async def test_any_index_works_without_nout() -> None:
    value: Delayed[Any] = delayedval({"k": [1, 2, 3]})

    assert 3 == await value["k"][-1]
    assert [1, 2] == await value["k"][:2]
    assert 2 == await value[delayedval("k")][delayedval(1)]


async def test_an_item_that_is_missing() -> None:
    """Without nout, an index out of range is found out when the value is there."""
    value = delayedval([1])[5]

    with pytest.raises(IndexError, match="list index out of range"):
        await value


async def test_with_nout_a_result_is_unpacked_before_it_is_there() -> None:
    async with mission(config_file=False):
        a, b = result = pair()
        (last,) = result[1:]

        assert 2 == len(result)
        assert [3, 4] == [await item for item in result]
        assert [4, 3] == [await item for item in reversed(result)]
        assert (3, 4, 4) == (await a, await b, await last)


@pytest.mark.parametrize("index", [2, -3])
async def test_an_index_beyond_nout(index: int) -> None:
    """With nout, an index out of range is an error at once."""
    value = delayedval([3, 4], length=2)

    with pytest.raises(IndexError, match=f"index {index} of a delayed object with 2 items"):
        value[index]


async def test_a_slice_has_the_length_of_its_part() -> None:
    """Slices of a value of known length can be unpacked, with strides and negative bounds too."""
    value = delayedval([0, 1, 2, 3, 4], length=5)

    assert [5, 2, 0, 3, 2] == [
        len(part) for part in (value[:], value[-2:], value[9:], value[::2], value[3:0:-2])
    ]


async def test_iteration_without_nout() -> None:
    """Without nout, unpacking says how to make it possible."""
    value = delayedval([1, 2])

    with pytest.raises(TypeError, match=r"declare it with @delayed\(nout=\.\.\.\), or await"):
        list(value)
    with pytest.raises(TypeError, match=r"length .* is not known yet.*@delayed\(nout=\.\.\.\)"):
        len(value)


@pytest.mark.parametrize(("make", "before"), [(pair, 4), (shared_pair, 9)])
async def test_what_was_unpacked_before_an_assignment_shows_it_only_without_a_copy(
    make: Callable[[], Delayed[Any]], before: int
) -> None:
    """With copy_on_setitem=False; by default it is not affected."""
    async with mission(config_file=False):
        r_ = make()
        a_, b_ = r_

        r_[1] = 9

        assert await (r_ == [3, 9])
        assert await (a_ == 3)
        assert await (b_ == before)


async def test_two_names_of_one_object_see_the_assignment() -> None:
    """An assignment changes the delayed object, under whatever name."""
    a = delayedval([1, 2])
    b = a

    a[0] = 5

    assert ([5, 2], [5, 2]) == (await a, await b)


async def test_the_wrapped_value_is_left_alone_by_default() -> None:
    """Assigning an item does not change the value given to delayedval, unless asked to."""
    copied, changed = [1], [1]
    a, b = delayedval(copied), delayedval(changed, copy_on_setitem=False)

    a[0] = b[0] = 2

    assert ([2], [2]) == (await a, await b)
    assert ([1], [2]) == (copied, changed)


async def test_assignment_of_delayed_keys_and_values() -> None:
    """Key and value may be delayed; `a[k] += v` too."""
    a: Delayed[Any] = delayedval([1, 2, 3])

    a[delayedval(0)] = delayedval(7)
    a[1:] = [delayedval(8)]
    a[1] += delayedval(1)

    assert [7, 9] == await a


async def test_an_assignment_that_fails() -> None:
    """An assignment that the value does not support is an error where the object is awaited."""
    a: Delayed[Any] = delayedval((1, 2))
    a[0] = 5

    with pytest.raises(TypeError, match="does not support item assignment"):
        await a


async def test_derived_objects_copy_like_their_origin() -> None:
    """copy_on_setitem is handed down to what is derived from a delayed object."""
    inner = [1, 2]
    first = delayedval([inner], copy_on_setitem=False)[0]

    first[0] = 9

    assert [9, 2] == await first
    assert [9, 2] == inner


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.integers(0, 9)),
        max_size=12,
    )
)
def test_assignments_have_value_semantics(steps: list[tuple[int, int, int, int]]) -> None:
    """With copies, any sequence of assignments between lists is as with immutable values."""
    import trio

    delayeds: list[Delayed[Any]] = [delayedval([i, 10 + i], length=2) for i in range(3)]
    model = [[i, 10 + i] for i in range(3)]
    taken: list[Delayed[Any]] = []
    expected: list[Any] = []
    for target, source, index, value in steps:
        taken += [delayeds[source][index], delayeds[source][:]]
        expected += [model[source][index], list(model[source])]
        delayeds[target][index] = delayeds[source][1 - index] + value
        model[target] = list(model[target])
        model[target][index] = model[source][1 - index] + value

    assert model + expected == trio.run(each, delayeds, taken)
