"""A check for authors of kinds: whether a kind keeps the laws that the scheduler relies on."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from grain.resource.errors import ResourceError
from grain.resource.kinds import from_data, to_data
from grain.resource.programs.variables import variables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from grain.resource.base import Resource


def check_kind(
    make_supply: Callable[[], Resource],
    make_request: Callable[[random.Random], Resource],
    *,
    identities: Callable[[Resource], Iterable[Hashable]] = lambda _: (),
    steps: int = 500,
    seed: int = 0,
) -> None:
    """Allocate and give back at random, and check the laws of docs/resources.md at each step.

    Args:
        make_supply: returns the supply, which must not change by itself, as a countdown does.
        make_request: returns a request made from random numbers; let some of them be too large.
        identities: returns the named things that an allocation holds (as ``lambda res: res.c``), if
            the kind has any; no two allocations may hold one of them at a time.
        steps: the number of times to allocate or give back.
        seed: the seed of the random numbers.

    Raises:
        AssertionError: a law is broken; the message says which one.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    supply = make_supply()
    start = to_data(supply)
    held: list[tuple[Resource, dict[str, object]]] = []
    answers: dict[tuple[Hashable, str], bool] = {}
    _check_data(supply)
    for _ in range(steps):
        if held and rng.random() < 0.45:
            supply.dealloc(held.pop(rng.randrange(len(held)))[0])
            assert held or to_data(supply) == start, (
                f"all was given back, but the supply is {supply!r}"
            )
            continue
        request = make_request(rng)
        _check_data(request)
        asked, before = to_data(request), to_data(supply)
        yes = supply.request(request)
        level = tuple(part._level() for part in supply.parts().values())
        same = answers.setdefault((level, json.dumps(asked, sort_keys=True)), yes)
        assert same == yes, f"supplies of equal _level answer {request!r} differently"
        try:
            got = supply.alloc(request)
        except ResourceError:
            assert not yes, f"_request says yes to {request!r}, but it cannot be allocated"
            assert to_data(supply) == before, f"refusing {request!r} changed the supply"
        else:
            assert yes, f"_request says no to {request!r}, but it was allocated"
            held.append((got, to_data(got)))
            _check_data(got)
            _check_variables(got)
            _check_apart([set(identities(res)) for res, _ in held])
            supply.dealloc(got)
            assert to_data(supply) == before, f"giving back {got!r} does not restore the supply"
            assert supply.request(got), f"the allocation {got!r} is not a request that could be met"
            got = supply.alloc(request)
            held[-1] = (got, to_data(got))
        assert to_data(request) == asked, f"allocating changed the request {request!r}"
        _check_stat(supply)
        for res, data in held:
            assert to_data(res) == data, f"the allocation {res!r} changed while it was held"


def _check_data(resource: Resource) -> None:
    again = from_data(json.loads(json.dumps(to_data(resource))))
    assert again == resource, f"{resource!r} becomes {again!r} through plain data"
    assert hash(again) == hash(resource), f"{resource!r} hashes differently through plain data"
    assert isinstance(repr(resource), str)


def _check_variables(allocation: Resource) -> None:
    before = to_data(allocation)
    variables = variables_of(allocation, {})
    assert variables_of(allocation, {}) == variables, f"_variables of {allocation!r} vary"
    assert to_data(allocation) == before, f"_variables of {allocation!r} change it"


def _check_apart(holdings: list[set[Hashable]]) -> None:
    distinct: set[Hashable] = set().union(*holdings)
    assert len(distinct) == sum(map(len, holdings)), f"handed out twice, in {holdings!r}"


def _check_stat(supply: Resource) -> None:
    for kind, (p, q) in supply.stat().items():
        assert isinstance(p, int), f"_stat of {kind} gives {p!r}, which is not an int"
        assert isinstance(q, int), f"_stat of {kind} gives {q!r}, which is not an int"
        assert 0 <= p <= q, f"_stat of {kind} gives {p}/{q}"
