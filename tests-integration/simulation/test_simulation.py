"""The protocol under every fault, and the laws under every bug."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from simulation.bugs import BUGS, Cast
from simulation.laws import Broken
from simulation.world import World

SEEDS = 300


def run_seed(seed: int) -> str:
    """Run a seed; return the error if a law was broken, or an empty text."""
    try:
        World(seed).run()
    except Exception as error:
        return f"seed {seed}: {error!r}; replay it with: nox -s simulate -- --seed {seed}"
    return ""


def find(bug: str) -> int | None:
    """Return the first seed in which a bug is found."""
    cast: Cast = BUGS[bug]
    for seed in range(SEEDS):
        try:
            World(seed, parts=cast.parts, worker=cast.worker, mission=cast.mission).run()
        except Exception:
            return seed
    return None


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, multiprocessing.get_context("forkserver"))


def test_every_law_holds_in_every_seed() -> None:
    with processes() as pool:
        broken = [error for error in pool.map(run_seed, range(SEEDS), chunksize=10) if error]

    assert [] == broken


def test_every_deliberate_bug_is_found() -> None:
    with processes() as pool:
        found = dict(zip(BUGS, pool.map(find, BUGS), strict=True))

    assert [] == [bug for bug, seed in found.items() if seed is None]
    assert len(BUGS) >= 10


def test_the_same_seed_gives_the_same_story_to_the_last_run() -> None:
    def story(seed: int) -> list[str]:
        lines: list[str] = []
        world = World(seed, log=lines.append)
        laws = world.run()
        return [*lines, repr(sorted(laws.begun)), str(world.clock.steps)]

    assert story(7) == story(7)


def test_a_broken_law_is_reported_with_its_name_and_the_time() -> None:
    world = World(0, mission=BUGS["a mission takes a second resolution"].mission)

    with pytest.raises(Broken, match=r"a task resolves once \(at .* s\)"):
        world.run()
