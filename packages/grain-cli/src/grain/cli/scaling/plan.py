"""The workers that tasks need, and the workers that are worth it: rules 1 and 2. Pure functions.

The share of a task is the largest part of a worker that it takes of any kind; its work is its share
times its duration, so the work of a worker is its time. For tasks that ask only for cores, that is
cores times duration over the cores of a worker.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.scaling.model import CurrentWorker, TaskClass, WorkerShape, count_of
from grain.cli.scaling.room import MOST, Room, empty, fill, share, why_never
from grain.resource import Cores, GPUs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class AskedFor(NamedTuple):
    """A worker that was asked for and is not here yet: its job waits, or has just begun."""

    job: str
    shape: str


class Impossible(NamedTuple):
    """Tasks that no worker can ever run.

    Attributes:
        reasons: a clause for each shape, by its name.
    """

    ask: str
    waiting: int
    reasons: dict[str, str]


class PlannedWorkers(NamedTuple):
    """The tasks of a class for which workers of a shape are wanted.

    Attributes:
        seconds: the work of the tasks that wait, as the time of one worker.
        known: False if too few such tasks have ended, and the work is a guess.
    """

    ask: str
    waiting: int
    seconds: float
    known: bool = True


@dataclass
class WorkerPlan:
    """The workers that tasks need.

    Attributes:
        needed: new jobs, by shape.
        worth: new jobs that have enough to do, by shape.
        due: the jobs that are submitted anyway, by shape, as tasks have too few workers and jobs.
        jobs: the jobs that are needed, of the jobs asked for.
        workers: the ids of the workers that have room for waiting tasks.
        reasons: the tasks for which workers of a shape are wanted, those with the most work first.
    """

    needed: dict[str, int] = field(default_factory=dict)
    worth: dict[str, int] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)
    impossible: list[Impossible] = field(default_factory=list)
    reasons: dict[str, list[PlannedWorkers]] = field(default_factory=dict)


class _Fit(NamedTuple):
    """A shape on which a class fits.

    Attributes:
        number: how many parts of its tasks a job takes at a time.
        share: the share of each in a worker.
    """

    shape: WorkerShape
    number: int
    share: float


def horizon(shape: WorkerShape) -> float:
    """Return the seconds for which a new worker should have work: half of its walltime at most."""
    return min(shape.worth, shape.seconds / 2)


class Planning:
    """A plan in the making.

    Args:
        asked_for: those that are not here yet, the oldest job first.
        room: how many more there may be of each shape.
        shape_of: the shapes of the workers that are here, by their ids; without those of others.
    """

    def __init__(
        self,
        workers: Sequence[CurrentWorker],
        asked_for: Sequence[AskedFor],
        shapes: Sequence[WorkerShape],
        room: Mapping[str, int],
        shape_of: Mapping[str, str],
    ) -> None:
        by_name = {shape.name: shape for shape in shapes}
        self._shapes = shapes
        self._workers = workers
        self._asked_for = asked_for
        self._room = dict(room)
        self._shape_of = {worker.id: shape_of.get(worker.id) for worker in workers}
        self._here = [
            (worker, Room(worker.free, worker.left, interpreter=worker.interpreter))
            for worker in workers
            if not worker.draining
        ]
        self._coming = [(one, by_name[one.shape], _job(by_name[one.shape])) for one in asked_for]
        self._new: list[tuple[WorkerShape, list[Room]]] = []
        self._work = {shape.name: 0.0 for shape in shapes}
        self.plan = WorkerPlan(needed={shape.name: 0 for shape in shapes})

    def result(self, classes: Iterable[TaskClass]) -> WorkerPlan:
        """Return what tasks need."""
        fitting = [self._chosen(one) for one in classes]
        for one, fits in fitting:
            if fits:
                self._count_work(one, fits[0])
            elif one.waiting and not self._runs_here(one):
                reasons = {
                    shape.name: ", and ".join(why_never(way, shape) for way in one.alternatives())
                    for shape in self._shapes
                }
                self.plan.impossible.append(Impossible(one.ask, one.waiting, reasons))
        possible = [(one, fits) for one, fits in fitting if fits and one.waiting]
        for one, fits in sorted(possible, key=lambda pair: -pair[1][0].share):
            self._place(one, fits)
        for shape in self._shapes:
            self.plan.worth[shape.name] = self._worth(shape)
            self.plan.reasons.setdefault(shape.name, []).sort(key=lambda part: -part.seconds)
        return self.plan

    def _chosen(self, one: TaskClass) -> tuple[TaskClass, list[_Fit]]:
        """Return a class by the alternative that counts, with the shapes on which that fits.

        It is the first that a worker could serve, whether it is here or could be submitted: the
        tasks prefer it, and more workers make room for it.
        """
        for way in one.alternatives():
            fits = self._fits(way)
            if fits or self._runs_here(way):
                return way, fits
        return one, []

    def _fits(self, one: TaskClass) -> list[_Fit]:
        """Return the shapes on which a class fits, the one to prefer first.

        Tasks without GPUs go to workers with some only where no others would do.
        """
        fits = []
        for shape in self._shapes:
            count = empty(shape).take(one, MOST)
            if count and not (one.one_job and one.members > shape.nodes):
                number = count * shape.nodes
                if one.members > 1:
                    number = fill(_job(shape), one, one.waiting * one.members) or number
                fits.append(_Fit(shape, number, share(one, shape, count)))
        if not count_of(GPUs, one.space):
            fits = [fit for fit in fits if not fit.shape.gpus] or fits
        return sorted(fits, key=lambda fit: fit.shape.cost * fit.shape.nodes / fit.number)

    def _runs_here(self, one: TaskClass, spared: bool = False) -> bool:
        """Return True if a worker that is here can run a class when it is empty."""
        return not self._lacking(one, spared=spared, coming=False)

    def _lacking(self, one: TaskClass, *, spared: bool, coming: bool) -> int:
        """Return how many more workers a task of a class needs to run when all others have ended.

        Args:
            spared: True to leave out workers with GPUs.
            coming: True to count also workers that are submitted and not there yet.
        """
        found = Counter(
            worker.batch_job or worker.id if one.one_job else ""
            for worker, _ in self._here
            if not (spared and count_of(GPUs, worker.total))
            and Room(worker.total, worker.left, interpreter=worker.interpreter).take(one, 1)
        )
        for asked, shape, _ in self._coming if coming else ():
            if not (spared and shape.gpus) and empty(shape).take(one, 1):
                found[f"job {asked.job}" if one.one_job else ""] += shape.nodes
        most = max(found.values(), default=0)
        if most >= one.members:
            return 0
        return one.members if one.one_job else one.members - most

    def _count_work(self, one: TaskClass, fit: _Fit) -> None:
        """Add the work of a class to that of the shape that it prefers."""
        mean = horizon(fit.shape) if one.mean is None else one.mean
        # The time that has passed is counted by parts already.
        waiting = one.waiting * one.members * mean * fit.share
        running = max(one.running * one.members * mean - one.elapsed, 0.0) * fit.share
        self._work[fit.shape.name] += waiting + running
        if one.waiting:
            part = PlannedWorkers(one.ask, one.waiting, waiting, one.mean is not None)
            self.plan.reasons.setdefault(fit.shape.name, []).append(part)

    def _place(self, one: TaskClass, fits: list[_Fit]) -> None:
        """Put the waiting tasks of a class into the room that there is, then into new workers."""
        left = one.waiting * one.members
        # Where others will do, workers with GPUs do not count for tasks without.
        spared = not count_of(GPUs, one.space) and not fits[0].shape.gpus
        jobs: dict[str, list[tuple[CurrentWorker, Room]]] = {}
        for worker, room in self._here:
            if not (spared and count_of(GPUs, worker.total)):
                job = worker.batch_job if one.one_job else ""
                jobs.setdefault(job or worker.id, []).append((worker, room))
        for members in jobs.values():
            before = [room.taken for _, room in members]
            left -= fill([room for _, room in members], one, left)
            self.plan.workers |= {
                worker.id
                for (worker, room), taken in zip(members, before, strict=True)
                if room.taken > taken
            }
        for asked, shape, rooms in self._coming:
            if not (spared and shape.gpus) and (count := fill(rooms, one, left)):
                left -= count
                self.plan.jobs.add(asked.job)
        if not left:
            return
        if lacking := self._lacking(one, spared=spared, coming=True):
            chosen = next((f.shape for f in fits if self._room[f.shape.name]), fits[0].shape)
            due = -(-lacking // chosen.nodes)
            self.plan.due[chosen.name] = max(self.plan.due.get(chosen.name, 0), due)
        for shape, rooms in self._new:
            if not (spared and shape.gpus):
                left -= fill(rooms, one, left)
        for fit in fits:
            left -= self._open(one, fit, left)

    def _open(self, one: TaskClass, fit: _Fit, left: int) -> int:
        """Put parts of tasks into new jobs of a shape, as many as there may be; return how many."""
        name = fit.shape.name
        count = min(-(-left // fit.number), self._room[name])
        if count <= 0:
            return 0
        self._room[name] -= count
        self.plan.needed[name] += count
        placed = min(left, count * fit.number)
        full = _job(fit.shape)
        fill(full, one, fit.number)
        self._new += [(fit.shape, [room.copy() for room in full]) for _ in range(count - 1)]
        last = _job(fit.shape)
        fill(last, one, placed - (count - 1) * fit.number)
        self._new.append((fit.shape, last))
        return placed

    def _worth(self, shape: WorkerShape) -> int:
        """Return how many new jobs have enough to do."""
        seconds = horizon(shape)
        supply = 0.0
        for worker in self._workers:
            if self._attributed(worker) != shape.name:
                continue
            size = count_of(Cores, worker.total) / shape.cores if worker.total.get(Cores) else 1.0
            part = _used(worker) if worker.draining else 1.0
            supply += size * part * min(worker.left, seconds)
        of_job = seconds * shape.nodes
        supply += of_job * sum(one.shape == shape.name for one in self._asked_for)
        # A rounding error is not a worker.
        return max(math.ceil((self._work[shape.name] - supply) / of_job - 1e-9), 0)

    def _attributed(self, worker: CurrentWorker) -> str:
        """Return the shape whose tasks a worker runs: its own, or that which is most like it."""
        if (own := self._shape_of[worker.id]) is not None:
            return own
        gpus = bool(count_of(GPUs, worker.total))
        alike = [shape for shape in self._shapes if bool(shape.gpus) == gpus] or self._shapes
        cores = count_of(Cores, worker.total)
        return min(alike, key=lambda shape: abs(shape.cores - cores)).name


def _job(shape: WorkerShape) -> list[Room]:
    """Return the rooms of a new job."""
    return [empty(shape) for _ in range(shape.nodes)]


def _used(worker: CurrentWorker) -> float:
    """Return the part of a worker that is in use."""
    if not worker.running:
        return 0.0
    if worker.total.get(Cores) is None or worker.free.get(Cores) is None:
        return 1.0
    return 1 - count_of(Cores, worker.free) / max(count_of(Cores, worker.total), 1)
