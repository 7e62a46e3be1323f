"""The laws of the resource algebra, over random interleavings of alloc and dealloc.

The kinds under test are the built-in ones and a custom one, defined here as a user would.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from grain.resource import (
    ZERO,
    Capacity,
    Cores,
    Fit,
    GPUs,
    Infeasible,
    Insufficient,
    Licences,
    Memory,
    Resource,
    Supply,
    Token,
    WTime,
    from_data,
    resource_kind,
    to_data,
)
from grain_testkit.seats import Seats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self


# A busy machine is not a failure.
LAWS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def a_memory(most: float) -> st.SearchStrategy[Resource]:
    whole, parts = st.integers(0, int(most)), st.floats(0, most, allow_nan=False)
    return st.one_of(whole, parts).map(Memory)


PARTS = st.one_of(st.sampled_from([0.5, 0.25, 0.1]), st.integers(1, 999_999).map(lambda n: n / 1e6))


def ids(most: int) -> st.SearchStrategy[Any]:
    """Numbers, ids, parts of one, and ids with parts of them."""
    some = st.sets(st.integers(0, 70), max_size=most).map(list)
    mixed = st.dictionaries(st.integers(0, 70), st.one_of(st.none(), PARTS), max_size=most)
    return st.one_of(
        st.integers(0, most),
        some,
        PARTS,
        mixed.map(lambda parts: [i if part is None else [i, part] for i, part in parts.items()]),
    )


NAMES = st.sets(st.sampled_from("abcdefgh"), max_size=6).map(sorted)
LIMITS = st.one_of(
    st.integers(1, 10_000).map(lambda t: WTime(T=t)),
    st.integers(1, 10_000).map(lambda t: WTime(T=2 * t, softT=t)),
    st.just(WTime(group="law")),
)


def kinds(most: int) -> list[st.SearchStrategy[Resource]]:
    return [
        ids(most).map(Cores),
        ids(most).map(GPUs),
        a_memory(most),
        st.integers(0, most).map(Capacity),
        st.sampled_from(["a", "b"]).map(Token),
        LIMITS,
        st.one_of(st.integers(0, 4), NAMES).map(Seats),
        licences(most),
    ]


def licences(most: int) -> st.SearchStrategy[Resource]:
    """A number of licences, or numbers by name."""
    named = st.dictionaries(st.sampled_from(["a", "b", "c-1"]), st.integers(0, most), min_size=1)
    return st.one_of(st.integers(0, most), named).map(Licences)


def composites(most: int) -> st.SearchStrategy[Resource]:
    """Any subset of the kinds, joined in any order."""

    def joined(parts: Iterable[Resource]) -> Resource:
        whole = ZERO
        for part in parts:
            whole = whole & part
        return whole

    chosen = st.lists(st.sampled_from(range(8)), unique=True)
    return chosen.flatmap(lambda which: st.tuples(*[kinds(most)[i] for i in which])).map(joined)


SUPPLIES = composites(10)
WISHES = st.sampled_from(
    [Cores("all"), GPUs("all"), Cores("all") & Memory(1), GPUs(2, spread=True)]
)
REQUESTS = st.one_of(composites(3), *kinds(4), PARTS.map(GPUs), WISHES)
# At each step: ask for a resource, or give back the allocation of this number among those held.
STEPS = st.lists(st.one_of(REQUESTS, st.integers(0, 20)), max_size=25)


def things(allocation: Resource) -> Counter[tuple[str, object]]:
    """The named things that an allocation holds, in millionths."""
    held: Counter[tuple[str, object]] = Counter()
    for kind, part in allocation.parts().items():
        if kind == "Seats":
            held.update({(kind, name): 1_000_000 for name in part.names})
        if isinstance(part, Cores | GPUs):
            data = to_data(part)[kind]
            if isinstance(data, int):
                data = list(range(data))
            for one in [[0, data]] if isinstance(data, float) else data:
                number, share = one if isinstance(one, list) else (one, 1)
                held[kind, number] += round(share * 1_000_000)
    return held


def state(supply: Supply) -> tuple[Any, Any]:
    """All that alloc may change; the limits of these supplies count down by themselves."""
    free = to_data(supply.free)
    free.pop("WTime", None)
    stat = supply.free.stat()
    stat.pop("WTime", None)
    return free, stat


@settings(LAWS, max_examples=150)
@given(total=SUPPLIES, steps=STEPS)
def test_the_laws_hold_in_any_order_of_allocating_and_giving_back(
    total: Resource, steps: list[Resource | int]
) -> None:
    """In any order of alloc and dealloc: request agrees with alloc, nothing is handed out twice,
    refusals change nothing, shares stay within the whole, and giving back restores exactly."""
    supply = Supply(total)
    start = state(supply)
    owned = things(supply.total)
    held: list[Resource] = []
    for step in steps:
        if isinstance(step, int):
            if held:
                supply.dealloc(held.pop(step % len(held)))
        else:
            before = state(supply)
            fits = supply.fit(step)
            possible = supply.free.request(step)
            try:
                held.append(supply.alloc(step))
            except Insufficient:
                answer = Fit.NOT_NOW
            except Infeasible:
                answer = Fit.NEVER
            else:
                answer = Fit.NOW

            assert answer == fits
            assert (answer is Fit.NOW) == possible
            assert answer is Fit.NOW or before == state(supply)
        out = sum((things(res) for res in held), start=Counter())

        assert owned == out + things(supply.free)
        assert all(0 <= p <= q for p, q in supply.free.stat().values())
    for res in held:
        supply.dealloc(res)

    assert start == state(supply)
    assert supply.idle()


@LAWS
@given(total=SUPPLIES, first=REQUESTS, steps=STEPS)
def test_an_allocation_that_is_given_back_at_once_leaves_the_supply_as_it_was(
    total: Resource, first: Resource, steps: list[Resource | int]
) -> None:
    supply = Supply(total)
    for step in steps:
        if isinstance(step, Resource) and supply.fit(step) is Fit.NOW:
            supply.alloc(step)
    before = state(supply)
    if supply.fit(first) is Fit.NOW:
        supply.dealloc(supply.alloc(first))

    assert before == state(supply)


@settings(LAWS, max_examples=50)
@given(total=SUPPLIES, steps=STEPS, others=STEPS)
def test_what_a_supply_handed_out_another_one_takes_out_as_a_whole_or_not_at_all(
    total: Resource, steps: list[Resource | int], others: list[Resource | int]
) -> None:
    """As a head does that takes over a worker: it rebuilds the account of the head before."""
    supply, successor = Supply(total), Supply(total)
    for step in others:
        if isinstance(step, Resource) and successor.fit(step) is Fit.NOW:
            successor.alloc(step)
    for step in steps:
        if isinstance(step, int) or supply.fit(step) is not Fit.NOW:
            continue
        handed_out = supply.alloc(step)
        before = state(successor)
        try:
            successor.reclaim(handed_out)
        except ValueError:
            assert before == state(successor)
        else:
            after = state(successor)
            successor.dealloc(handed_out)
            assert before == state(successor)
            successor.reclaim(handed_out)
            assert after == state(successor)


@settings(LAWS, max_examples=50)
@given(total=SUPPLIES, steps=STEPS)
def test_a_supply_rebuilt_from_what_was_handed_out_has_the_same_left(
    total: Resource, steps: list[Resource | int]
) -> None:
    supply, successor = Supply(total), Supply(total)
    for step in steps:
        if isinstance(step, Resource) and supply.fit(step) is Fit.NOW:
            successor.reclaim(supply.alloc(step))

    assert state(supply) == state(successor)


@LAWS
@given(total=SUPPLIES, request=REQUESTS)
def test_an_allocation_can_be_asked_for_again(total: Resource, request: Resource) -> None:
    """Once given back, an allocation is itself a request that the same supply meets exactly."""
    supply = Supply(total)
    if supply.fit(request) is not Fit.NOW:
        return
    first = supply.alloc(request)
    supply.dealloc(first)

    assert supply.free.request(first)
    assert first == supply.alloc(first)


@LAWS
@given(total=SUPPLIES, request=REQUESTS)
@example(total=GPUs(1), request=GPUs([[0, 0.5], [1, 0.5]]))
def test_allocation_gives_what_was_asked(total: Resource, request: Resource) -> None:
    """An allocation has the parts that were asked for, as many, and the implied capacity."""
    supply = Supply(total)
    if supply.fit(request) is not Fit.NOW:
        return
    got, asked, have = supply.alloc(request).parts(), request.parts(), total.parts()

    implied = {"Capacity"} & have.keys()
    assert asked.keys() | implied == got.keys()
    for kind, part in got.items():
        if kind in asked and kind != "Seats" and asked[kind] not in (Cores("all"), GPUs("all")):
            assert asked[kind].ask().replace(", spread=True", "") == part.ask()
    assert "Capacity" not in implied or got["Capacity"] == asked.get("Capacity", Capacity(1))


@LAWS
@given(
    amount=st.integers(0, 5),
    request=st.one_of(st.just(ZERO), st.just(Cores(1)), st.just(Token("a")), st.just(Memory(0.5))),
)
def test_a_worker_of_a_capacity_takes_so_many_tasks_however_little_they_ask_for(
    amount: int, request: Resource
) -> None:
    supply = Supply(Cores(9) & Memory(9) & Token("a") & Capacity(amount))
    for _ in range(amount):
        supply.alloc(request)

    assert (0, amount) == supply.free.stat()["Capacity"]
    assert supply.fit(request) is (Fit.NOT_NOW if amount else Fit.NEVER)


@LAWS
@given(
    a=st.lists(REQUESTS, max_size=6), b=st.lists(REQUESTS, max_size=6), probes=st.lists(REQUESTS)
)
@pytest.mark.parametrize("total", [Cores(4) & Memory(2) & Seats(3) & Capacity(4), Cores(3), ZERO])
def test_supplies_of_equal_level_answer_every_request_alike(
    total: Resource, a: list[Resource], b: list[Resource], probes: list[Resource]
) -> None:
    one, other = Supply(total), Supply(total)
    for supply, requests in [(one, a), (other, b)]:
        for request in requests:
            if supply.fit(request) is Fit.NOW:
                supply.alloc(request)
    if one.level() != other.level():
        return
    for probe in [
        *probes,
        *(Cores(n) for n in range(6)),
        *(Seats(n) for n in range(4)),
        *(Memory(m / 4) for m in range(9)),
        ZERO,
    ]:
        assert one.free.request(probe) == other.free.request(probe)


@LAWS
@given(names=NAMES, other=NAMES)
def test_the_default_level_tells_supplies_apart_by_all_that_is_public(
    names: list[str], other: list[str]
) -> None:
    assert (names == other) == (Supply(Seats(names)).level() == Supply(Seats(other)).level())


@LAWS
@given(st.permutations(range(7)), st.integers(0, 6), st.integers(0, 6), st.data())
def test_joining_is_commutative_and_associative_and_zero_is_its_identity(
    order: list[int], i: int, j: int, data: st.DataObject
) -> None:
    parts = [data.draw(kinds(5)[k]) for k in order]
    i, j = sorted((i, j))
    groups = [parts[:i], parts[i:j], parts[j:]]
    a, b, c = (_joined(group) for group in groups)

    assert {k: v for part in parts for k, v in part.parts().items()} == (a & b & c).parts()
    assert a & b == b & a
    assert (a & b) & c == a & (b & c)
    assert hash((a & b) & c) == hash(c & (b & a))
    assert a == a & ZERO
    assert a == ZERO & a


def _joined(parts: list[Resource]) -> Resource:
    whole = ZERO
    for part in parts:
        whole &= part
    return whole


@LAWS
@given(resource=composites(10))
def test_a_resource_is_the_same_after_json(resource: Resource) -> None:
    """A resource is the same after a way through plain data, as JSON."""
    again = from_data(json.loads(json.dumps(to_data(resource))))

    assert resource == again
    assert hash(resource) == hash(again)
    assert repr(resource) == repr(again)


@LAWS
@given(total=SUPPLIES, steps=STEPS)
def test_the_rest_of_a_used_supply_survives_the_wire(
    total: Resource, steps: list[Resource | int]
) -> None:
    """The rest of a supply travels exactly; a time limit travels as time left."""
    supply = Supply(total)
    for step in steps:
        if isinstance(step, Resource) and supply.fit(step) is Fit.NOW:
            supply.alloc(step)
    data = to_data(supply.free)
    again = to_data(from_data(json.loads(json.dumps(data))))
    left, left_again = data.pop("WTime", {}), again.pop("WTime", {})

    assert data == again
    assert left.get("T", 0) == pytest.approx(left_again.get("T", 0), abs=5)


@LAWS
@given(total=SUPPLIES, request=REQUESTS)
def test_allocating_changes_neither_the_request_nor_the_resource_of_the_supply(
    total: Resource, request: Resource
) -> None:
    before, asked = to_data(total), to_data(request)
    supply = Supply(total)
    if supply.fit(request) is Fit.NOW:
        supply.alloc(request)

    assert before == to_data(total)
    assert asked == to_data(request)


@resource_kind("LawFailing")
class Failing(Memory):
    """A kind that says yes and then fails."""

    def _alloc(self, res: Self) -> Self:  # noqa: ARG002
        raise RuntimeError("no disk")


@pytest.mark.parametrize("failing_first", [True, False])
def test_if_a_kind_fails_to_allocate_the_parts_of_the_others_are_given_back(
    failing_first: bool,
) -> None:
    """If a kind fails while it allocates, what the others gave is taken back."""

    def node(n: int) -> Resource:
        parts = [Cores(n) & Memory(n), Failing(n)]
        return parts[1] & parts[0] if failing_first else parts[0] & parts[1]

    supply = Supply(node(8))
    with pytest.raises(RuntimeError, match="no disk"):
        supply.alloc(node(3))

    assert supply.idle()
    assert (8, 8) == supply.free.stat()["Cores"]


def test_memory_does_not_drift() -> None:
    """A hundred thousand allocations of odd amounts of memory restore exactly what was there."""
    amounts = [Memory(x) for x in (0.1, 0.2, 0.7, 1.3, 1e-6, 3.3333333)]
    memory = Memory(64.1)
    rng = random.Random(1)
    held: list[Resource] = []
    for _ in range(100_000):
        if held and (len(held) > 30 or rng.random() < 0.5):
            memory.dealloc(held.pop())
        held.append(memory.alloc(rng.choice(amounts)))
        if len(held) > 1:
            memory.dealloc(held.pop(0))
    for res in held:
        memory.dealloc(res)

    assert Memory(64.1) == memory
    assert 64.1 == memory.M
