"""GPUs: like Cores, under names of their own."""

from __future__ import annotations

import pytest

from grain.resource import Cores, GPUs, Infeasible


def test_identities() -> None:
    """A request for a number of GPUs gets the ids that a program has to be told."""
    supply = GPUs([0, 2, 3])
    got = supply.alloc(GPUs(2))

    assert [0, 2] == got.g
    assert "GPUs([0,2])" == repr(got)
    assert "GPUs(2)" == got.ask()
    assert {"GPUs": (1, 3)} == supply.stat()


def test_no_cores() -> None:
    """GPUs are not cores: neither stands for the other."""
    with pytest.raises(Infeasible, match=r"GPUs\(\[0-1\]\) has no Cores, asked for Cores\(1\)"):
        GPUs(2).alloc(Cores(1))

    assert GPUs(2) != Cores(2)


@pytest.mark.parametrize("joined", [Cores(4) & GPUs([1]), GPUs([1]) & Cores(4)])
def test_with_cores(joined: Cores) -> None:
    """Joined to cores in any order, ``.N`` tells of the cores and ``.g`` of the GPUs."""
    assert 4 == joined.N
    assert [1] == joined.g


def test_bad_input() -> None:
    """Errors speak of GPUs."""
    with pytest.raises(ValueError) as raised:
        GPUs(-1)

    assert "GPUs(-1): a number of GPUs cannot be negative" == str(raised.value)
