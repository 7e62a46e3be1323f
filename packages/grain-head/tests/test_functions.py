"""Functions as bytes: a loop that makes one for each call does not fill the memory."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from grain.remote_exer.functions import Functions
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
    payloads = Payloads()

    def dump(fn: Any) -> Function:
        function = payloads.dump_function(fn)
        dumped.append(function)
        return function

    return dump


@pytest.mark.parametrize("make", [lambda c: c.energy, lambda c: partial(Calculator.energy, c)])
def test_one_for_each_call(make: Callable[[Calculator], Any]) -> None:
    """They are forgotten with the object, and equal bytes are kept once."""
    dumped: list[Function] = []
    functions, calculator = Functions(counted(dumped)), Calculator()

    found = {id(functions.find(make(calculator)).payload) for _ in range(20)}

    gc.collect()
    assert 20 == len(dumped)
    assert 1 == len(found)
    assert not functions._known


@pytest.mark.parametrize("fn", [Calculator().energy, Slotted()])
def test_one_for_all_calls(fn: Any) -> None:
    """It is made bytes of once, also where nothing can refer to it weakly."""
    dumped: list[Function] = []
    functions = Functions(counted(dumped))

    assert 1 == len({id(functions.find(fn)) for _ in range(5)})
    assert 1 == len(dumped)


def test_another_in_its_place() -> None:
    """What comes to lie where one lay that is gone is none of it."""
    dumped: list[Function] = []
    functions = Functions(counted(dumped))
    for i in range(50):
        calculator = Calculator()
        calculator.basis = b"%d" % i
        assert b"%d" % i in functions.find(calculator.energy).payload
    assert 50 == len(dumped)
