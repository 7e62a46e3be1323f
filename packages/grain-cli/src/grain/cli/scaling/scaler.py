"""`Scaler`: how many workers of which shape to submit, cancel and let go, by demand."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from grain.cli.batch import WAITING, JobPhase
from grain.cli.scaling.model import (
    OF_EACH,
    WORTH,
    CancelJob,
    CurrentWorker,
    Decision,
    DrainWorker,
    SubmitJobs,
    without,
)
from grain.cli.scaling.patience import Patience
from grain.cli.scaling.plan import AskedFor, Impossible, Planning, WorkerPlan, horizon
from grain.cli.scaling.pool import JobPool, proven_after
from grain.resource.figures import counted, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grain.cli.batch import JobState
    from grain.cli.scaling.model import Situation, WorkerShape
    from grain.cli.scaling.plan import PlannedWorkers

IDLE = 300.0
"""Seconds for which a worker may be idle before it is let go, at first."""

UNNEEDED = 600.0
"""Seconds for which a job may wait unneeded before it is cancelled, at first."""

LOST = 600.0
"""Seconds for which a job may run without its worker before it is lost."""

SOONEST = 15.0
"""Seconds of work, at least, for which a worker is worth it: those between two decisions."""

UNPROVEN = 4
"""Jobs of a shape that there may be until its first worker has joined."""

IN_A_ROW = 2
"""Failures in a row that a node may not have."""

_AGAIN = 120.0  # seconds after which a job that is still there is cancelled again


@dataclass
class _Job:
    """A job that counts.

    Attributes:
        submitted: when it was submitted; None if that was before this process began.
        apart_since: when it was first seen to run without its worker, without a break since.
        unneeded_since: when it was first not needed, without a break since.
        lost: True while its place is given away.
        leaves: True once its workers take no more tasks; its place is given away, too.
        doubtful: True while it is unknown whether the batch system has it.
    """

    id: str
    shape: str
    submitted: float | None
    phase: JobPhase = JobPhase.PENDING
    node: str = ""
    apart_since: float | None = None
    unneeded_since: float | None = None
    lost: bool = False
    leaves: bool = False
    cancelled_at: float = -math.inf
    released: bool = False
    doubtful: bool = False


class NodeWatch:
    """The nodes that jobs of a shape ran on, and those to be avoided: rule 7."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        self._avoided: list[str] = []

    @property
    def avoided(self) -> tuple[str, ...]:
        """The nodes to be avoided, in the order of their last failures."""
        return tuple(self._avoided)

    def on_failed(self, node: str) -> bool:
        """Note that a job failed soon after its start; return True if its node is avoided now."""
        if not node or node in self._avoided:
            return False
        self._failures[node] = self._failures.get(node, 0) + 1
        if self._failures[node] < IN_A_ROW:
            return False
        self._avoided.append(node)
        return True

    def on_proven(self, node: str) -> None:
        """Note that a job has run there for a while."""
        self._failures.pop(node, None)


class _Sort:
    """A shape with its jobs, its failures, and the facts that were learnt of it.

    Args:
        idle: the configured seconds for which its workers may be idle; None to learn them.
        worth: the configured seconds of work for which one is worth it; None to learn them.
    """

    def __init__(
        self, shape: WorkerShape, most: int, idle: float | None, worth: float | None
    ) -> None:
        self.shape = shape if worth is None else replace(shape, worth=worth)
        self._delays: deque[float] | None = deque(maxlen=10) if worth is None else None
        self.most = min(shape.most, most)
        self.pool = JobPool(most, proven_after(shape.seconds))
        self.nodes = NodeWatch()
        self.joined = False
        self.idle = Patience(IDLE if idle is None else idle, fixed=idle is not None)
        self.unneeded = Patience(UNNEEDED)

    def learn(self, worker: CurrentWorker, delay: float | None) -> None:
        """Take what a worker of this shape really has for what they all have.

        Args:
            delay: the seconds from its submission until it had joined, if they are known. A worker
                is worth it for as much work as it takes to come: so a burst of tasks takes at most
                twice as long as if all workers had been submitted that it needs. A worker that
                comes sooner than usual shows that nodes are idle, and that others would, too.
        """
        self.joined = True
        if self._delays is not None and delay is not None:
            self._delays.append(delay)
            worth = min(max(min(median(self._delays), delay), SOONEST), WORTH)
            self.shape = replace(self.shape, worth=worth)
        seconds = self.shape.seconds
        self.shape = replace(
            self.shape,
            total=without(worker.total, OF_EACH),
            unknown=self.shape.unknown & OF_EACH,
            interpreter=worker.interpreter,
            seconds=worker.left if seconds == math.inf else seconds,
        )


class Scaler:
    """The decisions on the workers of each shape: to submit, cancel and let go.

    Args:
        shapes: the sorts of workers, at least one.
        idle: the seconds for which a worker may be idle; None to begin with `IDLE` and learn.
        worth: the seconds of work for which a worker is worth it; None to begin with `WORTH` and
            learn.

    Attributes:
        impossible: the waiting tasks that no shape can ever run, by the last look.
    """

    def __init__(
        self,
        shapes: Sequence[WorkerShape],
        *,
        least: int = 0,
        most: int,
        idle: float | None = None,
        worth: float | None = None,
    ) -> None:
        self._sorts = {shape.name: _Sort(shape, most, idle, worth) for shape in shapes}
        self._least = least
        self._most = most
        self._jobs: dict[str, _Job] = {}
        self._seen: set[str] = set()  # the workers that have joined
        self.impossible: list[Impossible] = []

    @property
    def jobs(self) -> list[str]:
        """The ids of the jobs whose states are wanted."""
        return [one for sort in self._sorts.values() for one in sort.pool.jobs]

    @property
    def alive(self) -> int:
        """The number of jobs that wait or run, are not lost, and have not stopped taking tasks."""
        return sum(not (job.lost or job.leaves) for job in self._jobs.values())

    def shape_of(self, job: str) -> str:
        """Return the name of a job's shape."""
        return self._jobs[job].shape

    # ---- what was done

    def adopted(self, shape: str, job: str, now: float, *, doubtful: bool = False) -> None:
        """Count a job left by an earlier run; an unknown shape counts as the first."""
        name = shape if shape in self._sorts else next(iter(self._sorts))
        self._count(name, job, now, doubtful, submitted=None)

    def submitted(self, shape: str, job: str, now: float, *, doubtful: bool = False) -> None:
        """Count a job that the batch system has accepted.

        Args:
            doubtful: True if it may not have been accepted: that it is gone is not a failure.
        """
        sort = self._sorts[shape]
        self._count(shape, job, now, doubtful, submitted=now)
        sort.idle.on_submitted(now)
        sort.unneeded.on_submitted(now)

    def _count(
        self, shape: str, job: str, now: float, doubtful: bool, submitted: float | None
    ) -> None:
        pool = self._sorts[shape].pool
        pool.submitted([job], now)
        self._jobs[job] = _Job(job, shape, submitted, doubtful=doubtful)
        if doubtful:
            pool.excuse(job)

    def refused(self, shape: str, now: float) -> None:
        """Begin a pause, as the batch system has refused a job."""
        self._sorts[shape].pool.refused(now)

    def cancelled(self, job: str, now: float) -> None:
        """Note that a job was cancelled: its end is not a failure."""
        if (one := self._jobs.get(job)) is not None:
            one.cancelled_at = now
            sort = self._sorts[one.shape]
            sort.pool.excuse(job)
            if one.phase is JobPhase.PENDING and not one.lost:
                sort.unneeded.on_ended(now)

    def released(self, job: str, now: float) -> None:
        """Note that the worker of a job was let go: its end is not a failure."""
        if (one := self._jobs.get(job)) is not None:
            one.released = True
            self._sorts[one.shape].pool.excuse(job)
            self._sorts[one.shape].idle.on_ended(now)

    # ---- decisions

    def decide(self, view: Situation, now: float) -> Decision:
        """Return what to do now.

        The caller reports what it has done of it.
        """
        news = self._look(view.states, now)
        news += self._look_at_workers(view.workers, now)
        workers = view.workers or ()
        mine = {worker.id: worker for worker in workers if worker.job in self._jobs}
        here = {worker.job for worker in mine.values()}
        asked_for = [
            AskedFor(job.id, job.shape)
            for job in self._jobs.values()
            if job.id not in here and _is_active(job) and job.phase is not JobPhase.STUCK
        ]
        room = {name: self._room(sort, now) for name, sort in self._sorts.items()}
        planned = Planning(
            workers,
            asked_for,
            [sort.shape for sort in self._sorts.values()],
            {name: max(count, 0) for name, count in room.items()},
            {worker.id: self._jobs[worker.job].shape for worker in mine.values() if worker.job},
        ).result(view.classes)
        self.impossible = planned.impossible
        submit = self._submissions(planned, room)
        lost = [
            CancelJob(job.id, f"it runs without its worker for {span(LOST)}, and is lost")
            for job in self._jobs.values()
            if job.lost and job.cancelled_at == -math.inf
        ]
        stuck = [
            CancelJob(one, f"it would never start: {view.states[one].reason or 'no reason given'}")
            for sort in self._sorts.values()
            for one in sort.pool.stuck
            if now - self._jobs[one].cancelled_at > _AGAIN
        ]
        spare = sum(_is_active(job) and not job.doubtful for job in self._jobs.values())
        spare -= self._least
        cancel = self._cancellations(planned, spare, now)
        release = self._releases(planned, mine.values(), spare - len(cancel))
        return Decision(submit, [*lost, *stuck, *cancel], release, news)

    def _look(self, states: Mapping[str, JobState], now: float) -> list[str]:
        """Record the states of the jobs; return what happened to them."""
        news: list[str] = []
        for one, state in states.items():
            job = self._jobs.get(one)
            if job is None or state.phase is JobPhase.UNKNOWN:
                continue
            job.node = state.node or job.node
            if state.phase is not JobPhase.GONE:
                job.phase = state.phase
                job.doubtful = False
            if state.phase in WAITING:
                job.lost = False
        for name, sort in self._sorts.items():
            unproven = sort.pool.unproven
            failed = sort.pool.look(states, now)
            for one in unproven - sort.pool.unproven - set(failed):
                sort.nodes.on_proven(self._jobs[one].node)
            news += self._failures(name, sort, failed, now)
            for one in [one for one, job in self._jobs.items() if job.shape == name]:
                if one not in sort.pool:
                    del self._jobs[one]
        return news

    def _failures(self, name: str, sort: _Sort, failed: list[str], now: float) -> list[str]:
        """Note failures; return a line on them, and one for each node that is avoided now."""
        at_once = [one for one in failed if one not in sort.pool.stuck]
        if not at_once:
            return []
        which = f"{len(at_once)} {name} failed at once ({', '.join(at_once)})"
        pause = span(sort.pool.pause(now))
        news = [f"{which}, see `grain logs`; nothing of it is submitted for {pause}"]
        news += [
            f"two jobs in a row failed on {self._jobs[one].node}, which is avoided from now on"
            for one in at_once
            if sort.nodes.on_failed(self._jobs[one].node)
        ]
        return news

    def _look_at_workers(self, workers: Sequence[CurrentWorker] | None, now: float) -> list[str]:
        """Handle the workers with the scheduler; return which jobs are lost or found again."""
        news: list[str] = []
        here = {worker.job for worker in workers or ()}
        if workers is not None:
            self._look_at_leaving(workers)
        for worker in workers or ():
            job = self._jobs.get(worker.job or "")
            if job is None:
                continue
            job.doubtful = False
            if worker.id not in self._seen:
                self._seen.add(worker.id)
                delay = None if job.submitted is None else now - job.submitted
                self._sorts[job.shape].learn(worker, delay)
        for job in self._jobs.values():
            runs = job.phase in {JobPhase.RUNNING, JobPhase.ENDING}
            if workers is None or not runs or job.id in here:
                # Without a scheduler's answer, it is unknown where its worker is.
                job.apart_since = None
                job.lost = job.lost and job.id not in here
            elif job.apart_since is None:
                job.apart_since = now
            elif now - job.apart_since >= LOST and not (job.lost or job.released):
                job.lost = True
                where = f" on {job.node}" if job.node else ""
                news.append(
                    f"{job.id}{where} runs, and its worker has not been with the scheduler for "
                    f"{span(LOST)}: its place is given away"
                )
        return news

    def _look_at_leaving(self, workers: Sequence[CurrentWorker]) -> None:
        """Note the jobs whose workers take no more tasks: their successors may come."""
        serving: dict[str, bool] = {}
        for worker in workers:
            if worker.job is not None:
                serving[worker.job] = serving.get(worker.job, False) or not worker.draining
        for sort in self._sorts.values():
            sort.pool.look_at_workers(serving)
        for job in self._jobs.values():
            job.leaves = self._sorts[job.shape].pool.leaves(job.id)

    def _room(self, sort: _Sort, now: float) -> int:
        """Return how many more jobs of a shape there may be now, by its own limit."""
        own = [job for job in self._jobs.values() if job.shape == sort.shape.name]
        alive = _occupied(own, sort.most)
        left = int(min(sort.most, self._most)) - alive
        if not sort.joined:
            left = min(left, UNPROVEN - alive)
        return sort.pool.allowed(max(left, 0), now)

    def _submissions(self, planned: WorkerPlan, room: Mapping[str, int]) -> list[SubmitJobs]:
        """Return what to submit: rule 3."""
        left = self._most - _occupied(self._jobs.values(), self._most)
        counts: dict[str, int] = {}
        whys: dict[str, str] = {}
        # Sorts that are due come first: only they can run their tasks. Then the most work comes
        # first.
        order = sorted(
            self._sorts, key=lambda name: (name not in planned.due, -planned.worth[name])
        )
        for name in order:
            worth = min(planned.needed[name], planned.worth[name])
            wanted = max(worth, planned.due.get(name, 0))
            counts[name] = max(min(wanted, room[name], left), 0)
            left -= counts[name]
            parts = planned.reasons[name] or next(filter(None, planned.reasons.values()), [])
            whys[name] = demand(parts) if parts else ""
        missing = self._least - sum(map(_is_active, self._jobs.values())) - sum(counts.values())
        for name in self._sorts:
            more = max(min(missing, room[name] - counts[name], left), 0)
            if more:
                why = f"there are always {self._least}"
                whys[name] = f"{whys[name]}; {why}" if counts[name] else why
            counts[name] += more
            missing -= more
            left -= more
        return [
            SubmitJobs(name, count, whys[name], self._sorts[name].nodes.avoided)
            for name, count in counts.items()
            if count
        ]

    def _cancellations(self, planned: WorkerPlan, spare: int, now: float) -> list[CancelJob]:
        """Return the jobs that were not needed for too long, the youngest first: rule 4."""
        cancel: list[CancelJob] = []
        for job in reversed(list(self._jobs.values())):
            waits = job.phase is JobPhase.PENDING and not job.lost
            if not waits or job.id in planned.jobs:
                job.unneeded_since = None
                continue
            if job.unneeded_since is None:
                job.unneeded_since = now
            patience = self._sorts[job.shape].unneeded.seconds
            due = now - job.unneeded_since >= patience and now - job.cancelled_at > _AGAIN
            if due and len(cancel) < spare:
                cancel.append(CancelJob(job.id, f"nothing has needed it for {span(patience)}"))
        return cancel

    def _releases(
        self, planned: WorkerPlan, mine: Iterable[CurrentWorker], spare: int
    ) -> list[DrainWorker]:
        """Return the workers that were idle for too long, with all others of their job: rule 5."""
        by_job: dict[str, list[CurrentWorker]] = {}
        for worker in mine:
            by_job.setdefault(worker.job or "", []).append(worker)
        idle = {one: min(worker.idle for worker in workers) for one, workers in by_job.items()}
        release: list[DrainWorker] = []
        for one in sorted(by_job, key=lambda one: -idle[one]):
            job, workers = self._jobs[one], by_job[one]
            patience = self._sorts[job.shape].idle.seconds
            leaves = job.released or all(worker.draining for worker in workers)
            busy = any(worker.running or worker.id in planned.workers for worker in workers)
            if idle[one] >= patience and not (leaves or busy) and spare > 0:
                spare -= 1
                why = f"it was idle for {span(idle[one])}"
                release += [DrainWorker(worker.id, one, why) for worker in workers]
        return release

    # ---- texts

    def describe(self, now: float) -> dict[str, Any]:
        """Return how things stand, as plain data."""
        phases: dict[str, Counter[str]] = {name: Counter() for name in self._sorts}
        for job in self._jobs.values():
            phases[job.shape]["lost" if job.lost else job.phase.value] += 1
        return {
            "min": self._least,
            "max": self._most,
            "shapes": [
                {
                    "name": name,
                    "jobs": dict(phases[name]),
                    "max": None if sort.most == math.inf else sort.most,
                    "pause": sort.pool.pause(now),
                    "idle": sort.idle.seconds,
                    "worth": horizon(sort.shape),
                    "avoided": list(sort.nodes.avoided),
                }
                for name, sort in self._sorts.items()
            ],
            "impossible": [one._asdict() for one in self.impossible],
        }


def _is_active(job: _Job) -> bool:
    """Return True if a job has or will have a worker that takes tasks and was not let go."""
    return not (job.lost or job.leaves or job.released or job.cancelled_at > -math.inf)


def _occupied(jobs: Iterable[_Job], most: float) -> int:
    """Return how many places jobs take: one that is lost, or leaves, gives its place away once."""
    given = [job.lost or job.leaves for job in jobs]
    return len(given) - sum(given) + int(max(sum(given) - most, 0))


def demand(parts: Sequence[PlannedWorkers]) -> str:
    """Return the tasks for which workers are wanted: ``31 tasks of Cores(8) wait, 4 h of work``.

    Where the duration of some is a guess, the work is not stated.
    """
    first, *others = parts
    verb = "waits" if first.waiting == 1 and not others else "wait"
    more = sum(part.waiting for part in others)
    also = f" and {more} of other kinds" if more else ""
    waiting = f"{counted(first.waiting, 'task')} of {first.ask}{also} {verb}"
    if not all(part.known for part in parts):
        return f"{waiting}; how long they take is not known yet"
    return f"{waiting}, {span(sum(part.seconds for part in parts))} of work"
