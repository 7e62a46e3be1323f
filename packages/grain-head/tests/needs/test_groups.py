"""All groups of a scheduler: what they ask for on the workers here, and what is told of them."""

from __future__ import annotations

from contextlib import suppress
from math import inf

from hypothesis import example, given
from hypothesis import strategies as st

from grain.head.needs.groups import LearnedMemory, MemoryUse, Needs
from grain.resource import LAST_ATTEMPT, Cores, Memory, from_data
from grain_testkit.memory_groups import after

OPT = Memory(group="opt")
LEAST, MOST = 5e-324, 1.7e308  # of all floats above 0
SIZES = st.floats(LEAST, MOST)
AMOUNTS = st.none() | st.floats(1e-6, 1e302)  # GB, as many as `Memory` takes
TRIED = st.tuples(st.integers(2, LAST_ATTEMPT), SIZES)


def test_the_guard_counts_what_the_maximum_would_have_taken_on_the_workers_here() -> None:
    needs = Needs()
    needs.on_workers([Cores(1) & Memory(8)])
    opt = Memory(500, group="opt")
    memory = LearnedMemory(needs, opt, opt)
    for _ in range(8):
        memory.on_ended(memory.memory, MemoryUse(8.0, True), 9.0)
        memory.on_ended(memory.memory, MemoryUse(8.0), 9.0)
    assert needs.groups["opt"].guarded


def test_nothing_known_a_task_asks_for_its_part_of_the_worker_with_most_memory() -> None:
    needs = Needs()
    assert 1.0 == needs.amount(OPT)
    assert needs.on_workers([Cores(16) & Memory(64), Cores(32) & Memory(8)])
    assert not needs.on_workers([Cores(32) & Memory(8), Cores(16) & Memory(64)])
    assert needs.explain(Cores(16) & OPT) == (
        "opt asks for 64 GB, the share of its cores: no run of it has ended yet"
    )
    assert [4.0, 16.0, 64.0, 64.0] == [
        needs.amount(request & OPT) for request in (Cores(1), Cores(4), Cores(16), Cores("all"))
    ]
    assert 2.0 == needs.amount(Cores(4) & Memory(2, group="opt"))
    assert needs.on_workers([])
    assert 1.0 == needs.amount(OPT)
    assert needs.explain(Memory(99, group="opt")) == (
        "opt asks for 99 GB while no worker is here: no run of it has ended yet"
    )


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


def test_a_request_knows_if_no_worker_has_more_than_it_gets() -> None:
    needs = Needs()
    needs.on_workers([Cores(4) & Memory(8)])
    memory = LearnedMemory(needs, request := Cores(4) & OPT, OPT)
    assert (8.0, True) == (memory.amount, memory.memory.last)
    needs.on_workers([Cores(8) & Memory(16)])
    assert memory.renew()
    assert (8.0, False) == (memory.amount, memory.memory.last)
    assert not memory.renew()
    needs.on_workers([Cores(4) & Memory(8)])
    assert memory.renew()
    assert memory.memory.last
    assert 8.0 == needs.amount(request)


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


def test_different_maxima_of_a_group_are_named_until_it_is_forgotten() -> None:
    needs = Needs()
    memory = LearnedMemory(needs, Cores(1) & OPT, OPT)
    assert ((), "") == (needs.row("opt", None).maxima, needs.disagreement("opt"))
    for most in (8, 8, 16, 8):
        LearnedMemory(needs, Memory(most, group="opt"), Memory(most, group="opt"))
    assert (inf, 8.0, 16.0) == needs.row("opt", None).maxima
    assert needs.disagreement("opt").startswith(
        "the group 'opt' has several maxima, that of the largest worker, 8 GB and 16 GB: each task"
    )
    for most in range(20, 120):
        LearnedMemory(needs, Memory(most, group="opt"), Memory(most, group="opt"))
    assert (116.0, 117.0, 118.0, 119.0) == needs.row("opt", None).maxima
    needs.forget("opt")
    assert "" == needs.disagreement("opt")
    memory.renew()
    assert (inf,) == needs.groups["opt"].maxima


def test_a_repeat_has_the_largest_worker_before_more_than_any_has() -> None:
    needs = Needs()
    needs.on_workers([Cores(2) & Memory(0.9)])
    opt = Memory(32, group="opt")
    half = LearnedMemory(needs, Cores(1) & opt, opt)
    assert 0.45 == half.amount
    half.on_ended(half.memory, MemoryUse(0.45, True), 1.0)
    assert "; then 1.8, then 3.6, then 7.2, then 32. Its maximum, 32 GB" in needs.explain(
        Cores(1) & opt
    )
    second = after(opt, 0.45)
    assert "opt asks for 0.9 GB in attempt 2, as 0.45 GB were too little" == needs.explain(second)
    whole = LearnedMemory(needs, second, second)
    assert (0.9, False) == (whole.amount, whole.memory.last)
    assert (
        "opt asks for 1.8 GB in attempt 3, as 0.9 GB were too little. That is more than any "
        "worker here has (0.9)"
    ) == needs.explain(after(opt, 0.45, 0.9))


@given(
    runs=st.lists(st.tuples(st.floats(0.0, 1e3), SIZES, AMOUNTS), max_size=12),
    asked=st.lists(st.tuples(AMOUNTS, st.none() | SIZES, st.none() | TRIED), max_size=6),
    workers=st.lists(st.floats(1e-6, 1e302), max_size=2),
)
@example(
    runs=[(0.01 * size**2, size, None) for size in (2.0, 3.0, 4.0, 6.0, 8.0, 10.0)],
    asked=[(1.0, size, None) for size in (LEAST, 1e200, MOST)],
    workers=[8.0],
)
@example(
    runs=[(0.01 * size**2, size * LEAST, None) for size in (2.0, 3.0, 4.0, 6.0, 8.0, 10.0)],
    asked=[(None, MOST, None)],
    workers=[],
)
def test_whatever_a_mission_states_it_gets_an_amount_up_to_the_maximum(
    runs: list[tuple[float, float, float | None]],
    asked: list[tuple[float | None, float | None, tuple[int, float] | None]],
    workers: list[float],
) -> None:
    """What raised here would end the scheduler of all."""
    needs = Needs()
    needs.on_workers([Cores(8) & Memory(memory) for memory in workers])
    requests = [Memory(most, group="opt", size=size) for most, size, _ in asked]
    for request, (_, _, tried) in zip(requests, asked, strict=True):
        request.tried = tried or request.tried
    waiting = [LearnedMemory(needs, request, request) for request in requests]
    for peak, size, most in runs:
        request = Memory(most, group="opt", size=size)
        one = LearnedMemory(needs, request, request)
        one.on_ended(one.memory, MemoryUse(peak, peak > one.amount), 60.0)
        for memory, other in zip(waiting, requests, strict=True):
            memory.renew()
            assert 0 < memory.amount <= needs.maximum(other) * (1 + 1e-9)
            assert needs.explain(other)
            assert needs.row("opt", other).text


@given(tried=st.tuples(st.integers(), st.floats()))
def test_an_attempt_that_a_mission_says_it_had_is_refused_or_followed_by_another(
    tried: tuple[int, float],
) -> None:
    needs = Needs()
    with suppress(ValueError):
        request = from_data({"Memory": {"group": "opt", "tried": list(tried)}})
        memory = request.get(Memory)
        assert isinstance(memory, Memory)
        assert tried == (1, 0.0) or (1 < tried[0] <= LAST_ATTEMPT and 0 < tried[1] < 1e309)
        assert 0 < needs.amount(request) <= 1.0
