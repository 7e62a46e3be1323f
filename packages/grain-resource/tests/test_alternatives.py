"""Alternatives: their algebra, their plain data, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grain.resource import (
    ZERO,
    Cores,
    Either,
    GPUs,
    Memory,
    Node,
    Opaque,
    Resource,
    Supply,
    Token,
    WTime,
    from_data,
    from_text,
    resource_kind,
    to_data,
)

if TYPE_CHECKING:
    from collections.abc import Callable

LAWS = settings(deadline=None)

COMPUTING = st.one_of(
    st.integers(1, 8).map(Cores),
    st.integers(1, 8).map(GPUs),
    st.builds(lambda n, g: Cores(n) & GPUs(g), st.integers(1, 8), st.integers(1, 8)),
)
BESIDE = st.one_of(
    st.integers(1, 8).map(Memory),
    st.integers(1, 8).map(lambda t: WTime(T=t)),
    st.builds(lambda m, t: Memory(m) & Token(t), st.integers(1, 8), st.sampled_from("ab")),
)


def distinct(of: st.SearchStrategy[Resource], least: int, most: int) -> Any:
    return st.lists(of, min_size=least, max_size=most, unique=True)


def either(alternatives: list[Resource]) -> Resource:
    return alternatives[0] if len(alternatives) == 1 else Either(*alternatives)


# ---- the algebra


@LAWS
@given(distinct(COMPUTING, 3, 6), st.data())
def test_alternatives_are_associative_and_keep_their_order(
    parts: list[Resource], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(parts) - 1))
    first, then = either(parts[:at]), either(parts[at:])

    assert tuple(parts) == (first | then).alternatives()
    assert (parts[0] | parts[1]) | parts[2] == parts[0] | (parts[1] | parts[2])
    assert Either(*parts) == first | then
    assert hash(Either(*parts)) == hash(first | then)
    assert Either(*parts) != Either(*parts[::-1])


@LAWS
@given(distinct(COMPUTING, 1, 4), distinct(BESIDE, 1, 4))
def test_joining_distributes_and_the_choice_of_the_left_one_goes_first(
    left: list[Resource], right: list[Resource]
) -> None:
    expected = [a & b for a in left for b in right]

    assert tuple(expected) == (either(left) & either(right)).alternatives()
    if len(left) > 1:
        some, rest = either(left[:1]), either(left[1:])
        assert (some | rest) & right[0] == (some & right[0]) | (rest & right[0])
        assert right[0] & (some | rest) == (right[0] & some) | (right[0] & rest)


@LAWS
@given(distinct(COMPUTING, 2, 4), BESIDE, BESIDE, st.integers(0, 100))
def test_joining_alternatives_is_associative_and_keeps_the_preference(
    parts: list[Resource], one: Resource, other: Resource, prefer: float
) -> None:
    assume(not one.parts().keys() & other.parts().keys())
    asked = Either(*parts, prefer=prefer)

    assert (asked & one) & other == asked & (one & other) == one & asked & other
    assert prefer == (one & asked).prefer
    assert ZERO & asked == asked & ZERO == asked


@LAWS
@given(distinct(COMPUTING, 2, 4), st.sampled_from([0, 2.5, 60]))
def test_alternatives_become_equal_ones_through_plain_data_and_pickles(
    parts: list[Resource], prefer: float
) -> None:
    asked = Either(*parts, prefer=prefer)
    copies = [
        from_data(json.loads(json.dumps(to_data(asked)))),
        pickle.loads(pickle.dumps(asked)),
        copy.deepcopy(asked),
    ]

    for one in copies:
        assert asked == one
        assert hash(asked) == hash(one)
        assert tuple(parts) == one.alternatives()
    assert eval(asked.ask(), {"Cores": Cores, "GPUs": GPUs, "Either": Either}) == asked


def test_alternatives_differ_by_their_preference_and_from_every_plain_request() -> None:
    asked = GPUs(1) | Memory(2)

    assert asked != Either(GPUs(1), Memory(2), prefer=1)
    assert Memory(2) != asked
    assert asked != Memory(2)
    assert asked != 3
    assert (Memory(2),) == Memory(2).alternatives()


def test_and_binds_more_tightly_than_or() -> None:
    asked = GPUs(1) & Cores(2) | Node(16, 64) & WTime(T=60)

    assert 'GPUs(1) & Cores(2) | Cores(16) & Memory(64) & WTime(T="00:01:00")' == asked.ask()
    assert "GPUs([0]) & CPU_Cores([0-1]) | " in repr(asked)
    assert "Either(GPUs(1), Cores(2), prefer=60)" == Either(GPUs(1), Cores(2), prefer=60).ask()


def test_the_wait_for_the_first_alternative_is_a_time_like_others() -> None:
    assert 90 == Either(GPUs(1), Cores(1), prefer="00:01:30").prefer
    assert 0 == (GPUs(1) | Cores(1)).prefer
    # What comes behind waits with the others.
    assert Either(GPUs(1), Cores(1), Memory(1), prefer=5) == (
        Either(GPUs(1), Cores(1), prefer=5) | Memory(1)
    )


# ---- plain data and text


def test_plain_data_of_alternatives_stand_beside_other_kinds() -> None:
    data = {"Either": [{"GPUs": 1}, {"Cores": 16}], "WTime": {"T": 60}}

    assert (GPUs(1) | Cores(16)) & WTime(T=60) == from_data(data)


def test_a_kind_without_a_class_is_kept_within_alternatives() -> None:
    data = {"Either": [{"Nowhere": 3}, {"Cores": 1}]}

    asked = from_data(data, unknown="keep")

    assert (Opaque("Nowhere", 3), Cores(1)) == asked.alternatives()
    assert data == to_data(asked)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPUs=1|Cores=16", GPUs(1) | Cores(16)),
        (" GPUs = 1 | Cores = 16 , Memory = 8 ", GPUs(1) | Cores(16) & Memory(8)),
        ("GPUs=1,prefer=60|Cores=16", Either(GPUs(1), Cores(16), prefer=60)),
        ("prefer=0:01:00,GPUs=1|Cores=16", Either(GPUs(1), Cores(16), prefer=60)),
        ('Token="a|b"', Token("a|b")),
        ('Token="a|b"|Cores=2|Cores=1', Token("a|b") | Cores(2) | Cores(1)),
    ],
)
def test_a_bar_separates_alternatives_in_a_text(text: str, expected: Resource) -> None:
    assert expected == from_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("GPUs=1|", "an alternative is missing"),
        ("|Cores=1", "an alternative is missing"),
        ("GPUs=1| |Cores=1", "an alternative is missing"),
        ("GPUs=1|Cores=16,prefer=60", "prefer stands in the first alternative"),
        ("prefer=60|Cores=16", "prefer stands in the first alternative"),
        ("GPUs=1,prefer=60", "the time to wait for the first of several alternatives"),
        ("GPUs=1,prefer=5m|Cores=16", 'write prefer="00:05:00"'),
        ("Cores=1|Cores=1", "twice"),
        ("Cores=1|cores=2", "Did you mean Cores"),
        ("Cores=1|Cores", "'Cores' in 'Cores': write Kind=value"),
        ("Cores(1)|Cores(2", "as in Python"),
    ],
)
def test_a_text_of_alternatives_that_is_wrong_is_refused_with_the_reason(
    text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_text(text)


# ---- what is refused


EITHER = GPUs(1) | Cores(16)
PREFERRED = Either(GPUs(1), Cores(16), prefer=60)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cores(1) | Cores(1), "Cores(1) is among the alternatives twice; state it once"),
        (lambda: EITHER | GPUs(1), "GPUs(1) is among the alternatives twice"),
        (lambda: Cores(1) | ZERO, "Ø asks for nothing"),
        (lambda: Either(Cores(1)), "two alternatives or more"),
        (lambda: Memory(1) | PREFERRED, "state prefer once, for all of them"),
        (lambda: Either(PREFERRED, Memory(1), prefer=3), "state prefer once, for all of them"),
        (lambda: PREFERRED & (Memory(1) | Memory(2)), "which of the combinations is preferred"),
        (lambda: EITHER & Cores(2), "cannot combine Cores(16) with Cores(2)"),
        (lambda: Either(*map(Cores, range(1, 18))), "17 alternatives of one task; 16 are the most"),
        (
            lambda: Either(*map(Cores, range(1, 9))) & Either(*map(Memory, range(1, 9))),
            "alternatives of one task; 16 are the most",
        ),
        (lambda: Either(Cores(1), Cores(2), prefer=-1), "prefer=-1: the wait for the first"),
        (lambda: Either(Cores(1), Cores(2), prefer=math.inf), "prefer=inf: the wait"),
        (lambda: Either(Cores(1), Cores(2), prefer="2h"), 'write prefer="02:00:00"'),
        (lambda: from_data({"Either": 3}), "is not a list of alternatives"),
        (lambda: from_data({"Either": [{"Cores": 1}, 3]}), "is not a list of alternatives"),
        (lambda: from_data({"Either": {"of": [], "wait": 3}}), "is not a list of alternatives"),
        (
            lambda: from_data({"Either": {"of": [{"Cores": 1}, {"Cores": 2}], "prefer": []}}),
            "prefer=[]: the wait for the first",
        ),
    ],
)
def test_alternatives_that_make_no_sense_are_a_value_error(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError) as raised:
        make()

    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cores(1) | 3, "Cores(1) | 3: each alternative is a resource, and 3 is not"),  # type: ignore[operator]
        (lambda: None | Cores(1), "None | Cores(1): each alternative is a resource"),  # type: ignore[operator]
        (lambda: Either(Cores(1), Cores(2), prefer=None), "prefer=None: the wait"),  # type: ignore[arg-type]
        (lambda: EITHER + Memory(1), "joined by &: write (GPUs(1) | Cores(16)) & Memory(1)"),  # type: ignore[operator]
        (lambda: len @ EITHER, "then write len @ (GPUs(1) | Cores(16))"),  # type: ignore[operator]
        (lambda: Supply(EITHER), "which only a task can ask for"),
        (lambda: Supply(Cores(4)).alloc(EITHER), "which only a task can ask for"),
        (lambda: Cores(4).request(EITHER), "which only a task can ask for"),
        (lambda: EITHER.request(Cores(4)), "which only a task can ask for"),
        (lambda: EITHER.get(Cores), "which only a task can ask for"),
    ],
)
def test_alternatives_in_a_role_that_they_cannot_play_are_a_type_error(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(TypeError) as raised:
        make()

    assert message in str(raised.value)


def test_alternatives_have_none_of_the_attributes_of_an_allocation() -> None:
    with pytest.raises(AttributeError, match=r"each of its alternatives\(\) may have it"):
        _ = EITHER.N


def test_no_kind_has_the_name_of_alternatives_in_plain_data() -> None:
    with pytest.raises(ValueError, match="the kind Either is"):

        @resource_kind("Either")
        class Other(type(Cores(1))):  # type: ignore[misc]
            __slots__ = ()
