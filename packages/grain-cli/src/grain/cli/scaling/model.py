"""The decisions of `grain scale --auto`, and the data that they are made from. Values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from grain.resource import ZERO, Cores, GPUs, Opaque, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grain.cli.batch import JobState

WORTH = 600.0
"""Seconds of work for which a worker is worth it, while it is unknown how fast workers come."""

OF_EACH = frozenset({"Host"})
"""The kinds that the workers of a shape do not have in common, and of which nothing is used up."""

CHARGE_OF_GPU = 16.0
"""The charge of a GPU where none is configured, in cores."""


def count_of(kind: type[Cores | GPUs], resource: Resource) -> float:
    """Return the number of cores or GPUs in a resource."""
    part = resource.get(kind)
    return part.amount if isinstance(part, Cores | GPUs) else 0


def without(resource: Resource, kinds: frozenset[str]) -> Resource:
    """Return a resource without some of its kinds."""
    rest = ZERO
    for kind, part in resource.parts().items():
        if kind not in kinds:
            rest = rest & part
    return rest


@dataclass(frozen=True)
class WorkerShape:
    """A sort of worker that can be submitted.

    Attributes:
        total: what such a worker has, as far as it is known; without its time.
        unknown: the kinds that it has in unknown amounts, until the first worker joins.
        seconds: the time that it has for tasks; ``math.inf`` if it is not known.
        charge: what one costs, where that is configured.
        interpreter: its interpreter, as hubs name them; None before the first has joined.
        worth: the seconds of work for which a new one is worth it.
        nodes: how many such workers a job has. All other fields are of one of them, but for `most`.
    """

    name: str
    total: Resource
    unknown: frozenset[str] = frozenset()
    seconds: float = math.inf
    most: float = math.inf
    charge: float | None = None
    interpreter: str | None = None
    worth: float = WORTH
    nodes: int = 1

    @property
    def gpus(self) -> float:
        """The number of GPUs of such a worker."""
        return count_of(GPUs, self.total)

    @property
    def cores(self) -> float:
        """The number of cores of such a worker, at least 1."""
        return max(count_of(Cores, self.total), 1)

    @property
    def cost(self) -> float:
        """The charge for such a worker while it runs, in cores unless one is configured."""
        return self.charge or self.cores + CHARGE_OF_GPU * self.gpus


class TaskAlternative(NamedTuple):
    """A further alternative of tasks; see `TaskClass`."""

    space: Resource
    need: float
    members: int = 1
    one_job: bool = False


@dataclass(frozen=True)
class TaskClass:
    """Tasks that ask for the same.

    Attributes:
        space: what each asks for, without its time limit; of alternatives the first one.
        ask: the whole request as a user writes it.
        elapsed: the seconds that those have run, together.
        mean: the mean duration of such tasks, in seconds; None if too few have ended.
        need: the seconds that a worker must have left.
        interpreter: the interpreter that they need; empty if any will do.
        others: the further alternatives: what each asks for, and the seconds that it needs.
        members: how many workers each task takes at once; `space` is of one of them.
        one_job: True if these must be of one job.
    """

    space: Resource
    ask: str
    waiting: int = 0
    running: int = 0
    elapsed: float = 0.0
    mean: float | None = None
    need: float = 0.0
    interpreter: str = ""
    others: tuple[TaskAlternative, ...] = ()
    members: int = 1
    one_job: bool = False

    def alternatives(self) -> Iterator[TaskClass]:
        """Yield the class once for each alternative, as if its tasks asked for only that."""
        yield self
        for other in self.others:
            yield replace(self, **other._asdict())

    @property
    def opaque(self) -> frozenset[str]:
        """The kinds of the request that have no class here."""
        parts = self.space.parts()
        return frozenset(kind for kind, part in parts.items() if isinstance(part, Opaque))


@dataclass(frozen=True)
class CurrentWorker:
    """A worker that is with the scheduler.

    Attributes:
        total: what it has, without its time.
        left: the seconds that remain; ``math.inf`` without a limit.
        idle: the seconds since the last one ended; 0 while one runs.
        job: the id of its job; None if `grain scale` did not submit it.
        batch_job: its job as the scheduler knows it; empty if it is in none.
    """

    id: str
    name: str
    total: Resource
    free: Resource
    left: float = math.inf
    running: int = 0
    idle: float = 0.0
    draining: bool = False
    interpreter: str = ""
    job: str | None = None
    batch_job: str = ""


class Situation(NamedTuple):
    """The state of tasks, workers and jobs at one moment.

    Attributes:
        classes: what tasks ask for; empty if no scheduler answers.
        workers: the workers with the scheduler; None if no scheduler answers.
        states: the states of the jobs, by id, as the batch system reports them.
    """

    classes: Sequence[TaskClass]
    workers: Sequence[CurrentWorker] | None
    states: Mapping[str, JobState]


class SubmitJobs(NamedTuple):
    """Submit workers."""

    shape: str
    number: int
    why: str
    avoid: tuple[str, ...] = ()


class CancelJob(NamedTuple):
    """Cancel a job."""

    job: str
    why: str


class DrainWorker(NamedTuple):
    """Let an idle worker go."""

    worker: str
    job: str
    why: str


class Decision(NamedTuple):
    """The steps to take now.

    Attributes:
        news: what has happened, a line each.
    """

    submit: Sequence[SubmitJobs] = ()
    cancel: Sequence[CancelJob] = ()
    release: Sequence[DrainWorker] = ()
    news: Sequence[str] = ()
