"""Requests for several workers at once: ``4 * Node(32, 100)``."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain import GVAR
from grain.resource import (
    ZERO,
    Cores,
    GPUs,
    Member,
    Memory,
    Node,
    Resource,
    RootAllocation,
    WTime,
    check_offer,
    from_data,
    gang,
    to_data,
)

ANY: Any = 2 * Cores(1)

members = st.sampled_from([Cores(1), Cores(4), Node(2, 8), GPUs(1) & Cores(2), Memory(3)])
gangs = st.builds(gang, st.integers(1, 100), members, same=st.sampled_from(["group", "job"]))


@given(gangs, st.one_of(st.none(), st.integers(1, 1000)))
def test_a_gang_is_its_plain_data_and_a_value(request: Resource, seconds: int | None) -> None:
    if seconds is not None:
        request = request & WTime(T=seconds)

    assert request == from_data(to_data(request)) == copy.deepcopy(request)
    assert hash(request) == hash(from_data(to_data(request)))
    assert request == pickle.loads(pickle.dumps(request))


@given(gangs, gangs)
def test_gangs_are_equal_if_number_and_member_and_place_are(one: Any, other: Any) -> None:
    same = (one.count, one.member, one.same) == (other.count, other.member, other.same)

    assert same == (one == other)
    assert one != one.member


def test_a_time_limit_is_that_of_the_whole_wherever_it_stands() -> None:
    inside = 2 * (Cores(4) & WTime(T=60))

    assert inside == 2 * Cores(4) & WTime(T=60) == WTime(T=60) & 2 * Cores(4)


def test_a_gang_is_shown_as_it_is_written() -> None:
    assert (4 * Node(32, 100)).ask() == "4 * (Cores(32) & Memory(100))"
    assert gang(2, Cores(1), same="job").ask() == 'gang(2, Cores(1), same="job")'


def test_time_limits_and_other_parts_join_each_of_several_alternatives() -> None:
    either = (2 * Cores(4) | Cores(16)) & WTime(T=60)

    assert either.alternatives() == (2 * Cores(4) & WTime(T=60), Cores(16) & WTime(T=60))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: 0 * Cores(1), "0 * Cores(1): a task needs one worker or more"),
        (lambda: -1 * Cores(1), "a task needs one worker or more"),
        (lambda: 10_001 * Cores(1), "10000 workers are the most"),
        (lambda: 1.5 * ANY, "1.5 * ...: the number of workers is a whole number"),
        (lambda: True * Cores(1), "the number of workers is a whole number"),
        (lambda: 2 * (2 * Cores(1)), "2 * (2 * Cores(1)): write one number, as in 4"),
        (lambda: 2 * (Cores(1) | GPUs(1)), "write the alternatives outside"),
        (lambda: 2 * ZERO, "a member that gives nothing cannot run anything"),
        (lambda: 2 * Cores(1) & Memory(3), "write it inside, as in 2 * (Cores(1) & Memory(3))"),
        (lambda: 2 * Cores(1) & 3 * Cores(1), "a task is one gang"),
        (lambda: gang(2, Cores(1), same="rack"), "same='rack': members are in the same"),
        (lambda: gang(2, ANY.c), "has no attribute 'c': its member may have it"),
        (lambda: gang(2, 3), "each worker gives a resource"),  # type: ignore[arg-type]
        (lambda: from_data({"Gang": 3}), "is not a number of members, as in"),
        (lambda: from_data({"Gang": {"count": "2", "of": {"Cores": 1}}}), "a whole number"),
    ],
)
def test_what_no_cluster_can_give_is_refused_with_what_to_write(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)) as raised:
        make()

    assert message in str(raised.value)


def test_the_allocation_of_a_root_has_its_own_ids_and_all_members() -> None:
    own = Cores([3, 4]) & Memory(8)
    nodes = (Member("w1", "n1", own), Member("w2", "n2", Cores([0]) & GPUs([1])))

    allocation: Any = pickle.loads(pickle.dumps(RootAllocation(own, nodes)))

    assert ([3, 4], 8, 2) == (allocation.c, allocation.M, allocation.N)
    assert [("w1", [3, 4], [], 8), ("w2", [0], [1], 0)] == [
        (one.name, one.c, one.g, one.M) for one in allocation.nodes
    ]


def test_a_task_on_one_worker_has_one_member() -> None:
    with GVAR.scope(Cores([3, 4]) & Memory(8), instance="w1"):
        (node,) = GVAR.res.nodes

    assert ("w1", "127.0.0.1", [3, 4], 8) == (node.name, node.address, node.c, node.M)


def test_a_worker_does_not_offer_several_workers() -> None:
    with pytest.raises(ValueError, match=r"a worker offers what it has itself, as in Cores\(2\)"):
        check_offer(3 * Cores(2))
