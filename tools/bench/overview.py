"""The question of ``grain top``: what an answer costs the scheduler, and what watching costs a run.

A thousand workers with 64 cores run 64,000 tasks, and a million wait, in eight sizes. Their mission
has told of as many functions as it may.
"""

from __future__ import annotations

import gc
import statistics
import time

from grain.edge.questions import Ask
from grain.facts.amounts import AskedAmounts, Histogram
from grain.facts.rows import Function
from grain.head.hub.hub import Hub
from grain.head.messages import FUNCTIONS, Outlook, RegisterMission, Request, Submit, Synced
from grain.worker.messages import DefineFunction, InventoryEnd, RegisterWorker
from tools.bench import say

WORKERS = 1000
TASKS = 1_000_000
SIZES = 8
ANSWERS = 200


def function(number: int) -> Function:
    """Return the tasks of a function, as a mission tells of them."""
    return Function(
        name=f"function_{number}",
        done=1000,
        failed=3,
        running=50,
        waiting=10_000,
        requests={"": 1},
        asked={kind: AskedAmounts(1, 1.0, 1.0) for kind in ("Cores", "Memory")},
        core_seconds=31_400.0,
        seconds=Histogram(1003, 31_400.0, 29.0, 40.0).thinned(31.4),
        memory=Histogram(1003, 650.0, 0.5, 0.7).thinned(0.65),
        busy_cores=Histogram(1003, 970.0, 0.9, 1.02).thinned(0.97),
    )


def loaded(workers: int, tasks: int) -> Hub:
    """Return a hub with workers that are full, and with tasks that wait."""
    head = Hub(1, 0.0)
    for number in range(workers):
        have = {"Cores": 64, "Memory": 256.0, "WTime": {"T": 86400.0}}
        registered = RegisterWorker(f"id{number:030}", f"w093015-{number}", f"n{number}", have)
        head.on_message(number, registered, None, 0.0)
        head.on_message(number, InventoryEnd(), None, 0.0)
    head.on_message("m", RegisterMission("m", "opt"), None, 0.0)
    head.on_message("m", DefineFunction(b"f", "optimise"), b"", 0.0)
    for size in range(SIZES):
        request = {"Cores": 1, "Memory": 1.0 + size / 8}
        head.on_message("m", Request(size, request), None, 0.0)
    head.on_message("m", Synced(), None, 0.0)
    head.on_message("m", Outlook(1, functions=tuple(map(function, range(FUNCTIONS)))), None, 0.0)
    for task in range(1, tasks + 1):
        head.on_message("m", Submit(task, task % SIZES, b"f"), b"", 0.0)
        if not task % 10_000:
            head.dispatch(0.0)
            head.take()
    return head


def answers(head: Hub, step: float) -> list[float]:
    """Return the milliseconds of CPU time that each answer costs, asked every so many seconds."""
    costs = []
    for number in range(ANSWERS):
        now = 1.0 + number * step
        began = time.thread_time()
        head.on_message("cli", Ask("overview"), None, now)
        head.dispatch(now)
        head.take()
        costs.append((time.thread_time() - began) * 1e3)
    return costs


def main() -> None:
    """Measure, and print JSON lines."""
    head = loaded(WORKERS, TASKS + WORKERS * 64)
    gc.collect()
    gc.disable()
    try:
        first = answers(head, 1.0)
        again = answers(head, 0.0)
        head.on_message("cli", Ask("overview"), None, 1000.0)
        [(_, payload)] = head.take()["cli"]
    finally:
        gc.enable()
    size = len(payload or b"") / 1e3
    say("overview: an answer", statistics.median(first), "ms", 1.0, longest=max(first), kB=size)
    say("overview: the first answer", first[0], "ms", 1.0)
    say("overview: the same answer again", statistics.median(again), "ms", 1.0)
