"""Methods of objects that change between calls: each result is that of its call."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from grain.delayed import delayed, each, run
from grain.resource import Cores

if TYPE_CHECKING:
    from pathlib import Path

KEYS = pytest.mark.parametrize("key", ["args", str])


@pytest.fixture(params=["here", "travelling"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Options of a mission; where others may join its worker, functions travel as bytes."""
    file = tmp_path / "grain.toml"
    file.write_text(f'address = "edge://{tmp_path}/address"\n')
    travels = request.param == "travelling"
    return {"config_file": str(file) if travels else False, "cache": tmp_path / "cache"}


@dataclass
class Calculator:
    basis: str

    async def __call__(self, x: int) -> str:
        return f"{self.basis}{x}"

    async def energy(self, x: int) -> str:
        return f"{self.basis}{x}"


def in_a_closure(key: Any, wrap: Any, seen: list[str]) -> Any:
    """A mission in which a variable of a closure is assigned to before anything has run."""

    async def main() -> None:
        basis = "a"

        def name(x: int) -> str:
            return f"{basis}{x}"

        async def energy(x: int) -> str:
            return name(x) + basis

        leaf = delayed(wrap(energy), cache_hfn=key) @ Cores(1)
        first_ = leaf(1)
        basis = "b"
        seen.extend(await each(first_, leaf(2)))

    return main


@KEYS
@pytest.mark.parametrize("wrap", [lambda fn: fn, functools.partial])
def test_a_cached_call_goes_with_the_variables_that_its_function_had_at_the_call(
    key: Any, wrap: Any, options: dict[str, Any]
) -> None:
    for _ in range(2):
        seen: list[str] = []
        run(in_a_closure(key, wrap, seen), Cores(2), **options)
        assert ["a1a", "b2b"] == seen


def test_a_closure_with_one_key(options: dict[str, Any]) -> None:
    """By content: a call with the same arguments is another one, and one with both the same."""
    seen: list[str] = []

    async def main() -> None:
        basis = "a"

        async def energy(x: int) -> str:
            return f"{basis}{x}"

        leaf = delayed(energy, cache_hfn="args") @ Cores(1)
        for basis in ("a", "b", "a"):  # noqa: B007 - closed over
            seen.append(await leaf(1))

    run(main, Cores(1), **options)
    assert ["a1", "b1", "a1"] == seen


def test_one_that_assigns(tmp_path: Path) -> None:
    """In this process a function may assign to what it closes over, or one within it."""
    count = 0

    @delayed(cache_hfn="args")
    async def work(x: int) -> int:
        nonlocal count
        count += 1
        return x

    @delayed(cache_hfn="args")
    async def within(x: int) -> int:
        def add() -> None:
            nonlocal count
            count += 10

        add()
        return x

    async def main() -> None:
        await (work @ Cores(1))(1)
        await (within @ Cores(1))(1)

    run(main, Cores(1), config_file=False, cache=tmp_path / "cache")
    assert 11 == count


@pytest.mark.parametrize("cache", [True, False])
def test_with_args_the_state_of_an_instance_is_part_of_the_key(
    options: dict[str, Any], cache: bool
) -> None:
    options |= {} if cache else {"cache": False, "config_file": False}

    async def main() -> None:
        calculator = Calculator("a")
        leaf = delayed(calculator.energy, cache_hfn="args") @ Cores(1)
        assert "a1" == await leaf(1)
        calculator.basis = "b"
        assert "b1" == await leaf(1)

    run(main, Cores(1), **options)


@KEYS
def test_an_object_that_cannot_be_hashed(key: Any, options: dict[str, Any]) -> None:
    """As most dataclasses cannot."""

    async def main() -> None:
        leaf = delayed(Calculator("a"), cache_hfn=key) @ Cores(1)
        assert ["a1", "a1", "a2"] == await each(leaf(1), leaf(1), leaf(2))

    run(main, Cores(1), **options)
