"""Several kinds as one resource, and none at all."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from grain.resource import (
    ZERO,
    Cores,
    GPUs,
    Infeasible,
    Insufficient,
    Memory,
    Node,
    Resource,
    Supply,
    Token,
    WTime,
    to_data,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_attributes_of_all_parts() -> None:
    """A combination has the attributes of each of its parts."""
    res = Node(N=2, M=8) & WTime(T=60, softT=30, group="g1") & Token("a") & GPUs([3])

    assert ([0, 1], 2) == (res.c, res.N)
    assert (8, 8) == (res.M, res.m)
    assert (60, 30, "g1") == (res.T, res.softT, res.group)
    assert ("a", [3]) == (res.token, res.g)


def test_an_attribute_that_was_not_asked_for_is_an_error_that_says_so() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = Node(1, 2).g

    assert (
        "CPU_Cores([0]) & Memory(2GB) has no attribute 'g': no such resource was asked for"
        == str(raised.value)
    )
    travelled = pickle.loads(pickle.dumps(raised.value))
    assert (AttributeError, str(raised.value)) == (type(travelled), str(travelled))
    assert not hasattr(Cores(1), "M")
    assert not hasattr(ZERO, "c")


@pytest.mark.parametrize("same", [Cores(1), Cores(1) & Token("a")])
def test_two_of_a_kind(same: Resource) -> None:
    """Two resources of a kind cannot be combined, as it is not clear what is meant."""
    with pytest.raises(ValueError) as raised:
        Node(2, 4) & same

    assert (
        "cannot combine Cores(2) with Cores(1): both are of the kind Cores; state one of them"
        == str(raised.value)
    )


def test_only_resources_can_be_combined() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        Cores(1) & 3  # type: ignore[operator]

    assert Cores(1) != 3


@pytest.mark.parametrize(
    ("request_", "write"),
    [
        (Cores(1), "energy @ Cores(1)"),
        (Cores(2) & Memory(0.5), "energy @ (Cores(2) & Memory(0.5))"),
    ],
)
def test_a_function_that_is_not_delayed_takes_no_resources(request_: Resource, write: str) -> None:
    def energy() -> None: ...

    with pytest.raises(TypeError) as raised:
        energy @ request_  # type: ignore[operator]

    assert (
        "energy is not a delayed function: decorate it with @delayed (from grain.delayed import "
        f"delayed), then write {write}"
    ) == str(raised.value)


@pytest.mark.parametrize("value", [3, "x", [Cores(1)], Memory(1)])
def test_what_is_no_function_has_no_matrix_product_with_a_resource(value: Any) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        value @ Cores(1)


def test_the_order_of_the_parts_shows_in_the_representation_only() -> None:
    one, other = Cores(1) & Memory(2), Memory(2) & Cores(1)

    assert ("CPU_Cores([0]) & Memory(2GB)", "Memory(2GB) & CPU_Cores([0])") == (
        repr(one),
        repr(other),
    )
    assert one == other
    assert 1 == len({one, other})


def test_a_request_for_one_kind_is_met_by_a_supply_of_several() -> None:
    supply = Node(4, 16)

    assert Memory(2) == supply.alloc(Memory(2))
    assert Cores(4) & Memory(14) == supply
    assert ZERO == supply.alloc(ZERO)


def test_single_supply_meets_composite_in_part_only() -> None:
    """A kind that the supply lacks makes the request infeasible, in any order of its parts."""
    for request in (Cores(9) & Memory(1), Memory(1) & Cores(9)):
        with pytest.raises(Infeasible) as raised:
            Cores(4).alloc(request)

        assert "CPU_Cores([0-3]) has no Memory, asked for Memory(1)" == str(raised.value)


def test_if_one_part_cannot_be_met_none_is_taken() -> None:
    supply = Node(4, 16)
    with pytest.raises(Insufficient) as raised:
        supply.alloc(Node(4, 17))

    assert "Memory(16GB) cannot give Memory(17) now" == str(raised.value)
    assert Node(4, 16) == supply


def test_a_kind_that_the_supply_lacks_cannot_be_given_back() -> None:
    with pytest.raises(ValueError) as raised:
        Node(4, 16).dealloc(GPUs([0]))

    assert "GPUs([0]) was not allocated from CPU_Cores([0-3]) & Memory(16GB)" == str(raised.value)


def test_a_part_is_found_by_its_class() -> None:
    """A part can be had by its class."""
    res = Node(2, 4)

    assert Memory(4) == res.get(Memory)
    assert Cores(2) == Cores(2).get(Cores)
    assert res.get(GPUs) is None


class TestZero:
    """No resource at all."""

    def test_zero_shows_as_the_empty_set(self) -> None:
        assert "Ø" == repr(ZERO) == str(ZERO) == ZERO.ask()
        assert {} == to_data(ZERO) == ZERO.stat() == ZERO.parts()

    def test_every_supply_meets_zero_which_meets_nothing_but_itself(self) -> None:
        assert Cores(1).request(ZERO)
        assert ZERO.request(ZERO)
        assert ZERO is Cores(1).alloc(ZERO)
        assert not ZERO.request(Cores(1))

    def test_copies_and_pickles_are_zero_itself(self) -> None:
        """Copies and pickles are ZERO itself, under its public name."""
        assert ZERO is copy.copy(ZERO)
        assert ZERO is copy.deepcopy(ZERO)
        assert ZERO is pickle.loads(pickle.dumps(ZERO))
        assert b"grain.resource" in pickle.dumps(ZERO)
        assert ZERO is Supply(ZERO).free

    def test_a_resource_joined_to_zero_is_itself(self) -> None:
        cores = Cores(1)

        assert cores is cores & ZERO
        assert cores is ZERO & cores


@pytest.mark.parametrize(
    "resource",
    [
        Cores([1, 4]),
        Memory(2.5),
        GPUs(2),
        Token("a"),
        WTime(T=60, softT=5),
        Node(2, 4) & Token("a"),
    ],
)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_copies_and_pickles_are_apart_from_the_original(resource: Resource, protocol: int) -> None:
    """Resources can be copied and pickled, and the copies are apart from them."""
    for again in (pickle.loads(pickle.dumps(resource, protocol)), copy.deepcopy(resource)):
        assert resource == again
        assert resource is not again
        assert hash(resource) == hash(again)


NODE: Any = Cores(16) & Memory(60)  # type checkers find this mistake by themselves
CORES: Any = Cores(2)


@pytest.mark.parametrize(
    ("product", "message"),
    [
        (lambda: CORES * 4, r"write the number of workers first, as in 4 \* Cores\(2\)"),
        (lambda: NODE * 4, r"as in 4 \* \(Cores\(16\) & Memory\(60\)\)"),
        (lambda: NODE + NODE, "cannot be joined: a task runs on one worker, so .* never spans"),
        (lambda: NODE | NODE, "among the alternatives twice; state it once"),
        (lambda: NODE & NODE, "cannot combine .*: a task runs on one worker, so .* never spans"),
        (lambda: CORES + CORES, r"Cores\(2\) and Cores\(2\) cannot be joined: write the amount"),
        (lambda: NODE & CORES, "both are of the kind Cores; state one of them"),
        (lambda: CORES + Memory(1), r"write Cores\(2\) & Memory\(1\)"),
    ],
)
def test_a_product_or_a_sum_is_refused_with_what_to_write(
    product: Callable[[], object], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        product()
