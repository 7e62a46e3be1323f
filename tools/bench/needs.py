"""Learned memory: what it costs a scheduler, and what it saves on workflows that others have run.

The traces are those of "Sizey: Memory-Efficient Execution of Scientific Workflow Tasks" (Bader et
al., CLUSTER 2024): CSV files of six workflows of nf-core, in the directory ``data`` of the
repository dos-group/sizey. `GRAIN_TRACES` names that directory; without it they are left out. They
go through the real scheduler in virtual time, on four workers with 128 GB and 32 cores; all jobs
are there at the begin, and an attempt with too little fails after 10 to 100 % of its time.

The *oracle* knows each need to two digits, and *fixed* is what the authors of the workflows have
asked for, or the need where that was too little.
"""

from __future__ import annotations

import csv
import gc
import math
import os
import statistics
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from grain.head.needs.groups import MemoryUse
from grain.head.scheduler.scheduler import Scheduler
from grain.resource import Cores, Memory
from grain_testkit.virtual_runs import VirtualJob, play
from tools.bench import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.resource import Resource

TASKS = 20_000
SIZES = 100
ROUNDS = 5
WORKERS, CORES, MEMORY = 4, 32, 128


class TracedTask(NamedTuple):
    """A task of a trace: its process, what it has asked for, and what it has used."""

    group: str
    cores: int
    memory: float
    peak: float
    seconds: float


def cost(requests: Sequence[Resource], peaks: Sequence[float] = (1.9,)) -> float:
    """Return the microseconds of CPU time for a task of some requests, by only a scheduler."""
    decisions, uses = Scheduler(), [MemoryUse(peak) for peak in peaks]
    decisions.on_worker_joined(0, "w", Cores(2) & Memory(8), 0.0)
    gc.collect()
    began = time.process_time()
    for task in range(TASKS):
        decisions.on_submitted(task, decisions.queue(requests[task % len(requests)]))
    now = 0.0
    while starts := decisions.dispatch(now):
        now += 10.0
        for start in starts:
            decisions.on_finished(start.task, now, use=uses[start.task % len(uses)])
    return (time.process_time() - began) / TASKS * 1e6


def tasks_of(path: Path) -> list[TracedTask]:
    """Return the tasks in a trace of Nextflow that have succeeded, in the order of their end."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "COMPLETED"]
    return [
        TracedTask(
            f"{path.stem}:{row['process']}",
            min(int(row["cpus"]), CORES),
            min(float(row["memory"]) / 1e9, MEMORY),
            min(max(float(row["peak_rss"]) / 1e9, 0.01), MEMORY),
            max(float(row["realtime"]) / 1000, 1.0),
        )
        for row in rows
        if row["peak_rss"].isdigit() and row["realtime"].isdigit() and row["memory"].isdigit()
    ]


def rounded(amount: float) -> float:
    """Return an amount rounded up to two digits, so that there are not as many queues as tasks."""
    step = 10.0 ** (math.floor(math.log10(amount)) - 1)
    return min(math.ceil(amount / step) * step + 1e-6, MEMORY)


POLICIES: dict[str, Callable[[TracedTask], Memory]] = {
    "oracle": lambda task: Memory(rounded(task.peak)),
    "fixed": lambda task: Memory(max(task.memory, rounded(task.peak))),
    "learned": lambda task: Memory(group=task.group),
}


def replay(name: str, tasks: list[TracedTask]) -> dict[str, tuple[float, float, float]]:
    """Return, by policy, GB s asked for over used, makespan over its bound, lost runs of 100."""
    workers = [Cores(CORES) & Memory(MEMORY)] * WORKERS
    used = sum(task.peak * task.seconds for task in tasks)
    bound = max(
        used / (WORKERS * MEMORY),
        sum(task.cores * task.seconds for task in tasks) / (WORKERS * CORES),
        max(task.seconds for task in tasks),
    )
    found = {}
    for policy, memory in POLICIES.items():
        jobs = [VirtualJob(Cores(t.cores) & memory(t), t.peak, t.seconds) for t in tasks]
        played = play(workers, jobs)
        lost = 100 * played.lost / len(tasks)
        found[policy] = played.asked / used, played.makespan / bound, lost
        asked, span, lost = found[policy]
        say(f"needs: {name}, {policy}", asked, "asked/used", makespan=round(span, 2), lost=lost)
    return found


def main() -> None:
    """Report the cost as the median of alternated rounds, then the traces."""
    plain, learns = [Cores(1) & Memory(4)], [Cores(1) & Memory(group="g")]
    rounds = [cost(learns) - cost(plain) for _ in range(ROUNDS)]
    say("needs: learning", statistics.median(rounds), "us", budget=1.0)
    random = Random(1)
    peaks = [random.uniform(0.1, 2) for _ in range(TASKS)]
    rounds = [cost(learns, peaks) - cost(plain, peaks) for _ in range(ROUNDS)]
    say("needs: learning, from needs that differ", statistics.median(rounds), "us", budget=1.0)
    plain = [Cores(1) & Memory(4 - size / 1000) for size in range(SIZES)]
    learns = [Cores(1) & Memory(group="g", size=1 + size) for size in range(SIZES)]
    say("needs: learning, with sizes", cost(learns) - cost(plain), "us", sizes=SIZES)
    # Each size needs in proportion to it.
    peaks = [0.02 * (1 + task % SIZES) * random.uniform(0.9, 1.1) for task in range(TASKS)]
    extra = cost(learns, peaks) - cost(plain, peaks)
    say("needs: learning, where needs grow with sizes", extra, "us", sizes=SIZES)
    if not (folder := os.environ.get("GRAIN_TRACES")):
        return
    found = [replay(path.stem, tasks_of(path)) for path in sorted(Path(folder).glob("*.csv"))]
    for policy in POLICIES:
        asked, span, lost = zip(*(one[policy] for one in found), strict=True)
        means = statistics.geometric_mean(asked), statistics.geometric_mean(span)
        say(
            f"needs: all traces, {policy}", means[0], "asked/used", makespan=round(means[1], 2),
            lost=statistics.fmean(lost),
        )  # fmt: skip


if __name__ == "__main__":
    main()
