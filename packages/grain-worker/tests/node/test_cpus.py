"""A local worker takes CPUs that its process may use and no other worker has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from grain.edge.machine.cpu_locks import VARIABLE, taken_cpus, taking_cpus
from grain.resource import ZERO, Cores, GPUs, Memory
from grain.worker import local_offer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The process may use the CPUs 1, 4, 5 and 6."""
    cpus = {1, 4, 5, 6}
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cpus"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cpus)
    return cpus


def test_a_number_of_cores_becomes_the_lowest_cpus_that_are_free() -> None:
    with (
        local_offer(Cores(2) & Memory(4)) as first,
        local_offer(Cores(1)) as second,
        taking_cpus([6]),
    ):
        assert (Cores([1, 4]) & Memory(4), True, "") == first
        assert (Cores([5]), True, "") == second
        assert {1, 4, 5, 6} == taken_cpus(range(8))
    assert set() == taken_cpus(range(8))


def test_where_too_few_are_free_nothing_is_taken_or_bound() -> None:
    with local_offer(Cores(3)), local_offer(Cores(2)) as offer:
        assert (Cores([1, 4]), False) == offer[:2]
        assert (
            "local=Cores(2): only 1 of the 4 CPUs that this process may use is free, as other "
            "missions or workers on this machine have taken the others, so programs are bound to "
            "no CPUs and compete with theirs"
        ) == offer.remark
        assert {1, 4, 5} == taken_cpus(range(8))
    with local_offer(Cores(4)), local_offer(Cores(2)) as offer:
        assert ": none of the 4 CPUs that this process may use is free, as" in offer.remark
        assert "workers on this machine have taken them, so programs" in offer.remark


def test_more_cores_than_the_process_may_use_are_mere_numbers() -> None:
    with local_offer(Cores(64)) as offer:
        assert (
            Cores(64),
            False,
            "local=Cores(64): this process may use 4 CPUs, so programs are bound to no CPUs",
        ) == offer
        assert set() == taken_cpus(range(8))


def test_ids_stay_as_they_were_stated() -> None:
    """Whoever else has them; and others see that they are taken."""
    with local_offer(Cores([4, 5])) as first, local_offer(Cores([4, 5])) as second:
        assert (Cores([4, 5]), True, "") == first == second
        with local_offer(Cores(1)) as other:
            assert Cores([1]) == other.resources


def test_ids_that_the_process_may_not_use_are_bound_to_nothing(usable: set[int]) -> None:
    usable.clear()
    usable.add(1)
    with local_offer(Cores([0, 1])) as offer:
        remark = "local=Cores([0, 1]): this process may use only CPU 1, so programs are bound to"
        assert (Cores([0, 1]), False, f"{remark} no CPUs") == offer


def test_all_cores_are_those_that_this_process_may_use() -> None:
    with local_offer(Cores("all") & Memory(4)) as offer:
        assert (Cores([1, 4, 5, 6]) & Memory(4), True, "") == offer


@pytest.mark.parametrize("local", [Cores(0.5), Cores(2) & GPUs(0.5), GPUs("all")])
def test_a_part_of_a_core_or_gpu_is_no_offer(local: Cores) -> None:
    asked = "is what a task asks for; a worker offers whole"
    with pytest.raises(ValueError, match=asked), local_offer(local):
        pass


@pytest.mark.parametrize("local", [ZERO, Memory(3), Cores(0)])
def test_a_worker_without_cores_takes_none(local: Memory) -> None:
    with local_offer(local) as offer:
        assert (local, True, "") == offer
        assert set() == taken_cpus(range(8))
