"""Under which key a result is kept: what of a function and its arguments counts."""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from grain.delayed import delayed
from grain.delayed.cache.key import Caching, function_name
from grain.worker import Call
from grain_testkit.kept_calls import CALLS, again, square

pytestmark = pytest.mark.usefixtures("here")


@dataclass
class Molecule:
    name: str
    charge: int = 0

    @delayed(cache_hfn="args")
    async def energy(self, method: str) -> str:
        CALLS.append(self.name)
        return f"{self.name} {method}"


def defined(source: str, **names: Any) -> Any:
    scope: dict[str, Any] = {"CALLS": CALLS, "delayed": delayed, **names}
    exec(source, scope)
    return scope["f"]


async def scan(
    x: int, basis: str | None = None, *more: int, tol: float = 1.0, **flags: bool
) -> None:
    """Has arguments of each kind."""


class Scan:
    async def method(self, x: int, basis: str | None = None, *more: int, tol: float = 1.0) -> None:
        """The same as a method."""

    @classmethod
    async def of_class(cls, x: int, basis: str | None = None, *more: int, tol: float = 1.0) -> None:
        """The same as a class method."""


SCAN = Scan()


@pytest.mark.parametrize(
    "fn",
    [scan, SCAN.method, Scan.of_class, functools.partial(scan), functools.partial(scan, tol=1.0)],
    ids=["function", "method", "class method", "partial", "partial with a default"],
)
def test_a_default_counts_like_its_value_and_each_argument_like_its_name(fn: Any) -> None:
    def key(*args: Any, **kwargs: Any) -> str:
        call = Call(fn, args, kwargs)
        return caching.key(call, caching.shared(call), caching.bound(fn)).name

    caching = Caching("args", "")
    same = [
        key(5), key(5, None), key(5, basis=None), key(x=5), key(basis=None, x=5),
        key(5, tol=1.0), key(5, None, tol=1.0), key(x=5, tol=1.0, basis=None),
    ]  # fmt: skip
    assert 1 == len(set(same))
    others = [
        key(6), key(5, ""), key(5, "None"), key(5, None, 1), key(5, None, None), key(5, tol=2.0),
        key(5, tol=1), key(5, tol=True), key(5.0), key(5, "1.0"),
    ]  # fmt: skip
    assert len(others) + 1 == len({*same, *others})


def test_a_default_that_has_changed_makes_another_key() -> None:
    source = "async def f(x, y={}):\n    return x"
    keys = []
    calls: list[tuple[Any, ...]] = [(5,), (5, None), (5, 1), (5, 1.0), (5, []), (5, ())]
    for default in ("None", "1", "1.0", "[]", "()"):
        fn, caching = defined(source.format(default)), Caching("args", "")
        for args in calls:
            call = Call(fn, args, {})
            keys.append(caching.key(call, caching.shared(call), caching.bound(fn)).name)
    # Five functions, each called with its default in two ways.
    assert 5 * 5 == len(set(keys))


def test_a_default_without_a_digest_is_not_compared() -> None:
    async def waits(x: int, lock: object = threading.Lock()) -> None:
        """Have a default that is nothing on disk."""

    caching = Caching("args", "")
    omitted, passed = (caching.shared(Call(waits, args, {})) for args in ((5,), (5, None)))
    assert omitted != passed


def test_the_key_of_a_call_without_its_defaults_is_what_it_was() -> None:
    """Results that are kept since then are found."""
    call = Call(scan, (5,), {"basis": "sto-3g"})
    shared = Caching("args", "").shared(call)
    assert isinstance(shared, bytes)
    assert "cd61c984470c83d72fe2726301650557de1147e728a940bab16d043d2c0478fd" == shared.hex()


SOURCE = """
@delayed(cache_hfn=str{version})
async def f(x):
    CALLS.append(x)
    return x {more}
"""


def test_the_code_counts() -> None:
    """A function that was edited is run again, and so is one of another version."""
    for source in (
        SOURCE.format(version="", more=""),
        SOURCE.format(version="", more="+ 1"),
        SOURCE.format(version=", cache_version=2", more=""),
    ):
        again(defined(source), (1,))
        again(defined("\n\n" + source), (1,))

    assert [1, 1, 1] == CALLS


def test_functions_made_by_one_function_differ_by_what_they_close_over() -> None:
    def scaled(k: float) -> Any:
        @delayed(cache_hfn=str)
        async def f(x: int) -> float:
            CALLS.append((k, x))
            return k * x

        return f

    assert [2.0] == again(scaled(2.0), (1,))
    assert [3.0] == again(scaled(3.0), (1,))
    assert [2.0] == again(scaled(2.0), (1,))
    assert [(2.0, 1), (3.0, 1)] == CALLS


def test_the_result_of_a_method_depends_on_its_instance_by_content() -> None:
    for _ in range(2):
        for name in ("water", "ethane"):
            assert [f"{name} xtb"] == again(Molecule(name).energy, ("xtb",))

    assert ["water", "ethane"] == CALLS


def test_the_result_of_a_partial_depends_on_its_own_arguments() -> None:
    async def add(a: int, b: int) -> int:
        CALLS.append((a, b))
        return a + b

    for _ in range(2):
        for a in (1, 2):
            assert [a + 10] == again(delayed(functools.partial(add, a), cache_hfn="args"), (10,))

    assert [(1, 10), (2, 10)] == CALLS


class Held:
    """An instance that has no digest."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    @delayed(cache_hfn=str)
    async def get(self, x: int) -> int:
        CALLS.append(x)
        return x


def test_results_of_a_method_without_a_digest_are_not_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """If the object that a function is bound to has no digest, a warning says so."""
    held = Held()
    again(held.get, (1,), (1,), (2,))
    again(held.get, (1,))

    assert [1, 1, 2] == sorted(CALLS)  # within one mission, they are shared
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert 2 == len(warnings)
    assert "results of Held.get are not kept, as self.lock has no stable digest" in warnings[0]


def test_arguments_without_a_digest() -> None:
    """With "args", an argument that has none is an error of the call."""

    @delayed(cache_hfn="args")
    async def f(x: Any) -> None: ...

    with pytest.raises(TypeError, match=r"argument x of .*f\.a has no stable digest: .*Held|lock"):
        again(f, (Held(),))


def test_arguments_that_do_not_fit_are_the_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        again(square, (1, 2, 3))


def test_a_decorated_function_has_the_name_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the decorator's."""
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/home/me/chem.py", raising=False)
    source = """
async def f(x):
    return x
"""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "/home/me/chem.py", "exec"), names)

    @functools.wraps(names["f"])
    async def wrapped(x: int) -> Any:
        return await names["f"](x)

    assert "chem.py:f" == function_name(wrapped)


def test_a_function_of_a_notebook_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same one when something else in its cell has changed."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    functions: list[Any] = []
    for file, more in (("/tmp/ipykernel_1/2.py", ""), ("<ipython-input-3-4>", "x = 5")):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(f"async def f(x):\n    return x\n{more}", file, "exec"), names)
        functions.append(names["f"])

    first, second = (Caching("args", "").key(Call(f, (1,), {}), b"", "") for f in functions)

    assert "__main__:f" == first.function
    assert first == second


def test_what_is_shown_is_one_line() -> None:
    """Keys may have anything in them, as the names of files do."""

    async def f() -> None: ...

    key = Caching(lambda: "", "").key(Call(f, (), {}), "a\nb\x1b[31m\udcff", "")

    assert r"a\nb\x1b[31m\udcff" == key.shown


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cache_hfn": "arguments"}, "cache_hfn='arguments': give a function .* or 'args'"),
        ({"cache_hfn": 3}, "cache_hfn=3"),
        ({"cache_hfn": "args", "cache_version": 1.5}, "a version is a str or an int"),
        ({"cache_version": 1}, "does nothing without cache_hfn"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_where_it_is_given(
    options: dict[str, Any], match: str
) -> None:
    with pytest.raises(TypeError, match=match):
        delayed(**options)
