"""Licences: so many of each sort, without identities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grain.resource import Cores, Fit, Licences, Supply, from_data, from_text, to_data
from grain.resource.testing import check_kind

if TYPE_CHECKING:
    import random


def test_a_task_gets_so_many_licences_and_gives_them_back() -> None:
    supply = Supply(Cores(2) & Licences(3))
    got = supply.alloc(Cores(1) & Licences(2))

    assert (Fit.NOW, Fit.NOT_NOW, Fit.NEVER) == (
        supply.fit(Licences(1)),
        supply.fit(Licences(2)),
        supply.fit(Licences(4)),
    )
    supply.dealloc(got)
    assert supply.idle()


def test_sorts_with_names_are_counted_apart() -> None:
    supply = Supply(Licences(vasp=1, orca=2))
    supply.alloc(Licences(vasp=1))

    assert not supply.free.request(Licences(vasp=1))
    assert supply.free.request(Licences(orca=2))
    assert Fit.NEVER is supply.fit(Licences(1))


def test_the_laws_hold() -> None:
    def ask(rng: random.Random) -> Licences:
        return Licences({name: rng.randint(0, 3) for name in rng.sample(["a", "b", "c"], 2)})

    check_kind(lambda: Licences(a=2, b=4), ask)
    check_kind(lambda: Licences(3), lambda rng: Licences(rng.randint(0, 4)))


def test_more_may_be_owed_than_there_is_and_then_none_is_handed_out_until_it_is_back() -> None:
    supply = Licences(2)._supplied()
    supply.owe(Licences(1), times=3)

    assert not supply.request(Licences(1))
    assert (0, 2) == supply._stat()
    for _ in range(3):
        supply.dealloc(Licences(1))
    assert supply == Licences(2)
    with pytest.raises(ValueError, match="given back twice"):
        supply.dealloc(Licences(1))


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("Licences=2", Licences(2)),
        ("Cores=4,Licences=vasp", Cores(4) & Licences(vasp=1)),
        ("Licences=vasp:2", Licences(vasp=2)),
        ('Licences={"vasp-6": 2, "orca": 1}', Licences({"vasp-6": 2, "orca": 1})),
    ],
)
def test_they_are_written_as_a_word(text: str, resource: Licences) -> None:
    assert resource == from_text(text)
    assert resource == from_data(to_data(resource))


def test_they_are_shown_as_they_are_written() -> None:
    shown = [repr(one) for one in (Licences(2), Licences(a=1, b=2), Licences({"a-1": 1}))]

    assert ["Licences(2)", "Licences(a=1, b=2)", "Licences({'a-1': 1})"] == shown


@pytest.mark.parametrize(
    ("args", "named", "what"),
    [
        ((), {}, "say how many"),
        ((-1,), {}, "Licences(-1): a number of licences cannot be negative"),
        ((), {"vasp": -2}, "Licences(vasp=-2): a number of licences cannot be negative"),
        ((1.5,), {}, "Licences(1.5): a number of licences is a whole number"),
        ((True,), {}, "a number of licences is a whole number"),
        ((2,), {"vasp": 1}, "either all of them have a name"),
        (({"": 1},), {}, "a sort of licences has a name"),
        (({1: 1},), {}, "1 is not the name of a sort"),
        (("vasp:x",), {}, "write a name, or a name and a number, as vasp:2"),
        ((":2",), {}, "write a name, or a name and a number, as vasp:2"),
    ],
)
def test_what_makes_no_sense_is_refused(args: Any, named: dict[str, int], what: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        Licences(*args, **named)

    assert what in str(raised.value)
