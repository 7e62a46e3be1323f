"""The laws of docs/queue-files.md, with a fault at each operation and in many orders."""

from __future__ import annotations

import pytest

from grain_testkit.queue_mistakes import (
    MISTAKES,
    ClearedAtOnce,
    EndedOverwritten,
)
from grain_testkit.queue_world import (
    SCENARIOS,
    Broken,
    Kit,
    every_fault,
    given_up,
    nearly_full,
    random_world,
    slow_submitter,
)

# The scenario in which a mistake is found.
FOUND_BY = {
    "NoDirectorySync": "one day",
    "NoFileSync": "one day",
    "NumberFromListing": "one day",
    "BegunInPlace": "one day",
    "NextWithoutEnd": "one day",
    "CancelByWish": "one day",
    "OwnLinkNotKnown": "one day",
    "JobNotSafeAtBegin": "one job",
    "BucketNotSafe": "next bucket",
    "RemovedBeforePacked": "old bucket",
    "PackedEarly": "old bucket",
}


@pytest.mark.parametrize("name", ["one job", "run again", "cancelled while it runs", "next bucket"])
def test_the_laws_hold_with_a_fault_at_each_operation(name: str) -> None:
    scenario, server = SCENARIOS[name]

    assert every_fault(scenario, server=server, crashes=1) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_laws_hold_with_many_crashes_at_each_operation(name: str) -> None:
    scenario, server = SCENARIOS[name]

    assert every_fault(scenario, server=server, crashes=8) > 500


@pytest.mark.parametrize("seed", range(10))
def test_the_laws_hold_whoever_comes_first(seed: int) -> None:
    random_world(seed)
    random_world(seed, server=nearly_full)


@pytest.mark.nightly
@pytest.mark.parametrize("hundred", range(20))
def test_the_laws_hold_in_thousands_of_orders(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        random_world(seed, server=nearly_full if seed % 2 else None, danger=0.02)


def test_a_submitter_that_slept_gets_no_number_of_a_packed_bucket() -> None:
    slow_submitter(Kit())


def test_the_first_of_two_ends_counts() -> None:
    given_up(Kit())


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.__name__ in FOUND_BY])
def test_a_deliberate_mistake_is_found(mistake: type[Kit]) -> None:
    scenario, server = SCENARIOS[FOUND_BY[mistake.__name__]]

    with pytest.raises(Broken):
        # Packing is found without crashes, which take most of the time.
        crashes = 0 if FOUND_BY[mistake.__name__] == "old bucket" else 4
        every_fault(scenario, mistake(), server=server, crashes=crashes)


def test_a_directory_that_goes_at_once_is_found() -> None:
    with pytest.raises(Broken, match="law 1"):
        slow_submitter(ClearedAtOnce())


def test_an_end_that_is_overwritten_is_found() -> None:
    with pytest.raises(Broken, match="law 4"):
        given_up(EndedOverwritten())


def test_every_mistake_is_tried() -> None:
    tried = {*FOUND_BY, "ClearedAtOnce", "EndedOverwritten"}

    assert {mistake.__name__ for mistake in MISTAKES} == tried
