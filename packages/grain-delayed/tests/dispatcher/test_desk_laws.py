"""The laws of docs/queue-files.md, with the desk of a dispatcher and a fault at each operation."""

from __future__ import annotations

import pytest

from grain_testkit.desk_world import DeskKit
from grain_testkit.queue_world import SCENARIOS, every_fault, nearly_full, random_world


@pytest.mark.parametrize("name", ["one job", "run again", "cancelled while it runs"])
def test_the_laws_hold_with_a_fault_at_each_operation(name: str) -> None:
    scenario, server = SCENARIOS[name]

    assert every_fault(scenario, DeskKit(), server=server, crashes=0) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_laws_hold_with_many_crashes_at_each_operation(name: str) -> None:
    scenario, server = SCENARIOS[name]

    assert every_fault(scenario, DeskKit(), server=server, crashes=3) > 500


@pytest.mark.parametrize("seed", range(10))
def test_the_laws_hold_whoever_comes_first(seed: int) -> None:
    random_world(seed, DeskKit())
    random_world(seed, DeskKit(), server=nearly_full)
