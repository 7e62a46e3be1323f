"""Gangs in the scheduler core: what they cost other tasks, and how well they fill a cluster.

``gangs.*.cycle_ratio`` is the CPU time of one cycle of the scheduler while a gang waits in the
queue, over that of the same queue without it.

The rest moves a clock, and measures no wall: 64 workers of 8 cores serve three hours of arrivals at
their full capacity, of which a tenth are gangs of two to eight whole workers. The times of tasks
are long-tailed, from a minute on. The same arrivals are served by Grain, in strict order (no task
starts before one that came earlier), and by Grain with the gangs as single tasks of the same work.
In ``gangs.backlog``, two and a half times as much arrives as eight workers can do, so a backlog
grows. ``overtaken`` is how many younger tasks started before a gang, at most, over the number that
is promised.
"""

from __future__ import annotations

import gc
import heapq
import random
import statistics
import time
from bisect import bisect, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grain.head import Scheduler
from grain.resource import Cores, Node, WTime
from tools.bench import say
from tools.bench.scheduler import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.resource import Resource

WORKERS, CORES = 64, 8
PERIOD = 3 * 3600.0
BACKLOG_WORKERS, BEYOND = 8, 2.5
# Seconds, as people write them.
LIMITS = (300, 900, 3600, 7200)
CYCLES = 5_000
REPEATS = 7


@dataclass(frozen=True)
class Arrival:
    """A task of the load.

    Attributes:
        at: seconds from the start.
        cores: on each of its workers.
        workers: how many it takes.
        seconds: for which it runs.
    """

    at: float
    cores: int
    workers: int
    seconds: float

    @property
    def work(self) -> float:
        """Core seconds."""
        return self.cores * self.workers * self.seconds


def load(seed: int, *, gangs: bool, there: int = WORKERS, beyond: float = 1.0) -> list[Arrival]:
    """Return arrivals that ask for as much as there is; without gangs, for the same in parts.

    Args:
        there: the number of workers.
        beyond: how many times as much as there is they ask for.
    """
    rng = random.Random(seed)
    shapes = []
    for _ in range(100_000):
        seconds = min(60 * rng.paretovariate(1.5), 3600.0)
        is_gang = rng.random() < 0.1
        cores = CORES if is_gang else rng.choice([1, 1, 1, 2, 2, 4, 8])
        shapes.append((cores, rng.randint(2, 8) if is_gang else 1, seconds))
    mean = statistics.fmean(cores * workers * seconds for cores, workers, seconds in shapes)
    pace = beyond * there * CORES / mean
    arrivals, now = [], 0.0
    for cores, workers, seconds in shapes:
        now += rng.expovariate(pace)
        if now > PERIOD:
            break
        if gangs or workers == 1:
            arrivals.append(Arrival(now, cores, workers, seconds))
        else:
            arrivals += [Arrival(now, cores, 1, seconds)] * workers
    return arrivals


@dataclass
class Cluster:
    """Workers, and a clock that jumps from one event to the next.

    Attributes:
        limits: whether tasks state a time limit, of twice their time.
        strict: whether a task is submitted only when all that came earlier have begun.
        workers: how many there are.
        busy: core seconds used within the period.
        waits: seconds that each task waited, by the number of its workers.
        overtaken: the largest number of younger tasks that started before a gang, over the limit.
    """

    limits: bool
    strict: bool
    workers: int = WORKERS
    busy: float = 0.0
    waits: dict[int, list[float]] = field(default_factory=dict)
    overtaken: float = 0.0

    def serve(self, arrivals: list[Arrival]) -> None:
        """Serve all, until the last has begun."""
        scheduler = Scheduler()
        for worker in range(self.workers):
            scheduler.on_worker_joined(worker, f"w{worker}", Node(CORES, 64), 0.0)
        ends: list[tuple[float, int, list[int]]] = []
        came: list[int] = []
        at, begun, submitted = 0, 0, 0
        started: list[int] = []  # sorted
        now = 0.0
        while begun < len(arrivals):
            times = [arrivals[at].at] if at < len(arrivals) else []
            now = min([*times, *(end[0] for end in ends[:1])])
            while at < len(arrivals) and arrivals[at].at <= now:
                came.append(at)
                at += 1
            while ends and ends[0][0] <= now:
                for task in heapq.heappop(ends)[2]:
                    scheduler.on_finished(task, now)
            while True:
                while submitted < len(came) and not (self.strict and submitted > begun):
                    scheduler.on_submitted(
                        submitted, scheduler.queue(self._request(arrivals[submitted]))
                    )
                    submitted += 1
                starts = scheduler.dispatch(now)
                begun += len(starts)
                for start in starts:
                    began = arrivals[start.task]
                    if began.workers > 1:
                        passed = len(started) - bisect(started, start.task)
                        self.overtaken = max(self.overtaken, passed / scheduler.max_overtakes)
                    insort(started, start.task)
                    seats = [seat for _, seat, _ in start.seats]
                    heapq.heappush(ends, (now + began.seconds, start.task, [start.task, *seats]))
                    self.waits.setdefault(began.workers, []).append(now - began.at)
                    used = min(now + began.seconds, PERIOD) - min(now, PERIOD)
                    self.busy += used * began.cores * began.workers
                if not starts or not self.strict:
                    break

    def _request(self, task: Arrival) -> Resource:
        request: Resource = Cores(task.cores)
        if self.limits:
            limit = next(one for one in LIMITS if one >= min(2 * task.seconds, LIMITS[-1]))
            request = request & WTime(T=limit)
        return task.workers * request if task.workers > 1 else request

    def rows(self) -> Iterator[tuple[str, float]]:
        """Yield utilisation in the period and overtakes as ratios, and waits in minutes."""
        yield "utilisation", self.busy / (self.workers * CORES * PERIOD)
        yield "overtaken", self.overtaken
        singles = self.waits.get(1, [0.0])
        gangs = [wait for workers, some in self.waits.items() if workers > 1 for wait in some]
        for name, waits in (("single", singles), ("gang", gangs or [0.0])):
            waits.sort()
            yield f"{name}_wait_median", waits[len(waits) // 2] / 60
            yield f"{name}_wait_95", waits[len(waits) * 95 // 100] / 60


def cycle_ratio(request: Resource) -> float:
    """Return the cost of a cycle while a gang waits behind all others, over that without it."""
    ratios = []
    for _ in range(REPEATS):
        seconds = []
        for gang in (None, 4 * Cores(16)):
            scheduler, running = loaded([request, Cores(3)], 10_000)
            if gang is not None:
                scheduler.on_submitted(10_000_000, scheduler.queue(gang, priority=-1))
            seconds.append(_cycles(scheduler, request, running))
        ratios.append(seconds[1] / seconds[0])
    return statistics.median(ratios)


def _cycles(scheduler: Scheduler, request: Resource, running: list[int]) -> float:
    gc.collect()
    gc.disable()
    began = time.process_time()
    for task in range(20_000_000, 20_000_000 + CYCLES):
        scheduler.on_submitted(task, scheduler.queue(request))
        if running:
            scheduler.on_finished(running[task % len(running)], 0.0)
            running[task % len(running)] = running[-1]
            running.pop()
        running += [start.task for start in scheduler.dispatch(0.0)]
    gc.enable()
    return time.process_time() - began


def main() -> None:
    """Measure, and print JSON lines."""
    for name, request in (("cores", Cores(1)), ("node", Node(4, 9))):
        say(f"gangs.{name}.cycle_ratio", cycle_ratio(request), "ratio", budget=1.03)
    for limits in (False, True):
        kind = "limits" if limits else "no_limits"
        for name, gangs, strict, there, beyond in (
            ("grain", True, False, WORKERS, 1.0),
            ("strict", True, True, WORKERS, 1.0),
            ("no_gangs", False, False, WORKERS, 1.0),
            ("backlog", True, False, BACKLOG_WORKERS, BEYOND),
        ):
            rows: dict[str, list[float]] = {}
            for seed in range(3):
                cluster = Cluster(limits, strict, there)
                cluster.serve(load(seed, gangs=gangs, there=there, beyond=beyond))
                for row, value in cluster.rows():
                    rows.setdefault(row, []).append(value)
            for row, values in rows.items():
                unit = "minutes" if "wait" in row else "ratio"
                say(f"gangs.{kind}.{name}.{row}", statistics.median(values), unit)


if __name__ == "__main__":
    main()
