"""The cost of a call and the memory of a worker, by the number of workers; no I/O.

A hub gets the messages of a mission and of its workers, and their payloads are empty. Each worker
has one core, and ends a call as soon as it has it. CPU time, so other work on the machine changes
little. ``--calls=N`` makes other numbers than a million for each size.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import sys
import time

from grain.head import messages as mission
from grain.head.hub.hub import Hub
from grain.worker import messages as worker
from tools.bench import say
from tools.bench.cluster import resident

SIZES = (10, 1_000, 10_000)
AHEAD = 20  # calls of each worker that wait at a time


class Load:
    """A hub with workers, and a mission that has calls for them.

    Attributes:
        memory: bytes for each worker.
    """

    def __init__(self, workers: int) -> None:
        self._hub = hub = Hub(1, 0.0)
        gc.collect()
        before = resident()
        for number in range(workers):
            name = f"worker{number}"
            hub.on_message(name, worker.RegisterWorker(name, name, "", {"Cores": 1}), None, 0.0)
            hub.on_message(name, worker.InventoryEnd(), None, 0.0)
        hub.take()
        self.memory = (resident() - before) / workers
        hub.on_message("m", mission.RegisterMission("m", "m"), None, 0.0)
        hub.on_message("m", mission.Request(0, {"Cores": 1}), None, 0.0)
        hub.on_message("m", worker.DefineFunction(b"f"), b"", 0.0)
        hub.on_message("m", mission.Synced(), None, 0.0)
        self._numbers = itertools.count(1)
        self._ahead = AHEAD * workers

    def run(self, calls: int) -> None:
        """Let calls be submitted and end."""
        hub, waiting, left = self._hub, 0, calls
        while left:
            for _ in range(min(self._ahead - waiting, left - waiting)):
                waiting += 1
                hub.on_message("m", mission.Submit(next(self._numbers), 0, b"f"), b"", 0.0)
            hub.dispatch(0.0)
            for link, mail in hub.take().items():
                if link != "m":
                    for lease in (m for m, _ in mail if isinstance(m, worker.Lease)):
                        ended = worker.RunEnded(lease.mission, lease.task, lease.attempt, "value")
                        hub.on_message(link, ended, b"", 0.0)
                    hub.dispatch(0.0)
                    continue
                resolved = tuple(m.task for m, _ in mail if isinstance(m, mission.Resolved))
                if resolved:
                    hub.on_message("m", mission.AckTasks(resolved), None, 0.0)
                    waiting -= len(resolved)
                    left -= len(resolved)


def main(*options: str) -> None:
    """Print what is measured."""
    parser = argparse.ArgumentParser("sizes")
    parser.add_argument("--calls", type=int, default=1_000_000)
    calls = parser.parse_args(options).calls
    for workers in SIZES:
        # Each in a process of its own, which has no memory of another one to use again.
        process = multiprocessing.get_context("spawn").Process(
            target=measure, args=(workers, calls)
        )
        process.start()
        process.join()


def measure(workers: int, calls: int) -> None:
    """Print what is measured with so many workers."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # as `grain.head.__main__` does
    load = Load(workers)
    load.run(AHEAD * workers)
    gc.collect()
    before, began = resident(), time.process_time()
    load.run(calls)
    seconds = time.process_time() - began
    gc.collect()
    say(f"sizes.call.{workers}_workers", seconds / calls * 1e6, "us")
    say(f"sizes.memory_of_worker.{workers}_workers", load.memory, "bytes")
    say(f"sizes.growth.{workers}_workers", (resident() - before) / 1e6, "MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
