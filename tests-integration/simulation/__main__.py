"""Run worlds: python -m simulation [--seed N | --seeds COUNT [--first N] | --bugs] [--jobs J].

The last line on standard output is a JSON object: seeds, broken, runs, faults by kind, CPU seconds.
"""

from __future__ import annotations

import argparse
import sys

from simulation.mistakes.found import SEEDS
from simulation.runs import run_many, search
from simulation.world import World


def main() -> int:
    """Run what the command line names; return 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay one seed and log what happens")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="COUNT", help="how many seeds")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--bugs",
        action="store_true",
        help="search two seeds that find each deliberate bug, and write them to found.json",
    )
    options = parser.parse_args()
    if options.seed is not None:
        World(options.seed, log=print).run()
        print(f"seed {options.seed}: every law holds")
        return 0
    if options.bugs:
        return search(options.jobs)
    return run_many(options.first, options.seeds, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
