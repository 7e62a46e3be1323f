"""Supply: the account of one worker."""

from __future__ import annotations

import pytest

from grain.resource import (
    Capacity,
    Cores,
    Fit,
    GPUs,
    Infeasible,
    Insufficient,
    Memory,
    Node,
    Resource,
    Supply,
)


def test_a_supply_answers_now_or_not_now_or_never() -> None:
    """Now; not now, as part of it is in use; never, as there is not enough."""
    supply = Supply(Node(4, 8))
    supply.alloc(Cores(2))

    assert Fit.NOW is supply.fit(Cores(2))
    assert Fit.NOT_NOW is supply.fit(Cores(3))
    assert Fit.NEVER is supply.fit(Cores(5))
    assert Fit.NEVER is supply.fit(GPUs(1))
    assert ["now", "not now", "never"] == [fit.value for fit in Fit]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Cores(5), "it has CPU_Cores([0-3]), asked for Cores(5)"),
        (Node(1, 9), "it has Memory(8GB), asked for Memory(9)"),
        (GPUs(1), "it has no GPUs at all"),
        (Capacity(3), "it has Capacity(2), asked for Capacity(3)"),
    ],
)
def test_a_request_that_can_never_be_met_names_the_part_that_cannot(
    request_: Resource, text: str
) -> None:
    """A request that can never be met says which part, also while the supply is in use."""
    supply = Supply(Node(4, 8) & Capacity(2))
    supply.alloc(Cores(3))
    with pytest.raises(Infeasible) as raised:
        supply.alloc(request_)

    assert text == str(raised.value)
    assert text == supply.why_never(request_)


def test_a_request_that_has_to_wait_states_what_is_left() -> None:
    supply = Supply(Node(4, 8))
    supply.alloc(Cores(3))
    with pytest.raises(Insufficient) as raised:
        supply.alloc(Node(2, 4))

    assert "CPU_Cores([3]) cannot give Cores(2) now" == str(raised.value)


def test_supplies_made_of_one_resource_do_not_share_it() -> None:
    stated = Node(4, 8)
    one, other = Supply(stated), Supply(stated)
    one.alloc(Cores(4))

    assert Node(4, 8) == stated == other.free
    assert Node(4, 8) == one.total


def test_a_supply_is_idle_when_all_of_it_is_free() -> None:
    supply = Supply(Node(4, 8))

    assert supply.idle()
    got = supply.alloc(Cores(1))
    assert not supply.idle()
    supply.dealloc(got)
    assert supply.idle()


def test_level_of_cores_is_their_number() -> None:
    """Workers with as many free cores are alike, whichever they are; those with fewer are not."""
    one, other = Supply(Cores([0, 1, 2])), Supply(Cores([4, 5, 7]))

    assert one.level() == other.level()
    one.alloc(Cores(1))
    assert one.level() != other.level()


def test_the_tighter_fit_has_less_slack() -> None:
    """The tighter fit has less slack; what was not asked for counts as left over."""
    small, large = Supply(Cores(4)), Supply(Cores(16))
    with_gpus = Supply(Cores(4) & GPUs(1))

    assert 0 == small.slack(Cores(4))
    assert small.slack(Cores(2)) < large.slack(Cores(2))
    assert small.slack(Cores(2)) < with_gpus.slack(Cores(2))
    with_gpus.alloc(GPUs(1))
    assert small.slack(Cores(2)) == with_gpus.slack(Cores(2))
    assert 0 == Supply(Memory(0)).slack(Memory(0)) == Supply(Cores(0)).slack(Cores(0))


def test_a_second_giving_back_is_refused() -> None:
    supply = Supply(Node(4, 8))
    got = supply.alloc(Node(1, 1))
    supply.dealloc(got)
    with pytest.raises(ValueError, match="given back twice"):
        supply.dealloc(got)

    assert supply.idle()


def test_a_supply_takes_out_exactly_what_another_one_of_its_worker_handed_out() -> None:
    supply = Supply(Node(4, 8) & Capacity(2))
    supply.reclaim(Cores([1, 3]) & Memory(5) & Capacity(1))

    assert Cores([0, 2]) & Memory(3) & Capacity(1) == supply.free
    supply.dealloc(Cores([1, 3]) & Memory(5) & Capacity(1))
    assert supply.idle()


@pytest.mark.parametrize(
    "refused",
    [
        Cores([0]) & Memory(5),  # the memory is in use
        Cores([1]) & Memory(1),  # the core is
        Cores([0]) & Memory(1) & Capacity(3),
        Cores([0]) & Memory(1) & GPUs(1),  # it has none
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_a_supply_that_cannot_take_out_all_of_it_takes_out_nothing(
    refused: Resource, backwards: bool
) -> None:
    """In whatever order it has its kinds."""
    total = (
        Capacity(2) & (Memory(8) & Cores(4)) if backwards else Cores(4) & Memory(8) & Capacity(2)
    )
    supply = Supply(total)
    supply.reclaim(Cores([1]) & Memory(4) & Capacity(1))
    with pytest.raises(ValueError, match="is not"):
        supply.reclaim(refused)

    assert Cores([0, 2, 3]) & Memory(4) & Capacity(1) == supply.free


def test_a_supply_shows_what_it_has_and_what_is_free() -> None:
    supply = Supply(Cores(4))
    supply.alloc(Cores(1))

    assert "<Supply of CPU_Cores([0-3]), free CPU_Cores([1-3])>" == repr(supply)
