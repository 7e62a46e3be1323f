"""All groups of a scheduler: what they ask for on the workers here, and what is told of them."""

from __future__ import annotations

from grain.head.needs.groups import LearnedMemory, MemoryUse, Needs
from grain.resource import Cores, Memory
from grain_testkit.memory_groups import after

OPT = Memory(group="opt")


def test_nothing_known_a_task_asks_for_its_part_of_the_worker_with_most_memory() -> None:
    needs = Needs()
    assert 1.0 == needs.amount(OPT)
    assert needs.on_workers([Cores(16) & Memory(64), Cores(32) & Memory(8)])
    assert not needs.on_workers([Cores(32) & Memory(8), Cores(16) & Memory(64)])
    assert [4.0, 16.0, 64.0, 64.0] == [
        needs.amount(request & OPT) for request in (Cores(1), Cores(4), Cores(16), Cores("all"))
    ]
    assert 2.0 == needs.amount(Cores(4) & Memory(2, group="opt"))
    assert needs.on_workers([])
    assert 1.0 == needs.amount(OPT)


def test_an_attempt_counts_as_too_little_until_its_task_comes_again() -> None:
    needs = Needs()
    needs.on_workers([Cores(1) & Memory(64)])
    for request, amount in ((OPT, 4.0), (after(OPT, 4.0), 8.0)):
        memory = LearnedMemory(needs, request, request)
        assert memory.on_ended(request.given(amount), MemoryUse(amount, True), 9.0)
    assert "1 task had too little" in needs.explain(OPT)
    last = after(OPT, 4.0, 8.0)
    assert LearnedMemory(needs, last, last).on_ended(OPT.given(16.0), MemoryUse(9.0), 9.0)
    assert "too little" not in needs.explain(OPT)
    assert "opt asks for 21.6 GB in attempt 3, as 8 GB were too little" == needs.explain(
        after(OPT, 4.0, 8.0)
    )


def test_a_run_counts_with_the_memory_that_it_had() -> None:
    needs = Needs()
    needs.on_workers([Cores(4) & Memory(8)])
    memory = LearnedMemory(needs, Cores(1) & OPT, OPT)
    before = memory.memory
    for had, counted in ((before, [2.0]), (OPT.given(3.0), [2.0, 3.0]), (None, [2.0, 3.0])):
        memory.on_ended(had, MemoryUse(1.0), 9.0)
        assert counted == [run.amount for run in needs.groups["opt"].runs]
    assert 2.0 == memory.amount
    assert memory.renew()
    assert 2.4 == memory.amount == memory.memory.M
    memory.on_ended(before, MemoryUse(1.0), 9.0)
    memory.on_ended(memory.memory, MemoryUse(1.0), 9.0)
    assert [2.0, 3.0, 2.0, 2.4] == [run.amount for run in needs.groups["opt"].runs]


def test_a_request_asks_for_its_part_of_other_workers_when_these_are_here() -> None:
    needs = Needs()
    needs.on_workers([Cores(4) & Memory(8)])
    memory = LearnedMemory(needs, Cores(1) & OPT, OPT)
    assert not memory.renew()
    needs.on_workers([Cores(4) & Memory(32)])
    assert memory.renew()
    assert 8.0 == memory.amount


def test_whatever_is_learned_or_forgotten_is_a_change() -> None:
    needs = Needs()
    needs.forget("opt")
    assert 0 == needs.changes
    memory = LearnedMemory(needs, OPT, OPT)
    memory.on_ended(OPT.given(4.0), MemoryUse(1.0), 9.0)
    memory.on_ended(OPT.given(4.0), MemoryUse(4.0, True), 9.0)
    assert 2 == needs.changes
    needs.forget("opt")
    assert 3 == needs.changes
    assert not needs.groups


def test_a_row_names_a_maximum_that_no_worker_has() -> None:
    needs = Needs()
    needs.on_workers([Cores(4) & Memory(8)])
    memory = LearnedMemory(needs, Memory(500, group="opt"), Memory(500, group="opt"))
    memory.on_ended(memory.memory, MemoryUse(1.0), 9.0)
    text = needs.row("opt", Memory(500, group="opt")).text
    assert "Its maximum, 500 GB, is more than any worker here has (8)" in text
