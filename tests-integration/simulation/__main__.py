"""Run worlds: python -m simulation [--seed N | --seeds COUNT [--first N] | --bugs] [--jobs J].

With ``--first random`` the first seed is a new one each time; it is printed, to repeat the run. The
last line on standard output is a JSON object: seeds, broken, runs, faults by kind, CPU seconds.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from typing import TYPE_CHECKING

from simulation.mistakes.found import SEEDS
from simulation.runs import run_many, search
from simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 10**9  # a first seed that is drawn is less: it is to be read aloud, and typed


def main(words: Sequence[str] | None = None) -> int:
    """Run what the command line, or other words in its place, names; return 1 if a law broke."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay one seed and log what happens")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="COUNT", help="how many seeds")
    parser.add_argument(
        "--first", type=seed, default=0, metavar="N", help="the first of them, or 'random'"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--bugs",
        action="store_true",
        help="search two seeds that find each deliberate bug, and write them to found.json",
    )
    options = parser.parse_args(words)
    if options.seed is not None:
        World(options.seed, log=print).run()
        print(f"seed {options.seed}: every law holds")
        return 0
    if options.bugs:
        return search(options.jobs)
    first = options.first
    if first is None:
        first = secrets.randbelow(_MOST)
        again = f"--seeds {options.seeds} --first {first}"
        print(f"these seeds again: nox -s simulate -- {again}", flush=True)
    return run_many(first, options.seeds, options.jobs)


def seed(word: str) -> int | None:
    """Return the seed that a word names; None for one that is drawn."""
    return None if word == "random" else int(word)


if __name__ == "__main__":
    sys.exit(main())
