"""Many seeds in several processes: a long run, and the search for seeds that find mistakes.

The functions that run in those processes cannot stand in ``__main__``, which they do not import.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from simulation.mistakes.bugs import BUGS
from simulation.mistakes.found import SEEDS, find, write
from simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRESS = 30.0  # seconds between two lines of progress


class Ran(NamedTuple):
    """One seed that was run.

    Attributes:
        seed: its number.
        runs: how many runs of tasks took place.
        faults: how many there were, by kind.
        cpu: the seconds of CPU time.
        error: the law that was broken; empty if none was.
    """

    seed: int
    runs: int
    faults: dict[str, int]
    cpu: float
    error: str


def attempt(seed: int) -> Ran:
    """Run one seed."""
    began = time.process_time()
    world = World(seed)
    error = ""
    try:
        world.run()
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    cpu = time.process_time() - began
    return Ran(seed, world.laws.executions, dict(world.faults.counts), cpu, error)


def processes(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("forkserver"))


def run_many(first: int, count: int, jobs: int, run: Callable[[int], Ran] = attempt) -> int:
    """Run many seeds; print broken laws, progress and a summary, also after Ctrl-C.

    Args:
        first: the first seed.
        count: how many.
        jobs: how many processes.
        run: runs one seed.

    Returns:
        1 if a law was broken, or not all seeds were run.
    """
    began = last = time.monotonic()
    done = broken = runs = 0
    faults: Counter[str] = Counter()
    cpu = 0.0
    pool = processes(jobs)
    try:
        for ran in pool.map(run, range(first, first + count), chunksize=8):
            done += 1
            runs += ran.runs
            cpu += ran.cpu
            faults.update(ran.faults)
            if ran.error:
                broken += 1
                print(f"seed {ran.seed}: {ran.error}", flush=True)
            if time.monotonic() - last > _PROGRESS:
                last = time.monotonic()
                left = (last - began) / done * (count - done)
                print(
                    f"{done} of {count} seeds, {broken} broken, {left / 60:.0f} min left",
                    file=sys.stderr,
                    flush=True,
                )
    except KeyboardInterrupt:
        pass  # a summary of what was run
    finally:
        pool.shutdown(cancel_futures=True)
    summary = {
        "first": first,
        "seeds": done,
        "broken": broken,
        "runs": runs,
        "faults": dict(sorted(faults.items())),
        "cpu_seconds": round(cpu, 1),
    }
    print(json.dumps(summary), flush=True)
    return 1 if broken or done < count else 0


def search(jobs: int) -> int:
    """Search the seeds that find each deliberate bug, and write the list of them."""
    found: dict[str, list[int]] = {}
    with processes(jobs) as pool:
        for bug, seeds in zip(BUGS, pool.map(find, BUGS), strict=True):
            found[bug] = seeds
            print(f"{seeds} {bug}", file=sys.stderr, flush=True)
            if len(seeds) < 2:
                print(f"{bug}: found by {len(seeds)} of {SEEDS} seeds", flush=True)
    write(found)
    few = sum(len(seeds) < 2 for seeds in found.values())
    print(json.dumps({"bugs": len(found), "seeds": SEEDS, "found_by_fewer_than_two": few}))
    return 1 if few else 0
