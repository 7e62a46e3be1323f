"""Cores: asked for by number, allocated by identity."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from grain.resource import Cores, Insufficient, Supply, to_data


def test_number_stands_for_first_ids() -> None:
    """A worker that states a number N owns the cores 0 to N-1."""
    assert [0, 1, 2] == Cores(3).c
    assert 3 == Cores(3).N
    assert Cores(3) == Cores([2, 0, 1])


def test_ids_may_be_given_in_any_order_by_any_iterable() -> None:
    assert [1, 5, 9] == Cores(iter([9, 1, 5])).c
    assert 3 == Cores({1, 5, 9}).N


def test_request_by_number_yields_ids() -> None:
    """A request for a number gets the lowest ids that are free, and they are gone from there."""
    supply = Cores([1, 3, 4, 8])

    assert Cores([1, 3, 4]) == supply.alloc(Cores(3))
    assert [8] == supply.c


def test_ids_in_a_request_count_only() -> None:
    """A request with ids asks for as many of any, so an allocation can be a request elsewhere."""
    assert Cores([0, 1]) == Cores(4).alloc(Cores([8, 9]))


def test_given_back_ids_are_reused() -> None:
    """The lowest free id goes first, also when it was in use before."""
    supply = Cores(3)
    first = supply.alloc(Cores(1))
    supply.alloc(Cores(1))
    supply.dealloc(first)

    assert Cores([0]) == supply.alloc(Cores(1))


@pytest.mark.parametrize(
    ("cores", "shown"),
    [
        (Cores(3), "CPU_Cores([0-2])"),
        (Cores([0]), "CPU_Cores([0])"),
        (Cores([5, 7, 8]), "CPU_Cores([5,7-8])"),
        (Cores([0, 1, 3, 4, 5, 9]), "CPU_Cores([0-1,3-5,9])"),
        (Cores(0), "CPU_Cores([])"),
    ],
)
def test_runs_of_ids_are_shown_as_spans(cores: Cores, shown: str) -> None:
    assert shown == repr(cores)


def test_as_a_request_cores_are_shown_by_their_number() -> None:
    assert "Cores(3)" == Cores([5, 7, 8]).ask()


def test_stat_counts_free_cores_out_of_those_of_the_beginning() -> None:
    supply = Supply(Cores(8))
    supply.alloc(Cores(3))

    assert {"Cores": (5, 8)} == supply.free.stat()


@pytest.mark.parametrize(
    ("cores", "data"), [(Cores(3), 3), (Cores([0, 2]), [0, 2]), (Cores(0), 0), (Cores([4]), [4])]
)
def test_the_data_are_a_number_where_that_says_it_all(cores: Cores, data: object) -> None:
    assert {"Cores": data} == to_data(cores)


def test_the_refusal_states_what_is_left_and_what_was_asked_for() -> None:
    supply = Cores([2, 3])
    with pytest.raises(Insufficient) as raised:
        supply.alloc(Cores(3))

    assert "CPU_Cores([2-3]) cannot give Cores(3) now" == str(raised.value)
    assert [2, 3] == supply.c


def test_giving_back_twice_is_an_error_and_the_cores_stay_whole() -> None:
    supply = Cores(2)
    got = supply.alloc(Cores(1))
    supply.dealloc(got)
    with pytest.raises(ValueError) as raised:
        supply.dealloc(got)

    assert "CPU_Cores([0]) was given back twice" == str(raised.value)
    assert Cores(2) == supply


def test_what_was_never_owned_cannot_be_given_back() -> None:
    supply = Cores(2)
    with pytest.raises(ValueError) as raised:
        supply.dealloc(Cores([7]))

    assert "CPU_Cores([7]) was not allocated from CPU_Cores([0-1])" == str(raised.value)
    assert Cores(2) == supply


WHOLE = (
    "a number of cores is a whole number, as in Cores(4), or a part of one, as in Cores(0.5), "
    "or a list of ids, as in Cores([0, 2])"
)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (-1, ValueError, "Cores(-1): a number of cores cannot be negative"),
        (
            1.5,
            ValueError,
            (
                "Cores(1.5): a part of a core is a part of one core, so it is below 1, as in "
                "Cores(0.5). For more than one core, ask for whole ones, as in Cores(2)"
            ),
        ),
        (
            2.0,
            ValueError,
            "Cores(2.0): a whole number of cores has no decimal point: write Cores(2)",
        ),
        (-0.5, ValueError, "Cores(-0.5): a number of cores cannot be negative"),
        (
            0.0000009,
            ValueError,
            "Cores(9e-07): a part of a core is a millionth (0.000001) at least",
        ),
        (
            [[0, 1e-7]],
            ValueError,
            "Cores([[0, 1e-07]]): a part of a core is a millionth (0.000001) at least",
        ),
        ([[0, 0.5, 1]], TypeError, f"Cores([[0, 0.5, 1]]): {WHOLE}"),
        ("ALL", TypeError, "Cores takes a number of cores or a list of ids, not 'ALL'"),
        (float("nan"), TypeError, f"Cores(nan): {WHOLE}"),
        (None, TypeError, f"Cores(None): {WHOLE}"),
        ([0.5], TypeError, f"Cores([0.5]): {WHOLE}"),
        (["0"], TypeError, f"Cores(['0']): {WHOLE}"),
        (True, TypeError, "Cores takes a number of cores or a list of ids, not True"),
        ("4", TypeError, "Cores takes a number of cores or a list of ids, not '4': write Cores(4)"),
        ([0, -2], ValueError, "Cores([0, -2]): the core id -2 is negative"),
        ([3, 3], ValueError, "Cores([3, 3]): the core id 3 appears twice"),
        (1 << 40, ValueError, "Cores(1099511627776): more than 1048576 cores on one worker"),
        (
            [1 << 40],
            ValueError,
            "Cores([1099511627776]): the core id 1099511627776 is not below 1048576",
        ),
    ],
)
def test_what_is_no_number_of_cores_is_refused_with_a_remedy(
    given: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        Cores(given)

    assert text == str(raised.value)
    assert error is type(raised.value)


def test_a_number_of_cores_names_no_cpus_and_equals_those_from_0_on() -> None:
    assert Cores(2).by_number
    assert not Cores([0, 1]).by_number
    assert Cores(2) == Cores([0, 1])
    assert pickle.loads(pickle.dumps(Cores(2))).by_number
    assert not pickle.loads(pickle.dumps(Cores([0, 1]))).by_number
    assert not Cores(2).alloc(Cores(1)).by_number
