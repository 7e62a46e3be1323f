"""The functions of a worker: one store, and a feed for each runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.worker.agent.functions import FunctionStore
from grain.worker.messages import DefineFunction, ForgetFunctions, StartRun

if TYPE_CHECKING:
    from grain.edge.messages import Payload


def order(number: int, function: bytes) -> tuple[StartRun, Payload]:
    return StartRun((1, number), {}, None, function), b"args"


def store(*digests: bytes) -> FunctionStore:
    functions = FunctionStore()
    for digest in digests:
        functions.define(digest, b"code of " + digest)
    return functions


def test_a_function_is_sent_ahead_of_the_first_run_that_calls_it() -> None:
    feed = store(b"f", b"g").feed()

    orders = [order(1, b"f"), order(2, b"f"), order(3, b"g")]
    f, g = (DefineFunction(b"f"), b"code of f"), (DefineFunction(b"g"), b"code of g")
    assert [f, orders[0], orders[1], g, orders[2]] == list(feed.complete(orders))
    assert [orders[0]] == list(feed.complete([orders[0]]))


def test_every_runner_is_sent_the_functions_that_it_needs() -> None:
    functions = store(b"f")
    for feed in (functions.feed(), functions.feed()):
        assert 2 == len(feed.complete([order(1, b"f")]))


def test_a_forgotten_function_is_sent_again_when_it_is_defined_and_called_again() -> None:
    functions = store(b"f")
    feed = functions.feed()
    feed.complete([order(1, b"f")])
    functions.forget((b"f",))
    functions.define(b"f", b"code of f")

    forget: tuple[ForgetFunctions, Payload] = (ForgetFunctions((b"f",)), None)
    again = order(2, b"f")
    define = (DefineFunction(b"f"), b"code of f")
    assert [forget, define, again] == list(feed.complete([forget, again]))


def test_a_run_of_an_undefined_function_is_passed_on_by_itself() -> None:
    """The runner fails it, and says why."""
    unknown = order(1, b"x")

    assert [unknown] == list(store(b"f").feed().complete([unknown]))


def test_the_oldest_functions_are_forgotten_but_none_that_is_in_use() -> None:
    functions = store(b"a", b"b", b"c", b"d")
    functions.forget_oldest(2, {b"a"})

    assert [b"a", b"d"] == list(functions)
    functions.forget_oldest(2, {b"a"})
    assert [b"a", b"d"] == list(functions)
