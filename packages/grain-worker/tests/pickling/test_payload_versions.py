"""Functions and classes by value: bytecode, which another version of Python refuses to load."""

from __future__ import annotations

import functools
import socket
from enum import Enum
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import outcome
import pytest

from grain.edge.version import INTERPRETER
from grain.worker.errors import PayloadError
from grain.worker.messages import Cancel
from grain.worker.payload import Payloads, interpreter_of

OTHER = f"{INTERPRETER[:-2]}99"
"""A version of Python that does not exist; its name is as long as that of ours."""


def from_elsewhere(payload: Any) -> bytes:
    """Return a payload as another version of Python would have made it."""
    made_here = bytes(payload)
    assert INTERPRETER.encode() in made_here
    return made_here.replace(INTERPRETER.encode(), OTHER.encode())


def local_function(x: int = 1) -> Any:
    def add(y: int) -> int:
        return x + y

    return add


def with_a_method() -> type:
    class Point:
        def norm(self) -> float:
            raise AssertionError("foreign bytecode ran")

    return Point


def without_methods() -> type:
    class Marker(Exception):
        """It has no code."""

        level = 3

    return Marker


def test_a_function_by_name_needs_no_interpreter() -> None:
    function = Payloads().dump_function(local_function)

    assert "" == function.interpreter


@pytest.mark.parametrize(
    "fn",
    [
        local_function(),
        lambda: 1,
        functools.partial(local_function(), 1),
        functools.partial(print, local_function()),
        with_a_method()().norm,
    ],
    ids=["closure", "lambda", "partial of one", "argument of a partial", "method"],
)
def test_a_function_by_value_needs_the_interpreter_that_made_it(fn: Any) -> None:
    function = Payloads().dump_function(fn)

    assert INTERPRETER == function.interpreter


@pytest.mark.parametrize(
    ("argument", "needed"),
    [
        pytest.param(1, "", id="number"),
        pytest.param([1, "a", {"b": (2.0, None)}], "", id="plain data"),
        pytest.param(b"a" * 10_000_000, "", id="large bytes"),
        pytest.param(Path("here"), "", id="path"),
        pytest.param(Cancel((1, 1)), "", id="object of a module"),
        pytest.param(local_function, "", id="function of a module"),
        pytest.param(without_methods(), "", id="class without methods"),
        pytest.param(without_methods()("text"), "", id="exception without methods"),
        pytest.param(Enum("Colour", ["RED"]).RED, "", id="enum"),  # type: ignore[attr-defined]
        pytest.param(local_function(), INTERPRETER, id="closure"),
        pytest.param([lambda: 1, b"a" * 10_000_000], INTERPRETER, id="lambda and large bytes"),
        pytest.param(with_a_method(), INTERPRETER, id="class with a method"),
        pytest.param({"p": with_a_method()()}, INTERPRETER, id="object with a method"),
        pytest.param(local_function().__code__, INTERPRETER, id="code"),
    ],
)
def test_arguments_need_an_interpreter_if_they_have_bytecode(argument: Any, needed: str) -> None:
    payloads = Payloads()

    assert needed == interpreter_of(payloads.dump_arguments((argument,), {}))
    assert needed == interpreter_of(payloads.dump_arguments((), {"a": argument}))


def test_what_mentions_a_class_with_bytecode_has_bytecode() -> None:
    """The bundle of a class without methods mentions that of its base."""
    payloads = Payloads()
    base = with_a_method()
    payloads.dump_arguments((base,), {})
    child = type("Child", (base,), {"__module__": "__main__"})

    assert INTERPRETER == interpreter_of(payloads.dump_arguments((child,), {}))


def test_a_path_goes_by_the_name_that_it_has_in_all_versions() -> None:
    """In Python 3.13 its class says that it is in `pathlib._local`."""
    paths = (Path("a/b"), PurePosixPath("c"), PureWindowsPath("d"))
    arguments = Payloads().dump_arguments((list(paths),), {})

    assert isinstance(arguments, bytes)
    assert b"_local" not in arguments
    assert list(paths) == Payloads().load_arguments(arguments)[0][0]


def test_a_function_of_another_version_is_refused_with_versions_hosts_and_a_remedy() -> None:
    function = Payloads().dump_function(local_function())

    with pytest.raises(PayloadError) as refused:
        Payloads("worker n17").load_function(from_elsewhere(function.payload))

    assert (
        "the function of this task cannot be loaded here (worker n17): it has functions or classes "
        f"by value, which are bytecode of {OTHER}, made on host {socket.gethostname()}; this is "
        f"{INTERPRETER} on host {socket.gethostname()}. Use the same Python on both; or put these "
        "functions, undecorated, and classes into a module that both can import, as then they "
        "travel by name"
    ) == str(refused.value)


@pytest.mark.parametrize(
    "argument",
    [local_function(), with_a_method()(), [with_a_method()], local_function().__code__],
    ids=["function", "object", "class", "code"],
)
def test_arguments_of_another_version_are_refused(argument: Any) -> None:
    arguments = from_elsewhere(Payloads().dump_arguments((argument,), {}))

    with pytest.raises(PayloadError, match=f"bytecode of {OTHER}"):
        Payloads().load_arguments(arguments)


def test_a_result_of_another_version_is_refused() -> None:
    ended = from_elsewhere(Payloads().dump_outcome(outcome.Value(local_function())))

    with pytest.raises(PayloadError, match=f"the result .*bytecode of {OTHER}"):
        Payloads("mission opt").load_outcome(ended).unwrap()


def test_an_exception_of_another_version_is_refused_with_its_text() -> None:
    class Trouble(Exception):
        def __str__(self) -> str:
            return "no licence is left"

    ended = from_elsewhere(Payloads().dump_outcome(outcome.Error(Trouble())))

    with pytest.raises(PayloadError, match=f"(?s)no licence is left.*bytecode of {OTHER}"):
        Payloads("mission opt").load_outcome(ended).unwrap()


def test_an_object_that_returns_from_another_version_has_its_own_class() -> None:
    """Its class is known here, and not loaded: so the bytecode in the bundle does not matter."""
    payloads = Payloads()
    point = with_a_method()()
    sent = payloads.dump_arguments((point,), {})

    [returned] = payloads.load_arguments(from_elsewhere(sent))[0]

    assert type(point) is type(returned)
