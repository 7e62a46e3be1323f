"""The list of the seeds that find each deliberate bug: `found.json` beside this file.

Whatever changes the order of events in the product changes the stories of all seeds, and with them
this list: ``nox -s simulate -- --bugs`` searches anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from simulation.laws.laws import Broken
from simulation.mistakes.bugs import BUGS
from simulation.world import World

SEEDS = 400
"""The seeds that are run with every change."""

_LIST = Path(__file__).with_name("found.json")


def finds(seed: int, bug: str) -> bool:
    """Return True if a world with a bug breaks a law, or stumbles over the bug."""
    world = World(seed, BUGS[bug])
    try:
        world.run()
    except (Broken, AssertionError, ArithmeticError, LookupError, ValueError, AttributeError):
        return True
    return False


def find(bug: str) -> list[int]:
    """Return two seeds that find a bug: those of the list if they still do."""
    found: list[int] = []
    for seed in dict.fromkeys((*read().get(bug, ()), *range(SEEDS))):
        if finds(seed, bug):
            found.append(seed)
            if len(found) == 2:
                break
    return sorted(found)


def read() -> dict[str, list[int]]:
    """Return the seeds of each bug, as the list has them."""
    seeds: dict[str, list[int]] = json.loads(_LIST.read_text())
    return seeds


def write(found: dict[str, list[int]]) -> None:
    """Write the list."""
    lines = (f"  {json.dumps(bug)}: {json.dumps(seeds)}" for bug, seeds in found.items())
    _LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n")
