"""Run seeds: python -m simulation [--seed N | --seeds FIRST COUNT] [--jobs J]."""

from __future__ import annotations

import argparse
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor

from simulation.world import World


def attempt(seed: int) -> tuple[int, int, str]:
    """Run one seed; return its number, the runs that it took, and the error if a law was broken."""
    world = World(seed)
    try:
        world.run()
    except Exception:
        return seed, world.laws.executions, traceback.format_exc()
    return seed, world.laws.executions, ""


def main() -> int:
    """Run what the command line names; return 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay one seed and log what happens")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 300), metavar=("FIRST", "COUNT"))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    if options.seed is not None:
        World(options.seed, log=print).run()
        print(f"seed {options.seed}: every law holds")
        return 0
    first, count = options.seeds
    broken = runs = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for seed, executions, error in pool.map(attempt, range(first, first + count), chunksize=4):
            runs += executions
            if error:
                broken += 1
                lines = error.strip().splitlines()
                print(f"seed {seed}: {lines[-1]}", flush=True)
    print(f"{count} seeds, {runs} runs, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
