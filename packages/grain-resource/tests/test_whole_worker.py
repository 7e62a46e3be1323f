"""A request for all cores of a worker, however many it has."""

from __future__ import annotations

import json

import pytest

from grain.resource import (
    Capacity,
    Cores,
    Fit,
    GPUs,
    Memory,
    Node,
    Supply,
    check_offer,
    from_data,
    from_text,
    to_data,
)
from grain.resource.testing import check_kind


@pytest.mark.parametrize("cores", [Cores(1), Cores(64), Cores([3, 9])])
def test_all_cores_are_those_of_the_worker_that_it_gets(cores: Cores) -> None:
    supply = Supply(cores & Memory(8))
    got = supply.alloc(Node())

    assert cores.c == got.c
    assert cores.N == got.N
    assert supply.fit(Cores(1)) is Fit.NOT_NOW
    assert supply.fit(Node()) is Fit.NOT_NOW
    supply.dealloc(got)
    assert supply.idle()


def test_a_worker_of_which_a_core_or_a_part_of_one_is_taken_does_not_fit() -> None:
    supply = Supply(Cores(4))
    for small in (Cores(1), Cores(0.001)):
        held = supply.alloc(small)
        assert supply.fit(Node()) is Fit.NOT_NOW
        supply.dealloc(held)
    assert supply.fit(Node()) is Fit.NOW
    assert Supply(Cores(0)).fit(Node()) is Fit.NEVER
    assert Supply(Memory(4)).fit(Node()) is Fit.NEVER


def test_what_is_free_of_a_worker_is_not_all_of_another() -> None:
    supply = Supply(Cores(8))
    supply.alloc(Cores(4))

    assert supply.level() != Supply(Cores(4)).level()
    assert Supply(supply.free).fit(Node()) is Fit.NEVER
    assert Cores(4).left_of(Cores(8)).request(Cores(4))
    assert not Cores(4).left_of(Cores(8)).request(Node())
    assert Cores(8).left_of(Cores(8)).request(Node())


def test_it_is_written_as_all() -> None:
    for request in (Node(), Cores("all"), from_text("Cores=all"), from_data({"Cores": "all"})):
        assert Cores("all") == request
        assert hash(Cores("all")) == hash(request)
        assert 'Cores("all")' == request.ask()
        assert "CPU_Cores(all)" == repr(request)
        assert {"Cores": "all"} == json.loads(json.dumps(to_data(request)))
    assert Cores("all") != Cores(0)
    assert Cores("all") & Memory(8) == Node(M=8)
    assert Cores("all").is_all
    assert not Cores(3).is_all


def test_all_gpus_go_with_other_kinds() -> None:
    supply = Supply(Cores(8) & GPUs([1, 2]) & Capacity(3))
    got = supply.alloc(Cores(2) & GPUs("all"))

    assert [1, 2] == got.g
    assert [0, 1] == got.c
    assert supply.fit(Cores(2)) is Fit.NOW


def test_a_number_of_cores_without_the_memory_is_still_an_error_of_node() -> None:
    with pytest.raises(TypeError) as raised:
        Node(4)

    assert (
        "Node(4): write Node(4, 8), with the memory in GB, or Cores(4) for only the cores"
    ) == str(raised.value)


def test_a_worker_cannot_offer_what_only_a_task_can_ask_for() -> None:
    check_offer(Cores(4) & GPUs(1) & Memory(1))
    with pytest.raises(ValueError) as raised:
        check_offer(Cores(4) & GPUs(0.5))
    assert ("GPUs(0.5) is what a task asks for; a worker offers whole GPUs, as in GPUs(4)") == str(
        raised.value
    )
    with pytest.raises(ValueError, match=r'^Cores\("all"\) is what a task asks for'):
        check_offer(Node())


def test_it_keeps_the_laws_of_kinds() -> None:
    check_kind(
        lambda: Cores(3),
        lambda rng: Cores(rng.choice(["all", "all", 0, 1, 2, 3, 0.5])),
        steps=2000,
    )
