"""`delayed`: what it takes, and binding resources by `@`."""

from __future__ import annotations

import functools
from typing import Any
from unittest.mock import MagicMock

import dill
import pytest
import trio

from grain import GVAR
from grain.delayed import DelayedFn, delayed, delayedval, each, mission
from grain.resource import ZERO, Cores, Memory


@delayed
async def where() -> str:
    await trio.lowlevel.checkpoint()
    return repr(GVAR.res)


async def test_with_and_without_arguments() -> None:
    """It decorates with arguments or without, or wraps a function directly."""

    async def fn(x: int) -> list[int]:
        return [x, x]

    async with mission(config_file=False):
        assert [1, 1] == await delayed(fn)(1)
        assert [1, 1] == await delayed()(fn)(1)
        assert 2 == len(delayed(nout=2)(fn)(1))
        assert 2 == len(delayed(fn, 2)(1))
        assert 2 == len(delayed(fn, nout=2)(1))


async def test_binding_leaves_the_function_untouched() -> None:
    """`fn @ res` is another delayed function; `fn` still asks for what it asked for."""
    bound = where @ Cores(1)
    more = bound @ Memory(1)

    assert where.res is ZERO
    assert Cores(1).ask() == bound.res.ask()
    async with mission(Cores([4]) & Memory(2), config_file=False):
        results = await each(more(), bound(), where())
    assert ["CPU_Cores([4]) & Memory(1GB)", "CPU_Cores([4])", "Ø"] == results


async def test_two_bindings_never_mix() -> None:
    """Interleaved calls of two bindings of one function get what each asks for."""
    one, two = where @ Cores(1), where @ Cores(2)

    async with mission(Cores(2), config_file=False):
        results = await each(fn() for _ in range(5) for fn in (one, two))

    assert [1, 2] * 5 == [len(r.split("[")[1].replace("-", ",").split(",")) for r in results]


async def test_options_stay_when_bound() -> None:
    """nout and copy_on_setitem hold for a bound function as well."""

    @delayed(nout=2, copy_on_setitem=False)
    async def pair() -> list[int]:
        return [1, 2]

    async with mission(Cores(1), config_file=False):
        a, b = result = (pair @ Cores(1))()
        result[0] = 7

        assert [7, 2] == await result
        assert (7, 2) == (await a, await b)


@pytest.mark.parametrize("wrong", [4, "4", Cores, None])
def test_binding_what_is_no_resource(wrong: Any) -> None:
    """After @ comes a resource; the error shows how."""
    with pytest.raises(TypeError, match=r"cannot bind .* to where: .*where @ Cores\(4\)"):
        where @ wrong


def test_binding_a_kind_twice() -> None:
    """Two requests of one kind contradict each other."""
    with pytest.raises(ValueError, match="Cores"):
        where @ Cores(1) @ Cores(2)


async def test_binding_zero_resources_makes_a_branch() -> None:
    async with mission(config_file=False):
        assert "Ø" == await (where @ ZERO)()


async def test_a_delayed_method_binds_to_its_instance() -> None:
    class Sum:
        def __init__(self, start: int) -> None:
            self.start = start

        @delayed
        async def plus(self, x: int) -> int:
            return self.start + x

        @staticmethod
        @delayed
        async def double(x: int) -> int:
            return 2 * x

    async with mission(Cores(1), config_file=False):
        assert 3 == await Sum(1).plus(2)
        assert 3 == await (Sum(1).plus @ Cores(1))(2)
        assert 7 == await Sum.plus(Sum(3), 4)
        assert 4 == await Sum.double(2)
        assert isinstance(Sum.plus, DelayedFn)


async def test_other_async_callables() -> None:
    """Partials, bound methods, objects with an async __call__ and wrapped functions are taken."""

    class Adder:
        async def __call__(self, x: int) -> int:
            return x + 1

        async def method(self, x: int) -> int:
            return x + 2

    async def add(x: int, y: int) -> int:
        return x + y

    @functools.wraps(add)
    def wrapped(x: int, y: int) -> Any:
        return add(x, y)

    async with mission(config_file=False):
        assert 2 == await delayed(Adder())(1)
        assert 3 == await delayed(Adder().method)(1)
        assert 4 == await delayed(functools.partial(functools.partial(add, 1), y=3))()
        assert 5 == await delayed(wrapped)(2, 3)


def sync(x: int) -> int:
    return x


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


class Plain:
    pass


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (sync, "sync"),
        (generator, "generator"),
        (async_generator, "async_generator"),
        (Plain, "Plain"),
        (functools.partial(sync, 1), "sync"),
        (len, "len"),
        (3, "3"),
        (delayedval(3), "<Delayed: 3>"),
        (MagicMock(), "<MagicMock id=.*>"),
    ],
)
def test_a_function_that_is_not_async_is_refused_by_name_with_a_remedy(
    wrong: Any, name: str
) -> None:
    with pytest.raises(TypeError, match=f"^{name} is not an async function: .*`async def`"):
        delayed(wrong)
    with pytest.raises(TypeError, match=f"^{name} is not an async function"):
        delayed(nout=2)(wrong)


def test_a_delayed_function_is_not_wrapped_again() -> None:
    with pytest.raises(TypeError, match="where is a delayed function already"):
        delayed(where)


@pytest.mark.parametrize("nout", [-1, 1.0, "2", True])
def test_nout_must_be_a_number_of_items(nout: Any) -> None:
    with pytest.raises(TypeError, match="number of items is an int, not negative"):
        delayed(nout=nout)


def test_wrong_cache_hfn() -> None:
    """cache_hfn is a function."""
    with pytest.raises(TypeError, match="cache_hfn='key': give a function of the call's arguments"):
        delayed(cache_hfn="key")  # type: ignore[call-overload]


@pytest.mark.parametrize("nest", [lambda x: x, lambda x: [x], lambda x: (1, [x]), lambda x: {x}])
async def test_a_delayed_argument_is_refused(nest: Any) -> None:
    """A delayed object is not an argument of a delayed function, also not inside a container."""
    text = "a delayed object was passed to .*echo: await it first and pass the value"

    @delayed
    async def echo(*args: Any, **kwargs: Any) -> None: ...

    async with mission(Cores(1), config_file=False):
        for fn in (echo, echo @ Cores(1)):
            with pytest.raises(TypeError, match=text):
                fn(1, nest(delayedval(1)))
            with pytest.raises(TypeError, match=text):
                fn(x=nest(delayedval(1)))
            with pytest.raises(TypeError, match=text):
                fn({"key": [delayedval(1)]})
            with pytest.raises(TypeError, match=text):
                fn({delayedval(1): 1})


async def test_arguments_that_do_not_fit_are_a_failure_of_the_task() -> None:
    async with mission(config_file=False):
        with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
            await where(y=1)  # type: ignore[call-arg]


def test_what_it_shows() -> None:
    """The repr names function and resources; the wrapped function is at hand."""
    assert "<DelayedFn where>" == repr(where)
    assert "<DelayedFn where @ (Cores(2))>" == repr(where @ Cores(2))
    assert "where" == where.__name__
    assert where.fn is where.__wrapped__


def test_it_travels_as_the_plain_function() -> None:
    """Serialised, it becomes a callable of its function: a worker needs no frontend."""

    async def plain() -> int:
        return 3

    there = dill.loads(dill.dumps(delayed(plain), recurse=True))

    assert not isinstance(there, DelayedFn)
    assert 3 == trio.run(there)
    with pytest.raises(
        RuntimeError, match=r"plain was given resources in a leaf.* Call it in a branch"
    ):
        there @ Cores(1)


async def append(to: list[str], name: str, failures: list[int]) -> None:
    to.append(name)
    if failures:
        failures.pop()
        raise OSError(name)
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("retries", [0, 1])
async def test_calls_of_larger_urgency_start_first(retries: int) -> None:
    """Also those that are tried again."""
    order: list[str] = []
    fn = delayed(append, retries=retries, retry_wait=0) @ Cores(1)
    async with mission(Cores(1), config_file=False):
        calls = [
            fn(order, "first", []),  # it starts at once
            fn(order, "plain", []),
            fn.with_urgency(-1)(order, "last", []),
            fn.with_urgency(60)(order, "urgent", []),
            fn.with_urgency(3600.5)(order, "most", []),
        ]
        await each(calls)

    assert order == ["most", "urgent", "first", "plain", "last"] or (
        order == ["first", "most", "urgent", "plain", "last"]
    )


async def test_binding_keeps_the_urgency_and_methods_have_it() -> None:
    assert 5.0 == (delayed(append).with_urgency(5) @ Cores(1)).urgency
    assert 5.0 == ((delayed(append) @ Cores(1)).with_urgency(5) @ Memory(1)).urgency

    class Steps:
        @delayed
        async def step(self) -> int:
            return 1

    assert 7.0 == Steps().step.with_urgency(7).urgency
    async with mission(Cores(1), config_file=False):
        assert 1 == await (Steps().step @ Cores(1)).with_urgency(7)()


@pytest.mark.parametrize("urgency", ["soon", True, None])
def test_an_urgency_of_another_type_is_refused(urgency: Any) -> None:
    with pytest.raises(TypeError, match=r"with_urgency\(.*\): give a number"):
        where.with_urgency(urgency)


@pytest.mark.parametrize("urgency", [float("nan"), float("-inf")])
def test_an_urgency_that_is_not_finite_is_refused(urgency: float) -> None:
    with pytest.raises(ValueError, match="give a finite number"):
        where.with_urgency(urgency)
