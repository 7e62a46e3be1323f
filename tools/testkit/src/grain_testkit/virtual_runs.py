"""Jobs through a real scheduler in virtual time, where memory decides whether a run is enough."""

from __future__ import annotations

import heapq
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from grain.head.needs.again import Larger, larger
from grain.head.needs.groups import MemoryUse
from grain.head.scheduler.scheduler import Scheduler
from grain.resource import Memory
from grain_testkit.scheduler_harness import check_scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.resource import Resource


class VirtualJob(NamedTuple):
    """A job: what it asks for, the GB that it needs, and the seconds that it takes."""

    request: Resource
    peak: float
    seconds: float


class PlayedJobs(NamedTuple):
    """How a workload went.

    Attributes:
        makespan: in seconds.
        lost: how many attempts have failed.
        attempts: those of each job.
        asked: GB s that all attempts had, those that failed included.
        scheduler: with what it has learned.
    """

    makespan: float
    lost: int
    attempts: dict[int, int]
    asked: float
    scheduler: Scheduler


def too_little(amount: float) -> MemoryError:
    error = MemoryError()
    error.memory_request = amount  # type: ignore[attr-defined]
    return error


def play(
    workers: Sequence[Resource], jobs: Sequence[VirtualJob], *, check: bool = False
) -> PlayedJobs:
    """Run jobs in virtual time; one with less than its peak is ended somewhere on its way."""
    random, scheduler, now = Random(1), Scheduler(), 0.0
    for number, total in enumerate(workers, 1):
        scheduler.on_worker_joined(number, f"w{number}", total, now)
    requests = {number: job.request for number, job in enumerate(jobs)}
    of = {number: number for number in requests}
    attempts = dict.fromkeys(requests, 1)
    for number, request in requests.items():
        scheduler.on_submitted(number, scheduler.queue(request))
    running: list[tuple[float, int, float]] = []
    lost = ended = 0
    asked = 0.0
    while True:
        for start in scheduler.dispatch(now):
            job = jobs[of[start.task]]
            part = start.allocation.get(Memory)
            amount = float(part.M) if isinstance(part, Memory) else 1e9
            seconds = job.seconds * (1 if job.peak <= amount else random.uniform(0.1, 1))
            heapq.heappush(running, (now + seconds, start.task, amount))
            asked += amount * seconds
            for member, seat, held in start.seats:
                assert held.get(Memory) == part, (member, seat)
        if check:
            check_scheduler(scheduler, dispatched=now)
        if not running:
            break
        now, number, amount = heapq.heappop(running)
        task = of[number]
        peak, enough = jobs[task].peak, jobs[task].peak <= amount
        use = MemoryUse(peak if enough else amount, not enough)
        seats = [one for one in scheduler.tasks if one < 0]
        scheduler.on_finished(number, now, use=use)
        for seat in seats:  # one gang runs at a time here
            scheduler.on_finished(seat, now, measured=False)
        if enough:
            ended += 1
            continue
        lost += 1
        attempts[task] += 1
        next_ = larger(requests[task], too_little(amount))
        assert isinstance(next_, Larger), (task, amount)
        requests[task] = next_.request
        of[len(of)] = task
        scheduler.on_submitted(len(of) - 1, scheduler.queue(next_.request))
    assert ended == len(jobs)
    return PlayedJobs(now, lost, attempts, asked, scheduler)
