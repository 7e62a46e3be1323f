"""The list of the seeds that find each deliberate bug: `found.json` beside this file.

Whatever changes the order of events in the product changes the stories of all seeds, and with them
this list: ``nox -s simulate -- --bugs`` searches again.
"""

from __future__ import annotations

import json
from pathlib import Path

from grain.edge.errors import EdgeError
from simulation.laws.laws import Broken
from simulation.mistakes.bugs import BUGS
from simulation.world import World

SEEDS = 640
"""The seeds among which each deliberate bug is found."""

ALWAYS = 80
"""The first of them, which are run with every change: each kind of fault occurs there many times,
and each law is looked at, but for one on two runs of one task; the others are run every night."""

_BROKEN = (
    *(Broken, EdgeError, AssertionError, ArithmeticError, LookupError, ValueError, AttributeError),
)

_LIST = Path(__file__).with_name("found.json")


def search(seed: int, bug: str) -> int | None:
    """Return the steps after which a world with a bug breaks a law, or stumbles over the bug.

    None if it does not.
    """
    world = World(seed, BUGS[bug])
    try:
        world.run()
    except (
        Broken,
        EdgeError,
        AssertionError,
        ArithmeticError,
        LookupError,
        ValueError,
        AttributeError,
    ):
        return world.clock.steps
    return None


def find(bug: str) -> list[int]:
    """Return two seeds that find a bug, the sooner first: those of the list if they still do."""
    found: dict[int, int] = {}
    for seed in dict.fromkeys((*read().get(bug, ()), *range(SEEDS))):
        steps = search(seed, bug)
        if steps is not None:
            found[seed] = steps
            if len(found) == 2:
                break
    return sorted(found, key=lambda seed: found[seed])


def read() -> dict[str, list[int]]:
    """Return the seeds of each bug, as the list has them."""
    seeds: dict[str, list[int]] = json.loads(_LIST.read_text())
    return seeds


def write(found: dict[str, list[int]]) -> None:
    """Write the list."""
    lines = (f"  {json.dumps(bug)}: {json.dumps(seeds)}" for bug, seeds in found.items())
    _LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n")
