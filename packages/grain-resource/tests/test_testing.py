"""`check_kind` passes what keeps the laws, and names the law that a kind breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grain.resource import (
    Capacity,
    Cores,
    Host,
    Insufficient,
    Memory,
    Resource,
    Token,
    resource_kind,
)
from grain.resource.testing import check_kind
from grain_testkit.seats import Seats

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from typing_extensions import Self


def _cores(rng: random.Random) -> Resource:
    return Cores(rng.randrange(7))


def _host(rng: random.Random) -> Resource:
    names = rng.sample("abc", rng.randint(1, 3))
    return Host(names) if rng.random() < 0.5 else Host(exclude=names)


@pytest.mark.parametrize(
    ("make_supply", "make_request", "identities"),
    [
        (lambda: Cores(5), _cores, lambda res: res.c),
        (lambda: Seats(5), lambda rng: Seats(rng.randrange(7)), lambda res: res.names),
        (lambda: Memory(4.1), lambda rng: Memory(5 * rng.random()), lambda _: ()),
        (lambda: Token("a"), lambda rng: Token(rng.choice("ab")), lambda _: ()),
        (lambda: Host("a"), _host, lambda _: ()),
        (lambda: Capacity(3) & Cores(9), _cores, lambda res: res.c),
    ],
)
def test_the_built_in_kinds_and_a_custom_one_keep_the_laws(
    make_supply: Callable[[], Resource],
    make_request: Callable[[random.Random], Resource],
    identities: Callable[[Resource], Iterable[int]],
) -> None:
    check_kind(make_supply, make_request, identities=identities)


def check_broken(cls: type[Resource], law: str) -> None:
    make: Any = cls
    with pytest.raises(AssertionError, match=law):
        check_kind(
            lambda: make(["a", "b", "c", "d"]),
            lambda rng: make(rng.randrange(6)),
            identities=lambda res: res.names,
        )


def test_what_is_handed_out_twice_is_noticed() -> None:
    """A seat that stays in the pool while it is held."""

    @resource_kind("CheckTwice")
    class Twice(Seats):
        def _alloc(self, res: Self) -> Self:
            return type(self)(self.names[: len(res.names)])

        def _dealloc(self, res: Self) -> None:
            pass

    check_broken(Twice, "handed out twice")


def test_a_supply_that_giving_back_does_not_restore_is_noticed() -> None:
    """A pool whose order depends on history is not restored by giving back."""

    @resource_kind("CheckLoses")
    class Loses(Seats):
        def _dealloc(self, res: Self) -> None:
            self.names = self.names + res.names[1:]

    check_broken(Loses, "does not restore|is given back, but")


def test_a_request_that_promises_more_than_alloc_gives_is_noticed() -> None:
    """A kind whose ``_request`` says yes to what ``_alloc`` cannot give."""

    @resource_kind("CheckHopeful")
    class Hopeful(Seats):
        def _request(self, res: Self) -> bool:  # noqa: ARG002
            return True

        def _alloc(self, res: Self) -> Self:
            if len(res.names) > len(self.names):
                raise Insufficient("too few")
            return super()._alloc(res)

    check_broken(Hopeful, "_request says yes")


def test_a_level_that_does_not_tell_a_full_pool_from_an_empty_one_is_noticed() -> None:
    @resource_kind("CheckCoarse")
    class Coarse(Seats):
        def _level(self) -> int:
            return 0

    check_broken(Coarse, "equal _level")


def test_plain_data_that_lack_part_of_the_resource_are_noticed() -> None:
    @resource_kind("CheckForgets")
    class Forgets(Seats):
        def _data(self) -> list[str]:
            return self.names[1:]

    check_broken(Forgets, "through plain data")


def test_a_share_of_more_than_all_is_noticed() -> None:
    @resource_kind("CheckBeyond")
    class Beyond(Seats):
        def _stat(self) -> tuple[int, int]:
            return 5, self._owned

    check_broken(Beyond, "_stat of CheckBeyond gives 5/4")


def test_an_allocation_that_changes_its_request_is_noticed() -> None:
    """A request that the allocation eats up."""

    @resource_kind("CheckEats")
    class Eats(Seats):
        def _alloc(self, res: Self) -> Self:
            taken = super()._alloc(res)
            res.names = taken.names
            return taken

    check_broken(Eats, "changed the request")
