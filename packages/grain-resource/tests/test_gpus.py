"""GPUs: like Cores, under names of their own."""

from __future__ import annotations

import pytest

from grain.resource import Cores, GPUs, Infeasible


def test_a_request_for_a_number_of_gpus_gets_ids() -> None:
    supply = GPUs([0, 2, 3])
    got = supply.alloc(GPUs(2))

    assert [0, 2] == got.g
    assert "GPUs([0,2])" == repr(got)
    assert "GPUs(2)" == got.ask()
    assert {"GPUs": (1, 3)} == supply.stat()


def test_gpus_and_cores_do_not_stand_for_each_other() -> None:
    with pytest.raises(Infeasible, match=r"GPUs\(\[0-1\]\) has no Cores, asked for Cores\(1\)"):
        GPUs(2).alloc(Cores(1))

    assert GPUs(2) != Cores(2)


@pytest.mark.parametrize("joined", [Cores(4) & GPUs([1]), GPUs([1]) & Cores(4)])
def test_joined_to_cores_n_counts_the_cores_and_g_has_the_gpus(joined: Cores) -> None:
    assert 4 == joined.N
    assert [1] == joined.g


def test_errors_of_gpus_speak_of_gpus() -> None:
    with pytest.raises(ValueError) as raised:
        GPUs(-1)

    assert "GPUs(-1): a number of GPUs cannot be negative" == str(raised.value)
