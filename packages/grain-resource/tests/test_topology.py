"""Which of the free cores and GPUs a request gets on a worker whose topology is known."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.resource import Capacity, Cores, GPUs, Memory, Node, Resource, Supply, from_data, to_data
from grain.resource.testing import check_kind
from grain.resource.topology import Topology, bits, mask_of, parse_spans, simple, spans

# Two sockets of two caches of four cores of two threads, numbered as Linux does: the second
# threads behind all first ones.
CORES = [f"{i},{i + 16}" for i in range(16)]
CACHES = [f"{i}-{i + 3},{i + 16}-{i + 19}" for i in (0, 4, 8, 12)]
SOCKETS = ["0-7,16-23", "8-15,24-31"]
SERVER: dict[str, Any] = {"ids": 32, "groups": [CORES, CACHES, SOCKETS]}


def server(**more: Any) -> Resource:
    return from_data({"Cores": SERVER, **more})


def groups(texts: list[str]) -> list[set[int]]:
    return [set(bits(parse_spans(text))) for text in texts]


def taken_groups(ids: list[int], texts: list[str]) -> int:
    return sum(bool(group & set(ids)) for group in groups(texts))


def cores(supply: Supply, request: Resource) -> list[int]:
    got = supply.alloc(request).get(Cores)
    assert isinstance(got, Cores)
    return got.c


def test_cores_of_a_task_are_both_threads_of_each_then_of_one_cache_and_one_socket() -> None:
    supply = Supply(server())

    assert [0, 16] == cores(supply, Cores(2))
    assert [1, 2, 17, 18] == cores(supply, Cores(4))
    assert [4, 5, 6, 7, 20, 21, 22, 23] == cores(supply, Cores(8))
    assert [*range(8, 16), *range(24, 32)] == cores(supply, Cores(16))
    assert [3, 19] == cores(supply, Cores(2))


def test_what_is_in_part_use_is_used_up_first() -> None:
    supply = Supply(server())

    assert [0] == cores(supply, Cores(1))
    assert [16] == cores(supply, Cores(1))
    assert [1, 2, 17] == cores(supply, Cores(3))
    assert [18] == cores(supply, Cores(1))
    assert [3, 19] == cores(supply, Cores(2))


def test_a_task_too_large_for_a_cache_takes_whole_ones() -> None:
    supply = Supply(server())
    got = cores(supply, Cores(10))

    assert 1 == taken_groups(got, SOCKETS)
    assert 5 == taken_groups(got, CORES)
    assert {0, 1, 2, 3, 16, 17, 18, 19} < set(got)


def test_spread_cores_are_far_from_each_other() -> None:
    for number, sockets, caches, threads in (
        (2, 2, 2, 2),
        (4, 2, 4, 4),
        (8, 2, 4, 8),
        (16, 2, 4, 16),
    ):
        got = cores(Supply(server()), Cores(number, spread=True))
        assert number == len(got)
        assert sockets == taken_groups(got, SOCKETS)
        assert caches == taken_groups(got, CACHES)
        assert threads == taken_groups(got, CORES)
    assert list(range(32)) == cores(Supply(server()), Cores(32, spread=True))
    assert [0, 1, 2] == cores(Supply(Cores(4)), Cores(3, spread=True))


def test_spread_cores_are_taken_where_the_most_is_left() -> None:
    topology = Topology(((0b1111, 0b11110000),))
    # Of two groups of which as many are taken, the emptier one would be full at once.
    assert 0b0000_0001 == topology.spread(0b0001_1111, 1)
    assert 0b0001_0000 == topology.spread(0b1111_0001, 1)
    assert 0b0001_0001 == topology.spread(0b0001_1111, 2)
    assert 0b0001_0011 == topology.spread(0b0001_1111, 3)


def test_spread_is_a_part_of_the_request() -> None:
    request = Cores(4, spread=True)

    assert "Cores(4, spread=True)" == request.ask()
    assert request != Cores(4)
    assert 2 == len({request, Cores(4), Cores(4, spread=True)})
    assert {"Cores": {"N": 4, "spread": True}} == to_data(request)
    assert request == from_data(json.loads(json.dumps(to_data(request))))
    assert Supply(Cores(8)).alloc(request) == Cores(4)
    with pytest.raises(ValueError) as raised:
        Cores([0, 2], spread=True)
    assert (
        "Cores([0, 2], spread=True): spread goes with a number of cores, as in "
        "Cores(4, spread=True)"
    ) == str(raised.value)
    with pytest.raises(ValueError, match="spread goes with a number"):
        Cores(0.5, spread=True)


def test_a_worker_states_its_topology_and_its_account_does_not_show_it() -> None:
    offer = server(Memory=8)

    assert offer == from_data(json.loads(json.dumps(to_data(offer))))
    assert {"ids", "groups"} == set(to_data(offer)["Cores"])
    assert 3 == len(to_data(offer)["Cores"]["groups"])
    assert offer != Cores(32) & Memory(8)
    assert "CPU_Cores([0-31]) & Memory(8GB)" == repr(offer)
    supply = Supply(offer)
    assert {"Cores": 32, "Memory": 8} == to_data(supply.total) == to_data(supply.free)
    assert supply.total == Cores(32) & Memory(8)
    assert Supply(Cores(32) & Memory(8)).level() == supply.level()
    assert [8, 24] == cores(Supply(_all_but(supply, 8, 24)), Cores(2))


def _all_but(supply: Supply, *ids: int) -> Resource:
    supply.reclaim(Cores([i for i in range(32) if i not in ids]))
    return supply.free


def test_a_part_of_a_core_begins_one_whose_other_thread_is_in_use() -> None:
    supply = Supply(server())
    assert [0] == cores(supply, Cores(1))
    assert [16] == cores(supply, Cores(0.5))
    assert [16] == cores(supply, Cores(0.5))
    assert [1] == cores(supply, Cores(0.5))


@pytest.mark.parametrize(
    ("levels", "kept"),
    [
        ([["0", "1", "2", "3"], ["0-3"], ["0-3"]], ()),
        ([["0,2", "1,3"], ["0-3"]], ((0b0101, 0b1010),)),
        ([["0-1", "2-3"], ["0-1", "2-3"]], ((0b0011, 0b1100),)),
        ([["0-1", "2-3", "4-90"]], ((0b0011, 0b1100),)),
        ([["1-2", "0", "3"], ["0-1", "2-3"]], ((0b0001, 0b0110, 0b1000),)),
    ],
)
def test_a_level_that_says_nothing_is_left_out(levels: Any, kept: Any) -> None:
    assert kept == simple([[parse_spans(one) for one in level] for level in levels], 0b1111)


def test_cores_without_groups_are_as_before() -> None:
    plain = from_data({"Cores": {"ids": 4, "groups": [["0-3"], ["0", "1", "2", "3"]]}})

    assert Cores(4) == plain
    assert {"Cores": 4} == to_data(plain)


@pytest.mark.parametrize(
    "data",
    [
        {"ids": 4, "groups": [["0-2", "2-3"]]},
        {"ids": 4, "groups": [["a"]]},
        {"ids": 4, "groups": [["0-99999999999"]]},
        {"ids": 4, "groups": [["3-1"]]},
        {"ids": 4, "groups": [[-1]]},
        {"ids": 4, "groups": [[[-1]]]},
        {"ids": 4, "groups": [[[1 << 30]]]},
        {"ids": 4, "groups": 3},
        {"ids": 4, "sockets": []},
        {"ids": 0.5, "groups": []},
        {"ids": "all", "groups": []},
        {"ids": 4, "near": ["0"]},
        {"groups": []},
    ],
)
def test_topology_without_sense_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="is not a resource"):
        from_data({"Cores": data})


def test_ids_are_written_as_the_kernel_does() -> None:
    assert [0, 1, 2, 7, 9, 10] == bits(parse_spans("0-2,7,9-10"))
    assert "0-2,7,9-10" == spans([0, 1, 2, 7, 9, 10])
    assert 0 == parse_spans("")
    assert 0 == parse_spans("\n")
    assert mask_of([3, 5]) == parse_spans([3, 5])


# ---- laws


@st.composite
def machines(draw: st.DrawFn) -> tuple[Topology, int]:
    """Nested levels of random groups, and the ids that are free."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    number = 1
    levels: list[list[int]] = []
    for size in sizes:
        number *= size
    ids = list(range(number))
    random.Random(draw(st.integers(0, 99))).shuffle(ids)
    width = 1
    for size in sizes:
        width *= size
        levels.append([mask_of(ids[k : k + width]) for k in range(0, number, width)])
    free = mask_of(draw(st.sets(st.sampled_from(ids))))
    return Topology(simple(levels, (1 << number) - 1)), free


@settings(deadline=None, max_examples=300)
@given(machines(), st.data())
def test_a_choice_is_within_the_smallest_group_that_has_enough(
    machine: tuple[Topology, int], data: st.DataObject
) -> None:
    topology, free = machine
    n = data.draw(st.integers(0, free.bit_count()))
    taken = topology.compact(free, n)

    assert n == taken.bit_count()
    assert not taken & ~free
    for level in topology.levels:
        room = [(group & free).bit_count() for group in level]
        used = [(group & taken).bit_count() for group in level]
        if n and max(room) >= n:
            assert 1 == sum(map(bool, used))
            break
    else:
        return
    # The tightest of them: no other group of the level would have left less.
    assert min(count for count in room if count >= n) == room[used.index(n)]


@settings(deadline=None, max_examples=300)
@given(machines(), st.data())
def test_where_no_group_has_enough_as_few_as_possible_are_used(
    machine: tuple[Topology, int], data: st.DataObject
) -> None:
    topology, free = machine
    n = data.draw(st.integers(0, free.bit_count()))
    taken = topology.compact(free, n)
    if (
        not n
        or not topology.levels
        or max((g & free).bit_count() for g in topology.levels[-1]) >= n
    ):
        return
    counts = sorted(((group & free).bit_count() for group in topology.levels[-1]), reverse=True)
    fewest = next(k for k in range(1, len(counts) + 1) if sum(counts[:k]) >= n)

    assert fewest == sum(bool(group & taken) for group in topology.levels[-1])


@settings(deadline=None, max_examples=300)
@given(machines(), st.data())
def test_a_spread_choice_is_even_over_the_largest_groups(
    machine: tuple[Topology, int], data: st.DataObject
) -> None:
    topology, free = machine
    n = data.draw(st.integers(0, free.bit_count()))
    taken = topology.spread(free, n)

    assert n == taken.bit_count()
    assert not taken & ~free
    for level in topology.levels[-1:]:
        used = [(group & taken).bit_count() for group in level]
        room = [(group & free).bit_count() for group in level]
        # A group has fewer than another only if it has no more, but for one.
        assert all(
            used[j] >= used[k] - 1 or used[j] == room[j]
            for j in range(len(level))
            for k in range(len(level))
        )


@pytest.mark.parametrize("spread", [False, True])
def test_a_topology_keeps_the_laws_of_kinds(spread: bool) -> None:
    check_kind(
        lambda: Supply(server()).total,
        lambda rng: rng.choice(
            [Cores(rng.randint(0, 34), spread=spread), Cores(rng.choice([1, 0.5, 0.2, 2])), Node()]
        ),
        steps=600,
    )


def test_a_successor_takes_out_the_same_cores() -> None:
    supply, successor = Supply(server()), Supply(server())
    held = [supply.alloc(Cores(n)) for n in (3, 1, 8)]
    for one in held:
        successor.reclaim(from_data(to_data(one)))

    assert supply.level() == successor.level()
    assert to_data(supply.free) == to_data(successor.free)
    assert supply.alloc(Cores(5)) == successor.alloc(Cores(5))


# ---- GPUs with the cores near them

NEAR = {"ids": 4, "near": ["0-7,16-23", "0-7,16-23", "8-15,24-31", "8-15,24-31"]}


@pytest.mark.parametrize("more", [{}, {"Memory": 8}, {"Capacity": 9}])
def test_gpus_come_with_the_cores_near_them(more: dict[str, Any]) -> None:
    supply = Supply(server(GPUs=NEAR, **more))
    first = supply.alloc(GPUs(1) & Cores(8))
    second = supply.alloc(Cores(8) & GPUs(1))
    third = supply.alloc(Cores(2) & GPUs(1))

    assert [0] == first.g
    assert 1 == taken_groups(first.c, CACHES)
    assert ([0, 1], [0, 2]) == (sorted([*first.g, *second.g]), sorted([*first.g, *third.g]))
    near = groups(SOCKETS)
    assert set(first.c) | set(second.c) == near[0]
    assert set(third.c) < near[1]
    assert list(second.parts())[:2] == ["Cores", "GPUs"]
    for one in (first, second, third):
        supply.dealloc(one)
    assert supply.idle()


def test_gpus_of_one_task_are_near_the_same_cores() -> None:
    supply = Supply(server(GPUs=NEAR))
    one = supply.alloc(Cores(2) & GPUs(1))
    two = supply.alloc(Cores(2) & GPUs(2))

    assert [0] == one.g
    assert [2, 3] == two.g
    assert set(two.c) < groups(SOCKETS)[1]


def test_cores_beyond_those_near_the_gpu_come_from_elsewhere() -> None:
    supply = Supply(server(GPUs=NEAR))
    got = supply.alloc(Cores(20) & GPUs(1))
    assert groups(SOCKETS)[0] < set(got.c)

    assert [0.5, 1] == [
        supply.alloc(part & Cores(2)).parts()["GPUs"].share for part in (GPUs(0.5), GPUs(2))
    ]


def test_a_part_of_a_gpu_comes_with_the_cores_near_that_device() -> None:
    supply = Supply(server(GPUs=NEAR))
    supply.alloc(Cores(16) & GPUs(1))
    first, second = (supply.alloc(GPUs(0.5) & Cores(2)) for _ in range(2))

    assert [2] == first.g == second.g
    assert set(first.c) | set(second.c) < groups(SOCKETS)[1]


def test_gpus_state_the_cores_near_them() -> None:
    offer = server(GPUs=NEAR)

    assert offer == from_data(json.loads(json.dumps(to_data(offer))))
    assert NEAR["near"] == to_data(offer)["GPUs"]["near"]
    assert {"Cores": 32, "GPUs": 4} == to_data(Supply(offer).total)
    assert [0, 1] == Supply(offer & Capacity(2)).alloc(GPUs(2)).g
    assert Supply(GPUs(2) & Memory(1)).alloc(GPUs(1)).g == [0]
