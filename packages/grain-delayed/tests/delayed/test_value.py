"""Delayed objects themselves: what they show, compare and refuse."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import dill
import pytest
import trio

from grain.delayed import Delayed, delayed, delayedval, mission

if TYPE_CHECKING:
    from collections.abc import Callable


@delayed
async def fail() -> None:
    raise ValueError("broken")


async def test_the_repr_shows_pending_value_or_error() -> None:
    @delayed
    async def answer() -> int:
        return 42

    async with mission(config_file=False):
        value, error = answer(), fail()
        total = value + 1
        unknown = "not known yet, await it>"
        assert [f"<Delayed answer: {unknown}", f"<Delayed fail: {unknown}"] == [
            repr(value), repr(error),
        ]  # fmt: skip
        assert f"<Delayed of answer: {unknown}" == repr(total)

        with pytest.raises(ValueError, match="broken"):
            await error
        await total

        assert "<Delayed answer: 42>" == repr(value) == str(value)
        assert "<Delayed: 43>" == repr(total)
        assert "<Delayed fail: raised ValueError('broken')>" == repr(error)


async def test_a_delayed_object_as_a_key_stands_for_itself() -> None:
    one, other = delayedval(1), delayedval(1)

    names = {one: "one", other: "other"}

    assert ["one", "other"] == [names[one], names[other]]
    assert 2 == len({one, other, one})


async def test_comparison_is_an_operation() -> None:
    """`==` and `!=` give delayed objects."""
    one = delayedval(1)

    assert await (one == 1)
    assert await (one == delayedval(1))
    assert not await (one != 1)


def use_as_condition(x: Any) -> None:
    if x:
        pass


def set_attribute(x: Any) -> None:
    x.foo = 1


def delete_attribute(x: Any) -> None:
    del x.foo


def delete_item(x: Any) -> None:
    del x[0]


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "if": (use_as_condition, r"be used as a predicate \(in if, while, and, or, not\)"),
    "not": (lambda x: not x, "be used as a predicate"),
    "and": (lambda x: x and 1, "be used as a predicate"),
    "chained comparison": (lambda x: 0 < x < 2, "be used as a predicate"),
    "in": (lambda x: 1 in x, "be searched for an item"),
    "int": (int, "be made an int"),
    "float": (float, "be made a float"),
    "complex": (complex, "be made a complex"),
    "index": (lambda x: [1][x], "be used as an index or a count"),
    "range": (range, "be used as an index or a count"),
    "del item": (delete_item, "have an item deleted"),
    "del attribute": (delete_attribute, "have an attribute deleted"),
    "setattr": (set_attribute, "be given the attribute 'foo'"),
    "pickle": (pickle.dumps, "be passed to a worker or pickled"),
    "dill": (lambda x: dill.dumps(x), "be passed to a worker or pickled"),
    "copy": (copy.copy, "be passed to a worker or pickled"),
}


@pytest.mark.parametrize(("use", "text"), REFUSED.values(), ids=list(REFUSED))
def test_a_use_that_needs_the_value_now_is_refused_with_a_remedy(
    use: Callable[[Any], object], text: str
) -> None:
    with pytest.raises(TypeError, match=f"a delayed object cannot {text}.*await it"):
        use(delayedval(1))


async def test_awaiting_again_gives_the_same_object() -> None:
    """A value is computed once and handed out as it is."""
    value = delayedval([1])
    doubled = value * 2

    assert await value is await value
    assert await doubled is await doubled


async def test_delayedval_is_a_checkpoint() -> None:
    """Awaiting a value that is there lets other tasks run, and can be cancelled."""
    with trio.move_on_after(0) as scope:
        await delayedval(1)

    assert scope.cancelled_caught


def test_it_is_generic_at_runtime() -> None:
    """Delayed can be subscribed in annotations that are evaluated."""
    assert Delayed[int] is not None
