"""Functions as bytes: a loop that makes one for each call does not fill the memory."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from grain.remote_exer import MissionSession
from grain.remote_exer.functions import FunctionCache
from grain.worker.payload import Function, Payloads

if TYPE_CHECKING:
    from collections.abc import Callable


class Calculator:
    def __init__(self) -> None:
        self.basis = b"x" * 100_000

    async def energy(self) -> int:
        return len(self.basis)


class Slotted:
    __slots__ = ()

    async def __call__(self) -> None: ...


def counted(dumped: list[Any]) -> Callable[[Any], Function]:
    payloads, session = Payloads(), MissionSession("m", "mission")

    def define(fn: Any) -> Function:
        function = payloads.dump_function(fn)
        dumped.append(function)
        return session.define(function)

    return define


@pytest.mark.parametrize("make", [lambda c: c.energy, lambda c: partial(Calculator.energy, c)])
def test_functions_made_for_each_call_are_forgotten_and_equal_bytes_kept_once(
    make: Callable[[Calculator], Any],
) -> None:
    dumped: list[Function] = []
    functions, calculator = FunctionCache(counted(dumped)), Calculator()

    payloads = {id(functions.find(make(calculator)).payload) for _ in range(20)}

    gc.collect()
    assert 20 == len(dumped)
    assert 1 == len(payloads)
    assert not functions._seen


@pytest.mark.parametrize("fn", [Calculator().energy, Slotted()])
def test_a_function_is_dumped_once_even_where_it_cannot_be_weakly_referenced(fn: Any) -> None:
    dumped: list[Function] = []
    functions = FunctionCache(counted(dumped))

    assert 1 == len({id(functions.find(fn)) for _ in range(5)})
    assert 1 == len(dumped)


def test_a_function_with_the_id_of_one_that_is_gone_is_another() -> None:
    dumped: list[Function] = []
    functions = FunctionCache(counted(dumped))
    for i in range(50):
        calculator = Calculator()
        calculator.basis = b"%d" % i
        assert b"%d" % i in functions.find(calculator.energy).payload
    assert 50 == len(dumped)
