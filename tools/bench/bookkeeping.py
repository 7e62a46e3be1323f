"""The bookkeeping of a no-op task without I/O: by only a scheduler, and by a hub.

`GrainExecutor` drives only a scheduler. The difference is the price of a hub in its place; see
"Two executors over one scheduler" in docs/architecture.md.
"""

from __future__ import annotations

import gc
import statistics
import time

from grain.head.hub.hub import Hub
from grain.head.messages import AckTasks, RegisterMission, Request, Resolved, Submit, Synced
from grain.head.scheduler.scheduler import Scheduler
from grain.resource import Cores
from grain.worker.messages import DefineFunction, InventoryEnd, Lease, RegisterWorker, RunEnded
from tools.bench import say

TASKS = 20_000
ROUNDS = 5


def scheduler() -> float:
    """Return the microseconds of CPU time per task with only a scheduler."""
    decisions = Scheduler()
    decisions.on_worker_joined(0, "w", Cores(2), 0.0)
    request = Cores(1)
    gc.collect()
    began = time.process_time()
    for task in range(TASKS):
        decisions.on_submitted(task, decisions.queue(request))
    while starts := decisions.dispatch(0.0):
        for start in starts:
            decisions.on_finished(start.task, 0.0)
    return (time.process_time() - began) / TASKS * 1e6


def hub() -> float:
    """Return the microseconds of CPU time per task with a hub."""
    head = Hub(1, 0.0)
    head.on_message("w", RegisterWorker("w", "w", "host", {"Cores": 2}), None, 0.0)
    head.on_message("w", InventoryEnd(), None, 0.0)
    head.on_message("m", RegisterMission("m", "m"), None, 0.0)
    head.on_message("m", Request(0, {"Cores": 1}), None, 0.0)
    head.on_message("m", DefineFunction(b"f"), b"", 0.0)
    head.on_message("m", Synced(), None, 0.0)
    gc.collect()
    began = time.process_time()
    for task in range(1, TASKS + 1):
        head.on_message("m", Submit(task, 0, b"f"), b"", 0.0)
    resolved = 0
    while resolved < TASKS:
        head.dispatch(0.0)
        mail = head.take()
        tasks = tuple(message.task for message, _ in mail.get("m", ()) if type(message) is Resolved)
        resolved += len(tasks)
        if tasks:
            head.on_message("m", AckTasks(tasks), None, 0.0)
        for message, _ in mail.get("w", ()):
            if type(message) is Lease:
                ended = RunEnded(message.mission, message.task, message.attempt, "value")
                head.on_message("w", ended, b"", 0.0)
    return (time.process_time() - began) / TASKS * 1e6


def main() -> None:
    """Report the medians of alternated rounds."""
    rounds = [(scheduler(), hub()) for _ in range(ROUNDS)]
    alone, with_hub = map(statistics.median, zip(*rounds, strict=True))
    say("bookkeeping: scheduler alone", alone, "us")
    say("bookkeeping: hub", with_hub, "us")
