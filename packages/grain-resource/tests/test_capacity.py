"""Capacity: how many tasks a worker takes, whatever they need."""

from __future__ import annotations

from typing import Any

import pytest

from grain.resource import (
    ONE_INSTANCE,
    ZERO,
    Capacity,
    Cores,
    Fit,
    Insufficient,
    Supply,
    to_data,
)


def test_each_task_counts_as_one() -> None:
    """A request that says nothing of capacity is allocated one instance."""
    supply = Supply(Cores(8) & Capacity(2))

    assert Cores([0]) & ONE_INSTANCE == supply.alloc(Cores(1))
    assert {"Cores": (7, 8), "Capacity": (1, 2)} == supply.free.stat()


def test_free_cores_do_not_help_a_worker_that_has_its_tasks() -> None:
    supply = Supply(Cores(8) & Capacity(1))
    got = supply.alloc(Cores(1))
    with pytest.raises(Insufficient) as raised:
        supply.alloc(Cores(1))
    supply.dealloc(got)

    assert "Capacity(0) cannot give Capacity(1) now" == str(raised.value)
    assert Fit.NOW is supply.fit(Cores(1))


def test_a_task_that_asks_for_a_larger_share_gets_it_instead_of_one() -> None:
    """A task that asks for more than one instance is given that instead."""
    supply = Supply(Cores(8) & Capacity(4))
    got = supply.alloc(Cores(1) & Capacity(3))

    assert 3 == got.V
    assert {"Cores": (7, 8), "Capacity": (1, 4)} == supply.free.stat()


def test_a_worker_of_nothing_but_capacity_runs_tasks_that_need_nothing() -> None:
    supply = Supply(Capacity(1))
    got = supply.alloc(ZERO)

    assert ONE_INSTANCE == got
    assert Fit.NOT_NOW is supply.fit(ONE_INSTANCE)
    assert Fit.NEVER is supply.fit(Capacity(2))


def test_a_worker_that_states_no_capacity_has_no_bound() -> None:
    """A worker that states no capacity has no bound, so an allocation from one that does fits."""
    got = Supply(Cores(8) & Capacity(4)).alloc(Cores(1))
    supply = Supply(Cores(8))

    assert got == supply.alloc(got)
    assert Fit.NOW is supply.fit(Capacity(100))


def test_a_capacity_shows_its_number() -> None:
    assert "Capacity(3)" == repr(Capacity(3))
    assert {"Capacity": 3} == to_data(Capacity(3))
    assert ONE_INSTANCE == Capacity(1)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (-1, ValueError, "Capacity(-1): a number of tasks cannot be negative"),
        (1.5, TypeError, "Capacity(1.5): a number of tasks is a whole number"),
        (float("nan"), TypeError, "Capacity(nan): a number of tasks is a whole number"),
        (True, TypeError, "Capacity(True): a number of tasks is a whole number"),
        ("1", TypeError, "Capacity('1'): a number of tasks is a whole number"),
    ],
)
def test_what_is_no_number_of_tasks_is_refused(
    given: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        Capacity(given)

    assert text == str(raised.value)
