"""Only the scheduler core: time of one task with few and many queued, and memory of each.

The garbage collector is off while cycles are timed, after one collection: its full passes walk a
million queued tasks and would be measured instead of the scheduler. Values are medians.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
import tracemalloc
from typing import TYPE_CHECKING

from grain.head import Scheduler
from grain.resource import Cores, Either, Node

if TYPE_CHECKING:
    from grain.resource import Resource

CYCLES = 20_000
REPEATS = 5


def loaded(requests: list[Resource], queued: int) -> tuple[Scheduler, list[int]]:
    """Return a scheduler with 100 full workers and a queue, and the tasks that run."""
    scheduler = Scheduler()
    for worker in range(100):
        scheduler.on_worker_joined(worker, f"w{worker}", Node(16, 64), 0.0)
    for task in range(queued + 1600):
        scheduler.on_submitted(task, scheduler.queue(requests[task % len(requests)]))
    return scheduler, [start.task for start in scheduler.dispatch(0.0)]


def cycle_time(scheduler: Scheduler, requests: list[Resource], running: list[int]) -> float:
    """Return the microseconds to submit one task, finish another, and dispatch."""
    at = max(scheduler.tasks) + 1
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        for task in range(at, at + CYCLES):
            scheduler.on_submitted(task, scheduler.queue(requests[task % len(requests)]))
            if running:
                # The oldest ends; what starts instead ends in its turn.
                scheduler.on_finished(running[task % len(running)], 0.0)
                running[task % len(running)] = running[-1]
                running.pop()
            running += [start.task for start in scheduler.dispatch(0.0)]
        return (time.perf_counter() - began) / CYCLES * 1e6
    finally:
        gc.enable()


def bytes_per_task(requests: list[Resource], queued: int = 100_000) -> float:
    """Return the memory that one more queued task takes."""
    scheduler, _ = loaded(requests, 0)
    queues = [scheduler.queue(request) for request in requests]
    gc.collect()
    tracemalloc.start()
    for task in range(1_000_000, 1_000_000 + queued):
        scheduler.on_submitted(task, queues[task % len(queues)])
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / queued


def report(bench: str, value: float, unit: str, budget: float) -> None:
    """Print one measurement."""
    print(json.dumps({"bench": bench, "value": round(value, 2), "unit": unit, "budget": budget}))


def main() -> None:
    """Measure, and print JSON lines."""
    kinds: dict[str, list[Resource]] = {
        "cores": [Cores(n) for n in (1, 2, 3, 4, 5, 6, 7, 8)],
        "node": [Node(n, 2 * n + 1) for n in (1, 2, 3, 4, 5, 6, 7, 8)],
        # All of them wait for the first alternative, as the clock stands still.
        "prefer": [Either(Node(n, 2 * n + 1), Cores(n), prefer=60) for n in range(1, 9)],
    }
    for kind, requests in kinds.items():
        medians = []
        for queued in (1_000, 1_000_000):
            scheduler, running = loaded(requests, queued)
            times = [cycle_time(scheduler, requests, running) for _ in range(REPEATS)]
            medians.append(statistics.median(times))
            report(f"scheduler.{kind}.{queued}.cycle", medians[-1], "us", 15)
            del scheduler
        report(f"scheduler.{kind}.growth", medians[1] / medians[0], "ratio", 1.2)
        report(f"scheduler.{kind}.queued", bytes_per_task(requests), "bytes", 400)


if __name__ == "__main__":
    main()
