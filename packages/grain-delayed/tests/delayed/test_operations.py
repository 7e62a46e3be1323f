"""Operators record, and awaiting gives what Python gives at once."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from grain.delayed import Delayed, delayed, delayedval, mission

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = "add sub mul floordiv mod truediv and_ or_ xor lt le gt ge eq ne"
BINARY = {name: getattr(operator, name) for name in NAMES.split()} | {"divmod": divmod}
UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert} | {
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
}
FUNCTIONS: dict[str, Any] = BINARY | UNARY
expressions: st.SearchStrategy[Any] = st.recursive(
    st.tuples(st.just("task"), st.integers(-3, 3)) | st.tuples(st.just("plain"), st.integers(0, 9)),
    lambda inner: (
        st.tuples(st.sampled_from(sorted(BINARY)), inner, inner)
        | st.tuples(st.sampled_from(sorted(UNARY)), inner)
    ),
    max_leaves=12,
)


def build(expression: Any, task: Callable[[int], Any]) -> Any:
    """The expression over what `task` makes of a number: the number itself, or a delayed one."""
    kind, *parts = expression
    if kind == "task":
        return task(parts[0])
    if kind == "plain":
        return parts[0]
    return FUNCTIONS[kind](*[build(part, task) for part in parts])


@delayed
async def identity(x: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return x


async def evaluated(expression: Any) -> Any:
    async with mission(config_file=False, progress=False):
        value = build(expression, identity)
        return await value if isinstance(value, Delayed) else value


@given(expressions)
def test_any_expression_gives_what_eager_evaluation_gives(expression: Any) -> None:
    """A random expression over tasks has the value, or the error, of the same over numbers."""
    try:
        expected = build(expression, lambda x: x)
    except Exception as error:
        with pytest.raises(type(error)):
            trio.run(evaluated, expression)
        return

    actual = trio.run(evaluated, expression)

    assert (type(expected), repr(expected)) == (type(actual), repr(actual))


def test_operands_are_computed_from_left_to_right() -> None:
    """If two operands fail, the left one's error is raised, as in Python."""
    left = ("floordiv", ("task", 1), ("task", 0))
    right = ("add", ("task", 1), ("divmod", ("task", 1), ("task", 1)))

    with pytest.raises(ZeroDivisionError):
        trio.run(evaluated, ("add", left, right))
    with pytest.raises(TypeError):
        trio.run(evaluated, ("add", right, left))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (operator.pow, (2, 5)),
        (operator.lshift, (3, 2)),
        (operator.rshift, (12, 2)),
        (operator.add, ("a", "b")),
        (operator.add, ([1], [2])),
        (operator.mul, ("ab", 2)),
    ],
)
async def test_both_operand_orders(
    function: Callable[[Any, Any], Any], args: tuple[Any, Any]
) -> None:
    """An operator takes a delayed object on either side, or on both."""
    a, b = args
    expected = function(a, b)

    assert expected == await function(delayedval(a), b)
    assert expected == await function(a, delayedval(b))
    assert expected == await function(delayedval(a), delayedval(b))


async def test_power_with_modulus() -> None:
    """pow() takes its third argument."""
    assert pow(3, 4, 5) == await pow(delayedval(3), 4, 5)
    assert pow(3, 4, 5) == await pow(delayedval(3), delayedval(4), delayedval(5))


async def test_round_to_digits() -> None:
    """round() takes the number of digits."""
    assert 2.35 == await round(delayedval(2.3456), 2)


async def test_in_place_operators_make_another_object() -> None:
    """`a += 1` is treated as `a = a + 1`: what else refers to the object is not affected."""
    a = b = delayedval([1])

    a += [2]

    assert ([1, 2], [1]) == (await a, await b)


async def test_an_error_of_an_operation_comes_with_each_await() -> None:
    broken = delayedval(1) / 0

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await broken


async def test_an_operation_is_computed_once() -> None:
    """However often a result is awaited or used, the operation behind it runs once."""
    calls = []

    def count() -> int:
        calls.append(1)
        return 3

    value = delayedval(count)()

    assert (3, 3, 4) == (await value, await value, await (value + 1))
    assert [1] == calls


async def test_a_long_chain() -> None:
    """A sum over 100,000 results needs no deep stack."""
    total: Any = 0
    for _ in range(100_000):
        total += delayedval(1)

    assert 100_000 == await total


async def test_a_long_chain_is_forgotten_without_a_deep_stack() -> None:
    """A chain that is not awaited can be dropped."""
    total: Any = delayedval(0)
    for _ in range(100_000):
        total = total + 1

    del total


async def test_a_wide_sharing_graph() -> None:
    """A result used twice at each of many levels is computed once, not 2^n times."""
    value: Any = delayedval(1)
    for _ in range(200):
        value = value + value

    assert 2**200 == await value


async def test_delayed_objects_in_containers_are_filled_in() -> None:
    one, two = delayedval(1), delayedval(2)

    assert [0, 1, 2] == await operator.add(delayedval([0]), [one, two])
    assert (0, (1, [2])) == await operator.add(delayedval((0,)), ((one, [two]),))
    assert {"k": 1, 2: 3} == await (delayedval({"k": 0}) | {"k": one, two: 3})
    assert [11, 12] == await delayedval([10, 11, 12])[one:]
    assert [11] == await delayedval([10, 11, 12])[one:two]
