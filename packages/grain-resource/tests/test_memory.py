"""Memory, in GB."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from grain.resource import Cores, Insufficient, Memory, Node, Supply, from_data, from_text, to_data


def test_both_attributes_are_the_same_value_and_an_int_where_it_is_whole() -> None:
    assert (8, 8) == (Memory(8).M, Memory(8).m)
    assert isinstance(Memory(8.0).M, int)
    assert 0.5 == Memory(0.5).m


def test_a_request_gets_exactly_what_it_asked_for() -> None:
    """A request gets exactly what it asked for, which is missing from the supply then."""
    supply = Supply(Memory(10))

    assert Memory(2.5) == supply.alloc(Memory(2.5))
    assert Memory(7.5) == supply.free
    assert {"Memory": (7_500_000, 10_000_000)} == supply.free.stat()


def test_ten_tenths_are_one() -> None:
    supply = Memory(1)
    for _ in range(10):
        supply.alloc(Memory(0.1))

    assert 0 == supply.M


def test_a_request_for_little_is_never_one_for_nothing() -> None:
    """Amounts are rounded to kB, but a request for little is never one for nothing."""
    assert Memory(0.1) == Memory(0.1 + 1e-9)
    assert Memory(1e-6) == Memory(1e-12)
    assert Memory(0) != Memory(1e-12)


@pytest.mark.parametrize(
    ("memory", "shown"), [(Memory(8), "Memory(8GB)"), (Memory(2.5), "Memory(2.5GB)")]
)
def test_memory_is_shown_with_its_unit(memory: Memory, shown: str) -> None:
    assert shown == repr(memory)


def test_the_data_of_memory_are_the_number_of_gb() -> None:
    assert {"Memory": 2.5} == to_data(Memory(Decimal("2.5")))  # type: ignore[arg-type]


def test_the_refusal_states_what_is_left_and_what_was_asked_for() -> None:
    with pytest.raises(Insufficient) as raised:
        Memory(4).alloc(Memory(4.5))

    assert "Memory(4GB) cannot give Memory(4.5) now" == str(raised.value)


def test_more_than_was_taken_cannot_be_given_back() -> None:
    supply = Memory(4)
    got = supply.alloc(Memory(3))
    supply.dealloc(got)
    with pytest.raises(ValueError) as raised:
        supply.dealloc(got)

    assert "Memory(3GB) was given back twice, or not allocated from here" == str(raised.value)
    assert Memory(4) == supply


def test_a_node_is_cores_and_memory() -> None:
    """``Node(N, M)`` is N cores and M GB."""
    assert Cores(16) & Memory(10) == Node(N=16, M=10)
    assert "CPU_Cores([0-15]) & Memory(10GB)" == repr(Node(16, 10))


NO_NUMBER = "give the memory in GB as a number, as in Memory(8)"
NO_AMOUNT = "memory in GB cannot be negative, infinite or NaN"


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (-1, ValueError, f"Memory(-1): {NO_AMOUNT}"),
        (float("nan"), ValueError, f"Memory(nan): {NO_AMOUNT}"),
        (float("inf"), ValueError, f"Memory(inf): {NO_AMOUNT}"),
        (1e308, ValueError, f"Memory(1e+308): {NO_AMOUNT}"),
        (10**400, ValueError, f"Memory({10**400}): {NO_AMOUNT}"),
        ("8GB", TypeError, f"Memory('8GB'): {NO_NUMBER}"),
        ("8", TypeError, f"Memory('8'): {NO_NUMBER}"),
        (True, TypeError, f"Memory(True): {NO_NUMBER}"),
        (None, TypeError, f"Memory(None): {NO_NUMBER}"),
        ([8], TypeError, f"Memory([8]): {NO_NUMBER}"),
    ],
)
def test_what_is_no_amount_of_memory_is_refused_with_a_remedy(
    given: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        Memory(given)

    assert text == str(raised.value)


def after(most: float, *failed: float) -> Memory:
    """Return the request of a group after attempts for which these GB were too little."""
    memory: Memory | None = Memory(most, group="opt")
    for amount in failed:
        assert memory is not None
        memory = memory.after(amount)
    assert memory is not None
    return memory


class Scalar:
    """A number of another library, as one of NumPy."""

    def __index__(self) -> int:
        return 4


class TestGroups:
    """Requests whose amount is learned."""

    def test_it_keeps_what_is_stated_through_plain_data_and_text(self) -> None:
        for request in (
            Memory(32, group="opt"),
            Memory(group="opt"),
            Memory(32, group="opt", size=12.5),
            after(32, 3.1, 7.4),
        ):
            back = from_data(to_data(request))
            assert isinstance(back, Memory)
            assert (back, back.most, back.tried) == (request, request.most, request.tried)
        assert from_text(Memory(32, group="opt", size=12).ask()) == Memory(32, group="opt", size=12)

    @pytest.mark.parametrize("size", [4, 4.0, Fraction(4), Decimal(4), Scalar()])
    def test_its_size_is_any_real_number(self, size: Any) -> None:
        request = Memory(32, group="opt", size=size)
        assert (4.0, float) == (request.size, type(request.size))
        assert {"Memory": {"M": 32, "group": "opt", "size": 4.0}} == to_data(request)

    def test_its_amount_is_the_most_of_any_attempt(self) -> None:
        assert Memory(32, group="opt").most == 32
        assert Memory(group="opt").most == math.inf

    def test_an_attempt_gets_an_amount_and_stays_in_the_group(self) -> None:
        given = Memory(32, group="opt", size=3).given(4.5, last=True)
        back = from_data(to_data(given))
        assert isinstance(back, Memory)
        assert (given.last, back.last) == (True, True)
        assert (given.M, given.group, given.size) == (4.5, "opt", 3)
        supply = Memory(8)._supplied()
        assert supply.alloc(given) is given
        supply.dealloc(given)
        assert supply == Memory(8)

    def test_a_further_attempt_is_another_request(self) -> None:
        first, second = after(32), after(32, 3.1)
        assert [(1, 0.0), (2, 3.1), (3, 9.0)] == [
            first.tried,
            second.tried,
            after(32, 3.1, 9).tried,
        ]
        assert first != second

    def test_after_the_most_or_five_attempts_there_is_none(self) -> None:
        assert after(32, 3.1).after(32.0) is None
        assert after(32, 3.1).after(8.0, last=True) is None
        assert after(32, 1, 2, 3).after(4.0) is not None
        assert after(32, 1, 2, 3, 4).after(5.0) is None

    @pytest.mark.parametrize(
        ("stated", "error", "text"),
        [
            ({"group": "opt", "size": 0}, ValueError, "the size of a problem is a positive number"),
            (
                {"group": "opt", "size": -3},
                ValueError,
                "the size of a problem is a positive number",
            ),
            (
                {"group": "opt", "size": 10**400},
                ValueError,
                "Memory(size=...): this number is beyond 1.8e+308: state the size",
            ),
            ({"group": "opt", "size": math.nan}, ValueError, "the size of a problem is a positive"),
            ({"group": "opt", "size": "12"}, TypeError, "the size of a problem is a number"),
            ({"group": "opt", "size": True}, TypeError, "the size of a problem is a number"),
            ({"group": "opt", "size": [4]}, TypeError, "the size of a problem is a number"),
            ({"M": 8, "size": 3}, ValueError, 'as in Memory(32, group="opt", size=120)'),
            ({"group": ""}, ValueError, "a group is a name, without blanks around it"),
            ({"group": 3}, TypeError, "a group is a name, a str"),
            ({"M": -1, "group": "opt"}, ValueError, "cannot be negative"),
        ],
    )
    def test_what_makes_no_sense_is_refused_with_a_remedy(
        self, stated: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=re.escape(text)):
            Memory(**stated)
