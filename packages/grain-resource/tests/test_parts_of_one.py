"""Parts of a core or a GPU: exact, on one device, begun devices first."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.resource import (
    Cores,
    Fit,
    GPUs,
    Infeasible,
    Insufficient,
    Memory,
    Supply,
    from_data,
    from_text,
    to_data,
)
from grain.resource.testing import check_kind

if TYPE_CHECKING:
    import random

MILLION = 1_000_000


def test_a_part_of_a_gpu_is_one_device_of_which_the_rest_goes_to_others() -> None:
    supply = Supply(GPUs([2, 5]))
    first = supply.alloc(GPUs(0.5))
    second = supply.alloc(GPUs(0.25))

    assert [2] == first.g == second.g
    assert 1 == first.N
    assert 0.5 == first.share
    assert "GPUs([2:0.5])" == repr(first)
    assert "GPUs(0.5)" == first.ask()
    assert "GPUs([5,2:0.25])" == repr(supply.free)
    assert [5] == supply.alloc(GPUs(1)).g
    assert supply.fit(GPUs(0.5)) is Fit.NOT_NOW
    assert supply.fit(GPUs(0.25)) is Fit.NOW


def test_the_begun_device_with_the_least_left_that_is_enough_goes_first() -> None:
    supply = Supply(GPUs(4))
    for part in (0.3, 0.8, 0.95):
        supply.alloc(GPUs(part))
    assert "GPUs([3,0:0.7,1:0.2,2:0.05])" == repr(supply.free)

    assert [1] == supply.alloc(GPUs(0.1)).g
    assert [2] == supply.alloc(GPUs(0.05)).g
    assert [0] == supply.alloc(GPUs(0.5)).g
    assert [3] == supply.alloc(GPUs(0.5)).g


def test_a_part_of_a_core_is_one_cpu_with_one_thread() -> None:
    supply = Supply(Cores([4, 6]) & Memory(4))
    got = supply.alloc(Cores(0.25) & Memory(1))

    assert [4] == got.c
    assert 1 == got.N
    assert "CPU_Cores([4:0.25]) & Memory(1GB)" == repr(got)


@pytest.mark.parametrize("part", [0.1, 1 / 3, 1e-6, 0.999999, Fraction(1, 7)])
def test_parts_are_exact(part: float) -> None:
    units = round(float(part) * MILLION)
    supply = Supply(GPUs(1))
    held = [supply.alloc(GPUs(part)) for _ in range(min(MILLION // units, 1000))]

    if units >= 1000:
        assert supply.fit(GPUs(part)) is Fit.NOT_NOW
    for one in held:
        supply.dealloc(one)
    assert supply.idle()
    assert "GPUs([0])" == repr(supply.free)
    assert None is supply.free._more  # back on the short path


def test_a_whole_device_does_not_fit_on_begun_ones() -> None:
    supply = Supply(GPUs(2))
    supply.alloc(GPUs(0.5))
    supply.alloc(GPUs(1))

    with pytest.raises(Insufficient, match=r"GPUs\(\[0:0.5\]\) cannot give GPUs\(1\) now"):
        supply.alloc(GPUs(1))
    with pytest.raises(Infeasible, match=r"it has GPUs\(\[0-1\]\), asked for GPUs\(3\)"):
        supply.alloc(GPUs(3))


def test_all_parts_of_a_device_together_are_all_of_it() -> None:
    assert "GPUs([3])" == repr(GPUs([[3, 1.0 - 1e-9]]))
    supply = Supply(GPUs(1))
    supply.alloc(GPUs(0.5))
    supply.alloc(GPUs(0.5))

    assert "GPUs([])" == repr(supply.free)
    assert (0, 1) == supply.free.stat()["GPUs"]


@pytest.mark.parametrize(
    ("resource", "data"),
    [
        (GPUs(0.5), 0.5),
        (GPUs([[0, 0.5]]), 0.5),
        (GPUs([[3, 0.25]]), [[3, 0.25]]),
        (GPUs([1, [3, 0.25], [2, 0.1]]), [1, [2, 0.1], [3, 0.25]]),
        (Cores(1e-6), 1e-6),
    ],
)
def test_parts_travel_as_plain_data(resource: GPUs, data: object) -> None:
    assert {resource._kind: data} == to_data(resource)
    again = from_data(json.loads(json.dumps(to_data(resource))))
    assert resource == again == pickle.loads(pickle.dumps(resource)) == copy.deepcopy(resource)
    assert hash(resource) == hash(again)


def test_equal_parts_are_equal_and_others_are_not() -> None:
    half: Any = Fraction(1, 2)
    assert GPUs(0.5) == GPUs(half) == from_text("GPUs=0.5")
    assert GPUs(0.5) != GPUs(0.25)
    assert GPUs(0.5) != GPUs(0)
    assert GPUs(0.5) != Cores(0.5)
    assert GPUs(0.5) & Cores(1) != GPUs(0.25) & Cores(1)
    assert 3 == len({GPUs(0.5), GPUs(0.25), GPUs(0.5), GPUs(0)})


def test_what_is_too_much_of_a_device_is_refused() -> None:
    with pytest.raises(ValueError) as raised:
        GPUs(1.5)

    assert (
        "GPUs(1.5): a part of a GPU is a part of one GPU, so it is below 1, as in GPUs(0.5). "
        "For more than one GPU, ask for whole ones, as in GPUs(2)"
    ) == str(raised.value)


def test_what_was_not_handed_out_cannot_be_given_back() -> None:
    supply = Supply(GPUs(2))
    whole, part = supply.alloc(GPUs(1)), supply.alloc(GPUs(0.5))
    for wrong in (GPUs([[0, 0.5], [1, 0.6]]), GPUs([1]), GPUs([[7, 0.5]]), GPUs([0, 1])):
        before = repr(supply.free)
        with pytest.raises(ValueError):
            supply.dealloc(wrong)
        assert before == repr(supply.free)
    supply.dealloc(part)
    with pytest.raises(ValueError, match="given back twice"):
        supply.dealloc(part)
    supply.dealloc(whole)
    assert supply.idle()


def test_a_worker_with_a_part_of_a_device_never_hands_out_more_than_that() -> None:
    supply = Supply(GPUs([[3, 0.5]]))
    got = supply.alloc(GPUs(0.3))

    assert [3] == got.g
    assert supply.fit(GPUs(0.3)) is Fit.NOT_NOW
    assert supply.fit(GPUs(0.6)) is Fit.NEVER
    assert supply.fit(GPUs(1)) is Fit.NEVER
    supply.dealloc(got)
    with pytest.raises(ValueError, match="given back twice"):
        supply.dealloc(got)
    assert supply.idle()


def test_a_successor_takes_out_the_same_part_of_the_same_device() -> None:
    supply, successor = Supply(GPUs(3)), Supply(GPUs(3))
    held = [supply.alloc(GPUs(part)) for part in (0.6, 0.7, 0.4)]
    supply.dealloc(held.pop(0))
    for one in held:
        successor.reclaim(from_data(to_data(one)))

    assert to_data(supply.free) == to_data(successor.free)
    assert supply.level() == successor.level()
    with pytest.raises(ValueError, match="not free"):
        successor.reclaim(GPUs([1]))
    with pytest.raises(ValueError, match="not free"):
        successor.reclaim(GPUs([2, [1, 0.5]]))
    assert to_data(supply.free) == to_data(successor.free)


def test_a_worker_with_a_begun_device_fits_a_part_tighter_than_any_other() -> None:
    begun, unused, small = Supply(GPUs(4)), Supply(GPUs(4)), Supply(GPUs(1))
    begun.alloc(GPUs(0.001))

    assert begun.slack(GPUs(0.1)) < small.slack(GPUs(0.1)) < unused.slack(GPUs(0.1)) <= 1
    assert 0 == Supply(GPUs([[0, 0.5]])).slack(GPUs(0.5))


def test_for_the_time_to_come_a_part_counts_as_a_whole_device() -> None:
    future = Supply(GPUs(2) & Cores(4))
    first = future.alloc_whole(GPUs(0.1) & Cores(2))

    assert "GPUs([0]) & CPU_Cores([0-1])" == repr(first)
    future.alloc_whole(GPUs(0.1))
    assert not future.free.request(GPUs(0.1))


PARTS = st.one_of(
    st.integers(1, MILLION - 1).map(lambda units: units / MILLION),
    st.sampled_from([0.5, 0.25, 0.1, 1e-6]),
    st.integers(0, 3),
)


@settings(deadline=None)
@given(st.integers(1, 4), st.lists(st.one_of(PARTS, st.just(-1)), max_size=40), st.randoms())
def test_no_device_ever_holds_more_than_one_and_no_order_loses_a_millionth(
    devices: int, steps: list[float], rng: random.Random
) -> None:
    """The model has the units that each device holds; a part goes where the least is left."""
    supply = Supply(GPUs(devices))
    held: list[GPUs] = []
    for step in steps:
        used = dict.fromkeys(range(devices), 0)
        for one in held:
            for device in one.g:
                used[device] += round(one.share * MILLION)
        if step == -1:
            if held:
                supply.dealloc(held.pop(rng.randrange(len(held))))
            continue
        assert all(units <= MILLION for units in used.values())
        unused = [device for device in used if not used[device]]
        if isinstance(step, int):
            expected = unused[:step] if step <= len(unused) else None
        else:
            units = round(step * MILLION)
            begun = [d for d in used if 0 < used[d] <= MILLION - units]
            begun.sort(key=lambda d: (-used[d], d))
            expected = (begun + unused)[:1] or None
        assert supply.free.request(GPUs(step)) == (expected is not None)
        if expected is not None:
            got = supply.alloc(GPUs(step))
            assert isinstance(got, GPUs)
            assert expected == got.g
            held.append(got)
    for one in held:
        supply.dealloc(one)
    assert supply.idle()
    assert Supply(GPUs(devices)).level() == supply.level()


@pytest.mark.parametrize("supply", [3, [1, 4, [6, 0.5]]])
def test_parts_keep_the_laws_of_kinds(supply: Any) -> None:
    check_kind(
        lambda: GPUs(supply),
        lambda rng: GPUs(rng.choice([0, 1, 2, 4, 0.5, 0.25, rng.uniform(0.001, 0.999)])),
        steps=3000,
    )
