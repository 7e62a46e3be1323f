"""`grain report`: the size of the page, and the time and the memory that it takes to build."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.report.collecting import collect
from grain.cli.report.page import render
from grain.cli.report.trace import trace
from grain.eventlog.reader import read
from grain.facts.clocks import clocks_of
from grain_testkit.event_logs import SyntheticMission, write_log
from tools.bench import say

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

SIZES = {1_000: 4, 100_000: 40, 1_000_000: 200}
"""Workers of 16 cores, by the number of tasks."""


def build(log: Path, results: SimpleQueue[tuple[float, float, int, float]]) -> None:
    """Build the page of a log; report CPU seconds, their part before the page, bytes, and GB."""
    began = time.process_time()
    report = collect(read(log), clocks=clocks_of(read(log)))
    collected = time.process_time() - began
    page = render(report, written=False, version="0", notes=[])
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    results.put((seconds, collected, len(page.encode()), memory))


def measure(tasks: int, workers: int, folder: Path) -> None:
    """Print the figures of a log of so many tasks."""
    log = write_log(folder, SyntheticMission(tasks, seed=1, workers=workers).lines())
    context = multiprocessing.get_context("spawn")  # as its memory is that of a new process
    results = context.SimpleQueue()
    process = context.Process(target=build, args=(log, results))
    process.start()
    seconds, collected, size, memory = results.get()
    process.join()
    began = time.process_time()
    trace_size = sum(map(len, trace(read(log), clocks_of(read(log)))))
    say(
        "report_page",
        size / 1e6,
        "MB",
        budget=5.0,
        tasks=tasks,
        log_mb=round(log.stat().st_size / 1e6, 1),
        cpu_s=round(seconds, 1),
        collecting_s=round(collected, 1),
        memory_gb=round(memory, 3),
        trace_mb=round(trace_size / 1e6, 1),
        trace_cpu_s=round(time.process_time() - began, 1),
    )


def main() -> None:
    """Measure logs of a thousand, a hundred thousand, and a million tasks."""
    with tempfile.TemporaryDirectory() as folder:
        for tasks, workers in SIZES.items():
            measure(tasks, workers, Path(folder) / str(tasks))


if __name__ == "__main__":
    main()
