"""A cluster in virtual time, for tests of `grain scale --auto`: a queue of jobs, workers, tasks.

It goes in steps of `STEP` seconds, as `grain scale` looks at things: jobs start, workers join, end
tasks and take new ones, and leave; then the scaler decides. What it submits waits for a time that
the test chooses.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grain.cli.batch import JobPhase, JobState
from grain.cli.batch.tracked import SETTLED
from grain.cli.scaling.model import CurrentWorker, Decision, Situation, TaskClass, WorkerShape
from grain.resource import Cores, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grain.cli.scaling.scaler import Scaler

STEP = 15.0


@dataclass
class VirtualTask:
    """A task: its cores, its duration, and times in seconds."""

    cores: int
    seconds: float
    submitted: float
    ended: float | None = None


@dataclass
class VirtualJob:
    """A job and its worker."""

    id: str
    shape: str
    starts: float
    walltime: float
    phase: JobPhase = JobPhase.PENDING
    began: float = math.inf
    cancelled: bool = False
    draining: bool = False
    fails: bool = False
    lost: bool = False
    in_doubt: float = -math.inf
    idle_since: float = 0.0
    tasks: list[tuple[VirtualTask, float]] = field(default_factory=list)


class VirtualCluster:
    """Jobs, workers and tasks.

    Args:
        scaler: decides.
        shapes: the sorts of workers, by name.
        delay: returns the seconds that a job waits in the queue.
        fails: returns True if the next job is to fail at once.
        drain: the seconds before its end from which on a worker takes no more tasks.
        doubt: returns "there" or "absent" if the next submission has no answer, and whether
            there is a job all the same; empty if all is well.

    Attributes:
        now: the time, in seconds.
        submissions: the times of all submissions.
        reasons: all reasons that were given.
    """

    def __init__(
        self,
        scaler: Scaler,
        shapes: Iterable[WorkerShape],
        delay: Callable[[], float],
        fails: Callable[[], bool] = lambda: False,
        doubt: Callable[[], str] = lambda: "",
        drain: float = 0.0,
    ) -> None:
        self.scaler = scaler
        self.shapes = {shape.name: shape for shape in shapes}
        self.delay = delay
        self.fails = fails
        self.doubt = doubt
        self.drain = drain
        self.now = 0.0
        self.jobs: dict[str, VirtualJob] = {}
        self.waiting: dict[int, deque[VirtualTask]] = {}
        self.ended: list[VirtualTask] = []
        self.means: dict[int, deque[float]] = {}
        self.submissions: list[float] = []
        self.failures = 0
        self.walltimes = 0
        self.core_seconds = 0.0
        self.longest_idle = 0.0
        self.reasons: list[str] = []

    def submit(self, cores: int, seconds: float) -> VirtualTask:
        """Submit a task."""
        task = VirtualTask(cores, seconds, self.now)
        self.waiting.setdefault(cores, deque()).append(task)
        return task

    @property
    def alive(self) -> list[VirtualJob]:
        """The jobs that wait or run."""
        return [job for job in self.jobs.values() if job.phase is not JobPhase.GONE]

    @property
    def running(self) -> list[VirtualJob]:
        """The jobs that run."""
        return [job for job in self.jobs.values() if job.phase is JobPhase.RUNNING]

    def step(self, *, answers: bool = True, scheduler: bool = True) -> Decision:
        """Let `STEP` seconds pass, and let the scaler decide.

        Args:
            answers: False if the batch system does not answer.
            scheduler: False if no scheduler answers.
        """
        self.now += STEP
        self._start_jobs()
        self._end_tasks()
        self._end_jobs()
        self._start_tasks()
        decision = Decision()
        if answers:
            decision = self.scaler.decide(self.view(scheduler=scheduler), self.now)
            self._obey(decision)
        return decision

    def view(self, *, scheduler: bool = True) -> Situation:
        """Return what a scaler sees."""
        states = {
            one: JobState(JobPhase.UNKNOWN)
            if self.now < self.jobs[one].in_doubt
            else JobState(self.jobs[one].phase, "", "n1" if self.jobs[one].fails else "n2")
            for one in self.scaler.jobs
        }
        if not scheduler:
            return Situation((), None, states)
        running: Counter[int] = Counter()
        elapsed: Counter[int] = Counter()
        for job in self.running:
            for task, end in job.tasks:
                running[task.cores] += 1
                elapsed[task.cores] += int(task.seconds - (end - self.now))
        classes = []
        for cores in sorted(self.waiting.keys() | running.keys()):
            means = self.means.get(cores, ())
            mean = sum(means) / len(means) if len(means) >= 3 else None
            count = len(self.waiting.get(cores, ()))
            if count or running[cores]:
                classes.append(
                    TaskClass(
                        Cores(cores),
                        f"Cores({cores})",
                        count,
                        running[cores],
                        float(elapsed[cores]),
                        mean,
                    )
                )
        workers = [self._worker(job) for job in self.running if not job.lost]
        return Situation(classes, workers, states)

    def _worker(self, job: VirtualJob) -> CurrentWorker:
        total = self.shapes[job.shape].total
        cores = total.get(Cores)
        assert isinstance(cores, Cores)
        used = sum(task.cores for task, _ in job.tasks)
        rest = Memory(64) if total.get(Memory) is not None else None
        free = Cores(cores.N - used)
        return CurrentWorker(
            f"id-{job.id}",
            f"w{job.id}",
            total,
            free if rest is None else free & rest,
            job.began + job.walltime - self.now,
            len(job.tasks),
            0.0 if job.tasks else self.now - job.idle_since,
            job.draining,
            "",
            job.id,
        )

    def _start_jobs(self) -> None:
        for job in self.alive:
            if job.phase is JobPhase.PENDING and job.starts <= self.now:
                job.phase = JobPhase.RUNNING
                job.began = job.idle_since = self.now

    def _end_tasks(self) -> None:
        for job in self.running:
            left = [(task, end) for task, end in job.tasks if end > self.now]
            for task, end in job.tasks:
                if end <= self.now:
                    task.ended = end
                    self.ended.append(task)
                    self.means.setdefault(task.cores, deque(maxlen=100)).append(task.seconds)
            if job.tasks and not left:
                job.idle_since = self.now
            job.tasks = left

    def _end_jobs(self) -> None:
        for job in self.running:
            if job.fails:
                job.phase = JobPhase.GONE
                self.failures += 1
                continue
            end = job.began + job.walltime
            job.draining |= self.now >= end - self.drain
            if self.now >= end:
                self.walltimes += 1
                self._end(job)
            elif job.draining and not job.tasks:
                self.walltimes += self.now >= end - self.drain
                self._end(job)

    def _end(self, job: VirtualJob) -> None:
        job.phase = JobPhase.GONE
        self.core_seconds += (self.now - job.began) * self.shapes[job.shape].cores
        for task, _ in job.tasks:
            self.waiting.setdefault(task.cores, deque()).appendleft(task)
        if not job.tasks:
            self.longest_idle = max(self.longest_idle, self.now - job.idle_since)
        job.tasks = []

    def _start_tasks(self) -> None:
        for job in self.running:
            if job.draining or job.lost or job.fails:
                continue
            free = self.shapes[job.shape].cores - sum(task.cores for task, _ in job.tasks)
            for cores in sorted(self.waiting, reverse=True):
                while cores <= free and self.waiting[cores]:
                    task = self.waiting[cores].popleft()
                    job.tasks.append((task, self.now + task.seconds))
                    free -= cores

    def _obey(self, decision: Decision) -> None:
        self.reasons += [*decision.news, *(one.why for one in decision.submit)]
        self.reasons += [cancel.why for cancel in decision.cancel]
        self.reasons += [release.why for release in decision.release]
        for submit in decision.submit:
            for _ in range(submit.number):
                one = str(len(self.jobs) + 1)
                shape = self.shapes[submit.shape]
                job = VirtualJob(one, submit.shape, self.now + self.delay(), shape.seconds)
                job.fails = self.fails()
                self.jobs[one] = job
                self.submissions.append(self.now)
                doubt = self.doubt()
                self.scaler.submitted(submit.shape, one, self.now, doubtful=bool(doubt))
                if doubt:
                    job.in_doubt = self.now + SETTLED
                    self.scaler.refused(submit.shape, self.now)
                    if doubt == "absent":
                        job.phase = JobPhase.GONE
                        self.failures += 1
                    break
        for cancel in decision.cancel:
            job = self.jobs[cancel.job]
            if job.phase is JobPhase.PENDING:
                job.phase = JobPhase.GONE
            elif not job.lost:
                self._end(job)
            job.cancelled = True
            self.scaler.cancelled(cancel.job, self.now)
        for release in decision.release:
            self.jobs[release.job].draining = True
            self.scaler.released(release.job, self.now)
