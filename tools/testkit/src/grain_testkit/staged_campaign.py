"""A campaign of dependent stages in virtual time: the real scheduler, and tasks that only last.

Each of many molecules goes through some stages: a call of the next one is submitted when the one
before has ended. With `barrier`, no stage begins before the one before has ended for all of them;
with `at_once`, only so many molecules are on their way at a time.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from grain.delayed.display.progress import Progress
from grain.head import Scheduler, Statistics
from grain.head.base import CallKind, Kinds
from grain.resource import Cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.delayed.display.total import Total
    from grain.head.base import CallKindNow


class Stage(NamedTuple):
    """A stage.

    Attributes:
        function: its name.
        calls: of how many molecules.
        cores: for which each call asks.
        seconds: how long a call takes, as a median.
    """

    function: str
    calls: int
    cores: int
    seconds: float


STAGES = (
    Stage("conformers", 600, 1, 8.0),
    Stage("optimise", 600, 2, 60.0),
    Stage("energy", 600, 4, 15.0),
    Stage("spectrum", 87, 1, 200.0),
)
"""1,887 calls: brief ones first, then long ones, then a few of the longest."""


class Campaign:
    """A campaign.

    Args:
        stages: what each molecule goes through.
        workers: how many there are.
        cores: of each worker.
        barrier: True if a stage waits for all of the one before.
        at_once: how many molecules are on their way at a time.
        spread: the standard deviation of the logarithm of times.
        seed: of the times.
    """

    def __init__(
        self,
        stages: Sequence[Stage] = STAGES,
        *,
        workers: int = 3,
        cores: int = 4,
        barrier: bool = False,
        at_once: int = 10**6,
        spread: float = 0.3,
        seed: int = 1,
    ) -> None:
        self.stages = stages
        self.barrier = barrier
        self.at_once = at_once
        self._workers = workers
        self._cores = cores
        random = Random(seed)
        self._seconds = [
            [random.lognormvariate(math.log(stage.seconds), spread) for _ in range(stage.calls)]
            for stage in stages
        ]

    def run(self, until: float = math.inf) -> float:
        """Run it; return when the last task has ended.

        Args:
            until: after this time nothing is submitted any more.
        """
        run = _Run(self, until)
        run.go_on(math.inf)
        return run.last

    def watch(
        self, times: Iterable[float], total: Total | None = None, every: float = 20.0
    ) -> Iterator[Progress]:
        """Run it up to some times; yield its progress at each of them, as a mission sees it.

        Args:
            times: ascending.
            total: the calls that there will be.
            every: seconds between two looks.
        """
        run = _Run(self, math.inf, total)
        progress = Progress(total)
        progress.on_opened(run.statistics, run.kinds)
        now = 0.0
        for at in times:
            while now <= at:
                run.go_on(now)
                progress.look(now)
                now += every
            run.go_on(at)
            progress.look(at)
            yield progress

    def seconds(self, stage: int, molecule: int) -> float:
        """Return how long a call takes."""
        return self._seconds[stage][molecule]

    def scheduler(self) -> Scheduler:
        """Return a scheduler with the workers."""
        scheduler = Scheduler()
        for worker in range(self._workers):
            scheduler.on_worker_joined(worker, f"w{worker}", Cores(self._cores), 0.0)
        return scheduler


class _Run:
    """One run of a campaign, up to some time."""

    def __init__(self, campaign: Campaign, until: float, total: Total | None = None) -> None:
        self._campaign = campaign
        self._note = (lambda _: None) if total is None else total.note
        self._until = until
        self._scheduler = campaign.scheduler()
        self._kinds = Kinds()
        self._calls: dict[int, tuple[int, int, CallKind]] = {}
        self._ends: list[tuple[float, int]] = []
        self._ended = [0] * len(campaign.stages)
        self._now = self.last = 0.0
        self._begun = 0
        for _ in range(campaign.at_once):
            self._begin()
        self._dispatch()

    def _begin(self) -> None:
        """Let the next molecule begin."""
        if self._begun < self._campaign.stages[0].calls:
            self._begun += 1
            self._submit(0, self._begun - 1)

    def _submit(self, stage: int, molecule: int) -> None:
        one = self._campaign.stages[stage]
        request = Cores(one.cores)
        kind = self._kinds.of(one.function, request)
        kind.left += 1
        self._note(one.function)
        task = len(self._calls) + 1
        self._calls[task] = stage, molecule, kind
        self._scheduler.on_submitted(task, self._scheduler.queue(request))

    def _dispatch(self) -> None:
        for start in self._scheduler.dispatch(self._now):
            stage, molecule, _ = self._calls[start.task]
            ends = self._now + self._campaign.seconds(stage, molecule)
            heappush(self._ends, (ends, start.task))

    def go_on(self, until: float) -> None:
        """Let time pass."""
        while self._ends and self._ends[0][0] <= until:
            self._now, task = heappop(self._ends)
            self.last = self._now
            stage, molecule, kind = self._calls[task]
            kind.ended(self._now - self._scheduler.tasks[task].started)
            self._scheduler.on_finished(task, self._now)
            self._ended[stage] += 1
            if self._now <= self._until:
                self._go_to_next(stage, molecule)
            self._dispatch()
        self._now = max(self._now, until) if until < math.inf else self._now

    def _go_to_next(self, stage: int, molecule: int) -> None:
        stages = self._campaign.stages
        last = stage + 1 == len(stages)
        if not self._campaign.barrier:
            if not last and molecule < stages[stage + 1].calls:
                self._submit(stage + 1, molecule)
            else:
                self._begin()
        elif not last and self._ended[stage] == stages[stage].calls:
            for one in range(stages[stage + 1].calls):
                self._submit(stage + 1, one)

    def statistics(self) -> Statistics:
        """Return the statistics of now."""
        given, cores = self._scheduler.cores()
        return Statistics(
            queued=self._scheduler.waiting,
            running=self._scheduler.running,
            done=sum(self._ended),
            failed=0,
            cancelled=0,
            results_waiting=0,
            given=given,
            cores=cores,
        )

    def kinds(self) -> list[CallKindNow]:
        """Return the tasks by function and cores."""
        running = [
            (self._calls[task.id][2], task.started)
            for worker in self._scheduler.workers.values()
            for task in worker.tasks.values()
        ]
        return self._kinds.now(running, {}, self._now)
