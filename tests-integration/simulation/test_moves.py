"""The moves of tasks between states are those that the comment in the hub has."""

from __future__ import annotations

import pytest

from grain_testkit.hub_moves import observed, table
from simulation.world import World


@pytest.mark.parametrize("seed", [1, 4])  # of which the first has a lasting mission
def test_tasks_move_as_the_comment_in_the_hub_says(seed: int) -> None:
    written = {(name, *move) for name, moves in table().items() for move in moves}
    world = World(seed)
    with observed() as moves:
        world.run()
    assert set() == moves - written
    assert len(moves) > 10
