"""The moves of tasks between states are those that the comment in the hub has."""

from __future__ import annotations

from grain_testkit.hub_moves import observed, table
from simulation.world import World


def test_tasks_move_as_the_comment_in_the_hub_says() -> None:
    written = {(name, *move) for name, moves in table().items() for move in moves}
    with observed() as moves:
        for seed in 2, 4, 5, 7:  # brief worlds with many moves, and with a lasting mission
            World(seed).run()
    assert set() == moves - written
    assert len(moves) > 14
